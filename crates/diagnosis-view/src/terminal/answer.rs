// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The first lines of a diagnosis: what stalls, whose fault it is, how sure that is, what to do.

use steady_diagnose::{
    Diagnosis, Finding, FindingId, Judged, Judgement, Question, Severity, TraceDiagnosis,
};

use super::fault::fault;
use super::names::with_threads;
use super::{
    evidence_words, host_words, judged_lines, place, share_words, table_words, time, words,
};

/// The first line where nothing is found.
const BELOW: &str = "Nothing above the bounds (1 % of a VM's time, 5 % for an exit reason).";
/// The same where the trace's order is lost.
const UNORDERED: &str = "Not known whether anything stalled.";
/// The same where a clock's unit is not known.
const SHARES_BELOW: &str = "Not known whether a vCPU stood still for long: shares of time are \
                            below the bounds, lengths cannot be judged.";

/// The same where no length of anything is judged in whole.
const UNJUDGED: &str = "Not known whether anything stalled: no wait, and no time of an exit, \
                        could be judged in whole.";

/// The same where a trace was written for a wait that it does not show.
const NOT_SHOWN: &str = "The stall is not shown.";

/// That a trace does not show the wait for which it was written, and what to do.
fn unfound(trace: &TraceDiagnosis) -> Option<String> {
    let unfound = trace.unfound.as_ref()?;
    Some(format!(
        "Not shown: {}. The trace, which is {} long, does not show where that wait began. Do: \
         record with a larger ring (--buffer-kib).",
        unfound.wait,
        time(trace.span_ns)
    ))
}

/// Whether a trace shows in whole only counts, and no length of anything.
fn is_unjudged(trace: &TraceDiagnosis) -> bool {
    let counts = [
        Question::Exits,
        Question::WhoRan,
        Question::PauseLoops,
        Question::PauseCauses,
        Question::Boosts,
        Question::PreemptionMarks,
    ];
    let mut rows = trace.judged.iter();
    let open = |row: &Judgement| counts.contains(&row.question) || row.judged != Judged::Yes;
    trace.table.is_none() && rows.all(open)
}

/// The table that has a limit alone, and not what it does.
const LIMIT: &str = "cpu.max";

/// The finding that the first lines are about.
pub(super) fn answered(diagnosis: &Diagnosis) -> Option<&Finding> {
    let first = diagnosis.findings.first()?;
    let table = table_words::of_table(first, diagnosis);
    (table || first.severity >= Severity::Major).then_some(first)
}

/// The first lines. The first of them has what hurts most, in which VM, whose fault it is and how
/// sure that is; then come why, how much of which VM's time, and what to do.
#[must_use]
pub fn answer_lines(diagnosis: &Diagnosis) -> Vec<String> {
    let Some(finding) = answered(diagnosis) else {
        if diagnosis.traces.iter().all(|trace| trace.table.is_some()) {
            let mut tables = diagnosis.traces.iter().flat_map(|trace| &trace.table);
            let clear = match tables.all(|table| table.tool == LIMIT) {
                true => "No limit of CPU time is set there.",
                false => "Nothing wrong, as far as such tables and logs can show it.",
            };
            return vec![clear.to_owned()];
        }
        let traces = diagnosis.traces.iter();
        let mut lines: Vec<String> = traces.clone().flat_map(host_words::doubts).collect();
        let first = match lines.is_empty() {
            true if traces.clone().any(|trace| trace.unfound.is_some()) => NOT_SHOWN,
            true if traces.clone().all(is_unjudged) => UNJUDGED,
            true => BELOW,
            false if traces.clone().any(|trace| trace.loss.is_unordered()) => UNORDERED,
            false => SHARES_BELOW,
        };
        lines.insert(0, first.to_owned());
        lines.extend(diagnosis.traces.iter().filter_map(unfound));
        let judged = |trace| judged_lines(trace).into_iter().next();
        lines.extend(diagnosis.traces.iter().filter_map(judged));
        return lines;
    };
    let table = table_words::of_table(finding, diagnosis);
    let place = match &finding.vm {
        Some(vm) if diagnosis.traces.len() < 2 => vm.clone(),
        _ => place(finding, diagnosis),
    };
    let (what, sure) = (words::symptom(finding), words::sure(finding));
    let whose = fault(finding);
    let mut lines = vec![format!(
        "{place}: {what}; fault: {whose}; {sure} confidence."
    )];
    let why = words::cause(finding);
    let trace = diagnosis.traces.get(finding.trace);
    let label = finding.vm.as_ref().zip(trace);
    let label = label.map(|(vm, trace)| with_threads(trace, vm));
    lines.push(
        match label.filter(|label| !place.contains(label.as_str())) {
            Some(label) => format!("Why: {why}. VM: {label}."),
            None => format!("Why: {why}."),
        },
    );
    lines.extend(if table {
        table_words::seen(finding).map(|seen| format!("Seen: {seen}."))
    } else if finding.id == FindingId::ExitStorm {
        let seen: Vec<String> = finding.evidence.iter().map(evidence_words).collect();
        Some(format!("Seen: {}.", seen.join("; ")))
    } else {
        Some(format!("Lost: {}.", share_words(finding, diagnosis)))
    });
    lines.extend(
        finding
            .next
            .first()
            .map(|step| format!("Do: {}.", words::step(step))),
    );
    let of = diagnosis.traces.get(finding.trace);
    lines.extend(of.into_iter().flat_map(host_words::doubts));
    lines.extend(diagnosis.traces.iter().filter_map(unfound));
    assert!(lines.len() > 1, "what stalls, and why");
    lines
}
