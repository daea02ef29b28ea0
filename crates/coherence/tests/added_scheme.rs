// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Adding a scheme takes one file and one entry, and a scheme's file names nothing of the machine
//! but what it may see and do.

mod common;
#[path = "fixture/nothing.rs"]
mod nothing;

use std::path::{Path, PathBuf};

use steady_coherence::Registry;

use common::{busy_machine, busy_trace, run_checked, violations};
use nothing::{FEE, NOTHING};

fn with_nothing() -> Registry {
    Registry::shipped().with(&[&NOTHING])
}

/// Every source file below a folder of this crate.
fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("the folder is there") {
            let path = entry.expect("it can be listed").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = std::fs::read_to_string(&path).expect("it can be read");
                found.push((path, text));
            }
        }
    }
    found.sort();
    found
}

fn is_test(path: &Path) -> bool {
    path.ends_with("tests.rs")
}

#[test]
fn one_file_and_one_entry_add_a_scheme_that_does_nothing() {
    let registry = with_nothing();
    let (before, after) = (Registry::shipped().all().len(), registry.all().len());
    assert_eq!(after, before + 1);
    let spec = registry.find("nothing").expect("it was added");
    let machine = registry.load("[nothing]\nfee_cycles = 9\ncore.count = 4\n", "m.toml");
    let said = machine
        .expect_err("a section holds its own keys")
        .to_string();
    assert!(
        said.starts_with("m.toml:3:1: unknown field `core`"),
        "{said}"
    );
    assert!(registry.names().ends_with(", nothing"));
    // It loses updates, and the oracle says so.
    let mut machine = busy_machine();
    machine.schemes.set(&FEE, 9);
    let sim = run_checked(&machine, spec, busy_trace(3, 4, 96, 20_000), 1, 0, |_| {});
    assert!(violations(&sim) > 0);
    assert!(sim.counts().initiator_cycles > 0 && sim.counts().victims == 0);
}

#[test]
fn a_machine_file_gives_an_added_scheme_its_parameter_and_only_where_it_was_added() {
    let text = "nothing.fee_cycles = 9\n";
    let machine = with_nothing()
        .load(text, "m.toml")
        .expect("a possible machine");
    assert_eq!(machine.schemes.number(&FEE), 9);
    let said = Registry::shipped()
        .load(text, "m.toml")
        .expect_err("no scheme declares it");
    assert!(
        said.to_string().contains("unknown field `nothing`"),
        "{said}"
    );
    let wrong = [
        (
            "nothing.fee_cycles = 100",
            "m.toml:1:22: `nothing.fee_cycles` is 100: expected 0 to 99",
        ),
        ("nothing.fee = 1", "did you mean `fee_cycles`?"),
        (
            "nothing.fee_cycles = \"x\"",
            "m.toml:1:22: `nothing.fee_cycles`: expected a number",
        ),
        ("nothing = 3", "`nothing` is a section"),
        ("attc.flush = \"stemp\"", "did you mean `stamp`?"),
        ("attc.warm = 1", "expected true or false"),
    ];
    for (text, part) in wrong {
        let said = with_nothing()
            .load(text, "m.toml")
            .expect_err(text)
            .to_string();
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn every_shipped_scheme_is_named_in_its_own_file_and_there_alone() {
    let files = sources("src");
    for spec in Registry::shipped().all() {
        let quoted = format!("name: \"{}\"", spec.name);
        let mut holders = files.iter().filter(|(_, text)| text.contains(&quoted));
        let (file, _) = holders.next().expect("some file has the scheme");
        assert!(holders.next().is_none(), "{} has one file", spec.name);
        assert!(
            file.to_string_lossy().contains("/scheme/"),
            "{}",
            file.display()
        );
        // General code chooses no scheme.
        let general = files
            .iter()
            .filter(|(path, _)| !path.to_string_lossy().contains("/scheme/"));
        for (path, text) in general {
            let code = text
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"));
            let name = format!("\"{}\"", spec.name);
            let named = code.filter(|line| line.contains(&name)).count();
            assert_eq!(named, 0, "{} names {}", path.display(), spec.name);
        }
    }
}

#[test]
fn a_scheme_s_file_reaches_the_machine_through_the_view_alone() {
    const OUT_OF_REACH: [&str; 8] = [
        "machine::Machine",
        "{Machine,",
        " Machine,",
        " Machine}",
        "crate::sim",
        "crate::dram",
        "crate::cache",
        "crate::oracle",
    ];
    let files = sources("src/scheme");
    assert!(files.len() > 15, "the folder holds the schemes");
    for (path, text) in files.iter().filter(|(path, _)| !is_test(path)) {
        for word in OUT_OF_REACH {
            assert!(!text.contains(word), "{} uses {word}", path.display());
        }
    }
    // And the machine knows no scheme: no circle.
    for folder in ["src/machine", "src/os", "src/config"] {
        for (path, text) in sources(folder).iter().filter(|(path, _)| !is_test(path)) {
            let code = text
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"));
            let known = code.filter(|line| line.contains("crate::scheme")).count();
            assert_eq!(known, 0, "{} knows the schemes", path.display());
        }
    }
}
