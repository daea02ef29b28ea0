// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine: every size, latency and cost, read from TOML and validated before a run.
//!
//! The defaults are the paper's Table 2; where the table is silent, the comment names the source.
//! A file gives only what differs, on top of `preset = "paper"` (the default) or `"server"`.

mod load;
mod validate;

pub use load::{load, preset_names};

use serde::{Deserialize, Serialize};

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

/// Where the pages of a workload are when a run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// Every page in NVM (paper section 3.4): the start of a program.
    Nvm,
    /// DRAM full, as after the paper's ten thousand million skipped instructions.
    Steady,
}

/// How ATTC flushes all translations of one VM (paper section 5, "TLB Flush Operations").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Flush {
    /// (i) DMA wipes the whole ATLB in the background; other VMs lose their entries too.
    Dma,
    /// (ii) The page-table walker reads and rewrites each set, dropping one VM's entries.
    Walker,
    /// (iii) A new time stamp for the VM makes its older entries invalid when they are met.
    Stamp,
}

/// Which page table HATRIC's co-tags follow; it can follow one, not both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tracks {
    /// The nested (host) page table: the paper's HATRIC.
    Host,
    /// The guest page table.
    Guest,
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

section! {
    /// One machine. Latencies are CPU cycles unless the name says otherwise.
    MachineConfig {
        /// The preset this configuration builds on: `paper` or `server`.
        preset: String = "paper".to_owned(),
        /// Virtualized or native.
        mode: Mode = Mode::Virtualized,
        /// Cache coherence by a `directory` in the L3, or by `snoop`: every L2 asked at each miss.
        protocol: Protocol = Protocol::Directory,
        /// Cores and their front end.
        core: CoreConfig = CoreConfig::default(),
        /// L1 data cache of each core.
        l1d: CacheConfig = CacheConfig { kib: 32, ways: 8, cycles: 4 },
        /// Private unified L2 of each core; holds all that L1 holds.
        l2: CacheConfig = CacheConfig { kib: 256, ways: 4, cycles: 12 },
        /// Shared L3; holds all that the private caches hold, with their directory.
        l3: CacheConfig = CacheConfig { kib: 8192, ways: 16, cycles: 42 },
        /// TLBs and page-walk caches.
        mmu: MmuConfig = MmuConfig::default(),
        /// DRAM timing.
        dram: DramConfig = DramConfig::default(),
        /// NVM latency and page migration.
        hybrid: HybridConfig = HybridConfig::default(),
        /// Costs of software shootdowns.
        shootdown: ShootdownConfig = ShootdownConfig::default(),
        /// The addressable TLB and the inverse table.
        attc: AttcConfig = AttcConfig::default(),
        /// What the other schemes add.
        rivals: RivalConfig = RivalConfig::default(),
    }
}

section! {
    /// Cores, their reorder buffers, and the scheduler that puts threads on them.
    CoreConfig {
        /// Physical cores, 1 to 128.
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
    /// L1 and 17 for L2, too much for a hit beside a 4-cycle L1D, and an L2 TLB hit costs 9 on Skylake.
    TlbConfig {
        /// Entries.
        entries: u32 = 64,
        /// Associativity, 1 to 16.
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
    }
}

section! {
    /// ATTC and the addressable TLB it shares with POM-TLB.
    AttcConfig {
        /// ATLB size, KiB; at least 1024, so that the set index holds gVA bits 25:12.
        atlb_kib: u32 = 16_384,
        /// ATLB ways of 16 bytes; a set is one 64-byte line, so 4.
        atlb_ways: u32 = 4,
        /// Second ATLB, for 2 MiB pages, KiB.
        large_atlb_kib: u32 = 4096,
        /// Inverse table size, KiB.
        invtbl_kib: u32 = 4096,
        /// Inverse table ways of 4 bytes: the most synonyms of one page.
        invtbl_ways: u32 = 4,
        /// Initiator cycles of a host update of one page (section 3.3: 500); 0 simulates the accesses.
        host_update_cycles: u32 = 500,
        /// Initiator cycles of a guest update of one page; 0 simulates the accesses, as the paper does.
        guest_update_cycles: u32 = 0,
        /// ATLB set-index bits a private TLB compares; 0 compares all. The paper's text has 18 in
        /// section 2.2 and 14 in section 4.
        match_bits: u32 = 0,
        /// A steady start finds the pages of the workload in the ATLB; false begins with empty tables.
        warm: bool = true,
        /// Whole flush.
        flush: Flush = Flush::Stamp,
        /// Pages above which a range update becomes a whole flush.
        flush_ceiling_pages: u32 = 512,
    }
}

section! {
    /// Parameters of the other schemes.
    RivalConfig {
        /// Shoot4U initiator: Table 2's virtualized initiator times 28/122, the ratio of mean
        /// latencies of Shoot4U and kvmtlb in one VM (Shoot4U paper, Table 1).
        shoot4u_initiator_cycles: u32 = 11_016,
        /// Shoot4U victim: the host's handler, so Table 2's native victim.
        shoot4u_victim_cycles: u32 = 3_500,
        /// HATRIC's side.
        hatric_tracks: Tracks = Tracks::Host,
        /// DiDi initiator: Table 2's native initiator without the victim's interrupt (16200 - 3500);
        /// the ATTC paper says that the wait remains.
        didi_initiator_cycles: u32 = 12_700,
        /// Entries of DiDi's shared directory (16 ways).
        didi_directory_entries: u32 = 32_768,
        /// Life of a SITE entry, microseconds.
        site_lease_us: u32 = 100,
        /// POM-TLB on a host update: true invalidates the one entry, as if the hypervisor knew its
        /// guest-virtual address; false flushes the VM's entries, since it does not.
        pom_precise: bool = true,
    }
}

impl MachineConfig {
    /// Number of ATLB sets of 64 bytes.
    #[must_use]
    pub fn atlb_sets(&self) -> u64 {
        u64::from(self.attc.atlb_kib) * 1024 / 64
    }

    /// Sets of the large-page ATLB.
    #[must_use]
    pub fn large_atlb_sets(&self) -> u64 {
        u64::from(self.attc.large_atlb_kib) * 1024 / 64
    }

    /// Sets of the inverse table, entries of 4 bytes.
    #[must_use]
    pub fn invtbl_sets(&self) -> u64 {
        u64::from(self.attc.invtbl_kib) * 1024 / 4 / u64::from(self.attc.invtbl_ways.max(1))
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
