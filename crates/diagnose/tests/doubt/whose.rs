// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whose a thread that ran instead is: by the process of its records, by notes, by its name.

use steady_diagnose::{CauseId, Confidence, FindingId, VmNotes};

use super::{Lines, Run, notes, the, turns};

/// The process of each thread.
type Process = fn(i32) -> i32;

/// The VM, and another one.
fn two_vms() -> Option<VmNotes> {
    let mut both = notes(&[1000], None).unwrap();
    let mut db = both.vms[0].clone();
    (db.name, db.process, db.threads) = (Some("db".to_owned()), 2000, vec![2000]);
    db.vcpus[0].tid = 2001;
    both.vms.push(db);
    Some(both)
}

#[test]
fn whose_a_thread_is_shows_by_its_process_or_by_notes_and_never_by_its_name_alone() {
    let (own, task) = (CauseId::OwnVmm, CauseId::HostTask);
    let (vhost, other) = (CauseId::Vhost, CauseId::OtherVm);
    let (medium, high) = (Confidence::Medium, Confidence::High);
    let of_own: Option<Process> = Some(|_| 1000);
    let apart: Option<Process> = Some(|tid| if tid == 1001 { 1000 } else { 7000 });
    let noted = two_vms;
    let nothing = || None;
    // A thread, its process, the notes, the cause, how sure, and the name.
    type Case = (
        &'static str,
        Option<Process>,
        fn() -> Option<VmNotes>,
        (CauseId, Confidence),
        &'static str,
    );
    let cases: [Case; 13] = [
        ("live_migration", of_own, noted, (own, high), ""),
        ("live_migration", of_own, nothing, (own, high), ""),
        ("live_migration", None, noted, (task, medium), ""),
        ("live_migration", None, nothing, (task, medium), ""),
        ("live_migration", apart, noted, (task, high), ""),
        ("live_migration", apart, nothing, (task, high), ""),
        ("backup", None, noted, (task, high), ""),
        ("vhost-1000", of_own, nothing, (own, high), ""),
        ("vhost-1000", None, noted, (own, high), ""),
        ("vhost-1000", None, nothing, (vhost, medium), ""),
        ("vhost-3000", apart, nothing, (vhost, medium), ""),
        ("vhost-3000", None, noted, (vhost, medium), ""),
        ("vhost-2000", None, noted, (other, high), "db's vhost-2000"),
    ];
    for (name, process, notes, (cause, sure), said) in cases {
        let mut lines = Lines {
            process,
            ..Lines::default()
        };
        turns(&mut lines, 10_000, vec![vec![(name, 1050, 15_000)]; 30]);
        let diagnosis = lines.diagnosis(notes());
        let steal = the(&diagnosis, FindingId::Steal);
        let at = format!("{name} {} {}", process.is_some(), notes().is_some());
        assert_eq!((steal.cause, steal.confidence), (cause, sure), "{at}");
        let said = if said.is_empty() { name } else { said };
        assert_eq!(steal.culprits[0].name.as_deref(), Some(said), "{at}");
    }
}

#[test]
fn a_thread_named_as_those_of_vmms_is_never_surely_the_hosts() {
    let names = [
        "qemu-kvm",
        "kvm",
        "IO iothread1",
        "mig/src/main",
        "multifdsend_0",
        "bg_snapshot",
        "call_rcu",
        "_disk0_q0",
        "lkvm",
        "gmain",
        "vhost-77",
    ];
    for name in names {
        let (mut often, mut once) = (Lines::default(), Lines::default());
        turns(&mut often, 10_000, vec![vec![(name, 1050, 15_000)]; 30]);
        let stall: Run<'_> = (name, 1050, 4_000_000);
        let short = (0..4_000).map(|at| match at {
            2_000 => vec![stall],
            _ => vec![("kworker/0:1", 77, 20)],
        });
        turns(&mut once, 150_000, short);
        for (lines, id) in [(often, FindingId::Steal), (once, FindingId::LongStall)] {
            let diagnosis = lines.diagnosis(None);
            let sure = the(&diagnosis, id).confidence;
            assert_eq!(sure, Confidence::Medium, "{name} {id:?}");
        }
    }
}
