// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One long stall: a wait, a sleep or an exit of 100 ms and more is felt by users of the guest,
//! whatever its share of the trace.
//!
//! A stall that another finding of its VM is about is left to that one.

use super::limits::idle_beside;
use super::slow::{is_interrupt_name, is_io, is_memory};
use super::stacked::of_siblings;
use super::steal::{cause_of_kind, unseen};
use super::{Context, step};
use crate::model::{
    CauseId, Confidence, Culprit, Evidence, EvidenceId, Finding, FindingId, Instance, Severity,
    Sharpener, StallRow, Step, StepId, TraceDiagnosis,
};
use crate::role::{Role, role_of};
use crate::spread::total;

/// From this length on a stall is severe, in nanoseconds.
const LONG_NS: u64 = 1_000_000_000;
/// A guest's kernel reports a soft lockup after twice its `watchdog_thresh`, which counts seconds
/// (`kernel/watchdog.c`, Linux 6.12).
const WATCHDOG_NS: u64 = 2_000_000_000;

/// The longest stall of the VM that no other finding is about.
pub fn longest(context: &Context<'_>, others: &[Finding]) -> Option<Finding> {
    if !context.trace.clock_is_ns {
        return None;
    }
    let stalls = context.vm.stalls.iter();
    let own =
        |row: &&StallRow| !is_told(context, row, others) && !in_silence(context.trace, &row.at);
    // What was seen comes before what may have been.
    let seen = stalls.clone().filter(|row| row.kind != "in-loss");
    let mut own = seen
        .chain(stalls.filter(|row| row.kind == "in-loss"))
        .filter(own);
    let longest = own.next()?;
    if longest.kind == "in-loss" {
        return Some(in_loss(context, longest));
    }
    let more = u64::try_from(own.count()).unwrap_or(u64::MAX);
    let length_ns = longest.at.length_ns;
    let cause = match cause(longest) {
        CauseId::CpuMax => idle_beside(context).0,
        CauseId::OwnVm => of_siblings(context),
        other => other,
    };
    let mut finding = context.finding(FindingId::LongStall, length_ns, cause);
    finding.of = Some(longest.kind.clone());
    finding.severity = match length_ns {
        LONG_NS.. => Severity::Severe,
        _ => Severity::Major,
    };
    finding.evidence.push(
        Evidence::new(EvidenceId::StallLength)
            .ns("length", length_ns)
            .maybe_named("reason", longest.after.as_deref()),
    );
    if length_ns >= WATCHDOG_NS {
        let seconds = Evidence::new(EvidenceId::StallWatchdog);
        finding
            .evidence
            .push(seconds.count("thresh", length_ns / WATCHDOG_NS));
    }
    if more > 0 {
        let others = Evidence::new(EvidenceId::StallOthers).count("more", more);
        finding.evidence.push(others);
    }
    finding.culprits = culprit(longest).into_iter().collect();
    finding.confidence = confidence(context, longest, cause);
    let unseen = unseen(context);
    if longest.kind == "ready" && !unseen.is_empty() {
        finding.confidence = finding.confidence.min(Confidence::Medium);
        finding.evidence.extend(unseen);
    }
    finding.worst = Some(longest.at.clone());
    finding.next = vec![next(longest, cause)];
    Some(finding)
}

/// What to do about a stall.
fn next(longest: &StallRow, cause: CauseId) -> Step {
    match cause {
        CauseId::MemoryReturns => step(StepId::StopReclaim),
        CauseId::VmmIo => step(StepId::LookAtStorage),
        CauseId::KernelWait | CauseId::KernelWork => step(StepId::LookAtStack),
        CauseId::UserDevice => step(StepId::LookAtVmm),
        CauseId::VmmHolds | CauseId::SleepNotShown | CauseId::DirtyRing => {
            step(StepId::LookAtVmmJobs)
        }
        CauseId::OtherVm => step(StepId::ShareOrSplit),
        CauseId::OwnVm | CauseId::Stacked => step(StepId::PartVcpus),
        CauseId::CpuMax => step(StepId::RaiseCpuMax),
        CauseId::IdleBeside => step(StepId::LookAtIdle),
        CauseId::OwnVmm => step(StepId::MoveServer).named(longest.name.as_deref()),
        CauseId::HostTask if longest.name.as_deref().is_some_and(is_kernels) => {
            step(StepId::FindKernelWork).named(longest.name.as_deref())
        }
        CauseId::Poller => step(StepId::LeavePoller).named(longest.name.as_deref()),
        CauseId::Recorder => step(StepId::RecordLess).named(longest.name.as_deref()),
        CauseId::PassedThrough => step(StepId::PostInterrupts),
        CauseId::Vhost => step(StepId::MoveVhost).named(longest.name.as_deref()),
        CauseId::HostTask => step(StepId::MoveHostTask).named(longest.name.as_deref()),
        CauseId::Interrupts => step(StepId::MoveInterrupts),
        CauseId::Handling => {
            step(StepId::LookAtGuest).named(longest.name.as_deref().or(longest.after.as_deref()))
        }
        _ => step(StepId::RecordScheduler),
    }
}

/// Whether a thread is one of the kernel's whose work comes from somewhere.
fn is_kernels(name: &str) -> bool {
    matches!(role_of(name), Role::Kernel(_))
}

/// What may have been a long wait: events were lost before it ended.
fn in_loss(context: &Context<'_>, row: &StallRow) -> Finding {
    let length_ns = row.at.length_ns;
    let mut finding = context.finding(FindingId::LongStall, 0, CauseId::Untold);
    finding.of = Some(row.kind.clone());
    finding.severity = Severity::Major;
    finding.confidence = Confidence::Low;
    finding.at_most_ns = Some(length_ns);
    let waits = context.vm.waits.as_ref();
    finding.evidence.push(super::in_losses(waits, length_ns));
    finding.worst = Some(row.at.clone());
    finding.next = vec![step(StepId::LargerBuffers)];
    finding.sharper_with.push(Sharpener::LostEvents);
    finding
}

/// Whether a finding of the same VM is about this kind of time.
fn is_told(context: &Context<'_>, row: &StallRow, others: &[Finding]) -> bool {
    let own =
        |finding: &&Finding| finding.vm.as_ref() == Some(&context.vm.name) || finding.vm.is_none();
    let of_it = |finding: &&Finding| finding.vcpu.is_none() || finding.vcpu == row.at.vcpu;
    others.iter().filter(own).filter(of_it).any(|finding| {
        match (row.kind.as_str(), finding.id) {
            ("ready" | "in-loss", FindingId::Steal | FindingId::HostOvercommitted)
            | ("uninterruptible", FindingId::Uninterruptible)
            | ("asleep", FindingId::Asleep) => true,
            ("exit", FindingId::SlowExits) => finding.of == row.after,
            // The exit only lasted while its thread slept or waited for a disk.
            ("exit", FindingId::Uninterruptible | FindingId::Asleep) => false,
            _ => false,
        }
    })
}

/// Whether the whole host was silent for most of an instance.
pub fn in_silence(trace: &TraceDiagnosis, at: &Instance) -> bool {
    let silent = trace.host.iter().flat_map(|host| &host.silent);
    let overlap = |other: &Instance| {
        let end = |of: &Instance| of.begin_ns.saturating_add(of.length_ns);
        let begin_ns = other.begin_ns.max(at.begin_ns);
        end(other).min(end(at)).saturating_sub(begin_ns)
    };
    let most = (at.length_ns / 5 * 4).max(1);
    trace.clock_is_ns && silent.map(overlap).any(|ns| ns >= most)
}

fn cause(row: &StallRow) -> CauseId {
    let after = row.after.as_deref().unwrap_or_default();
    match row.kind.as_str() {
        "ready" => cause_of_kind(row.culprit.as_deref().unwrap_or_default()),
        "uninterruptible" if is_memory(after) => CauseId::MemoryReturns,
        "uninterruptible" if is_io(after) => CauseId::VmmIo,
        "uninterruptible" => CauseId::KernelWait,
        "asleep" => CauseId::SleepNotShown,
        _ => match row.culprit.as_deref() {
            Some("DIRTY_RING_FULL") => CauseId::DirtyRing,
            Some("INTR") => CauseId::VmmHolds,
            Some(_) => CauseId::UserDevice,
            None if is_io(after) => CauseId::UserDevice,
            // Interrupts are shorter: the host's kernel did something else then.
            None if is_interrupt_name(after) => CauseId::KernelWork,
            None => CauseId::Handling,
        },
    }
}

fn culprit(row: &StallRow) -> Option<Culprit> {
    let kind = match row.kind.as_str() {
        "ready" => row.culprit.clone().unwrap_or_default(),
        "asleep" => "waker".to_owned(),
        // What an exit was about is not always shown.
        "exit" | "cut-off" if row.name.is_some() => "exit".to_owned(),
        _ => return None,
    };
    Some(Culprit {
        kind,
        name: row.name.clone(),
        ns: row.at.length_ns,
        permille: 1000,
    })
}

/// One stall is one event: that it was so is shown, and why it was can only be inferred, but for
/// who ran.
fn confidence(context: &Context<'_>, row: &StallRow, cause: CauseId) -> Confidence {
    let waits = context.vm.waits.as_ref();
    let unplaced_ns = waits.map_or(0, |waits| waits.unplaced_ns);
    let may_be_own_vmm = unplaced_ns >= row.at.length_ns / 2;
    match cause {
        CauseId::Untold | CauseId::SleepNotShown | CauseId::KernelWait | CauseId::KernelWork => {
            Confidence::Low
        }
        // That its VM was stopped, or went away, would look alike.
        _ if row.kind == "cut-off" => Confidence::Low,
        _ if row.kind != "ready" => Confidence::Medium,
        // A limit or another VM may look alike.
        CauseId::CpuMax
        | CauseId::IdleBeside
        | CauseId::OtherVm
        | CauseId::OwnVm
        | CauseId::Stacked
        | CauseId::Poller
        | CauseId::PassedThrough => Confidence::Medium,
        // A limit and a neighbour that runs meanwhile look alike.
        _ if !row.shown => Confidence::Medium,
        _ => match waits {
            Some(waits)
                if total([waits.assumed_ns, waits.unknown_ns]) == 0
                    && waits.priority.is_none()
                    && !may_be_own_vmm =>
            {
                Confidence::High
            }
            _ => Confidence::Medium,
        },
    }
}
