// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plans, command lines and refusals, of the scenarios that ship and of small ones.

use std::path::{Path, PathBuf};

use super::*;
use crate::engine::{bochs, qemu};

mod channel;
mod other_kernels;

fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

fn load(path: &str) -> Scenario {
    Scenario::load(project(path)).unwrap_or_else(|error| panic!("{error}"))
}

/// A scenario of two VMs, `host` added to its host and `variant` its only variant.
fn small(host: &str, variant: &str) -> Scenario {
    let vm = |name: &str, pv: &str| {
        format!(
            "[[vm]]\nname = \"{name}\"\nvcpus = 1\nmemory_mib = 96\nguest_cmdline = \"of-{name}\"\n\
             {pv}\n[[vm.workload]]\nprogram = \"shootdown\"\n"
        )
    };
    let text = format!(
        "schema = 2\nname = \"small\"\ntitle = \"t\"\nquestion = \"q\"\n\
         [host]\npcpus = 2\nmemory_mib = 512\n{host}\n{}{}\n[[variant]]\nname = \"x\"\n{variant}\n",
        vm("a", "pv = { eoi = false }"),
        vm("b", ""),
    );
    Scenario::parse(&text, "small.toml").unwrap_or_else(|problems| panic!("{problems}"))
}

/// Words of remedies that came after the first schema.
const LATER: [&str; 3] = [
    "kvm.strict_boost=off",
    "sched.debooster=off",
    "kvm.paratick=off",
];

/// The variant's words on the host's command line, without those of remedies that came later.
fn words(scenario: &Scenario, variant: &str) -> String {
    let variant = scenario.variant(variant).unwrap();
    let words = variant_words(variant, Some(&Registry::default()));
    let words: Vec<String> = words
        .into_iter()
        .filter(|word| !LATER.contains(&word.as_str()))
        .collect();
    words.join(" ")
}

/// What [`check`] says of the only variant of `scenario`.
fn refused(scenario: &Scenario) -> String {
    let variants: Vec<&Variant> = scenario.variants.iter().collect();
    let error = check(scenario, bochs::KIND, &variants).expect_err("it is refused");
    error.to_string()
}

#[test]
fn the_hosts_words_name_the_mode_of_each_remedy_once() {
    for (variant, expected) in [
        ("deferred", "kvm.shoot4u=deferred"),
        ("eager", "kvm.shoot4u=eager"),
        (
            "skip-pcpu",
            "kvm.shoot4u=deferred steady.late=kvm.shoot4u_fault=skip-pcpu",
        ),
        (
            "skip-pcpu-eager",
            "kvm.shoot4u=eager steady.late=kvm.shoot4u_fault=skip-pcpu",
        ),
    ] {
        let faults = load("scenarios/shoot4u-faults.toml");
        assert_eq!(words(&faults, variant), expected);
    }
    let parsec = load("scenarios/papers/shoot4u-parsec.toml");
    let no_ple = "kvm_intel.ple_gap=0 kvm_amd.pause_filter_count=0";
    assert_eq!(
        words(&parsec, "kvm-pv-1vm"),
        format!("{no_ple} kvm.shoot4u=off")
    );
    assert_eq!(
        words(&parsec, "eager-1vm"),
        format!("{no_ple} kvm.shoot4u=eager")
    );
    let staleness = load("scenarios/staleness.toml");
    assert_eq!(words(&staleness, "deferred"), "kvm.shoot4u=deferred");
    assert_eq!(
        words(&load("scenarios/overcommit.toml"), "ipi-short-window"),
        "kvm.shoot4u=off kvm_intel.ple_window=154 kvm_intel.ple_window_grow=1"
    );
}

#[test]
fn a_window_of_pause_loops_is_written_in_cycles_of_the_engines_tsc() {
    // At 200 MHz a cycle is 5 ns. 4096 cycles at 3 GHz are 1365 ns.
    for (window_ns, cycles) in [
        (1365, 273),
        (5, 1),
        (20_480, 4096),
        (1_000_000_000, 200_000_000),
    ] {
        let switches = format!("switches = {{ ple_window_ns = {window_ns} }}");
        let expected = format!("kvm_intel.ple_window={cycles} kvm.shoot4u=off");
        assert_eq!(words(&small("", &switches), "x"), expected);
    }
    assert_eq!(words(&small("", ""), "x"), "kvm.shoot4u=off");
    // A variant's own words come last, and the kernel takes the last.
    let own = "host_cmdline = \"kvm_intel.ple_window=7\"\nswitches = { ple_window_ns = 1365 }";
    assert!(words(&small("", own), "x").ends_with("kvm_intel.ple_window=7"));
}

#[test]
fn knobs_of_the_scheduler_are_in_the_plan_of_their_variant_alone() {
    let of = |table: &str| {
        let scenario = small("", table);
        plan(&scenario, &scenario.variants[0], 1, false)
            .expect("a plan")
            .scheduler
    };
    assert!(of("").is_untouched());
    let turned = of(
        "[variant.scheduler]\nfeatures = [\"HRTICK\"]\nbase_slice_ns = 300000\n\
                     vcpu_slice_ns = 200000\nvcpu_policy = \"batch\"",
    );
    let expected = steady_agent::plan::Scheduler {
        features: vec!["HRTICK".to_owned()],
        base_slice_ns: Some(300_000),
        vcpu_slice_ns: Some(200_000),
        vcpu_batch: true,
    };
    assert_eq!(turned, expected);
}

#[test]
fn a_bpf_scheduler_is_what_its_variants_host_loads() {
    let scenario = small("", "[variant.scheduler]\nbpf = \"x/mine.bpf.c\"");
    assert_eq!(scx::paths(&scenario), ["x/mine.bpf.c"]);
    let made = plan(&scenario, &scenario.variants[0], 1, false).expect("a plan");
    assert_eq!(made.bpf.as_deref(), Some("/scx/mine.bpf.o"));
    let without = small("", "");
    let made = plan(&without, &without.variants[0], 1, false).expect("a plan");
    assert_eq!(made.bpf, None);
}

#[test]
fn a_remedy_that_is_on_has_its_events_traced() {
    let scenario = load("scenarios/two-vms.toml");
    for (variant, traced) in [("shoot4u", true), ("kvm-pv", false)] {
        let variant = scenario.variant(variant).unwrap();
        let trace = plan(&scenario, variant, 1, true).unwrap().trace.unwrap();
        assert_eq!(trace.events.contains(&"kvm_shoot4u".to_owned()), traced);
    }
    let variant = &scenario.variants[0];
    assert_eq!(plan(&scenario, variant, 1, false).unwrap().trace, None);
}

#[test]
fn a_stock_kernel_gets_no_parameter_of_a_remedy() {
    let scenario = small("", "kernel = \"stock\"\nhost_cmdline = \"own\"");
    assert_eq!(words(&scenario, "x"), "own");
}

#[test]
fn each_guest_gets_what_neither_vm_nor_variant_withholds() {
    let scenario = small(
        "",
        "guest_cmdline = \"all\"\npv = { ipi = false }\n\
         [variant.vm.b]\nguest_cmdline = \"last\"\npv = { unhalt = false }",
    );
    let plan = plan(&scenario, &scenario.variants[0], 1, false).unwrap();
    let off = |vm: &VmPlan| {
        let off = vm.pv.iter().filter(|&(_, on)| !on);
        off.map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(off(&plan.vms[0]), ["eoi", "ipi"]);
    assert_eq!(off(&plan.vms[1]), ["ipi", "unhalt"]);
    assert_eq!(plan.vms[0].cmdline, "of-a all");
    assert_eq!(plan.vms[1].cmdline, "of-b all last");
}

#[test]
fn a_remedy_that_the_series_lacks_is_refused() {
    for remedy in Registry::default().all().filter(|remedy| !remedy.shipped) {
        let said = refused(&small("", &format!("{remedy} = {{}}")));
        assert!(
            said.contains(remedy.name) && said.contains("does not have it yet"),
            "{said}"
        );
    }
}

#[test]
fn a_vmm_that_cannot_offer_a_remedy_is_refused() {
    let said = refused(&small("vmm = \"qemu\"", "shoot4u = {}"));
    assert!(said.contains("use vmm = \"steady\""), "{said}");
}

#[test]
fn a_remedy_for_some_vms_is_hidden_from_the_others() {
    let hidden = |variant: &str| {
        let scenario = small("", variant);
        let variants: Vec<&Variant> = scenario.variants.iter().collect();
        check(&scenario, bochs::KIND, &variants).unwrap();
        let plan = plan(&scenario, variants[0], 1, false).unwrap();
        let vms = plan.vms.into_iter();
        vms.map(|vm| vm.hidden_features).collect::<Vec<_>>()
    };
    let bit = Registry::default()
        .find("shoot4u")
        .unwrap()
        .feature_bit
        .unwrap();
    assert_eq!(hidden("shoot4u = { vms = [\"a\"] }"), [vec![], vec![bit]]);
    assert_eq!(hidden("shoot4u = { vms = [] }"), [vec![bit], vec![bit]]);
    assert_eq!(hidden("shoot4u = {}"), [vec![], Vec::<u32>::new()]);
    assert_eq!(hidden(""), [vec![], Vec::<u32>::new()]);
}

#[test]
fn apicv_is_refused_on_an_engine_whose_processors_have_none() {
    let mut scenario = small("", "");
    scenario.variants[0].switches.apicv = true;
    let variants: Vec<&Variant> = scenario.variants.iter().collect();
    check(&scenario, bochs::KIND, &variants).unwrap();
    let refused = check(&scenario, qemu::KIND, &variants).unwrap_err();
    let said = refused.to_string();
    assert!(
        said.contains("APICv") && said.contains("--engine bochs"),
        "{said}"
    );
}

#[test]
fn more_pcpus_or_memory_than_the_engine_has_are_refused() {
    let mut scenario = small("", "");
    scenario.host.pcpus = 17;
    let said = refused(&scenario);
    assert!(
        said.contains("17 pCPUs") && said.contains("lower host.pcpus"),
        "{said}"
    );
    scenario.host.pcpus = 1;
    scenario.host.memory_mib = 1 << 20;
    let said = refused(&scenario);
    assert!(said.contains("lower host.memory_mib"), "{said}");
}

#[test]
fn guests_and_hosts_that_do_not_hold_their_images_are_refused() {
    let scenario = small("", "");
    assert!(check_memory(&scenario, 20 << 20, 100 << 20).is_ok());
    // 96 MiB hold a kernel's 48 and twice an image of 24.
    assert!(check_memory(&scenario, 24 << 20, 1 << 20).is_ok());
    let said = check_memory(&scenario, 25 << 20, 1 << 20)
        .unwrap_err()
        .to_string();
    assert!(
        said.contains("VM a has 96 MiB") && said.contains("at least 98"),
        "{said}"
    );
    // 48 for the kernel, 250 twice.
    let said = check_memory(&scenario, 1 << 20, 250 << 20)
        .unwrap_err()
        .to_string();
    assert!(
        said.contains("the host has 512 MiB") && said.contains("at least 548"),
        "{said}"
    );
}

#[test]
fn a_seed_moves_waits_and_seeds_of_programs_alike_in_all_variants_and_nothing_else() {
    let scenario = load("scenarios/two-vms.toml");
    let of = |variant: &str, seed| {
        plan(&scenario, scenario.variant(variant).unwrap(), seed, false).unwrap()
    };
    let moved = |plan: &HostPlan| -> Vec<_> {
        let workload = |one: &WorkloadPlan| (one.begin_delay_us, one.argv.clone());
        let vms = plan.vms.iter();
        vms.map(|vm| {
            (
                vm.start_delay_us,
                vm.workloads.iter().map(workload).collect::<Vec<_>>(),
            )
        })
        .collect()
    };
    assert_eq!(of("ipi", 1), of("ipi", 1));
    assert_eq!(moved(&of("ipi", 1)), moved(&of("shoot4u", 1)));
    assert_ne!(moved(&of("ipi", 1)), moved(&of("ipi", 2)));
    let still = |mut plan: HostPlan| {
        for vm in &mut plan.vms {
            vm.start_delay_us = 0;
            for workload in &mut vm.workloads {
                workload.begin_delay_us = 0;
                workload.argv.retain(|word| !word.contains("seed="));
            }
        }
        plan
    };
    assert_eq!(still(of("ipi", 1)), still(of("ipi", 2)));
}

#[test]
fn guests_under_another_hypervisor_are_shown_it_by_our_own_vmm_alone() {
    let shown = |scenario: &Scenario| {
        let plan = plan(scenario, &scenario.variants[0], 1, false).unwrap();
        plan.vms.iter().map(|vm| vm.shown).collect::<Vec<_>>()
    };
    assert_eq!(shown(&small("", "")), [Shown::Kvm; 2]);
    let other = "hypervisor = \"hyper-v\"";
    assert_eq!(shown(&small("", other)), [Shown::HyperV; 2]);
    let said = refused(&small("vmm = \"qemu\"", other));
    assert!(said.contains("use vmm = \"steady\""), "{said}");
}

#[test]
fn dedicated_pcpus_are_told_or_given_by_our_own_vmm_alone() {
    let told = |scenario: &Scenario| {
        let plan = plan(scenario, &scenario.variants[0], 1, false).unwrap();
        let told = plan.vms.iter();
        told.map(|vm| (vm.pv.get("realtime").copied(), vm.mwait))
            .collect::<Vec<_>>()
    };
    let switched = |how: &str| format!("[variant.switches]\ndedicated = \"{how}\"");
    assert_eq!(told(&small("", "")), [(None, false); 2]);
    assert_eq!(
        told(&small("", &switched("hint"))),
        [(Some(true), false); 2]
    );
    assert_eq!(told(&small("", &switched("mwait"))), [(None, true); 2]);
    let halting = small("", &switched("halt"));
    assert_eq!(told(&halting), [(None, false); 2]);
    let planned = plan(&halting, &halting.variants[0], 1, false).unwrap();
    assert!(planned.vms.iter().all(|vm| vm.halts));
    let said = refused(&small("vmm = \"qemu\"", &switched("mwait")));
    assert!(said.contains("use vmm = \"steady\""), "{said}");
}

#[test]
fn a_guests_own_kernel_is_in_the_plan_and_among_those_to_build_where_its_vm_is_there() {
    let scenario = load("scenarios/paratick-rates.toml");
    let booted = |name: &str| {
        let variant = scenario.variant(name).unwrap();
        let plan = plan(&scenario, variant, 1, false).unwrap();
        let kernels = plan.vms.into_iter().map(|vm| (vm.name, vm.kernel));
        (kernels.collect(), flavors(&scenario, &[variant]))
    };
    let of = |vm: &str, kernel: Option<&str>| (vm.to_owned(), kernel.map(str::to_owned));
    let (alone, built): (Vec<_>, _) = booted("alone-1000");
    assert_eq!(alone, [of("hz-1000", Some("/lab/bzImage-hz-1000"))]);
    assert_eq!(built, BTreeSet::from([Flavor::Hz1000]));
    assert_eq!(booted("alone-250"), (vec![of("hz-250", None)], [].into()));
    let (together, built) = booted("together");
    assert_eq!(together.len(), 4);
    assert_eq!(
        built,
        BTreeSet::from([Flavor::Hz100, Flavor::Hz300, Flavor::Hz1000])
    );
}

#[test]
fn limits_and_the_hosts_own_load_are_in_the_plan() {
    let folder = "crates/diagnose/tests/known/lab";
    let of = |name: &str| {
        let scenario = load(&format!("{folder}/{name}.toml"));
        plan(&scenario, &scenario.variants[0], 1, false).unwrap()
    };
    let limited = of("known-limit");
    assert_eq!(limited.vms[0].cpu_max_us, Some((30_000, 100_000)));
    assert!(limited.beside.is_empty());
    let loaded = of("known-task");
    assert_eq!(loaded.vms[0].cpu_max_us, None);
    let expected = ["/usr/bin/hostload", "--name", "backup"];
    assert_eq!(loaded.beside[0].argv, expected);
}

#[test]
fn a_kernel_that_checks_itself_is_heard_in_its_guests_and_has_eight_times_as_long() {
    let scenario = small("", "");
    let variant = &scenario.variants[0];
    let plain = plan(&scenario, variant, 1, false).unwrap();
    let mut slow = plain.clone();
    for_kernel_that_checks(&mut slow);
    assert_eq!(slow.vms[0].cmdline, "loglevel=5 of-a");
    assert_eq!(slow.time_limit_ms, 8 * plain.time_limit_ms);
    let limit_ms = |plan: &HostPlan| plan.vms[1].workloads[0].time_limit_ms;
    assert!(limit_ms(&plain) > 0, "a measured program has a limit");
    assert_eq!(limit_ms(&slow), 8 * limit_ms(&plain));
}

#[test]
fn a_program_of_the_host_is_given_the_vms_that_it_is_for() {
    let words = |variant: &str| {
        let scenario = small("", variant);
        let plan = plan(&scenario, &scenario.variants[0], 1, false).unwrap();
        let beside = plan.beside.iter().map(|each| each.argv.join(" "));
        (beside.collect::<Vec<_>>(), steer::on_hosts(&scenario))
    };
    let place = "/usr/bin/steady-steer place --apply";
    for (variant, expected) in [
        ("place = {}", vec![place.to_owned()]),
        ("place = { vms = [\"b\"] }", vec![format!("{place} --vm b")]),
        (
            "place = { mode = \"pinned\" }",
            vec![format!("{place} --pin")],
        ),
        // For no VM, which would be for all to the program.
        ("place = { vms = [] }", vec![]),
    ] {
        assert_eq!(words(variant), (expected, true), "{variant}");
    }
    assert_eq!(words(""), (vec![], false));
}

#[test]
fn a_program_of_guests_runs_in_those_that_it_is_for_on_any_kernel() {
    let scenario = small("", "kernel = \"stock\"\nfold = { vms = [\"b\"] }");
    let plan = plan(&scenario, &scenario.variants[0], 1, false).unwrap();
    let beside = plan.vms.iter().map(|vm| {
        let commands = vm.beside.iter().map(|each| each.argv.join(" "));
        commands.collect::<Vec<_>>()
    });
    let fold = "/usr/bin/steady-steer fold --apply".to_owned();
    assert_eq!(beside.collect::<Vec<_>>(), [vec![], vec![fold]]);
    assert!(steer::in_guests(&scenario) && !steer::on_hosts(&scenario));
    let words = variant_words(&scenario.variants[0], Some(&Registry::default()));
    assert!(words.is_empty(), "{words:?}");
}
