// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who ran instead: what the pCPU of a vCPU did while the vCPU was ready and did not run.
//!
//! A wait begins where a vCPU's thread is switched out runnable or is woken, and ends where any
//! record shows it running. What lies in a loss is not counted, but stands apart. A wait's time is
//! divided by the thread that its pCPU ran, without the interrupts that ran on top of that; beside
//! it stands how long another pCPU was idle meanwhile. A pCPU that idles though a vCPU that was
//! descheduled is on its queue is kept from it by a limit (`cpu.max`): nothing else makes the
//! scheduler of Linux idle then. After a wake-up some idle time is that of waking the pCPU itself.
//!
//! Left out: which threads the scheduler could have moved; core scheduling, which also idles.

use steady_events::{Event, Task};

use crate::before::Before;
use crate::machine::{Machine, VcpuId};
use crate::names::Names;
use crate::pcpus::{Pcpus, QUIET_NS};
use crate::placement::Placement;
use crate::role::{Role, role_of};
use crate::spread::{add, total};
use crate::waits::{Ended, MOST_THREADS, Open, Rival, Waits, beyond};

/// Whether the scheduler takes a thread off its pCPU long before [`QUIET_NS`] where a vCPU of this
/// priority is ready: a program of the fair class whose weight is not more. Threads of the kernel
/// need not let go of theirs.
fn is_preempted(comm: &[u8], prio: Option<u8>, own: Option<u8>) -> bool {
    let name = String::from_utf8_lossy(comm);
    let stem = name.split('/').next().unwrap_or(&name);
    let of_kernel = [stem, &name].map(role_of);
    let of_kernel = of_kernel.iter().any(|role| matches!(role, Role::Kernel(_)));
    let fair = 100..140;
    let both = prio.zip(own.or(Some(120)));
    !of_kernel
        && both
            .is_some_and(|(prio, own)| fair.contains(&prio) && fair.contains(&own) && prio >= own)
}

/// What a pCPU runs.
fn rival_on(pcpus: &mut Pcpus, names: &mut Names, cpu: u32) -> Rival {
    let pcpu = pcpus.of(cpu);
    match pcpu.running {
        None => Rival::Unknown,
        // Which of the two it is shows when the wait is over.
        Some(0) => Rival::Limit,
        Some(tid) => Rival::Thread(names.who(Task {
            tid,
            comm: &pcpu.comm,
            prio: pcpu.prio,
        })),
    }
}

/// Divides a wait up to now, of a thread of this priority, by what its pCPU ran since the last
/// time.
pub fn divide(
    open: &mut Open,
    own: Option<u8>,
    (pcpus, names): (&mut Pcpus, &mut Names),
    now_ns: u64,
    assumed: bool,
) {
    let host_idle_ns = pcpus.idle_until(now_ns);
    let rival = rival_on(pcpus, names, open.cpu);
    let pcpu = pcpus.of(open.cpu);
    let (quiet_upto_ns, quiet_ns) = pcpu.quiet;
    // It is not over before this record. Only then is the name asked about.
    let is_quiet = quiet_upto_ns == now_ns
        && matches!(rival, Rival::Thread(_))
        && is_preempted(&pcpu.comm, pcpu.prio, own);
    if is_quiet {
        let quiet_ns = quiet_ns.min(now_ns.saturating_sub(open.upto_ns));
        open.silent_ns = open.silent_ns.max(quiet_ns);
    }
    let took_ns = now_ns.saturating_sub(open.upto_ns);
    let irq_ns = pcpu.irq_until(now_ns);
    let in_irq_ns = irq_ns.saturating_sub(open.irq_ns).min(took_ns);
    let idle_ns = host_idle_ns.saturating_sub(open.idle_ns).min(took_ns);
    (open.irq_ns, open.idle_ns) = (irq_ns, host_idle_ns);
    open.upto_ns = open.upto_ns.max(now_ns);
    if rival != Rival::Limit {
        add(&mut open.elsewhere_idle_ns, idle_ns);
    }
    if assumed {
        add(&mut open.assumed_ns, took_ns - in_irq_ns);
    }
    for (rival, ns) in [(rival, took_ns - in_irq_ns), (Rival::Interrupts, in_irq_ns)] {
        if ns == 0 {
            continue;
        }
        let known = open.by.iter().position(|(known, _)| *known == rival);
        match known {
            None if open.by.len() < MOST_THREADS => open.by.push((rival, ns)),
            None => {
                let known = open.by.iter().map(|(known, _)| *known);
                let rival = beyond(names, rival, known);
                match open.by.iter_mut().find(|(known, _)| *known == rival) {
                    Some((_, sum)) => add(sum, ns),
                    None => open.by.push((rival, ns)),
                }
            }
            Some(at) => add(&mut open.by[at].1, ns),
        }
    }
}

/// Follows the waits of all vCPUs.
#[derive(Debug, Default)]
pub struct Rivals {
    /// By vCPU.
    pub waits: Vec<Waits>,
    /// What pCPUs run.
    pub pcpus: Pcpus,
    /// What another placement of vCPUs would have given.
    pub placement: Placement,
    /// What threads were called when they ran in a vCPU's place.
    pub names: Names,
    /// Waits that began before the trace did.
    pub before: Before,
    settled_ns: u64,
}

impl Rivals {
    /// Makes room for vCPUs.
    pub fn grow(&mut self, vcpus: usize) {
        if self.waits.len() < vcpus {
            self.waits.resize_with(vcpus, Waits::default);
        }
    }

    /// How long a vCPU did not run though it was ready, or may have been, up to now.
    #[must_use]
    pub fn ready_ns(&self, id: VcpuId) -> u64 {
        let of = |waits: &Waits| total([waits.total_ns, waits.unknown_ns]);
        self.waits.get(id).map_or(0, of)
    }

    /// vCPUs get new numbers: the waits of those before are of no vCPU.
    pub fn forget_waits(&mut self) {
        self.waits.clear();
        self.placement.forget();
        for cpu in self.pcpus.numbers() {
            self.pcpus.changes(cpu).waiting.clear();
        }
    }

    /// Time goes on: what changed on pCPUs up to now holds from then on.
    pub fn settle(&mut self, machine: &Machine, now_ns: u64) {
        let quiet_ns = now_ns.saturating_sub(self.settled_ns);
        self.settled_ns = now_ns;
        if quiet_ns >= QUIET_NS {
            let open = self
                .waits
                .iter_mut()
                .filter_map(|waits| waits.open.as_mut());
            open.for_each(|open| open.quiet_ns = open.quiet_ns.max(quiet_ns));
            self.before.is_quiet(quiet_ns);
        }
        self.placement.settle(&mut self.pcpus, machine, now_ns);
    }

    /// The trace is over: waits that go on count up to here, and those that began before it, if it
    /// `shows_wakeups`. Gives them.
    pub fn finish(&mut self, now_ns: u64, shows_wakeups: bool) -> Vec<(VcpuId, Ended)> {
        let ids = 0..self.waits.len();
        let ended = ids.clone();
        let ended = ended.filter_map(|id| Some((id, self.end(id, now_ns, true)?)));
        let mut ended: Vec<(VcpuId, Ended)> = ended.collect();
        let begun_ns = self.pcpus.begun_ns;
        ended.extend(ids.filter_map(|id| {
            let open = self.waits[id].from_begin.take()?;
            let is_one = shows_wakeups && self.before.is_known(&open, begun_ns);
            is_one.then(|| (id, self.waits[id].close(open, &self.names)))
        }));
        for waits in &mut self.waits {
            waits.known(now_ns);
            waits.stops(now_ns);
        }
        self.pcpus.finish(now_ns);
        self.placement.finish(now_ns);
        self.check();
        ended
    }

    /// One time, however it is divided.
    ///
    /// # Panics
    /// If the waits by who ran, or by how they began, are not all waits.
    pub fn check(&self) {
        for waits in self.waits.iter().filter(|waits| waits.total_ns < u64::MAX) {
            let by = total(waits.by.values().copied());
            assert_eq!(by, waits.total_ns, "somebody ran in all of a wait");
            let kinds = total([waits.descheduled_ns, waits.woken_ns]);
            assert_eq!(kinds, waits.total_ns, "a wait began in one of two ways");
            let parts = [waits.assumed_ns, waits.shown_ns, waits.idled_ns];
            let whole = waits.total_ns;
            assert!(waits.doubted_ns <= whole, "a part of the waits");
            assert!(parts.iter().all(|&ns| ns <= whole), "parts of the waits");
        }
    }

    /// A vCPU runs on a pCPU from now on; gives the wait that this ends.
    pub fn starts(&mut self, id: VcpuId, cpu: u32, now_ns: u64) -> Option<Ended> {
        // What went on where it waited up to now, no record there shows.
        let elsewhere = self.waits[id]
            .open
            .as_ref()
            .is_some_and(|open| open.cpu != cpu);
        let ended = self.end(id, now_ns, elsewhere);
        self.pcpus.changes(cpu);
        let waits = &mut self.waits[id];
        waits.known(now_ns);
        waits.ran_since_ns.get_or_insert(now_ns);
        if waits.ran_on.len() < 8 {
            waits.ran_on.insert(cpu);
        }
        ended
    }

    /// A thread leaves a pCPU by itself, and `next` runs: a vCPU that waits there, or another in
    /// its place.
    pub fn leaves(&mut self, cpu: u32, tid: i32, next: i32, next_vcpu: Option<VcpuId>) {
        for at in 0..self.pcpus.of(cpu).waiting.len() {
            let id = self.pcpus.of(cpu).waiting[at];
            let Some(open) = &mut self.waits[id].open else {
                continue;
            };
            if Some(id) == next_vcpu {
                open.left = Some(tid);
            } else {
                // One that was interrupted goes on first.
                open.passed_over |= !open.by.iter().any(|(rival, _)| rival.is_thread(next));
            }
        }
    }

    /// A vCPU's thread has this priority.
    pub fn has(&mut self, id: VcpuId, prio: Option<u8>) {
        self.waits[id].prio = self.waits[id].prio.max(prio);
    }

    /// A vCPU left its pCPU since this time, and no record shows how: it may wait.
    pub fn left(&mut self, id: VcpuId, since_ns: u64) {
        let waits = &mut self.waits[id];
        if waits.open.is_none() {
            waits.unknown_since_ns.get_or_insert(since_ns);
        }
    }

    /// A vCPU runs no longer.
    pub fn stops(&mut self, id: VcpuId, now_ns: u64) {
        self.waits[id].known(now_ns);
        self.waits[id].stops(now_ns);
    }

    /// A vCPU begins to wait on a pCPU's queue.
    pub fn begin(&mut self, id: VcpuId, cpu: u32, now_ns: u64, woken: bool) {
        self.waits[id].known(now_ns);
        if self.waits[id].open.is_some() {
            return;
        }
        let idle_ns = self.pcpus.idle_until(now_ns);
        let pcpu = self.pcpus.changes(cpu);
        pcpu.waiting.push(id);
        let irq_ns = pcpu.irq_until(now_ns);
        self.waits[id].open = Some(Open {
            woken,
            ..Open::new(cpu, now_ns, irq_ns, idle_ns)
        });
    }

    /// A record, which may be where all of the trace begins. Its pCPU is known to have it.
    #[inline]
    pub fn begins(&mut self, event: &Event<'_>) {
        self.before.event(event, &self.pcpus);
    }

    /// A thread comes to run on a pCPU, and is named for the first time: it may have waited for
    /// that since the trace's begin, up to `until_ns`. `is_named` says that it is named like a
    /// vCPU.
    pub fn comes(&mut self, cpu: u32, tid: i32, until_ns: u64, is_named: bool) {
        let (pcpus, names) = (&mut self.pcpus, &mut self.names);
        if self.before.names(tid) && tid > 0 {
            self.before.divide(cpu, until_ns, pcpus, names);
            self.before.comes(cpu, tid, is_named);
        }
    }

    /// The thread of the event is this vCPU's: it waited since the trace's begin, if it came first
    /// on this turn.
    #[inline]
    pub fn is_vcpu(&mut self, id: VcpuId, event: &Event<'_>) {
        if let Some(open) = self.before.of_vcpu(event) {
            self.waits[id].from_begin.get_or_insert(open);
        }
    }

    /// Divides what waits on a pCPU, before another thread runs there. `assumed` says that no
    /// record shows how long the thread before it ran.
    pub fn divide_on(&mut self, cpu: u32, now_ns: u64, assumed: bool) {
        for at in 0..self.pcpus.of(cpu).waiting.len() {
            let id = self.pcpus.of(cpu).waiting[at];
            self.divide(id, now_ns, assumed);
        }
        let (pcpus, names) = (&mut self.pcpus, &mut self.names);
        self.before.divide(cpu, now_ns, pcpus, names);
    }

    /// A pCPU runs a thread from now on.
    pub fn is_running(&mut self, cpu: u32, task: Task<'_>, now_ns: u64) {
        self.pcpus.runs(cpu, task, now_ns);
    }

    /// Of a pCPU nothing is known since its last record: waits on its queue end there. Gives them.
    pub fn lost(&mut self, cpu: u32, now_ns: u64) -> Vec<(VcpuId, Option<Ended>)> {
        let since_ns = self.pcpus.last_ns(cpu, now_ns);
        let rival = rival_on(&mut self.pcpus, &mut self.names, cpu);
        let waiting = std::mem::take(&mut self.pcpus.of(cpu).waiting);
        let cut = waiting.into_iter().map(|id| {
            let begin_ns = self.waits[id].open.as_ref().map(|open| open.begin_ns);
            let ended = self.end(id, since_ns, false);
            let since_ns = begin_ns.map(|begin_ns| begin_ns.max(since_ns));
            self.waits[id].unknown_since_ns = since_ns;
            self.waits[id].lost_since = since_ns.map(|since_ns| (since_ns, cpu, rival));
            (id, ended)
        });
        let cut = cut.collect();
        self.pcpus.forget(cpu, since_ns);
        cut
    }

    /// A pCPU lost events since a time: who waits elsewhere may have run there meanwhile.
    pub fn doubt(&mut self, cpu: u32, since_ns: u64, now_ns: u64) {
        let open = self.waits.iter_mut().filter_map(|of| of.open.as_mut());
        for open in open.filter(|open| open.cpu != cpu) {
            let lost_ns = now_ns.saturating_sub(open.doubted_upto_ns.max(since_ns));
            add(&mut open.doubted_ns, lost_ns);
            open.doubted_upto_ns = open.doubted_upto_ns.max(now_ns);
        }
    }

    /// A vCPU that was seen waiting elsewhere is met on this pCPU, of which this is the first
    /// record, or the first after a loss: since when it runs here is not known, and neither is how
    /// long it waited.
    pub fn met(&mut self, id: VcpuId, cpu: u32) {
        let Some(open) = self.waits[id].open.take_if(|open| open.cpu != cpu) else {
            return;
        };
        assert_ne!(open.cpu, cpu, "it waited elsewhere");
        let waiting = &mut self.pcpus.changes(open.cpu).waiting;
        waiting.retain(|&waits| waits != id);
        self.waits[id].unknown_since_ns = Some(open.begin_ns);
    }

    /// A waiting vCPU moves to another pCPU's queue.
    pub fn moved(&mut self, id: VcpuId, to: u32, now_ns: u64) {
        self.divide(id, now_ns, false);
        let Some(from) = self.waits[id].open.as_ref().map(|open| open.cpu) else {
            return;
        };
        let pcpu = self.pcpus.changes(to);
        pcpu.waiting.push(id);
        let irq_ns = pcpu.irq_until(now_ns);
        let waiting = &mut self.pcpus.changes(from).waiting;
        // Of two entries, where it moves to where it is, one goes.
        if let Some(at) = waiting.iter().position(|&waits| waits == id) {
            waiting.swap_remove(at);
        }
        if let Some(open) = &mut self.waits[id].open {
            (open.cpu, open.irq_ns) = (to, irq_ns);
        }
    }

    /// An interrupt of the host begins or ends.
    pub fn irq(&mut self, event: &Event<'_>, begins: bool) {
        self.pcpus.irq(event.cpu, begins, event.time_ns);
    }

    /// Divides a wait up to now by what its pCPU ran since the last time.
    fn divide(&mut self, id: VcpuId, now_ns: u64, assumed: bool) {
        let waits = &mut self.waits[id];
        let own = waits.prio;
        if let Some(open) = &mut waits.open {
            divide(
                open,
                own,
                (&mut self.pcpus, &mut self.names),
                now_ns,
                assumed,
            );
        }
    }

    fn end(&mut self, id: VcpuId, now_ns: u64, assumed: bool) -> Option<Ended> {
        self.divide(id, now_ns, assumed);
        let open = self.waits[id].open.take()?;
        let waiting = &mut self.pcpus.changes(open.cpu).waiting;
        waiting.retain(|&waits| waits != id);
        Some(self.waits[id].close(open, &self.names))
    }
}
