// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Main memory: DRAM and NVM with channels, banks and open rows.
//!
//! A request finds its row open (tCAS), its bank closed (tRCD + tCAS) or another row open
//! (tRP + tRCD + tCAS), waits for the work before it at the bank and on the channel's bus, and
//! leaves the row open. Work is kept as a backlog that time drains, not as a reservation up to some
//! cycle: requests of different cores come slightly out of order, and one must not wait for the
//! mere distance between two clocks. NVM has its own channels and the same timing scaled. Left out:
//! refresh, write-to-read turnaround, and reordering by the controller.

use crate::config::MachineConfig;
use crate::layout::NVM_LINE;
use crate::num::ix;

/// Work waiting at a bank or a bus.
#[derive(Debug, Clone, Copy, Default)]
struct Backlog {
    cycles: u64,
    at: u64,
}

impl Backlog {
    /// The cycles of work left at `now`.
    fn at(&mut self, now: u64) -> u64 {
        self.cycles = self.cycles.saturating_sub(now.saturating_sub(self.at));
        self.at = self.at.max(now);
        self.cycles
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Bank {
    /// Open row + 1; 0 is closed.
    row: u64,
    backlog: Backlog,
}

/// Timing of one tier, CPU cycles.
#[derive(Debug, Clone, Copy)]
struct Timing {
    cas: u64,
    rcd: u64,
    rp: u64,
    burst: u64,
}

#[derive(Debug, Clone)]
struct Tier {
    timing: Timing,
    banks: Vec<Bank>,
    buses: Vec<Backlog>,
    /// Demand reads served.
    reads: u64,
    /// Writes and write-backs.
    writes: u64,
    row_hits: u64,
}

/// Both tiers.
#[derive(Debug, Clone)]
pub struct Memory {
    tiers: [Tier; 2],
    channel_bits: u32,
    column_bits: u32,
    bank_bits: u32,
}

/// Requests served by one tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct TierCounts {
    /// Lines read.
    pub reads: u64,
    /// Lines written.
    pub writes: u64,
    /// Requests that found their row open.
    pub row_hits: u64,
}

impl Memory {
    /// Memory with every bank closed.
    #[must_use]
    pub fn new(config: &MachineConfig) -> Self {
        let d = &config.dram;
        let cycles = |clocks: u32, percent: u32| {
            // Clocks of mts/2 MHz in cycles of core.mhz, rounded up.
            let scaled = u64::from(clocks) * u64::from(config.core.mhz) * 2 * u64::from(percent);
            scaled.div_ceil(u64::from(d.mts) * 100)
        };
        let tier = |percent| Tier {
            timing: Timing {
                cas: cycles(d.cas, percent),
                rcd: cycles(d.rcd, percent),
                rp: cycles(d.rp, percent),
                burst: cycles(d.burst_clocks, percent),
            },
            banks: vec![Bank::default(); (d.channels * d.banks) as usize],
            buses: vec![Backlog::default(); d.channels as usize],
            reads: 0,
            writes: 0,
            row_hits: 0,
        };
        Self {
            tiers: [tier(100), tier(config.hybrid.nvm_latency_percent)],
            channel_bits: d.channels.trailing_zeros(),
            column_bits: (d.row_bytes / 64).trailing_zeros(),
            bank_bits: d.banks.trailing_zeros(),
        }
    }

    /// Reads or writes a line at cycle `now`; returns the cycles until its data has passed.
    pub fn access(&mut self, line: u64, write: bool, now: u64) -> u64 {
        let channel = line & ((1 << self.channel_bits) - 1);
        let above = line >> (self.channel_bits + self.column_bits);
        let row = above >> self.bank_bits;
        // The row's low bits are folded in, so that pages a power of two apart use other banks.
        let bank = (above ^ row) & ((1 << self.bank_bits) - 1);
        let tier = &mut self.tiers[usize::from(line >= NVM_LINE)];
        let timing = tier.timing;
        let slot = &mut tier.banks[ix((channel << self.bank_bits) | bank)];
        let wait = slot.backlog.at(now);
        let opening = if slot.row == row + 1 {
            tier.row_hits += 1;
            0
        } else if slot.row == 0 {
            timing.rcd
        } else {
            timing.rp + timing.rcd
        };
        slot.row = row + 1;
        // Column accesses to an open row follow each other at the bus's rate.
        slot.backlog.cycles += opening + timing.burst;
        let bus = &mut tier.buses[ix(channel)];
        let data = (wait + opening + timing.cas).max(bus.at(now));
        bus.cycles += timing.burst;
        if write {
            tier.writes += 1;
        } else {
            tier.reads += 1;
        }
        data + timing.burst
    }

    /// Holds every bus of DRAM for `cycles` from `now`, as a block transfer by DMA does.
    pub fn occupy_dram(&mut self, now: u64, cycles: u64) {
        for bus in &mut self.tiers[0].buses {
            bus.at(now);
            bus.cycles += cycles;
        }
    }

    /// Counts of DRAM and of NVM.
    #[must_use]
    pub fn counts(&self) -> [TierCounts; 2] {
        [0, 1].map(|at| TierCounts {
            reads: self.tiers[at].reads,
            writes: self.tiers[at].writes,
            row_hits: self.tiers[at].row_hits,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Memory;
    use crate::config::MachineConfig;
    use crate::layout::NVM_LINE;

    // DDR4-2133 under a 4 GHz core: 14 clocks are 52.5 cycles, a burst of 4 is 15.003.
    const T14: u64 = 53;
    const BURST: u64 = 16;

    #[test]
    fn closed_open_and_conflicting_rows_cost_table_2_s_clocks() {
        let mut memory = Memory::new(&MachineConfig::default());
        assert_eq!(memory.access(0, false, 0), 2 * T14 + BURST);
        assert_eq!(memory.access(2, false, 10_000), T14 + BURST);
        // Same bank, another row: 16 banks, 128 columns, 2 channels; row 1 of bank 0 is index 17.
        let other = 17 << 8;
        assert_eq!(memory.access(other, false, 20_000), 3 * T14 + BURST);
    }

    #[test]
    fn nvm_is_twice_as_slow_as_dram() {
        let mut memory = Memory::new(&MachineConfig::default());
        let dram = memory.access(0, false, 0);
        let nvm = memory.access(NVM_LINE, false, 0);
        assert_eq!(
            nvm,
            2 * 106 + 31,
            "28 clocks are 105.02 cycles, 8 are 30.005, rounded up"
        );
        assert!(nvm.abs_diff(2 * dram) <= 3, "rounding up only");
    }

    #[test]
    fn a_busy_bank_makes_the_next_request_wait() {
        let mut memory = Memory::new(&MachineConfig::default());
        let alone = memory.access(0, false, 0);
        let behind = memory.access(2, false, 0);
        assert_eq!(behind, alone + BURST, "row hits stream at the bus's rate");
    }

    #[test]
    fn a_request_from_a_clock_behind_waits_for_work_and_not_for_the_distance() {
        let mut memory = Memory::new(&MachineConfig::default());
        let alone = memory.access(0, false, 10_000);
        assert!(memory.access(2, false, 9_000) <= alone + BURST);
    }
}
