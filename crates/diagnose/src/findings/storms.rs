// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Exits that come so often that they must take much time, where the trace does not show how much.

use super::{Context, step};
use crate::build::{is_halt, permille};
use crate::model::{
    CauseId, Confidence, Culprit, Evidence, EvidenceId, ExitRow, Finding, FindingId, Severity,
    StepId,
};

/// From this many exits of one reason in a second of a vCPU on they are a storm: an exit takes a
/// microsecond and more, so that this is 5 % of its time and more.
const RATE: u64 = 50_000;
/// Fewer exits than this show no rate.
const FEW: u64 = 100;

/// A finding for each reason whose exits without times come in a storm.
pub fn storms(context: &Context<'_>) -> Vec<Finding> {
    if !context.trace.clock_is_ns {
        return Vec::new();
    }
    let untimed = |row: &&ExitRow| row.untimed.saturating_mul(2) > row.count && !is_halt(row);
    let rows = context.vm.exits.iter().filter(untimed);
    rows.filter_map(|row| one(context, row)).collect()
}

fn one(context: &Context<'_>, row: &ExitRow) -> Option<Finding> {
    let per_second = super::per_second(row.untimed, context.trace.span_ns);
    let vcpus = u64::try_from(context.vm.vcpus.len()).unwrap_or(1).max(1);
    if row.untimed < FEW || per_second / vcpus < RATE {
        return None;
    }
    let mut finding = context.finding(FindingId::ExitStorm, 0, CauseId::ExitRate);
    finding.of = Some(row.name.clone());
    finding.severity = Severity::Major;
    let rate = Evidence::new(EvidenceId::StormRate)
        .count("exits", row.untimed)
        .named("reason", &row.name)
        .count("per_second", per_second);
    finding.evidence = vec![rate];
    // How often is shown; that it takes much time is inferred.
    finding.confidence = Confidence::Medium;
    let place = row
        .about
        .iter()
        .find(|of| of.own_ns == 0 && of.exits * 2 > row.untimed);
    let mut about = row.name.clone();
    if let Some((place, at)) = place.and_then(|of| of.value.as_ref().map(|at| (of, at))) {
        let permille = permille(place.exits, row.untimed);
        let kind = if place.kind == "memory" {
            "guest address"
        } else {
            "instruction"
        };
        about = format!("{kind} {at}");
        let of = Evidence::new(EvidenceId::StormPlace).count("exits", place.exits);
        let of = of.permille("share", permille).named("kind", kind);
        finding.evidence.push(of.named("at", at));
        finding.culprits = vec![Culprit {
            kind: "exit".to_owned(),
            name: Some(about.clone()),
            ns: 0,
            permille,
        }];
    }
    finding.next = vec![
        step(StepId::RecordEntries),
        step(StepId::LookAtGuest).named(Some(&about)),
    ];
    Some(finding)
}
