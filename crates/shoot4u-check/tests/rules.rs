// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One rule of the checker in each test, on made-up events.

mod trace;

use steady_shoot4u_check::{Action, Event, FlushKind, Range, Use, Verdict};

use trace::{B, PAGES, Trace, ran};

#[test]
fn an_entry_after_the_request_was_honoured_holds() {
    let mut trace = ran();
    trace
        .revoke(1, false)
        .invalidate(1, 2, 0x1000, 0x3000)
        .enter(1, B);
    let report = trace.report();
    assert_eq!(report.verdict, Verdict::Holds, "{report}");
    assert_eq!((report.counts.calls_done, report.counts.targets), (1, 1));
    assert_eq!(report.counts.max_call_ns, 20);
    assert_eq!(report.counts.max_stale_ns, 10);
}

#[test]
fn an_entry_without_invalidation_is_a_violation_with_its_story() {
    let mut trace = ran();
    let report = trace.revoke(1, false).enter(1, B).report();
    assert_eq!(report.verdict, Verdict::Violated);
    let violation = &report.violations[0];
    assert_eq!((violation.usage, violation.pcpu), (Use::Entered, 1));
    assert_eq!(violation.left.as_slice(), [PAGES]);
    let kinds: Vec<_> = violation.chain.iter().map(|e| e.event).collect();
    assert!(
        matches!(
            kinds[..],
            [
                Event::Call { .. },
                Event::Target { .. },
                Event::Done { .. },
                Event::Entry { .. }
            ]
        ),
        "{kinds:?}"
    );
}

#[test]
fn being_in_guest_mode_when_the_call_returns_is_a_violation() {
    let mut trace = ran();
    let report = trace.enter(1, B).revoke(1, false).exit(1, B).report();
    assert_eq!(report.verdict, Verdict::Violated);
    assert_eq!(report.violations[0].usage, Use::Running);
}

#[test]
fn leaving_guest_mode_before_the_call_returns_holds() {
    let mut trace = ran();
    trace.enter(1, B).call(1, PAGES, false);
    trace.exit(1, B).target(1, Action::Kicked).done(1, 0);
    assert_eq!(trace.verdict(), Verdict::Holds);
}

#[test]
fn an_entry_while_the_call_is_under_way_holds_if_it_ends_before_the_call() {
    let mut trace = ran();
    trace.call(1, PAGES, false).target(1, Action::Kicked);
    trace.enter(1, B).exit(1, B).done(1, 0);
    trace.invalidate(1, 2, 0x1000, 0x3000).enter(1, B);
    assert_eq!(trace.verdict(), Verdict::Holds);
}

#[test]
fn a_range_one_page_short_leaves_that_page() {
    let mut trace = ran();
    let report = trace
        .revoke(1, false)
        .invalidate(1, 2, 0x1000, 0x2000)
        .enter(1, B)
        .report();
    assert_eq!(report.verdict, Verdict::Violated);
    let last = Range {
        start: 0x2000,
        end: 0x3000,
    };
    assert_eq!(report.violations[0].left.as_slice(), [last]);
}

#[test]
fn several_parts_together_cover_a_range() {
    let mut trace = ran();
    trace.revoke(1, false).invalidate(1, 2, 0x2000, 0x3000);
    trace.invalidate(1, 2, 0x1000, 0x2000).enter(1, B);
    assert_eq!(trace.verdict(), Verdict::Holds);
}

#[test]
fn another_vcpus_tag_counts_for_nothing() {
    let mut trace = ran();
    let report = trace
        .revoke(1, false)
        .invalidate(1, 3, 0x1000, 0x3000)
        .enter(1, B)
        .report();
    assert_eq!(report.verdict, Verdict::Violated);
    assert_eq!(report.counts.wrong_tag, 1);
}

#[test]
fn an_invalidation_on_another_pcpu_counts_for_nothing_here() {
    let mut trace = ran();
    trace.flush(0, B, FlushKind::All, Some(2));
    trace.revoke(1, false).invalidate(0, 2, 0x1000, 0x3000);
    assert_eq!(trace.enter(1, B).verdict(), Verdict::Violated);
}

#[test]
fn an_invalidation_that_names_another_pcpu_than_it_ran_on_counts_for_nothing() {
    let mut trace = ran();
    trace.revoke(1, false).at(
        0,
        Event::Invalidate {
            vcpu: B,
            tag: 2,
            pcpu: Some(1),
            range: PAGES,
        },
    );
    let report = trace.enter(1, B).report();
    assert_eq!(report.verdict, Verdict::Violated);
    assert_eq!(report.counts.wrong_pcpu, 1);
}

#[test]
fn coming_back_to_a_pcpu_needs_a_flush_there() {
    for (flushed, verdict) in [(true, Verdict::Holds), (false, Verdict::Violated)] {
        let mut trace = ran();
        trace
            .flush(0, B, FlushKind::All, Some(2))
            .revoke(1, false)
            .enter(0, B)
            .exit(0, B);
        if flushed {
            trace.flush(1, B, FlushKind::All, Some(2));
        }
        assert_eq!(trace.enter(1, B).verdict(), verdict);
    }
}

#[test]
fn freed_page_tables_need_a_whole_invalidation() {
    for (start, end, verdict) in [
        (0x1000, 0x3000, Verdict::Violated),
        (0, u64::MAX, Verdict::Holds),
    ] {
        let mut trace = ran();
        trace.revoke(1, true).invalidate(1, 2, start, end);
        assert_eq!(trace.enter(1, B).verdict(), verdict);
    }
}

#[test]
fn an_invalidation_before_the_call_began_does_not_serve_it() {
    let mut trace = ran();
    trace.invalidate(1, 2, 0x1000, 0x3000).revoke(1, false);
    assert_eq!(trace.enter(1, B).verdict(), Verdict::Violated);
}

#[test]
fn an_invalidation_before_the_target_is_named_serves_the_call() {
    let mut trace = ran();
    trace
        .call(1, PAGES, false)
        .invalidate(1, 2, 0x1000, 0x3000)
        .enter(1, B);
    trace.target(1, Action::Queued).done(1, 0);
    assert_eq!(trace.verdict(), Verdict::Holds);
}

#[test]
fn overlapping_calls_are_each_owed_their_range() {
    let mut trace = ran();
    let second = Range {
        start: 0x2000,
        end: 0x4000,
    };
    trace.call(1, PAGES, false).target(1, Action::Queued);
    trace.call(2, second, false).target(2, Action::Queued);
    trace.done(2, 0).done(1, 0).invalidate(1, 2, 0x1000, 0x3000);
    let report = trace.enter(1, B).report();
    assert_eq!(report.violations_total, 1);
    assert_eq!(report.violations[0].call, 2);
    assert_eq!(report.violations[0].left.as_slice()[0].start, 0x3000);
}

#[test]
fn what_is_left_to_the_caller_is_not_checked() {
    let mut trace = ran();
    trace
        .call(1, PAGES, false)
        .target(1, Action::Left)
        .done(1, 1);
    assert_eq!(trace.enter(1, B).verdict(), Verdict::Holds);
}

#[test]
fn a_target_served_and_then_left_is_not_checked() {
    let mut trace = ran();
    trace.call(1, PAGES, false).target(1, Action::Queued);
    trace.target(1, Action::Left).done(1, 1);
    let report = trace.enter(1, B).report();
    assert_eq!(report.verdict, Verdict::Holds, "{report}");
    assert_eq!((report.counts.targets, report.counts.left), (1, 1));
}

#[test]
fn a_target_that_never_ran_owes_nothing() {
    let mut trace = Trace::begin();
    trace
        .call(1, PAGES, false)
        .target(1, Action::NeverRan)
        .done(1, 0);
    assert_eq!(trace.enter(1, B).verdict(), Verdict::Holds);
}

#[test]
fn what_was_cached_before_the_trace_is_held_against_the_vcpu() {
    let mut trace = Trace::without_past();
    assert_eq!(
        trace.revoke(1, false).enter(1, B).verdict(),
        Verdict::Violated
    );
}

#[test]
fn a_vcpu_in_guest_mode_since_before_the_trace_is_seen_at_its_exit() {
    let mut trace = Trace::without_past();
    assert_eq!(
        trace.revoke(1, false).exit(1, B).verdict(),
        Verdict::Violated
    );
}

#[test]
fn svm_takes_a_new_asid_behind_the_entry_event() {
    let mut trace = ran();
    trace.revoke(1, false).enter(1, B);
    trace.flush(1, B, FlushKind::NewAsid, Some(9)).exit(1, B);
    assert_eq!(trace.verdict(), Verdict::Holds);
}

#[test]
fn svm_flushes_its_asid_behind_the_entry_event() {
    let mut trace = ran();
    trace.revoke(1, true).enter(1, B);
    trace.flush(1, B, FlushKind::Vmrun, Some(2)).exit(1, B);
    assert_eq!(trace.verdict(), Verdict::Holds);
}

#[test]
fn a_request_served_elsewhere_does_not_serve_the_pcpu_that_the_vcpu_comes_back_to() {
    let mut trace = ran();
    trace.revoke(1, false).invalidate(0, 2, 0x1000, 0x3000);
    assert_eq!(trace.enter(1, B).exit(1, B).verdict(), Verdict::Violated);
}

#[test]
fn flushes_that_may_miss_entries_do_not_clear() {
    for kind in [FlushKind::Current, FlushKind::Guest] {
        let mut trace = ran();
        trace.revoke(1, false).flush(1, B, kind, Some(2));
        assert_eq!(trace.enter(1, B).verdict(), Verdict::Violated);
    }
}

#[test]
fn two_tags_for_one_vcpu_cannot_both_count() {
    let mut trace = Trace::without_past();
    trace.revoke(1, false).invalidate(1, 5, 0x1000, 0x3000);
    trace.revoke(2, false).invalidate(1, 6, 0x1000, 0x3000);
    let report = trace.enter(1, B).report();
    assert_eq!(report.verdict, Verdict::Violated);
    assert_eq!((report.counts.tag_unsure, report.counts.wrong_tag), (1, 1));
}

#[test]
fn many_calls_against_a_sleeping_vcpu_are_all_owed() {
    let mut trace = ran();
    for call in 1..200 {
        let range = Range {
            start: call * 0x2000,
            end: call * 0x2000 + 0x1000,
        };
        trace
            .call(call, range, false)
            .target(call, Action::Queued)
            .done(call, 0);
    }
    for call in (1..200).filter(|call| *call != 3) {
        trace.invalidate(1, 2, call * 0x2000, call * 0x2000 + 0x1000);
    }
    let report = trace.enter(1, B).report();
    assert_eq!(report.violations_total, 1);
    assert_eq!(report.violations[0].left.as_slice()[0].start, 0x6000);
}
