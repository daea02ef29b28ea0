// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two observers of one host: is each thing that one saw, and the other did not, found?

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

#[path = "common/handmade.rs"]
#[expect(dead_code, reason = "tables are not written here")]
mod handmade;

use steady_memtrace::host::{Beside, Difference, Seen, Sequences, X2APIC_ICR, exit};

use handmade::Trace;

const INTERRUPT: u64 = 1;
const VMCALL: u64 = 18;
const EPT_VIOLATION: u64 = 48;
const RDMSR: u64 = 31;
const WRMSR: u64 = 32;
const TSC_DEADLINE: u64 = 0x6e0;
const TIMER: u64 = 1 << 31 | 0xec;

/// What one observer sees of a vCPU in each of many rounds: a timer is set, and comes.
fn round(of: &mut Sequences, vcpu: u64, at: u64) {
    of.saw(vcpu, Seen::Exit, exit(WRMSR, 0));
    of.saw(vcpu, Seen::MsrWrite, TSC_DEADLINE << 32 | (at + 100 * vcpu));
    of.saw(vcpu, Seen::Entry, 0);
    of.saw(vcpu, Seen::Exit, exit(INTERRUPT, TIMER));
    of.saw(vcpu, Seen::Injected, 0xec);
    of.saw(vcpu, Seen::Entry, 0);
}

fn rounds(vcpu: u64, of: std::ops::Range<u64>) -> Sequences {
    let mut all = Sequences::default();
    of.for_each(|at| round(&mut all, vcpu, at));
    all
}

fn of(all: &[Beside], seen: Seen) -> Beside {
    all.iter().find(|kind| kind.seen == seen).unwrap().clone()
}

fn differences(all: &[Beside]) -> Vec<(Seen, Difference)> {
    let each = all.iter();
    each.flat_map(|kind| kind.differences.iter().map(|one| (kind.seen, one.clone())))
        .collect()
}

#[test]
fn one_who_begins_and_ends_later_agrees_in_what_both_saw() {
    let all = rounds(3, 0..20).beside(&rounds(3, 5..30));
    assert_eq!(differences(&all), []);
    let exits = of(&all, Seen::Exit);
    assert_eq!([exits.ours, exits.theirs, exits.agreed], [30, 30, 30]);
    // Between the first and the last of these exits.
    let injected = of(&all, Seen::Injected);
    assert_eq!([injected.ours, injected.theirs, injected.agreed], [14; 3]);
    assert_eq!(of(&all, Seen::Entry).agreed, 29);
}

#[test]
fn an_exit_that_one_did_not_see_is_found() {
    let mut ours = rounds(3, 0..10);
    ours.saw(3, Seen::Exit, exit(EPT_VIOLATION, 0));
    (10..20).for_each(|at| round(&mut ours, 3, at));
    let all = ours.beside(&rounds(3, 2..30));
    let expected = Difference {
        vpid: 3,
        at: 16,
        ours: Some(EPT_VIOLATION),
        theirs: Some(WRMSR),
    };
    assert_eq!(differences(&all), [(Seen::Exit, expected)]);
}

#[test]
fn another_vector_of_an_exit_is_found() {
    let mut ours = rounds(3, 0..10);
    ours.saw(3, Seen::Exit, exit(INTERRUPT, 1 << 31 | 0xfd));
    let found = differences(&ours.beside(&rounds(3, 0..20)));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].1.ours, Some(1 | (1 << 31 | 0xfd) << 16));
}

#[test]
fn another_value_that_is_written_is_found() {
    let mut ours = rounds(3, 0..9);
    ours.saw(3, Seen::Exit, exit(WRMSR, 0));
    ours.saw(3, Seen::MsrWrite, TSC_DEADLINE << 32 | 7);
    ours.saw(3, Seen::Entry, 0);
    ours.saw(3, Seen::Exit, exit(INTERRUPT, TIMER));
    let found = differences(&ours.beside(&rounds(3, 0..20)));
    let at = |seen| {
        found
            .iter()
            .find(|(of, _)| *of == seen)
            .map(|(_, one)| one.at)
    };
    assert_eq!(at(Seen::MsrWrite), Some(9), "{found:?}");
}

#[test]
fn each_kind_that_one_alone_saw_between_two_exits_is_found() {
    for seen in Seen::ALL.into_iter().filter(|seen| *seen != Seen::Exit) {
        let (mut ours, mut theirs) = (rounds(3, 0..5), rounds(3, 0..5));
        ours.saw(3, seen, 9);
        for all in [&mut ours, &mut theirs] {
            (5..9).for_each(|at| round(all, 3, at));
        }
        for (one, other) in [(&ours, &theirs), (&theirs, &ours)] {
            let found = differences(&one.beside(other));
            assert!(
                found.iter().any(|(of, _)| *of == seen),
                "{seen:?}: {found:?}"
            );
        }
    }
}

#[test]
fn vcpus_are_known_by_what_they_do_whatever_they_are_called() {
    let (mut ours, mut theirs) = (Sequences::default(), Sequences::default());
    for at in 0..9 {
        for vpid in [1, 2] {
            round(&mut ours, vpid, at);
            let thread = 90 - vpid;
            theirs.saw(thread, Seen::Exit, exit(WRMSR, 0));
            theirs.saw(
                thread,
                Seen::MsrWrite,
                TSC_DEADLINE << 32 | (at + 100 * vpid),
            );
            theirs.saw(thread, Seen::Entry, 0);
            theirs.saw(thread, Seen::Exit, exit(INTERRUPT, TIMER));
            theirs.saw(thread, Seen::Injected, 0xec);
            theirs.saw(thread, Seen::Entry, 0);
        }
    }
    let all = ours.beside(&theirs);
    assert_eq!(differences(&all), []);
    assert_eq!(of(&all, Seen::Exit).agreed, 36);
}

#[test]
fn a_vcpu_that_went_to_another_processor_is_found() {
    let (mut ours, mut theirs) = (rounds(3, 0..3), rounds(3, 0..3));
    for (all, cpu) in [(&mut ours, 0), (&mut theirs, 1)] {
        all.saw(3, Seen::Exit, exit(EPT_VIOLATION, 0));
        all.saw(3, Seen::Entry, cpu);
        (3..5).for_each(|at| round(all, 3, at));
    }
    let found = differences(&ours.beside(&theirs));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].0, found[0].1.at), (Seen::Entry, 6));
}

#[test]
fn who_has_no_exit_in_common_agrees_in_nothing() {
    let mut other = Sequences::default();
    other.saw(8, Seen::Exit, exit(EPT_VIOLATION, 0));
    let all = rounds(3, 0..4).beside(&other);
    assert!(all.iter().all(|kind| kind.agreed == 0), "{all:?}");
}

/// Every detail that the format has, in a trace: what the rules make of it.
#[test]
fn a_trace_says_what_its_exits_and_entries_were_of() {
    let mut trace = Trace::new();
    let details = [
        (INTERRUPT, TIMER),
        (RDMSR, 0x3b),
        (WRMSR, X2APIC_ICR | 0xfd << 32),
        (VMCALL, 11),
        (EPT_VIOLATION, 0),
    ];
    for (reason, detail) in details {
        trace.record(0, 7, &[reason, 0, 1, detail]);
        // INVVPID of one address of VPID 1, and of all of it, which is not compared.
        trace.record(0, 4, &[17, 0, 1, 0x5000]);
        trace.record(0, 4, &[17, 1, 1, 0]);
        trace.record(0, 8, &[1, 0xa01e, TIMER, 0]);
    }
    // An exception is injected, too.
    trace.record(0, 7, &[EPT_VIOLATION, 0, 1, 0]);
    trace.record(0, 8, &[1, 0xa01e, 1 << 31 | 3 << 8 | 14, 0]);
    trace.record(0, 7, &[EPT_VIOLATION, 0, 1, 0]);
    let captured = Sequences::read(trace.ended()).unwrap();
    let mut other = Sequences::default();
    for (reason, detail) in details {
        other.saw(7, Seen::Exit, exit(reason, detail));
        match reason {
            RDMSR => other.saw(7, Seen::MsrRead, 0x3b),
            WRMSR => {
                other.saw(7, Seen::MsrWrite, X2APIC_ICR << 32 | 0xfd);
                other.saw(7, Seen::Ipi, 0xfd);
            }
            VMCALL => other.saw(7, Seen::Hypercall, 11),
            _ => {}
        }
        other.saw(7, Seen::Invalidated, 0x5000);
        other.saw(7, Seen::Injected, 0xec);
        other.saw(7, Seen::Entry, 0);
    }
    other.saw(7, Seen::Exit, EPT_VIOLATION);
    other.saw(7, Seen::Entry, 0);
    other.saw(7, Seen::Exit, EPT_VIOLATION);
    let all = captured.beside(&other);
    assert_eq!(differences(&all), []);
    for kind in &all {
        assert!(kind.agreed > 0, "{kind:?}");
    }
}
