// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How far a VM would have come in the same time if no two of its vCPUs had been on one pCPU.
//!
//! Each vCPU has a clock of its own. It counts what the vCPU ran, and what it waited for strangers
//! while it had no sibling on its pCPU. Waits of siblings that were on one pCPU are left out. A
//! vCPU that a sibling woke goes on no earlier than the clock of that sibling was then; where
//! something else woke it, its sleep counts, up to the clock of the VM. The clock of the VM is that
//! of its foremost vCPU, and it goes on while all of them sleep. So the time of the trace by the
//! clock of the VM says how much sooner it would have been where it is.
//!
//! A vCPU that shares its pCPU with strangers has no more than its fair share of it. It may be
//! ahead of that by a lead, as the scheduler's lag lets it, and waits when the lead is used up.
//!
//! Left out: wakers of recordings without exits, which all count as something else; what a vCPU
//! spins without pause-loop exits; caches, weights and limits of groups.

mod world;

use crate::machine::{VcpuId, VmId};
use crate::model::Reach;
use crate::spread::add;

use super::MOST_PCPUS;
pub use world::ALL;
use world::{Front, Times, WORLDS, part, regained};

/// What a vCPU does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Unknown,
    Runs,
    Waits,
    Sleeps,
}

/// The clock of one vCPU.
#[derive(Debug, Clone, Default)]
struct Clock {
    vm: VmId,
    state: State,
    cpu: usize,
    /// Up to when it has counted, in the trace's time.
    since_ns: u64,
    at_ns: Times,
    lead_ns: Times,
    /// Whether its last exit was of a pause loop.
    paused: bool,
}

/// The clocks of all vCPUs and VMs.
#[derive(Debug, Default)]
pub struct Pace {
    vcpus: Vec<Clock>,
    vms: Vec<Option<Front>>,
    ended_ns: u64,
}

impl Pace {
    /// A vCPU of this VM is on a pCPU from now on.
    pub fn runs(&mut self, id: VcpuId, vm: VmId, cpu: u32, now_ns: u64) {
        let Some(cpu) = self.known(id, vm, cpu, now_ns) else {
            return;
        };
        match self.vcpus[id].state {
            State::Unknown | State::Sleeps => {
                self.wake(id, None, now_ns);
                self.enter(id, cpu, now_ns);
            }
            State::Runs | State::Waits if self.vcpus[id].cpu != cpu => {
                self.leave(id, now_ns);
                self.enter(id, cpu, now_ns);
            }
            State::Runs | State::Waits => self.count_on(self.vcpus[id].vm, cpu, now_ns),
        }
        self.vcpus[id].state = State::Runs;
    }

    /// It is switched out, ready or to sleep.
    pub fn stops(&mut self, id: VcpuId, is_ready: bool, now_ns: u64) {
        let Some(Clock { state, vm, cpu, .. }) = self.vcpus.get(id).cloned() else {
            return;
        };
        if !matches!(state, State::Runs | State::Waits) {
            return;
        }
        self.count_on(vm, cpu, now_ns);
        if is_ready {
            self.vcpus[id].state = State::Waits;
            return;
        }
        self.leave(id, now_ns);
        self.vcpus[id].state = State::Sleeps;
        if let Some(front) = &mut self.vms[vm] {
            front.awake -= 1;
            front.idle_since_ns = now_ns;
        }
    }

    /// It is woken, by a vCPU or by something else, and waits on a pCPU's queue.
    pub fn wakes(&mut self, id: VcpuId, vm: VmId, by: Option<VcpuId>, cpu: u32, now_ns: u64) {
        let Some(cpu) = self.known(id, vm, cpu, now_ns) else {
            return;
        };
        if matches!(self.vcpus[id].state, State::Unknown | State::Sleeps) {
            self.wake(id, by, now_ns);
            self.enter(id, cpu, now_ns);
            self.vcpus[id].state = State::Waits;
        }
    }

    /// It moves to another pCPU's queue.
    pub fn moves(&mut self, id: VcpuId, cpu: u32, now_ns: u64) {
        let Some(clock) = self.vcpus.get(id) else {
            return;
        };
        let Some(cpu) = place(cpu).filter(|&cpu| cpu != clock.cpu) else {
            return;
        };
        if matches!(clock.state, State::Runs | State::Waits) {
            self.leave(id, now_ns);
            self.enter(id, cpu, now_ns);
        }
    }

    /// It leaves its guest, from a pause loop or for something else.
    pub fn exits(&mut self, id: VcpuId, is_pause: bool, now_ns: u64) {
        let Some(clock) = self.vcpus.get(id) else {
            return;
        };
        if is_pause && clock.state == State::Runs {
            self.count(id, clock.paused, now_ns);
        }
        self.vcpus[id].paused = is_pause;
    }

    /// A vCPU of this VM has this share of a pCPU beside strangers, in parts of [`ALL`].
    pub fn shares(&mut self, vm: VmId, share: u64) {
        if let Some(Some(front)) = self.vms.get_mut(vm) {
            front.share = share.clamp(1, ALL);
        }
    }

    /// The trace is over.
    pub fn finish(&mut self, now_ns: u64) {
        self.ended_ns = now_ns;
        for id in 0..self.vcpus.len() {
            self.count(id, false, now_ns);
        }
        for front in self.vms.iter_mut().flatten() {
            front.idles(now_ns);
        }
    }

    /// How far a VM would have come; nothing of one without a vCPU.
    #[must_use]
    pub fn parted(&self, vm: VmId) -> Option<Reach> {
        let front = self.vms.get(vm)?.as_ref()?;
        self.reach(front, front.at_ns)
    }

    /// The same with its work on this number of vCPUs. At most: no vCPU waits. Likely: each has a
    /// pCPU, as where all VMs fold. At least: each has its share of one beside the strangers.
    #[must_use]
    pub fn folded(&self, vm: VmId, vcpus: u64) -> Option<Reach> {
        let front = self.vms.get(vm)?.as_ref()?;
        let [.., fast_ns] = front.at_ns;
        let each_ns = front.worked_ns.checked_div(vcpus)?;
        let alone_ns = each_ns.saturating_mul(ALL) / front.share;
        self.reach(
            front,
            [fast_ns.max(alone_ns), fast_ns.max(each_ns), fast_ns],
        )
    }

    /// By where the clock of a VM is at the end, in three worlds.
    fn reach(&self, front: &Front, at_ns: Times) -> Option<Reach> {
        let took_ns = u128::from(self.ended_ns.saturating_sub(front.began_ns));
        let permille = |at_ns: u64| {
            let permille = (took_ns * 1000).checked_div(u128::from(at_ns))?;
            u64::try_from(permille).ok()
        };
        let [slow, likely, fast] = at_ns.map(permille);
        let (slow, likely, fast) = (slow?, likely?, fast?);
        Some(Reach {
            low_permille: slow.min(likely),
            likely_permille: likely,
            high_permille: fast.max(likely),
        })
    }

    /// Makes room for a vCPU and its VM. Gives the place of the pCPU; nothing of one that is beyond
    /// what is looked at.
    fn known(&mut self, id: VcpuId, vm: VmId, cpu: u32, now_ns: u64) -> Option<usize> {
        let cpu = place(cpu)?;
        if self.vcpus.len() <= id {
            let lead_ns = WORLDS.map(|world| world.lead_ns);
            let fresh = Clock {
                lead_ns,
                ..Clock::default()
            };
            self.vcpus.resize(id + 1, fresh);
        }
        let clock = &mut self.vcpus[id];
        if clock.state == State::Unknown {
            clock.vm = vm;
        }
        let vm = clock.vm;
        if self.vms.len() <= vm {
            self.vms.resize(vm + 1, None);
        }
        self.vms[vm].get_or_insert_with(|| Front::new(now_ns));
        Some(cpu)
    }

    /// It sleeps no longer.
    fn wake(&mut self, id: VcpuId, by: Option<VcpuId>, now_ns: u64) {
        let vm = self.vcpus[id].vm;
        let sibling = by.filter(|&by| {
            let of = self.vcpus.get(by);
            by != id && of.is_some_and(|of| of.vm == vm && of.state == State::Runs)
        });
        let woken_at_ns = sibling.map(|by| {
            self.count(by, false, now_ns);
            self.vcpus[by].at_ns
        });
        if woken_at_ns.is_none() {
            self.count_all(vm, now_ns);
        }
        let Some(front) = &mut self.vms[vm] else {
            return;
        };
        front.idles(now_ns);
        front.awake += 1;
        let clock = &mut self.vcpus[id];
        let slept_ns = now_ns.saturating_sub(clock.since_ns);
        let is_first = clock.state == State::Unknown;
        for (world, assumed) in WORLDS.iter().enumerate() {
            let (at_ns, front_ns) = (clock.at_ns[world], front.at_ns[world]);
            let to_ns = match woken_at_ns {
                _ if is_first => front_ns,
                Some(woken_at_ns) => woken_at_ns[world],
                None => at_ns.saturating_add(slept_ns).min(front_ns),
            };
            let to_ns = to_ns.max(at_ns);
            clock.at_ns[world] = to_ns;
            clock.lead_ns[world] =
                regained(clock.lead_ns[world], to_ns - at_ns, front.share, *assumed);
        }
        clock.since_ns = now_ns;
    }

    /// It is on a pCPU, with those that are there.
    fn enter(&mut self, id: VcpuId, cpu: usize, now_ns: u64) {
        let vm = self.vcpus[id].vm;
        self.count_on(vm, cpu, now_ns);
        let clock = &mut self.vcpus[id];
        (clock.cpu, clock.since_ns) = (cpu, now_ns);
        let Some(front) = &mut self.vms[vm] else {
            return;
        };
        if front.on.len() <= cpu {
            front.on.resize_with(cpu + 1, Vec::new);
        }
        front.on[cpu].push(id);
        front.stacked += usize::from(front.on[cpu].len() == 2);
    }

    /// It leaves those that are on its pCPU.
    fn leave(&mut self, id: VcpuId, now_ns: u64) {
        let Clock { vm, cpu, .. } = self.vcpus[id];
        self.count_on(vm, cpu, now_ns);
        let Some(on) = self.vms[vm].as_mut() else {
            return;
        };
        on.on[cpu].retain(|&there| there != id);
        on.stacked -= usize::from(on.on[cpu].len() == 1);
    }

    /// Counts what all vCPUs of a VM did up to now, so that its own clock is right.
    fn count_all(&mut self, vm: VmId, now_ns: u64) {
        let cpus = self.vms[vm].as_ref().map_or(0, |front| front.on.len());
        for cpu in 0..cpus {
            self.count_on(vm, cpu, now_ns);
        }
    }

    /// Counts what went on up to now on a pCPU, before another vCPU of the VM comes or goes.
    fn count_on(&mut self, vm: VmId, cpu: usize, now_ns: u64) {
        let len = |pace: &Self| {
            let front = pace.vms[vm].as_ref();
            front.and_then(|front| Some(front.on.get(cpu)?.len()))
        };
        for at in 0..len(self).unwrap_or(0) {
            let there = self.vms[vm].as_ref().map(|front| front.on[cpu][at]);
            if let Some(id) = there {
                self.count(id, false, now_ns);
            }
        }
    }

    /// Counts what a vCPU did up to now; `spun` says that it was in a pause loop.
    fn count(&mut self, id: VcpuId, spun: bool, now_ns: u64) {
        let clock = &mut self.vcpus[id];
        let took_ns = now_ns.saturating_sub(clock.since_ns);
        let Some(Some(front)) = self.vms.get_mut(clock.vm) else {
            return;
        };
        if took_ns == 0 || !matches!(clock.state, State::Runs | State::Waits) {
            return;
        }
        clock.since_ns = now_ns;
        let is_stacked = front.on.get(clock.cpu).is_some_and(|on| on.len() > 1);
        let beside = front.stacked > 0;
        for (world, assumed) in WORLDS.iter().enumerate() {
            let stays_ns = if beside {
                part(took_ns, assumed.stays)
            } else {
                took_ns
            };
            let lead_ns = &mut clock.lead_ns[world];
            let counts_ns = match clock.state {
                State::Runs => {
                    let ran_ns = if spun { stays_ns } else { took_ns };
                    let used_ns = part(ran_ns, ALL - front.share);
                    let beyond_ns = used_ns.saturating_sub(*lead_ns);
                    *lead_ns -= used_ns - beyond_ns;
                    // Without a sibling beside it, its waits are in the trace.
                    let beyond_ns = if is_stacked { beyond_ns } else { 0 };
                    let waits_ns = beyond_ns.saturating_mul(ALL) / front.share;
                    if world == WORLDS.len() - 1 {
                        add(&mut front.worked_ns, ran_ns);
                    }
                    ran_ns.saturating_add(waits_ns)
                }
                _ if is_stacked => 0,
                _ => {
                    *lead_ns = regained(*lead_ns, stays_ns, front.share, *assumed);
                    stays_ns
                }
            };
            let at_ns = &mut clock.at_ns[world];
            *at_ns = at_ns.saturating_add(counts_ns);
            front.at_ns[world] = front.at_ns[world].max(*at_ns);
        }
    }
}

fn place(cpu: u32) -> Option<usize> {
    usize::try_from(cpu).ok().filter(|&cpu| cpu < MOST_PCPUS)
}

#[cfg(test)]
mod tests;
