// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A diagnosis as text for a terminal: first what hurts most and what to do, then the findings,
//! then what was not recorded. All numbers and tables only where everything is asked for.

use std::fmt::Write;

use steady_diagnose::{Diagnosis, Finding, FindingId, Judged, Severity, TraceDiagnosis};
use steady_measures::Unit;
use steady_report::humane;

mod compared;
mod evidence;
mod host_words;
mod table_words;
mod tables;
pub mod words;

pub use compared::compared_lines;
pub use evidence::evidence_words;
pub use table_words::note as table_words_note;
use tables::tables;
pub use tables::{boost_words, calls_words, preempt_words, timers_words};

/// Width that long sentences are broken at.
const WIDTH: usize = 100;

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
}

/// The text.
#[must_use]
pub fn text(diagnosis: &Diagnosis, options: Options) -> String {
    let mut out = String::new();
    for line in answer_lines(diagnosis) {
        wrapped(&mut out, "", &line);
    }
    for trace in &diagnosis.traces {
        lost(&mut out, trace);
    }
    out.push('\n');
    if let Some(comparison) = &diagnosis.comparison {
        compared::text(&mut out, diagnosis, comparison);
    }
    let mut left = Vec::new();
    for (at, finding) in diagnosis.findings.iter().enumerate() {
        let mut block = String::new();
        one(&mut block, at + 1, finding, diagnosis, options);
        let lines = out.lines().count() + block.lines().count();
        let room = at == 0 || lines + LAST_LINES <= LINES;
        if options.verbose || (room && left.is_empty()) {
            out += &block;
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
        wrapped(&mut out, "", &format!("also: {all}{more} (--verbose)"));
    }
    for (at, trace) in diagnosis.traces.iter().enumerate() {
        if let Some(table) = &trace.table {
            wrapped(&mut out, "", &table_words::note(trace, table));
        } else if options.verbose {
            head(&mut out, trace);
            tables(&mut out, trace);
        } else {
            unjudged(&mut out, trace);
            if let Some(guess) = host_words::adjacency(trace, at, diagnosis) {
                wrapped(&mut out, "", &guess);
            }
        }
    }
    out
}

/// The first lines: what hurts most, how much of which VM's time, and what to do.
#[must_use]
pub fn answer_lines(diagnosis: &Diagnosis) -> Vec<String> {
    let first = diagnosis.findings.first();
    let table = first.is_some_and(|finding| table_words::of_table(finding, diagnosis));
    let Some(finding) = first.filter(|finding| table || finding.severity >= Severity::Major) else {
        if diagnosis.traces.iter().all(|trace| trace.table.is_some()) {
            return vec!["Nothing wrong, as far as such tables and logs can show it.".to_owned()];
        }
        let mut lines = vec![
            "Nothing above the bounds (1 % of a VM's time, 5 % for an exit reason).".to_owned(),
        ];
        let judged = |trace| judged_lines(trace).into_iter().next();
        lines.extend(diagnosis.traces.iter().filter_map(judged));
        return lines;
    };
    let place = place(finding, diagnosis);
    let (what, why) = (words::symptom(finding), words::cause(finding));
    let mut lines = vec![format!("{place}: {what}: {why}.")];
    lines.extend(if table {
        table_words::seen(finding).map(|seen| format!("Seen: {seen}."))
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
    lines.extend(of.and_then(host_words::clock));
    lines
}

/// How much of whose time a finding is.
#[must_use]
pub fn share_words(finding: &Finding, diagnosis: &Diagnosis) -> String {
    if table_words::of_table(finding, diagnosis) {
        return table_words::share(finding).unwrap_or_default();
    }
    let trace = diagnosis.traces.get(finding.trace);
    let span = trace.map_or(0, |trace| trace.span_ns);
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
            format!("{known} {whose}, and up to {more} more that lie in losses of events")
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
    let Some(vm) = finding.vm.clone() else {
        return match trace {
            Some(trace) if trace.table.is_some() => trace.name.clone(),
            Some(trace) if all.traces.len() > 1 => format!("{}, whole trace", trace.name),
            _ if finding.id == FindingId::HostOvercommitted => "host".to_owned(),
            _ => "whole trace".to_owned(),
        };
    };
    let trace = trace.filter(|_| all.traces.len() > 1);
    trace.map_or(vm.clone(), |trace| format!("{}, {vm}", trace.name))
}

fn short(finding: &Finding, all: &Diagnosis) -> String {
    let (place, what) = (place(finding, all), words::symptom(finding));
    if finding.lost_permille == 0 {
        return format!("{place}: {what}");
    }
    format!("{place}: {what} ({})", percent(finding.lost_permille))
}

/// What was lost or could not be read, which lowers every number.
fn lost(out: &mut String, trace: &TraceDiagnosis) {
    let losses = losses(trace);
    if !losses.is_empty() {
        wrapped(
            out,
            "",
            &format!("Missing from {}: {}", trace.name, losses.join("; ")),
        );
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

/// What could not be judged, in one line.
fn unjudged(out: &mut String, trace: &TraceDiagnosis) {
    let lines = judged_lines(trace).into_iter();
    let lines: Vec<String> = lines.filter(|line| !line.starts_with("Judged:")).collect();
    if !lines.is_empty() {
        let text = format!("{}: {} (--verbose: why)", trace.name, lines.join(" "));
        wrapped(out, "", &text);
    }
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
            "times the clock was set back (times count on from there)",
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
    said.extend(counts.map(|(count, what)| format!("{} {what}", humane::grouped(*count))));
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

fn head(out: &mut String, trace: &TraceDiagnosis) {
    let release = trace.release.as_deref().unwrap_or("kernel unknown");
    let _ = writeln!(
        out,
        "{}: {}, {release}, {} pCPU{}, {} events in {}",
        trace.name,
        trace.format,
        pcpus(trace),
        if trace.pcpus == Some(1) { "" } else { "s" },
        humane::grouped(trace.events),
        time(trace.span_ns)
    );
    let losses = losses(trace);
    if losses.is_empty() {
        out.push_str("  lost: nothing, as far as the trace tells\n");
    }
    for loss in losses {
        let _ = writeln!(out, "  lost: {loss}");
    }
    for missing in &trace.missing {
        let text = format!(
            "not recorded: {}; so not known: {}",
            missing.what, missing.so
        );
        wrapped(out, "  ", &text);
    }
    if trace.vms_by == "adjacency" && !trace.vms.is_empty() {
        wrapped(
            out,
            "  ",
            "VMs are told apart by thread ids that follow each other; \
             the probes of `steady record` would tell for sure",
        );
    }
    for words in remedies_words(trace) {
        wrapped(out, "  ", &words);
    }
    if let Some(symbols) = &trace.symbols {
        let _ = writeln!(
            out,
            "  symbols: {} at {:#x} above their link address: {} of {} \
             pause-loop and halt exits are in functions that wait or halt",
            symbols.file, symbols.shift, symbols.explained, symbols.of
        );
    }
    for vm in &trace.vms {
        let threads = vm.vcpus.iter().map(|vcpu| vcpu.tid.to_string());
        let threads: Vec<String> = threads.collect();
        let _ = writeln!(
            out,
            "  {}: {}, threads {}",
            vm.name,
            counted(vm.vcpus.len(), "vCPU"),
            threads.join(" ")
        );
    }
    out.push('\n');
}

fn one(out: &mut String, at: usize, finding: &Finding, all: &Diagnosis, options: Options) {
    let mark = match finding.severity {
        Severity::Severe => ("severe", "31"),
        Severity::Major => ("major", "33"),
        Severity::Minor => ("minor", "36"),
        Severity::Note => ("note", "2"),
    };
    let word = if options.colour {
        format!("\u{1b}[1;{}m{}\u{1b}[0m", mark.1, mark.0)
    } else {
        mark.0.to_owned()
    };
    let (place, what) = (place(finding, all), words::symptom(finding));
    let _ = writeln!(out, "{at}. {word}, {place}: {what}");
    if finding.lost_ns.max(finding.lost_permille) > 0 {
        wrapped(out, "   lost: ", &share_words(finding, all));
    }
    let shown = match (options.verbose, table_words::of_table(finding, all)) {
        (true, _) => finding.evidence.len(),
        (false, true) => table_words::EVIDENCE_SHOWN,
        (false, false) => 0,
    };
    for evidence in finding.evidence.iter().take(shown) {
        wrapped(out, "   - ", &evidence_words(evidence));
    }
    if !finding.culprits.is_empty() {
        let who: Vec<String> = finding.culprits.iter().map(words::culprit).collect();
        wrapped(out, "   who: ", &who.join(", "));
    }
    let sure = format!("{:?}", finding.confidence).to_lowercase();
    let mut why = format!("{} ({sure} confidence)", words::cause(finding));
    for check in &finding.checks {
        let _ = write!(why, "; {}", words::check(check));
    }
    wrapped(out, "   why: ", &why);
    if let Some(worst) = &finding.worst {
        wrapped(out, "   worst: ", &words::worst(worst));
    }
    let steps = finding.next.len();
    let steps = finding
        .next
        .iter()
        .take(if options.verbose { steps } else { 2 });
    for step in steps {
        wrapped(out, "   → ", &words::step(step));
    }
    if !finding.sharper_with.is_empty() {
        let with = finding
            .sharper_with
            .iter()
            .map(|&with| words::sharpener(with));
        let with: Vec<&str> = with.collect();
        wrapped(out, "   sharper with: ", &with.join(", "));
    }
    out.push('\n');
}

/// Words broken at [`WIDTH`], later lines set in as far as the first.
fn wrapped(out: &mut String, lead: &str, text: &str) {
    let indent = " ".repeat(lead.chars().count());
    let mut line = lead.to_owned();
    let mut fresh = true;
    for word in text.split(' ') {
        let fits = line.chars().count() + 1 + word.chars().count() <= WIDTH;
        if !fresh && !fits {
            let _ = writeln!(out, "{line}");
            line.clone_from(&indent);
            fresh = true;
        }
        if !fresh {
            line.push(' ');
        }
        line.push_str(word);
        fresh = false;
    }
    let _ = writeln!(out, "{line}");
}
