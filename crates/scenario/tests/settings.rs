// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings and copies: what a short file stands for, and what its writer reads of a slip.

mod common;

use steady_scenario::Scenario;

use common::{BASE, edited, problems};

/// Two settings: without the hog and with it, there without pause-loop exits.
const SETTINGS: &str = "
[[setting]]
name = \"1vm\"
title = \"one VM\"
without = [\"hog\"]

[[setting]]
name = \"2vm\"
switches = { ple = false }

";

fn parse(text: &str) -> Scenario {
    Scenario::parse(text, "test.toml").unwrap_or_else(|problems| panic!("{problems}"))
}

/// The base scenario with `settings`, its variant with `keys`, and `more` at its end.
fn with(settings: &str, keys: &str, more: &str) -> String {
    let name = "name = \"ipi\"\n";
    let variant = format!("{name}{keys}");
    edited(&[
        ("[[variant]]\n", &format!("{settings}[[variant]]\n")),
        (name, &variant),
    ]) + more
}

#[test]
fn a_crossed_file_is_the_file_that_writes_every_variant() {
    let short = with(
        SETTINGS,
        "title = \"no IPIs\"\n",
        "\n[[variant]]\nname = \"stock\"\nsettings = [\"2vm\"]\n\
         [[variant]]\nname = \"poll\"\nswitches = { halt_poll_ns = 0 }\n",
    );
    let one = "shoot4u = { mode = \"eager\" }\npv = { ipi = false }\n";
    let variants = format!(
        "[[variant]]\nname = \"ipi-1vm\"\ntitle = \"no IPIs, one VM\"\nwithout = [\"hog\"]\n{one}\
         [[variant]]\nname = \"poll-1vm\"\ntitle = \"poll, one VM\"\nwithout = [\"hog\"]\n\
         switches = {{ halt_poll_ns = 0 }}\n\
         [[variant]]\nname = \"ipi-2vm\"\ntitle = \"no IPIs, 2vm\"\n\
         switches = {{ ple = false }}\n{one}\
         [[variant]]\nname = \"stock-2vm\"\nswitches = {{ ple = false }}\n\
         [[variant]]\nname = \"poll-2vm\"\nswitches = {{ ple = false, halt_poll_ns = 0 }}\n"
    );
    let base = BASE.split("[[variant]]").next().unwrap();
    let (short, long) = (parse(&short), parse(&format!("{base}{variants}")));
    assert_eq!(short, long);
    assert_eq!(short.digest(), long.digest());
}

#[test]
fn copies_are_vms_behind_the_first_with_numbered_names() {
    let short = edited(&[("name = \"hog\"\n", "name = \"hog\"\ncopies = 3\n")]);
    let spin = "workload = [{ program = \"spin\" }]";
    let hog = format!("vcpus = 2\nmemory_mib = 64\nbackground = true\n{spin}\n");
    let more = format!("[[vm]]\nname = \"hog-2\"\n{hog}[[vm]]\nname = \"hog-3\"\n{hog}[[variant]]");
    let (short, long) = (parse(&short), parse(&edited(&[("[[variant]]", &more)])));
    assert_eq!(short, long);
    assert_eq!(short.digest(), long.digest());
}

#[test]
fn a_copy_can_be_named_where_vms_are() {
    let hog = ("name = \"hog\"\n", "name = \"hog\"\ncopies = 2\n");
    let variant = (
        "name = \"ipi\"\n",
        "name = \"ipi\"\nwithout = [\"hog-2\"]\n",
    );
    let scenario = parse(&edited(&[hog, variant]));
    let there: Vec<&str> = scenario
        .vms_of(&scenario.variants[0])
        .map(|vm| vm.name.as_str())
        .collect();
    assert_eq!(there, ["victim", "hog"]);
}

#[test]
fn the_hosts_memory_holds_every_copy() {
    let said = problems(&edited(&[(
        "name = \"hog\"\n",
        "name = \"hog\"\ncopies = 8\n",
    )]));
    let expected = "expected at least 736: 608 for the VMs and 128 for the host itself";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn a_copy_by_the_name_of_another_vm_is_refused() {
    let said = problems(&edited(&[
        ("name = \"hog\"\n", "name = \"hog\"\ncopies = 2\n"),
        ("name = \"victim\"\n", "name = \"hog-2\"\n"),
    ]));
    assert!(said.contains("a second VM is named `hog-2`"), "{said}");
}

#[test]
fn too_many_copies_are_refused() {
    let copies = |n| {
        problems(&edited(&[(
            "name = \"hog\"\n",
            &format!("name = \"hog\"\ncopies = {n}\n"),
        )]))
    };
    let said = copies(64);
    assert!(said.contains("the VMs are 65 with their copies"), "{said}");
    let said = copies(0);
    assert!(said.contains("expected an integer from 1 to 64"), "{said}");
}

#[test]
fn an_unknown_setting_is_answered_with_the_nearest() {
    assert_eq!(
        problems(&with(SETTINGS, "settings = [\"1vms\", \"2vm\"]\n", "")),
        r#"
error: no setting is named `1vms`
  --> base.toml:42:13
   |
42 | settings = ["1vms", "2vm"]
   |             ^^^^^^ did you mean `1vm`?

1 problem in base.toml"#
            .trim_start()
    );
}

#[test]
fn a_setting_that_no_variant_is_in_is_refused() {
    assert_eq!(
        problems(&with(SETTINGS, "settings = [\"2vm\"]\n", "")),
        r#"
error: no variant is in setting `1vm`
  --> base.toml:32:8
   |
32 | name = "1vm"
   |        ^^^^^ remove it, or list it in a variant's `settings`

1 problem in base.toml"#
            .trim_start()
    );
}

#[test]
fn settings_of_a_file_without_any_are_refused() {
    let said = problems(&with("", "settings = [\"1vm\"]\n", ""));
    assert!(said.contains("the file has no `[[setting]]`"), "{said}");
}

#[test]
fn an_empty_list_of_settings_is_refused() {
    let said = problems(&with(SETTINGS, "settings = []\n", ""));
    assert!(said.contains("`settings` is empty"), "{said}");
}

#[test]
fn a_switch_of_both_variant_and_setting_is_refused() {
    assert_eq!(
        problems(&with(SETTINGS, "switches = { ple = true }\n", "")),
        r#"
error: `ple` is switched by setting `2vm` as well
  --> base.toml:42:20
   |
42 | switches = { ple = true }
   |                    ^^^^ remove one of the two, or leave the setting out of `settings`

1 problem in base.toml"#
            .trim_start()
    );
}

#[test]
fn a_variant_that_names_a_vm_which_its_setting_lacks_is_refused() {
    let change = "\n[variant.vm.hog]\nguest_cmdline = \"x\"\n";
    assert_eq!(
        problems(&with(SETTINGS, "", change)),
        r#"
error: VM `hog` is not there in setting `1vm`
  --> base.toml:41:8
   |
41 | name = "ipi"
   |        ^^^^^ leave the setting out of `settings`, or the VM out of the variant

1 problem in base.toml"#
            .trim_start()
    );
    let listed = ("{ mode = \"eager\" }", "{ vms = [\"hog\"] }");
    let said = problems(&with(SETTINGS, "", "").replace(listed.0, listed.1));
    assert!(
        said.contains("VM `hog` is not there in setting `1vm`"),
        "{said}"
    );
}

#[test]
fn a_setting_and_a_variant_leave_a_measured_vm() {
    let text = edited(&[("background = true\n", ""), ("\"spin\"", "\"shootdown\"")]);
    let text = text.replace("[[variant]]\n", &format!("{SETTINGS}[[variant]]\n"));
    let text = text.replace(
        "name = \"ipi\"\n",
        "name = \"ipi\"\nwithout = [\"victim\"]\n",
    );
    let said = problems(&text);
    assert!(
        said.contains("no measured VM is left in setting `1vm`"),
        "{said}"
    );
}

#[test]
fn crossed_names_and_titles_are_checked() {
    let long = "x".repeat(61);
    let keys = format!("title = \"{}\"\n", "y".repeat(75));
    let said = problems(&with(SETTINGS, &keys, "").replace("\"ipi\"", &format!("\"{long}\"")));
    for expected in [
        "`name` with that of setting `1vm` has 65 characters",
        "`title` with that of setting `1vm` has 83 characters",
    ] {
        assert!(said.contains(expected), "{said}");
    }
    let more = "[[setting]]\nname = \"b-1vm\"\n\n";
    let same = with(
        &format!("{SETTINGS}{more}"),
        "",
        "\n[[variant]]\nname = \"ipi-b\"\n",
    );
    let said = problems(&same);
    assert!(
        said.contains("a second variant is named `ipi-b-1vm`"),
        "{said}"
    );
}

#[test]
fn more_variants_than_fit_are_refused_once_they_are_crossed() {
    let settings: String = (0..65)
        .map(|n| format!("[[setting]]\nname = \"s{n}\"\n\n"))
        .collect();
    let said = problems(&with(&settings, "", ""));
    assert!(said.contains("`setting` has 65 elements"), "{said}");
    let settings: String = (0..33)
        .map(|n| format!("[[setting]]\nname = \"s{n}\"\n\n"))
        .collect();
    let said = problems(&with(&settings, "", "\n[[variant]]\nname = \"other\"\n"));
    assert!(
        said.contains("the variants are 66 with their settings"),
        "{said}"
    );
}

#[test]
fn a_setting_that_makes_no_other_machine_is_noted() {
    let settings = "[[setting]]\nname = \"a\"\n\n[[setting]]\nname = \"b\"\n\n";
    let text = with(settings, "", "");
    let registry = steady_remedies::Registry::default();
    let noted = Scenario::parse_noted(&text, "base.toml", &registry).unwrap();
    let notes = noted.notes.expect("it is noted").to_string();
    assert!(
        notes.contains("variant \"ipi-b\" is the same machine as \"ipi-a\""),
        "{notes}"
    );
}

#[test]
fn a_window_where_pause_loops_are_no_exits_is_refused() {
    let window = |more| format!("switches = {{ ple_window_ns = 1365{more} }}\n");
    assert_eq!(
        problems(&with("", &window(", ple = false"), "")),
        r#"
error: `ple_window_ns` has no effect with `ple = false`
  --> base.toml:32:30
   |
32 | switches = { ple_window_ns = 1365, ple = false }
   |                              ^^^^ remove one of the two

1 problem in base.toml"#
            .trim_start()
    );
    let said = problems(&with(SETTINGS, &window(""), ""));
    assert!(said.contains("no effect with `ple = false`"), "{said}");
}

#[test]
fn a_window_is_in_the_resolved_form_only_where_it_is_given() {
    let plain = parse(BASE);
    assert!(!plain.to_toml_resolved().contains("ple_window_ns"));
    let window = parse(&with("", "switches = { ple_window_ns = 1365 }\n", ""));
    assert!(window.to_toml_resolved().contains("ple_window_ns = 1365\n"));
    assert_ne!(window.digest(), plain.digest());
    assert_eq!(parse(&window.to_toml_resolved()), window);
}
