// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is counted in a run. Counters only grow; a measurement is a difference of two.

/// Declares a set of counters with a difference.
macro_rules! counters {
    ($(#[$doc:meta])* $name:ident { $($(#[$fdoc:meta])* $field:ident,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
        pub struct $name { $($(#[$fdoc])* pub $field: u64,)* }
        impl $name {
            /// What was counted since `base`.
            #[must_use]
            pub const fn since(&self, base: &Self) -> Self {
                Self { $($field: self.$field - base.$field,)* }
            }
        }
    };
}

counters! {
    /// Counters of the machine and of what coherence does to it.
    Counts {
        /// Loads and stores.
        accesses,
        /// Instructions, loads and stores included.
        instructions,
        /// Cycles of cores while a thread was on them, summed over cores.
        core_cycles,
        /// L1 TLB misses.
        l1_tlb_misses,
        /// L2 TLB misses.
        l2_tlb_misses,
        /// Page walks.
        walks,
        /// Cycles from the start of each walk to its end.
        walk_cycles,
        /// Cycles from an L2 TLB miss to its translation, whoever gave it, waiting included.
        miss_cycles,
        /// Page-table entries read by walks.
        walk_reads,
        /// ATLB look-ups.
        atlb_lookups,
        /// ATLB look-ups that found the translation.
        atlb_hits,
        /// Pages first touched, or touched again after they were given back.
        first_touches,
        /// Stores that met a page without write permission.
        protection_faults,
        /// Stores that had to set a dirty bit.
        dirty_updates,
        /// Guest updates because of a migration.
        guest_migrations,
        /// Host updates because of a migration.
        host_migrations,
        /// Guest updates because of a system call of the program.
        program_updates,
        /// Translations revoked by updates.
        pages_revoked,
        /// Updates that ended in IPIs.
        ipi_shootdowns,
        /// Cores interrupted.
        victims,
        /// Cycles initiators spent on coherence.
        initiator_cycles,
        /// Cycles victims spent on coherence.
        victim_cycles,
        /// Whole flushes of a VM's translations on a core.
        full_flushes,
        /// TLB slots invalidated that an update had revoked.
        true_invalidations,
        /// TLB slots invalidated although no update had revoked them.
        false_invalidations,
        /// Invalidation messages sent to private TLBs by hardware.
        tlb_messages,
        /// Page migrations put off until leases ended (SITE).
        deferred,
        /// Accesses the oracle checked.
        checked,
    }
}
