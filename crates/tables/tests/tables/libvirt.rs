// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `virsh domstats`.

use steady_diagnose::{CauseId, Confidence, EvidenceId, Finding, FindingId, Severity, StepId};
use steady_tables::Kind;

use super::{evidence, judged, name, number, only};

/// libvirt 8: one dump. vCPU 0 waited 1 of 4 s (25 %), vCPU 1 none of 4: 12.5 % of both.
const ONE: &str = "\
Domain: 'web 1'
  state.state=1
  vcpu.current=2
  vcpu.0.state=1
  vcpu.0.time=3000000000
  vcpu.0.wait=0
  vcpu.0.delay=1000000000
  vcpu.1.state=1
  vcpu.1.time=4000000000
  vcpu.1.wait=0
  vcpu.1.delay=0

";

#[test]
fn delay_beside_time_is_steal_and_a_second_dump_is_asked_for() {
    let (kind, findings) = judged(ONE);
    assert_eq!(kind, Kind::Domstats);
    let steal = only(&findings, FindingId::Steal);
    assert_eq!(
        (steal.vm.as_deref(), steal.lost_permille),
        (Some("web 1"), 125)
    );
    assert_eq!(steal.lost_ns, 1_000_000_000);
    let row = &steal.evidence[1];
    assert_eq!((name(row, "who"), number(row, "share")), ("vCPU 0", 250));
    assert_eq!(steal.next[0].id, StepId::AskTool);
    assert!(steal.next[0].name.as_deref().unwrap().contains("sleep 10"));
}

/// libvirt 10: two dumps of two domains. Between them db's vCPU waited 4 s and ran 6 s: 40 %. That
/// it had not waited before, since it began, does not count; idle has waited long ago.
const TWO: &str = "\
Domain: 'db'
  vcpu.0.time=1000000000000
  vcpu.0.delay=500000000
  vcpu.0.exits.sum=10
Domain: 'idle'
  vcpu.0.time=1000000000
  vcpu.0.delay=9000000000

Domain: 'db'
  vcpu.0.time=1006000000000
  vcpu.0.delay=4500000000
  vcpu.0.exits.sum=900
Domain: 'idle'
  vcpu.0.time=1500000000
  vcpu.0.delay=9000000000
";

#[test]
fn of_two_dumps_the_difference_counts() {
    let (_, findings) = judged(TWO);
    let steal = only(&findings, FindingId::Steal);
    assert_eq!(
        (steal.vm.as_deref(), steal.lost_permille),
        (Some("db"), 400)
    );
    let row = evidence(steal, EvidenceId::TableWait);
    assert_eq!(
        (number(row, "waited"), number(row, "ran")),
        (4_000_000_000, 6_000_000_000)
    );
    assert_eq!(steal.next[0].id, StepId::RecordWhile);
}

#[test]
fn what_grep_leaves_of_it_is_read_without_a_name() {
    // 1 of 4 s.
    let (kind, findings) = judged("  vcpu.0.time=3000000000\n  vcpu.0.delay=1000000000\n");
    assert_eq!(kind, Kind::Domstats);
    assert_eq!(only(&findings, FindingId::Steal).lost_permille, 250);
}

/// libvirt 6: no `delay`; `wait` is of a kernel that counts it, or 0.
const WITH_WAIT: &str = "\
Domain: 'demo'
  vcpu.current=2
  vcpu.0.state=1
  vcpu.0.time=1420000000
  vcpu.0.wait=1840392800
  vcpu.1.state=1
  vcpu.1.time=130000000
  vcpu.1.wait=1061211100
";

#[test]
fn a_dump_without_delay_has_wait_or_says_that_it_lacks_both() {
    let steal = only(&judged(WITH_WAIT).1, FindingId::Steal).clone();
    // 2.90 s of 2.90 + 1.55 s.
    assert_eq!((steal.lost_ns, steal.lost_permille), (2_901_603_900, 652));
    let zeros = WITH_WAIT
        .replace("wait=1840392800", "wait=0")
        .replace("wait=1061211100", "wait=0");
    let (_, findings) = judged(&zeros);
    let lacks = only(&findings, FindingId::NotMeasured);
    assert_eq!((lacks.vm.as_deref(), findings.len()), (Some("demo"), 1));
    assert!(lacks.next[0].name.as_deref().unwrap().contains("schedstat"));
}

#[test]
fn a_vcpu_that_ran_for_long_without_any_wait_was_not_measured() {
    for (time_ns, lacks) in [(115_940_000_000_u64, 1), (400_000, 0)] {
        let text = format!("Domain: 'a'\n  vcpu.0.time={time_ns}\n  vcpu.0.delay=0\n");
        let (_, findings) = judged(&text);
        let of = |found: &&Finding| found.id == FindingId::NotMeasured;
        assert_eq!(findings.iter().filter(of).count(), lacks, "{time_ns}");
    }
}

#[test]
fn a_domain_that_is_paused_stands_still() {
    for (reason, cause) in [(1, CauseId::VmmHolds), (5, CauseId::IoPressure)] {
        let text = ONE.replace(
            "state.state=1\n",
            &format!("state.state=3\n  state.reason={reason}\n"),
        );
        let (_, findings) = judged(&text);
        let paused = only(&findings, FindingId::Asleep);
        assert_eq!((paused.cause, paused.severity), (cause, Severity::Severe));
        assert_eq!(paused.vm.as_deref(), Some("web 1"));
        let ask = paused.next[0].name.as_deref();
        let disks = (reason == 5).then_some("virsh domblkerror 'web 1'; df -h");
        assert_eq!(ask, disks);
    }
}

/// A domain whose vCPU waits for 0.1 % of its time.
const CALM: &str = "\
Domain: 'db'
  vcpu.0.time=1000000000000
  vcpu.0.delay=1000000000
";

/// Disks: requests that take long on average, and those that do not, or are too few.
#[test]
fn slow_requests_of_disks_are_waits_for_io() {
    let disk = |requests: u64, time_ns: u64| {
        format!(
            "{CALM}  block.0.name=vda\n  block.0.rd.reqs=1000\n  block.0.rd.times=9000000000\n  \
             block.0.wr.reqs={requests}\n  block.0.wr.times={time_ns}\n"
        )
    };
    for (requests, time_ns, mean_ns) in [
        (2000, 2_400_000_000_000, Some(1_200_000_000)),
        (100, 10_000_000_000, Some(100_000_000)),
        (100, 9_999_999_900, None),
        (9, 9_000_000_000, None),
    ] {
        let (_, findings) = judged(&disk(requests, time_ns));
        let found = findings.iter().map(|found| {
            assert_eq!(
                (found.id, found.cause),
                (FindingId::OtherPressure, CauseId::IoPressure)
            );
            let row = evidence(found, EvidenceId::TableThread);
            assert_eq!(name(row, "name"), "vda, writes");
            number(row, "mean")
        });
        assert_eq!(found.collect::<Vec<_>>(), Vec::from_iter(mean_ns));
    }
    // Of two dumps the difference counts: 100 writes of 200 ms, and none.
    for (requests, time_ns, found) in [(2100, 2_420_000_000_000, 1), (2000, 2_400_000_000_000, 0)] {
        let twice = disk(2000, 2_400_000_000_000) + &disk(requests, time_ns);
        let io = |found: &&Finding| found.cause == CauseId::IoPressure;
        assert_eq!(judged(&twice).1.iter().filter(io).count(), found);
    }
}

#[test]
fn a_guest_that_swaps_is_short_of_memory_by_its_balloon_or_without_it() {
    for (current, swapped, of) in [
        (1_048_576, 99_122_334, Some("memory that its balloon took")),
        (16_777_216, 99_122_334, Some("memory")),
        (1_048_576, 262_143, None),
        (1_048_576, 0, None),
    ] {
        let text = format!(
            "{CALM}  balloon.current={current}\n  balloon.maximum=16777216\n  \
             balloon.swap_in={swapped}\n  balloon.swap_out=91223344\n"
        );
        let (_, findings) = judged(&text);
        let found = findings.iter().map(|found| {
            assert_eq!(found.cause, CauseId::MemoryPressure);
            let row = evidence(found, EvidenceId::TableEvents);
            assert_eq!(number(row, "count"), swapped);
            found.of.as_deref().unwrap()
        });
        assert_eq!(found.collect::<Vec<_>>(), Vec::from_iter(of));
    }
}

#[test]
fn what_a_guest_swapped_is_less_sure_where_no_two_dumps_say_when() {
    let dump = |swapped: u64| {
        format!(
            "{CALM}  balloon.current=1048576\n  balloon.maximum=1048576\n  \
             balloon.swap_in={swapped}\n  balloon.swap_out=0\n"
        )
    };
    let once = dump(99_122_334);
    for (text, sure) in [
        (once.clone(), Some(Confidence::Low)),
        (dump(0) + &once, Some(Confidence::Medium)),
        (once.clone() + &once, None),
    ] {
        let (_, findings) = judged(&text);
        let found = findings.iter().map(|found| found.confidence);
        assert_eq!(found.collect::<Vec<_>>(), Vec::from_iter(sure));
    }
}
