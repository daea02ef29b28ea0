// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From finished analyses to the tables of a diagnosis.

mod spin;
mod waits;

use std::collections::BTreeMap;

use steady_events::ExitReason;
use steady_measures::Ratio;

use crate::analysis::{Analysis, OfVcpu};
use crate::calls::Receiver;
use crate::cause::{Cause, cause_of};
use crate::machine::VcpuId;
use crate::model::{
    CallTable, Count, ExitRow, PreemptTable, ReceiverRow, RemedyTable, ShootdownTable, TimerTable,
    VcpuTable, VmTable,
};
use crate::remedies::OfRemedy;
use crate::spread::{Spread, add, merge, total};
use crate::symbols::Symbols;
use crate::timer::Load;

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
    /// The function and the cause of spinning at a place.
    #[must_use]
    pub fn of(&self, rip: u64) -> (Option<String>, Cause) {
        if rip >> 63 == 0 {
            return (
                None,
                if rip == 0 {
                    Cause::Unknown
                } else {
                    Cause::UserSpin
                },
            );
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
    /// Ticks in a second of the guests' kernels.
    pub tick_hz: u64,
    /// From the first to the last event.
    pub span_ns: u64,
    /// The trace's first event, whether it was analysed or not.
    pub zero_ns: u64,
}

impl Builder<'_> {
    /// The VMs, in the order in which they were seen.
    #[must_use]
    pub fn vms(&self) -> Vec<VmTable> {
        let vms = self.analysis.machine.vms.iter();
        vms.filter(|vm| !vm.vcpus.is_empty())
            .enumerate()
            .map(|(at, vm)| self.vm(at, &vm.vcpus))
            .collect()
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

    fn vm(&self, at: usize, ids: &[VcpuId]) -> VmTable {
        let mut ids = ids.to_vec();
        ids.sort_by_key(|&id| self.analysis.machine.vcpus[id].number);
        let exits = self.exits(&ids);
        let all: u64 = exits.iter().map(|row| row.time_ns.count).sum();
        VmTable {
            name: format!("vm{}", at + 1),
            vcpus: ids.iter().map(|&id| self.vcpu(id)).collect(),
            pauses: self.pauses(&ids, all),
            boosts: self.boosts(&ids),
            calls: self.calls(&ids),
            timers: self.timers(&ids, &exits),
            preemption: self.preemption(&ids),
            waits: self.waits(&ids),
            exits,
        }
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
        let pauses = spreads.iter().filter(|(reason, _)| reason.is_pause());
        let off = Spread::from(&of.preempt.descheduled_ns);
        VcpuTable {
            number: vcpu.number,
            tid: vcpu.tid,
            comm: vcpu.comm.clone(),
            exits: spreads.iter().map(|(_, time)| time.count).sum(),
            exit_ns: total(spreads.iter().map(|(_, time)| time.total)),
            pause_exits: pauses.map(|(_, time)| time.count).sum(),
            steal_ns: scheduled.then_some(off.total),
            wakeup_wait_ns: (scheduled && seen.wakeup > 0)
                .then(|| Spread::from(&of.preempt.wakeup_ns).total),
            descheduled: scheduled.then_some(of.preempt.marked + of.preempt.unmarked),
            unmarked: scheduled.then_some(of.preempt.unmarked),
        }
    }

    fn exits(&self, ids: &[VcpuId]) -> Vec<ExitRow> {
        let mut by_reason: BTreeMap<ExitReason, Spread> = BTreeMap::new();
        for &id in ids {
            for (reason, times) in &self.of(id).exits.by_reason {
                merge(by_reason.entry(*reason).or_default(), &Spread::from(times));
            }
        }
        let (mut count, mut time) = (0, 0);
        for spread in by_reason.values() {
            count += spread.count;
            add(&mut time, spread.total);
        }
        let mut about = self.about(ids);
        let mut rows: Vec<ExitRow> = by_reason
            .into_iter()
            .map(|(reason, spread)| (about.remove(&reason).unwrap_or_default(), reason, spread))
            .map(|((own_ns, about), reason, spread)| ExitRow {
                own_ns,
                about,
                isa: reason.isa.word().to_owned(),
                code: reason.code,
                name: reason.to_string(),
                count_permille: permille(spread.count, count),
                time_permille: permille(spread.total, time),
                time_ns: spread,
            })
            .collect();
        rows.sort_by(|a, b| {
            b.time_ns
                .total
                .cmp(&a.time_ns.total)
                .then(a.code.cmp(&b.code))
        });
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
        (call_ns.count + pv_flushes + pv_ipis > 0).then(|| CallTable {
            inferred: true,
            call_ns,
            by_receiver: Receiver::ALL
                .iter()
                .zip(delays)
                .map(|(receiver, delay_ns)| ReceiverRow {
                    receiver: receiver.name().to_owned(),
                    delay_ns,
                })
                .collect(),
            pv_flushes,
            pv_ipis,
            worst: self.worst_call(ids),
        })
    }

    fn timers(&self, ids: &[VcpuId], exits: &[ExitRow]) -> TimerTable {
        let seen = &self.analysis.seen;
        let sum = |of: fn(&OfVcpu) -> u64| total(ids.iter().map(|&id| of(self.of(id))));
        let halts = exits
            .iter()
            .filter(|row| matches!((row.isa.as_str(), row.code), ("vmx", 12) | ("svm", 0x78)));
        let (idle_entries, idle_ns) = halts.fold((0, 0), |(count, time), row| {
            (count + row.time_ns.count, total([time, row.time_ns.total]))
        });
        let vcpus = u64::try_from(ids.len()).unwrap_or(u64::MAX);
        let load = Load {
            vcpus,
            tick_hz: self.tick_hz,
            time_ns: self.span_ns,
            busy_ns: self.span_ns.saturating_mul(vcpus).saturating_sub(idle_ns),
            idle_entries,
            exits_per_tick: 2,
        };
        TimerTable {
            arms: (seen.timer_write > 0).then(|| sum(|v| v.timer.arms)),
            stops: (seen.timer_write > 0).then(|| sum(|v| v.timer.stops)),
            expiry_exits: sum(|v| v.timer.expiry_exits),
            delivered: (seen.accepted > 0).then(|| sum(|v| v.timer.delivered)),
            host_ticks: (seen.host_timer > 0).then(|| sum(|v| v.timer.host_ticks)),
            ticks_injected: (seen.tick_injected > 0).then(|| sum(|v| v.timer.injected)),
            ticks_taken: (seen.tick_taken > 0).then(|| sum(|v| v.timer.taken)),
            guest_timer_ns: sum(|v| total([v.timer.arm_ns, v.timer.expiry_ns])),
            host_tick_ns: (seen.host_timer > 0).then(|| sum(|v| v.timer.host_tick_ns)),
            idle_entries,
            idle_ns,
            tick_hz: self.tick_hz,
            periodic: load.periodic(),
            tickless: load.tickless(),
            paratick_at_most: load.paratick_at_most(),
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
                reason.map_or_else(|| "not in the trace".to_owned(), |r| r.to_string())
            };
            for (reason, count) in &preempt.after {
                *after.entry(named(reason)).or_default() += count;
            }
            for (reason, ns) in &preempt.uninterruptible_after {
                add(stuck_after.entry(named(reason)).or_default(), *ns);
            }
        }
        let sum = |of: fn(&OfVcpu) -> u64| total(ids.iter().map(|&id| of(self.of(id))));
        Some(PreemptTable {
            descheduled_ns,
            wakeup_ns,
            after: counts_of(after.iter().map(|(name, count)| (name.as_str(), *count))),
            marked: sum(|v| v.preempt.marked),
            unmarked: sum(|v| v.preempt.unmarked),
            unmarked_ns: sum(|v| v.preempt.unmarked_ns),
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
