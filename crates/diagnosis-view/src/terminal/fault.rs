// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The party whose fault a finding is, in a few words: the host, the VMM, the guest, another VM,
//! a limit.

use steady_diagnose::{CauseId, Finding, FindingId};

use super::table_words;
use super::words::{is_in_losses, main_culprit};

/// The party whose fault it is, most likely.
#[must_use]
pub fn fault(finding: &Finding) -> String {
    let (who, permille) = main_culprit(finding).unwrap_or_default();
    assert!(permille <= 1000, "a part of the whole");
    let many = permille < 500;
    match finding.cause {
        _ if who.is_empty() => of_cause(finding).to_owned(),
        CauseId::OtherVm if many => format!("other VMs ({who} and others)"),
        CauseId::OtherVm => format!("another VM ({who})"),
        CauseId::OwnVmm => format!("its own VMM ({who})"),
        CauseId::Recorder => format!("the recording ({who})"),
        _ if many => format!("the host ({who} and others)"),
        _ => format!("the host ({who})"),
    }
}

fn of_cause(finding: &Finding) -> &'static str {
    table_words::placed(finding)
        .map(|(fault, _)| fault)
        .or_else(|| of_wait(finding))
        .or_else(|| of_vmm_or_guest(finding.cause))
        .or_else(|| of_log(finding.cause))
        .unwrap_or("not shown")
}

fn of_wait(finding: &Finding) -> Option<&'static str> {
    Some(match finding.cause {
        CauseId::Untold if is_in_losses(finding) => "not known, as events were lost",
        CauseId::OtherVm => "another VM",
        CauseId::OwnVm if finding.id == FindingId::ServerWaits => "the VM's own vCPUs",
        CauseId::OwnVm => "the VM's own vCPUs, on too few pCPUs",
        CauseId::Stacked => "the host's scheduler, which has its vCPUs on the same pCPUs",
        CauseId::HostTask | CauseId::Vhost => "a thread of the host",
        CauseId::OwnVmm => "its own VMM",
        CauseId::Interrupts | CauseId::HostInterrupts | CauseId::InterruptLoad => {
            "the host's interrupts"
        }
        CauseId::PassedThrough => "a device that is passed through",
        CauseId::Poller | CauseId::Recorder => "a thread of the host",
        CauseId::CpuMax | CauseId::Quota => "its limit (cpu.max)",
        CauseId::IdleBeside => "not known, its pCPU was idle",
        CauseId::Imbalance => "a pin, or the host's scheduler",
        CauseId::WakingPcpu => "the host's idle pCPUs, which wake late",
        CauseId::TooManyVcpus | CauseId::HostFull => "the host, with too few pCPUs",
        CauseId::StoodStill | CauseId::HostStopped => "firmware, or what is below the host",
        CauseId::RealTimeTasks => "real-time tasks",
        CauseId::CoreScheduling => "core scheduling",
        _ => return None,
    })
}

fn of_vmm_or_guest(cause: CauseId) -> Option<&'static str> {
    Some(match cause {
        CauseId::VmmHolds
        | CauseId::DirtyRing
        | CauseId::VmmSleeps
        | CauseId::UserDevice
        | CauseId::VmmIo => "its VMM",
        CauseId::MemoryReturns | CauseId::MappingMemory | CauseId::WriteProtected => {
            "the host's memory"
        }
        CauseId::KernelWait | CauseId::KernelWork | CauseId::KvmWork => "the host's kernel",
        CauseId::KernelDevice | CauseId::Handling | CauseId::ExitRate => "the guest, or KVM",
        CauseId::OwnIpis
        | CauseId::GuestTicks
        | CauseId::GuestTimers
        | CauseId::Delay
        | CauseId::SpinningProgram => "the guest",
        CauseId::SchedulerOrder | CauseId::AnyReady | CauseId::PassedOver => {
            "KVM and the host's scheduler"
        }
        CauseId::UnmarkedByKvm => "KVM",
        CauseId::ReceiverDescheduled
        | CauseId::HolderDescheduled
        | CauseId::OwnerDescheduled
        | CauseId::WrongRunner
        | CauseId::AbsentTargets => "the host, which keeps another vCPU off its pCPU",
        CauseId::SlowTargets => "the CPUs that have to answer",
        _ => return None,
    })
}

fn of_log(cause: CauseId) -> Option<&'static str> {
    Some(match cause {
        CauseId::WaitsForShootdown | CauseId::WaitsForIpi | CauseId::CpuStoodStill => {
            "a vCPU off its pCPU, if a guest wrote it"
        }
        CauseId::WaitsForLock => "the lock's holder, in a guest off its pCPU",
        CauseId::WaitsForOwner => "the task that has the lock",
        CauseId::WaitsForIo | CauseId::IoPressure => "slow storage or network",
        CauseId::TimerWork => "timers",
        CauseId::ClockDisturbed => "a clock, or the host",
        CauseId::MemoryPressure => "too little memory",
        CauseId::SplitLocks => "a program with split locks",
        CauseId::HotProcessor => "heat, or a power limit",
        _ => return None,
    })
}
