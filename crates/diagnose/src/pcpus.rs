// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What each pCPU runs, as far as it is known: every record of a pCPU shows its thread.
//!
//! A switch of threads says who comes. Any other record proves that its thread runs on its pCPU; if
//! another was thought to, the switch between them is not in the trace. After a loss nothing is
//! known of a pCPU until its next record.
//!
//! Left out: pCPUs beyond the first 8192, which share one place of which nothing is known.

use steady_events::{Event, Kind, Task};

use crate::analysis::NO_CPU;
use crate::machine::VcpuId;
use crate::spread::add;

/// pCPUs that are followed.
const MOST_PCPUS: usize = 8192;
/// Where no pCPU has a record for longer, the host itself may have stood still, in nanoseconds;
/// where one has none, its records may be lost.
pub const QUIET_NS: u64 = 100_000_000;
/// While a thread is switched out, what the kernel traces is still that thread's for this long, in
/// nanoseconds.
const TAIL_NS: u64 = 100_000;

/// One pCPU.
#[derive(Debug, Default)]
pub struct Pcpu {
    /// The thread that it runs; 0 is its idle task; `None` if it is not known.
    pub running: Option<i32>,
    /// Name of that thread.
    pub comm: Vec<u8>,
    /// Its priority, if it is known.
    pub prio: Option<u8>,
    /// vCPUs that wait on its queue.
    pub waiting: Vec<VcpuId>,
    /// When its first and its last record were.
    pub seen_ns: Option<(u64, u64)>,
    /// Its last time of [`QUIET_NS`] and more without a record: up to when, and for how long.
    pub quiet: (u64, u64),
    /// For how long it was idle, up to its last change.
    pub idle_ns: u64,
    idle_since_ns: u64,
    /// Who was switched out last, and when.
    left: Option<(i32, u64)>,
    /// The last switch: when, from which thread, and to which.
    switched: Option<(u64, i32, i32)>,
    irq_depth: u32,
    irq_since_ns: u64,
    irq_total_ns: u64,
    /// Whether it is among [`Pcpus::changed`].
    is_changed: bool,
}

impl Pcpu {
    /// How long it served interrupts, up to now.
    #[must_use]
    pub fn irq_until(&self, now_ns: u64) -> u64 {
        let open = match self.irq_depth {
            0 => 0,
            _ => now_ns.saturating_sub(self.irq_since_ns),
        };
        self.irq_total_ns.saturating_add(open)
    }

    fn last_ns(&self, now_ns: u64) -> u64 {
        self.seen_ns.map_or(now_ns, |(_, last_ns)| last_ns)
    }

    fn is_tail(&self, event: &Event<'_>) -> bool {
        let at_work = matches!(
            event.kind,
            Kind::Switch { .. } | Kind::Entry { .. } | Kind::Exit { .. } | Kind::UserExit { .. }
        );
        let left = self.left.filter(|&(tid, _)| tid == event.tid);
        !at_work && left.is_some_and(|(_, at)| event.time_ns.saturating_sub(at) < TAIL_NS)
    }
}

/// All of them.
#[derive(Debug, Default)]
pub struct Pcpus {
    list: Vec<Pcpu>,
    /// Events of more pCPUs than are followed, and of none.
    beyond: Pcpu,
    /// How many are idle, since when there is one, and for how long there was before.
    idle: usize,
    idle_since_ns: u64,
    idle_total_ns: u64,
    changed: Vec<u32>,
    /// The latest first record of any.
    pub begun_ns: Option<u64>,
}

impl Pcpus {
    /// A pCPU.
    pub fn of(&mut self, cpu: u32) -> &mut Pcpu {
        match usize::try_from(cpu) {
            Ok(at) if at < MOST_PCPUS => {
                if self.list.len() <= at {
                    self.list.resize_with(at + 1, Pcpu::default);
                }
                &mut self.list[at]
            }
            _ => &mut self.beyond,
        }
    }

    /// What runs or waits on a pCPU may be another now.
    pub fn changes(&mut self, cpu: u32) -> &mut Pcpu {
        if !std::mem::replace(&mut self.of(cpu).is_changed, true) {
            self.changed.push(cpu);
        }
        self.of(cpu)
    }

    /// Whether [`Self::changed`] has any.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// A pCPU that changed since it was given here last.
    pub fn changed(&mut self) -> Option<u32> {
        let cpu = self.changed.pop()?;
        self.of(cpu).is_changed = false;
        Some(cpu)
    }

    /// A pCPU, if any record was its.
    #[must_use]
    pub fn get(&self, cpu: u32) -> Option<&Pcpu> {
        self.list.get(usize::try_from(cpu).ok()?)
    }

    /// Those of which there are records.
    pub fn seen(&self) -> impl Iterator<Item = &Pcpu> {
        self.list.iter().filter(|pcpu| pcpu.seen_ns.is_some())
    }

    /// All numbers, with the place of those beyond.
    pub fn numbers(&self) -> impl Iterator<Item = u32> + use<> {
        let count = u32::try_from(self.list.len()).unwrap_or(0);
        (0..count).chain([NO_CPU])
    }

    /// Notes that the event's pCPU has a record. If it proves that another thread runs than was
    /// thought, gives the time of the record before, and whether it is the first.
    #[inline]
    pub fn proves(&mut self, event: &Event<'_>) -> Option<(u64, bool)> {
        if event.cpu == NO_CPU || event.tid < 0 {
            return None;
        }
        let pcpu = self.of(event.cpu);
        let before_ns = pcpu.last_ns(event.time_ns);
        let is_first = pcpu.seen_ns.is_none();
        let first_ns = pcpu.seen_ns.map_or(event.time_ns, |(first_ns, _)| first_ns);
        pcpu.seen_ns = Some((first_ns, event.time_ns));
        if is_first {
            self.begun_ns = self.begun_ns.max(Some(event.time_ns));
        }
        let pcpu = self.of(event.cpu);
        let quiet_ns = event.time_ns.saturating_sub(before_ns);
        if quiet_ns >= QUIET_NS {
            pcpu.quiet = (event.time_ns, quiet_ns);
        }
        let tid = match event.kind {
            Kind::Switch { prev, .. } => prev.tid,
            // Some formats show a wake-up without who made it.
            Kind::Wakeup { .. } | Kind::Waking { .. } | Kind::Migrate { .. } => return None,
            _ => event.tid,
        };
        if pcpu.running == Some(tid) || pcpu.is_tail(event) {
            return None;
        }
        Some((before_ns, is_first))
    }

    /// Whether a switch is the one before again, as where a paste has its lines twice.
    #[inline]
    pub fn repeats(&mut self, event: &Event<'_>) -> bool {
        let Kind::Switch { prev, next, .. } = event.kind else {
            return false;
        };
        let switch = Some((event.time_ns, prev.tid, next.tid));
        event.cpu != NO_CPU && std::mem::replace(&mut self.of(event.cpu).switched, switch) == switch
    }

    /// When the last record of a pCPU was before now.
    pub fn last_ns(&mut self, cpu: u32, now_ns: u64) -> u64 {
        self.of(cpu).last_ns(now_ns)
    }

    /// The thread that a pCPU runs has this name and priority by now.
    pub fn is_now(&mut self, cpu: u32, task: Task<'_>) {
        let pcpu = self.of(cpu);
        if pcpu.running == Some(task.tid) && !task.comm.is_empty() {
            pcpu.comm.clear();
            pcpu.comm.extend_from_slice(task.comm);
            pcpu.prio = task.prio.or(pcpu.prio);
        }
    }

    /// A pCPU switches: an interrupt ends before that. Of one whose end the trace does not show,
    /// how long it took is not known.
    pub fn switches(&mut self, cpu: u32) {
        self.of(cpu).irq_depth = 0;
    }

    /// A pCPU runs a thread from now on.
    pub fn runs(&mut self, cpu: u32, task: Task<'_>, now_ns: u64) {
        // What ran on a pCPU cannot be said where the trace does not show which it was.
        if cpu == NO_CPU || usize::try_from(cpu).is_ok_and(|at| at >= MOST_PCPUS) {
            return;
        }
        let pcpu = self.changes(cpu);
        pcpu.irq_depth = 0;
        if pcpu.running == Some(task.tid) {
            pcpu.prio = task.prio.or(pcpu.prio);
            return;
        }
        let was = pcpu.running.replace(task.tid);
        pcpu.left = was.map(|tid| (tid, now_ns));
        pcpu.comm.clear();
        pcpu.comm.extend_from_slice(task.comm);
        pcpu.prio = task.prio;
        self.idles(cpu, was == Some(0), task.tid == 0, now_ns);
    }

    /// Nothing is known of a pCPU any more, from a time on.
    pub fn forget(&mut self, cpu: u32, from_ns: u64) {
        let pcpu = self.changes(cpu);
        pcpu.irq_total_ns = pcpu.irq_until(from_ns);
        pcpu.irq_depth = 0;
        pcpu.left = None;
        let was_idle = pcpu.running.take() == Some(0);
        self.idles(cpu, was_idle, false, from_ns);
    }

    fn idles(&mut self, cpu: u32, was: bool, is: bool, now_ns: u64) {
        let until_ns = self.idle_until(now_ns);
        let pcpu = self.of(cpu);
        match (was, is) {
            (false, true) => {
                pcpu.idle_since_ns = now_ns;
                if self.idle == 0 {
                    self.idle_since_ns = now_ns;
                }
                self.idle += 1;
                assert!(self.idle <= self.list.len() + 1, "each pCPU idles once");
            }
            (true, false) => {
                let idle_ns = now_ns.saturating_sub(pcpu.idle_since_ns);
                add(&mut pcpu.idle_ns, idle_ns);
                assert!(self.idle > 0, "it was idle");
                self.idle_total_ns = until_ns;
                self.idle_since_ns = now_ns;
                self.idle -= 1;
            }
            _ => {}
        }
    }

    /// For how long any pCPU has been idle, up to now.
    #[must_use]
    pub fn idle_until(&self, now_ns: u64) -> u64 {
        let open = match self.idle {
            0 => 0,
            _ => now_ns.saturating_sub(self.idle_since_ns),
        };
        self.idle_total_ns.saturating_add(open)
    }

    /// The trace is over: what is idle was so up to now.
    pub fn finish(&mut self, now_ns: u64) {
        for pcpu in self.list.iter_mut().filter(|pcpu| pcpu.running == Some(0)) {
            let idle_ns = now_ns.saturating_sub(pcpu.idle_since_ns);
            add(&mut pcpu.idle_ns, idle_ns);
            pcpu.idle_since_ns = now_ns;
        }
    }

    /// An interrupt of the host begins or ends on a pCPU.
    pub fn irq(&mut self, cpu: u32, begins: bool, now_ns: u64) {
        let pcpu = self.of(cpu);
        if begins {
            if pcpu.irq_depth == 0 {
                pcpu.irq_since_ns = now_ns;
            }
            pcpu.irq_depth = pcpu.irq_depth.saturating_add(1);
        } else if pcpu.irq_depth > 0 {
            if pcpu.irq_depth == 1 {
                pcpu.irq_total_ns = pcpu.irq_until(now_ns);
            }
            pcpu.irq_depth -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use steady_events::{Gap, TaskState};

    fn event(time_ns: u64, tid: i32, kind: Kind<'static>) -> Event<'static> {
        Event {
            time_ns,
            cpu: 0,
            tid,
            comm: b"x",
            process: 0,
            gap: Gap::None,
            kind,
        }
    }

    fn task(tid: i32) -> Task<'static> {
        let (comm, prio) = (b"x".as_slice(), None);
        Task { tid, comm, prio }
    }

    #[test]
    fn any_record_of_another_thread_proves_an_unseen_switch() {
        let mut pcpus = Pcpus::default();
        pcpus.runs(0, task(7), 100);
        assert_eq!(pcpus.proves(&event(200, 7, Kind::Other)), None);
        let entry = Kind::Entry { vcpu: None };
        assert_eq!(pcpus.proves(&event(300, 8, entry)), Some((200, false)));
    }

    #[test]
    fn what_is_traced_while_a_thread_is_switched_out_proves_nothing() {
        let mut pcpus = Pcpus::default();
        pcpus.runs(0, task(7), 100);
        let switch = Kind::Switch {
            prev: task(7),
            state: TaskState::Runnable,
            next: task(8),
        };
        assert_eq!(pcpus.proves(&event(200, 7, switch)), None);
        pcpus.runs(0, task(8), 200);
        assert_eq!(pcpus.proves(&event(210, 7, Kind::Other)), None);
        let later = 200 + TAIL_NS;
        assert_eq!(
            pcpus.proves(&event(later, 7, Kind::Other)),
            Some((210, false))
        );
    }

    #[test]
    fn a_pcpu_is_idle_until_nothing_is_known_of_it() {
        let mut pcpus = Pcpus::default();
        pcpus.runs(0, task(0), 100);
        pcpus.forget(0, 150);
        pcpus.finish(1000);
        let idle = pcpus.get(0).map(|pcpu| pcpu.idle_ns);
        assert_eq!((idle, pcpus.idle_until(1000)), (Some(50), 50));
    }
}
