// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Updates and shootdowns in traces that are written by hand, with counts that are known by hand.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

#[path = "common/handmade.rs"]
mod handmade;

use steady_memtrace::host::{Actor, Change, HostTraceError, Owner, Rates};

use handmade::{GONE, LEAVES, Trace};

fn rates(trace: &mut Trace) -> Rates {
    Rates::read(trace.ended()).unwrap()
}

fn vm(rates: &Rates) -> &Owner {
    &rates.owners[&1]
}

#[test]
fn an_update_ends_where_its_pages_are_invalidated_and_its_victims_are_those_that_do_it_too() {
    let mut trace = Trace::new();
    trace.write(0, LEAVES, GONE).write(0, LEAVES + 8, GONE);
    for cpu in [0, 1] {
        trace.invlpg(cpu, 0).invlpg(cpu, 0x1000);
    }
    trace.write(0, LEAVES + 16, GONE).invlpg(0, 0x2000);
    let rates = rates(&mut trace);
    let its = &vm(&rates).updates;
    assert_eq!((its.all, its.pages, its.most_pages), (2, 3, 2));
    assert_eq!((its.shootdowns, its.shot_pages, its.victims), (1, 2, 1));
    assert_eq!((its.private, its.silent, its.victims_by_host), (1, 0, 0));
    assert_eq!(rates.updates[0].told, [Actor::Vcpu(2)].into());
    assert_eq!(rates.updates[0].by, Actor::Vcpu(1));
}

#[test]
fn a_page_that_another_vcpu_invalidates_for_an_update_of_its_own_makes_no_victim() {
    let mut trace = Trace::new();
    trace.write(0, LEAVES, GONE).invlpg(0, 0);
    trace.write(1, LEAVES, 16 << 12 | 3).write(1, LEAVES, GONE);
    let its = rates(trace.invlpg(1, 0)).owners[&1].updates.clone();
    assert_eq!((its.all, its.private, its.shootdowns), (2, 2, 0));
}

#[test]
fn a_victim_of_the_latest_update_of_a_page_is_no_victim_of_an_older_one() {
    let mut trace = Trace::new();
    trace.write(1, LEAVES, GONE).invlpg(1, 0);
    trace.write(0, LEAVES, 16 << 12 | 3);
    trace.write(0, LEAVES, GONE).write(0, LEAVES + 8, GONE);
    // The interrupted one is first, and invalidates each page twice.
    for cpu in [1, 1, 0] {
        trace.invlpg(cpu, 0).invlpg(cpu, 0x1000);
    }
    let rates = rates(&mut trace);
    let its = &vm(&rates).updates;
    assert_eq!((its.all, its.private, its.shootdowns), (2, 1, 1));
    assert_eq!((its.victims, its.shot_pages), (1, 2));
}

#[test]
fn every_change_of_an_entry_has_its_kind_and_those_that_give_are_no_updates() {
    let mut trace = Trace::new();
    let at = |page: u64| LEAVES + 8 * page;
    // Page 9 is new; 1 gets another frame, 2 loses the right to write and gets it back, 3 goes.
    trace.write(0, at(9), 30 << 12 | 3);
    trace
        .write(0, at(1), 30 << 12 | 3)
        .write(0, at(2), 18 << 12 | 1);
    trace.write(0, at(2), 18 << 12 | 3).write(0, at(3), GONE);
    // Only accessed and dirty bits.
    trace.write(0, at(4), 20 << 12 | 0x63);
    let rates = rates(&mut trace);
    assert_eq!(Change::ALL[1], Change::Gone, "the order of counts");
    assert_eq!(vm(&rates).changes[&1], [1, 1, 1, 1, 1]);
    let its = &vm(&rates).updates;
    assert_eq!((its.all, its.silent, its.pages), (1, 1, 3));
    assert_eq!(rates.updates[0].fewer.len(), 1);
}

#[test]
fn a_flush_of_the_address_space_tells_of_its_update_and_one_of_another_does_not() {
    let cr3 = |trace: &mut Trace, value| {
        trace.record(1, 4, &[11 | 1 << 8, 0, value, 0]);
    };
    for (value, victims) in [(0x1000, 1), (0x8000, 0), (0x1000 | 1 << 63, 0)] {
        let mut trace = Trace::new();
        trace.write(0, LEAVES, GONE).invlpg(0, 0);
        cr3(&mut trace, value);
        assert_eq!(
            vm(&rates(&mut trace)).updates.victims,
            victims,
            "{value:#x}"
        );
    }
}

#[test]
fn what_the_host_invalidates_for_a_vcpu_is_counted_apart() {
    for (kind, vpid, linear, victims) in
        [(0, 2, 0, 1), (0, 2, 0x5000, 0), (1, 2, 0, 1), (0, 3, 0, 0)]
    {
        let mut trace = Trace::new();
        trace.write(0, LEAVES, GONE).invlpg(0, 0);
        trace.record(1, 7, &[18, 0, 2, 0]);
        trace.record(1, 4, &[17, kind, vpid, linear]);
        let rates = rates(&mut trace);
        let its = &vm(&rates).updates;
        assert_eq!(
            (its.victims, its.victims_by_host),
            (0, victims),
            "{kind} {vpid}"
        );
        assert_eq!(its.shootdowns, victims);
    }
}

#[test]
fn a_change_of_the_ept_is_the_host_s_and_is_told_by_invept() {
    let mut trace = Trace::new();
    trace.record(0, 1, &[0, 0x9000, 1 << 31, 1 << 10, 0, 0]);
    trace.write(0, 0xc000, GONE);
    for cpu in [0, 1] {
        trace.record(cpu, 4, &[16, 1, 0xa01e, 0]);
    }
    let rates = rates(&mut trace);
    assert_eq!(vm(&rates).ept_changes[&2], [0, 1, 0, 0, 0]);
    let its = &vm(&rates).ept_updates;
    assert_eq!(
        (its.all, its.pages, its.shootdowns, its.victims),
        (1, 1, 1, 1)
    );
    assert_eq!(vm(&rates).updates.all, 0);
    assert_eq!(rates.updates[0].pages.len(), 1, "page 0 alone was accessed");
}

#[test]
fn two_processes_have_pages_of_their_own_at_one_address_and_share_what_their_roots_share() {
    let mut trace = Trace::new();
    // Another root, 5, has tables 6, 7 and 8 for its first half, and the same for its second.
    trace.frame(5, &[0x6003]);
    trace.frame(6, &[0x7003]);
    trace.frame(7, &[0x8003]);
    trace.frame(8, &[40 << 12 | 3]);
    trace.write(0, 0x1000 + 8 * 256, 0x2003);
    trace.write(0, 0x5000 + 8 * 256, 0x2003);
    let upper = 0xffff_8000_0000_0000;
    trace.load(0, upper, 16);
    trace.record(0, 1, &[1, 0x5000, 1 << 31, 1 << 10, 1, 0xa01e]);
    trace.load(0, 0, 40);
    let rates = rates(&mut trace);
    // Page 0 of the first, the same by the upper half, and page 0 of the second.
    assert_eq!((vm(&rates).accesses[0], rates.unknown), (3, 0));
    assert_eq!(vm(&rates).pages, 2);
}

#[test]
fn a_table_that_is_freed_takes_its_pages_along_and_its_frame_is_no_table_any_more() {
    let mut trace = Trace::new();
    trace.write(0, 0x3000, 0);
    trace.write(0, LEAVES + 8, 99).write(0, LEAVES + 16, 0);
    let rates = rates(&mut trace);
    assert_eq!(vm(&rates).changes[&1], [0, 8, 0, 0, 0]);
    assert_eq!(vm(&rates).freed, [1, 0]);
}

#[test]
fn rates_are_by_instructions_and_a_cut_off_trace_has_none() {
    let mut trace = Trace::new();
    trace.load(0, 8, 16).load(1, 0, 16);
    let rates = rates(&mut trace);
    assert_eq!((vm(&rates).accesses, vm(&rates).instructions), ([3, 0], 10));
    assert_eq!(vm(&rates).vpids, [1, 2]);
    let cut = Rates::read(&trace.bytes[..trace.bytes.len() - 1]);
    assert!(matches!(cut, Err(HostTraceError::Truncated { .. })));
}
