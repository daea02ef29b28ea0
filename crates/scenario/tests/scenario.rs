// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The scenario as read: defaults, digest, resolved form, choice of variants; and the scenarios
//! that ship.

mod common;

use std::path::{Path, PathBuf};

use steady_scenario::{Cgroup, Collect, Kernel, PROGRAMS, PvFeature, Scenario, Vmm, Word};

use common::{BASE, edited};

fn parse(text: &str) -> Scenario {
    Scenario::parse(text, "test.toml").unwrap_or_else(|problems| panic!("{problems}"))
}

/// Every key and table that has a default, left out.
const LEAST: &str = r#"
schema = 2
name = "a"
title = "t"
question = "q"
host = { pcpus = 1, memory_mib = 144 }
vm = [{ name = "v", vcpus = 1, memory_mib = 16, workload = [{ program = "spin" }] }]
variant = [{ name = "x" }]
"#;

#[test]
fn absent_keys_have_the_documented_defaults() {
    let scenario = parse(LEAST);
    assert_eq!((scenario.seed, scenario.repetitions), (1, 1));
    assert_eq!(
        (scenario.host.vmm, scenario.host.time_limit_s),
        (Vmm::Steady, 120)
    );
    let vm = &scenario.vms[0];
    assert_eq!(
        (vm.cpu_weight, vm.cgroup, vm.background),
        (100, Cgroup::Vm, false)
    );
    assert_eq!(
        (vm.pin.as_ref(), vm.disk_mib, vm.guest_cmdline.as_str()),
        (None, None, "")
    );
    assert_eq!(vm.workloads[0].time_limit_s, Some(60));
    assert!(vm.workloads[0].args.is_empty());
    let variant = &scenario.variants[0];
    assert_eq!(
        (variant.title.as_ref(), variant.remedies.as_slice()),
        (None, &[][..])
    );
    assert_eq!(variant.kernel, Kernel::Patched);
    assert!(variant.vms.is_empty());
    assert!(vm.pv.iter().all(|(_, offered)| offered));
    assert_eq!(
        (
            variant.guest_cmdline.as_str(),
            variant.host_cmdline.as_str()
        ),
        ("", "")
    );
    assert!(variant.pv.iter().all(|(_, offered)| offered));
    assert_eq!(
        (
            variant.switches.ple,
            variant.switches.apicv,
            variant.switches.dedicated,
            variant.switches.halt_poll_ns
        ),
        (true, false, None, None)
    );
    assert_eq!(scenario.measure.collect, Collect::ALL);
}

#[test]
fn each_pv_feature_is_switched_by_its_own_key() {
    for &off in PvFeature::ALL {
        let pv = format!("{} = false", off.name());
        let scenario = parse(&edited(&[("ipi = false", &pv)]));
        for (feature, offered) in scenario.variants[0].pv.iter() {
            assert_eq!(offered, feature != off, "{feature} with {off} off");
        }
    }
}

#[test]
fn integers_may_be_written_in_any_way_of_toml() {
    let scenario = parse(&edited(&[
        ("title", "seed = 0xffff_ffff_ffff_ffff\ntitle"),
        ("memory_mib = 512", "memory_mib = +1_024"),
        ("pcpus = 2", "pcpus = 0b10"),
    ]));
    assert_eq!(scenario.seed, u64::MAX);
    assert_eq!((scenario.host.memory_mib, scenario.host.pcpus), (1024, 2));
}

#[test]
fn digest_is_the_sha256_of_the_documented_form() {
    // The JSON was written by hand, and its digest computed with sha256sum.
    let digest = "f23c95a1994609ddb050279b87f19b5b2ee55a53b4b7816d4ff095b162de5ac8";
    assert_eq!(parse(LEAST).digest(), digest);
    let remedy = "name = \"x\", shoot4u = { vms = [\"v\"] }";
    let with_remedy = LEAST.replace("name = \"x\"", remedy);
    let digest = "2794ea699e94e76a084b4b6df05dcacdc40a5c90d45e443f29ad5881cceed64c";
    assert_eq!(parse(&with_remedy).digest(), digest);
}

#[test]
fn digest_ignores_comments_order_of_keys_written_defaults_and_seeds() {
    let digest = parse(BASE).digest();
    for edits in [
        vec![(
            "pcpus = 2\nmemory_mib = 512",
            "memory_mib = 512 # much\npcpus = 2",
        )],
        vec![(
            "pcpus = 2",
            "pcpus = 2\nvmm = \"steady\"\ntime_limit_s = 120",
        )],
        vec![(
            "ipi = false",
            "ipi = false\neoi = true\n[variant.switches]\nple = true",
        )],
        vec![("memory_mib = 512", "memory_mib = 0x200")],
        vec![("title =", "seed = 2\nrepetitions = 9\ntitle =")],
    ] {
        assert_eq!(parse(&edited(&edits)).digest(), digest, "{edits:?}");
    }
    let plain = |table| edited(&[("shoot4u = { mode = \"eager\" }", table)]);
    let one = parse(&plain("paratick = {}\nshoot4u = {}"));
    let other = parse(&plain("shoot4u = {}\nparatick = {}\n[variant.vm.hog]"));
    assert_eq!(one.digest(), other.digest());
    let names: Vec<&str> = one.variants[0]
        .remedies
        .iter()
        .map(|on| on.remedy.name)
        .collect();
    assert_eq!(names, ["shoot4u", "paratick"]);
}

#[test]
fn digest_changes_with_every_other_value() {
    let mut digests = vec![parse(BASE).digest()];
    for (from, to) in [
        ("\"A title\"", "\"Another title\""),
        ("pcpus = 2", "pcpus = 3"),
        ("pin = [0, 1]", "pin = [1, 0]"),
        ("pin = [0, 1]", "pin = [0, 1]\ncgroup = \"vcpu\""),
        ("\"1\"]", "\"2\"]"),
        ("ipi = false", "ipi = true"),
        (
            "ipi = false",
            "ipi = false\n[variant.switches]\nhalt_poll_ns = 0",
        ),
        ("shoot4u", "host_cmdline = \"x\"\nshoot4u"),
        ("shoot4u = { mode = \"eager\" }\n", ""),
        ("shoot4u = { mode = \"eager\" }", "kernel = \"stock\""),
        ("shoot4u = { mode = \"eager\" }", "kernel = \"7.3\""),
        ("mode = \"eager\"", "mode = \"deferred\""),
        ("mode = \"eager\"", "vms = [\"victim\"]"),
        ("pin = [0, 1]", "pin = [0, 1]\npv.eoi = false"),
        (
            "[variant.pv]",
            "[variant.vm.hog.pv]\neoi = false\n[variant.pv]",
        ),
        (
            "[variant.pv]",
            "[variant.vm.hog]\nguest_cmdline = \"x\"\n[variant.pv]",
        ),
        ("[variant.pv]", "[measure]\ncollect = []\n[variant.pv]"),
    ] {
        digests.push(parse(&edited(&[(from, to)])).digest());
    }
    let count = digests.len();
    digests.sort();
    digests.dedup();
    assert_eq!(digests.len(), count);
}

#[test]
fn unknown_variant_names_the_nearest_and_all() {
    let scenario = parse(&edited(&[(
        "[[variant]]",
        "[[variant]]\nname = \"kvm-pv\"\n[[variant]]",
    )]));
    assert_eq!(
        scenario.variant("ipi").map(|variant| variant.name.as_str()),
        Ok("ipi")
    );
    assert_eq!(
        scenario.variant("kvmpv").unwrap_err().to_string(),
        "no variant `kvmpv` in scenario `base`; did you mean `kvm-pv`?; it has: kvm-pv, ipi"
    );
    assert_eq!(
        scenario
            .select(&["ipi".into(), "paratick".into()])
            .unwrap_err()
            .to_string(),
        "no variant `paratick` in scenario `base`; it has: kvm-pv, ipi"
    );
}

#[test]
fn selected_variants_come_once_and_in_the_files_order() {
    let scenario = parse(&edited(&[(
        "[[variant]]",
        "[[variant]]\nname = \"kvm-pv\"\n[[variant]]",
    )]));
    let select = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let selected = scenario.select(&names).unwrap();
        selected
            .iter()
            .map(|variant| variant.name.as_str())
            .collect::<Vec<_>>()
    };
    assert_eq!(select(&[]), ["kvm-pv", "ipi"]);
    assert_eq!(select(&["ipi", "kvm-pv", "ipi"]), ["kvm-pv", "ipi"]);
    assert_eq!(select(&["ipi"]), ["ipi"]);
}

#[test]
fn program_names_are_unique() {
    let mut names: Vec<&str> = PROGRAMS.iter().map(|program| program.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), PROGRAMS.len());
}

/// The scenario files below `directory`.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in directory.read_dir().expect("the directory ships") {
        let path = entry.expect("the directory can be read").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            found.push(path);
        }
    }
    found
}

#[test]
fn every_shipped_scenario_is_right() {
    let files = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios"));
    assert!(files.len() >= 2, "{files:?}");
    for file in files {
        let mut scenario = Scenario::load(&file).unwrap_or_else(|error| panic!("{error}"));
        scenario.folder = PathBuf::new();
        assert_eq!(parse(&scenario.to_toml_resolved()), scenario);
    }
}
