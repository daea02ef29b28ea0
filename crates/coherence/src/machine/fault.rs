// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Faults planted to test the oracle and the other checks: what they do wrong is in the name.
//!
//! Each is looked at where updates, messages and refills are, never where an access hits.

/// A planted fault. Never set in an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The inverse table forgets to store pointers.
    PointerLost,
    /// A pointer displaced from the inverse table writes no set.
    EvictSilent,
    /// It writes the set, and no TLB gets the message.
    EvictUntold,
    /// A host's update follows the first pointer of a frame only.
    SynonymMissed,
    /// A guest's update writes its set only if the ATLB has the entry.
    WriteIfPresent,
    /// A TLB message does not look into the L2 TLB's set.
    SetMissed,
    /// Nor into the L1 TLB's.
    L1Missed,
    /// For a 2 MiB page it looks into the L1 TLB of 4 KiB pages.
    LargeMissed,
    /// The ATLB does not compare VM ids.
    VmIdIgnored,
    /// The ATLB serves every entry as dirty.
    AtlbDirty,
    /// The ATLB keeps the rights from before a write fault.
    RightsKept,
    /// A whole flush gives the VM's entries no new stamp.
    StampKept,
    /// What Table 4 refuses is carried out: the write gives entries another frame, and erases
    /// pointers without following them.
    Ungated,
    /// Pointers that a host's update has followed stay in the inverse table.
    PointersKept,
    /// The last core is left out of every invalidation.
    VictimSkipped,
    /// Cores without a vCPU do not see messages that name entries by tags.
    IdleSkipped,
    /// A host's flush leaves out the cores that do not run the VM now.
    PreemptedForgotten,
    /// Of a batch the last translation is not invalidated.
    LastUntold,
    /// Of two pages that change places only the one that comes to DRAM is in the batch.
    ColdUntold,
    /// Cleared dirty bits reach no core.
    CleanUntold,
    /// Cleared accessed bits reach no core.
    AgeUntold,
    /// A TLB entry is tagged with the table that its scheme does not follow.
    OtherTag,
    /// An entry that the shared directory displaces stays in the TLBs.
    DirectoryForgets,
    /// A lease that is handed out is not written down.
    LeaseLost,
    /// A frame whose page has moved stays in the data caches.
    FrameNotPurged,
    /// Walk caches and nested TLBs hear of no change of a table page.
    WalkCachesKept,
    /// Walk caches and nested TLBs hear of no table page that goes with the span that it maps.
    FreedTablesKept,
    /// A flush of a VM leaves its walk caches.
    FlushLeavesWalkCaches,
    /// A flush of a VM leaves its walk caches where no table page has changed.
    FlushSparesWalkCaches,
    /// Nested TLBs hear of no change of a table page.
    NestedKept,
    /// The nested table's walk caches hear of no change of a table page.
    HostWalksKept,
    /// Nested TLBs are filled with no pointer to their VM's walk line.
    TablePointerLost,
    /// A write of a walk line names another VM.
    OtherWalkLine,
    /// Frames of an update that was put off may be used again at once.
    FrameReused,
    /// An update that takes rights is put off as one that frees pages.
    RightsPutOff,
    /// A page of an update that was put off is mapped again, and no core hears of it.
    MappedAgainUntold,
    /// An update that finds its core's ring full takes the place of the oldest.
    RingOverrun,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Self; 37] = [
        Self::PointerLost,
        Self::EvictSilent,
        Self::EvictUntold,
        Self::SynonymMissed,
        Self::WriteIfPresent,
        Self::SetMissed,
        Self::L1Missed,
        Self::LargeMissed,
        Self::VmIdIgnored,
        Self::AtlbDirty,
        Self::RightsKept,
        Self::StampKept,
        Self::Ungated,
        Self::PointersKept,
        Self::VictimSkipped,
        Self::IdleSkipped,
        Self::PreemptedForgotten,
        Self::LastUntold,
        Self::ColdUntold,
        Self::CleanUntold,
        Self::AgeUntold,
        Self::OtherTag,
        Self::DirectoryForgets,
        Self::LeaseLost,
        Self::FrameNotPurged,
        Self::WalkCachesKept,
        Self::FreedTablesKept,
        Self::FlushLeavesWalkCaches,
        Self::FlushSparesWalkCaches,
        Self::NestedKept,
        Self::HostWalksKept,
        Self::TablePointerLost,
        Self::OtherWalkLine,
        Self::FrameReused,
        Self::RightsPutOff,
        Self::MappedAgainUntold,
        Self::RingOverrun,
    ];
}
