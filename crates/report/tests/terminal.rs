// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table on the terminal.

mod common;

use steady_measures::RunResult;
use steady_report::terminal::{Options, table};

fn plain(width: usize) -> Options {
    Options {
        width,
        ..Options::default()
    }
}

#[test]
fn a_table_looks_like_this() {
    insta::assert_snapshot!(table(&[common::bochs()], &Options::default()).unwrap());
}

#[test]
fn a_narrow_table_continues_below() {
    let mut result = common::qemu();
    for variant in &mut result.variants {
        for repetition in &mut variant.repetitions {
            repetition.metrics.truncate(8);
        }
    }
    insta::assert_snapshot!(table(&[result], &plain(64)).unwrap());
}

#[test]
fn no_line_is_wider_than_asked() {
    for width in [60, 80, 100, 140] {
        let text = table(&[common::bochs(), common::qemu()], &plain(width)).unwrap();
        for line in text.lines() {
            assert!(line.chars().count() <= width, "{line}");
            assert_eq!(line, line.trim_end());
        }
    }
}

#[test]
fn the_table_of_one_engine_fits_a_screen() {
    let text = table(&[common::bochs()], &Options::default()).unwrap();
    assert!(text.lines().count() <= 30, "{text}");
}

#[test]
fn verbose_shows_every_metric_and_the_range_over_repetitions() {
    let result = common::bochs();
    let options = Options {
        verbose: true,
        ..plain(200)
    };
    let text = table(std::slice::from_ref(&result), &options).unwrap();
    for metric in &result.variants[0].repetitions[0].metrics {
        assert!(text.contains(&metric.name), "{}", metric.name);
    }
    let line = text
        .lines()
        .find(|line| line.contains("shootdown.latency.p99"))
        .unwrap();
    assert!(
        line.contains("2.42 ms (2.") && line.contains(" to 2.4"),
        "{line}"
    );
}

#[test]
fn colour_only_where_asked_and_without_changing_the_text() {
    let without = table(&[common::bochs()], &Options::default()).unwrap();
    let options = Options {
        colour: true,
        ..Options::default()
    };
    let with = table(&[common::bochs()], &options).unwrap();
    assert!(!without.contains('\x1b'));
    let mut stripped = with.clone();
    for code in ["0", "1", "2", "31", "32"] {
        stripped = stripped.replace(&format!("\x1b[{code}m"), "");
    }
    let trimmed: Vec<&str> = stripped.lines().map(str::trim_end).collect();
    assert_eq!(trimmed, without.lines().collect::<Vec<_>>());
    // Three runs distinguish nothing from chance, so no ratio is praised.
    assert!(!with.contains("\x1b[32m") && with.contains(" ×0.14"));
}

/// A result whose variants differ alike in each of its runs, but for one measure.
fn of_runs(runs: u32) -> steady_measures::RunResult {
    let mut result = common::bochs();
    for variant in &mut result.variants {
        let first = variant.repetitions.remove(0);
        variant.repetitions = (0..runs)
            .map(|index| {
                let mut one = first.clone();
                one.index = index;
                // Runs that differ in nothing would be one run.
                let last = one.metrics.len() - 1;
                one.metrics[last].value += i64::from(index);
                one
            })
            .collect();
    }
    result
}

#[test]
fn what_is_more_than_chance_is_seen_without_colour_and_with_its_interval() {
    let marked = " ×0.0174*";
    let many = table(&[of_runs(12)], &Options::default()).unwrap();
    let words: Vec<&str> = many.split_whitespace().collect();
    let legend = words.join(" ");
    assert!(
        many.contains(marked) && legend.contains("* is shown to be more than chance."),
        "{many}"
    );
    let few = table(&[of_runs(3)], &Options::default()).unwrap();
    assert!(!few.contains('*'), "{few}");
    let verbose = Options {
        verbose: true,
        ..plain(200)
    };
    let long = table(&[of_runs(12)], &verbose).unwrap();
    assert!(long.contains(" ×0.0174 [0.0174 to 0.0174]*"), "{long}");
}

#[test]
fn a_name_cannot_command_the_terminal() {
    let mut result = common::bochs();
    result.variants[1].name = "\x1b]0;owned\x07".to_owned();
    result.scenario.title = "a\nb\u{9b}2J".to_owned();
    let text = table(&[result], &Options::default()).unwrap();
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()));
}

#[test]
fn a_scenario_on_two_engines_is_introduced_once() {
    let text = table(&[common::bochs(), common::qemu()], &Options::default()).unwrap();
    assert_eq!(text.matches("two-vms: Two VMs").count(), 1);
    assert_eq!(text.matches("× is the ratio to ipi, the").count(), 2);
}

#[test]
fn a_race_that_did_not_end_says_so_on_the_table_and_on_the_page() {
    let mut result = common::bochs();
    result.partial = Some("3 of 4 runs: interrupted".to_owned());
    let text = table(&[result.clone()], &Options::default()).unwrap();
    let words = "this race did not end: 3 of 4 runs: interrupted";
    assert!(text.contains(words), "{text}");
    let page = steady_report::html::page(&[result]).unwrap();
    assert!(page.contains(words));
}

/// The sample with as many runs as it takes, each a little different.
fn repeated(runs: u32) -> RunResult {
    let mut result = common::bochs();
    for variant in &mut result.variants {
        let first = variant.repetitions[0].clone();
        variant.repetitions = (0..runs)
            .map(|index| {
                let mut one = first.clone();
                one.index = index;
                for metric in &mut one.metrics {
                    metric.value += metric.value * i64::from(index % 5) / 200;
                }
                one
            })
            .collect();
    }
    result
}

#[test]
fn ten_runs_answer_first_in_a_sentence_with_its_interval_and_a_colour() {
    let options = Options {
        colour: true,
        ..plain(120)
    };
    let text = table(&[repeated(10)], &options).unwrap();
    let answer = text
        .lines()
        .find(|line| line.contains("latency p99: deferred"))
        .unwrap();
    assert!(
        answer.contains(": ×0.0") && answer.contains("], better, "),
        "{answer}"
    );
    assert!(
        answer.contains(" to ") && answer.contains("10 runs"),
        "{answer}"
    );
    assert!(answer.starts_with("\u{1b}[32m"), "{answer}");
    assert!(
        text.contains("Medians of 10") && text.contains("10 runs"),
        "{text}"
    );
}

#[test]
fn fewer_runs_than_can_show_anything_make_no_claim_and_say_so() {
    let text = table(&[repeated(5)], &plain(120)).unwrap();
    assert!(!text.contains("], better"));
    assert!(text.contains("5 runs: no claim; a claim takes 6 or more."));
    let one = table(&[repeated(1)], &plain(120)).unwrap();
    assert!(one.contains("One run: no claim."));
}
