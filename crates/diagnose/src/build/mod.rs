// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From finished analyses to the tables of a diagnosis.

mod host;
mod limit;
mod placement;
mod spin;
mod waits;

pub use host::STALL_NS;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use steady_events::{ExitReason, Isa, RipClass};
use steady_measures::Ratio;

use crate::analysis::Analysis;
use crate::calls::Receiver;
use crate::cause::{Cause, cause_of};
use crate::machine::{VcpuId, Vm};
use crate::model::{
    CallTable, Count, ExitRow, PreemptTable, ReceiverRow, RemedyTable, ShootdownTable, TimerTable,
    VcpuTable, VmTable,
};
use crate::notes::VmNotes;
use crate::of_vcpu::OfVcpu;
use crate::remedies::OfRemedy;
use crate::spread::{Spread, add, merge, total};
use crate::symbols::Symbols;
use crate::timer::{HZ, Load};

/// Thousandths that a part is of a whole, rounded; 0 of nothing.
#[must_use]
pub fn permille(part: u64, whole: u64) -> u64 {
    if whole == 0 {
        return 0;
    }
    let thousandths = Ratio::of(part, whole).and_then(Ratio::permille);
    thousandths.map_or(u64::MAX, i64::unsigned_abs)
}

/// Names guest RIPs.
#[derive(Debug, Clone, Copy)]
pub struct Names<'a> {
    /// The guest kernel's functions.
    pub symbols: Option<&'a Symbols>,
    /// To be subtracted from a RIP.
    pub shift: u64,
}

impl Names<'_> {
    /// The function and the cause of spinning at a place; `wide` as [`RipClass::of`] has it.
    #[must_use]
    pub fn of(&self, rip: u64, wide: bool) -> (Option<String>, Cause) {
        if RipClass::of(rip, wide) == Some(RipClass::User) {
            return (None, Cause::UserSpin);
        }
        let place = rip.checked_sub(self.shift);
        let name = place.and_then(|place| self.symbols?.name(place));
        let cause = name.map_or(Cause::Unknown, cause_of);
        (name.map(str::to_owned), cause)
    }
}

/// Makes the table of each VM that has vCPUs.
pub struct Builder<'a> {
    /// What was analysed.
    pub analysis: &'a Analysis,
    /// Names of places.
    pub names: Names<'a>,
    /// Names of exits that no table has ([`steady_events::About::exit_names`]).
    pub exit_names: &'a [String],
    /// What the recording noted of VMs.
    pub notes: Option<&'a VmNotes>,
    /// Ticks in a second of the guests' kernels.
    pub tick_hz: u64,
    /// From the first to the last event.
    pub span_ns: u64,
    /// The trace's first event, whether it was analysed or not.
    pub zero_ns: u64,
    /// Whether records are missing.
    pub is_lossy: bool,
}

impl Builder<'_> {
    /// The VMs, in the order in which they were seen.
    #[must_use]
    pub fn vms(&self) -> Vec<VmTable> {
        let vms = self.analysis.machine.vms.iter();
        vms.filter(|vm| !vm.vcpus.is_empty())
            .enumerate()
            .map(|(at, vm)| self.vm(at, vm))
            .collect()
    }

    /// What a VM is called: by the recording's notes, or by its place among those with vCPUs.
    fn name_of(&self, place: usize, note: Option<usize>) -> String {
        let note = note.and_then(|note| self.notes?.vms.get(note));
        let named = note.and_then(|note| note.name.clone());
        named.unwrap_or_else(|| format!("vm{place}"))
    }

    /// Shootdowns of the traced kernel itself.
    #[must_use]
    pub fn shootdowns(&self) -> Option<ShootdownTable> {
        let shootdowns = &self.analysis.shootdowns;
        (shootdowns.latency_ns.count() > 0).then(|| ShootdownTable {
            latency_ns: Spread::from(&shootdowns.latency_ns),
            targets: Spread::from(&shootdowns.targets),
            flushes_for_another: shootdowns.flushes_for_another,
            unfinished: shootdowns.unfinished,
            worst: shootdowns.worst.map(|(begin_ns, length_ns, cpu)| {
                let instance = self.instance(begin_ns, length_ns, None);
                instance.on(cpu)
            }),
        })
    }

    /// What remedies say of themselves.
    #[must_use]
    pub fn remedies(&self) -> Vec<RemedyTable> {
        let remedies = self.analysis.remedies.by_name.iter();
        let row = |(name, of): (&String, &OfRemedy)| RemedyTable {
            remedy: name.clone(),
            calls: of.calls,
            targets: of.targets,
            done: of.done,
            left: of.left,
            others: of.others,
            call_ns: Spread::from(&of.call_ns),
        };
        remedies.map(row).collect()
    }

    /// What is only counted.
    #[must_use]
    pub fn counted(&self) -> Vec<Count> {
        let counted = self.analysis.remedies.counted.iter();
        counts_of(counted.map(|(&name, &count)| (name, count)))
    }

    fn vm(&self, at: usize, vm: &Vm) -> VmTable {
        let mut ids = vm.vcpus.clone();
        ids.sort_by_key(|&id| self.analysis.machine.vcpus[id].number);
        self.of_vcpus(at, vm, &ids)
    }

    /// Each vCPU of VMs of several as a VM of its own: what one loses is little of a large VM.
    pub fn alone(&self) -> impl Iterator<Item = VmTable> {
        let vms = self.analysis.machine.vms.iter();
        let vms = vms.filter(|vm| !vm.vcpus.is_empty()).enumerate();
        let large = vms.filter(|(_, vm)| vm.vcpus.len() > 2);
        large.flat_map(move |(at, vm)| {
            let ids = vm.vcpus.iter();
            ids.map(move |&id| self.of_vcpus(at, vm, &[id]))
        })
    }

    /// The table of these vCPUs of a VM.
    fn of_vcpus(&self, at: usize, vm: &Vm, ids: &[VcpuId]) -> VmTable {
        let name = self.name_of(at + 1, vm.note);
        let note = vm.note.and_then(|note| self.notes?.vms.get(note));
        let exits = self.exits(ids);
        let all: u64 = exits.iter().map(|row| row.count).sum();
        let (pauses, calls) = (self.pauses(ids, all), self.calls(ids));
        VmTable {
            name,
            note: note.cloned(),
            process: note.map(|note| note.process).or(vm.process),
            vcpus: ids.iter().map(|&id| self.vcpu(id)).collect(),
            placement: self.placement(ids, pauses.as_ref(), calls.as_ref()),
            pauses,
            boosts: self.boosts(ids),
            calls,
            timers: self.timers(ids, &exits),
            preemption: self.preemption(ids),
            waits: self.waits(ids),
            asleep: self.asleep(ids),
            servers: self.servers(ids),
            stalls: self.stalls(ids, &exits),
            exits,
        }
    }

    /// Whether any of these vCPUs was seen in the upper half of its address space.
    fn wide(&self, ids: &[VcpuId]) -> bool {
        ids.iter().any(|&id| self.of(id).wide)
    }

    /// A reason's name, also of one that only the trace has a name for.
    fn reason(&self, reason: ExitReason) -> String {
        let own = reason.name_at().and_then(|at| self.exit_names.get(at));
        own.cloned().unwrap_or_else(|| reason.to_string())
    }

    fn of(&self, id: VcpuId) -> &OfVcpu {
        &self.analysis.vcpus[id]
    }

    fn vcpu(&self, id: VcpuId) -> VcpuTable {
        let (vcpu, of) = (&self.analysis.machine.vcpus[id], self.of(id));
        let seen = &self.analysis.seen;
        let scheduled = seen.switch > 0;
        let spreads: Vec<(ExitReason, Spread)> = of
            .exits
            .by_reason
            .iter()
            .map(|(reason, times)| (*reason, Spread::from(times)))
            .collect();
        let timed = spreads.iter().map(|(reason, time)| (*reason, time.count));
        let untimed = of
            .exits
            .untimed
            .iter()
            .map(|(reason, count)| (*reason, *count));
        let counts = || timed.clone().chain(untimed.clone());
        let pauses = counts().filter(|(reason, _)| reason.is_pause());
        let off = Spread::from(&of.preempt.descheduled_ns);
        VcpuTable {
            number: vcpu.number,
            tid: vcpu.tid,
            comm: vcpu.comm.clone(),
            exits: counts().map(|(_, count)| count).sum(),
            untimed: untimed.clone().map(|(_, count)| count).sum(),
            exit_ns: (seen.entry > 0).then(|| total(spreads.iter().map(|(_, time)| time.total))),
            pause_exits: pauses.map(|(_, count)| count).sum(),
            steal_ns: scheduled.then_some(off.total),
            wakeup_wait_ns: (scheduled && seen.wakeup > 0)
                .then(|| Spread::from(&of.preempt.wakeup_ns).total),
            descheduled: scheduled.then_some(of.preempt.marked + of.preempt.unmarked),
            unmarked: (scheduled && seen.x86_exit > 0).then_some(of.preempt.unmarked),
        }
    }

    fn exits(&self, ids: &[VcpuId]) -> Vec<ExitRow> {
        let mut by_reason: BTreeMap<ExitReason, (Spread, u64)> = BTreeMap::new();
        for &id in ids {
            let exits = &self.of(id).exits;
            for (reason, times) in &exits.by_reason {
                let (into, _) = by_reason.entry(*reason).or_default();
                merge(into, &Spread::from(times));
            }
            for (reason, count) in &exits.untimed {
                by_reason.entry(*reason).or_default().1 += count;
            }
        }
        let (mut all, mut time) = (0, 0);
        for (spread, untimed) in by_reason.values() {
            all += spread.count + untimed;
            add(&mut time, spread.total);
        }
        let mut about = self.about(ids);
        let row = |(reason, (spread, untimed)): (ExitReason, (Spread, u64))| {
            let (own_ns, mut about) = about.remove(&reason).unwrap_or_default();
            if untimed > spread.count {
                about.extend(self.place(ids, reason));
            }
            ExitRow {
                isa: reason.isa.word().to_owned(),
                code: reason.known_code(),
                name: self.reason(reason),
                count: spread.count + untimed,
                untimed,
                count_permille: permille(spread.count + untimed, all),
                time_permille: permille(spread.total, time),
                time_ns: spread,
                own_ns,
                about,
            }
        };
        let mut rows: Vec<ExitRow> = by_reason.into_iter().map(row).collect();
        // Without times, as where no entry was recorded, most exits first.
        let rank = |row: &ExitRow| Reverse((row.time_ns.total, row.count));
        rows.sort_by(|a, b| (rank(a), a.code, &a.name).cmp(&(rank(b), b.code, &b.name)));
        rows
    }

    fn calls(&self, ids: &[VcpuId]) -> Option<CallTable> {
        let mut call_ns = Spread::default();
        let mut delays: [Spread; 3] = Default::default();
        for sent in ids
            .iter()
            .filter_map(|&id| self.analysis.calls.sent.get(id))
        {
            merge(&mut call_ns, &Spread::from(&sent.call_ns));
            for (into, from) in delays.iter_mut().zip(&sent.delay_ns) {
                merge(into, &Spread::from(from));
            }
        }
        let pv_flushes = ids.iter().map(|&id| self.of(id).preempt.pv_flushes).sum();
        let pv_ipis = ids.iter().map(|&id| self.of(id).hypercalls[0]).sum();
        let seen = &self.analysis.seen;
        let rows = Receiver::ALL.iter().zip(delays);
        let rows = rows.map(|(receiver, delay_ns)| ReceiverRow {
            receiver: receiver.name().to_owned(),
            delay_ns,
        });
        (call_ns.count + pv_flushes + pv_ipis > 0).then(|| CallTable {
            inferred: true,
            call_ns: (seen.accepted > 0).then_some(call_ns),
            by_receiver: rows.filter(|_| seen.accepted > 0).collect(),
            pv_flushes: (seen.pv_flush > 0).then_some(pv_flushes),
            pv_ipis: (seen.hypercall > 0).then_some(pv_ipis),
            worst: self.worst_call(ids),
        })
    }

    fn timers(&self, ids: &[VcpuId], exits: &[ExitRow]) -> TimerTable {
        let seen = &self.analysis.seen;
        let sum = |of: fn(&OfVcpu) -> u64| total(ids.iter().map(|&id| of(self.of(id))));
        let halts = exits.iter().filter(|row| is_halt(row));
        let (idle_entries, idle_ns) = halts.fold((0, 0), |(count, time), row| {
            (count + row.count, total([time, row.time_ns.total]))
        });
        let (exited, timed) = (seen.exit > 0, seen.exit > 0 && seen.entry > 0);
        // Expiries show as exits where the host has the preemption timer.
        let vmx = exits.iter().any(|row| row.isa == "vmx");
        let vcpus = u64::try_from(ids.len()).unwrap_or(u64::MAX);
        let load = Load {
            vcpus,
            tick_hz: self.tick_hz,
            time_ns: self.span_ns,
            busy_ns: self.span_ns.saturating_mul(vcpus).saturating_sub(idle_ns),
            idle_entries,
            exits_per_tick: 2,
        };
        let arms = sum(|v| v.timer.arms);
        let steady = HZ.into_iter().enumerate().find(|(at, _)| {
            let steady = total(ids.iter().map(|&id| self.of(id).timer.steady[*at]));
            permille(steady, arms) >= STEADY
        });
        TimerTable {
            steady_hz: steady.map(|(_, hz)| hz),
            arms: (seen.timer_write > 0).then(|| sum(|v| v.timer.arms)),
            stops: (seen.timer_write > 0).then(|| sum(|v| v.timer.stops)),
            expiry_exits: vmx.then(|| sum(|v| v.timer.expiry_exits)),
            delivered: (seen.accepted > 0).then(|| sum(|v| v.timer.delivered)),
            host_ticks: (seen.host_timer > 0).then(|| sum(|v| v.timer.host_ticks)),
            ticks_injected: (seen.tick_injected > 0).then(|| sum(|v| v.timer.injected)),
            ticks_taken: (seen.tick_taken > 0).then(|| sum(|v| v.timer.taken)),
            guest_timer_ns: (timed && (vmx || seen.timer_write > 0))
                .then(|| sum(|v| total([v.timer.arm_ns, v.timer.expiry_ns]))),
            host_tick_ns: (seen.host_timer > 0).then(|| sum(|v| v.timer.host_tick_ns)),
            idle_entries: exited.then_some(idle_entries),
            idle_ns: timed.then_some(idle_ns),
            tick_hz: self.tick_hz,
            periodic: load.periodic(),
            tickless: timed.then(|| load.tickless()),
            paratick_at_most: exited.then(|| load.paratick_at_most()),
        }
    }

    fn preemption(&self, ids: &[VcpuId]) -> Option<PreemptTable> {
        if self.analysis.seen.switch == 0 {
            return None;
        }
        let mut after: BTreeMap<String, u64> = BTreeMap::new();
        let (mut descheduled_ns, mut wakeup_ns) = (Spread::default(), Spread::default());
        let mut uninterruptible_ns = Spread::default();
        let mut stuck_after: BTreeMap<String, u64> = BTreeMap::new();
        for &id in ids {
            let preempt = &self.of(id).preempt;
            merge(&mut descheduled_ns, &Spread::from(&preempt.descheduled_ns));
            merge(&mut wakeup_ns, &Spread::from(&preempt.wakeup_ns));
            merge(
                &mut uninterruptible_ns,
                &Spread::from(&preempt.uninterruptible_ns),
            );
            let named = |reason: &Option<ExitReason>| {
                reason.map_or_else(|| "not in the trace".to_owned(), |r| self.reason(r))
            };
            for (reason, count) in &preempt.after {
                *after.entry(named(reason)).or_default() += count;
            }
            for (reason, ns) in &preempt.uninterruptible_after {
                add(stuck_after.entry(named(reason)).or_default(), *ns);
            }
        }
        let sum = |of: fn(&OfVcpu) -> u64| total(ids.iter().map(|&id| of(self.of(id))));
        let seen = &self.analysis.seen;
        let left = seen.x86_exit > 0;
        Some(PreemptTable {
            descheduled_ns,
            wakeup_ns: (seen.wakeup > 0).then_some(wakeup_ns),
            after: counts_of(after.iter().map(|(name, count)| (name.as_str(), *count))),
            marked: left.then(|| sum(|v| v.preempt.marked)),
            unmarked: left.then(|| sum(|v| v.preempt.unmarked)),
            unmarked_ns: left.then(|| sum(|v| v.preempt.unmarked_ns)),
            blocked: sum(|v| v.preempt.blocked),
            worst_unmarked: self.worst_of(ids, |v| v.preempt.worst_unmarked),
            uninterruptible_ns,
            uninterruptible_after: counts_of(
                stuck_after.iter().map(|(name, ns)| (name.as_str(), *ns)),
            ),
            worst_uninterruptible: self.worst_of(ids, |v| v.preempt.worst_uninterruptible),
        })
    }
}

/// Whether the exits of a row are halts.
pub fn is_halt(row: &ExitRow) -> bool {
    let isa = Isa::from_word(&row.isa);
    let reason = isa
        .zip(row.code)
        .map(|(isa, code)| ExitReason { isa, code });
    reason.is_some_and(ExitReason::is_halt)
}

/// From this part of the arms on, in thousandths, that are one tick apart they are ticks.
const STEADY: u64 = 800;

/// Rows with their shares, most first.
fn counts_of<'n>(counts: impl Iterator<Item = (&'n str, u64)>) -> Vec<Count> {
    let mut rows: Vec<Count> = counts
        .map(|(name, count)| Count {
            name: name.to_owned(),
            count,
            permille: 0,
        })
        .collect();
    let all = total(rows.iter().map(|row| row.count));
    rows.iter_mut()
        .for_each(|row| row.permille = permille(row.count, all));
    rows.sort_by(|a, b| b.count.cmp(&a.count).then(a.name.cmp(&b.name)));
    rows
}

fn hex(rip: u64) -> String {
    format!("{rip:#x}")
}
