// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of pause-loop exits and of the boosts after them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{Builder, counts_of, hex, permille};
use crate::boost::{Outcome, Tally};
use crate::cause::Cause;
use crate::machine::VcpuId;
use crate::model::{
    BoostCauseRow, BoostTable, CauseRow, ChosenRow, Instance, PauseTable, PlaceRow, RunRow,
};
use crate::pause::Place;
use crate::spread::{Spread, add, merge, total};

/// Rows of places that are shown.
const PLACES_SHOWN: usize = 32;

/// Pause-loop exits of several vCPUs by cause and by place.
#[derive(Default)]
struct Places {
    /// Whether entries were recorded: without them it is not known for how long a guest spun.
    timed: bool,
    /// Whether interrupts were recorded.
    interrupts: bool,
    causes: BTreeMap<Cause, CauseRow>,
    /// By function or address; beside each row the exits at its address.
    places: BTreeMap<String, (PlaceRow, u64)>,
}

impl Places {
    fn add(
        &mut self,
        rip: u64,
        (function, cause): (Option<String>, Cause),
        place: &Place,
        worst: Instance,
    ) {
        assert!(place.in_runs <= place.exits, "exits in runs are exits");
        let row = self.causes.entry(cause).or_insert(CauseRow {
            cause,
            exits: 0,
            permille: 0,
            spun_ns: self.timed.then_some(0),
            outside_ns: self.timed.then_some(0),
            in_runs: 0,
            runs: 0,
        });
        row.exits += place.exits;
        add_known(&mut row.spun_ns, place.spun_ns);
        add_known(&mut row.outside_ns, place.outside_ns);
        row.in_runs += place.in_runs;
        row.runs += place.runs;
        let key = function.clone().unwrap_or_else(|| hex(rip));
        let (row, most) = self.places.entry(key).or_insert_with(|| {
            let row = PlaceRow {
                function,
                rip: hex(rip),
                cause,
                exits: 0,
                ipi_pending: self.interrupts.then_some(0),
                spun_ns: self.timed.then_some(0),
                longest_run: 0,
                worst: None,
            };
            (row, 0)
        });
        row.exits += place.exits;
        add_known(&mut row.ipi_pending, place.ipi_pending);
        add_known(&mut row.spun_ns, place.spun_ns);
        if place.longest > row.longest_run {
            row.longest_run = place.longest;
            row.worst = Some(worst);
        }
        // Of equal ones the lower address, whatever the order of the map.
        if (place.exits, Reverse(hex(rip))) > (*most, Reverse(row.rip.clone())) {
            (*most, row.rip) = (place.exits, hex(rip));
        }
    }
}

/// Adds to what is known.
fn add_known(to: &mut Option<u64>, value: u64) {
    if let Some(to) = to {
        add(to, value);
    }
}

impl Builder<'_> {
    pub(super) fn pauses(&self, ids: &[VcpuId], all_exits: u64) -> Option<PauseTable> {
        let mut runs = Spread::default();
        let seen = &self.analysis.seen;
        let wide = self.wide(ids);
        let mut all = Places {
            timed: seen.entry > 0,
            interrupts: seen.accepted > 0,
            ..Places::default()
        };
        for &id in ids {
            let pauses = &self.of(id).pauses;
            merge(&mut runs, &Spread::from(&pauses.lengths));
            for (&rip, place) in &pauses.places {
                let (begin_ns, length_ns) = place.longest_when;
                let worst = self.instance(begin_ns, length_ns, Some(id));
                all.add(rip, self.names.of(rip, wide), place, worst);
            }
        }
        let Places {
            timed,
            causes,
            places,
            ..
        } = all;
        let sum = |of: fn(&CauseRow) -> u64| total(causes.values().map(of));
        let (exits, in_runs) = (sum(|row| row.exits), sum(|row| row.in_runs));
        let times =
            |of: fn(&CauseRow) -> Option<u64>| timed.then(|| total(causes.values().filter_map(of)));
        let (spun_ns, outside_ns) = (times(|row| row.spun_ns), times(|row| row.outside_ns));
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
        let (id, run) = runs.max_by_key(|&(id, run)| (run.exits, Reverse(id)))?;
        Some(RunRow {
            vcpu: self.analysis.machine.vcpus[id].number,
            rip: hex(run.rip),
            function: self.names.of(run.rip, self.wide(ids)).0,
            begin_ns: run.begin_ns,
            length_ns: run.end_ns.saturating_sub(run.begin_ns),
            exits: run.exits,
        })
    }

    pub(super) fn boosts(&self, ids: &[VcpuId]) -> Option<BoostTable> {
        let tallies: Vec<&Tally> = ids
            .iter()
            .filter_map(|&id| self.analysis.boosts.tallies.get(id))
            .collect();
        let sum = |of: fn(&Tally) -> u64| tallies.iter().map(|tally| of(tally)).sum::<u64>();
        let (spins, tries) = (sum(|t| t.spins), sum(|t| t.tries));
        if spins + tries + sum(|t| t.hinted) == 0 {
            return None;
        }
        let wide = self.wide(ids);
        let mut outcomes: BTreeMap<Outcome, u64> = BTreeMap::new();
        let mut causes: BTreeMap<Cause, BTreeMap<Outcome, u64>> = BTreeMap::new();
        let mut instead = BTreeMap::new();
        let mut chosen: BTreeMap<VcpuId, (u64, u64)> = BTreeMap::new();
        let mut delay_ns = Spread::default();
        for tally in &tallies {
            for (&rip, counts) in &tally.by_place {
                let cause = self.names.of(rip, wide).1;
                for (&outcome, count) in counts {
                    *outcomes.entry(outcome).or_default() += count;
                    *causes.entry(cause).or_default().entry(outcome).or_default() += count;
                }
            }
            for (&who, count) in &tally.instead {
                *instead.entry(who.name()).or_default() += count;
            }
            for (&id, &(tries, ran_next)) in &tally.chosen {
                let sums = chosen.entry(id).or_default();
                *sums = (sums.0 + tries, sums.1 + ran_next);
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
            agreed: (self.analysis.seen.boost_return > 0).then(|| sum(|t| t.agreed)),
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
            chosen: self.chosen(chosen),
            passed_over: sum(|t| t.passed_over),
            hinted: sum(|t| t.hinted),
            unresolved: sum(|t| t.unresolved),
        })
    }

    fn chosen(&self, tallies: BTreeMap<VcpuId, (u64, u64)>) -> Vec<ChosenRow> {
        let mut rows: Vec<ChosenRow> = tallies
            .into_iter()
            .map(|(id, (tries, ran_next))| ChosenRow {
                vcpu: self.analysis.machine.vcpus[id].number,
                tries,
                ran_next,
            })
            .collect();
        rows.sort_by(|a, b| b.tries.cmp(&a.tries).then(a.vcpu.cmp(&b.vcpu)));
        rows
    }
}
