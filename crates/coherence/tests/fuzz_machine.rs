// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Machine files that no one would write: reading one never panics; it gives a machine that can
//! be, or one line that begins with the file's name and, where the file is to blame, the place.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use steady_coherence::{MachineConfig, Registry};

/// Every key of a machine with its default, as a text.
fn whole_machine() -> String {
    MachineConfig::default().to_toml()
}

/// Dotted keys of every value.
fn keys() -> Vec<String> {
    fn walk(prefix: &str, table: &toml::Table, out: &mut Vec<String>) {
        for (key, value) in table {
            let name = format!("{prefix}{key}");
            match value {
                toml::Value::Table(inner) => walk(&format!("{name}."), inner, out),
                _ => out.push(name),
            }
        }
    }
    let mut out = Vec::new();
    let table = whole_machine().parse().expect("it is TOML");
    walk("", &table, &mut out);
    out
}

#[test]
fn a_machine_printed_and_read_again_is_the_same() {
    for text in ["", "preset = \"server\"\nmmu.walkers = 3\n"] {
        let machine = Registry::shipped()
            .load(text, "m.toml")
            .expect("a possible machine");
        let again = Registry::shipped()
            .load(&machine.to_toml(), "again.toml")
            .expect("still possible");
        assert_eq!(machine, again);
    }
}

#[test]
fn the_page_on_machine_files_has_every_key_with_its_default() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats/machine.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let table: toml::Table = whole_machine().parse().expect("it is TOML");
    for key in keys() {
        let mut value = None;
        let mut at = Some(&table);
        for part in key.split('.') {
            value = at.and_then(|table| table.get(part));
            at = value.and_then(toml::Value::as_table);
        }
        let line = format!("| `{key}` | {} |", value.expect("the key has a value"));
        assert!(page.contains(&line), "docs/formats/machine.md lacks {line}");
    }
}

#[test]
fn the_page_on_machine_files_says_of_a_scheme_s_parameter_what_its_scheme_says() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats/machine.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    for spec in Registry::shipped().all() {
        for parameter in spec.parameters {
            let end = format!(" | {} |", parameter.help);
            let begin = format!("| `{}` |", parameter.key);
            let line = page.lines().find(|line| line.starts_with(&begin));
            let said = line.is_some_and(|line| line.ends_with(&end));
            assert!(said, "docs/formats/machine.md lacks {begin} ...{end}");
        }
    }
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => (0u32..40).prop_map(|shift| (1u64 << shift).to_string()),
        3 => (0u32..20_000).prop_map(|number| number.to_string()),
        1 => any::<i64>().prop_map(|number| number.to_string()),
        1 => any::<f64>().prop_map(|number| format!("{number:?}")),
        1 => "\\PC{0,8}".prop_map(|text| format!("{text:?}")),
        1 => prop::sample::select(vec![
            "true", "[]", "{}", "[1, 2]", "\"native\"", "\"server\"", "\"walker\"", "\"nativ\"",
            "1979-05-27", "0x7fffffff", "'''",
        ]).prop_map(str::to_owned),
    ]
}

/// Some keys, now and then misspelt or twice, with values of every kind.
fn assignments() -> impl Strategy<Value = String> {
    let key = (
        prop::sample::select(keys()),
        any::<prop::sample::Index>(),
        0u8..12,
    );
    let key = key.prop_map(|(mut key, at, how)| {
        let at = at.index(key.len());
        match how {
            0 => drop(key.remove(at)),
            1 => key.insert(at, 'x'),
            _ => {}
        }
        key
    });
    let line = (key, value()).prop_map(|(key, value)| format!("{key} = {value}\n"));
    prop::collection::vec(line, 0..6).prop_map(|lines| lines.concat())
}

/// A whole machine with some characters changed.
fn mutated() -> impl Strategy<Value = String> {
    let change = (any::<prop::sample::Index>(), 0u8..5, any::<char>());
    prop::collection::vec(change, 1..5).prop_map(|changes| {
        let mut text: Vec<char> = whole_machine().chars().collect();
        for (at, how, with) in changes {
            let at = at.index(text.len().max(1));
            match how {
                0 => text.truncate(at),
                1 => text.insert(at, with),
                2 if !text.is_empty() => drop(text.remove(at)),
                3 if !text.is_empty() => text[at] = with,
                _ if !text.is_empty() => text[at] = '9',
                _ => {}
            }
        }
        text.into_iter().collect()
    })
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![4 => assignments(), 3 => mutated(), 1 => "(?s).{0,60}"]
}

fn run(cases: u32) {
    let mut runner = TestRunner::new(Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    });
    let mut outcomes = [0_u64; 2];
    let counted = std::cell::RefCell::new(&mut outcomes);
    runner
        .run(&any_text(), |text| {
            match Registry::shipped().load(&text, "m.toml") {
                Ok(machine) => {
                    prop_assert!(Registry::shipped().validate(&machine).is_ok());
                    counted.borrow_mut()[0] += 1;
                }
                Err(error) => {
                    let said = error.to_string();
                    prop_assert!(said.starts_with("m.toml:"), "{said}");
                    prop_assert!(!said.contains('\n'), "{said}");
                    counted.borrow_mut()[1] += 1;
                }
            }
            Ok(())
        })
        .expect("no text breaks the reader");
    let few = u64::from(cases) / 100;
    assert!(
        outcomes.iter().all(|&count| count > few),
        "both outcomes must be exercised: {outcomes:?}"
    );
}

#[test]
fn no_text_breaks_the_reader_of_machines() {
    run(3_000);
}

#[test]
#[ignore = "takes minutes; run with --release"]
fn no_text_of_a_million_breaks_the_reader_of_machines() {
    run(1_000_000);
}
