// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From finished analyses to the tables of a diagnosis.

use std::collections::BTreeMap;

use steady_events::ExitReason;

use crate::analysis::{Analysis, OfVcpu};
use crate::boost::{Outcome, Tally};
use crate::calls::Receiver;
use crate::cause::{Cause, cause_of};
use crate::machine::VcpuId;
use crate::model::{
    BoostCauseRow, BoostTable, CallTable, CauseRow, Count, ExitRow, PauseTable, PlaceRow,
    PreemptTable, ReceiverRow, RunRow, ShootdownTable, TimerTable, VcpuTable, VmTable,
};
use crate::spread::{Spread, merge};
use crate::symbols::Symbols;
use crate::timer::Load;

/// Rows of places that are shown.
const PLACES_SHOWN: usize = 32;

/// Thousandths that a part is of a whole, rounded.
#[must_use]
pub fn permille(part: u64, whole: u64) -> u64 {
    if whole == 0 {
        return 0;
    }
    let thousandths = (u128::from(part) * 1000 + u128::from(whole / 2)) / u128::from(whole);
    u64::try_from(thousandths).unwrap_or(u64::MAX)
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
        })
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
            exits,
        }
    }

    fn of(&self, id: VcpuId) -> &OfVcpu {
        &self.analysis.vcpus[id]
    }

    fn vcpu(&self, id: VcpuId) -> VcpuTable {
        let (vcpu, of) = (&self.analysis.machine.vcpus[id], self.of(id));
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
            exit_ns: spreads.iter().map(|(_, time)| time.total).sum(),
            pause_exits: pauses.map(|(_, time)| time.count).sum(),
            steal_ns: off.total,
            wakeup_wait_ns: Spread::from(&of.preempt.wakeup_ns).total,
            descheduled: of.preempt.marked + of.preempt.unmarked,
            unmarked: of.preempt.unmarked,
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
            time += spread.total;
        }
        let mut rows: Vec<ExitRow> = by_reason
            .into_iter()
            .map(|(reason, spread)| ExitRow {
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

    fn pauses(&self, ids: &[VcpuId], all_exits: u64) -> Option<PauseTable> {
        let mut causes: BTreeMap<Cause, CauseRow> = BTreeMap::new();
        let mut places: BTreeMap<String, (PlaceRow, u64)> = BTreeMap::new();
        let mut runs = Spread::default();
        let mut table = (0, 0, 0, 0);
        for &id in ids {
            let pauses = &self.of(id).pauses;
            merge(&mut runs, &Spread::from(&pauses.lengths));
            for (&rip, place) in &pauses.places {
                let (function, cause) = self.names.of(rip);
                table.0 += place.exits;
                table.1 += place.spun_ns;
                table.2 += place.outside_ns;
                table.3 += place.in_runs;
                let row = causes.entry(cause).or_insert(CauseRow {
                    cause,
                    exits: 0,
                    permille: 0,
                    spun_ns: 0,
                    outside_ns: 0,
                    in_runs: 0,
                });
                row.exits += place.exits;
                row.spun_ns += place.spun_ns;
                row.outside_ns += place.outside_ns;
                row.in_runs += place.in_runs;
                let key = function.clone().unwrap_or_else(|| hex(rip));
                let (row, most) = places.entry(key).or_insert_with(|| {
                    let row = PlaceRow {
                        function,
                        rip: hex(rip),
                        cause,
                        exits: 0,
                        ipi_pending: 0,
                        spun_ns: 0,
                        longest_run: 0,
                    };
                    (row, 0)
                });
                row.exits += place.exits;
                row.ipi_pending += place.ipi_pending;
                row.spun_ns += place.spun_ns;
                row.longest_run = row.longest_run.max(place.longest);
                // Of equal ones the lower address, whatever the order of the map.
                if (place.exits, std::cmp::Reverse(hex(rip)))
                    > (*most, std::cmp::Reverse(row.rip.clone()))
                {
                    (*most, row.rip) = (place.exits, hex(rip));
                }
            }
        }
        let (exits, spun_ns, outside_ns, in_runs) = table;
        if exits == 0 {
            return None;
        }
        let mut by_cause: Vec<CauseRow> = causes.into_values().collect();
        by_cause
            .iter_mut()
            .for_each(|row| row.permille = permille(row.exits, exits));
        by_cause.sort_by(|a, b| b.exits.cmp(&a.exits).then(a.cause.cmp(&b.cause)));
        let mut by_place: Vec<PlaceRow> = places.into_values().map(|(row, _)| row).collect();
        by_place.sort_by(|a, b| b.exits.cmp(&a.exits).then(a.rip.cmp(&b.rip)));
        by_place.truncate(PLACES_SHOWN);
        let windows = ids.iter().filter_map(|&id| self.of(id).pauses.window);
        Some(PauseTable {
            exits,
            by_cause,
            by_place,
            runs,
            in_runs_permille: permille(in_runs, exits),
            of_all_permille: permille(exits, all_exits),
            longest: self.longest(ids),
            spun_ns,
            outside_ns,
            window: windows.max(),
        })
    }

    fn longest(&self, ids: &[VcpuId]) -> Option<RunRow> {
        let runs = ids
            .iter()
            .filter_map(|&id| Some((id, self.of(id).pauses.longest?)));
        let (id, run) = runs.max_by_key(|&(id, run)| (run.exits, std::cmp::Reverse(id)))?;
        Some(RunRow {
            vcpu: self.analysis.machine.vcpus[id].number,
            rip: hex(run.rip),
            function: self.names.of(run.rip).0,
            begin_ns: run.begin_ns,
            length_ns: run.end_ns.saturating_sub(run.begin_ns),
            exits: run.exits,
        })
    }

    fn boosts(&self, ids: &[VcpuId]) -> Option<BoostTable> {
        let tallies: Vec<&Tally> = ids
            .iter()
            .filter_map(|&id| self.analysis.boosts.tallies.get(id))
            .collect();
        let sum = |of: fn(&Tally) -> u64| tallies.iter().map(|tally| of(tally)).sum::<u64>();
        let (spins, tries) = (sum(|t| t.spins), sum(|t| t.tries));
        if spins + tries + sum(|t| t.hinted) == 0 {
            return None;
        }
        let mut outcomes: BTreeMap<Outcome, u64> = BTreeMap::new();
        let mut causes: BTreeMap<Cause, BTreeMap<Outcome, u64>> = BTreeMap::new();
        let mut instead = BTreeMap::new();
        let mut delay_ns = Spread::default();
        for tally in &tallies {
            for (&rip, counts) in &tally.by_place {
                let cause = self.names.of(rip).1;
                for (&outcome, count) in counts {
                    *outcomes.entry(outcome).or_default() += count;
                    *causes.entry(cause).or_default().entry(outcome).or_default() += count;
                }
            }
            for (&who, count) in &tally.instead {
                *instead.entry(who.name()).or_default() += count;
            }
            merge(&mut delay_ns, &Spread::from(&tally.delay_ns));
        }
        let of = |outcome| outcomes.get(&outcome).copied().unwrap_or(0);
        let ran_next = of(Outcome::RanNext) + of(Outcome::Overboost);
        let decided = ran_next + of(Outcome::SchedulerMismatch);
        let named =
            |counts: &BTreeMap<Outcome, u64>| counts_of(counts.iter().map(|(o, c)| (o.name(), *c)));
        Some(BoostTable {
            spins,
            tries,
            agreed: sum(|t| t.agreed),
            decided,
            ran_next,
            ran_next_permille: permille(ran_next, decided),
            same_pcpu: sum(|t| t.same_pcpu),
            delay_ns,
            outcomes: named(&outcomes),
            by_cause: causes
                .iter()
                .map(|(&cause, counts)| BoostCauseRow {
                    cause,
                    outcomes: named(counts),
                })
                .collect(),
            instead: counts_of(instead.into_iter()),
            passed_over: sum(|t| t.passed_over),
            hinted: sum(|t| t.hinted),
            unresolved: sum(|t| t.unresolved),
        })
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
        })
    }

    fn timers(&self, ids: &[VcpuId], exits: &[ExitRow]) -> TimerTable {
        let sum = |of: fn(&OfVcpu) -> u64| ids.iter().map(|&id| of(self.of(id))).sum::<u64>();
        let halts = exits
            .iter()
            .filter(|row| matches!((row.isa.as_str(), row.code), ("vmx", 12) | ("svm", 0x78)));
        let (idle_entries, idle_ns) = halts.fold((0, 0), |(count, time), row| {
            (count + row.time_ns.count, time + row.time_ns.total)
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
            arms: sum(|v| v.timer.arms),
            stops: sum(|v| v.timer.stops),
            expiry_exits: sum(|v| v.timer.expiry_exits),
            delivered: sum(|v| v.timer.delivered),
            host_ticks: sum(|v| v.timer.host_ticks),
            guest_timer_ns: sum(|v| v.timer.arm_ns + v.timer.expiry_ns),
            host_tick_ns: sum(|v| v.timer.host_tick_ns),
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
        for &id in ids {
            let preempt = &self.of(id).preempt;
            merge(&mut descheduled_ns, &Spread::from(&preempt.descheduled_ns));
            merge(&mut wakeup_ns, &Spread::from(&preempt.wakeup_ns));
            for (reason, count) in &preempt.after {
                let name = reason.map_or_else(|| "not in the trace".to_owned(), |r| r.to_string());
                *after.entry(name).or_default() += count;
            }
        }
        let sum = |of: fn(&OfVcpu) -> u64| ids.iter().map(|&id| of(self.of(id))).sum::<u64>();
        Some(PreemptTable {
            descheduled_ns,
            wakeup_ns,
            after: counts_of(after.iter().map(|(name, count)| (name.as_str(), *count))),
            marked: sum(|v| v.preempt.marked),
            unmarked: sum(|v| v.preempt.unmarked),
            unmarked_ns: sum(|v| v.preempt.unmarked_ns),
            blocked: sum(|v| v.preempt.blocked),
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
    let all = rows.iter().map(|row| row.count).sum();
    rows.iter_mut()
        .for_each(|row| row.permille = permille(row.count, all));
    rows.sort_by(|a, b| b.count.cmp(&a.count).then(a.name.cmp(&b.name)));
    rows
}

fn hex(rip: u64) -> String {
    format!("{rip:#x}")
}
