// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What it takes to add a remedy: a folder of kernel changes and an entry in the registry. The one
//! added here does nothing; `docs/ARCHITECTURE.md` describes the steps.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use steady_lab::translate;
use steady_remedies::{Means, Mode, Registry, Remedy, VmmDuty};
use steady_scenario::Scenario;

/// The one entry.
static NOOP: Remedy = Remedy {
    name: "noop",
    title: "A remedy that does nothing",
    means: Means::Kernel,
    parameter: "kvm.noop",
    off: "n",
    modes: &[Mode {
        name: "on",
        about: "does nothing",
    }],
    default_mode: "on",
    feature_bit: None,
    trace_system: Some("kvm_noop"),
    guest_off: None,
    vmm: VmmDuty::Nothing,
    shipped: true,
    is_still_when_off: false,
    folder: "noop-remedy",
    answers: &[],
};

const SCENARIO: &str = r#"
schema = 2
name = "noop"
title = "Nothing"
question = "Does a remedy that does nothing cost nothing?"
host = { pcpus = 1, memory_mib = 256 }
vm = [{ name = "a", vcpus = 1, memory_mib = 96, workload = [{ program = "pingpong" }] }]

[[variant]]
name = "without"

[[variant]]
name = "with"

[variant.noop]
mode = "on"
"#;

/// The one folder.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(NOOP.folder)
}

/// The files below `folder`, by their paths in it.
fn files(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap();
                found.insert(name.to_string_lossy().into_owned());
            }
        }
    }
    found
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::copy(from, to).unwrap();
}

#[test]
fn a_remedy_is_the_files_of_its_folder_and_one_entry() {
    let own = files(&folder());
    let touched = own.len() + 1;
    // A file, its Kconfig and its hook in the folder; the table in crates/remedies.
    assert_eq!(touched, 4, "{own:?}");
    let registry = Registry::default().with(&NOOP);
    assert_eq!(
        registry.all().count(),
        Registry::default().all().count() + 1
    );
}

#[test]
fn a_new_entry_is_known_to_scenarios_and_to_the_lab() {
    let registry = Registry::default().with(&NOOP);
    let noted = Scenario::parse_noted(SCENARIO, "noop.toml", &registry);
    let scenario = noted
        .unwrap_or_else(|problems| panic!("{problems}"))
        .scenario;
    let words = |name: &str| {
        let words = translate::variant_words(scenario.variant(name).unwrap(), Some(&registry));
        words.join(" ")
    };
    assert!(words("with").ends_with(" kvm.noop=on"), "{}", words("with"));
    assert!(
        words("without").ends_with(" kvm.noop=n"),
        "{}",
        words("without")
    );
    let events = |name: &str| {
        let variant = scenario.variant(name).unwrap();
        let plan = translate::plan(&scenario, variant, 1, true).unwrap();
        plan.trace.unwrap().events
    };
    assert!(events("with").contains(&"kvm_noop".to_owned()));
    assert!(!events("without").contains(&"kvm_noop".to_owned()));
    // No other code knows it: without the entry the table is an unknown key.
    let said = Scenario::parse(SCENARIO, "noop.toml")
        .unwrap_err()
        .to_string();
    assert!(
        said.contains("unknown key `noop` in `[[variant]]`"),
        "{said}"
    );
}

#[test]
fn apply_puts_the_folders_files_into_a_tree_and_changes_the_hooked_one() {
    let place = tempfile::tempdir().unwrap();
    let linux = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../linux");
    // Our script with the folder as all its changes: the tree below has nothing that others hook.
    for file in files(&folder()) {
        copy(
            &folder().join(&file),
            &place.path().join("linux").join(&file),
        );
    }
    for script in ["apply", "lib.sh"] {
        if linux.join(script).exists() {
            copy(
                &linux.join(script),
                &place.path().join("linux").join(script),
            );
        }
    }
    let tree = place.path().join("tree");
    fs::create_dir_all(tree.join("virt/kvm")).unwrap();
    fs::write(tree.join("Makefile"), "VERSION = 6\nPATCHLEVEL = 12\n").unwrap();
    let config = "# SPDX-License-Identifier: GPL-2.0\n# KVM common configuration items\n\n\
                  config KVM_COMMON\n       bool\n       select EVENTFD\n\x20      \
                  select INTERVAL_TREE\n";
    fs::write(tree.join("virt/kvm/Kconfig"), config).unwrap();
    let before = files(&tree);
    let mut apply = Command::new(place.path().join("linux/apply"));
    let output = apply.arg(&tree).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let made: Vec<String> = files(&tree).difference(&before).cloned().collect();
    assert_eq!(made, ["virt/kvm/Kconfig.noop", "virt/kvm/noop.c"]);
    let hooked = fs::read_to_string(tree.join("virt/kvm/Kconfig")).unwrap();
    assert!(
        hooked.contains("source \"virt/kvm/Kconfig.noop\"\n\nconfig KVM_COMMON"),
        "{hooked}"
    );
}
