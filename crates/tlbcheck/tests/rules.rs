// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One rule of the checker in each test, on made-up events.

use steady_tlbcheck::{
    Action, Checker, DoubtKind, Event, FlushKind, How, Mode, Range, Report, Stamped, Use, VcpuId,
    Verdict,
};

const A: VcpuId = VcpuId { vm: 7, vcpu: 0 };
const B: VcpuId = VcpuId { vm: 7, vcpu: 1 };
const PAGES: Range = Range {
    start: 0x1000,
    end: 0x3000,
};

/// Events on two pCPUs, one every 10 ns: A runs on pCPU 0, B on pCPU 1.
struct Trace {
    checker: Checker,
    now: u64,
}

impl Trace {
    /// Both vCPUs were loaded for the first time.
    fn begin() -> Self {
        let mut trace = Self::without_past();
        trace.flush(0, A, FlushKind::All, Some(1));
        trace.flush(1, B, FlushKind::All, Some(2));
        trace
    }

    fn without_past() -> Self {
        Self {
            checker: Checker::new(2),
            now: 0,
        }
    }

    fn at(&mut self, cpu: u32, event: Event) -> &mut Self {
        self.now += 10;
        self.checker.feed(Stamped {
            time_ns: self.now,
            cpu,
            event,
        });
        self
    }

    fn enter(&mut self, cpu: u32, vcpu: VcpuId) -> &mut Self {
        self.at(cpu, Event::Entry { vcpu })
    }

    fn exit(&mut self, cpu: u32, vcpu: VcpuId) -> &mut Self {
        self.at(cpu, Event::Exit { vcpu })
    }

    fn flush(&mut self, cpu: u32, vcpu: VcpuId, kind: FlushKind, tag: Option<u32>) -> &mut Self {
        let pcpu = Some(cpu);
        self.at(
            cpu,
            Event::Flush {
                vcpu,
                pcpu,
                kind,
                tag,
            },
        )
    }

    fn call(&mut self, call: u64, range: Range, freed: bool) -> &mut Self {
        let (initiator, mode, targets) = (A, Mode::Deferred, 1);
        self.at(
            0,
            Event::Call {
                initiator,
                call,
                mode,
                freed,
                range,
                targets,
            },
        )
    }

    fn target(&mut self, call: u64, action: Action) -> &mut Self {
        let (target, pcpu) = (B, Some(1));
        self.at(
            0,
            Event::Target {
                target,
                call,
                pcpu,
                action,
            },
        )
    }

    fn done(&mut self, call: u64, left: u32) -> &mut Self {
        let (initiator, ipis) = (A, 0);
        self.at(
            0,
            Event::Done {
                initiator,
                call,
                left,
                ipis,
            },
        )
    }

    fn invalidate(&mut self, cpu: u32, tag: u32, start: u64, end: u64) -> &mut Self {
        let (vcpu, pcpu, how) = (B, Some(cpu), How::Request);
        let range = Range { start, end };
        self.at(
            cpu,
            Event::Invalidate {
                vcpu,
                tag,
                pcpu,
                range,
                how,
            },
        )
    }

    /// A whole call that queues its request for B.
    fn revoke(&mut self, call: u64, freed: bool) -> &mut Self {
        self.call(call, PAGES, freed)
            .target(call, Action::Queued)
            .done(call, 0)
    }

    fn report(&mut self) -> Report {
        std::mem::replace(&mut self.checker, Checker::new(2)).finish()
    }

    fn verdict(&mut self) -> Verdict {
        self.report().verdict
    }

    fn doubts(&mut self) -> Vec<DoubtKind> {
        let report = self.report();
        assert_eq!(report.verdict, Verdict::CannotSay, "{report}");
        report.doubts.iter().map(|doubt| doubt.kind).collect()
    }
}

/// B has run on pCPU 1 and may have cached anything there.
fn ran() -> Trace {
    let mut trace = Trace::begin();
    trace.enter(1, B).exit(1, B);
    trace
}

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
            how: How::Eager,
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
            mode: Mode::Eager,
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
