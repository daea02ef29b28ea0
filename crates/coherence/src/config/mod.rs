// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine: every size, latency and cost, read from TOML and validated before a run.
//!
//! The defaults are the paper's Table 2; where the table is silent, the comment names the source.
//! A file gives only what differs, on top of a preset (`paper` if it names none).

mod load;
mod parameter;
mod validate;

pub use load::{load, overlay, preset_names};
pub use parameter::{Allowed, Parameter, Parameters, Value};
pub use validate::{LONGEST_UPDATE, bad, power_of_two, sets};

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

/// Whether the workload runs in virtual machines or on the bare host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Guest page tables below nested page tables.
    Virtualized,
    /// One page table, no hypervisor.
    Native,
}

/// How caches find out who else holds a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// The L3 knows the holders and asks only them.
    Directory,
    /// Every miss of an L2 and every upgrade asks every other core.
    Snoop,
}

/// Whether the L3 holds all that the L2s hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Inclusion {
    /// It does; what it drops, the private caches lose.
    Inclusive,
    /// It takes what the L2s drop, and gives a line up to a core that asks for it alone.
    NonInclusive,
}

/// Where the pages of a workload are when a run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// Every page in NVM (paper section 3.4): the start of a program.
    Nvm,
    /// DRAM full, as after the paper's ten thousand million skipped instructions.
    Steady,
}

/// Declares configuration sections whose absent keys take their default.
macro_rules! section {
    ($(#[$doc:meta])* $name:ident { $($(#[$fdoc:meta])* $field:ident: $type:ty = $default:expr,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name { $($(#[$fdoc])* pub $field: $type,)* }
        impl Default for $name {
            fn default() -> Self { Self { $($field: $default,)* } }
        }
    };
}

/// One machine. Latencies are CPU cycles unless the name says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default = "MachineConfig::without_schemes", deny_unknown_fields)]
pub struct MachineConfig {
    /// The preset this configuration builds on: `paper`, `server`, `sapphire-rapids`,
    /// `granite-rapids` or `zen5`.
    pub preset: String,
    /// Virtualized or native.
    pub mode: Mode,
    /// Cache coherence by a `directory` in the L3, or by `snoop`: every L2 asked at each miss.
    pub protocol: Protocol,
    /// An L3 that is `inclusive` of the L2s, or one that is `non-inclusive`: it takes what they
    /// drop.
    pub inclusion: Inclusion,
    /// Cores and their front end.
    pub core: CoreConfig,
    /// L1 data cache of each core.
    pub l1d: CacheConfig,
    /// Private unified L2 of each core; holds all that L1 holds.
    pub l2: CacheConfig,
    /// Shared L3, with the directory of the private caches.
    pub l3: CacheConfig,
    /// TLBs and page-walk caches.
    pub mmu: MmuConfig,
    /// DRAM timing.
    pub dram: DramConfig,
    /// NVM latency and page migration.
    pub hybrid: HybridConfig,
    /// What messages between cores cost.
    pub network: NetworkConfig,
    /// Costs of software shootdowns.
    pub shootdown: ShootdownConfig,
    /// What the schemes declare for themselves; in a file and in results, sections like the others.
    #[serde(skip)]
    pub schemes: Parameters,
}

impl Serialize for MachineConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("preset", &self.preset)?;
        map.serialize_entry("mode", &self.mode)?;
        map.serialize_entry("protocol", &self.protocol)?;
        map.serialize_entry("inclusion", &self.inclusion)?;
        map.serialize_entry("core", &self.core)?;
        map.serialize_entry("l1d", &self.l1d)?;
        map.serialize_entry("l2", &self.l2)?;
        map.serialize_entry("l3", &self.l3)?;
        map.serialize_entry("mmu", &self.mmu)?;
        map.serialize_entry("dram", &self.dram)?;
        map.serialize_entry("hybrid", &self.hybrid)?;
        map.serialize_entry("network", &self.network)?;
        map.serialize_entry("shootdown", &self.shootdown)?;
        self.schemes.serialize_into(&mut map)?;
        map.end()
    }
}

section! {
    /// Cores, their reorder buffers, and the scheduler that puts threads on them.
    CoreConfig {
        /// Physical cores, 1 to 192; to 128 where the L3 is inclusive.
        count: u32 = 8,
        /// Clock, MHz.
        mhz: u32 = 4000,
        /// Reorder-buffer entries (Skylake; Intel optimization manual).
        rob_entries: u32 = 224,
        /// Instructions dispatched and retired per cycle; a power of two (Skylake: 4).
        width: u32 = 4,
        /// L1D misses in flight per core (Skylake: 12 line fill buffers).
        misses_in_flight: u32 = 12,
        /// Extra cycles when another core owns the line (one more private-cache look-up).
        cache_to_cache_cycles: u32 = 20,
        /// Records of a thread's turn where threads outnumber cores. Work and not time, so that the
        /// schemes compared switch threads equally often.
        slice_records: u32 = 50_000,
        /// How far one core may run ahead of another before the other is simulated.
        lead_cycles: u32 = 200,
    }
}

section! {
    /// Size, associativity and load-to-use latency of a cache level.
    CacheConfig {
        /// Capacity, KiB.
        kib: u32 = 32,
        /// Associativity, 1 to 16.
        ways: u32 = 8,
        /// Latency from the request to the data.
        cycles: u32 = 4,
    }
}

section! {
    /// One TLB. The cycles are what a miss adds before the next level answers: Table 2 gives 9 for
    /// L1 and 17 for L2, too much for a hit beside a 4-cycle L1D, and an L2 TLB hit costs 9 on
    /// Skylake.
    TlbConfig {
        /// Entries.
        entries: u32 = 64,
        /// Associativity, 1 to 24.
        ways: u32 = 4,
        /// Cycles a miss adds.
        miss_cycles: u32 = 9,
    }
}

section! {
    /// Address translation hardware of each core.
    MmuConfig {
        /// L1 data TLB for 4 KiB pages.
        l1_4k: TlbConfig = TlbConfig { entries: 64, ways: 4, miss_cycles: 9 },
        /// L1 data TLB for 2 MiB pages.
        l1_2m: TlbConfig = TlbConfig { entries: 32, ways: 4, miss_cycles: 9 },
        /// Unified second-level TLB.
        l2: TlbConfig = TlbConfig { entries: 1536, ways: 12, miss_cycles: 17 },
        /// Levels of page tables, the guest's and the nested ones: 4, or 5 with LA57.
        levels: u32 = 4,
        /// Page-walk cache entries for each of the three upper levels, each dimension
        /// (4 ways; Intel does not publish the sizes).
        walk_cache_entries: u32 = 32,
        /// Entries of the nested TLB for guest page-table pages (4 ways; as above).
        nested_tlb_entries: u32 = 32,
        /// Page walks in flight per core (Skylake: 2).
        walkers: u32 = 2,
        /// Cycles of every page walk, whatever the caches hold; 0 simulates walks. The paper's
        /// simulator used one measured mean that it does not state (section 3.1).
        walk_cycles: u32 = 0,
        /// Guest frames of 4 KiB pages that do not stand beside their virtual neighbours', per
        /// cent; 0 gives frames out in the order of the pages, as a guest just booted does. 33 as
        /// measured in a guest of the lab that had worked (`docs/COHERENCE.md`).
        scattered_frames_percent: u32 = 33,
        /// Share of 2 MiB-aligned chunks of address space mapped by 2 MiB pages, per cent.
        large_page_percent: u32 = 0,
    }
}

section! {
    /// DDR4 timing; Table 2 gives type and tCAS-tRCD-tRP, the rest is JEDEC DDR4 x8.
    DramConfig {
        /// Transfers per microsecond (DDR4-2133); the memory clock is half of it.
        mts: u32 = 2133,
        /// Column access, memory clocks.
        cas: u32 = 14,
        /// Row to column, memory clocks.
        rcd: u32 = 14,
        /// Precharge, memory clocks.
        rp: u32 = 14,
        /// Channels.
        channels: u32 = 2,
        /// Banks of each channel.
        banks: u32 = 16,
        /// Row (page) size of a bank, bytes.
        row_bytes: u32 = 8192,
        /// Memory clocks a 64-byte burst holds the bus (BL8).
        burst_clocks: u32 = 4,
    }
}

section! {
    /// The slow tier, and what moves between the tiers.
    HybridConfig {
        /// False: DRAM only, no migration.
        enabled: bool = true,
        /// NVM latency as a multiple of DRAM's, per cent.
        nvm_latency_percent: u32 = 200,
        /// Accesses that reach memory before a page moves to DRAM.
        threshold: u32 = 10,
        /// DRAM for data, per cent of the pages mapped.
        dram_percent: u32 = 95,
        /// Migrations the guest initiates, per cent; the host initiates the others.
        guest_percent: u32 = 25,
        /// Placement at the start.
        start: Start = Start::Steady,
    }
}

section! {
    /// Messages to other cores' TLBs and their answers, interrupts included.
    NetworkConfig {
        /// Cycles of one hop of a message on the mesh of cores; an update's initiator waits until
        /// the last answer is back. 0: messages are free, as in the paper.
        hop_cycles: u32 = 0,
        /// Cycles between two answers at the initiator's port, where a hop costs something.
        port_cycles: u32 = 1,
    }
}

section! {
    /// Measured costs of IPI shootdowns (Table 2, Figure 7).
    ShootdownConfig {
        /// Initiator, virtualized.
        virtualized_initiator_cycles: u32 = 48_000,
        /// Each victim, virtualized.
        virtualized_victim_cycles: u32 = 10_300,
        /// Initiator, native.
        native_initiator_cycles: u32 = 16_200,
        /// Each victim, native.
        native_victim_cycles: u32 = 3_500,
        /// Updates of one page table wait for each other. Off in the paper: at its rates and costs
        /// the lock would be held for more than the whole run.
        serialize: bool = false,
        /// Pages above which a guest flushes everything (Linux: tlb_single_page_flush_ceiling).
        flush_ceiling_pages: u32 = 33,
        /// Cores that a shootdown interrupts, at most; 0: all others that run the VM. Figure 7 (c)
        /// has 4.1 of 7 for ferret and over 6.6 for the others.
        victims_at_most: u32 = 0,
    }
}

impl MachineConfig {
    /// The paper's machine, without any scheme's parameters.
    /// [`Registry`](crate::scheme::Registry) adds those.
    #[must_use]
    pub fn without_schemes() -> Self {
        let cache = |kib, ways, cycles| CacheConfig { kib, ways, cycles };
        Self {
            preset: "paper".to_owned(),
            mode: Mode::Virtualized,
            protocol: Protocol::Directory,
            inclusion: Inclusion::Inclusive,
            core: CoreConfig::default(),
            l1d: cache(32, 8, 4),
            l2: cache(256, 4, 12),
            l3: cache(8192, 16, 42),
            mmu: MmuConfig::default(),
            dram: DramConfig::default(),
            hybrid: HybridConfig::default(),
            network: NetworkConfig::default(),
            shootdown: ShootdownConfig::default(),
            schemes: Parameters::default(),
        }
    }

    /// What decides most of a result, in a few words for people: `virtualized, 8 cores at 3800
    /// MHz, DRAM and NVM, 25 % of migrations by the guest`.
    #[must_use]
    pub fn conditions(&self) -> String {
        let mode = match self.mode {
            Mode::Virtualized => "virtualized",
            Mode::Native => "native",
        };
        let memory = match (self.hybrid.enabled, self.mode) {
            (false, _) => "DRAM alone, no migrations".to_owned(),
            (true, Mode::Native) => "DRAM and NVM, migrations by the OS".to_owned(),
            (true, Mode::Virtualized) => {
                let percent = self.hybrid.guest_percent;
                format!("DRAM and NVM, {percent} % of migrations by the guest")
            }
        };
        let CoreConfig { count, mhz, .. } = self.core;
        let plural = if count == 1 { "" } else { "s" };
        format!("{mode}, {count} core{plural} at {mhz} MHz, {memory}")
    }

    /// Cycles in a number of microseconds.
    #[must_use]
    pub fn cycles(&self, us: u32) -> u64 {
        u64::from(us) * u64::from(self.core.mhz)
    }

    /// Initiator and victim cost of one IPI shootdown in this mode.
    #[must_use]
    pub fn ipi_costs(&self) -> (u64, u64) {
        let s = &self.shootdown;
        let (initiator, victim) = match self.mode {
            Mode::Virtualized => (s.virtualized_initiator_cycles, s.virtualized_victim_cycles),
            Mode::Native => (s.native_initiator_cycles, s.native_victim_cycles),
        };
        (u64::from(initiator), u64::from(victim))
    }
}
