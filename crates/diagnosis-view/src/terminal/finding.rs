// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One finding in lines.

use steady_diagnose::{Diagnosis, Finding, Severity};

use super::lines::Page;
use super::{Options, culprits, evidence_words, place, share_words, table_words, words};

/// A finding. What the first lines have said of it is not said again.
pub fn one(
    out: &mut Page,
    at: usize,
    finding: &Finding,
    all: &Diagnosis,
    options: Options,
    is_said: bool,
) {
    title(out, at, finding, all, options, is_said);
    if finding.lost_ns.max(finding.lost_permille) > 0 && !is_said {
        out.line("   lost: ", &share_words(finding, all));
    }
    let table = table_words::of_table(finding, all);
    let (from, to) = match (options.verbose, table) {
        (true, _) => (0, finding.evidence.len()),
        // The first lines have the first of them.
        (false, true) => (usize::from(is_said), table_words::EVIDENCE_SHOWN),
        (false, false) => (0, 0),
    };
    for evidence in finding.evidence.iter().take(to).skip(from) {
        out.line("   - ", &evidence_words(evidence));
    }
    let trace = all.traces.get(finding.trace);
    if !finding.culprits.is_empty() {
        out.line("   who: ", &culprits(finding, trace));
    }
    if !is_said {
        out.line("   why: ", &words::cause(finding));
    }
    for (answer, checks) in words::checks(finding) {
        out.line(&format!("   {answer}: "), &checks);
    }
    if let Some(worst) = words::worst(finding, trace) {
        out.line("   worst: ", &worst);
    }
    let steps = match options.verbose {
        true => finding.next.len(),
        false => 2,
    };
    for step in finding.next.iter().take(steps).skip(usize::from(is_said)) {
        out.line("   → ", &words::step(step));
    }
    if !finding.sharper_with.is_empty() {
        let with = finding
            .sharper_with
            .iter()
            .map(|&with| words::sharpener(with));
        let with: Vec<&str> = with.collect();
        out.line("   sharper with: ", &with.join(", "));
    }
    out.blank();
}

/// The first line of a finding.
fn title(
    out: &mut Page,
    at: usize,
    finding: &Finding,
    all: &Diagnosis,
    options: Options,
    is_said: bool,
) {
    let (word, colour) = match finding.severity {
        Severity::Severe => ("severe", "31"),
        Severity::Major => ("major", "33"),
        Severity::Minor => ("minor", "36"),
        Severity::Note => ("note", "2"),
    };
    let what = match is_said {
        true => "as said above".to_owned(),
        false => {
            let (place, what) = (place(finding, all), words::symptom(finding));
            format!("{} confidence, {place}: {what}", words::sure(finding))
        }
    };
    let begins = out.text.len();
    out.line(&format!("{at}. "), &format!("{word}, {what}"));
    if options.colour {
        let line = out.text.split_off(begins);
        out.text += &line.replacen(word, &format!("\u{1b}[1;{colour}m{word}\u{1b}[0m"), 1);
    }
}
