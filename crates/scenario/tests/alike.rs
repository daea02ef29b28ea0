// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Variants that are one machine by two names.

mod common;

use steady_remedies::Registry;
use steady_scenario::Scenario;

/// What is noted of the base scenario with `added` behind it.
fn notes(edits: &[(&str, &str)], added: &str) -> Option<String> {
    let text = format!("{}\n{added}", common::edited(edits));
    let noted = Scenario::parse_noted(&text, "base.toml", &Registry::default())
        .unwrap_or_else(|problems| panic!("{problems}"));
    noted.notes.map(|notes| notes.to_string())
}

#[test]
fn a_feature_that_no_vm_allows_makes_no_other_machine() {
    let banned = [
        ("pin = [0, 1]\n", "pin = [0, 1]\npv = { ipi = false }\n"),
        (
            "background = true\n",
            "background = true\npv = { ipi = false }\n",
        ),
    ];
    let added =
        "[[variant]]\nname = \"with\"\nshoot4u = { mode = \"eager\" }\npv = { ipi = true }\n";
    assert_eq!(
        notes(&banned, added).expect("it is noted"),
        r#"
note: variant "with" is the same machine as "ipi"
  --> base.toml:40:8
   |
40 | name = "with"
   |        ^^^^^^ a comparison with itself, or a switch without effect

1 note in base.toml"#
            .trim_start()
    );
}

#[test]
fn a_feature_that_one_vm_allows_makes_another_machine() {
    let banned = [("pin = [0, 1]\n", "pin = [0, 1]\npv = { ipi = false }\n")];
    let added =
        "[[variant]]\nname = \"with\"\nshoot4u = { mode = \"eager\" }\npv = { ipi = true }\n";
    assert_eq!(notes(&banned, added), None);
}

#[test]
fn the_same_words_for_all_vms_and_for_each_are_one_machine() {
    let added = "[[variant]]\nname = \"all\"\nguest_cmdline = \"quiet\"\n\n\
        [[variant]]\nname = \"each\"\n\n\
        [variant.vm.victim]\nguest_cmdline = \"quiet\"\n\n\
        [variant.vm.hog]\nguest_cmdline = \"quiet\"\n";
    let notes = notes(&[], added).expect("it is noted");
    assert!(notes.contains("variant \"each\" is the same machine as \"all\""));
}

#[test]
fn another_mode_of_a_remedy_makes_another_machine() {
    let added = "[[variant]]\nname = \"plain\"\nshoot4u = {}\npv = { ipi = false }\n";
    assert_eq!(notes(&[], added), None);
}
