// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What makes a trace too little for an all-clear? One kind in each test, on made-up events.

mod trace;

use steady_shoot4u_check::{Action, DoubtKind, Event, FlushKind, Verdict};

use trace::{A, B, PAGES, Trace, ran};

#[test]
fn lost_events_excuse_a_violation_and_forbid_an_all_clear() {
    for violated in [false, true] {
        let mut trace = ran();
        trace.revoke(1, false);
        if !violated {
            trace.invalidate(1, 2, 0x1000, 0x3000);
        }
        trace.enter(1, B).checker.doubt(DoubtKind::Lost, 3, None);
        let report = trace.report();
        assert_eq!(report.verdict, Verdict::CannotSay);
        assert_eq!(report.violations_total, u64::from(violated));
        assert!(report.to_string().contains("3: events lost"), "{report}");
    }
}

#[test]
fn a_missing_exit_is_no_all_clear() {
    let mut trace = ran();
    trace.enter(1, B).enter(1, B).revoke(1, false);
    assert!(trace.doubts().contains(&DoubtKind::MissingExit));
    let mut trace = ran();
    trace.enter(1, B).invalidate(1, 2, 0, 1).enter(1, B);
    trace.at(
        1,
        Event::Call {
            initiator: A,
            call: 1,
            freed: false,
            range: PAGES,
            targets: 0,
        },
    );
    assert!(trace.doubts().contains(&DoubtKind::BusyInGuestMode));
}

#[test]
fn time_that_goes_backwards_on_a_cpu_is_no_all_clear() {
    let mut trace = ran();
    trace
        .revoke(1, false)
        .invalidate(1, 2, 0x1000, 0x3000)
        .enter(1, B);
    trace.now = 5;
    trace.exit(1, B);
    assert_eq!(trace.doubts(), [DoubtKind::OutOfOrder]);
}

#[test]
fn equal_times_on_a_cpu_are_counted() {
    let mut trace = ran();
    trace
        .revoke(1, false)
        .invalidate(1, 2, 0x1000, 0x3000)
        .enter(1, B);
    trace.now -= 10;
    let report = trace.exit(1, B).report();
    assert_eq!((report.verdict, report.counts.ties), (Verdict::Holds, 1));
}

#[test]
fn fewer_targets_than_announced_is_no_all_clear() {
    let mut trace = ran();
    trace.call(1, PAGES, false).done(1, 0).enter(1, B);
    assert_eq!(trace.doubts(), [DoubtKind::TargetsUnseen]);
}

#[test]
fn other_left_targets_than_counted_is_no_all_clear() {
    let mut trace = Trace::begin();
    trace
        .call(1, PAGES, false)
        .target(1, Action::Queued)
        .done(1, 1)
        .enter(1, B);
    assert_eq!(trace.doubts(), [DoubtKind::LeftUnseen]);
}

#[test]
fn an_end_without_a_begin_is_told_from_one_cut_off_at_the_start() {
    let mut trace = Trace::begin();
    trace.done(4, 0).revoke(5, false).done(3, 0).enter(1, B);
    let report = trace.report();
    assert_eq!(
        (report.verdict, report.counts.calls_cut),
        (Verdict::Holds, 2)
    );
    let mut trace = Trace::begin();
    trace.revoke(5, false).done(9, 0).enter(1, B);
    assert_eq!(trace.doubts(), [DoubtKind::MissingCall]);
}

#[test]
fn a_target_of_an_unknown_thread_is_no_all_clear() {
    let mut trace = Trace::without_past();
    trace.flush(0, A, FlushKind::All, Some(1)).revoke(1, false);
    trace.at(1, Event::StrayEntry { vcpu: B.vcpu });
    assert_eq!(trace.doubts(), [DoubtKind::StrayThread]);
}

#[test]
fn a_trace_without_calls_proves_nothing() {
    assert_eq!(ran().doubts(), [DoubtKind::NoCalls]);
}

#[test]
fn a_trace_without_entries_proves_nothing() {
    assert_eq!(
        Trace::begin().revoke(1, false).doubts(),
        [DoubtKind::NoEntries]
    );
}
