// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Schema 1: what a file of it means today, and what is said of one that is wrong.

mod common;

use steady_remedies::Registry;
use steady_scenario::{Collect, Noted, SCHEMA, Scenario, Severity};

/// The base scenario as schema 1 had it.
fn old(edits: &[(&str, &str)]) -> String {
    let mut text = common::edited(&[
        ("schema = 2", "schema = 1"),
        ("shoot4u = { mode = \"eager\" }", "remedies = [\"shoot4u\"]"),
    ]);
    for (from, to) in edits {
        assert!(text.contains(from), "the old scenario has no {from:?}");
        text = text.replacen(from, to, 1);
    }
    text
}

fn read(text: &str) -> Noted {
    Scenario::parse_noted(text, "old.toml", &Registry::default())
        .unwrap_or_else(|problems| panic!("{problems}"))
}

/// The remedies of the only variant, each with its mode where one is written, and the host's words.
fn host_of(text: &str) -> (Vec<(&'static str, Option<&'static str>)>, String) {
    let variant = &read(text).scenario.variants[0];
    let on = variant.remedies.iter();
    let on = on.map(|on| (on.remedy.name, on.mode.map(|mode| mode.name)));
    (on.collect(), variant.host_cmdline.clone())
}

#[track_caller]
fn check_old(edits: &[(&str, &str)], expected: &str) {
    let problems = Scenario::parse(&old(edits), "old.toml").expect_err("it should be refused");
    assert_eq!(problems.to_string(), expected.trim_matches('\n'));
}

#[test]
fn a_file_is_read_as_one_of_schema_2_with_a_note() {
    let noted = read(&old(&[]));
    assert_eq!(noted.scenario.schema, SCHEMA);
    let notes = noted.notes.expect("it is noted");
    assert!(notes.iter().all(|note| note.severity == Severity::Note));
    assert_eq!(
        notes.to_string(),
        r#"
note: schema 1 is read on
 --> old.toml:2:10
  |
2 | schema = 1
  |          ^ `steady run --check --print` shows it as schema 2

1 note in old.toml"#
            .trim_start()
    );
    let new = common::edited(&[("{ mode = \"eager\" }", "{}")]);
    let new = read(&new);
    assert_eq!((new.notes, new.scenario), (None, noted.scenario));
}

#[test]
fn what_is_printed_of_it_reads_back_the_same_and_without_a_note() {
    let noted = read(&old(&[]));
    let again = read(&noted.scenario.to_toml_resolved());
    assert_eq!((again.notes, again.scenario), (None, noted.scenario));
}

#[test]
fn a_mode_among_the_hosts_words_becomes_the_remedys() {
    for (words, mode, rest) in [
        ("kvm.shoot4u=eager", Some("eager"), ""),
        (
            "kvm.shoot4u=eager steady.late=x",
            Some("eager"),
            "steady.late=x",
        ),
        (
            "a  kvm.shoot4u=eager kvm.shoot4u=deferred b",
            Some("deferred"),
            "a b",
        ),
        ("a  b", None, "a  b"),
    ] {
        let cmdline = format!("host_cmdline = \"{words}\"\nremedies");
        let (on, left) = host_of(&old(&[("remedies", &cmdline)]));
        assert_eq!(
            (on, left.as_str()),
            (vec![("shoot4u", mode)], rest),
            "{words}"
        );
    }
}

#[test]
fn the_hosts_words_also_switch_a_remedy_on_and_off() {
    let only = |words: &str| {
        let cmdline = format!("host_cmdline = \"{words}\"");
        host_of(&old(&[("remedies = [\"shoot4u\"]", &cmdline)])).0
    };
    assert_eq!(only("kvm.shoot4u=eager"), [("shoot4u", Some("eager"))]);
    let both = old(&[("remedies", "host_cmdline = \"kvm.shoot4u=off\"\nremedies")]);
    assert_eq!(host_of(&both), (vec![], String::new()));
}

#[test]
fn a_mode_that_the_kernel_would_not_take_is_refused() {
    check_old(
        &[(
            "remedies = [\"shoot4u\"]",
            "host_cmdline = \"kvm.shoot4u=egaer\"",
        )],
        r#"
error: unknown mode `egaer` of shoot4u
  --> old.toml:32:16
   |
32 | host_cmdline = "kvm.shoot4u=egaer"
   |                ^^^^^^^^^^^^^^^^^^^ did you mean `kvm.shoot4u=eager`?

1 problem in old.toml
"#,
    );
}

#[test]
fn the_dead_measure_is_noted_and_left_out() {
    let text = old(&[(
        "[variant.pv]",
        "[measure]\ncollect = [\"latency\", \"exits\"]\n[variant.pv]",
    )]);
    let noted = read(&text);
    assert_eq!(noted.scenario.measure.collect, [Collect::Exits]);
    let notes = noted.notes.expect("it is noted").to_string();
    assert!(notes.contains("`latency` was read by no engine"), "{notes}");
    assert!(notes.contains("2 notes in old.toml"), "{notes}");
    let new = text.replace("schema = 1", "schema = 2");
    let said = common::problems(&new.replace("remedies = [\"shoot4u\"]", ""));
    assert!(said.contains("unknown measure `latency`"), "{said}");
}

#[test]
fn a_key_of_schema_2_says_so() {
    for edit in [
        ("remedies = [\"shoot4u\"]", "kernel = \"stock\""),
        ("remedies = [\"shoot4u\"]", "hypervisor = \"kvm\""),
        ("remedies = [\"shoot4u\"]", "vm.hog = {}"),
        ("pin = [0, 1]", "pv = {}"),
        ("pin = [0, 1]", "kernel = \"hz-100\""),
    ] {
        let problems = Scenario::parse(&old(&[edit]), "old.toml")
            .unwrap_err()
            .to_string();
        assert!(
            problems.contains("schema 2 has this key, and this file is schema 1"),
            "{problems}"
        );
    }
}

#[test]
fn boolean_among_remedies_points_at_the_element() {
    check_old(
        &[("[\"shoot4u\"]", "[\"shoot4u\", true]")],
        r#"
error: `remedies[1]` is a boolean
  --> old.toml:32:24
   |
32 | remedies = ["shoot4u", true]
   |                        ^^^^ expected one of "shoot4u", "paratick", "strict-boost", "debooster"

1 problem in old.toml
"#,
    );
}

#[test]
fn unknown_remedy_names_the_nearest_right_one() {
    check_old(
        &[("[\"shoot4u\"]", "[\"shoot4u\", \"strict_boost\"]")],
        r#"
error: unknown remedy `strict_boost`
  --> old.toml:32:24
   |
32 | remedies = ["shoot4u", "strict_boost"]
   |                        ^^^^^^^^^^^^^^ did you mean `strict-boost`?
   |
   = note: known: shoot4u, paratick, strict-boost, debooster

1 problem in old.toml
"#,
    );
}

#[test]
fn unknown_word_near_no_other_lists_the_right_ones() {
    check_old(
        &[("[\"shoot4u\"]", "[\"prayer\"]")],
        r#"
error: unknown remedy `prayer`
  --> old.toml:32:13
   |
32 | remedies = ["prayer"]
   |             ^^^^^^^^ not a remedy
   |
   = note: known: shoot4u, paratick, strict-boost, debooster

1 problem in old.toml
"#,
    );
}

#[test]
fn remedy_listed_twice_points_at_the_second() {
    check_old(
        &[("[\"shoot4u\"]", "[\"shoot4u\", \"paratick\", \"shoot4u\"]")],
        r#"
error: remedy `shoot4u` is listed twice
  --> old.toml:32:36
   |
32 | remedies = ["shoot4u", "paratick", "shoot4u"]
   |                                    ^^^^^^^^^ remove one of the two

1 problem in old.toml
"#,
    );
}
