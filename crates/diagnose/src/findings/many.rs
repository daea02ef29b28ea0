// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Exits of many reasons, each of which takes little and all of which take much.
//!
//! Left out: reasons with a finding of their own, and what exits to arm timers took.

use super::{Context, MOST, below, slow, step};
use crate::build::permille;
use crate::model::{
    CauseId, Confidence, Culprit, Evidence, EvidenceId, ExitRow, Finding, FindingId, StepId,
};
use crate::spread::total;

/// From this share of the time of the VM's vCPUs on, in thousandths, all of them are a finding:
/// where one reason's would be severe.
const SHARE: u64 = 100;
/// Reasons that are named.
const NAMED: usize = 4;

/// The finding of all reasons that are below their bound. What they have in common is not shown.
pub fn reasons(context: &Context<'_>) -> Option<Finding> {
    let rows = context.vm.exits.iter().filter(|row| !slow::is_apart(row));
    let mut rows: Vec<(&ExitRow, u64)> = rows.map(|row| (row, own_ns(row))).collect();
    rows.retain(|(_, ns)| *ns > 0 && permille(*ns, context.vcpu_ns()) < slow::SHARE);
    rows.sort_by_key(|(row, ns)| (std::cmp::Reverse(*ns), &row.name));
    let lost_ns = total(rows.iter().map(|(_, ns)| *ns));
    if permille(lost_ns, context.vcpu_ns()) < SHARE {
        return None;
    }
    assert!(rows.len() > 1, "one is below its bound");
    let stopped = rows.iter().filter(|(row, _)| below::is_stopped(row));
    let stopped_ns = total(stopped.map(|(_, ns)| *ns));
    let scheduled = context.vm.waits.is_some();
    let cause = match scheduled && permille(stopped_ns, lost_ns) >= MOST {
        true => CauseId::HostStopped,
        false => CauseId::Handling,
    };
    let mut finding = context.finding(FindingId::SlowExits, lost_ns, cause);
    finding.of = Some("many reasons".to_owned());
    finding.confidence = Confidence::Low;
    let first = || rows.iter().take(NAMED);
    let share = |(row, ns): &(&ExitRow, u64)| {
        Evidence::new(EvidenceId::ExitShare)
            .named("reason", &row.name)
            .count("exits", row.count)
            .ns("mean", ns.checked_div(row.count).unwrap_or(0))
            .ns("max", row.time_ns.max)
    };
    finding.evidence = first().map(share).collect();
    let culprit = |(row, ns): &(&ExitRow, u64)| Culprit {
        kind: "exit".to_owned(),
        name: Some(row.name.clone()),
        ns: *ns,
        permille: permille(*ns, lost_ns),
    };
    finding.culprits = first().map(culprit).collect();
    let worst = first().flat_map(|(row, _)| &row.about);
    let worst = worst.filter_map(|of| of.worst.clone());
    finding.worst = worst.max_by_key(|worst| worst.length_ns);
    let names: Vec<&str> = first().map(|(row, _)| row.name.as_str()).collect();
    let more = if rows.len() > NAMED {
        " and others"
    } else {
        ""
    };
    let names = format!("{}{more}", names.join(", "));
    finding.next = vec![match cause {
        CauseId::HostStopped => step(StepId::LookBelowHost),
        _ => step(StepId::LookAtGuest).named(Some(&names)),
    }];
    Some(finding)
}

/// The exits' own time without those that arm timers.
fn own_ns(row: &ExitRow) -> u64 {
    let timers = row.about.iter().filter(|of| of.kind == "timer");
    row.own_ns.saturating_sub(total(timers.map(|of| of.own_ns)))
}
