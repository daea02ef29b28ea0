// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What another placement of a VM's vCPUs would have given, from who wants which pCPU at each time.
//!
//! Each pCPU's running thread and waiting vCPUs are those of [`crate::rivals`]. Whenever they
//! change, each VM of several vCPUs is looked at ([`moment`]), and what is found holds until the
//! next look. On large hosts looks are a little apart, so that their cost stays bounded.
//!
//! A VM may use the pCPUs that the notes of the recording name, or those on which it was seen.
//!
//! Left out: that a vCPU which runs earlier also sleeps earlier, and what spinning it saves. Where
//! records are missing nothing is predicted (`build/placement.rs`).

mod moment;
mod pace;

use crate::analysis::NO_CPU;
use crate::machine::{Machine, VmId};
use crate::pcpus::Pcpus;
use crate::spread::add;

use moment::{Moment, Seat};
pub use moment::{Range, WHOLE};
use pace::{ALL, Pace};

/// pCPUs that are looked at.
const MOST_PCPUS: usize = 1024;
/// VMs that are looked at.
const MOST_VMS: usize = 256;

/// What wants a pCPU.
#[derive(Debug, Clone, Default)]
struct Wants {
    /// Whether it is known what runs there.
    known: bool,
    /// The VM whose vCPU runs.
    runs: Option<VmId>,
    /// Its running thread and the vCPUs that wait.
    all: u64,
    /// How many of them each VM has.
    of: Vec<(VmId, u64)>,
}

/// For how long a pCPU had none of a VM's vCPUs while two were on another.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spare {
    /// It was idle, in nanoseconds.
    pub idle_ns: u64,
    /// It ran something else.
    pub stranger_ns: u64,
}

/// Shares, summed over time: nanoseconds by [`WHOLE`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Sum {
    pub low: i128,
    pub likely: i128,
    pub high: i128,
}

/// One VM.
#[derive(Debug, Default)]
pub struct OfVm {
    /// Its vCPUs.
    pub vcpus: usize,
    /// How long it was looked at, in nanoseconds.
    pub known_ns: u64,
    /// Of that, while siblings were on one pCPU and another that they may use had none.
    pub stacked_ns: u64,
    /// Of that, while more of its vCPUs wanted to run than ran.
    pub short_ns: u64,
    /// vCPUs that ran in that time, summed over it.
    pub short_ran_ns: u64,
    /// vCPUs that wanted to run, summed over the time.
    pub wanted_ns: u64,
    /// pCPUs that it may use, and others that wanted them, summed over the time.
    seats_ns: u64,
    others_ns: u64,
    /// What it got by fair shares, in nanoseconds by [`WHOLE`].
    pub fair: u128,
    /// What parting adds.
    pub parted: Sum,
    /// What pins add.
    pub pinned: Sum,
    /// By pCPU.
    pub spare: Vec<Spare>,
    /// By pCPU, whether it may run there.
    pub may: Vec<bool>,
    moment: Moment,
}

/// All VMs.
#[derive(Debug, Default)]
pub struct Placement {
    /// By [`VmId`].
    pub vms: Vec<OfVm>,
    /// The pCPUs that VMs may use, by their place in the notes of the recording; empty if these do
    /// not have it.
    pub noted: Vec<Vec<u32>>,
    /// Switches that the trace does not show.
    pub unseen: u64,
    /// Whether the host has more pCPUs or VMs than are looked at.
    pub too_large: bool,
    /// How far VMs would have come.
    pub pace: Pace,
    wants: Vec<Wants>,
    seats: Vec<Seat>,
    /// When VMs were looked at last, and when the event before was.
    since_ns: u64,
    at_ns: u64,
}

impl Sum {
    fn add(&mut self, range: Range, ns: u64) {
        for (sum, share) in [
            (&mut self.low, range.low),
            (&mut self.likely, range.likely),
            (&mut self.high, range.high),
        ] {
            *sum += i128::from(share) * i128::from(ns);
        }
    }
}

impl Placement {
    /// vCPUs get new numbers: what was found of those before is gone.
    pub fn forget(&mut self) {
        *self = Self {
            noted: std::mem::take(&mut self.noted),
            at_ns: self.at_ns,
            ..Self::default()
        };
    }

    /// Time goes on: what changed on pCPUs up to the event before holds from then on.
    pub fn settle(&mut self, pcpus: &mut Pcpus, machine: &Machine, now_ns: u64) {
        let at_ns = self.at_ns.max(self.since_ns);
        if now_ns <= at_ns || self.too_large {
            return;
        }
        self.at_ns = now_ns;
        let looks = u64::try_from(self.vms.len() * self.wants.len()).unwrap_or(u64::MAX);
        if !pcpus.is_changed() || now_ns.saturating_sub(self.since_ns) < looks {
            return;
        }
        self.pass(at_ns);
        while let Some(cpu) = pcpus.changed() {
            self.reads(cpu, pcpus, machine);
        }
        for vm in 0..self.vms.len() {
            self.look(vm);
        }
    }

    /// The trace is over.
    pub fn finish(&mut self, now_ns: u64) {
        self.pass(now_ns);
        self.pace.finish(now_ns);
    }

    /// What was found holds until now.
    fn pass(&mut self, now_ns: u64) {
        let took_ns = now_ns.saturating_sub(self.since_ns);
        self.since_ns = self.since_ns.max(now_ns);
        for (vm, of) in self.vms.iter_mut().enumerate() {
            if took_ns > 0 && of.vcpus > 1 {
                of.pass(vm, took_ns, &self.wants);
                self.pace.shares(vm, of.share());
            }
        }
    }

    /// Reads who wants a pCPU.
    fn reads(&mut self, cpu: u32, pcpus: &Pcpus, machine: &Machine) {
        let at = usize::try_from(cpu).unwrap_or(usize::MAX);
        self.too_large |= at >= MOST_PCPUS && cpu != NO_CPU;
        let Some(pcpu) = pcpus.get(cpu).filter(|_| at < MOST_PCPUS) else {
            return;
        };
        if self.wants.len() <= at {
            self.wants.resize_with(at + 1, Wants::default);
        }
        let mut wants = std::mem::take(&mut self.wants[at]);
        wants.of.clear();
        wants.known = pcpu.running.is_some();
        let tid = pcpu.running.filter(|&tid| tid != 0);
        let running = tid.and_then(|tid| machine.of_tid(tid));
        wants.runs = running.map(|id| machine.vcpus[id].vm);
        // On an idle pCPU they wait for it to wake, or for their limit to end, not for each other.
        let most = if pcpu.running == Some(0) {
            1
        } else {
            usize::MAX
        };
        let waiting = pcpu
            .waiting
            .iter()
            .copied()
            .filter(|&id| Some(id) != running);
        wants.all = u64::from(tid.is_some());
        for id in running.into_iter().chain(waiting).take(most) {
            let vm = machine.vcpus[id].vm;
            wants.all += u64::from(Some(id) != running);
            match wants.of.iter_mut().find(|(known, _)| *known == vm) {
                Some((_, count)) => *count += 1,
                None => wants.of.push((vm, 1)),
            }
            self.seen(vm, cpu, machine);
        }
        self.wants[at] = wants;
    }

    /// A vCPU of a VM is on a pCPU.
    fn seen(&mut self, vm: VmId, cpu: u32, machine: &Machine) {
        if vm >= MOST_VMS {
            self.too_large = true;
            return;
        }
        if self.vms.len() <= vm {
            self.vms.resize_with(vm + 1, OfVm::default);
        }
        let of = &mut self.vms[vm];
        of.vcpus = machine.vms[vm].vcpus.len();
        let noted = machine.vms[vm].note.and_then(|note| self.noted.get(note));
        match noted.filter(|cpus| !cpus.is_empty()) {
            None => of.allow(cpu),
            Some(cpus) if of.may.is_empty() => cpus.iter().for_each(|&cpu| of.allow(cpu)),
            Some(_) => {}
        }
    }

    fn look(&mut self, vm: VmId) {
        let of = &mut self.vms[vm];
        if of.vcpus < 2 {
            return;
        }
        self.seats.clear();
        let known = self
            .wants
            .iter()
            .enumerate()
            .filter(|(_, wants)| wants.known);
        self.seats.extend(known.filter_map(|(at, wants)| {
            let own = wants.count(vm);
            let may = own > 0 || of.may.get(at).copied().unwrap_or(false);
            may.then(|| Seat {
                own,
                runs: wants.runs == Some(vm),
                others: wants.all - own,
            })
        }));
        of.moment = Moment::of(&self.seats);
    }
}

impl Wants {
    fn count(&self, vm: VmId) -> u64 {
        let of = self.of.iter().find(|(known, _)| *known == vm);
        of.map_or(0, |(_, count)| *count)
    }
}

impl OfVm {
    fn allow(&mut self, cpu: u32) {
        let Ok(at) = usize::try_from(cpu) else { return };
        if at < MOST_PCPUS {
            if self.may.len() <= at {
                self.may.resize(at + 1, false);
            }
            self.may[at] = true;
        }
    }

    /// What a vCPU has of a pCPU if others are spread over all, in parts of [`ALL`].
    fn share(&self) -> u64 {
        let (seats, others) = (u128::from(self.seats_ns), u128::from(self.others_ns));
        let share = (seats * u128::from(ALL)).checked_div(seats + others);
        share
            .and_then(|share| u64::try_from(share).ok())
            .unwrap_or(ALL)
    }

    fn pass(&mut self, vm: VmId, ns: u64, wants: &[Wants]) {
        let moment = self.moment;
        add(&mut self.known_ns, ns);
        add(&mut self.wanted_ns, moment.wanted.saturating_mul(ns));
        add(&mut self.seats_ns, moment.seats.saturating_mul(ns));
        add(&mut self.others_ns, moment.others.saturating_mul(ns));
        self.fair += u128::from(moment.fair) * u128::from(ns);
        self.parted.add(moment.parted, ns);
        self.pinned.add(moment.pinned, ns);
        if moment.running < moment.wanted {
            add(&mut self.short_ns, ns);
            add(&mut self.short_ran_ns, moment.running.saturating_mul(ns));
        }
        if !moment.stacked {
            return;
        }
        add(&mut self.stacked_ns, ns);
        let spare = self.spare.len().max(self.may.len());
        self.spare.resize(spare, Spare::default());
        let rows = self.spare.iter_mut().zip(&self.may).zip(wants);
        for ((spare, _), wants) in rows.filter(|((_, may), wants)| **may && wants.known) {
            match (wants.count(vm), wants.all) {
                (0, 0) => add(&mut spare.idle_ns, ns),
                (0, _) => add(&mut spare.stranger_ns, ns),
                _ => {}
            }
        }
    }
}
