// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who ran instead: what the pCPU of a vCPU did while the vCPU was ready and did not run.
//!
//! A wait begins where a vCPU's thread is switched out runnable or is woken, and ends with its
//! turn. Its time is divided by the thread that its pCPU ran, without the interrupts that ran on
//! top of that; beside it stands how long another pCPU was idle meanwhile. A pCPU that idles though
//! a vCPU that was descheduled is on its queue is kept from it by a limit (`cpu.max`): nothing else
//! makes the scheduler of Linux idle then. After a wake-up some idle time is that of waking the
//! pCPU itself.
//!
//! Left out: which threads the scheduler could have moved; core scheduling, which also idles.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use steady_events::{Event, Kind, Task, TaskState};

use crate::analysis::NO_CPU;
use crate::machine::{Machine, State, VcpuId};
use crate::spread::add;

/// pCPUs that are told apart; events of others count as those of an unknown one.
const MOST_PCPUS: usize = 8192;
/// Threads that are told apart in one vCPU's waits.
const MOST_THREADS: usize = 128;
/// Threads whose names are kept.
const MOST_NAMES: usize = 65_536;
/// The longest waits of each vCPU that are kept.
const MOST_STALLS: usize = 16;
/// A woken vCPU whose pCPU idles for longer is not waiting for the pCPU to wake.
const WAKING_NS: u64 = 1_000_000;

/// What a pCPU did in the place of a vCPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rival {
    /// It ran this thread.
    Thread(i32),
    /// It served interrupts, or what they had deferred.
    Interrupts,
    /// It was idle, though the vCPU was on its queue and had been descheduled.
    Limit,
    /// It was idle and had to wake first.
    Waking,
    /// The trace does not tell yet what it ran.
    Unknown,
}

/// One wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// When it began.
    pub begin_ns: u64,
    /// How long it was.
    pub length_ns: u64,
    /// The pCPU on whose queue it ended.
    pub cpu: u32,
    /// Who ran for most of it.
    pub rival: Rival,
}

/// A wait that goes on.
#[derive(Debug)]
struct Open {
    begin_ns: u64,
    cpu: u32,
    woken: bool,
    /// Up to when it is divided, and the pCPU's and the host's clocks then.
    upto_ns: u64,
    irq_ns: u64,
    idle_ns: u64,
    by: Vec<(Rival, u64)>,
}

/// The waits of one vCPU.
#[derive(Debug, Default)]
pub struct Waits {
    /// All of them, in nanoseconds.
    pub total_ns: u64,
    /// By who ran.
    pub by: BTreeMap<Rival, u64>,
    /// While its own pCPU was busy and another was idle.
    pub elsewhere_idle_ns: u64,
    /// pCPUs that it ran on; the first few.
    pub ran_on: BTreeSet<u32>,
    /// The longest waits, longest first.
    pub worst: Vec<Stall>,
    open: Option<Open>,
}

/// One pCPU.
#[derive(Debug, Default)]
struct Pcpu {
    running: Option<i32>,
    comm: Vec<u8>,
    irq_depth: u32,
    irq_since_ns: u64,
    irq_total_ns: u64,
    waiting: Vec<VcpuId>,
}

impl Pcpu {
    fn irq_until(&self, now_ns: u64) -> u64 {
        let open = match self.irq_depth {
            0 => 0,
            _ => now_ns.saturating_sub(self.irq_since_ns),
        };
        self.irq_total_ns.saturating_add(open)
    }
}

/// Follows the waits of all vCPUs.
#[derive(Debug, Default)]
pub struct Rivals {
    /// By vCPU.
    pub waits: Vec<Waits>,
    pcpus: HashMap<u32, Pcpu>,
    names: HashMap<i32, String>,
    /// How many pCPUs are idle, since when there is one, and for how long there was before.
    idle_pcpus: usize,
    idle_since_ns: u64,
    idle_total_ns: u64,
}

impl Rivals {
    /// An event that the machine has not applied yet.
    pub fn event(&mut self, event: &Event<'_>, machine: &Machine) {
        if self.waits.len() < machine.vcpus.len() {
            self.waits.resize_with(machine.vcpus.len(), Waits::default);
        }
        self.idles_if_untold(event);
        match event.kind {
            Kind::Switch { prev, state, next } => self.switch(event, prev, state, next, machine),
            Kind::Wakeup { tid, cpu } => {
                let sleeper = machine.of_tid(tid).filter(|&id| {
                    matches!(machine.vcpus[id].state, State::Blocked | State::Unknown)
                });
                if let Some(id) = sleeper {
                    self.begin(id, cpu, event.time_ns, true);
                }
            }
            Kind::Migrate { tid, to } => {
                if let Some(id) = machine.of_tid(tid) {
                    self.moved(id, to, event.time_ns);
                }
            }
            Kind::HostIrq { begins, .. } => self.irq(event.cpu, begins, event.time_ns),
            _ => {}
        }
    }

    /// A pCPU that idles all the time switches to nobody: that its interrupts come in the idle task
    /// is what tells.
    fn idles_if_untold(&mut self, event: &Event<'_>) {
        if event.tid != 0 || event.cpu == NO_CPU {
            return;
        }
        let untold = self
            .pcpu(event.cpu)
            .is_some_and(|pcpu| pcpu.running.is_none());
        if untold {
            let (tid, comm) = (event.tid, event.comm);
            self.is_running(event.cpu, Task { tid, comm }, event.time_ns);
        }
    }

    /// How long a vCPU has been ready without running, up to now.
    #[must_use]
    pub fn ready_ns(&self, id: VcpuId) -> u64 {
        self.waits.get(id).map_or(0, |waits| waits.total_ns)
    }

    /// Name of a thread that ran in a vCPU's place.
    #[must_use]
    pub fn name(&self, tid: i32) -> &str {
        self.names.get(&tid).map_or("", String::as_str)
    }

    /// vCPUs are numbered anew: the waits of those before are nobody's.
    pub fn forget_waits(&mut self) {
        self.waits.clear();
        for pcpu in self.pcpus.values_mut() {
            pcpu.waiting.clear();
        }
    }

    /// The trace is over: waits that go on count up to here.
    pub fn finish(&mut self, now_ns: u64) {
        for id in 0..self.waits.len() {
            self.end(id, now_ns);
        }
    }

    fn pcpu(&mut self, cpu: u32) -> Option<&mut Pcpu> {
        if self.pcpus.len() >= MOST_PCPUS && !self.pcpus.contains_key(&cpu) {
            return None;
        }
        Some(self.pcpus.entry(cpu).or_default())
    }

    fn switch(
        &mut self,
        event: &Event<'_>,
        prev: Task<'_>,
        state: TaskState,
        next: Task<'_>,
        machine: &Machine,
    ) {
        let (cpu, now_ns) = (event.cpu, event.time_ns);
        // What ran until now is known by its leaving, also at the trace's first switch.
        self.is_running(cpu, prev, now_ns);
        let waiting = self.pcpu(cpu).map(|pcpu| pcpu.waiting.clone());
        for id in waiting.unwrap_or_default() {
            self.divide(id, now_ns);
        }
        if let Some(id) = machine.of_tid(next.tid) {
            self.end(id, now_ns);
            let ran_on = &mut self.waits[id].ran_on;
            if ran_on.len() < 8 {
                ran_on.insert(cpu);
            }
        }
        self.is_running(cpu, next, now_ns);
        if let Some(id) = machine.of_tid(prev.tid) {
            self.end(id, now_ns);
            if state == TaskState::Runnable {
                self.begin(id, cpu, now_ns, false);
            }
        }
    }

    fn is_running(&mut self, cpu: u32, task: Task<'_>, now_ns: u64) {
        // What ran on a pCPU cannot be said where the trace does not tell which it was.
        if cpu == NO_CPU {
            return;
        }
        let Some(pcpu) = self.pcpu(cpu) else { return };
        // An interrupt ends before a switch; of one whose end was lost this is the end.
        pcpu.irq_total_ns = pcpu.irq_until(now_ns);
        pcpu.irq_depth = 0;
        if pcpu.running == Some(task.tid) {
            return;
        }
        let was_idle = pcpu.running == Some(0);
        pcpu.running = Some(task.tid);
        pcpu.comm.clear();
        pcpu.comm.extend_from_slice(task.comm);
        match (was_idle, task.tid == 0) {
            (false, true) => {
                if self.idle_pcpus == 0 {
                    self.idle_since_ns = now_ns;
                }
                self.idle_pcpus += 1;
            }
            (true, false) => {
                assert!(self.idle_pcpus > 0, "it was idle");
                self.idle_total_ns = self.idle_until(now_ns);
                self.idle_since_ns = now_ns;
                self.idle_pcpus -= 1;
            }
            _ => {}
        }
    }

    fn idle_until(&self, now_ns: u64) -> u64 {
        let open = match self.idle_pcpus {
            0 => 0,
            _ => now_ns.saturating_sub(self.idle_since_ns),
        };
        self.idle_total_ns.saturating_add(open)
    }

    fn irq(&mut self, cpu: u32, begins: bool, now_ns: u64) {
        let Some(pcpu) = self.pcpu(cpu) else { return };
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

    fn begin(&mut self, id: VcpuId, cpu: u32, now_ns: u64, woken: bool) {
        if self.waits[id].open.is_some() {
            return;
        }
        let idle_ns = self.idle_until(now_ns);
        let Some(pcpu) = self.pcpu(cpu) else { return };
        pcpu.waiting.push(id);
        let irq_ns = pcpu.irq_until(now_ns);
        self.waits[id].open = Some(Open {
            begin_ns: now_ns,
            cpu,
            woken,
            upto_ns: now_ns,
            irq_ns,
            idle_ns,
            by: Vec::new(),
        });
    }

    fn moved(&mut self, id: VcpuId, to: u32, now_ns: u64) {
        self.divide(id, now_ns);
        let Some(from) = self.waits[id].open.as_ref().map(|open| open.cpu) else {
            return;
        };
        let Some(pcpu) = self.pcpu(to) else { return };
        pcpu.waiting.push(id);
        let irq_ns = pcpu.irq_until(now_ns);
        if let Some(pcpu) = self.pcpu(from) {
            // Of two entries, where it moves to where it is, one goes.
            let at = pcpu.waiting.iter().position(|&waits| waits == id);
            at.map(|at| pcpu.waiting.swap_remove(at));
        }
        if let Some(open) = &mut self.waits[id].open {
            (open.cpu, open.irq_ns) = (to, irq_ns);
        }
    }

    /// Divides a wait up to now by what its pCPU ran since the last time.
    fn divide(&mut self, id: VcpuId, now_ns: u64) {
        let host_idle_ns = self.idle_until(now_ns);
        let waits = &mut self.waits[id];
        let Some(open) = &mut waits.open else { return };
        let Some(pcpu) = self.pcpus.get(&open.cpu) else {
            return;
        };
        let took_ns = now_ns.saturating_sub(open.upto_ns);
        let irq_ns = pcpu.irq_until(now_ns);
        let in_irq_ns = irq_ns.saturating_sub(open.irq_ns).min(took_ns);
        let idle_ns = host_idle_ns.saturating_sub(open.idle_ns).min(took_ns);
        (open.irq_ns, open.idle_ns) = (irq_ns, host_idle_ns);
        open.upto_ns = open.upto_ns.max(now_ns);
        let rival = match pcpu.running {
            None => Rival::Unknown,
            // Which of the two it is shows when the wait is over.
            Some(0) => Rival::Limit,
            Some(tid) => Rival::Thread(tid),
        };
        if rival != Rival::Limit {
            add(&mut waits.elsewhere_idle_ns, idle_ns);
        }
        for (rival, ns) in [(rival, took_ns - in_irq_ns), (Rival::Interrupts, in_irq_ns)] {
            if ns == 0 {
                continue;
            }
            let known = open.by.iter().position(|(known, _)| *known == rival);
            match known {
                None if open.by.len() < MOST_THREADS => open.by.push((rival, ns)),
                // Beyond the bound the first stands for all others.
                at => add(&mut open.by[at.unwrap_or(0)].1, ns),
            }
        }
        if let Rival::Thread(tid) = rival
            && self.names.len() < MOST_NAMES
            && !self.names.contains_key(&tid)
        {
            let name = String::from_utf8_lossy(&pcpu.comm).into_owned();
            self.names.insert(tid, name);
        }
    }

    fn end(&mut self, id: VcpuId, now_ns: u64) {
        self.divide(id, now_ns);
        let Some(open) = self.waits[id].open.take() else {
            return;
        };
        if let Some(pcpu) = self.pcpus.get_mut(&open.cpu) {
            pcpu.waiting.retain(|&waits| waits != id);
        }
        self.waits[id].close(open);
    }
}

impl Waits {
    fn close(&mut self, open: Open) {
        let length_ns = open.upto_ns.saturating_sub(open.begin_ns);
        let mut most = (Rival::Unknown, 0);
        for (rival, ns) in open.by {
            let rival = match rival {
                Rival::Limit if open.woken && ns < WAKING_NS => Rival::Waking,
                other => other,
            };
            if ns > most.1 {
                most = (rival, ns);
            }
            let known = self.by.contains_key(&rival);
            let into = if known || self.by.len() < MOST_THREADS {
                rival
            } else {
                Rival::Unknown
            };
            add(self.by.entry(into).or_default(), ns);
        }
        add(&mut self.total_ns, length_ns);
        let stall = Stall {
            begin_ns: open.begin_ns,
            length_ns,
            cpu: open.cpu,
            rival: most.0,
        };
        let at = self
            .worst
            .partition_point(|known| known.length_ns >= length_ns);
        if at < MOST_STALLS && length_ns > 0 {
            self.worst.insert(at, stall);
            self.worst.truncate(MOST_STALLS);
        }
        assert!(self.worst.len() <= MOST_STALLS, "memory stays bounded");
    }
}
