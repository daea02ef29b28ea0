// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where problems are placed, in what order and how many, whatever the text looks like.

mod common;

use steady_scenario::Scenario;

use common::{BASE, edited, problems};

#[test]
fn empty_text_says_how_to_begin() {
    let expected = "\
error: the file is empty
 --> base.toml:1:1
  |
1 |
  | ^ expected a scenario; begin with `schema = 2`

1 problem in base.toml";
    for text in ["", "\n\n", "\u{feff}", "\r\n"] {
        assert_eq!(problems(text), expected, "{text:?}");
    }
}

#[test]
fn text_of_comments_only_lacks_every_required_key() {
    let problems = Scenario::parse("# nothing yet\n", "x.toml").unwrap_err();
    let messages: Vec<&str> = problems
        .iter()
        .map(|problem| problem.message.as_str())
        .collect();
    let keys = [
        "schema", "name", "title", "question", "host", "vm", "variant",
    ];
    let expected = keys.map(|key| format!("missing key `{key}` at the top level"));
    assert_eq!(messages, expected);
}

#[test]
fn carriage_returns_change_neither_meaning_nor_places() {
    let unix = edited(&[("pcpus = 2", "pcpus = 0"), ("\"spin\"", "\"spim\"")]);
    assert_eq!(problems(&unix.replace('\n', "\r\n")), problems(&unix));
    let scenario = Scenario::parse(BASE, "base.toml").unwrap();
    assert_eq!(
        Scenario::parse(&BASE.replace('\n', "\r\n"), "base.toml"),
        Ok(scenario)
    );
}

#[test]
fn byte_order_mark_changes_neither_meaning_nor_places() {
    let text = BASE.replacen("# SPDX-License-Identifier: Apache-2.0 OR MIT\n", "", 1);
    let marked = |text: &str| format!("\u{feff}{text}");
    assert_eq!(
        Scenario::parse(&marked(&text), "b"),
        Scenario::parse(&text, "b")
    );
    let wrong = text.replacen("schema = 2", "schema = true", 1);
    assert_eq!(problems(&marked(&wrong)), problems(&wrong));
    let first = Scenario::parse(&marked(&wrong), "b").unwrap_err();
    assert_eq!(
        first
            .iter()
            .next()
            .map(|problem| (problem.line, problem.column)),
        Some((1, 10))
    );
}

#[test]
fn overlong_line_is_named_but_not_shown() {
    let long = format!("\"{}\", 1]", "x".repeat(2000));
    let expected = "\
error: `args[2]` is an integer
 --> base.toml:19:2026
  = help: expected a string without control characters, at most 4096 characters

1 problem in base.toml";
    assert_eq!(problems(&edited(&[("\"1\"]", &long)])), expected);
}

#[test]
fn problems_are_in_the_order_of_lines() {
    let text = edited(&[
        ("name = \"base\"", "name = \"Base\""),
        ("pcpus = 2", "pcpus = 0"),
        ("vcpus = 2", "vcpu = 2"),
        ("\"shootdown\"", "\"shotdown\""),
        ("\"eager\"", "\"egaer\""),
        ("ipi = false", "ipi = 0"),
    ]);
    let problems = Scenario::parse(&text, "base.toml").unwrap_err();
    let lines: Vec<usize> = problems.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [3, 8, 13, 18, 32, 35]);
}

#[test]
fn one_mistake_is_reported_once() {
    // A misspelt required key is not missing as well, and a VM whose vCPUs cannot be read is
    // not blamed for its pins.
    for (from, to) in [("vcpus = 2", "vcpu = 2"), ("vcpus = 2", "vcpus = \"2\"")] {
        let problems = Scenario::parse(&edited(&[(from, to)]), "base.toml").unwrap_err();
        assert_eq!(problems.iter().count(), 1, "{problems}");
    }
}

#[test]
fn beyond_a_hundred_problems_are_only_counted() {
    let extra: String = (0..150).map(|i| format!("zzz{i} = 1\n")).collect();
    let text = edited(&[("[host]\n", &format!("[host]\n{extra}"))]);
    let problems = Scenario::parse(&text, "base.toml").unwrap_err();
    assert_eq!(problems.iter().count(), 150);
    let rendered = problems.to_string();
    assert_eq!(rendered.matches("error: ").count(), 100);
    assert!(rendered.ends_with("150 problems in base.toml, of which the first 100 are shown"));
}

#[test]
fn colour_is_there_only_when_asked_for() {
    let problems = Scenario::parse("schema = 3", "x.toml").unwrap_err();
    assert!(problems.render(true).contains("\u{1b}["));
    assert!(!problems.render(false).contains('\u{1b}'));
    assert_eq!(problems.render(false), problems.to_string());
}
