// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the complaints of one kind are as a finding: its cause, its evidence, and what to do.

use steady_diagnose::{
    CauseId, Confidence, Evidence, EvidenceId, Finding, FindingId, Severity, Step, StepId,
};

use super::Complaints;
use super::complaint::Of;
use super::stack::is_of_nfs;
use crate::draft::{Draft, finding, quoted, step};
use crate::kind::RECORD;
use crate::table::Side;

/// CPUs that a finding names.
const CPUS_NAMED: usize = 8;

/// The cause of those that have the same whatever stack follows.
fn fixed(of: Of) -> Option<CauseId> {
    Some(match of {
        Of::Clocksource => CauseId::ClockDisturbed,
        Of::SplitLock => CauseId::SplitLocks,
        Of::Hot => CauseId::HotProcessor,
        Of::RealTime => CauseId::RealTimeTasks,
        Of::Storage | Of::Failed => CauseId::IoPressure,
        Of::Memory => CauseId::MemoryPressure,
        // It is switched off when almost all of 100,000 had no handler.
        Of::Irq => CauseId::InterruptLoad,
        Of::Hog => CauseId::KernelWork,
        Of::Suspended => CauseId::HostStopped,
        // What follows is the stack of the owner.
        Of::Owned => CauseId::WaitsForOwner,
        _ => return None,
    })
}

pub(super) fn found(of: Of, complaints: &Complaints, side: Side, machine: Option<&str>) -> Finding {
    let most = complaints.waits.iter().max_by_key(|(_, times)| **times);
    let (cause, function, caller) = match (fixed(of), most) {
        (Some(cause), _) => (cause, None, None),
        (None, Some((wait, _))) => wait.clone(),
        (None, None) => (CauseId::NoStack, None, None),
    };
    let known = !matches!(
        cause,
        CauseId::NoStack | CauseId::KernelWork | CauseId::ClockDisturbed
    );
    let sure = if known {
        Confidence::Medium
    } else {
        Confidence::Low
    };
    let mut made = finding(FindingId::KernelComplaint, cause)
        .of(of.words())
        .lost(0, complaints.longest_ns.unwrap_or(0))
        .severity(match of {
            Of::LateTimer | Of::Hog => Severity::Minor,
            _ if !of.is_stall() || of == Of::Network => Severity::Major,
            _ => Severity::Severe,
        })
        .sure(sure);
    if let Some((number, text)) = &complaints.first {
        made = made.with(
            Evidence::new(EvidenceId::LogLine)
                .number("line", *number)
                .named("text", text),
        );
    }
    if let Some(function) = &function {
        made = made.with(
            Evidence::new(EvidenceId::LogStack)
                .named("function", function)
                .maybe_named("caller", caller.as_deref()),
        );
    }
    let cpus = u64::try_from(complaints.cpus.len()).unwrap_or(u64::MAX);
    let mut which: Vec<String> = complaints
        .cpus
        .iter()
        .take(CPUS_NAMED)
        .map(u32::to_string)
        .collect();
    if complaints.cpus.len() > which.len() {
        which.push("others".to_owned());
    }
    made = made.with(
        Evidence::new(EvidenceId::LogTimes)
            .count("times", complaints.times)
            .maybe_count("cpus", (cpus > 0).then_some(cpus))
            .maybe_named("which", (cpus > 0).then_some(&which.join(", ")))
            .maybe_named("machine", machine)
            .maybe_named("side", (side != Side::Unknown).then(|| side.word()))
            .maybe_ns("longest", complaints.longest_ns),
    );
    let first = complaints.first.as_ref();
    let first = first.map_or("", |(_, line)| line.as_str());
    made.next
        .extend(look(of, cause, function.as_deref(), first));
    steps(made, of, cause, side)
}

/// Where to look first.
fn look(of: Of, cause: CauseId, function: Option<&str>, line: &str) -> Option<Step> {
    let ask = |command: &str| Some(step(StepId::AskTool, Some(command)));
    let id = match of {
        Of::SplitLock => StepId::FindSplitLocks,
        Of::Hot => StepId::CoolProcessor,
        Of::RealTime => StepId::FindRealTime,
        Of::Storage => StepId::LookAtStorage,
        Of::Memory => StepId::StopReclaim,
        Of::Suspended => return ask("journalctl -b -t systemd-sleep"),
        Of::Irq => return ask("cat /proc/interrupts"),
        Of::Failed => {
            let disk = line.split_once(" dev ").map_or("", |(_, disk)| disk);
            let disk = disk.split([',', ' ']).next().unwrap_or_default();
            return match disk.starts_with("vd") {
                true => ask("virsh domblkerror DOMAIN"),
                false => ask(&format!("smartctl -x /dev/{}", quoted(disk))),
            };
        }
        _ if function.is_some_and(is_of_nfs) => return ask("nfsiostat 1 10"),
        _ if cause == CauseId::WaitsForIo => StepId::LookAtStorage,
        _ => return None,
    };
    Some(step(id, None))
}

/// What to do: the host's trace shows whether the awaited vCPU was off its pCPU.
fn steps(mut made: Finding, of: Of, cause: CauseId, side: Side) -> Finding {
    if side == Side::Host && !of.is_stall() && of != Of::Clocksource {
        return made;
    }
    let of_cpus = matches!(
        cause,
        CauseId::WaitsForShootdown
            | CauseId::WaitsForIpi
            | CauseId::WaitsForLock
            | CauseId::CpuStoodStill
    );
    // There is no host below that could be recorded, and what the other CPUs did is not in it.
    if side == Side::Host && of_cpus {
        made.next.push(step(StepId::AllBacktraces, None));
        return made;
    }
    made = made.then(StepId::RecordWhile, RECORD);
    if side == Side::Host {
        return made;
    }
    match cause {
        CauseId::WaitsForShootdown | CauseId::WaitsForIpi => {
            made.next.push(step(StepId::PvFlush, None));
        }
        CauseId::WaitsForLock => made.next.push(step(StepId::PvSpinlocks, None)),
        _ => {}
    }
    made
}
