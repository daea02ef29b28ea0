// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One step of `place`: reads the VMs' vCPUs, judges each VM, and parts or gives back.
//!
//! It touches a vCPU only if its thread may run on all pCPUs that most of its siblings may run on.
//! Others are pinned by somebody: they keep their pCPUs. A vCPU whose pCPUs are not those that were
//! set here was changed by somebody since, and is not touched again.

use std::collections::BTreeMap;

use steady_hostview::{Cpus, Host, Pcpus, Topology};

use super::act::{Act, What};
use super::hands::Hands;
use super::judge::{Bounds, Judge, Verdict};
use super::managed::Managed;
use super::moved::Moved;
use super::sets::{busy, sets};
use super::stacked::Stacked;
use super::threads::{Thread, vms_of};
use crate::error::SteerError;
use crate::state::State;

/// Intervals for which a vCPU counts as busy after one in which it was.
const BUSY_FOR: u32 = 20;
/// A vCPU that wants at least this part of an interval is busy, in thousandths.
const BUSY: u64 = 100;
/// Intervals between two splits of one VM.
const RESPLIT: u32 = 10;

/// What `place` is asked for.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// VMs by name or process; empty: all.
    pub only: Vec<String>,
    /// The least pCPUs of a set.
    pub least: usize,
    /// Pin each vCPU to one pCPU for good, and judge nothing.
    pub pin: bool,
    /// When to act.
    pub bounds: Bounds,
}

/// Looks after the VMs of a host.
#[derive(Debug)]
pub struct Placer<H> {
    host: Host,
    options: Options,
    topology: Topology,
    /// `None`: a dry run.
    state: Option<State<Moved>>,
    hands: H,
    vms: BTreeMap<i32, Managed>,
    read_ns: u64,
    /// The pCPUs' times at the last step, if they were read then.
    pcpus: Option<Pcpus>,
    /// Whether the next step may change something.
    at_work: bool,
    /// vCPUs that the last scan saw and could not read.
    unreadable: usize,
}

impl<H: Hands + 'static> Placer<H> {
    /// Begins; `state` is `None` for a dry run.
    pub fn new(host: Host, options: Options, state: Option<State<Moved>>, hands: H) -> Self {
        let topology = Topology::read(&host);
        Self {
            host,
            options,
            topology,
            state,
            hands,
            vms: BTreeMap::new(),
            read_ns: 0,
            pcpus: None,
            at_work: true,
            unreadable: 0,
        }
    }

    /// The vCPUs that are looked after.
    #[must_use]
    pub fn vcpus(&self) -> usize {
        self.vms.values().map(|vm| vm.threads.len()).sum()
    }

    /// The VMs that are looked after, each in a few words.
    pub fn vms(&self) -> impl ExactSizeIterator<Item = String> {
        self.vms.values().map(|vm| {
            let (label, vmm, vcpus) = (&vm.label, vm.vmm.name(), vm.threads.len());
            format!("{label} ({vmm}, {vcpus} vCPUs)")
        })
    }

    /// vCPUs that are there and could not be read.
    #[must_use]
    pub fn unreadable(&self) -> usize {
        self.unreadable
    }

    /// Whether the next step may change something: some VM waits, or is on trial.
    #[must_use]
    pub fn is_at_work(&self) -> bool {
        self.at_work
    }

    /// Looks which VMs and vCPUs there are now, and which pCPUs.
    pub fn scan(&mut self) {
        self.topology = Topology::read(&self.host);
        let there = vms_of(&self.host, &self.options.only);
        let alive = |thread: &Thread| thread.meter.read().is_some();
        // A VM that the scan misses may have threads that were placed: they are given back later.
        let placed = |thread: &Thread| thread.set.is_some() && alive(thread);
        self.vms.retain(|process, vm| {
            let mut threads = vm.threads.iter();
            // A process whose threads have all ended is another's by now.
            let is_same = there.contains_key(process) && threads.clone().any(alive);
            is_same || threads.any(placed)
        });
        self.unreadable = 0;
        for (process, vm) in there {
            let bounds = self.options.bounds;
            let label = vm.label();
            let managed = self.vms.entry(process).or_insert_with(|| Managed {
                label: label.clone(),
                vmm: vm.vmm,
                threads: Vec::new(),
                judge: Judge::new(bounds),
                stacked: Stacked::default(),
                since_split: 0,
                split_for: Vec::new(),
            });
            managed.label = label;
            self.unreadable += Thread::merge(
                &mut managed.threads,
                vm.vcpus,
                &self.host,
                process,
                &self.topology.possible,
            );
        }
    }

    /// Reads all vCPUs and acts. `now_ns` is a clock that never goes back.
    ///
    /// # Errors
    /// [`SteerError`] if a change cannot be noted; nothing is changed then.
    pub fn step(&mut self, now_ns: u64) -> Result<Vec<Act>, SteerError> {
        let length_ns = now_ns.saturating_sub(self.read_ns);
        let first = self.read_ns == 0;
        self.read_ns = now_ns;
        if let Some(state) = &mut self.state {
            state.stay()?;
        }
        let mut acts = Vec::new();
        let mut pcpus = None;
        self.at_work = first;
        let processes: Vec<i32> = self.vms.keys().copied().collect();
        for process in processes {
            let on_trial = self.vms.values().any(|vm| vm.judge.is_on_trial());
            let Some(vm) = self.vms.get_mut(&process) else {
                continue;
            };
            vm.threads
                .retain_mut(|thread| thread.read(length_ns, BUSY, BUSY_FOR));
            if first || length_ns == 0 {
                continue;
            }
            if self.options.pin {
                acts.extend(self.pin(process, now_ns)?);
                continue;
            }
            let mut interval = vm.interval(length_ns);
            let at_work = vm.judge.is_at_work(interval);
            let stale = vm.judge.is_parted() && vm.is_stale();
            self.at_work |= at_work || stale;
            if at_work || vm.judge.is_parted() {
                let now = pcpus.get_or_insert_with(|| Pcpus::read(&self.host));
                interval.idle = vm.idle(now, &self.pcpus, length_ns, &self.topology);
            }
            // Only a dry run says it, and it costs more than all else.
            if at_work && self.state.is_none() {
                vm.look();
            }
            // One trial at a time; the sets read where each vCPU is, which costs.
            let can =
                || !on_trial && sets(&vm.threads, &self.topology, self.options.least).is_some();
            let verdict = vm.judge.judge(now_ns, interval, can);
            self.carry_out(process, verdict, now_ns, &mut acts)?;
        }
        self.pcpus = pcpus;
        self.forget_if_free()?;
        Ok(acts)
    }

    fn carry_out(
        &mut self,
        process: i32,
        verdict: Verdict,
        now_ns: u64,
        acts: &mut Vec<Act>,
    ) -> Result<(), SteerError> {
        let dry = self.state.is_none();
        let Some(vm) = self.vms.get_mut(&process) else {
            return Ok(());
        };
        let what = match verdict {
            Verdict::Leave if vm.judge.is_parted() => {
                return self.split_again(process, now_ns, acts);
            }
            Verdict::Leave => return Ok(()),
            Verdict::Part(share) if dry => {
                vm.judge.decline(now_ns);
                let sets =
                    sets(&vm.threads, &self.topology, self.options.least).unwrap_or_default();
                What::WouldPart {
                    share,
                    stacked: vm.stacked.seen(),
                    sets: vm.named(&sets),
                }
            }
            Verdict::Part(share) => {
                let sets = self.part(process)?;
                // Nothing to try: somebody has placed them meanwhile, or the kernel refused.
                if sets.is_empty() {
                    return self.decline(process, now_ns);
                }
                What::Part { share, sets }
            }
            Verdict::Keep(before, since) => What::Keep { before, since },
            Verdict::Withdraw(before, since) => {
                self.give_back(process)?;
                What::Withdraw { before, since }
            }
            Verdict::GiveBack => {
                self.give_back(process)?;
                What::GiveBack
            }
            Verdict::Room(idle) => {
                self.give_back(process)?;
                What::Room { idle }
            }
        };
        if let Some(vm) = self.vms.get(&process) {
            acts.push(Act::new(now_ns, &vm.label, what));
        }
        Ok(())
    }

    /// Sets the VM's sets; those that changed, by vCPU.
    fn part(&mut self, process: i32) -> Result<Vec<(u32, Cpus)>, SteerError> {
        let (Some(vm), Some(state)) = (self.vms.get_mut(&process), &mut self.state) else {
            return Ok(Vec::new());
        };
        vm.threads
            .iter_mut()
            .for_each(|thread| thread.notice(&self.host, &self.topology.possible));
        let Some(sets) = sets(&vm.threads, &self.topology, self.options.least) else {
            return Ok(Vec::new());
        };
        (vm.since_split, vm.split_for) = (0, busy(&vm.threads));
        let mut changed = Vec::new();
        for (at, set) in sets {
            let thread = &mut vm.threads[at];
            if thread.set_to(process, &set, state, &mut self.hands)? {
                changed.push((thread.number, set));
            }
        }
        Ok(changed)
    }

    /// Pins the vCPUs of a VM that are not yet, each to the pCPU of its number among those allowed:
    /// first one thread of each core, then the others.
    fn pin(&mut self, process: i32, now_ns: u64) -> Result<Option<Act>, SteerError> {
        let Some(vm) = self.vms.get_mut(&process) else {
            return Ok(None);
        };
        let mut sets = Vec::new();
        for thread in &mut vm.threads {
            let allowed = self.topology.by_thread(&thread.before);
            let cpu = (thread.number as usize)
                .checked_rem(allowed.len())
                .map(|at| allowed[at]);
            let (Some(cpu), true) = (cpu, thread.set.is_none() && allowed.len() > 1) else {
                continue;
            };
            let cpu = Cpus::one(cpu);
            let done = match &mut self.state {
                Some(state) => thread.set_to(process, &cpu, state, &mut self.hands)?,
                None => true,
            };
            if done {
                thread.set = Some(cpu.clone());
                sets.push((thread.number, cpu));
            }
        }
        let what = What::Pin { sets: sets.clone() };
        Ok((!sets.is_empty()).then(|| Act::new(now_ns, &vm.label, what)))
    }

    /// Splits again if other vCPUs are busy by now.
    fn split_again(
        &mut self,
        process: i32,
        now_ns: u64,
        acts: &mut Vec<Act>,
    ) -> Result<(), SteerError> {
        let Some(vm) = self.vms.get_mut(&process) else {
            return Ok(());
        };
        vm.since_split += 1;
        if vm.since_split < RESPLIT || !vm.is_stale() {
            return Ok(());
        }
        if busy(&vm.threads).len() < 2 {
            vm.judge.release();
            acts.push(Act::new(now_ns, &vm.label, What::GiveBack));
            return self.give_back(process);
        }
        if sets(&vm.threads, &self.topology, self.options.least).is_none() {
            acts.push(Act::new(now_ns, &vm.label, What::TooWide));
            return self.decline(process, now_ns);
        }
        let sets = self.part(process)?;
        if let (false, Some(vm)) = (sets.is_empty(), self.vms.get(&process)) {
            acts.push(Act::new(now_ns, &vm.label, What::Split { sets }));
        }
        Ok(())
    }

    fn give_back(&mut self, process: i32) -> Result<(), SteerError> {
        let (Some(vm), Some(state)) = (self.vms.get_mut(&process), &mut self.state) else {
            return Ok(());
        };
        for thread in &mut vm.threads {
            thread.notice(&self.host, &self.topology.possible);
            thread.give_back(process, state, &mut self.hands)?;
        }
        Ok(())
    }

    /// Ends a trial that cannot be made.
    fn decline(&mut self, process: i32, now_ns: u64) -> Result<(), SteerError> {
        if let Some(vm) = self.vms.get_mut(&process) {
            vm.judge.decline(now_ns);
        }
        self.give_back(process)
    }

    /// Empties the file where no thread is changed, so that it does not grow.
    fn forget_if_free(&mut self) -> Result<(), SteerError> {
        let mut threads = self.vms.values().flat_map(|vm| &vm.threads);
        match &mut self.state {
            Some(state) if !state.is_empty() && threads.all(|thread| thread.set.is_none()) => {
                state.forget()
            }
            _ => Ok(()),
        }
    }

    /// Gives every VM back, as at the end.
    ///
    /// # Errors
    /// [`SteerError`].
    pub fn finish(mut self) -> Result<crate::state::Undone, SteerError> {
        match &mut self.state {
            Some(state) => state.undo(&self.host, &mut self.hands),
            None => Ok(crate::state::Undone::default()),
        }
    }
}
