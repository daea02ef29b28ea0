// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A diagnosis as text for a terminal: first what hurts most and what to do, then the findings,
//! then what was not recorded. All numbers and tables only where everything is asked for.

use std::fmt::Write;

use steady_diagnose::{Diagnosis, Finding, FindingId, Judged, TraceDiagnosis};
use steady_measures::Unit;
use steady_report::humane;

mod answer;
mod compared;
mod evidence;
mod fault;
mod finding;
mod host_words;
mod lines;
mod names;
mod placement_words;
mod table_words;
mod tables;
pub mod words;

pub use answer::answer_lines;
use answer::answered;
pub use compared::compared_lines;
pub use evidence::evidence_words;
use lines::{Page, plain};
pub use names::{culprits, label_of, title_name};
use names::{file_name, with_threads};
pub use placement_words::{PLACEMENT, placement_lines};
pub use table_words::note as table_words_note;
use tables::tables;
pub use tables::{boost_words, calls_words, preempt_words, timers_words};

/// Lines of the short text, about.
const LINES: usize = 40;
/// Of these, what is kept for its last lines.
const LAST_LINES: usize = 6;

/// How the text is written.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Colour by terminal sequences.
    pub colour: bool,
    /// Everything: all findings with their numbers, and the tables.
    pub verbose: bool,
    /// Columns of the terminal, of which 50 to 220 are used; 100 if there is none.
    pub width: Option<usize>,
    /// Letters of ASCII alone, as for `TERM=dumb`.
    pub plain: bool,
}

/// The text.
#[must_use]
pub fn text(diagnosis: &Diagnosis, options: Options) -> String {
    let mut out = Page::new(options);
    let answer = answer_lines(diagnosis);
    for line in &answer {
        out.line("", line);
    }
    for trace in &diagnosis.traces {
        lost(&mut out, trace, diagnosis);
    }
    out.blank();
    if let Some(comparison) = &diagnosis.comparison {
        compared::text(&mut out, diagnosis, comparison);
    }
    let mut left = Vec::new();
    for (at, finding) in diagnosis.findings.iter().enumerate() {
        let mut block = Page::new(options);
        let is_said = at == 0 && answered(diagnosis).is_some();
        finding::one(&mut block, at + 1, finding, diagnosis, options, is_said);
        let lines = out.text.lines().count() + block.text.lines().count();
        let room = at == 0 || lines + LAST_LINES <= LINES;
        if options.verbose || (room && left.is_empty()) {
            out.text += &block.text;
        } else {
            left.push(finding);
        }
    }
    if !left.is_empty() {
        let names: Vec<String> = left
            .iter()
            .map(|finding| short(finding, diagnosis))
            .collect();
        let shown = names.len().min(6);
        let more = match names.len() - shown {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        let all = names[..shown].join("; ");
        out.line("", &format!("also: {all}{more} (--verbose)"));
    }
    for trace in &diagnosis.traces {
        placement(&mut out, trace, diagnosis, options.verbose);
    }
    for (at, trace) in diagnosis.traces.iter().enumerate() {
        if let Some(table) = &trace.table {
            let name = file_name(&trace.name, diagnosis);
            out.line("", &table_words::note(name, trace, table));
        } else if options.verbose {
            head(&mut out, trace);
            tables(&mut out, trace);
        } else if let Some(guess) = host_words::adjacency(trace, at, diagnosis) {
            out.line("", &guess);
        }
    }
    if options.verbose {
        out.line("", CONFIDENCE);
    } else {
        unjudged(&mut out, diagnosis);
    }
    match options.plain {
        true => plain(&out.text),
        false => out.text,
    }
}

/// What another placement would have given, below a heading; nothing where nothing is worth it.
fn placement(out: &mut Page, trace: &TraceDiagnosis, all: &Diagnosis, verbose: bool) {
    let lines = placement_lines(trace, verbose);
    if !lines.is_empty() {
        let name = match all.traces.len() {
            0 | 1 => String::new(),
            _ => format!(", {}", file_name(&trace.name, all)),
        };
        out.line("", &format!("{PLACEMENT}{name}:"));
    }
    lines
        .iter()
        .for_each(|line| out.line("  ", &format!("{line}.")));
}

/// Where it stands what a confidence is worth.
pub const CONFIDENCE: &str = "How often findings of high, medium and low confidence are right was \
                              counted over made-up traces: docs/validation/diagnosis.md.";

/// How much of whose time a finding is.
#[must_use]
pub fn share_words(finding: &Finding, diagnosis: &Diagnosis) -> String {
    if table_words::of_table(finding, diagnosis) {
        return table_words::share(finding).unwrap_or_default();
    }
    let trace = diagnosis.traces.get(finding.trace);
    let span = trace.map_or(0, |trace| trace.span_ns);
    if trace.is_some_and(|trace| !trace.clock_is_ns) {
        let of = finding.vm.as_ref().map(|vm| format!("{vm}'s time"));
        let of = of.unwrap_or_else(|| host_words::whole(finding).to_owned());
        return format!("{} of {of}", percent(finding.lost_permille));
    }
    let named = |name: &String| {
        let vms = trace.into_iter().flat_map(|trace| &trace.vms);
        let vcpus = vms
            .filter(|vm| vm.name == *name)
            .map(|vm| vm.vcpus.len())
            .sum();
        format!(
            "of {name}'s time ({} of {} in {})",
            time(finding.lost_ns),
            counted(vcpus, "vCPU"),
            time(span)
        )
    };
    if let Some((vcpu, vm)) = finding.vcpu.zip(finding.vm.as_ref()) {
        let (lost, all) = (time(finding.lost_ns), time(span));
        let share = percent(finding.lost_permille);
        let more = host_words::others(finding);
        return format!("{share} of the time of vCPU {vcpu} of {vm} ({lost} in {all}){more}");
    }
    let whose = finding.vm.as_ref().map_or_else(
        || {
            format!(
                "of {} ({} in {})",
                host_words::whole(finding),
                time(finding.lost_ns),
                time(span)
            )
        },
        named,
    );
    match finding.at_most_ns {
        _ if finding.id == FindingId::ExitStorm => "a time that the trace does not show".to_owned(),
        Some(at_most_ns) if at_most_ns > finding.lost_ns => {
            let more = time(at_most_ns - finding.lost_ns);
            let known = percent(finding.lost_permille);
            match words::is_in_losses(finding) {
                true => {
                    format!("up to {more} in losses of events, and {known} {whose} beside them")
                }
                false => {
                    format!("{known} {whose}, and up to {more} more that lie in losses of events")
                }
            }
        }
        _ => format!("{} {whose}", percent(finding.lost_permille)),
    }
}

/// A number with its noun: `1 vCPU`, `3 vCPUs`.
#[must_use]
pub fn counted(count: usize, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

/// The trace, where there are several, and the VM.
#[must_use]
pub fn place(finding: &Finding, all: &Diagnosis) -> String {
    let trace = all.traces.get(finding.trace);
    let file = trace.map_or("", |trace| file_name(&trace.name, all));
    let Some(vm) = &finding.vm else {
        return match trace {
            Some(trace) if trace.table.is_some() => file.to_owned(),
            Some(_) if all.traces.len() > 1 => format!("{file}, whole trace"),
            _ if finding.id == FindingId::HostOvercommitted => "host".to_owned(),
            _ => "whole trace".to_owned(),
        };
    };
    let vm = trace.map_or(vm.clone(), |trace| with_threads(trace, vm));
    match all.traces.len() {
        0 | 1 => vm,
        _ => format!("{file}, {vm}"),
    }
}

fn short(finding: &Finding, all: &Diagnosis) -> String {
    let what = words::symptom(finding);
    match short_place(finding, all).rsplit_once(", ") {
        Some((place, share)) if finding.lost_permille > 0 => format!("{place}: {what} ({share})"),
        _ => format!("{}: {what}", short_place(finding, all)),
    }
}

/// The trace, where there are several, the VM by its name alone, and the share of its time.
#[must_use]
pub fn short_place(finding: &Finding, all: &Diagnosis) -> String {
    let place = match &finding.vm {
        Some(vm) if all.traces.len() < 2 => vm.clone(),
        _ => place(finding, all),
    };
    match finding.lost_permille {
        0 => place,
        permille => format!("{place}, {}", percent(permille)),
    }
}

/// What was lost or could not be read, which lowers every number.
fn lost(out: &mut Page, trace: &TraceDiagnosis, all: &Diagnosis) {
    let losses = losses(trace);
    if !losses.is_empty() {
        let name = file_name(&trace.name, all);
        out.line("", &format!("Missing from {name}: {}.", losses.join("; ")));
    }
}

/// What of a trace was judged, what partly, and what not, a line each.
#[must_use]
pub fn judged_lines(trace: &TraceDiagnosis) -> Vec<String> {
    let of = |judged: Judged| {
        let rows = trace.judged.iter().filter(|row| row.judged == judged);
        rows.map(|row| row.words.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    };
    [
        ("Judged", Judged::Yes),
        ("Judged in part", Judged::Partly),
        ("Not judged", Judged::No),
    ]
    .into_iter()
    .map(|(lead, judged)| (lead, of(judged)))
    .filter(|(_, words)| !words.is_empty())
    .map(|(lead, words)| format!("{lead}: {words}."))
    .collect()
}

/// What could not be judged, or in part, in one line for all traces.
fn unjudged(out: &mut Page, all: &Diagnosis) {
    let traces = all.traces.iter().filter(|trace| trace.table.is_none());
    let of = |wanted: Judged| {
        let mut named: Vec<&str> = Vec::new();
        for row in traces.clone().flat_map(|trace| &trace.judged) {
            let name = words::question(row.question);
            if row.judged == wanted && !named.contains(&name) {
                named.push(name);
            }
        }
        named.join(", ")
    };
    let (no, partly) = (of(Judged::No), of(Judged::Partly));
    let text = match (no.is_empty(), partly.is_empty()) {
        (true, true) => return,
        (false, true) => format!("Not judged: {no}"),
        (true, false) => format!("Judged in part: {partly}"),
        (false, false) => format!("Not judged: {no}. In part: {partly}"),
    };
    out.line("", &format!("{text}. (--verbose: why)"));
}

/// A time in words.
#[must_use]
pub fn time(ns: u64) -> String {
    humane::positive(Unit::Ns, ns)
}

/// What is known, in words; `–` for what is not.
#[must_use]
pub fn known(number: Option<u64>, words: impl Fn(u64) -> String) -> String {
    number.map_or_else(|| "–".to_owned(), words)
}

/// Thousandths as a percentage.
#[must_use]
pub fn percent(permille: u64) -> String {
    format!("{}.{} %", permille / 10, permille % 10)
}

/// What is missing from a trace, in sentences; none if nothing is.
#[must_use]
pub fn losses(trace: &TraceDiagnosis) -> Vec<String> {
    let loss = &trace.loss;
    let mut said = Vec::new();
    if loss.lost_events > 0 {
        said.push(format!(
            "{} events were dropped while recording, {} of all: counts are too low, and what lies \
             in a loss is not known",
            humane::grouped(loss.lost_events),
            percent(loss.lost_permille)
        ));
    }
    let counts = [
        (loss.unknown_gaps, "gaps of unknown size"),
        (
            loss.clock_set_back,
            "steps back of the clock, after which times count on",
        ),
        (
            loss.undescribed,
            "records of events that the trace does not describe",
        ),
        (loss.out_of_order, "records that came after later ones"),
        (loss.damaged, "damaged places"),
        (loss.unreadable, "events that lacked a field they need"),
        (loss.unknown_exits, "exits whose code is not known"),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    said.extend(counts.map(|(count, what)| format!("{what}: {}", humane::grouped(*count))));
    if let Some(place) = &loss.truncated {
        said.push(format!("the trace is cut off at {place}"));
    }
    said.extend(loss.damage.iter().cloned());
    said
}

/// How many CPUs the recorded machine has.
#[must_use]
pub fn pcpus(trace: &TraceDiagnosis) -> String {
    known(trace.pcpus.map(u64::from), humane::grouped)
}

/// What remedies say of themselves and what is only counted, in sentences.
#[must_use]
pub fn remedies_words(trace: &TraceDiagnosis) -> Vec<String> {
    let remedies = trace.remedies.iter().map(|row| {
        let mut said = format!(
            "remedy {}: {} calls ({} ended), {} targets, {} left to callers, {} other events",
            row.remedy,
            humane::grouped(row.calls),
            humane::grouped(row.done),
            humane::grouped(row.targets),
            humane::grouped(row.left),
            humane::grouped(row.others)
        );
        if row.call_ns.count > 0 {
            let (mean, max) = (time(row.call_ns.mean), time(row.call_ns.max));
            let _ = write!(said, "; a call took {mean} on average, {max} at most");
        }
        said
    });
    let counted = trace.counted.iter();
    let counted = counted.map(|row| format!("{}: {}", row.name, humane::grouped(row.count)));
    remedies.chain(counted).collect()
}

fn head(out: &mut Page, trace: &TraceDiagnosis) {
    let release = trace.release.as_deref().unwrap_or("kernel unknown");
    let text = format!(
        "{}: {}, {release}, {} pCPU{}, {} events in {}",
        trace.name,
        trace.format,
        pcpus(trace),
        if trace.pcpus == Some(1) { "" } else { "s" },
        humane::grouped(trace.events),
        time(trace.span_ns)
    );
    out.line("", &text);
    let losses = losses(trace);
    if losses.is_empty() {
        out.line("  ", "lost: nothing, as far as the trace shows");
    }
    for loss in losses {
        out.line("  ", &format!("lost: {loss}"));
    }
    for missing in &trace.missing {
        let text = format!(
            "not recorded: {}; so not known: {}",
            missing.what, missing.so
        );
        out.line("  ", &text);
    }
    if trace.vms_by == "adjacency" && !trace.vms.is_empty() {
        out.line(
            "  ",
            "VMs are distinguished by thread ids that follow each other; the probes of \
             `steady record` would show them for sure",
        );
    }
    for words in remedies_words(trace) {
        out.line("  ", &words);
    }
    if let Some(symbols) = &trace.symbols {
        let text = format!(
            "symbols: {} at {:#x} above their link address: {} of {} pause-loop and halt exits \
             are in functions that wait or halt",
            symbols.file, symbols.shift, symbols.explained, symbols.of
        );
        out.line("  ", &text);
    }
    for vm in &trace.vms {
        let threads = vm.vcpus.iter().map(|vcpu| vcpu.tid.to_string());
        let threads: Vec<String> = threads.collect();
        let text = format!(
            "{}: {}, threads {}",
            vm.name,
            counted(vm.vcpus.len(), "vCPU"),
            threads.join(" ")
        );
        out.line("  ", &text);
    }
    out.blank();
}
