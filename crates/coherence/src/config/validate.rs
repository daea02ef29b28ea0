// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Refuses machines that cannot exist, each with the key, the value and what is possible.

use super::{CacheConfig, Inclusion, MachineConfig, TlbConfig};
use crate::Error;
use crate::cores::MOST_CORES;
use crate::lines::MIN_SETS;
use crate::num::id32;
use crate::table::{MAX_WAYS, WIDEST};

/// Cycles of one update that are still believed: 25 ms at 4 GHz.
pub const LONGEST_UPDATE: u32 = 100_000_000;

/// Cores that an inclusive L3's directory knows. Larger machines have none.
const INCLUSIVE_CORES: u32 = 128;

/// The error for a key whose value is impossible, and what would be possible.
#[must_use]
pub fn bad(key: &str, value: u64, want: &str) -> Error {
    Error::Config(format!("`{key}` is {value}: expected {want}"))
}

fn range(key: &str, value: u32, low: u32, high: u32) -> Result<(), Error> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(bad(key, value.into(), &format!("{low} to {high}")))
}

/// Checks that these entries and ways make a power of two of sets.
///
/// # Errors
/// [`Error::Config`] with the key and what would be possible.
pub fn sets(key: &str, entries: u64, ways: u32) -> Result<(), Error> {
    sets_of(key, entries, ways, MAX_WAYS)
}

fn sets_of(key: &str, entries: u64, ways: u32, most: usize) -> Result<(), Error> {
    range(&format!("{key}.ways"), ways, 1, id32(most))?;
    let ways = u64::from(ways);
    if entries == 0 || !entries.is_multiple_of(ways) || !(entries / ways).is_power_of_two() {
        let want = format!("entries that {ways} ways divide into a power of two of sets");
        return Err(bad(key, entries, &want));
    }
    Ok(())
}

/// Checks for a power of two.
///
/// # Errors
/// [`Error::Config`] with the key.
pub fn power_of_two(key: &str, value: u32) -> Result<(), Error> {
    if value.is_power_of_two() {
        return Ok(());
    }
    Err(bad(key, value.into(), "a power of two"))
}

fn cache(key: &str, c: &CacheConfig) -> Result<(), Error> {
    range(&format!("{key}.kib"), c.kib, 1, 1 << 20)?;
    range(&format!("{key}.cycles"), c.cycles, 1, 10_000)?;
    let lines = u64::from(c.kib) * 16;
    sets(key, lines, c.ways)?;
    if lines / u64::from(c.ways) < MIN_SETS as u64 {
        let want = format!(
            "at least {} for {} ways: {MIN_SETS} sets",
            MIN_SETS as u64 * u64::from(c.ways) / 16,
            c.ways
        );
        return Err(bad(&format!("{key}.kib"), c.kib.into(), &want));
    }
    Ok(())
}

fn tlb(key: &str, t: &TlbConfig) -> Result<(), Error> {
    range(&format!("{key}.entries"), t.entries, 1, 1 << 20)?;
    range(&format!("{key}.miss_cycles"), t.miss_cycles, 0, 10_000)?;
    sets_of(key, t.entries.into(), t.ways, WIDEST)
}

impl MachineConfig {
    /// Checks every value and the relations between them, but for those that a scheme knows.
    ///
    /// # Errors
    /// [`Error::Config`] names the first key that is impossible and what would be possible.
    pub fn validate(&self) -> Result<(), Error> {
        self.validate_core()?;
        cache("l1d", &self.l1d)?;
        cache("l2", &self.l2)?;
        cache("l3", &self.l3)?;
        if self.l2.kib < self.l1d.kib {
            let want = format!("at least l1d.kib ({}): L2 includes L1", self.l1d.kib);
            return Err(bad("l2.kib", self.l2.kib.into(), &want));
        }
        let private = u64::from(self.l2.kib) * u64::from(self.core.count);
        let inclusive = self.inclusion == Inclusion::Inclusive;
        if inclusive && u64::from(self.l3.kib) < private {
            let want = format!(
                "at least {private}, as L3 includes the L2 of every core; \
                 else `inclusion = \"non-inclusive\"`"
            );
            return Err(bad("l3.kib", self.l3.kib.into(), &want));
        }
        if !(self.l1d.cycles < self.l2.cycles && self.l2.cycles < self.l3.cycles) {
            let want = format!(
                "more than l2.cycles ({}) and that than l1d.cycles",
                self.l2.cycles
            );
            return Err(bad("l3.cycles", self.l3.cycles.into(), &want));
        }
        self.validate_mmu()?;
        self.validate_memory()?;
        self.validate_costs()?;
        self.schemes.validate()
    }

    fn validate_core(&self) -> Result<(), Error> {
        let c = &self.core;
        range("core.count", c.count, 1, MOST_CORES)?;
        if self.inclusion == Inclusion::Inclusive && c.count > INCLUSIVE_CORES {
            let want = format!(
                "1 to {INCLUSIVE_CORES} with an inclusive L3; else `inclusion = \"non-inclusive\"`"
            );
            return Err(bad("core.count", c.count.into(), &want));
        }
        range("core.mhz", c.mhz, 100, 100_000)?;
        range("core.rob_entries", c.rob_entries, 1, 4096)?;
        range("core.width", c.width, 1, 16)?;
        power_of_two("core.width", c.width)?;
        range("core.misses_in_flight", c.misses_in_flight, 1, 64)?;
        range(
            "core.cache_to_cache_cycles",
            c.cache_to_cache_cycles,
            0,
            10_000,
        )?;
        range("core.slice_records", c.slice_records, 1, 1_000_000)?;
        range("core.lead_cycles", c.lead_cycles, 0, 100_000)
    }

    fn validate_mmu(&self) -> Result<(), Error> {
        let m = &self.mmu;
        tlb("mmu.l1_4k", &m.l1_4k)?;
        tlb("mmu.l1_2m", &m.l1_2m)?;
        tlb("mmu.l2", &m.l2)?;
        range("mmu.walk_cache_entries", m.walk_cache_entries, 4, 4096)?;
        sets("mmu.walk_cache_entries", m.walk_cache_entries.into(), 4)?;
        range("mmu.nested_tlb_entries", m.nested_tlb_entries, 4, 4096)?;
        sets("mmu.nested_tlb_entries", m.nested_tlb_entries.into(), 4)?;
        range("mmu.levels", m.levels, 4, 5)?;
        range("mmu.walkers", m.walkers, 1, 16)?;
        range("mmu.walk_cycles", m.walk_cycles, 0, 100_000)?;
        range(
            "mmu.scattered_frames_percent",
            m.scattered_frames_percent,
            0,
            100,
        )?;
        range("mmu.large_page_percent", m.large_page_percent, 0, 100)
    }

    fn validate_memory(&self) -> Result<(), Error> {
        let d = &self.dram;
        range("dram.mts", d.mts, 200, 20_000)?;
        range("dram.cas", d.cas, 1, 200)?;
        range("dram.rcd", d.rcd, 1, 200)?;
        range("dram.rp", d.rp, 1, 200)?;
        range("dram.burst_clocks", d.burst_clocks, 1, 64)?;
        for (key, value, high) in [
            ("dram.channels", d.channels, 16),
            ("dram.banks", d.banks, 256),
            ("dram.row_bytes", d.row_bytes, 65_536),
        ] {
            range(key, value, 1, high)?;
            power_of_two(key, value)?;
        }
        range("dram.row_bytes", d.row_bytes, 64, 65_536)?;
        let h = &self.hybrid;
        range(
            "hybrid.nvm_latency_percent",
            h.nvm_latency_percent,
            100,
            10_000,
        )?;
        range("hybrid.threshold", h.threshold, 1, 60_000)?;
        range("hybrid.dram_percent", h.dram_percent, 1, 100)?;
        range("hybrid.guest_percent", h.guest_percent, 0, 100)
    }

    /// Costs of updates: none takes longer than [`LONGEST_UPDATE`].
    fn validate_costs(&self) -> Result<(), Error> {
        range("network.hop_cycles", self.network.hop_cycles, 0, 10_000)?;
        range("network.port_cycles", self.network.port_cycles, 0, 10_000)?;
        let s = &self.shootdown;
        for (key, cycles) in [
            (
                "shootdown.virtualized_initiator_cycles",
                s.virtualized_initiator_cycles,
            ),
            (
                "shootdown.virtualized_victim_cycles",
                s.virtualized_victim_cycles,
            ),
            (
                "shootdown.native_initiator_cycles",
                s.native_initiator_cycles,
            ),
            ("shootdown.native_victim_cycles", s.native_victim_cycles),
        ] {
            range(key, cycles, 0, LONGEST_UPDATE)?;
        }
        Ok(())
    }
}
