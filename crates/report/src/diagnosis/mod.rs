// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A diagnosis as text for a terminal: what is missing first, then the findings, then the tables.

use std::fmt::Write;

use steady_diagnose::{Diagnosis, Finding, Severity, TraceDiagnosis};
use steady_measures::Unit;

use crate::humane;

mod evidence;
mod tables;

pub use evidence::evidence_words;
use tables::tables;
pub use tables::{boost_words, calls_words, preempt_words, timers_words};

/// Width that long sentences are broken at.
const WIDTH: usize = 100;

/// How the text looks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Colour by terminal sequences.
    pub colour: bool,
}

/// The text.
#[must_use]
pub fn text(diagnosis: &Diagnosis, options: Options) -> String {
    let mut out = String::new();
    for trace in &diagnosis.traces {
        head(&mut out, trace);
    }
    if diagnosis.findings.is_empty() {
        out.push_str("Nothing found that hurts.\n");
    }
    for (at, finding) in diagnosis.findings.iter().enumerate() {
        one(&mut out, at + 1, finding, diagnosis, options);
    }
    for trace in &diagnosis.traces {
        tables(&mut out, trace);
    }
    out
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
            "{} events were dropped while recording, {} of all: every count is too low",
            humane::grouped(loss.lost_events),
            percent(loss.lost_permille)
        ));
    }
    let counts = [
        (loss.unknown_gaps, "gaps of unknown size"),
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
    trace
        .pcpus
        .map_or_else(|| "–".to_owned(), |pcpus| pcpus.to_string())
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
        "{}: {}, {release}, {} pCPUs, {} events in {}",
        trace.name,
        trace.format,
        pcpus(trace),
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
             pause-loop and halt exits are where they should be",
            symbols.file, symbols.shift, symbols.explained, symbols.of
        );
    }
    for vm in &trace.vms {
        let threads = vm.vcpus.iter().map(|vcpu| vcpu.tid.to_string());
        let threads: Vec<String> = threads.collect();
        let _ = writeln!(
            out,
            "  {}: {} vCPUs, threads {}",
            vm.name,
            vm.vcpus.len(),
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
    let mut place = finding
        .vm
        .clone()
        .unwrap_or_else(|| "whole trace".to_owned());
    if all.traces.len() > 1 {
        let name = all
            .traces
            .get(finding.trace)
            .map_or("", |trace| trace.name.as_str());
        place = format!("{name}, {place}");
    }
    let _ = writeln!(out, "{at}. {word}, {place}: {}", finding.symptom);
    if finding.lost_ns_per_s > 0 {
        let _ = writeln!(
            out,
            "   lost: {} in each second",
            time(finding.lost_ns_per_s)
        );
    }
    for evidence in &finding.evidence {
        wrapped(out, "   - ", &evidence_words(evidence));
    }
    let sure = format!("{:?}", finding.confidence).to_lowercase();
    wrapped(
        out,
        "   ",
        &format!("why ({sure} confidence): {}", finding.cause),
    );
    wrapped(out, "   ", &format!("refuted by: {}", finding.refuted_by));
    for step in &finding.next {
        wrapped(out, "   → ", &step_words(step));
    }
    out.push('\n');
}

/// A step in one sentence.
#[must_use]
pub fn step_words(step: &steady_diagnose::Step) -> String {
    let mut text = step.what.clone();
    if let Some(knob) = &step.knob {
        let value = step
            .value
            .as_deref()
            .unwrap_or("its value is not in the trace");
        let _ = write!(text, " ({knob}: {value})");
    }
    if let Some(remedy) = &step.remedy {
        let _ = write!(text, " (remedy: {remedy})");
    }
    text
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
