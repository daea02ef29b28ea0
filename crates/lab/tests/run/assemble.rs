// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Do the events of a run become the measures that they stand for?

use std::collections::BTreeMap;
use std::fs;

use steady_agent::channel::Output;
use steady_agent::event::{Event, VmWindow, Window};
use steady_lab::RunFault;
use steady_lab::engine::watch::Transcript;
use steady_lab::measure::assemble::{Context, repetition};
use steady_lab::measure::symbol::Symbols;
use steady_measures::Repetition;
use steady_scenario::Scenario;

use super::{end, up};

const SCENARIO: &str = r#"
schema = 2
name = "test"
title = "t"
question = "q"
[host]
pcpus = 2
memory_mib = 512
[[vm]]
name = "a"
vcpus = 2
memory_mib = 96
[[vm.workload]]
program = "shootdown"
[[vm]]
name = "b"
vcpus = 2
memory_mib = 96
background = true
[[vm.workload]]
program = "spin"
[[variant]]
name = "plain"
"#;
const SYSTEM_MAP: &str = "ffffffff81000000 T _text\n\
    ffffffff81100000 t smp_call_function_many_cond\n\
    ffffffff81100800 T vfs_read\n";

/// The repetition of these events in [`SCENARIO`], and of a machine on which others had this share
/// of the time.
fn of_busy(
    events: &[Event],
    others_percent: u64,
    wall_clock: bool,
) -> Result<Repetition, RunFault> {
    in_scenario(SCENARIO, events, others_percent, wall_clock)
}

fn in_scenario(
    text: &str,
    events: &[Event],
    others_percent: u64,
    wall_clock: bool,
) -> Result<Repetition, RunFault> {
    let folder = tempfile::tempdir().unwrap();
    let map = folder.path().join("System.map");
    fs::write(&map, SYSTEM_MAP).unwrap();
    let symbols = Symbols::load(&map).unwrap();
    let scenario = Scenario::parse(text, "test.toml").unwrap();
    let of_vm = |vm: &steady_scenario::Vm| (vm.name.clone(), &symbols);
    let symbols = scenario.vms.iter().map(of_vm).collect();
    let context = Context {
        scenario: &scenario,
        symbols: &symbols,
        wall_clock,
        result_directory: folder.path(),
        run_directory: folder.path(),
    };
    let transcript = Transcript {
        events: events
            .iter()
            .map(|event| (std::time::Duration::ZERO, event.clone()))
            .collect(),
        others_percent,
        ..Transcript::default()
    };
    repetition(context, 3, &transcript)
}

fn of(events: &[Event]) -> Result<Repetition, RunFault> {
    of_busy(events, 0, false)
}

/// A window in which VM `a` had exits of reasons 1 and 12 and four samples of its RIP.
fn window() -> Window {
    let counted = VmWindow {
        exits: BTreeMap::from([(1, 30), (12, 10)]),
        rips: BTreeMap::from([(0x40_0000, 1), (0xffff_ffff_8110_0010, 3)]),
        stats: BTreeMap::from([("halt_exits".to_owned(), 0), ("nothing".to_owned(), 0)]),
        vcpu_run_ns: 1000,
        vcpu_wait_ns: 5,
        vmm_run_ns: 100,
        ..VmWindow::default()
    };
    let background = VmWindow {
        vcpu_run_ns: 70,
        ..VmWindow::default()
    };
    Window {
        length_ns: 2000,
        vms: BTreeMap::from([("a".to_owned(), counted), ("b".to_owned(), background)]),
        host_ipis: 5,
        irqs_off_max_ns: None,
        dropped: 0,
    }
}

/// A metric's value by `vm/workload/name`.
fn value(made: &Repetition, key: &str) -> Option<i64> {
    let mut metrics = made.metrics.iter();
    let found = metrics.find(|metric| {
        let scope = |name: &Option<String>| name.clone().unwrap_or_default();
        format!(
            "{}/{}/{}",
            scope(&metric.vm),
            scope(&metric.workload),
            metric.name
        ) == key
    });
    found.map(|metric| metric.value)
}

#[test]
fn what_a_program_printed_and_what_the_host_counted_are_of_its_vm_and_workload() {
    let made = of(&[up(), end("a", "", Some(window()))]).unwrap();
    assert_eq!(made.index, 3);
    let a = |name: &str| value(&made, &format!("a/shootdown/{name}"));
    assert_eq!(a("shootdown.latency.mean"), Some(10364));
    assert_eq!(a("time"), Some(3_000_000));
    assert_eq!(a("guest.irq.TLB"), Some(7));
    assert_eq!(a("window"), Some(2000));
    assert_eq!(a("cpu_time"), Some(1100));
    assert_eq!(a("exits.total"), Some(40));
    assert_eq!(
        (a("exits.EXTERNAL_INTERRUPT"), a("exits.HLT")),
        (Some(30), Some(10))
    );
}

#[test]
fn a_background_vm_is_seen_through_the_window_of_the_measured_workload() {
    let made = of(&[up(), end("a", "", Some(window()))]).unwrap();
    assert_eq!(value(&made, "b/spin@shootdown/cpu_time"), Some(70));
}

/// The background VM's program died of SIGTERM, while it ran or before it was asked to end.
fn background_end(asked_to_end: bool) -> Event {
    let Event::End(mut end) = end("b", "", None) else {
        unreachable!("an end")
    };
    end.output = Output {
        exit_code: None,
        signal: Some(15),
        asked_to_end,
        stdout: "no last words".to_owned(),
        ..end.output
    };
    Event::End(end)
}

#[test]
fn a_background_program_that_dies_when_it_is_asked_to_end_is_no_fault() {
    let made = of(&[up(), end("a", "", Some(window())), background_end(true)]).unwrap();
    assert_eq!(value(&made, "b/spin@shootdown/cpu_time"), Some(70));
    assert_eq!(value(&made, "b/spin/guest.irq.TLB"), Some(7));
}

#[test]
fn a_background_program_that_died_before_it_was_asked_to_end_is_a_fault() {
    let error = of(&[up(), end("a", "", Some(window())), background_end(false)]).unwrap_err();
    assert!(error.to_string().contains("VM b, spin"), "{error}");
}

#[test]
fn a_background_vm_beside_two_that_run_the_same_is_told_apart_by_their_names() {
    let third = "[[vm]]\nname = \"c\"\nvcpus = 2\nmemory_mib = 96\n\
                 [[vm.workload]]\nprogram = \"shootdown\"\n[[variant]]\n";
    let text = SCENARIO.replacen("[[variant]]\n", third, 1);
    let of_c = Window {
        vms: BTreeMap::from([("b".to_owned(), window().vms["b"].clone())]),
        ..window()
    };
    let events = [up(), end("a", "", Some(window())), end("c", "", Some(of_c))];
    let made = in_scenario(&text, &events, 0, false).unwrap();
    for scope in ["spin@a.shootdown", "spin@c.shootdown"] {
        let found = value(&made, &format!("b/{scope}/cpu_time"));
        assert_eq!(found, Some(70), "{scope}");
    }
    assert_eq!(value(&made, "b/spin@shootdown/cpu_time"), None);
}

#[test]
fn what_measured_vms_make_together_leaves_background_vms_out() {
    const SAID: &str =
        include_str!("../../../guest-programs/tests/fixtures/sysbench-threads.stdout");
    let third = "[[vm]]\nname = \"c\"\nvcpus = 2\nmemory_mib = 96\n\
                 [[vm.workload]]\nprogram = \"sysbench\"\n[[variant]]\n";
    let text = SCENARIO.replacen("[[variant]]\n", third, 1);
    let text = text.replace("\"shootdown\"", "\"sysbench\"");
    let text = text.replace("\"spin\"", "\"sysbench\"");
    let events = ["a", "b", "c"].map(|vm| end(vm, SAID, None));
    let made = in_scenario(&text, &[&[up()][..], &events].concat(), 0, false).unwrap();
    let of = |key: &str| value(&made, &format!("{key}/sysbench/throughput"));
    let (a, b) = (of("a").unwrap(), of("b"));
    assert_eq!((b, of("c")), (Some(a), Some(a)), "all said the same");
    assert_eq!(value(&made, "/sysbench/throughput.sum"), Some(2 * a));
}

#[test]
fn a_boot_that_had_not_ended_is_a_warning() {
    let mut early = up();
    let Event::Up { unsettled, .. } = &mut early else {
        unreachable!("a host that is up")
    };
    unsettled.push("its clock source is still tsc-early".to_owned());
    let warnings = of(&[early]).unwrap().warnings;
    assert_eq!(warnings.len(), 1);
    assert_eq!(warnings[0].code, "not-settled");
    assert!(of(&[up()]).unwrap().warnings.is_empty());
}

#[test]
fn guest_time_is_the_vcpus_time_in_the_shares_of_the_samples() {
    let made = of(&[up(), end("a", "", Some(window()))]).unwrap();
    let class = |name: &str| value(&made, &format!("a/shootdown/guest_time.{name}"));
    assert_eq!(class("shootdown"), Some(750));
    assert_eq!(class("user"), Some(250));
    assert_eq!(class("lock"), Some(0));
    assert_eq!(value(&made, "a/shootdown/guest_samples"), Some(4));
}

#[test]
fn what_the_host_spends_is_told_by_a_thousand_shootdowns() {
    // The recorded run had 20 of them.
    let made = of(&[up(), end("a", "", Some(window()))]).unwrap();
    let a = |name: &str| value(&made, &format!("a/shootdown/{name}"));
    assert_eq!(a(steady_measures::names::HOST_IPIS), Some(5));
    let per_1000 = a(steady_measures::names::HOST_IPIS_PER_1000_SHOOTDOWNS);
    assert_eq!(per_1000, Some(250));
    let per_1000 = a(steady_measures::names::EXITS_PER_1000_SHOOTDOWNS);
    assert_eq!(per_1000, Some(2000));
}

#[test]
fn the_longest_time_without_interrupts_is_told_where_the_kernel_can_tell_and_is_never_0_for_none() {
    let key = format!("a/shootdown/{}", steady_measures::names::HOST_IRQS_OFF_MAX);
    let made = of(&[up(), end("a", "", Some(window()))]).unwrap();
    assert_eq!(value(&made, &key), None);
    let traced = Window {
        irqs_off_max_ns: Some(731_000),
        ..window()
    };
    let made = of(&[up(), end("a", "", Some(traced))]).unwrap();
    assert_eq!(value(&made, &key), Some(731_000));
}

#[test]
fn a_statistic_of_nothing_is_left_out_unless_it_is_one_that_is_always_told() {
    let made = of(&[up(), end("a", "", Some(window()))]).unwrap();
    assert_eq!(value(&made, "a/shootdown/stat.halt_exits"), Some(0));
    assert_eq!(value(&made, "a/shootdown/stat.nothing"), None);
}

#[test]
fn exits_without_room_in_the_histogram_are_a_warning() {
    let mut window = window();
    window.dropped = 9;
    let made = of(&[up(), end("a", "", Some(window))]).unwrap();
    assert_eq!(made.warnings.len(), 1);
    assert_eq!(made.warnings[0].code, "events-lost");
    assert!(
        made.warnings[0]
            .text
            .starts_with("9 VM exits of a, shootdown,")
    );
}

#[test]
fn a_busy_machine_is_a_warning_where_the_clock_is_the_wall_and_only_there() {
    let warned = |percent, wall| {
        let made = of_busy(&[up()], percent, wall).unwrap();
        made.warnings.iter().any(|each| each.code == "machine-busy")
    };
    assert!(warned(11, true));
    assert!(!warned(10, true));
    assert!(!warned(99, false));
}

#[test]
fn what_the_scenario_does_not_have_is_a_fault() {
    let said = |event| of(&[up(), event]).unwrap_err().to_string();
    assert!(said(end("c", "", None)).contains("VM c workload 0, which the scenario has not"));
    let Event::End(mut second) = end("a", "", None) else {
        unreachable!("an end")
    };
    second.index = 1;
    assert!(said(Event::End(second)).contains("VM a workload 1"));
}

#[test]
fn an_output_that_cannot_be_read_names_vm_and_program() {
    let error = of(&[up(), end("a", "no result line", None)]).unwrap_err();
    let RunFault::Output { vm, program, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!((vm.as_str(), program.as_str()), ("a", "shootdown"));
}

#[test]
fn an_isa_that_nobody_knows_is_a_fault() {
    let mut strange = up();
    let Event::Up { isa, .. } = &mut strange else {
        unreachable!("a host that is up")
    };
    "riscv".clone_into(isa);
    let error = of(&[strange]).unwrap_err().to_string();
    assert!(
        error.contains("names the ISA `riscv`; vmx or svm"),
        "{error}"
    );
}
