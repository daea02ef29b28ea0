// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two observers of one host: is each thing that one saw, and the other did not, found?

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

#[path = "common/handmade.rs"]
#[expect(dead_code, reason = "tables are not written here")]
mod handmade;

use steady_memtrace::host::{
    Beside, Comparison, Difference, NotAligned, Seen, Sequences, exit, written,
};

use handmade::Trace;

const INTERRUPT: u64 = 1;
const HLT: u64 = 12;
const VMCALL: u64 = 18;
const RDMSR: u64 = 31;
const WRMSR: u64 = 32;
const EPT_VIOLATION: u64 = 48;
const TSC_DEADLINE: u64 = 0x6e0;
const TIMER: u64 = 1 << 31 | 0xec;

/// A vCPU sets a timer to a time of its own, and it comes.
fn round(of: &mut Sequences, vcpu: u64, at: u64) {
    of.saw(vcpu, Seen::Exit, exit(WRMSR, 0));
    of.saw(vcpu, Seen::MsrWrite, written(TSC_DEADLINE, at));
    of.saw(vcpu, Seen::Entry, 0_u8);
    of.saw(vcpu, Seen::Exit, exit(INTERRUPT, TIMER));
    of.saw(vcpu, Seen::Injected, 0xec_u8);
    of.saw(vcpu, Seen::Entry, 0_u8);
}

/// A vCPU halts, as it always does.
fn halt(of: &mut Sequences, vcpu: u64) {
    of.saw(vcpu, Seen::Exit, exit(HLT, 0));
    of.saw(vcpu, Seen::Entry, 0_u8);
}

/// Rounds of vCPU 3.
fn rounds(of: std::ops::Range<u64>) -> Sequences {
    let mut all = Sequences::default();
    of.for_each(|at| round(&mut all, 3, at));
    all
}

/// Rounds of vCPU 3, each before a halt of vCPU 4.
fn with_halts(of: std::ops::Range<u64>) -> Sequences {
    let mut all = Sequences::default();
    for at in of {
        round(&mut all, 3, at);
        halt(&mut all, 4);
    }
    all
}

fn of(all: &Comparison, seen: Seen) -> &Beside {
    all.kinds.iter().find(|kind| kind.seen == seen).unwrap()
}

fn differences(all: &Comparison) -> Vec<(Seen, Difference)> {
    let each = all.kinds.iter();
    each.flat_map(|kind| kind.differences.iter().map(|one| (kind.seen, one.clone())))
        .collect()
}

fn compared(ours: &Sequences, theirs: &Sequences) -> Comparison {
    ours.beside(theirs).unwrap()
}

#[test]
fn one_who_begins_and_ends_later_agrees_in_what_both_saw() {
    let all = compared(&rounds(0..60), &rounds(5..90));
    assert!(all.agrees(&Seen::ALL), "{all:?}");
    let exits = of(&all, Seen::Exit);
    assert_eq!([exits.ours, exits.theirs, exits.agreed], [110; 3]);
    // Between the first and the last of these exits.
    let injected = of(&all, Seen::Injected);
    assert_eq!([injected.ours, injected.theirs, injected.agreed], [54; 3]);
    assert_eq!(of(&all, Seen::Entry).agreed, 109);
    assert_eq!(all.vcpus, 1);
}

#[test]
fn an_exit_that_one_did_not_see_is_found() {
    let mut ours = rounds(0..50);
    ours.saw(3, Seen::Exit, exit(EPT_VIOLATION, 0));
    (50..60).for_each(|at| round(&mut ours, 3, at));
    let all = compared(&ours, &rounds(2..90));
    let expected = Difference {
        vpid: 3,
        at: 96,
        ours: Some(EPT_VIOLATION.into()),
        theirs: Some(WRMSR.into()),
    };
    assert_eq!(differences(&all), [(Seen::Exit, expected)]);
    assert!(!all.agrees(&Seen::ALL));
    assert!(all.agrees(&[Seen::Entry]), "exits are not compared there");
}

#[test]
fn one_who_ends_sooner_is_compared_up_to_there() {
    let all = compared(&with_halts(0..60), &with_halts(2..50));
    assert!(all.agrees(&Seen::ALL), "{all:?}");
    let exits = of(&all, Seen::Exit);
    assert_eq!([exits.ours, exits.theirs, exits.agreed], [144; 3]);
    // Ten rounds of two and one exits, and a halt that it may have seen at its start instead.
    assert_eq!(all.ours_later, 31);
}

#[test]
fn exits_at_our_end_that_the_other_missed_are_found_if_it_saw_another_vcpu_later() {
    let mut theirs = with_halts(2..50);
    (50..90).for_each(|at| round(&mut theirs, 3, at));
    let all = compared(&with_halts(0..60), &theirs);
    let [(seen, found)] = differences(&all).try_into().unwrap();
    assert_eq!((seen, found.vpid, found.at), (Seen::Exit, 4, 48));
    assert_eq!((found.theirs, all.ours_later), (None, 0));
}

#[test]
fn another_vector_of_an_exit_is_found() {
    let mut ours = rounds(0..50);
    ours.saw(3, Seen::Exit, exit(INTERRUPT, 1 << 31 | 0xfd));
    let [(_, found)] = differences(&compared(&ours, &rounds(0..60)))
        .try_into()
        .unwrap();
    assert_eq!(found.ours, Some(1 | (1 << 31 | 0xfd) << 16));
}

#[test]
fn another_value_that_is_written_is_found_in_both_its_halves() {
    for other in [7, 50 | 1 << 32] {
        let (mut ours, mut theirs) = (rounds(0..50), rounds(0..50));
        round(&mut ours, 3, 50);
        round(&mut theirs, 3, other);
        for all in [&mut ours, &mut theirs] {
            round(all, 3, 51);
        }
        let [(seen, found)] = differences(&compared(&ours, &theirs)).try_into().unwrap();
        assert_eq!((seen, found.at), (Seen::MsrWrite, 50));
    }
}

#[test]
fn each_kind_that_one_alone_saw_between_two_exits_is_found() {
    for seen in Seen::ALL.into_iter().filter(|seen| *seen != Seen::Exit) {
        let (mut ours, mut theirs) = (rounds(0..50), rounds(0..50));
        ours.saw(3, seen, 9_u8);
        for all in [&mut ours, &mut theirs] {
            (50..60).for_each(|at| round(all, 3, at));
        }
        for (one, other) in [(&ours, &theirs), (&theirs, &ours)] {
            let found = differences(&compared(one, other));
            assert!(
                found.iter().any(|(of, _)| *of == seen),
                "{seen:?}: {found:?}"
            );
        }
    }
}

#[test]
fn a_vcpu_that_went_to_another_processor_is_found() {
    let (mut ours, mut theirs) = (rounds(0..50), rounds(0..50));
    for (all, cpu) in [(&mut ours, 0_u8), (&mut theirs, 1)] {
        halt(all, 3);
        all.saw(3, Seen::Exit, exit(EPT_VIOLATION, 0));
        all.saw(3, Seen::Entry, cpu);
        (50..55).for_each(|at| round(all, 3, at));
    }
    let [(seen, found)] = differences(&compared(&ours, &theirs)).try_into().unwrap();
    assert_eq!((seen, found.at), (Seen::Entry, 101));
}

#[test]
fn vcpus_are_known_by_what_they_do_whatever_they_are_called() {
    let (mut ours, mut theirs) = (Sequences::default(), Sequences::default());
    for at in 0..60 {
        for vpid in [1, 2] {
            round(&mut ours, vpid, at + 100 * vpid);
            round(&mut theirs, 90 - vpid, at + 100 * vpid);
        }
    }
    let all = compared(&ours, &theirs);
    assert!(all.agrees(&Seen::ALL), "{all:?}");
    assert_eq!((all.vcpus, of(&all, Seen::Exit).agreed), (2, 240));
}

#[test]
fn what_a_vcpu_that_always_does_the_same_did_not_do_is_found() {
    let mut ours = with_halts(0..40);
    ours.saw(4, Seen::Exit, exit(EPT_VIOLATION, 0));
    ours.saw(4, Seen::Entry, 0_u8);
    for at in 40..1000 {
        round(&mut ours, 3, at);
        halt(&mut ours, 4);
    }
    // As long as it goes on, it would fit behind the violation.
    let theirs = with_halts(5..2000);
    let all = compared(&ours, &theirs);
    assert_eq!(all.vcpus, 2);
    let [(seen, found)] = differences(&all).try_into().unwrap();
    // It may have begun before the halt between two exits of vCPU 3, so one more is taken as seen.
    assert_eq!((seen, found.vpid, found.at), (Seen::Exit, 4, 36));
    // One that the other lacks in the middle is missing at the end.
    let mut fewer = with_halts(0..40);
    round(&mut fewer, 3, 40);
    for at in 41..1000 {
        round(&mut fewer, 3, at);
        halt(&mut fewer, 4);
    }
    let mut ours = with_halts(0..1000);
    for all in [&mut ours, &mut fewer] {
        round(all, 3, 1000);
    }
    let ended = compared(&ours, &fewer);
    let [(seen, found)] = differences(&ended).try_into().unwrap();
    assert_eq!((seen, found.vpid, found.theirs), (Seen::Exit, 4, None));
}

#[test]
fn each_vcpu_that_is_known_says_more_exactly_when_the_other_began() {
    let from = |first: u64, violates: bool| {
        let mut all = Sequences::default();
        if first == 0 {
            round(&mut all, 3, 1000);
        }
        // vCPU 3 does nothing for a while. vCPU 5 does, and vCPU 4 halts.
        for at in first..20 {
            round(&mut all, 5, 2000 + at);
            halt(&mut all, 4);
            if violates && at == 4 {
                all.saw(4, Seen::Exit, exit(EPT_VIOLATION, 0));
            }
        }
        (0..100).for_each(|at| round(&mut all, 3, at));
        all
    };
    let mut theirs = from(2, false);
    (0..30).for_each(|_| halt(&mut theirs, 4));
    let found = differences(&compared(&from(0, true), &theirs));
    let [(seen, found)] = found.try_into().unwrap();
    // Of vCPU 4 rounds 2 to 4, and the halt just before the first that vCPU 5 was seen in.
    assert_eq!((seen, found.vpid, found.at), (Seen::Exit, 4, 4));
}

#[test]
fn two_vcpus_with_nothing_in_common_differ_at_once() {
    let (mut ours, mut theirs) = (with_halts(0..60), rounds(5..90));
    for _ in 0..500 {
        theirs.saw(9, Seen::Exit, exit(EPT_VIOLATION, 0));
    }
    halt(&mut ours, 4);
    let [(seen, found)] = differences(&compared(&ours, &theirs)).try_into().unwrap();
    assert_eq!((seen, found.vpid, found.at), (Seen::Exit, 4, 0));
}

#[test]
fn a_vcpu_that_one_alone_knows_is_named() {
    let all = compared(&with_halts(0..60), &rounds(5..90));
    assert_eq!(
        (&all.ours_alone[..], &all.theirs_alone[..]),
        (&[4][..], &[][..])
    );
    assert!(!all.agrees(&Seen::ALL));
    let all = compared(&rounds(0..60), &with_halts(5..90));
    assert_eq!(
        (&all.ours_alone[..], &all.theirs_alone[..]),
        (&[][..], &[4][..])
    );
    assert!(!all.agrees(&Seen::ALL));
    // One that ended before the other began is not missed.
    let mut ours = Sequences::default();
    halt(&mut ours, 8);
    (0..60).for_each(|at| round(&mut ours, 3, at));
    assert!(compared(&ours, &rounds(5..90)).agrees(&Seen::ALL));
}

#[test]
fn who_has_too_little_in_common_is_not_compared() {
    let found = rounds(0..20).beside(&rounds(5..90)).unwrap_err();
    assert_eq!((found.agreed, found.second), (45, 1));
    let mut other = Sequences::default();
    other.saw(8, Seen::Exit, exit(EPT_VIOLATION, 0));
    assert!(rounds(0..60).beside(&other).is_err());
    // Where all exits are alike, no place can be distinguished from the next.
    let mut halts = Sequences::default();
    (0..300).for_each(|_| halt(&mut halts, 3));
    let found = halts.beside(&halts.clone()).unwrap_err();
    assert_eq!(
        found,
        NotAligned {
            agreed: 300,
            second: 299
        }
    );
}

/// What the rules make of every detail that the format has.
#[test]
fn a_trace_says_what_its_exits_and_entries_were_of() {
    let mut trace = Trace::new();
    let mut other = Sequences::default();
    let low = |register: u64, value: u64| register | value << 32;
    for at in 0..60 {
        trace.record(0, 7, &[WRMSR, 5, 1, low(TSC_DEADLINE, at)]);
        trace.record(0, 8, &[1, 0xa01e, 0, 0]);
        other.saw(7, Seen::Exit, exit(WRMSR, 0));
        other.saw(7, Seen::MsrWrite, written(TSC_DEADLINE, 5 << 32 | at));
        other.saw(7, Seen::Entry, 0_u8);
    }
    // The ICR and the register for oneself, of the x2APIC; Hyper-V's ICR; its timer's count.
    let sent = [0x830, 0x83f, 0x4000_0071].map(|register| (WRMSR, low(register, 0xfd)));
    let details = [
        (INTERRUPT, TIMER),
        (RDMSR, 0x3b),
        (VMCALL, 11),
        (EPT_VIOLATION, 0),
        (WRMSR, low(0x838, 77)),
    ];
    for (reason, detail) in details.into_iter().chain(sent) {
        trace.record(0, 7, &[reason, 3, 1, detail]);
        // INVVPID of one address of VPID 1, of all of it, and of all VPIDs, which is not compared.
        trace.record(0, 4, &[17, 0, 1, 0x5000]);
        trace.record(0, 4, &[17, 1, 1, 0]);
        trace.record(0, 4, &[17, 2, 0, 0]);
        // An external interrupt, or one of INT.
        let of_int = if reason == VMCALL { 4 << 8 } else { 0 };
        trace.record(0, 8, &[1, 0xa01e, TIMER | of_int, 0]);
        other.saw(7, Seen::Exit, exit(reason, detail));
        let (register, value) = (detail & 0xffff_ffff, 3 << 32 | detail >> 32);
        match reason {
            RDMSR => other.saw(7, Seen::MsrRead, 0x3b_u8),
            VMCALL => other.saw(7, Seen::Hypercall, 11_u8),
            // As KVM's decoder calls it.
            WRMSR if register == 0x838 => {
                other.saw(7, Seen::MsrWrite, written(TSC_DEADLINE, value));
            }
            WRMSR => {
                other.saw(7, Seen::MsrWrite, written(register, value));
                other.saw(7, Seen::Ipi, 0xfd_u8);
            }
            _ => {}
        }
        other.saw(7, Seen::Invalidated, 0x5000_u16);
        other.saw(7, Seen::Flushed, 0_u8);
        other.saw(7, Seen::Injected, 0xec_u8);
        other.saw(7, Seen::Entry, 0_u8);
    }
    // An exception is injected, too, and is not an interrupt.
    trace.record(0, 7, &[EPT_VIOLATION, 0, 1, 0]);
    trace.record(0, 8, &[1, 0xa01e, 1 << 31 | 3 << 8 | 14, 0]);
    trace.record(0, 7, &[EPT_VIOLATION, 0, 1, 0]);
    other.saw(7, Seen::Exit, EPT_VIOLATION);
    other.saw(7, Seen::Entry, 0_u8);
    other.saw(7, Seen::Exit, EPT_VIOLATION);
    let all = compared(&Sequences::read(trace.ended()).unwrap(), &other);
    assert!(all.agrees(&Seen::ALL), "{all:?}");
    assert_eq!(of(&all, Seen::Ipi).agreed, 3);
    for kind in &all.kinds {
        assert!(kind.agreed > 0, "{kind:?}");
    }
}
