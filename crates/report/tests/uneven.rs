// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Schemes that met other numbers of updates: every form of a report warns of it, and none marks a
//! ratio.

use steady_measures::{
    Better, Clock, EngineInfo, Metric, Repetition, RunResult, ScenarioInfo, Unit, VariantResult,
};
use steady_report::html::page;
use steady_report::plain::markdown;
use steady_report::terminal::{Options, table};

const WARNING: &str = "updates differ, 1000 under ipi and 600 under attc";

/// Ten runs of two schemes of TLB coherence, of which the second met this many updates of 100.
fn coherence(updates: i64) -> RunResult {
    let engine = EngineInfo {
        name: "coherence".to_owned(),
        version: "0.1.0".to_owned(),
        clock: Clock::Simulated,
        description: "made up".to_owned(),
    };
    let scheme = |name: &str, ipc: i64, updates: i64| {
        let run = |index: u32| {
            let ipc = ipc * (1_000_000 + i64::from(index));
            let ipc = Metric::new("ipc", Unit::InstructionsPerMcycle, Better::Higher, ipc);
            let updates = Metric::new("updates.program", Unit::Count, Better::Neutral, updates);
            Repetition {
                index,
                metrics: vec![ipc, updates],
                ..Repetition::default()
            }
        };
        VariantResult {
            name: name.to_owned(),
            repetitions: (0..10).map(run).collect(),
            ..VariantResult::default()
        }
    };
    let mut result = RunResult::new(ScenarioInfo::default(), engine, 1);
    result.variants = vec![scheme("ipi", 1, 100), scheme("attc", 2, updates)];
    result
}

/// Does the text warn, and not mark the ratio, where updates are not even?
fn holds(text: &str, marks: &[&str], even: bool) {
    assert!(text.contains("×2.00"), "{text}");
    assert_eq!(text.contains(WARNING), !even, "{text}");
    for mark in marks {
        assert_eq!(text.contains(mark), even, "{mark} in {text}");
    }
}

#[test]
fn a_terminal_warns_and_has_no_star() {
    for (updates, even) in [(100, true), (60, false)] {
        let all = [coherence(updates)];
        for verbose in [false, true] {
            let options = Options {
                verbose,
                ..Options::default()
            };
            let text = table(&all, &options).unwrap();
            holds(&text.replace('\n', " "), &["*"], even);
        }
    }
}

#[test]
fn a_page_warns_and_has_no_colour() {
    for (updates, even) in [(100, true), (60, false)] {
        let text = page(&[coherence(updates)]).unwrap();
        holds(&text, &["; better", "<span class=\"unseen\"> better"], even);
    }
}

#[test]
fn markdown_warns_and_has_nothing_bold() {
    for (updates, even) in [(100, true), (60, false)] {
        let text = markdown(&[coherence(updates)]).unwrap();
        holds(&text, &["**×2.00"], even);
    }
}
