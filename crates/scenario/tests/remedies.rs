// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Remedies, kernels and changes to single VMs: each test asks what a variant may say of one.

mod common;

use steady_scenario::{GuestKernel, Hypervisor, PvFeature, Scenario, Word};

use common::{edited, problems};

const REMEDY: &str = "shoot4u = { mode = \"eager\" }";

fn parse(text: &str) -> Scenario {
    Scenario::parse(text, "base.toml").unwrap_or_else(|problems| panic!("{problems}"))
}

/// What is said of the base scenario with `line` in place of its remedy.
fn said(line: &str) -> String {
    problems(&edited(&[(REMEDY, line)]))
}

#[test]
fn an_empty_table_is_the_default_mode_for_all_vms() {
    let scenario = parse(&edited(&[(REMEDY, "shoot4u = {}")]));
    let on = &scenario.variants[0].remedies[0];
    assert_eq!(
        (on.remedy.name, on.mode, on.mode()),
        ("shoot4u", None, "deferred")
    );
    assert!(on.is_offered_to("victim") && on.is_offered_to("hog"));
}

#[test]
fn a_remedy_for_some_vms_leaves_the_others_unaware() {
    let scenario = parse(&edited(&[(REMEDY, "shoot4u = { vms = [\"hog\"] }")]));
    let on = &scenario.variants[0].remedies[0];
    assert_eq!(
        (on.is_offered_to("victim"), on.is_offered_to("hog")),
        (false, true)
    );
}

#[test]
fn an_unknown_key_of_a_remedy_names_its_table() {
    let said = said("shoot4u = { mod = \"eager\" }");
    assert!(
        said.contains("unknown key `mod` in `[variant.shoot4u]`"),
        "{said}"
    );
    assert!(said.contains("did you mean `mode`?"), "{said}");
}

#[test]
fn a_mode_in_place_of_a_table_is_a_wrong_type() {
    let said = said("shoot4u = \"eager\"");
    assert!(said.contains("`shoot4u` is a string"), "{said}");
    assert!(
        said.contains("expected the table `[variant.shoot4u]`"),
        "{said}"
    );
}

#[test]
fn a_remedys_parameter_among_the_hosts_words_is_answered_with_its_key() {
    for (words, label) in [
        (
            "x=1 kvm.shoot4u=eager",
            "write `mode = \"eager\"` in `[variant.shoot4u]`",
        ),
        ("kvm.shoot4u=off", "leave `[variant.shoot4u]` out instead"),
        (
            "\\\"kvm.shoot4u=soon\\\"",
            "write `mode` in `[variant.shoot4u]`",
        ),
        (
            "kvm.strict_boost=on",
            "write `mode = \"on\"` in `[variant.strict-boost]`",
        ),
    ] {
        let said = said(&format!("host_cmdline = \"{words}\""));
        assert!(said.contains(label), "{words}: {said}");
    }
    // Other parameters of the same module are the host's own.
    let other = "host_cmdline = \"kvm.shoot4u_fault=x steady.late=kvm.shoot4u_fault=skip-pcpu\"";
    parse(&edited(&[(REMEDY, other)]));
}

#[test]
fn the_hypervisor_is_kvm_unless_said_and_then_not_in_the_canonical_form() {
    let written = parse(&edited(&[(REMEDY, "hypervisor = \"kvm\"")]));
    let left_out = parse(&edited(&[(REMEDY, "")]));
    assert_eq!(written.digest(), left_out.digest());
    assert!(!written.to_toml_resolved().contains("hypervisor"));
    let other = parse(&edited(&[(REMEDY, "hypervisor = \"hyper-v\"")]));
    assert_eq!(other.variants[0].hypervisor, Hypervisor::HyperV);
    assert_ne!(other.digest(), left_out.digest());
    assert!(
        other
            .to_toml_resolved()
            .contains("hypervisor = \"hyper-v\"")
    );
}

#[test]
fn a_guest_boots_its_hosts_kernel_unless_said_and_then_it_is_not_in_the_canonical_form() {
    let of = |kernel: &str| parse(&edited(&[("pin = [0, 1]", kernel)]));
    let (written, left_out) = (of("kernel = \"host\""), of(""));
    assert_eq!(written.digest(), left_out.digest());
    let other = of("kernel = \"hz-1000\"");
    assert_eq!(other.vms[0].kernel, GuestKernel::Hz1000);
    assert_ne!(other.digest(), left_out.digest());
    assert!(other.to_toml_resolved().contains("kernel = \"hz-1000\""));
}

#[test]
fn a_remedy_without_a_feature_bit_takes_no_vms() {
    let said = said("debooster = { vms = [\"hog\"] }");
    assert!(
        said.contains("`vms` has no effect: debooster is not offered to single guests"),
        "{said}"
    );
}

#[test]
fn a_remedy_for_an_unknown_vm_is_answered_with_the_nearest() {
    let said = said("shoot4u = { vms = [\"hogg\"] }");
    assert!(said.contains("no VM is named `hogg`"), "{said}");
    assert!(said.contains("did you mean `hog`?"), "{said}");
}

#[test]
fn nothing_is_said_of_a_vm_that_is_not_there() {
    for line in [
        "without = [\"hog\"]\nshoot4u = { vms = [\"hog\"] }",
        "without = [\"hog\"]\nvm.hog = { guest_cmdline = \"x\" }",
    ] {
        let said = said(line);
        assert!(said.contains("VM `hog` is not there"), "{said}");
        assert!(said.contains("1 problem in"), "{said}");
    }
}

#[test]
fn a_change_of_an_unknown_vm_is_answered_with_the_nearest() {
    let said = said("vm.victims = {}");
    assert!(said.contains("did you mean `victim`?"), "{said}");
}

#[test]
fn an_unknown_key_of_a_vms_change_names_its_table() {
    let said = said("vm.hog.pin = [0]");
    assert!(
        said.contains("unknown key `pin` in `[variant.vm.hog]`"),
        "{said}"
    );
}

#[test]
fn a_feature_is_offered_where_no_table_withholds_it() {
    for &feature in PvFeature::ALL {
        let name = feature.name();
        let withhold =
            |keys: &str| parse(&edited(&[("ipi = false", "ipi = true"), (REMEDY, keys)]));
        let nowhere = withhold("");
        let in_variant = withhold(&format!("vm.victim = {{ pv = {{ {name} = false }} }}"));
        for (vm, offered) in [("victim", false), ("hog", true)] {
            let of = |scenario: &Scenario| {
                let vm = scenario.vms.iter().find(|other| other.name == vm).unwrap();
                scenario.variants[0].pv_of(vm).offers(feature)
            };
            assert!(of(&nowhere));
            assert_eq!(of(&in_variant), offered, "{feature} of {vm}");
        }
        let own = edited(&[
            ("ipi = false", "ipi = true"),
            ("pin = [0, 1]", &format!("pv = {{ {name} = false }}")),
        ]);
        let scenario = parse(&own);
        let offered: Vec<bool> = scenario
            .vms
            .iter()
            .map(|vm| scenario.variants[0].pv_of(vm).offers(feature))
            .collect();
        assert_eq!(offered, [false, true], "{feature}");
    }
}
