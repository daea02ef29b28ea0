// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whose a thread that ran instead is: by the process of its records, by notes, by its name.

use steady_diagnose::{CauseId, Confidence, FindingId, VmNotes};

use super::{BY_INTERRUPT, Lines, Run, notes, the, turns};

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

/// The VM, of another VMM, whose name is longer than the kernel keeps.
fn of_mine() -> Option<VmNotes> {
    let mut mine = notes(&[1000], None)?;
    "own-machine-monitor".clone_into(&mut mine.vms[0].vmm);
    Some(mine)
}

/// Notes of another time: none of their vCPUs is in the trace, and the thread has another's number.
fn of_another_time() -> Option<VmNotes> {
    let mut other = two_vms()?;
    other.vms.remove(0);
    other.vms[0].threads = vec![1050];
    Some(other)
}

#[test]
fn whose_a_thread_is_shows_by_its_process_or_by_notes_and_never_by_its_name_alone() {
    let (own, task) = (CauseId::OwnVmm, CauseId::HostTask);
    let (vhost, other) = (CauseId::Vhost, CauseId::OtherVm);
    let (medium, high) = (Confidence::Medium, Confidence::High);
    let of_own: Option<Process> = Some(|_| 1000);
    let apart: Option<Process> = Some(|tid| if tid == 1001 { 1000 } else { 7000 });
    let of_db: Option<Process> = Some(|tid| if tid == 1001 { 1000 } else { 2000 });
    // A kernel forgets the processes of some threads.
    let own_unknown: Option<Process> = Some(|tid| if tid == 1001 { -1 } else { 7000 });
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
    let cases: [Case; 19] = [
        ("live_migration", of_own, noted, (own, high), ""),
        ("live_migration", of_own, nothing, (own, high), ""),
        ("live_migration", None, noted, (task, medium), ""),
        ("live_migration", None, nothing, (task, medium), ""),
        ("live_migration", apart, noted, (task, high), ""),
        ("live_migration", apart, nothing, (task, high), ""),
        ("live_migration", own_unknown, nothing, (task, medium), ""),
        ("own-machine-mon", None, of_mine, (task, medium), ""),
        ("backup", None, noted, (task, high), ""),
        ("backup", None, of_another_time, (task, high), ""),
        ("backup", of_db, noted, (task, high), "the VMM of db"),
        ("vhost-1000", of_own, nothing, (own, high), ""),
        ("vhost-1000", None, noted, (own, high), ""),
        ("vhost-1001", None, noted, (own, high), ""),
        ("vhost-1001", apart, nothing, (own, high), ""),
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
        lines.text = lines.text.replace("(     -1)", "(-------)");
        let diagnosis = lines.diagnosis(notes());
        let steal = the(&diagnosis, FindingId::Steal);
        let at = format!("{name} {} {}", process.is_some(), notes().is_some());
        assert_eq!((steal.cause, steal.confidence), (cause, sure), "{at}");
        let said = if said.is_empty() { name } else { said };
        assert_eq!(steal.culprits[0].name.as_deref(), Some(said), "{at}");
    }
}

/// Short waits for another thread, and one of more than four seconds for this one.
fn one_stall(name: &str) -> Lines {
    let (part, other): (Run<'_>, Run<'_>) = ((name, 1050, 1_500_000), ("kworker/0:1", 77, 20));
    let mut lines = Lines::default();
    let waits = (0..4_000).map(|at| match at {
        2_000 => vec![part, other, part, other, part],
        _ => vec![other],
    });
    turns(&mut lines, 150_000, waits);
    lines
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
        "cc1",
    ];
    for name in names {
        let mut often = Lines::default();
        turns(&mut often, 10_000, vec![vec![(name, 1050, 15_000)]; 30]);
        let sure = match name {
            "cc1" => Confidence::High,
            _ => Confidence::Medium,
        };
        for (lines, id) in [
            (often, FindingId::Steal),
            (one_stall(name), FindingId::LongStall),
        ] {
            let found = the(&lines.diagnosis(None), id).confidence;
            assert_eq!(found, sure, "{name} {id:?}");
        }
    }
}

#[test]
fn a_stall_is_surely_of_what_ran_only_where_nothing_else_may_have_made_it() {
    type Edit = fn(&mut Lines);
    let (high, medium) = (Confidence::High, Confidence::Medium);
    let cases: [(&str, &str, Edit, Confidence); 5] = [
        ("nothing", "cc1", |_| (), high),
        (
            "pCPUs without records",
            "cc1",
            |lines| {
                let head = "# tracer: nop\n#\n# entries-in-buffer/entries-written: 99/99   #P:8\n";
                lines.text.insert_str(0, &format!("{head}#\n"));
            },
            medium,
        ),
        (
            "a loss while it may wait",
            "cc1",
            |lines| {
                let us = 700_000_000;
                lines.exit(us, 0, 0, BY_INTERRUPT);
                lines.switch(us + 2, 0, ("CPU 0/KVM", 1001), 'R', ("cc1", 1050));
                lines.text.push_str("CPU:0 [LOST 1 EVENTS]\n");
                lines.enter(us + 10_000, 0, 0);
            },
            medium,
        ),
        (
            "its own weight",
            "cc1",
            |lines| {
                let of = |nice: u8| format!("pid=1001 prev_prio={nice}");
                lines.text = lines.text.replace(&of(120), &of(130));
            },
            medium,
        ),
        ("another VM", "CPU 0/KVM", |_| (), medium),
    ];
    for (what, name, edit, sure) in cases {
        let mut lines = one_stall(name);
        edit(&mut lines);
        let diagnosis = lines.diagnosis(None);
        let stall = the(&diagnosis, FindingId::LongStall);
        assert_eq!(stall.confidence, sure, "{what}: {stall:#?}");
    }
}
