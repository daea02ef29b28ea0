// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the checker takes in: the trace events of Shoot4U, and VM entries and exits.
//!
//! The numbers are those of the kernel's trace events (`kvm_shoot4u:*`, `kvm:kvm_entry`,
//! `kvm:kvm_exit`).

use std::fmt;

use serde::Serialize;

/// A vCPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct VcpuId {
    /// The VMM's process id.
    pub vm: u32,
    /// KVM's `vcpu_id`.
    pub vcpu: u32,
}

impl fmt::Display for VcpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vCPU {} of VM {}", self.vcpu, self.vm)
    }
}

/// Guest-virtual addresses from `start` up to `end`, which is not in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Range {
    /// The first byte.
    pub start: u64,
    /// One behind the last byte.
    pub end: u64,
}

impl Range {
    /// The whole address space, as the kernel writes it: 0 to `u64::MAX`.
    pub const WHOLE: Self = Self {
        start: 0,
        end: u64::MAX,
    };

    /// True for the whole address space.
    #[must_use]
    pub fn is_whole(self) -> bool {
        self == Self::WHOLE
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_whole() {
            f.write_str("everything")
        } else {
            write!(f, "{:#x}..{:#x}", self.start, self.end)
        }
    }
}

/// What was done for one target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Its pCPU is interrupted and invalidates.
    Ipi,
    /// A request was queued and the target kicked out of guest mode.
    Kicked,
    /// A request was queued; the target was not in guest mode.
    Queued,
    /// Left to the caller, which interrupts it in the guest.
    Left,
    /// It has never run.
    NeverRan,
    /// The caller itself.
    Own,
}

impl Action {
    fn text(self) -> &'static str {
        match self {
            Self::Ipi => "its pCPU is interrupted",
            Self::Kicked => "request queued, kicked",
            Self::Queued => "request queued, not kicked",
            Self::Left => "left to the caller",
            Self::NeverRan => "never ran",
            Self::Own => "the caller itself",
        }
    }
}

/// What a flush of KVM's own flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlushKind {
    /// All contexts of the vCPU on this pCPU.
    All,
    /// The current root: on VMX by EPT pointer, so not surely all of the vCPU's entries.
    Current,
    /// The current guest context, which may be a nested guest's.
    Guest,
    /// A new ASID was taken: what the old one tagged is out of reach.
    NewAsid,
    /// Done by the VMRUN that follows: what the ASID tags on this pCPU.
    Vmrun,
}

impl FlushKind {
    /// True if surely nothing that the vCPU cached on the pCPU before can be used afterwards.
    #[must_use]
    pub fn is_whole(self) -> bool {
        matches!(self, Self::All | Self::NewAsid | Self::Vmrun)
    }

    fn text(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Current => "the current root",
            Self::Guest => "the current guest context",
            Self::NewAsid => "new ASID",
            Self::Vmrun => "by VMRUN",
        }
    }
}

/// One event. `pcpu` is the kernel's `vcpu->cpu` at that moment, `None` for -1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the fields are those of the trace events")]
pub enum Event {
    /// A vCPU is about to enter guest mode on the pCPU that recorded this.
    Entry { vcpu: VcpuId },
    /// It has left guest mode.
    Exit { vcpu: VcpuId },
    /// An entry of a thread of which the trace never says what VM it belongs to.
    StrayEntry { vcpu: u32 },
    /// A call began; the guest has changed its page tables before.
    Call {
        initiator: VcpuId,
        call: u64,
        freed: bool,
        range: Range,
        targets: u32,
    },
    /// One target of a call was dealt with.
    Target {
        target: VcpuId,
        call: u64,
        pcpu: Option<u32>,
        action: Action,
    },
    /// Entries were invalidated.
    Invalidate {
        vcpu: VcpuId,
        tag: u32,
        pcpu: Option<u32>,
        range: Range,
    },
    /// The call returns to the guest.
    Done {
        initiator: VcpuId,
        call: u64,
        left: u32,
        ipis: u32,
    },
    /// KVM flushed for reasons of its own. `tag` is the VPID or ASID that the vCPU has now.
    Flush {
        vcpu: VcpuId,
        pcpu: Option<u32>,
        kind: FlushKind,
        tag: Option<u32>,
    },
}

/// An event with its time and the CPU that recorded it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Stamped {
    /// Nanoseconds of the trace's clock.
    pub time_ns: u64,
    /// The pCPU that recorded it.
    pub cpu: u32,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

impl fmt::Display for Stamped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (secs, nanos) = (self.time_ns / 1_000_000_000, self.time_ns % 1_000_000_000);
        write!(f, "{secs}.{nanos:09} [{:03}] {}", self.cpu, self.event)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = |pcpu: Option<u32>| match pcpu {
            Some(pcpu) => format!("pCPU {pcpu}"),
            None => "no pCPU".to_owned(),
        };
        match *self {
            Self::Entry { vcpu } => write!(f, "{vcpu} enters guest mode"),
            Self::Exit { vcpu } => write!(f, "{vcpu} leaves guest mode"),
            Self::StrayEntry { vcpu } => write!(f, "vCPU {vcpu} of an unknown VM enters"),
            Self::Call {
                initiator,
                call,
                freed,
                range,
                targets,
            } => {
                let tables = if freed { ", page tables freed" } else { "" };
                write!(
                    f,
                    "{initiator} begins call {call}: {range}{tables}, {targets} targets"
                )
            }
            Self::Target {
                target,
                call,
                pcpu,
                action,
            } => write!(
                f,
                "call {call}: target {target} on {}: {}",
                place(pcpu),
                action.text()
            ),
            Self::Invalidate {
                vcpu,
                tag,
                pcpu,
                range,
            } => write!(
                f,
                "{range} invalidated for {vcpu} under tag {tag} on {}",
                place(pcpu)
            ),
            Self::Done {
                initiator,
                call,
                left,
                ipis,
            } => write!(
                f,
                "call {call} returns to {initiator}: {left} left, {ipis} pCPUs interrupted"
            ),
            Self::Flush {
                vcpu, pcpu, kind, ..
            } => write!(f, "KVM flushes {vcpu} on {}: {}", place(pcpu), kind.text()),
        }
    }
}
