// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Properties of every valid scenario, and of texts that are not scenarios.

mod common;

use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use steady_remedies::{Registry, Remedy};
use steady_scenario::{
    Cgroup, Chosen, Collect, Dedicated, GuestKernel, HOST_RESERVE_MIB, Host, Hypervisor, Kernel,
    Measure, PROGRAMS, Program, Pv, ResultFrom, Runs, SCHEMA, Scenario, Scheduler, Switches,
    Variant, VcpuPolicy, Vm, VmChange, Vmm, Word, Workload,
};

use common::BASE;

fn line(most: usize) -> impl Strategy<Value = String> {
    // Quotes, backslashes and other scripts are what a writer of TOML has to get right.
    let chars: Vec<char> = "aZ09 \"'\\#=[]{}.,é日".chars().collect();
    vec(select(chars), 1..=most)
        .prop_map(String::from_iter)
        .prop_filter("blank", |text| !text.trim().is_empty())
}

fn cmdline() -> impl Strategy<Value = String> {
    "[ -~]{0,40}"
}

fn workload(background: bool) -> impl Strategy<Value = Workload> {
    let usable = |program: &&Program| program.background || !background;
    let programs: Vec<&'static Program> = PROGRAMS.iter().filter(usable).collect();
    let known = select(programs).prop_map(Runs::Known).boxed();
    let own = "(\\.|/opt)/[a-z][A-Z._a-z]{0,9}".prop_map(|path| {
        let text = BASE.replacen("\"shootdown\"", &format!("{path:?}"), 1);
        let scenario = Scenario::parse(&text, "own").expect("a path is a program");
        scenario.vms[0].workloads[0].program.clone()
    });
    let text = || "[^\\p{Cc}]{0,12}";
    let keys = (
        vec("[a-z/:]{1,9}", 0..3),
        select(ResultFrom::ALL),
        of(line(20)),
    );
    (
        prop_oneof![3 => known, 1 => own.boxed()],
        vec(text(), 0..4),
        1_u32..=86_400,
        keys,
        btree_map("[A-Z_][A-Z0-9_]{0,5}", text(), 0..3),
    )
        .prop_map(move |(program, args, limit, (files, result, ready), env)| {
            let own = program.known().is_none();
            Workload {
                program,
                args,
                time_limit_s: (!background).then_some(limit),
                files: if own { files } else { Vec::new() },
                result: if own { result } else { ResultFrom::Any },
                ready: ready.filter(|_| own && background),
                env,
            }
        })
}

/// What a host may have: a program of the table, with its arguments alone.
fn on_host(workload: Workload) -> Workload {
    let program = workload.program.known().or_else(|| Program::find("spin"));
    Workload {
        program: program.map(Runs::Known).expect("spin is a program"),
        files: Vec::new(),
        result: ResultFrom::Any,
        ready: None,
        env: std::collections::BTreeMap::new(),
        ..workload
    }
}

fn vm(name: String, pcpus: u32, background: bool) -> impl Strategy<Value = Vm> {
    let workloads = vec(workload(background), 1..if background { 2 } else { 4 });
    let pins = of(vec(0..pcpus, 1..9));
    let sizes = (1_u32..=1024, 16_u32..=4096, 8_u32..=65_536, any::<bool>());
    let limit = of((1_000_u32..=1_000_000_000, of(1_000_u32..=1_000_000)));
    let seen = (cmdline(), pv(), select(GuestKernel::ALL));
    let placement = (select(Cgroup::ALL), 1_u32..=10_000, pins, limit);
    (sizes, placement, seen, workloads).prop_map(
        move |(
            (vcpus, memory_mib, disk_mib, disk),
            (cgroup, weight, pin, limit),
            (words, pv, kernel),
            workloads,
        )| {
            let limit = limit.filter(|_| cgroup != Cgroup::None);
            let disk = disk
                || workloads.iter().any(|workload| {
                    workload
                        .program
                        .known()
                        .is_some_and(|known| known.needs_disk)
                });
            let pinned = pin.as_ref().and_then(|pin| u32::try_from(pin.len()).ok());
            Vm {
                name: name.clone(),
                vcpus: pinned.unwrap_or(vcpus),
                memory_mib,
                pin,
                cpu_weight: if cgroup == Cgroup::None { 100 } else { weight },
                cgroup,
                cpu_quota_us: limit.map(|(quota, _)| quota),
                cpu_period_us: limit.and_then(|(_, period)| period),
                disk_mib: disk.then_some(disk_mib),
                kernel,
                guest_cmdline: words,
                background,
                serves: None,
                reaches: Vec::new(),
                pv,
                workloads,
            }
        },
    )
}

fn pv() -> impl Strategy<Value = Pv> {
    any::<[bool; 9]>().prop_map(|pv| Pv {
        tlb_flush: pv[0],
        ipi: pv[1],
        sched_yield: pv[2],
        unhalt: pv[3],
        eoi: pv[4],
        steal_time: pv[5],
        async_pf: pv[6],
        poll_control: pv[7],
        clocksource: pv[8],
    })
}

/// Some of `remedies`, each in any mode and for any of the VMs, where names distinguish them.
fn chosen(remedies: Vec<&'static Remedy>, vms: Vec<String>) -> impl Strategy<Value = Vec<Chosen>> {
    let count = remedies.len();
    subsequence(remedies, 0..=count).prop_flat_map(move |on| {
        let one = |remedy: &'static Remedy| {
            let modes: Vec<_> = remedy.modes.iter().collect();
            let vms = of(subsequence(vms.clone(), 0..=vms.len()));
            (of(select(modes)), vms).prop_map(move |(mode, vms)| Chosen {
                remedy,
                mode,
                vms: vms.filter(|_| remedy.is_by_vm()),
            })
        };
        on.into_iter().map(one).collect::<Vec<_>>()
    })
}

fn changes(vms: Vec<String>) -> impl Strategy<Value = BTreeMap<String, VmChange>> {
    let count = vms.len();
    subsequence(vms, 0..=count).prop_flat_map(|vms| {
        let one = |vm: String| {
            (Just(vm), pv(), "x[ -~]{0,40}")
                .prop_map(|(vm, pv, guest_cmdline)| (vm, VmChange { guest_cmdline, pv }))
        };
        let changes: Vec<_> = vms.into_iter().map(one).collect();
        changes.prop_map(BTreeMap::from_iter)
    })
}

fn scheduler() -> impl Strategy<Value = Scheduler> {
    let slices = [
        of(100_000_u32..=1_000_000_000),
        of(100_000_u32..=100_000_000),
    ];
    (
        vec("(NO_)?[A-Z_]{1,20}", 0..3),
        slices,
        of(select(VcpuPolicy::ALL)),
        of("[a-z./]{1,20}[.]bpf[.][oc]"),
    )
        .prop_map(
            |(features, [base_slice_ns, vcpu_slice_ns], vcpu_policy, bpf)| Scheduler {
                features,
                base_slice_ns,
                vcpu_slice_ns,
                vcpu_policy,
                bpf,
            },
        )
}

fn kernel() -> impl Strategy<Value = Kernel> {
    let named = "[a-z]{0,9}[0-9.-]{1,9}|[a-zA-Z.]{0,9}/[ -~]{0,9}".prop_map(Kernel::Named);
    prop_oneof![select(&Kernel::ALWAYS[..]), named]
}

fn variant(name: String, vms: Vec<String>) -> impl Strategy<Value = Variant> {
    let switches = (
        any::<[bool; 2]>(),
        of(5_u32..=1_000_000_000),
        of(select(Dedicated::ALL)),
        of(0_u32..=1_000_000_000),
        scheduler(),
    );
    let remedies = chosen(Registry::default().all().collect(), vms.clone());
    let words = (of(line(20)), cmdline(), cmdline());
    (
        words,
        (kernel(), select(Hypervisor::ALL)),
        remedies,
        pv(),
        switches,
        changes(vms),
    )
        .prop_map(
            move |((title, guest_cmdline, host_cmdline), seen, remedies, pv, switches, vms)| {
                let (kernel, hypervisor) = seen;
                let stock = kernel == Kernel::Stock;
                let ([ple, apicv], window, dedicated, halt_poll_ns, scheduler) = switches;
                Variant {
                    name: name.clone(),
                    title,
                    kernel,
                    hypervisor,
                    remedies: remedies
                        .into_iter()
                        .filter(|on| {
                            (!stock || !on.remedy.is_of_kernel())
                                && (hypervisor == Hypervisor::Kvm
                                    || on.remedy.feature_bit.is_none())
                        })
                        .collect(),
                    guest_cmdline,
                    host_cmdline,
                    without: Vec::new(),
                    pv,
                    switches: Switches {
                        ple,
                        ple_window_ns: window.filter(|_| ple),
                        apicv,
                        dedicated,
                        halt_poll_ns,
                    },
                    scheduler,
                    vms,
                }
            },
        )
}

fn scenario() -> impl Strategy<Value = Scenario> {
    let shape = (1_u32..=64, vec(any::<bool>(), 0..3), 1_usize..4);
    shape.prop_flat_map(|(pcpus, background, variants)| {
        // The first VM is measured, the others as it comes.
        let kinds = std::iter::once(false).chain(background).enumerate();
        let vms: Vec<_> = kinds
            .map(|(i, b)| vm(format!("vm-{i}"), pcpus, b))
            .collect();
        let names: Vec<String> = (0..vms.len()).map(|i| format!("vm-{i}")).collect();
        let variants: Vec<_> = (0..variants)
            .map(|i| variant(format!("{i}-variant"), names.clone()))
            .collect();
        let collect = subsequence(Collect::ALL.to_vec(), 0..=Collect::ALL.len());
        let numbers = (any::<u64>(), 1_u32..=100, 1_u32..=86_400, 0_u32..1000);
        let smt = any::<bool>().prop_map(move |smt| smt && pcpus % 2 == 0);
        (
            line(80),
            line(200),
            numbers,
            (
                select(Vmm::ALL),
                smt,
                vec(workload(true).prop_map(on_host), 0..3),
            ),
            vms,
            variants,
            collect,
        )
            .prop_map(
                move |(
                    title,
                    question,
                    (seed, repetitions, limit, spare),
                    (vmm, smt, workloads),
                    vms,
                    variants,
                    collect,
                )| {
                    let vms_mib: u32 = vms.iter().map(|vm| vm.memory_mib).sum();
                    let memory_mib = vms_mib + HOST_RESERVE_MIB + spare;
                    Scenario {
                        schema: SCHEMA,
                        name: "generated".to_owned(),
                        title,
                        question,
                        seed,
                        repetitions,
                        host: Host {
                            pcpus,
                            smt,
                            memory_mib,
                            vmm,
                            time_limit_s: limit,
                            workloads,
                        },
                        vms,
                        variants,
                        measure: Measure { collect },
                        folder: std::path::PathBuf::new(),
                    }
                },
            )
    })
}

/// A valid text with a few of its bytes cut, copied or overwritten.
fn mutated() -> impl Strategy<Value = String> {
    let edit = (
        any::<prop::sample::Index>(),
        0_usize..20,
        "[ -~\\n\\t\"'\\[\\]{}=,.#é日\\PC]{0,6}",
    );
    vec(edit, 1..6).prop_map(|edits| {
        let mut chars: Vec<char> = BASE.chars().collect();
        for (at, cut, insert) in edits {
            let start = at.index(chars.len());
            let end = (start + cut).min(chars.len());
            chars.splice(start..end, insert.chars());
            if chars.is_empty() {
                break;
            }
        }
        chars.into_iter().collect()
    })
}

/// Reading `text` either works or gives problems that lie inside it, in order, with words.
fn assert_read_or_refused(text: &str) {
    let Err(problems) = Scenario::parse(text, "fuzz.toml") else {
        return;
    };
    let lines = text.split('\n').count();
    let mut last = (0, 0);
    for problem in problems.iter() {
        assert!(
            (1..=lines).contains(&problem.line) && problem.column >= 1,
            "{problem:?}"
        );
        assert!(
            last <= (problem.line, problem.column),
            "{problem:?} after {last:?}"
        );
        assert!(
            !problem.message.is_empty() && !problem.label.is_empty(),
            "{problem:?}"
        );
        last = (problem.line, problem.column);
    }
    assert!(problems.iter().count() >= 1);
    assert!(problems.to_string().starts_with("error: "));
    assert!(problems.render(true).len() >= problems.render(false).len());
}

proptest! {
    #[test]
    fn resolved_form_reads_back_equal_with_the_same_digest(scenario in scenario()) {
        let text = scenario.to_toml_resolved();
        let read = Scenario::parse(&text, "generated.toml");
        let read = read.unwrap_or_else(|problems| panic!("{problems}\n{text}"));
        prop_assert_eq!(read.digest(), scenario.digest());
        prop_assert_eq!(read, scenario);
    }

    #[test]
    fn mutated_scenarios_are_read_or_refused(text in mutated()) {
        assert_read_or_refused(&text);
    }

    #[test]
    fn arbitrary_text_is_read_or_refused(text in "\\PC{0,200}|[\\x00-\\x7f]{0,200}") {
        assert_read_or_refused(&text);
    }

    #[test]
    fn arbitrary_values_of_every_key_are_read_or_refused(
        table in select(vec!["", "[host]", "[[vm]]", "[[vm]]\n[[vm.workload]]", "[[variant]]",
            "[[variant]]\n[variant.pv]", "[[variant]]\n[variant.vm]",
            "[[variant]]\n[variant.vm.hog]", "[[variant]]\n[variant.shoot4u]", "[variant]",
            "[vm]", "[measure]", "[[setting]]", "[[setting]]\n[setting.switches]"]),
        key in select(vec!["schema", "name", "seed", "host", "vm", "variant", "measure", "pcpus",
            "memory_mib", "pin", "workload", "program", "args", "remedies", "pv", "tlb_flush",
            "switches", "ple", "collect", "cgroup", "kernel", "mode", "vms", "paratick", "hog",
            "setting", "settings", "copies", "without", "ple_window_ns"]),
        value in select(vec!["1", "-1", "1e400", "nan", "0x1F", "\"\"", "'''\nx\n'''", "true",
            "[]", "[[]]", "[1, 'a', {}]", "{}", "{a.b = 1}", "[{}]", "1979-05-27", "07:32:00",
            "99999999999999999999", "'spin'", "{ name = 3, vm = [] }"]),
    ) {
        assert_read_or_refused(&format!("{table}\n{key} = {value}\n"));
        assert_read_or_refused(&format!("{BASE}\n{table}\n{key} = {value}\n"));
    }

    #[test]
    fn arbitrary_bytes_load_or_are_refused(bytes in vec(any::<u8>(), 0..300)) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fuzz.toml");
        std::fs::write(&path, bytes).unwrap();
        if let Err(error) = Scenario::load(&path) {
            prop_assert!(error.to_string().contains("fuzz.toml"));
        }
    }
}
