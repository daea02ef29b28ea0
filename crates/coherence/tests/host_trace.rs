// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Schemes on a trace of a host that is written by hand: is each update made, where and as it was?

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

#[path = "../../memtrace/tests/common/handmade.rs"]
mod handmade;

use std::io::Cursor;

use steady_coherence::compare::{Outcome, compare, jobs};
use steady_coherence::host::Host;
use steady_coherence::os::Agent;
use steady_coherence::record::{Record, Source};
use steady_coherence::{Options, Registry};

use handmade::{GONE, LEAVES, Trace};

fn host(trace: &mut Trace) -> Host<Cursor<Vec<u8>>> {
    Host::new(Cursor::new(trace.ended().to_vec())).unwrap()
}

/// Both vCPUs use a page. One takes a page away for itself, then two that both invalidate. The
/// other has accesses for longer than the initiator waits, so that it runs all that time.
fn two_updates() -> Trace {
    let mut trace = Trace::new();
    trace.load(1, 0, 16).load(0, 0x2000, 18);
    trace.write(0, LEAVES + 16, GONE).invlpg(0, 0x2000);
    trace.load(1, 0x3000, 19);
    trace.write(0, LEAVES, GONE).write(0, LEAVES + 8, GONE);
    for cpu in [0, 1] {
        trace.invlpg(cpu, 0).invlpg(cpu, 0x1000);
    }
    trace.load(0, 0x3000, 19);
    for _ in 0..LONG {
        trace.load(1, 0x4000, 20);
    }
    trace
}

/// Accesses that take longer than the costs of both updates, 58,300 cycles: each stands behind nine
/// instructions, and four of these retire in a cycle.
const LONG: usize = 30_000;

#[test]
fn records_are_of_vcpus_and_a_marker_is_where_an_update_was_first_invalidated() {
    let mut host = host(&mut two_updates());
    assert_eq!(
        (host.vms(), host.threads_per_vm(), host.accesses()),
        (1, 2, 5 + LONG as u64)
    );
    let updates = host.updates();
    let seen: Vec<_> = updates
        .iter()
        .map(|update| (update.pages.len(), update.victims, update.agent))
        .collect();
    assert_eq!(seen, [(1, 0, Agent::Guest), (2, 1, Agent::Guest)]);
    let mut records = Vec::new();
    while host.next_block(&mut records).unwrap() {}
    let order: Vec<_> = records
        .iter()
        .map(|record| match *record {
            Record::Access { thread, vaddr, .. } => (thread, Some(vaddr), None),
            Record::Marker { thread, id } => (thread, None, Some(id)),
            Record::Map { .. } => panic!("no calls"),
        })
        .collect();
    let access = |thread, vaddr| (thread, Some(vaddr), None);
    let update = |id| (0, None, Some(id));
    let begin = [
        access(0, 0),
        access(1, 0),
        access(0, 0x2000),
        update(0),
        access(1, 0x3000),
        update(1),
        access(0, 0x3000),
    ];
    assert_eq!(order[..begin.len()], begin);
    assert!(
        order[begin.len()..]
            .iter()
            .all(|&record| record == access(1, 0x4000))
    );
}

fn outcomes(trace: &mut Trace, schemes: &[&str]) -> Vec<Outcome> {
    outcomes_on(2, trace, schemes)
}

fn outcomes_on(cores: u32, trace: &mut Trace, schemes: &[&str]) -> Vec<Outcome> {
    let registry = Registry::shipped();
    let mut machine = registry.load("preset = \"paper\"", "test").unwrap();
    machine.core.count = cores;
    machine.hybrid.enabled = false;
    let schemes: Vec<_> = schemes
        .iter()
        .map(|name| registry.find(name).unwrap())
        .collect();
    let host = host(trace);
    let options = Options {
        check: true,
        threads_per_vm: host.threads_per_vm(),
        ..Options::default()
    };
    let accesses = host.accesses();
    let found = compare(host, accesses, &jobs(&machine, &schemes), &options, 1).unwrap();
    assert!(found.outcomes.iter().all(Outcome::is_sound));
    found.outcomes
}

#[test]
fn software_interrupts_the_recorded_victims_and_no_others() {
    let found = outcomes(&mut two_updates(), &["kvmtlb", "ideal", "attc", "hatric"]);
    for outcome in &found {
        let counts = &outcome.counts;
        assert_eq!((counts.program_updates, counts.pages_revoked), (2, 3));
        assert_eq!(counts.accesses, 5 + LONG as u64, "{}", outcome.label);
    }
    let kvmtlb = &found[0].counts;
    assert_eq!((kvmtlb.ipi_shootdowns, kvmtlb.victims), (1, 1));
    // Table 2's costs of the shootdown, and of the update that only its initiator invalidates.
    assert_eq!(
        kvmtlb.initiator_cycles - found[1].counts.initiator_cycles,
        48_000 + 10_300
    );
}

#[test]
fn a_victim_whose_records_have_ended_takes_the_interrupt_all_the_same() {
    let mut trace = Trace::new();
    trace.load(1, 0, 16).load(0, 0x2000, 18);
    for _ in 0..LONG {
        trace.load(0, 0x3000, 19);
    }
    trace.write(0, LEAVES, GONE).write(0, LEAVES + 8, GONE);
    for cpu in [0, 1] {
        trace.invlpg(cpu, 0).invlpg(cpu, 0x1000);
    }
    trace.load(0, 0x3000, 19);
    let found = outcomes(&mut trace, &["kvmtlb", "ideal"]);
    let [kvmtlb, ideal] = [&found[0].counts, &found[1].counts];
    assert_eq!((kvmtlb.ipi_shootdowns, kvmtlb.victims), (1, 1));
    assert_eq!(kvmtlb.victim_cycles, 10_300);
    let both = (kvmtlb.initiator_cycles - ideal.initiator_cycles) + kvmtlb.victim_cycles;
    assert_eq!(kvmtlb.core_cycles - ideal.core_cycles, both);
}

#[test]
fn a_victim_that_waits_for_a_core_takes_the_interrupt_all_the_same() {
    // Both vCPUs share a core: when one updates, the other is on none.
    let found = outcomes_on(1, &mut two_updates(), &["kvmtlb", "ideal"]);
    let [kvmtlb, ideal] = [&found[0].counts, &found[1].counts];
    assert_eq!((kvmtlb.ipi_shootdowns, kvmtlb.victims), (1, 1));
    assert_eq!(kvmtlb.victim_cycles, 10_300);
    let both = (kvmtlb.initiator_cycles - ideal.initiator_cycles) + kvmtlb.victim_cycles;
    assert_eq!(kvmtlb.core_cycles - ideal.core_cycles, both);
}

/// A third vCPU, which runs on both processors.
fn with_one_that_moves(trace: &mut Trace) {
    for cpu in [0, 1] {
        trace.record(cpu, 8, &[3, 0xa01e, 0, 0]);
        trace.record(cpu, 1, &[1, 0x1000, 1 << 31, 1 << 10, 3, 0xa01e]);
        trace.load(cpu, 0x5000, 21);
    }
}

#[test]
fn a_vcpu_that_was_on_one_processor_alone_has_it_and_one_that_moved_has_none() {
    let mut trace = two_updates();
    with_one_that_moves(&mut trace);
    let found = host(&mut trace).processors();
    assert_eq!(found, Some(vec![Some(0), Some(1), None]));
    // As the command line reads it.
    let boxed: Box<dyn Source> = Box::new(host(&mut two_updates()));
    assert_eq!(boxed.processors(), Some(vec![Some(0), Some(1)]));
}

#[test]
fn vcpus_of_one_processor_share_its_core_while_another_is_idle() {
    let mut trace = Trace::new();
    trace.load(0, 0x2000, 18);
    trace.record(0, 8, &[2, 0xa01e, 0, 0]);
    trace.record(0, 1, &[1, 0x1000, 1 << 31, 1 << 10, 2, 0xa01e]);
    trace.load(0, 0x2000, 18);
    let walks = |cores, trace: &mut Trace| outcomes_on(cores, trace, &["ideal"])[0].counts.walks;
    // The second finds the first one's translation on their core.
    assert_eq!(walks(2, &mut trace), walks(1, &mut trace));
    let mut apart = Trace::new();
    apart.load(0, 0x2000, 18).load(1, 0x2000, 18);
    assert!(walks(2, &mut apart) > walks(1, &mut apart));
}

#[test]
fn a_page_that_lost_the_right_to_write_stays_and_faults_at_the_next_store() {
    let mut trace = Trace::new();
    trace.store(0, 0x2000, 18);
    trace.write(0, LEAVES + 16, 18 << 12 | 1).invlpg(0, 0x2000);
    trace.load(0, 0x2000, 18);
    trace.write(0, LEAVES + 16, 18 << 12 | 3);
    trace.store(0, 0x2000, 18).store(0, 0x2000, 18);
    for outcome in outcomes(&mut trace, &["kvmtlb", "attc"]) {
        let counts = &outcome.counts;
        assert_eq!((counts.pages_revoked, counts.protection_faults), (1, 1));
    }
}

#[test]
fn an_update_of_the_host_s_is_the_host_s_in_the_simulator() {
    let mut trace = Trace::new();
    trace.record(0, 1, &[0, 0x9000, 1 << 31, 1 << 10, 0, 0]);
    trace.write(0, 0xc000, GONE);
    for cpu in [0, 1] {
        trace.record(cpu, 4, &[16, 1, 0xa01e, 0]);
    }
    // It is mapped again, as the guest's next access finds.
    trace.write(0, 0xc000, 0x87).load(1, 0, 16);
    let found = outcomes(&mut trace, &["kvmtlb"]);
    assert_eq!(
        (
            found[0].counts.host_migrations,
            found[0].counts.pages_revoked
        ),
        (1, 1)
    );
}

#[test]
fn a_trace_without_a_vm_s_access_is_refused_with_what_to_do() {
    let mut trace = b"SHTRACE1".to_vec();
    trace.extend([1, 64, 3, 9, 1, 3, 10, 1]);
    let said = Host::new(Cursor::new(trace)).unwrap_err().to_string();
    assert!(
        said.contains("no VM accessed memory; record a later window"),
        "{said}"
    );
}
