// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events that no trace holds: made by hand, and by a made-up engine.

use steady_diagnose::{DiagnoseError, Diagnoser, Diagnosis, FindingId, Quantity, Severity};
use steady_events::{
    About, Cut, Event, EventSource, ExitReason, Feed, Gap, Isa, Kind, Loss, ReadError, RemedyEvent,
    RemedyStep, Task, TaskState,
};

const VCPU: i32 = 10;

fn event(time_ns: u64, tid: i32, kind: Kind<'static>) -> Event<'static> {
    Event {
        time_ns,
        cpu: 0,
        tid,
        comm: b"CPU 0/KVM",
        process: 0,
        gap: Gap::None,
        kind,
    }
}

fn switch(time_ns: u64, from: i32, to: i32) -> Event<'static> {
    let task = |tid| Task {
        tid,
        comm: b"x".as_slice(),
        prio: None,
    };
    let kind = Kind::Switch {
        prev: task(from),
        state: TaskState::Runnable,
        next: task(to),
    };
    event(time_ns, from, kind)
}

/// Thirty times: the vCPU enters, is interrupted after 1 us, and another thread runs for 3 us.
fn stolen() -> Vec<Event<'static>> {
    (0..30_u64)
        .flat_map(|turn| {
            let at = turn * 4_000;
            let exit = Kind::Exit {
                vcpu: Some(0),
                reason: ExitReason::new(Isa::Vmx, 1),
                rip: 0,
                interrupt: 0,
                address: 0,
            };
            [
                event(at, VCPU, Kind::Entry { vcpu: Some(0) }),
                event(at + 1_000, VCPU, exit),
                switch(at + 1_000, VCPU, 99),
                switch(at + 4_000, 99, VCPU),
            ]
        })
        .collect()
}

fn diagnosed<S: EventSource>(mut source: S) -> Result<Diagnosis, DiagnoseError> {
    let mut diagnoser = Diagnoser::new();
    diagnoser.trace("made", &mut source, &mut |_, _, _| Ok(()))?;
    Ok(diagnoser.finish())
}

#[test]
fn events_made_by_hand_go_in_and_a_finding_comes_out() {
    let source = Feed::new(About::complete("by hand", 1), stolen());
    let diagnosis = diagnosed(source).unwrap();
    assert_eq!(diagnosis.traces[0].format, "by hand");
    let steal = diagnosis
        .findings
        .iter()
        .find(|finding| finding.id == FindingId::Steal)
        .unwrap();
    // 30 times 3 us in 120 us.
    assert_eq!(steal.lost_ns_per_s, 750_000_000);
    let mut worst = steal.evidence.iter().filter_map(|of| of.value("steal"));
    assert_eq!(worst.next(), Some(&Quantity::Ns(90_000)));
}

/// An engine that makes its events when it is asked, and breaks down after some.
struct Engine {
    now_ns: u64,
    breaks_at_ns: Option<u64>,
}

impl EventSource for Engine {
    fn about(&self) -> About {
        About::complete("engine", 1)
    }

    fn next(&mut self) -> Result<Option<Event<'_>>, ReadError> {
        self.now_ns += 1_000;
        if self.breaks_at_ns == Some(self.now_ns) {
            return Err("the engine broke".into());
        }
        let kind = match (self.now_ns / 1_000) % 4 {
            0 => Kind::TickInjected,
            1 => Kind::Entry { vcpu: Some(0) },
            2 => Kind::TickTaken,
            _ => Kind::TimerProgrammed { value: 7 },
        };
        Ok((self.now_ns <= 400_000).then(|| event(self.now_ns, VCPU, kind)))
    }

    fn loss(&self) -> Loss {
        let cut = Cut {
            place: "its time".to_owned(),
            missing_bytes: None,
        };
        Loss {
            lost_events: 4,
            cut: Some(cut),
            ..Loss::default()
        }
    }
}

#[test]
fn an_engine_is_a_source_with_its_ticks_and_its_loss() {
    let engine = Engine {
        now_ns: 0,
        breaks_at_ns: None,
    };
    let diagnosis = diagnosed(engine).unwrap();
    let trace = &diagnosis.traces[0];
    let timers = &trace.vms[0].timers;
    assert_eq!(
        (timers.ticks_injected, timers.ticks_taken),
        (Some(100), Some(100))
    );
    assert_eq!(trace.loss.lost_permille, 10);
    assert_eq!(trace.loss.truncated.as_deref(), Some("its time"));
}

#[test]
fn an_engine_that_breaks_gives_its_error_and_no_diagnosis() {
    let engine = Engine {
        now_ns: 0,
        breaks_at_ns: Some(50_000),
    };
    let error = diagnosed(engine).unwrap_err();
    assert_eq!(error.to_string(), "the engine broke");
}

#[test]
fn a_remedy_that_nobody_knows_is_counted_by_its_calls() {
    let told = |call, step| {
        Kind::Remedy(RemedyEvent {
            remedy: "nap",
            call: Some(call),
            step,
        })
    };
    let mut events = stolen();
    let target = RemedyStep::Target {
        vm: None,
        vcpu: Some(1),
        outcome: Some(3),
    };
    events.extend([
        event(
            200_000,
            VCPU,
            told(7, RemedyStep::Begun { targets: Some(1) }),
        ),
        event(200_100, VCPU, told(7, target)),
        event(200_500, VCPU, told(7, RemedyStep::Done { left: Some(1) })),
        // Its begin is not there.
        event(200_900, VCPU, told(9, RemedyStep::Done { left: None })),
    ]);
    let diagnosis = diagnosed(Feed::new(About::complete("by hand", 1), events)).unwrap();
    let [nap] = diagnosis.traces[0].remedies.as_slice() else {
        panic!("one remedy: {:?}", diagnosis.traces[0].remedies);
    };
    assert_eq!(nap.remedy, "nap");
    assert_eq!((nap.calls, nap.targets, nap.done, nap.left), (1, 1, 2, 1));
    assert_eq!((nap.call_ns.count, nap.call_ns.total), (1, 500));
}

#[test]
fn ten_long_deschedules_are_found_though_they_are_few() {
    // In each second the vCPU runs for 0.1 s and is off its pCPU, ready, for 0.9 s.
    let second = 1_000_000_000;
    let events = (0..10_u64).flat_map(|turn| {
        let at = turn * second;
        [
            event(at, VCPU, Kind::Entry { vcpu: Some(0) }),
            switch(at + second / 10, VCPU, 99),
            switch(at + second, 99, VCPU),
        ]
    });
    let diagnosis = diagnosed(Feed::new(About::complete("by hand", 1), events)).unwrap();
    let steal = diagnosis
        .findings
        .iter()
        .find(|finding| finding.id == FindingId::Steal)
        .unwrap();
    assert_eq!(
        (steal.severity, steal.lost_ns_per_s),
        (Severity::Severe, 900_000_000)
    );
}

#[test]
fn few_and_short_deschedules_are_no_finding() {
    let second = 1_000_000_000;
    let events = (0..10_u64).flat_map(|turn| {
        let at = turn * second;
        [
            event(at, VCPU, Kind::Entry { vcpu: Some(0) }),
            switch(at + second / 2, VCPU, 99),
            switch(at + second / 2 + 1_000, 99, VCPU),
        ]
    });
    let diagnosis = diagnosed(Feed::new(About::complete("by hand", 1), events)).unwrap();
    assert!(diagnosis.findings.is_empty(), "{:?}", diagnosis.findings);
}

#[test]
fn what_no_event_tells_is_null_and_not_0() {
    let events = [
        event(0, VCPU, Kind::Entry { vcpu: Some(0) }),
        event(9_000, VCPU, Kind::Entry { vcpu: Some(0) }),
    ];
    let about = About {
        pcpus: None,
        ..About::complete("by hand", 1)
    };
    let json = serde_json::to_value(diagnosed(Feed::new(about, events)).unwrap()).unwrap();
    let trace = &json["traces"][0];
    let (vcpu, timers) = (&trace["vms"][0]["vcpus"][0], &trace["vms"][0]["timers"]);
    let keys = ["steal_ns", "wakeup_wait_ns", "descheduled", "unmarked"];
    let timer_keys = ["arms", "stops", "delivered", "host_ticks", "host_tick_ns"];
    let values = keys.map(|key| &vcpu[key]).into_iter();
    let values = values
        .chain(timer_keys.map(|key| &timers[key]))
        .chain([&trace["pcpus"]]);
    let unknown: Vec<bool> = values
        .map(|value| value == &serde_json::Value::Null)
        .collect();
    assert_eq!(unknown, [true; 10], "{json}");
}

#[test]
fn what_was_recorded_and_did_not_happen_is_0() {
    let diagnosis = diagnosed(Feed::new(About::complete("by hand", 1), stolen())).unwrap();
    let vcpu = &diagnosis.traces[0].vms[0].vcpus[0];
    assert_eq!((vcpu.steal_ns, vcpu.unmarked), (Some(90_000), Some(0)));
    assert_eq!(vcpu.wakeup_wait_ns, None, "no wake-up was recorded");
}
