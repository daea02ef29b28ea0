// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which questions a trace could answer, from what was seen in it.
//!
//! A question is answered where the events that bear on it are there: what then is not a finding
//! does not hurt. An event that never came may not have been recorded, or may not have happened;
//! only where its absence means something else does the answer differ.

use steady_events::Loss;

use crate::analysis::Analysis;
use crate::build::permille;
use crate::findings::LOSS_MATTERS;
use crate::model::{Judged, Judgement, Question};
use crate::seen::Seen;
use crate::symbols::Shift;

/// What bears on one question.
struct Answer {
    judged: Judged,
    events: u64,
    why: Option<String>,
    record: &'static [&'static str],
    cure: Option<&'static str>,
}

impl Answer {
    fn yes(events: u64) -> Self {
        Self {
            judged: Judged::Yes,
            events,
            why: None,
            record: &[],
            cure: None,
        }
    }

    fn no(why: &str, record: &'static [&'static str]) -> Self {
        Self {
            judged: Judged::No,
            why: Some(why.to_owned()),
            record,
            ..Self::yes(0)
        }
    }

    fn not_here(why: &str) -> Self {
        Self {
            judged: Judged::NotHere,
            ..Self::no(why, &[])
        }
    }

    fn partly(events: u64, why: String, record: &'static [&'static str]) -> Self {
        Self {
            judged: Judged::Partly,
            why: Some(why),
            record,
            ..Self::yes(events)
        }
    }

    fn with_cure(mut self, cure: &'static str) -> Self {
        self.cure = Some(cure);
        self
    }
}

/// What is known of a trace when questions are judged.
struct Known<'a> {
    analysis: &'a Analysis,
    seen: &'a Seen,
    shift: Option<Shift>,
    /// Events of known names without the fields that are read.
    unreadable: u64,
    /// It has vCPUs: it is a host's.
    host: bool,
}

/// Each question once.
pub fn of(analysis: &Analysis, loss: &Loss, shift: Option<Shift>) -> Vec<Judgement> {
    let known = Known {
        analysis,
        seen: &analysis.seen,
        shift,
        unreadable: loss.unreadable,
        host: !analysis.machine.vcpus.is_empty(),
    };
    let doubt = doubt(loss, analysis.seen.all);
    let judgements = Question::ALL.map(|question| {
        let mut answer = known.answer(question);
        if let (Judged::Yes, Some(doubt)) = (answer.judged, &doubt) {
            answer = Answer::partly(answer.events, doubt.clone(), answer.record);
        }
        Judgement {
            question,
            words: question.words().to_owned(),
            judged: answer.judged,
            events: answer.events,
            why: answer.why,
            record: answer
                .record
                .iter()
                .map(|&event| event.to_owned())
                .collect(),
            cure: answer.cure.map(str::to_owned),
        }
    });
    let whole = judgements.iter().filter(|each| each.judged == Judged::Yes);
    assert!(
        whole.clone().all(|each| each.why.is_none()),
        "what was judged wholly lacks nothing"
    );
    judgements.into()
}

/// Why nothing of a trace is judged wholly, if too much of it is missing.
fn doubt(loss: &Loss, events: u64) -> Option<String> {
    let unread = permille(loss.unread_lines, loss.unread_lines.saturating_add(events));
    let lost = permille(loss.lost_events, loss.lost_events.saturating_add(events));
    if unread >= LOSS_MATTERS {
        return Some(format!("{unread} of 1000 lines could not be read"));
    }
    if lost >= LOSS_MATTERS {
        return Some(format!("{lost} of 1000 events were lost while recording"));
    }
    let gaps = loss.unknown_gaps;
    (gaps > 0).then(|| format!("events of unknown number were lost at {gaps} places"))
}

const GUEST: &str = "the trace shows no vCPU: it is a guest's, or of a host without KVM's events";
const PLACELESS: &str = "the trace does not say on which CPU its events were";
const PLACED: &str = "record all CPUs (perf record -a), and print them (perf script -F +cpu)";
const RECORD: &str = "record with `steady record`, which sets the probes";
const ELSEWHERE: &str = "not judged on this architecture: its KVM has other events for it";

impl Known<'_> {
    fn answer(&self, question: Question) -> Answer {
        let seen = self.seen;
        if question == Question::Shootdowns {
            return self.shootdowns();
        }
        if !self.host {
            return Answer::not_here(GUEST).with_cure("record the host");
        }
        match question {
            Question::Exits if seen.exit == 0 && self.unreadable > 0 => Answer::not_here(ELSEWHERE),
            Question::Exits => Self::told_by(seen.exit, "no exit", &["kvm:kvm_exit"]),
            Question::ExitTimes => self.exit_times(),
            Question::Steal => self.switches(),
            Question::WhoRan if seen.placeless > 0 => Answer::no(PLACELESS, &[]).with_cure(PLACED),
            Question::WhoRan => self.switches(),
            Question::WakeupWait => self.wakeup_wait(),
            Question::PauseLoops => self.pause_loops(),
            Question::PauseCauses => self.pause_causes(),
            Question::Boosts => self.boosts(),
            Question::IpiWaits => self.ipi_waits(),
            Question::Timers => self.timers(),
            Question::HostTicks => self.on_x86(seen.host_timer, &["irq_vectors:local_timer_entry"]),
            Question::PreemptionMarks => self.marks(),
            Question::Shootdowns => self.shootdowns(),
        }
    }

    fn told_by(events: u64, what: &str, record: &'static [&'static str]) -> Answer {
        if events == 0 {
            return Answer::no(&format!("{what} was recorded"), record);
        }
        Answer::yes(events)
    }

    fn switches(&self) -> Answer {
        let switches = self.seen.switch;
        let answer = Self::told_by(switches, "no switch of threads", &["sched:sched_switch"]);
        if answer.judged == Judged::Yes && !self.analysis.told {
            let why = "vCPUs are known by the names of their threads alone".to_owned();
            return Answer::partly(switches, why, &["kvm:kvm_entry", "kvm:kvm_exit"]);
        }
        answer
    }

    /// Whether exits show that the host is of another architecture.
    fn is_elsewhere(&self) -> bool {
        self.seen.exit > 0 && self.seen.x86_exit == 0
    }

    fn on_x86(&self, events: u64, record: &'static [&'static str]) -> Answer {
        if self.is_elsewhere() {
            return Answer::not_here(ELSEWHERE);
        }
        Self::told_by(events, "none of its events", record)
    }

    fn exit_times(&self) -> Answer {
        let seen = self.seen;
        if seen.exit == 0 || seen.entry == 0 {
            let what = if seen.exit == 0 { "exit" } else { "entry" };
            return Answer::no(
                &format!("no {what} was recorded, and a time ends at an entry"),
                &["kvm:kvm_entry", "kvm:kvm_exit"],
            );
        }
        let vcpus = &self.analysis.vcpus;
        let open: u64 = vcpus.iter().map(|vcpu| vcpu.exits.uncounted).sum();
        let timed = seen.exit.saturating_sub(open);
        // The last exit of each thread may have no entry in any trace.
        let ends = u64::try_from(vcpus.len()).unwrap_or(u64::MAX);
        if open > ends {
            let why = format!("{open} of {} exits are followed by no entry", seen.exit);
            return Answer::partly(timed, why, &["kvm:kvm_entry"]);
        }
        Answer::yes(timed)
    }

    fn wakeup_wait(&self) -> Answer {
        let seen = self.seen;
        if seen.switch == 0 || seen.wakeup == 0 {
            return Answer::no(
                "wake-ups and switches of threads were not both recorded",
                &["sched:sched_switch", "sched:sched_wakeup"],
            );
        }
        Answer::yes(seen.wakeup)
    }

    fn pause_loops(&self) -> Answer {
        let seen = self.seen;
        if seen.exit == 0 {
            return Answer::no("no exit was recorded", &["kvm:kvm_exit"]);
        }
        if seen.x86_exit > 0 {
            return Answer::yes(seen.pause_exit);
        }
        if seen.guest_wait > 0 {
            return Answer::yes(seen.pause_exit);
        }
        Answer::no(
            "on arm64 a spinning guest shows as `wfe`, and looks like one at `wfi`; on others \
             it does not show",
            &["kvm:kvm_wfx_arm64"],
        )
    }

    fn pause_causes(&self) -> Answer {
        let pauses = self.seen.pause_exit;
        match self.shift {
            _ if pauses == 0 => Answer::not_here("no pause-loop exit is in the trace"),
            None => Answer::no("the addresses of a guest's functions are not known", &[])
                .with_cure("give the guest's System.map with --symbols"),
            Some(shift) if shift.explained * 2 < shift.of => Answer::partly(
                shift.explained,
                format!(
                    "{} of {} exits lie in functions that wait or halt: the symbols may be another \
                     kernel's",
                    shift.explained, shift.of
                ),
                &[],
            )
            .with_cure("give the System.map of the kernel that the guest runs"),
            Some(shift) => Answer::yes(shift.explained),
        }
    }

    fn boosts(&self) -> Answer {
        let seen = self.seen;
        if seen.pause_exit == 0 {
            return Answer::not_here("no pause-loop exit is in the trace");
        }
        if seen.boost == 0 {
            return Answer::no("KVM has no tracepoint where it boosts a vCPU", &[])
                .with_cure(RECORD);
        }
        if seen.placeless > 0 {
            return Answer::no(PLACELESS, &[]).with_cure(PLACED);
        }
        if seen.switch == 0 {
            return Answer::no("no switch of threads was recorded", &["sched:sched_switch"]);
        }
        if seen.boost_return == 0 {
            let why = "which boosts the scheduler agreed to is not in the trace".to_owned();
            return Answer::partly(seen.boost, why, &[]).with_cure(RECORD);
        }
        Answer::yes(seen.boost)
    }

    fn ipi_waits(&self) -> Answer {
        let seen = self.seen;
        let answer = self.on_x86(seen.accepted, &["kvm:kvm_apic_accept_irq"]);
        match answer.judged {
            Judged::No => Answer {
                why: Some(
                    "no interrupt of a virtual APIC is in the trace; where the processor delivers \
                     IPIs itself (APICv, AVIC), none can be"
                        .to_owned(),
                ),
                ..answer
            }
            .with_cure("record the guest too, with `steady record --guest`"),
            Judged::Yes if seen.entry == 0 => Answer::no(
                "when a receiver takes an IPI shows by its entry",
                &["kvm:kvm_entry"],
            ),
            _ => answer,
        }
    }

    fn timers(&self) -> Answer {
        let seen = self.seen;
        let answer = self.on_x86(seen.timer_write, &["kvm:kvm_msr", "kvm:kvm_apic"]);
        let untimed = seen.entry == 0 || seen.exit == 0;
        if answer.judged == Judged::Yes && untimed {
            let why = "how often is known, and how long it took is not".to_owned();
            return Answer::partly(answer.events, why, &["kvm:kvm_entry", "kvm:kvm_exit"]);
        }
        answer
    }

    fn marks(&self) -> Answer {
        let seen = self.seen;
        if self.is_elsewhere() {
            return Answer::not_here(ELSEWHERE);
        }
        if seen.exit == 0 || seen.switch == 0 {
            return Answer::no(
                "why a vCPU had left its guest when it was descheduled is not in the trace",
                &["kvm:kvm_exit", "sched:sched_switch"],
            );
        }
        Answer::yes(seen.switch)
    }

    fn shootdowns(&self) -> Answer {
        let calls = self.seen.guest_call;
        if calls > 0 {
            return Answer::yes(calls);
        }
        Answer::no(
            "a host does not see what its guests' kernels do among themselves",
            &[],
        )
        .with_cure("record inside the guest, with `steady record --guest`")
    }
}
