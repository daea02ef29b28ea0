// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The replay of events on the abstract TLB.

use std::collections::{BTreeMap, BTreeSet};

use crate::context::{Context, Seen, Stale};
use crate::doubt::{Doubt, DoubtKind};
use crate::event::{Action, Event, FlushKind, Range, Stamped, VcpuId};
use crate::ranges::Ranges;
use crate::report::{Counts, Report, Use, VIOLATIONS_KEPT, Verdict, Violation};

/// A call that has not ended.
#[derive(Debug)]
struct Open {
    begin: Seen,
    range: Range,
    freed: bool,
    announced: u32,
    /// Those that have events, and whether they were left to the caller in the end.
    targets: BTreeMap<VcpuId, bool>,
}

/// A vCPU in guest mode on a pCPU.
#[derive(Debug, Clone, Copy)]
struct Run {
    vcpu: VcpuId,
    entered: Seen,
    /// Nothing was recorded on the pCPU since `kvm_entry`. SVM takes a new ASID, or has its own
    /// flushed, behind that event, so the entry is judged only when the next event of the pCPU
    /// shows that it did not.
    entering: bool,
}

/// Replays events and reports.
#[derive(Debug)]
pub struct Checker {
    pcpus: u32,
    seq: u64,
    contexts: BTreeMap<(VcpuId, u32), Context>,
    open: BTreeMap<(u32, u64), Open>,
    /// By VM, the first call that the trace holds from its begin.
    first_call: BTreeMap<u32, u64>,
    running: BTreeMap<u32, Run>,
    last_ns: BTreeMap<u32, u64>,
    /// vCPUs whose thread is known, those that were targets, and the numbers of stray ones.
    known: BTreeSet<VcpuId>,
    targeted: BTreeSet<VcpuId>,
    strays: BTreeMap<u32, u64>,
    counts: Counts,
    doubts: BTreeMap<DoubtKind, Doubt>,
    violations_total: u64,
    violations: Vec<Violation>,
}

impl Checker {
    /// For a host with pCPUs 0 to `pcpus` - 1; events of others make the verdict doubtful.
    #[must_use]
    pub fn new(pcpus: u32) -> Self {
        Self {
            pcpus,
            seq: 0,
            contexts: BTreeMap::new(),
            open: BTreeMap::new(),
            first_call: BTreeMap::new(),
            running: BTreeMap::new(),
            last_ns: BTreeMap::new(),
            known: BTreeSet::new(),
            targeted: BTreeSet::new(),
            strays: BTreeMap::new(),
            counts: Counts::default(),
            doubts: BTreeMap::new(),
            violations_total: 0,
            violations: Vec::new(),
        }
    }

    /// Notes a doubt that the events themselves do not show, such as `count` lost ones.
    pub fn doubt(&mut self, kind: DoubtKind, count: u64, note: Option<String>) {
        let doubt = self.doubts.entry(kind).or_insert(Doubt {
            kind,
            count: 0,
            first: None,
            note: None,
        });
        doubt.count = doubt.count.saturating_add(count);
        doubt.note = doubt.note.take().or(note);
    }

    /// Takes the next event in the order of time.
    pub fn feed(&mut self, stamped: Stamped) {
        self.seq += 1;
        self.counts.events += 1;
        let seen = Seen {
            seq: self.seq,
            stamped,
        };
        let first_on_cpu = self.order(seen);
        self.settle(seen);
        match stamped.event {
            Event::Entry { vcpu } => self.enter(seen, vcpu),
            Event::Exit { vcpu } => self.exit(seen, vcpu, first_on_cpu),
            Event::StrayEntry { vcpu } => *self.strays.entry(vcpu).or_default() += 1,
            Event::Call {
                initiator,
                call,
                freed,
                range,
                targets,
                ..
            } => {
                self.known.insert(initiator);
                self.first_call.entry(initiator.vm).or_insert(call);
                self.counts.calls += 1;
                let open = Open {
                    begin: seen,
                    range,
                    freed,
                    announced: targets,
                    targets: BTreeMap::new(),
                };
                self.open.insert((initiator.vm, call), open);
            }
            Event::Target {
                target,
                call,
                action,
                ..
            } => self.target(seen, target, call, action),
            Event::Done {
                initiator,
                call,
                left,
                ..
            } => self.done(seen, initiator.vm, call, left),
            Event::Invalidate {
                vcpu,
                tag,
                pcpu,
                range,
                ..
            } => self.invalidate(seen, vcpu, tag, pcpu, range),
            Event::Flush {
                vcpu,
                pcpu,
                kind,
                tag,
            } => self.flush(seen, vcpu, pcpu, kind, tag),
        }
    }

    /// The verdict over all that was fed.
    #[must_use]
    pub fn finish(mut self) -> Report {
        let cpus: Vec<u32> = self.running.keys().copied().collect();
        cpus.into_iter().for_each(|cpu| self.judge(cpu));
        let strays = |v: &&VcpuId| !self.known.contains(v) && self.strays.contains_key(&v.vcpu);
        let unnamed = self.targeted.iter().filter(strays).count();
        if unnamed > 0 {
            self.doubt(
                DoubtKind::StrayThread,
                u64::try_from(unnamed).unwrap_or(u64::MAX),
                None,
            );
        }
        if self.counts.calls_done == 0 {
            self.doubt(DoubtKind::NoCalls, 1, None);
        } else if self.counts.entries == 0 && self.strays.is_empty() {
            self.doubt(DoubtKind::NoEntries, 1, None);
        }
        assert!(
            self.running.values().all(|run| !run.entering),
            "an entry was not judged"
        );
        let kept = u64::try_from(self.violations.len()).unwrap_or(u64::MAX);
        assert!(
            kept <= self.violations_total,
            "violations that are reported were counted"
        );
        self.counts.contexts = u64::try_from(self.contexts.len()).unwrap_or(u64::MAX);
        let excused = self.doubts.keys().any(|kind| kind.excuses_violations());
        let verdict = if self.violations_total > 0 && !excused {
            Verdict::Violated
        } else if self.doubts.is_empty() {
            Verdict::Holds
        } else {
            Verdict::CannotSay
        };
        Report {
            verdict,
            counts: self.counts,
            doubts: self.doubts.into_values().collect(),
            violations_total: self.violations_total,
            violations: self.violations,
        }
    }

    fn doubt_at(&mut self, kind: DoubtKind, seen: Seen) {
        self.doubt(kind, 1, None);
        if let Some(doubt) = self.doubts.get_mut(&kind) {
            doubt.first.get_or_insert(seen.stamped);
        }
    }

    /// Checks the order of time on the event's CPU; true if this is that CPU's first event.
    fn order(&mut self, seen: Seen) -> bool {
        let Stamped { time_ns, cpu, .. } = seen.stamped;
        if cpu >= self.pcpus {
            // What earlier calls revoked was not noted there.
            self.doubt_at(DoubtKind::UnknownPcpu, seen);
            self.pcpus = cpu.saturating_add(1);
        }
        let last = self.last_ns.insert(cpu, time_ns);
        match last {
            Some(last) if last > time_ns => self.doubt_at(DoubtKind::OutOfOrder, seen),
            Some(last) if last == time_ns => self.counts.ties += 1,
            _ => {}
        }
        last.is_none()
    }

    /// Judges the entry that is pending on the event's CPU, unless the event still belongs to it;
    /// whatever else the host records there shows that the vCPU has left guest mode.
    fn settle(&mut self, seen: Seen) {
        let cpu = seen.stamped.cpu;
        let Some(run) = self.running.get(&cpu).copied() else {
            return;
        };
        match seen.stamped.event {
            Event::Flush { vcpu, .. } | Event::Invalidate { vcpu, .. }
                if run.entering && vcpu == run.vcpu => {}
            Event::Exit { vcpu } if vcpu == run.vcpu => self.judge(cpu),
            Event::Entry { .. } => {
                self.judge(cpu);
                self.running.remove(&cpu);
                self.doubt_at(DoubtKind::MissingExit, seen);
            }
            _ => {
                self.judge(cpu);
                self.running.remove(&cpu);
                self.doubt_at(DoubtKind::BusyInGuestMode, seen);
            }
        }
    }

    /// Reports what the vCPU in guest mode on `cpu` may use against a completed call.
    fn judge(&mut self, cpu: u32) {
        let Some(run) = self.running.get_mut(&cpu) else {
            return;
        };
        run.entering = false;
        let (vcpu, entered) = (run.vcpu, run.entered);
        self.report(vcpu, cpu, Some(entered));
    }

    fn report(&mut self, vcpu: VcpuId, pcpu: u32, entered: Option<Seen>) {
        let Some(context) = self.contexts.get_mut(&(vcpu, pcpu)) else {
            return;
        };
        for stale in context.take_revoked() {
            self.violations_total += 1;
            if self.violations.len() < VIOLATIONS_KEPT {
                let violation = tell(context, stale, vcpu, pcpu, entered);
                self.violations.push(violation);
            }
        }
    }

    fn enter(&mut self, seen: Seen, vcpu: VcpuId) {
        let cpu = seen.stamped.cpu;
        self.counts.entries += 1;
        self.known.insert(vcpu);
        let elsewhere = self.running.iter().find(|(_, run)| run.vcpu == vcpu);
        if let Some((&other, _)) = elsewhere {
            self.judge(other);
            self.running.remove(&other);
            self.doubt_at(DoubtKind::MissingExit, seen);
        }
        self.contexts
            .entry((vcpu, cpu))
            .or_default()
            .enter(seen.seq);
        let run = Run {
            vcpu,
            entered: seen,
            entering: true,
        };
        let before = self.running.insert(cpu, run);
        assert!(before.is_none(), "who was in guest mode there was settled");
        let mut running = self.running.values();
        assert!(
            running.all(|run| run.vcpu != vcpu || run.entering),
            "a vCPU runs on one pCPU"
        );
    }

    fn exit(&mut self, seen: Seen, vcpu: VcpuId, first_on_cpu: bool) {
        self.known.insert(vcpu);
        match self.running.remove(&seen.stamped.cpu) {
            Some(run) if run.vcpu == vcpu => {}
            // In guest mode since before the trace.
            None if first_on_cpu => self.report(vcpu, seen.stamped.cpu, None),
            _ => self.doubt_at(DoubtKind::MissingEntry, seen),
        }
    }

    fn target(&mut self, seen: Seen, target: VcpuId, call: u64, action: Action) {
        let Some(open) = self.open.get_mut(&(target.vm, call)) else {
            if !self.began_before(target.vm, call) {
                self.doubt_at(DoubtKind::MissingCall, seen);
            }
            return;
        };
        let left = action == Action::Left;
        let before = open.targets.insert(target, left);
        self.counts.targets += u64::from(before.is_none());
        self.counts.left += u64::from(left && before != Some(true));
        self.targeted.insert(target);
        if left {
            // It may have been served as well before it was found translating.
            for pcpu in 0..self.pcpus {
                if let Some(context) = self.contexts.get_mut(&(target, pcpu)) {
                    context.forget(open.begin.seq);
                }
            }
            return;
        }
        let stale = Stale {
            call,
            begin: open.begin,
            target: seen,
            done: None,
            needs_whole: open.freed,
            left: Ranges::new(open.range),
        };
        for pcpu in 0..self.pcpus {
            let context = self.contexts.entry((target, pcpu)).or_default();
            context.revoke(stale.clone());
        }
    }

    fn done(&mut self, seen: Seen, vm: u32, call: u64, left: u32) {
        let Some(open) = self.open.remove(&(vm, call)) else {
            if self.began_before(vm, call) {
                self.counts.calls_cut += 1;
            } else {
                self.doubt_at(DoubtKind::MissingCall, seen);
            }
            return;
        };
        self.counts.calls_done += 1;
        assert!(
            self.counts.calls_done <= self.counts.calls,
            "a call that ended had begun"
        );
        let took = seen
            .stamped
            .time_ns
            .saturating_sub(open.begin.stamped.time_ns);
        self.counts.max_call_ns = self.counts.max_call_ns.max(took);
        if u32::try_from(open.targets.len()) != Ok(open.announced) {
            self.doubt_at(DoubtKind::TargetsUnseen, seen);
        }
        let left_seen = open.targets.values().filter(|left| **left).count();
        if u32::try_from(left_seen) != Ok(left) {
            self.doubt_at(DoubtKind::LeftUnseen, seen);
        }
        for target in open.targets.keys() {
            for pcpu in 0..self.pcpus {
                if let Some(context) = self.contexts.get_mut(&(*target, pcpu)) {
                    context.done(open.begin.seq, seen);
                }
            }
        }
        let runs = self.running.iter();
        let settled: Vec<u32> = runs.filter(|(_, r)| !r.entering).map(|(c, _)| *c).collect();
        settled.into_iter().for_each(|cpu| self.judge(cpu));
    }

    /// True if the call may have begun before the trace did: calls of a VM are numbered upwards.
    fn began_before(&self, vm: u32, call: u64) -> bool {
        self.first_call.get(&vm).is_none_or(|first| call < *first)
    }

    fn invalidate(&mut self, seen: Seen, vcpu: VcpuId, tag: u32, pcpu: Option<u32>, range: Range) {
        let cpu = seen.stamped.cpu;
        self.counts.invalidations += 1;
        let context = self.contexts.entry((vcpu, cpu)).or_default();
        context.tried(seen);
        if pcpu != Some(cpu) {
            self.counts.wrong_pcpu += 1;
            return;
        }
        if !context.is_own_tag(tag) {
            self.counts.wrong_tag += 1;
            return;
        }
        self.counts.tag_unsure += u64::from(!context.tag_is_sure());
        let lain = if range.is_whole() {
            self.counts.whole_invalidations += 1;
            let entering = self.running.contains_key(&cpu);
            context.clear(seen, entering)
        } else {
            let calls = self.open.values();
            let open_since = calls.map(|open| open.begin.seq).min();
            context.invalidate(seen, range, open_since)
        };
        self.counts.max_stale_ns = self.counts.max_stale_ns.max(lain);
    }

    fn flush(
        &mut self,
        seen: Seen,
        vcpu: VcpuId,
        pcpu: Option<u32>,
        kind: FlushKind,
        tag: Option<u32>,
    ) {
        let cpu = seen.stamped.cpu;
        self.counts.flushes += 1;
        self.known.insert(vcpu);
        let context = self.contexts.entry((vcpu, cpu)).or_default();
        context.tried(seen);
        if pcpu != Some(cpu) {
            self.counts.wrong_pcpu += 1;
            return;
        }
        if tag.is_some() || kind == FlushKind::NewAsid {
            context.set_tag(tag);
        }
        if kind.is_whole() {
            let entering = self.running.contains_key(&cpu);
            let lain = context.clear(seen, entering);
            self.counts.max_stale_ns = self.counts.max_stale_ns.max(lain);
        }
    }
}

/// The story of one violation.
fn tell(
    context: &Context,
    stale: Stale,
    vcpu: VcpuId,
    pcpu: u32,
    entered: Option<Seen>,
) -> Violation {
    let mut chain: Vec<Seen> = [Some(stale.begin), Some(stale.target), stale.done, entered]
        .into_iter()
        .flatten()
        .chain(context.tried_since(stale.begin.seq))
        .collect();
    chain.sort_unstable_by_key(|seen| seen.seq);
    let entered = entered.map_or(0, |seen| seen.seq);
    let usage = if stale.done.is_some_and(|done| done.seq < entered) {
        Use::Entered
    } else {
        Use::Running
    };
    Violation {
        usage,
        vcpu,
        pcpu,
        call: stale.call,
        left: stale.left,
        needs_whole: stale.needs_whole,
        chain: chain.into_iter().map(|seen| seen.stamped).collect(),
    }
}
