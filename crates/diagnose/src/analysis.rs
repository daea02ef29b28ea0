// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One pass over the events of a trace: every analysis, in memory bounded by the number of vCPUs.

use steady_events::{Event, ExitReason, Gap, Kind, Task, TaskState, vcpu_number};

use crate::boost::{Awaits, Boosts, Decided};
use crate::calls::Calls;
use crate::clock::STEP_NS;
use crate::guest::Shootdowns;
use crate::machine::{Machine, State, Vcpu, VcpuId};
use crate::of_vcpu::OfVcpu;
use crate::remedies::Remedies;
use crate::rivals::Rivals;
use crate::seen::Seen;
use crate::servers::Servers;
use crate::silence::Silence;
use crate::spread::add;

/// The CPU of events of which the trace does not name it.
pub const NO_CPU: u32 = u32::MAX;

/// All analyses of one trace.
#[derive(Debug, Default)]
pub struct Analysis {
    /// Who is where.
    pub machine: Machine,
    /// By vCPU.
    pub vcpus: Vec<OfVcpu>,
    /// Boosts.
    pub boosts: Boosts,
    /// IPIs between vCPUs.
    pub calls: Calls,
    /// Who ran while vCPUs were ready.
    pub rivals: Rivals,
    /// Threads that serve VMs.
    pub servers: Servers,
    /// When all pCPUs were silent.
    pub silence: Silence,
    /// How often the clock was set back before it was put straight.
    pub clock_set_back: u64,
    /// Of all events, thousandths that came after later ones, by an order that is put straight.
    pub late_permille: u64,
    /// Where events were lost, as often as the trace shows the place.
    pub gaps: u64,
    /// Shootdowns of the traced kernel itself.
    pub shootdowns: Shootdowns,
    /// What remedies say of themselves, and what is only counted.
    pub remedies: Remedies,
    /// What was seen.
    pub seen: Seen,
    /// First and last event, in nanoseconds.
    pub span_ns: Option<(u64, u64)>,
    /// Whether KVM named a vCPU; until then they are known by the names of their threads.
    pub told: bool,
    /// Switches to or from a vCPU's thread, and those between two other threads.
    pub switches: (u64, u64),
    /// Whether a wake-up itself was recorded.
    woken: bool,
    /// Whether one of a vCPU by another thread was, and a switch from an idle task: no filter on
    /// threads hides what these do.
    woken_by_others: bool,
    left_idle: bool,
}

/// What an event decided, for those who draw it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Effect {
    /// The vCPU of the event's thread.
    pub vcpu: Option<VcpuId>,
    /// A boost whose outcome is known now.
    pub boost: Option<Decided>,
}

impl Analysis {
    /// Takes an event. Events come in the order of time; a step back in time loses a measure, no
    /// more.
    pub fn event(&mut self, event: &Event<'_>) -> Effect {
        let stand_in;
        let event = match event.kind {
            Kind::Waking { tid, cpu } if !self.woken => {
                let kind = Kind::Wakeup { tid, cpu };
                stand_in = Event { kind, ..*event };
                &stand_in
            }
            Kind::Wakeup { .. } => {
                self.woken = true;
                event
            }
            _ => event,
        };
        self.rivals.settle(&self.machine, event.time_ns);
        self.note(event);
        if self.rivals.pcpus.repeats(event) {
            return Effect::default();
        }
        if !self.told {
            self.by_name(event);
        }
        self.machine.note_process(event);
        self.gap(event);
        let vcpu = self.machine.vcpu_of(event);
        let known = self.machine.vcpus.len();
        let is_new = self.vcpus.len() < known;
        if is_new {
            self.vcpus.resize_with(known, OfVcpu::default);
            self.rivals.grow(known);
        }
        if event.gap != Gap::None {
            self.lost(event);
        }
        let proved = self.rivals.pcpus.proves(event);
        self.rivals.begins(event);
        if let Some((before_ns, is_first)) = proved {
            if let (Some(id), true) = (vcpu, is_first || event.gap != Gap::None) {
                self.rivals.met(id, event.cpu);
            }
            self.arrives(event, vcpu, before_ns);
        } else if let Some(id) = vcpu.filter(|_| is_new) {
            self.runs(id, event);
        }
        if let Some(id) = vcpu {
            self.rivals.is_vcpu(id, event);
        }
        // Who ran on a pCPU cannot be said where the trace does not show which it was.
        let boost = if event.cpu == NO_CPU {
            None
        } else {
            self.boosts.event(event, vcpu, &self.machine, &self.calls)
        };
        self.calls.event(event, vcpu, &self.machine);
        self.shootdowns.event(event);
        match event.kind {
            Kind::Switch { prev, state, next } => self.switch(event, prev, state, next),
            Kind::Wakeup { tid, cpu } => self.wakes(event, tid, cpu),
            Kind::Migrate { tid, to } => self.moves(event, tid, to),
            Kind::HostIrq { begins, .. } => self.rivals.irq(event, begins),
            _ => {}
        }
        if let Some(id) = vcpu
            && !matches!(event.kind, Kind::Switch { .. } | Kind::Wakeup { .. })
        {
            self.of_thread(event, id);
        }
        self.machine.apply(event, vcpu);
        Effect { vcpu, boost }
    }

    fn moves(&mut self, event: &Event<'_>, tid: i32, to: u32) {
        if let Some(id) = self.machine.of_tid(tid) {
            self.rivals.moved(id, to, event.time_ns);
            self.rivals.placement.pace.moves(id, to, event.time_ns);
        }
    }

    /// How long no pCPU had a record before this one.
    #[inline]
    fn gap(&mut self, event: &Event<'_>) {
        if event.gap == Gap::None {
            // Whether this event's own vCPU ran before it, it does not show. One whose exit the VMM
            // has may wait for a device.
            let vcpus = self.machine.vcpus.iter().zip(&self.vcpus);
            let runs = |(vcpu, of): (&Vcpu, &OfVcpu)| {
                vcpu.state == State::Running && of.details.user().is_none()
            };
            self.silence.event(event.time_ns, || {
                vcpus.clone().filter(|each| runs(*each)).count()
            });
        } else {
            self.silence.lost(event.time_ns);
        }
    }

    /// An event of a vCPU's own thread.
    fn of_thread(&mut self, event: &Event<'_>, id: VcpuId) {
        let waits = self.calls.waits(id);
        let ready_ns = self.rivals.ready_ns(id);
        let of = &mut self.vcpus[id];
        match event.kind {
            Kind::Entry { .. } => of.slept_ns = of.slept_ns.saturating_add(of.asleep.settle()),
            Kind::HaltEnd { slept: true, .. } => of.asleep.was_halt(),
            Kind::PvTlbFlush { needed: true } => of.preempt.pv_flushes += 1,
            _ => {}
        }
        of.details.event(event, of.not_own_ns(ready_ns));
        if let Kind::Exit { reason, .. } = event.kind {
            let pace = &mut self.rivals.placement.pace;
            pace.exits(id, reason.is_pause(), event.time_ns);
        }
        if let Kind::Exit { reason, .. } = event.kind
            && reason.is_host_interrupt()
            && self.calls.notified(id)
        {
            of.details.by_ipi();
        }
        of.event(event, waits);
    }

    /// Events were lost before this one: of their pCPUs nothing is known since the record before.
    fn lost(&mut self, event: &Event<'_>) {
        self.gaps += 1;
        self.servers.lost();
        // What a pCPU lost before its first record is of before the begin, where that is not known
        // otherwise.
        let is_first = match event.gap {
            Gap::Any => self.seen.all == 1,
            _ => self.rivals.pcpus.of(event.cpu).seen_ns.is_none(),
        };
        if !is_first || self.rivals.before.whole {
            self.rivals.before.is_over();
        }
        let vcpus = self.machine.vcpus.iter().zip(&mut self.vcpus);
        for (_, of) in vcpus.filter(|(vcpu, _)| event.gap == Gap::Any || vcpu.pcpu == event.cpu) {
            of.exits.lost();
            of.details.lost();
            of.asleep.lost();
        }
        let all = self.rivals.pcpus.numbers();
        let cpus = all.filter(|&cpu| event.gap == Gap::Any || cpu == event.cpu);
        for cpu in cpus {
            let running = self.rivals.pcpus.of(cpu).running;
            let since_ns = self.rivals.pcpus.last_ns(cpu, event.time_ns);
            self.rivals.doubt(cpu, since_ns, event.time_ns);
            if let Some(id) = running.and_then(|tid| self.machine.of_tid(tid)) {
                self.rivals.stops(id, since_ns);
                self.machine.vcpus[id].state = State::Unknown;
            }
            for (id, wait) in self.rivals.lost(cpu, event.time_ns) {
                if let Some(wait) = wait {
                    self.vcpus[id].preempt.waited(&wait);
                }
                self.machine.vcpus[id].state = State::Unknown;
            }
        }
    }

    /// The event proves that its thread runs on its pCPU, though no switch to it was seen. What was
    /// known of the pCPU before ends with its last record.
    fn arrives(&mut self, event: &Event<'_>, vcpu: Option<VcpuId>, before_ns: u64) {
        let (cpu, now_ns) = (event.cpu, event.time_ns);
        let task = match event.kind {
            Kind::Switch { prev, .. } => prev,
            _ => Task {
                tid: event.tid,
                comm: event.comm,
                prio: None,
            },
        };
        let was = self.rivals.pcpus.of(cpu).running;
        self.rivals.placement.unseen += u64::from(was.is_some());
        if let Some(id) = was.and_then(|tid| self.machine.of_tid(tid)) {
            self.rivals.stops(id, before_ns);
            let left = &mut self.machine.vcpus[id];
            if left.state == State::Running && left.pcpu == cpu {
                left.state = State::Unknown;
                // It was switched out unseen: not all of its exit's time is the exit's.
                self.vcpus[id].details.lost();
                let halts = left.last_reason().is_some_and(ExitReason::is_halt);
                if !halts {
                    self.rivals.left(id, before_ns);
                }
            }
        }
        self.rivals.before.leaves(cpu);
        if was.is_some() {
            let is_named = vcpu_number(task.comm).is_some();
            self.rivals.comes(cpu, task.tid, before_ns, is_named);
        } else {
            // It may have run there all the time.
            self.rivals.before.names(task.tid);
        }
        self.rivals.divide_on(cpu, now_ns, true);
        let arrived = match event.kind {
            Kind::Switch { .. } => self.machine.of_tid(task.tid),
            _ => vcpu,
        };
        if let Some(id) = arrived {
            self.runs(id, event);
        }
        self.rivals.is_running(cpu, task, now_ns);
    }

    /// A vCPU runs on the event's pCPU.
    fn runs(&mut self, id: VcpuId, event: &Event<'_>) {
        let (cpu, now_ns) = (event.cpu, event.time_ns);
        let of = &mut self.vcpus[id];
        of.preempt.freed(now_ns, &self.machine.vcpus[id]);
        of.asleep.end(event, false);
        of.slept_since_ns = None;
        let wait = self.rivals.starts(id, cpu, now_ns);
        if let Some(wait) = &wait {
            of.preempt.waited(wait);
        }
        let vcpu = &mut self.machine.vcpus[id];
        self.rivals.placement.pace.runs(id, vcpu.vm, cpu, now_ns);
        let was_on = std::mem::replace(&mut vcpu.pcpu, cpu);
        vcpu.state = State::Running;
        let elsewhere = was_on != cpu && self.rivals.pcpus.of(was_on).running == Some(vcpu.tid);
        if elsewhere {
            let since_ns = self.rivals.pcpus.last_ns(was_on, now_ns);
            self.rivals.pcpus.forget(was_on, since_ns);
        }
    }

    fn switch(&mut self, event: &Event<'_>, prev: Task<'_>, state: TaskState, next: Task<'_>) {
        let (cpu, now_ns) = (event.cpu, event.time_ns);
        self.count_switch(prev, next);
        self.rivals.pcpus.switches(cpu);
        self.rivals.pcpus.is_now(cpu, prev);
        self.rivals.divide_on(cpu, now_ns, false);
        self.left_idle |= prev.tid == 0;
        self.rivals.before.names(prev.tid);
        self.rivals.before.leaves(cpu);
        let is_named = vcpu_number(next.comm).is_some();
        self.rivals.comes(cpu, next.tid, now_ns, is_named);
        if state != TaskState::Runnable && prev.tid != 0 {
            let next_vcpu = self.machine.of_tid(next.tid);
            self.rivals.leaves(cpu, prev.tid, next.tid, next_vcpu);
        }
        if let Some(id) = self.machine.of_tid(prev.tid) {
            let vcpu = &self.machine.vcpus[id];
            let of = &mut self.vcpus[id];
            of.preempt.out(event, state, vcpu);
            self.rivals.has(id, prev.prio);
            self.rivals.stops(id, now_ns);
            let is_ready = state == TaskState::Runnable;
            self.rivals.placement.pace.stops(id, is_ready, now_ns);
            match state {
                TaskState::Runnable => self.rivals.begin(id, cpu, now_ns, false),
                TaskState::Blocked => {
                    of.asleep
                        .begin(event, vcpu.last_reason(), of.details.user());
                    of.slept_since_ns = Some(now_ns);
                }
                // One that ended enters no more.
                TaskState::Dead => of.details.lost(),
                TaskState::Uninterruptible => {}
            }
        }
        if let Some(id) = self.machine.of_tid(next.tid) {
            self.rivals.has(id, next.prio);
            self.runs(id, event);
        }
        self.servers.event(event);
        self.rivals.is_running(cpu, next, now_ns);
    }

    fn count_switch(&mut self, prev: Task<'_>, next: Task<'_>) {
        let is_vcpu = |task: Task<'_>| {
            self.machine.of_tid(task.tid).is_some() || vcpu_number(task.comm).is_some()
        };
        // Before its first record of KVM a vCPU may not be known. One beside them says all.
        if self.machine.vcpus.is_empty() || self.switches.1 > 0 {
            return;
        }
        let (of_vcpus, beside) = &mut self.switches;
        match is_vcpu(prev) || is_vcpu(next) {
            true => *of_vcpus += 1,
            false => *beside += 1,
        }
    }

    /// Whether the trace has only switches of vCPUs, as a filter leaves them (`trace-cmd -P`): what
    /// others do among themselves, an idle pCPU too, it then does not show.
    #[must_use]
    pub fn has_only_vcpus(&self) -> bool {
        let (of_vcpus, beside) = self.switches;
        beside == 0 && of_vcpus > 0
    }

    fn wakes(&mut self, event: &Event<'_>, tid: i32, cpu: u32) {
        let Some(id) = self.machine.of_tid(tid) else {
            return self.servers.event(event);
        };
        let vcpu = &self.machine.vcpus[id];
        let of = &mut self.vcpus[id];
        of.preempt.freed(event.time_ns, vcpu);
        of.asleep.end(event, true);
        if let Some(since_ns) = of.slept_since_ns.take()
            && self.machine.of_tid(event.tid).is_none()
        {
            self.servers.wakes(event, id, since_ns);
        }
        self.woken_by_others |= self.machine.of_tid(event.tid).is_none();
        let by = self.waker(event);
        let (pace, vm) = (&mut self.rivals.placement.pace, self.machine.vcpus[id].vm);
        pace.wakes(id, vm, by, cpu, event.time_ns);
        if matches!(vcpu.state, State::Blocked | State::Unknown) {
            self.rivals.begin(id, cpu, event.time_ns, true);
        }
    }

    /// The vCPU that woke somebody, as far as that was not an interrupt of the host on its pCPU.
    fn waker(&self, event: &Event<'_>) -> Option<VcpuId> {
        let id = self.machine.of_tid(event.tid)?;
        let after = self.machine.vcpus[id].last_reason()?;
        (!after.is_host_interrupt()).then_some(id)
    }

    /// Until KVM itself names a vCPU, threads that are named like one are taken for one. Once it
    /// does, nothing of that is kept: it knows better.
    fn by_name(&mut self, event: &Event<'_>) {
        match event.kind {
            Kind::Switch { prev, next, .. } => {
                self.machine.named(prev, event.cpu);
                self.machine.named(next, event.cpu);
                return;
            }
            Kind::Entry { .. }
            | Kind::Exit { .. }
            | Kind::VcpuLoad { .. }
            | Kind::SpinBegin { .. } => self.told = true,
            _ => return,
        }
        // What the notes name is a vCPU, and stays one.
        let mut vcpus = self.machine.vcpus.iter();
        if vcpus.all(|vcpu| self.machine.noted.contains_key(&vcpu.tid)) {
            return;
        }
        self.machine = self.machine.afresh();
        self.vcpus.clear();
        self.rivals.forget_waits();
        self.servers.forget();
        let with_returns = self.boosts.with_returns;
        self.boosts = Boosts::default();
        self.boosts.with_returns = with_returns;
        self.calls = Calls::default();
    }

    fn note(&mut self, event: &Event<'_>) {
        let (first, last) = self.span_ns.unwrap_or((event.time_ns, event.time_ns));
        self.span_ns = Some((first.min(event.time_ns), last.max(event.time_ns)));
        if event.time_ns.saturating_add(STEP_NS) < last {
            self.rivals.before.is_over();
        }
        self.seen.count(event);
        if let Kind::Remedy(_) | Kind::Counted { .. } = event.kind {
            self.remedies.event(event);
        }
    }

    /// Whether the trace has all wake-ups of vCPUs and all switches, but for lost ones: those that
    /// a filter on threads would hide are there.
    fn shows_wakeups(&self) -> bool {
        let (_, beside) = self.switches;
        let of_vcpus = self.woken_by_others || (self.rivals.before.whole && self.seen.wakeup > 0);
        of_vcpus && self.left_idle && beside > 0 && self.seen.placeless == 0
    }

    /// The trace is over.
    pub fn finish(&mut self) {
        self.machine.join_parts();
        self.boosts.finish();
        self.shootdowns.finish();
        let end_ns = self.span_ns.map_or(0, |(_, last_ns)| last_ns);
        let shows_wakeups = self.shows_wakeups();
        for (id, wait) in self.rivals.finish(end_ns, shows_wakeups) {
            self.vcpus[id].preempt.waited(&wait);
        }
        for (id, (vcpu, thread)) in self.vcpus.iter_mut().zip(&self.machine.vcpus).enumerate() {
            vcpu.preempt.freed(end_ns, thread);
            add(&mut vcpu.slept_ns, vcpu.asleep.finish(end_ns));
            let not_own_ns = vcpu.not_own_ns(self.rivals.ready_ns(id));
            vcpu.details.finish(end_ns, not_own_ns);
            vcpu.exits.finish();
            vcpu.pauses.finish();
        }
    }
}
