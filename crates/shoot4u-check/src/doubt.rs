// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a trace may not be enough for a verdict.

use std::fmt;

use serde::Serialize;

use crate::event::Stamped;

/// What is wrong with a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DoubtKind {
    /// Events were lost, or the trace was cut off or is damaged; the count is of lost events as
    /// far as they were counted, at least 1.
    Lost,
    /// Events of one CPU go backwards in time.
    OutOfOrder,
    /// A vCPU entered guest mode while it, or another on the same pCPU, was still in it.
    MissingExit,
    /// A vCPU left guest mode that was not in it.
    MissingEntry,
    /// The host recorded something on a pCPU that was in guest mode all the while.
    BusyInGuestMode,
    /// A target or an end belongs to a call whose begin is missing.
    MissingCall,
    /// Calls name more or fewer targets than have events.
    TargetsUnseen,
    /// A call's end counts other targets as left than have events.
    LeftUnseen,
    /// Targets whose thread the trace never names, while a vCPU of their number ran.
    StrayThread,
    /// Threads that the trace says belong to two vCPUs.
    TwoVcpus,
    /// Events of a pCPU that was not expected.
    UnknownPcpu,
    /// No call was completed.
    NoCalls,
    /// Calls were completed, but no VM entry was recorded.
    NoEntries,
}

impl DoubtKind {
    /// True if what is missing could make a sound run look like a violation.
    #[must_use]
    pub fn excuses_violations(self) -> bool {
        matches!(
            self,
            Self::Lost
                | Self::OutOfOrder
                | Self::MissingExit
                | Self::MissingEntry
                | Self::BusyInGuestMode
                | Self::MissingCall
                | Self::TwoVcpus
        )
    }

    fn text(self) -> &'static str {
        match self {
            Self::Lost => "events lost or cut off (record with larger buffers: trace-cmd -b)",
            Self::OutOfOrder => "events that go backwards in time on their CPU",
            Self::MissingExit => "VM entries with the VM exit before them missing",
            Self::MissingEntry => "VM exits with the VM entry before them missing",
            Self::BusyInGuestMode => {
                "events of the host on a pCPU that was in guest mode all the while"
            }
            Self::MissingCall => "events of calls whose begin is missing",
            Self::TargetsUnseen => "calls whose number of targets differs from their events",
            Self::LeftUnseen => "calls whose number of left targets differs from their events",
            Self::StrayThread => {
                "targets whose thread the trace never names (record kvm_shoot4u_flush from before \
                 the VM starts)"
            }
            Self::TwoVcpus => "threads that belong to two vCPUs",
            Self::UnknownPcpu => "pCPUs that were not expected",
            Self::NoCalls => "no completed call in the trace (is the remedy on?)",
            Self::NoEntries => "calls, but no VM entries (record kvm_entry and kvm_exit too)",
        }
    }
}

/// One kind of doubt, how often, and where first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Doubt {
    /// What is wrong.
    pub kind: DoubtKind,
    /// How often.
    pub count: u64,
    /// The event at which it showed first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<Stamped>,
    /// What the reader of the trace said about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.count, self.kind.text())?;
        if let Some(note) = &self.note {
            write!(f, "; {note}")?;
        }
        if let Some(first) = &self.first {
            write!(f, "; first at {first}")?;
        }
        Ok(())
    }
}
