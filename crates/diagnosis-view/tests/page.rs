// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a page has more VMs than colours, those that the first finding is about have their own.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::fmt::Write;

use steady_decode::TraceEvents;
use steady_diagnose::Diagnoser;
use steady_diagnosis_view::Picture;
use steady_diagnosis_view::page::page;

const VMS: i32 = 12;
/// The VM that waits, and the one that has its pCPU meanwhile.
const WAITS: i32 = 8;
const RUNS: i32 = 10;

/// VMs of one vCPU, each on a pCPU of its own, which halts half of the time, but for these two.
fn lines() -> String {
    let mut out = String::new();
    let thread = |vm: i32| (if vm == 0 { 0 } else { 1000 * vm + 1 }, 1000 * vm);
    let mut line = |us: u64, vm: i32, cpu: i32, rest: &str| {
        let ((tid, process), (s, us)) = (thread(vm), (us / 1_000_000, us % 1_000_000));
        let comm = if vm == 0 { "<idle>" } else { "CPU 0/KVM" };
        let who = format!("{comm}-{tid:<7} ({process:>7}) [{cpu:03}]");
        writeln!(out, "{who} d..2. {s}.{us:06}: {rest}").unwrap();
    };
    let rip = "rip 0xffffffff81000000";
    let exit = format!("kvm_exit: vcpu 0 reason EXTERNAL_INTERRUPT {rip} info1 0x0 info2 0x0");
    let exit = format!("{exit} intr_info 0x0 error_code 0x00000000");
    let enter = format!("kvm_entry: vcpu 0, {rip}");
    let turn = |(from, state): (i32, char), to: i32| {
        let task = |of: &str, vm: i32| match vm {
            0 => format!("{of}_comm=swapper {of}_pid=0 {of}_prio=120"),
            _ => format!(
                "{of}_comm=CPU 0/KVM {of}_pid={} {of}_prio=120",
                thread(vm).0
            ),
        };
        let (prev, next) = (task("prev", from), task("next", to));
        format!("sched_switch: {prev} prev_state={state} ==> {next}")
    };
    for us in (0..100).map(|round| 1_000_000 + round * 20_000) {
        for vm in (1..=VMS).filter(|vm| *vm != RUNS) {
            line(us + u64::from(vm.unsigned_abs()), vm, vm, &enter);
        }
        line(us + 9_000, WAITS, WAITS, &exit);
        for vm in (1..=VMS).filter(|vm| ![RUNS, WAITS].contains(vm)) {
            line(
                us + 9_030,
                vm,
                vm,
                &exit.replace("EXTERNAL_INTERRUPT", "HLT"),
            );
            line(us + 9_030, vm, vm, &turn((vm, 'S'), 0));
        }
        line(us + 9_100, WAITS, WAITS, &turn((WAITS, 'R'), RUNS));
        line(us + 9_101, RUNS, WAITS, &enter);
        line(us + 19_000, RUNS, WAITS, &exit);
        line(us + 19_001, RUNS, WAITS, &turn((RUNS, 'R'), WAITS));
        for vm in (1..=VMS).filter(|vm| ![RUNS, WAITS].contains(vm)) {
            line(us + 19_900, 0, vm, &turn((0, 'R'), vm));
        }
    }
    out
}

#[test]
fn the_vms_of_the_first_finding_have_a_colour_of_their_own_in_the_legend() {
    let reader = std::io::Cursor::new(lines().into_bytes());
    let mut source = steady_tracefile::open_stream(Box::new(reader), "many").unwrap();
    let (mut diagnoser, mut picture) = (Diagnoser::new(), Picture::default());
    let mut events = TraceEvents::new(source.as_mut());
    let read = diagnoser.trace("many", &mut events, &mut |event, effect, all| {
        picture.event(event, effect, all);
        Ok(())
    });
    read.unwrap();
    let diagnosis = diagnoser.finish();
    let first = &diagnosis.findings[0];
    let waits = first.vm.clone().unwrap();
    let culprit = first.culprits[0].clone();
    assert_eq!(culprit.kind, "vm");
    let html = page(&diagnosis, &[picture.finish()]);
    let legend = html.split_once("<p class=\"colours\">").unwrap().1;
    let legend = legend.split_once("full: in the guest").unwrap().0;
    let colour = |name: &str| {
        let (before, _) = legend.split_once(&format!("</svg> {name}"))?;
        let (_, class) = before.rsplit_once("class=\"")?;
        Some(class.split_once('"')?.0.to_owned())
    };
    let (guilty, victim) = (colour(&culprit.name.unwrap()), colour(&waits));
    assert_eq!(
        (guilty.as_deref(), victim.as_deref()),
        (Some("v0"), Some("v1"))
    );
    assert_eq!(colour("other VMs").as_deref(), Some("v7"));
    assert_eq!(legend.matches("class=\"v0\"").count(), 2, "no other has it");
}
