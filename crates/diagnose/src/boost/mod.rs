// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What became of each attempt to run another vCPU instead of one that spins.
//!
//! After a pause-loop exit KVM looks for a vCPU of the same VM to boost (`kvm_vcpu_on_spin`) and
//! asks the scheduler for it (`kvm_vcpu_yield_to`). The question of the PLE study's Table 1 is
//! whether that vCPU is the one that runs next. Here **next** means: at the first decision of the
//! pCPU whose run queue it is on (another pCPU that takes it earlier counts too). A decision shows
//! as a switch, or as the running vCPU's leaving and entering its guest: the request makes the pCPU
//! reschedule, and it kept the vCPU that it had. A yielder that comes back and chooses again
//! before its choice ran has failed too.
//!
//! Failures are sorted into the kinds of the Strict Boost and Debooster talk. A trace shows what
//! was done, not what was right: the vCPU that a spinning one waits for is known when it has an IPI
//! under way, and unknown when it waits for a lock. So "overboost" and "lost opportunity" are
//! lower bounds where locks are concerned.

use steady_events::{Event, Kind};

use crate::machine::{Machine, State, VcpuId};

mod tally;

pub use tally::{Instead, Outcome, Tally};

/// What is under way for one yielder.
#[derive(Debug, Clone, Copy)]
struct Try {
    target: VcpuId,
    from_pcpu: u32,
    began_ns: u64,
    rip: u64,
    awaited_ready: bool,
    /// The outcome should the target run next.
    if_next: Outcome,
    agreed: bool,
    /// The yielder went on while the target was to run elsewhere: choosing again proves nothing.
    kept_pcpu: bool,
    /// The vCPU on the target's pCPU left its guest after the request.
    left: bool,
    verdict: Option<Verdict>,
}

#[derive(Debug, Clone, Copy)]
enum Verdict {
    Next { after_ns: u64, same_pcpu: bool },
    Other(Instead),
}

/// A look for a vCPU to boost.
#[derive(Debug, Clone, Copy, Default)]
struct Spin {
    rip: u64,
    tries: u32,
    agreed: bool,
    somebody_ready: bool,
    awaited_ready: bool,
}

/// An attempt that was decided, for those who draw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decided {
    /// Who yielded.
    pub yielder: VcpuId,
    /// Who was chosen.
    pub target: VcpuId,
    /// When it was asked for.
    pub began_ns: u64,
    /// Whether it ran next.
    pub next: bool,
}

/// What `yield_to` returns where the yielder keeps its pCPU and the target is to run on another.
const KEPT_PCPU: i64 = 2;

/// Follows attempts; a yielder that keeps its pCPU can have several under way.
#[derive(Debug, Default)]
pub struct Boosts {
    spins: Vec<Option<Spin>>,
    tries: Vec<Vec<Try>>,
    /// Yielders with tries that are not decided.
    active: Vec<VcpuId>,
    /// By yielder.
    pub tallies: Vec<Tally>,
    /// Whether the trace has return probes: without them an attempt is decided by what ran alone.
    pub with_returns: bool,
}

/// What the IPIs say about a spinner: whether it waits for one to be taken, and by which vCPU.
pub trait Awaits {
    /// Whether `from` has a call under way that `to` has not taken.
    fn awaits(&self, from: VcpuId, to: VcpuId) -> bool;
    /// Whether `from` has any call under way.
    fn waits(&self, from: VcpuId) -> bool;
}

impl Boosts {
    fn grow(&mut self, vcpus: usize) {
        if self.tallies.len() < vcpus {
            self.spins.resize(vcpus, None);
            self.tries.resize_with(vcpus, Vec::new);
            self.tallies.resize_with(vcpus, Tally::default);
        }
    }

    /// An event; `me` is the vCPU of its thread. To be called before the machine applies it.
    pub fn event(
        &mut self,
        event: &Event<'_>,
        me: Option<VcpuId>,
        machine: &Machine,
        calls: &impl Awaits,
    ) -> Option<Decided> {
        self.grow(machine.vcpus.len());
        match (event.kind, me) {
            (Kind::SpinBegin { .. }, Some(me)) => self.spin_begin(me, machine, calls),
            (Kind::SpinEnd, Some(me)) => self.spin_end(me),
            (Kind::BoostTry { target, number }, Some(me)) => {
                self.begin(event, me, (target, number), machine, calls);
            }
            (Kind::BoostReturn { value }, Some(me)) => return self.returned(me, value, machine),
            (Kind::Switch { next, .. }, _) => return self.switched(event, next.tid, machine),
            (Kind::Exit { .. } | Kind::Entry { .. }, Some(_)) if !self.active.is_empty() => {
                return self.kept(event, machine);
            }
            _ => {}
        }
        None
    }

    fn spin_begin(&mut self, me: VcpuId, machine: &Machine, calls: &impl Awaits) {
        self.supersede(me);
        let ready = |id: &VcpuId| matches!(machine.vcpus[*id].state, State::Ready { .. });
        let rip = machine.vcpus[me].last_exit.map_or(0, |(_, rip, _)| rip);
        self.spins[me] = Some(Spin {
            rip,
            somebody_ready: machine.siblings(me).any(|id| ready(&id)),
            awaited_ready: machine
                .siblings(me)
                .any(|id| ready(&id) && calls.awaits(me, id)),
            ..Spin::default()
        });
        self.tallies[me].spins += 1;
    }

    fn spin_end(&mut self, me: VcpuId) {
        let Some(spin) = self.spins[me].take() else {
            return;
        };
        let tally = &mut self.tallies[me];
        let outcome = match (spin.tries, spin.somebody_ready) {
            (0, true) => Outcome::LostOpportunity,
            (0, false) => Outcome::NobodyReady,
            // Counted when the last try was decided.
            _ if spin.agreed => return,
            _ => Outcome::Refused,
        };
        tally.passed_over += u64::from(spin.awaited_ready);
        tally.count(spin.rip, outcome);
    }

    fn begin(
        &mut self,
        event: &Event<'_>,
        me: VcpuId,
        (target, number): (u64, Option<u32>),
        machine: &Machine,
        calls: &impl Awaits,
    ) {
        self.drop_tries(me, |current| !current.agreed);
        let tally = &mut self.tallies[me];
        let Some(spin) = &mut self.spins[me] else {
            tally.hinted += 1;
            return;
        };
        spin.tries += 1;
        tally.tries += 1;
        let by_number = || machine.numbered(machine.vcpus[me].vm, number?);
        let Some(target) = machine.at(target).or_else(by_number) else {
            tally.unresolved += 1;
            return;
        };
        tally.chosen.entry(target).or_default().0 += 1;
        let halted = matches!(
            machine.vcpus[target].state,
            State::Ready { halted: true, .. }
        );
        let wrong = if calls.waits(me) {
            !calls.awaits(me, target)
        } else {
            halted
        };
        self.tries[me].push(Try {
            target,
            from_pcpu: event.cpu,
            began_ns: event.time_ns,
            rip: spin.rip,
            awaited_ready: spin.awaited_ready,
            if_next: if wrong {
                Outcome::Overboost
            } else {
                Outcome::RanNext
            },
            agreed: false,
            kept_pcpu: false,
            left: false,
            verdict: None,
        });
        self.note_active(me);
    }

    fn note_active(&mut self, me: VcpuId) {
        self.active.retain(|&id| id != me);
        if !self.tries[me].is_empty() {
            self.active.push(me);
        }
    }

    fn drop_tries(&mut self, me: VcpuId, which: impl Fn(&Try) -> bool) {
        let before = self.tries[me].len();
        self.tries[me].retain(|current| !which(current));
        self.tallies[me].unresolved += (before - self.tries[me].len()) as u64;
        self.note_active(me);
    }

    /// The yielder chooses again: a choice that was agreed to and has not run by now has failed.
    fn supersede(&mut self, me: VcpuId) {
        for current in &mut self.tries[me] {
            if current.agreed && !current.kept_pcpu {
                current
                    .verdict
                    .get_or_insert(Verdict::Other(Instead::Unseen));
            }
        }
        self.decide(me);
    }

    /// The vCPU on the target's pCPU leaves its guest, and enters it again: it was kept.
    fn kept(&mut self, event: &Event<'_>, machine: &Machine) -> Option<Decided> {
        let mut decided = None;
        for at in (0..self.active.len()).rev() {
            let me = self.active[at];
            for current in &mut self.tries[me] {
                let target = &machine.vcpus[current.target];
                let elsewhere = event.cpu != target.pcpu || event.tid == target.tid;
                if elsewhere || current.verdict.is_some() || current.from_pcpu == event.cpu {
                    continue;
                }
                if matches!(event.kind, Kind::Exit { .. }) {
                    current.left = true;
                } else if current.left {
                    current.verdict = Some(Verdict::Other(who(me, event.tid, machine)));
                }
            }
            decided = self.decide(me).or(decided);
        }
        decided
    }

    /// The return probe fires once the yielder runs again, so the switches came before it.
    fn returned(&mut self, me: VcpuId, value: i64, machine: &Machine) -> Option<Decided> {
        // The last one is the one that is answered: those before were when it began.
        let last = self.tries[me].last_mut().filter(|last| !last.agreed)?;
        if value <= 0 {
            self.tries[me].pop();
            self.note_active(me);
            return None;
        }
        last.agreed = true;
        last.kept_pcpu = value == KEPT_PCPU;
        self.tallies[me].agreed += 1;
        if let Some(spin) = &mut self.spins[me] {
            spin.agreed = true;
        }
        // No switch at all on the run queue of both: the scheduler picked the yielder again.
        if last.verdict.is_none() && machine.vcpus[last.target].pcpu == last.from_pcpu {
            last.verdict = Some(Verdict::Other(Instead::Yielder));
        }
        self.decide(me)
    }

    fn switched(&mut self, event: &Event<'_>, next: i32, machine: &Machine) -> Option<Decided> {
        let mut decided = None;
        for at in (0..self.active.len()).rev() {
            let me = self.active[at];
            for current in &mut self.tries[me] {
                if current.verdict.is_some() {
                    continue;
                }
                let target = &machine.vcpus[current.target];
                if target.tid == next {
                    current.verdict = Some(Verdict::Next {
                        after_ns: event.time_ns.saturating_sub(current.began_ns),
                        same_pcpu: event.cpu == current.from_pcpu,
                    });
                } else if event.cpu == target.pcpu {
                    current.verdict = Some(Verdict::Other(who(me, next, machine)));
                }
            }
            decided = self.decide(me).or(decided);
        }
        decided
    }

    /// Counts the tries that have a verdict; the last of them.
    fn decide(&mut self, me: VcpuId) -> Option<Decided> {
        let mut decided = None;
        let (with_returns, mut at) = (self.with_returns, 0);
        while let Some(&current) = self.tries[me].get(at) {
            match current.verdict {
                Some(verdict) if current.agreed || !with_returns => {
                    self.tries[me].remove(at);
                    decided = Some(self.count(me, current, verdict));
                }
                _ => at += 1,
            }
        }
        self.note_active(me);
        decided
    }

    fn count(&mut self, me: VcpuId, current: Try, verdict: Verdict) -> Decided {
        if let Some(spin) = &mut self.spins[me] {
            spin.agreed = true;
        }
        let tally = &mut self.tallies[me];
        let outcome = match verdict {
            Verdict::Next {
                after_ns,
                same_pcpu,
            } => {
                tally.delay_ns.record(after_ns);
                tally.chosen.entry(current.target).or_default().1 += 1;
                tally.same_pcpu += u64::from(same_pcpu);
                current.if_next
            }
            Verdict::Other(instead) => {
                *tally.instead.entry(instead).or_default() += 1;
                Outcome::SchedulerMismatch
            }
        };
        tally.passed_over += u64::from(current.awaited_ready && outcome == Outcome::Overboost);
        tally.count(current.rip, outcome);
        Decided {
            yielder: me,
            target: current.target,
            began_ns: current.began_ns,
            next: matches!(verdict, Verdict::Next { .. }),
        }
    }

    /// The trace is over.
    pub fn finish(&mut self) {
        for me in 0..self.tries.len() {
            self.drop_tries(me, |_| true);
        }
    }
}

fn who(me: VcpuId, next: i32, machine: &Machine) -> Instead {
    match machine.of_tid(next) {
        Some(id) if id == me => Instead::Yielder,
        Some(id) if machine.vcpus[id].vm == machine.vcpus[me].vm => Instead::Sibling,
        Some(_) => Instead::OtherVm,
        None if next == 0 => Instead::Idle,
        None => Instead::Host,
    }
}
