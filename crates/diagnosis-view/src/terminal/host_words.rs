// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Words for findings about the whole host, long stalls, sleep outside halts, threads that serve a
//! VM, and storms of exits.

use steady_diagnose::{
    Assumption, CauseId, CheckId, Diagnosis, EvidenceId, Finding, FindingId, Quantity, Role,
    Sharpener, StepId, TraceDiagnosis, Work, role_of,
};

use super::names::{file_name, title_name};
use super::time;

/// How long it was where it was worst; of a wait that began before the trace, at least.
#[must_use]
pub fn length(finding: &Finding) -> String {
    let length_ns = finding.worst.as_ref().map_or(0, |worst| worst.length_ns);
    let mut evidence = finding.evidence.iter();
    let longer = evidence.any(|of| {
        of.id == EvidenceId::FromBegin && of.value("length") == Some(&Quantity::Ns(length_ns))
    });
    time(length_ns) + if longer { " or more" } else { "" }
}

/// What can be seen.
#[must_use]
pub fn symptom(finding: &Finding) -> Option<String> {
    let of = finding.of.as_deref().unwrap_or_default();
    let length = length(finding);
    Some(match finding.id {
        FindingId::HostOvercommitted => "vCPUs are ready and do not run".to_owned(),
        FindingId::HostStoodStill => {
            format!("all pCPUs recorded nothing for {length} while vCPUs ran")
        }
        FindingId::LongStall => {
            let what = match of {
                "cut-off" => {
                    let back = "of the trace's end, and did not come back";
                    return Some(format!("a vCPU left its guest {length} ahead {back}"));
                }
                "in-loss" => "may have been ready and not run",
                "ready" => "was ready and did not run",
                "uninterruptible" => "waited in the host (D state)",
                "asleep" => "slept, its guest not halted,",
                _ => "stayed out of its guest after one exit",
            };
            format!("a vCPU {what} for {length}")
        }
        FindingId::Asleep if finding.of.as_deref() == Some("paused") => {
            "its VMM has paused it".to_owned()
        }
        FindingId::Asleep => "vCPU threads sleep though their guests have not halted".to_owned(),
        FindingId::ServerWaits if finding.cause == CauseId::KernelWait => {
            format!("{of}, which serves it, waits in the host's kernel (D state)")
        }
        FindingId::ServerWaits => {
            format!("{of}, which serves it, waits for its pCPU")
        }
        FindingId::ExitStorm => format!("exits for {of} come in a storm"),
        _ => return None,
    })
}

/// What can be seen of one vCPU.
#[must_use]
pub fn of_one(finding: &Finding, vcpu: u32) -> String {
    let what = match finding.id {
        FindingId::Steal => "is ready and does not run",
        FindingId::Asleep => "sleeps though its guest has not halted",
        FindingId::Uninterruptible => "waits in the host's kernel (D state)",
        _ => {
            let of = finding.of.as_deref().unwrap_or("unknown reason");
            return format!("exits of vCPU {vcpu} for {of} take much time");
        }
    };
    format!("vCPU {vcpu} {what}")
}

/// How many more vCPUs lose much so, beside the one that a finding is about.
#[must_use]
pub fn others(finding: &Finding) -> String {
    let mut evidence = finding.evidence.iter();
    let one = evidence.find(|of| of.id == EvidenceId::OneVcpu);
    match one.and_then(|of| of.value("more")) {
        Some(Quantity::Count(more)) if *more > 0 => {
            format!(
                ", the worst of {} vCPUs that lose a tenth and more",
                more + 1
            )
        }
        _ => String::new(),
    }
}

/// Why more vCPUs are ready than pCPUs are there, with the numbers.
#[must_use]
pub fn demand(finding: &Finding) -> String {
    let mut evidence = finding.evidence.iter();
    let demand = evidence.find(|of| of.id == EvidenceId::HostDemand);
    let of = |name: &str| match demand.and_then(|of| of.value(name)) {
        Some(Quantity::Count(number) | Quantity::Permille(number)) => *number,
        _ => 0,
    };
    let wanted = of("wanted");
    format!(
        "{} vCPUs want {}.{} of the host's {} pCPUs, and none idles: moving VMs among these gives \
         nothing",
        of("vcpus"),
        wanted / 1000,
        wanted % 1000 / 100,
        of("pcpus")
    )
}

/// Whether threads of a real-time priority ran in most of the waits of a finding.
#[must_use]
pub fn is_real_time(finding: &Finding) -> bool {
    let mut evidence = finding.evidence.iter();
    evidence.any(|of| of.id == EvidenceId::RivalRealTime)
}

/// Why, where what ran is there for that.
#[must_use]
pub fn role(cause: CauseId, who: &str) -> String {
    match cause {
        CauseId::Poller => format!(
            "{who} ran instead, which polls its pCPU on purpose and never sleeps, as OVS, DPDK, \
             VPP and SPDK do"
        ),
        _ => format!("{who} ran instead, which records: the recording itself takes the time"),
    }
}

/// What to do about a thread of the kernel that has much work.
#[must_use]
pub fn work(name: &str) -> String {
    let Role::Kernel(work) = role_of(name) else {
        return format!("see what gives {name} its work");
    };
    let what = match work {
        Work::Power => "a limit of heat or power (turbostat, powercap)",
        Work::Cpus => "CPUs that are stopped, moved or taken away",
        Work::Items => "work items (the workqueue events name their functions)",
        Work::UnboundItems => {
            "work items (the workqueue events name their functions); \
             /sys/devices/virtual/workqueue/cpumask keeps them off pCPUs"
        }
        Work::Timers => "timers of that pCPU (the timer events)",
        Work::Rcu | Work::RcuOfOne => "RCU callbacks (rcu_nocbs= has them elsewhere)",
        Work::Reclaim => "too little free memory (vmstat, memory.pressure)",
        Work::Compaction => "huge pages from memory in pieces (vm.compaction_proactiveness)",
        Work::HugePages => "/sys/kernel/mm/transparent_hugepage/khugepaged/pages_to_scan",
        Work::SamePages => "KSM (/sys/kernel/mm/ksm/pages_to_scan and run)",
        Work::NxPages => "kvm.nx_huge_pages_recovery_ratio",
        Work::Raid => "a check, a rebuild or writes (/proc/mdstat, sync_speed_max)",
    };
    let moves = match work.stays() {
        true => ", as taskset does not move it",
        false => "",
    };
    format!("see what gives {name} its work{moves}: {what}")
}

/// Why.
#[must_use]
pub fn cause(cause: CauseId) -> Option<&'static str> {
    Some(match cause {
        CauseId::StoodStill => {
            "the host itself stood still: firmware, a suspended host, or a hypervisor below it"
        }
        CauseId::HostStopped => {
            "KVM answers these in microseconds: something stopped the host in them, as firmware, a \
             hypervisor below it, or interrupts that are not recorded"
        }
        CauseId::PassedThrough => {
            "interrupts of a device that is passed through to a VM (vfio) come by the host"
        }
        CauseId::VmmHolds => {
            "the VMM kept the vCPU out of its guest: a pause, a snapshot, a migration, a lock"
        }
        CauseId::DirtyRing => "the VMM collected dirty pages first, as a migration does",
        CauseId::SleepNotShown => "the trace does not show what the thread slept for",
        CauseId::ExitRate => {
            "their time is not known, but an exit takes a microsecond or more: together much time"
        }
        _ => return None,
    })
}

/// What was checked.
#[must_use]
pub fn check(id: CheckId) -> Option<&'static str> {
    Some(match id {
        CheckId::RunsItsQuota => "its vCPUs ran for as long as cpu.max lets them",
        CheckId::SleepsInVmm => "it slept after KVM had gone back to the VMM",
        _ => return None,
    })
}

/// What to do; `{}` stands for a name.
#[must_use]
pub fn step(id: StepId) -> Option<&'static str> {
    Some(match id {
        StepId::FewerVcpusOnHost => {
            "run fewer vCPUs on this host: move a VM to another host, or give VMs fewer vCPUs"
        }
        StepId::WeighVms => "say which VM goes first: cpu.weight of its cgroup, or nice",
        StepId::LookAtVmmJobs => {
            "see in the VMM's log what it did then: a pause, a snapshot, a migration (libvirt: \
             virsh domjobinfo)"
        }
        StepId::LargerDirtyRing => {
            "give dirty pages a larger ring (QEMU: -accel kvm,dirty-ring-size), or let the \
             migration take longer"
        }
        StepId::LookBelowHost => {
            "see what is below the host: firmware (SMI count: turbostat, hwlat tracer), its \
             suspension, its own hypervisor"
        }
        StepId::LeavePoller => {
            "keep vCPUs off the pCPU on which {} polls (cpuset, vcpupin, isolcpus): it is meant \
             to take all of it"
        }
        StepId::RecordLess => {
            "record fewer events with {}, or keep it off these pCPUs (taskset), and judge again: \
             without it this time is not lost"
        }
        StepId::LowerRealTime => {
            "take the real-time priority from {} (chrt), or keep other vCPUs off its pCPUs: no \
             weight (cpu.weight, nice) comes before it"
        }
        StepId::PostInterrupts => {
            "let the processor post them to the vCPU (kvm_intel.enable_apicv or kvm_amd.avic, and \
             the IOMMU), or let the device send fewer (ethtool -C in the guest)"
        }
        StepId::OffloadRcu => "keep RCU callbacks off that pCPU (rcu_nocbs=)",
        StepId::RaiseServerLimit => {
            "raise cpu.max of {}'s cgroup (libvirt: emulator_quota, or iothread_quota)"
        }
        StepId::MoveServer => "give {} a pCPU of its own (its cgroup's cpuset, or taskset)",
        StepId::RecordEntries => "record kvm_entry too, so that exits have times (steady record)",
        _ => return None,
    })
}

/// What a better recording would have had.
#[must_use]
pub fn sharpener(sharpener: Sharpener) -> &'static str {
    match sharpener {
        Sharpener::Switches => "sched_switch",
        Sharpener::Wakeups => "sched_wakeup",
        Sharpener::HostIrqs => "irq and softirq events",
        Sharpener::UserExits => "kvm_userspace_exit",
        Sharpener::Accesses => "kvm_pio, kvm_mmio, kvm_page_fault, kvm_msr",
        Sharpener::Symbols => "the guest's symbols",
        Sharpener::Probes => "the probes of `steady record`",
        Sharpener::Ipis => "kvm_apic_accept_irq",
        Sharpener::GuestTrace => "a trace of the guest of the same time",
        Sharpener::HostTrace => "a trace of the host of the same time",
        Sharpener::LostEvents => "the events that were lost",
        Sharpener::Limits => "cpu.max of the VM's cgroup (steady record notes it)",
    }
}

/// What an estimate rests on.
#[must_use]
pub fn assumption(assumption: Assumption) -> &'static str {
    match assumption {
        Assumption::AnsweredAsByRunning => {
            "vCPUs that do not run are answered for as soon as running ones answer"
        }
        Assumption::OneExitForEachIdle => "one exit is left for each idle period",
        Assumption::FirstExitEndsRun => "the first exit of each run ends the wait",
        Assumption::BoostEndsWait => "a boost that is followed ends the wait",
        Assumption::NobodyTakesItsPlace => "nothing takes its place",
        Assumption::MovesAtOnce => "they move to the idle pCPU at once",
        Assumption::NoSuchExits => "the guest then does without these exits",
        Assumption::FairShares => "others stay where they are and share their pCPU fairly",
        Assumption::IdleTimeIsUsed => "all idle time of the other pCPUs is used",
    }
}

/// The sentence of a piece of evidence.
#[must_use]
pub fn template(id: EvidenceId) -> Option<&'static str> {
    Some(match id {
        EvidenceId::PcpusUnseen => {
            "the trace has records of {seen} of {pcpus} pCPUs: a vCPU may have run on another"
        }
        EvidenceId::MayBeOwnVmm => {
            "in {share} of the waits threads ran that may be its own VMM's, by their names or \
             numbers: their processes are not known"
        }
        EvidenceId::OnlyVcpus => {
            "the trace shows only switches of vCPUs, so that who ran between them is not known: \
             record all (steady record)"
        }
        EvidenceId::PcpuSilent => {
            "in waits of {waited} their pCPU has no record for up to {length}, in which the \
             scheduler gives turns to threads of the same priority: events may be lost, or the \
             vCPU ran on a pCPU that was not recorded"
        }
        EvidenceId::FromBegin => {
            "a wait began before the trace did: it took {length} or more, as the vCPU came to run \
             then and no record wakes it before"
        }
        EvidenceId::InLosses => {
            "up to {more} more lie in losses of events[, until which {until} ran]: whether the \
             vCPU waited then is not known"
        }
        EvidenceId::ShortExcerpt => {
            "the trace lasts {length} only: what holds for it may not hold for longer"
        }
        EvidenceId::StallLength => "it lasted {length}[, after an exit for {reason}]",
        EvidenceId::StallWatchdog => {
            "long enough for a soft lockup warning of a guest whose kernel.watchdog_thresh is \
             {thresh} or less (10 unless changed: 20 s)"
        }
        EvidenceId::StallOthers => "further stalls of 100 ms and more: {more}",
        EvidenceId::AsleepTimes => "asleep {times} times for {mean} on average, {max} at most",
        EvidenceId::AsleepReasons => "by why KVM went back to the VMM: {*}",
        EvidenceId::StormRate => "{exits} exits for {reason}: {per_second} in a second",
        EvidenceId::StormPlace => "{exits} of them, {share}, at one {kind}: {at}",
        EvidenceId::ServerTimes => {
            "it waited {times} times for {mean} on average, {max} at most, before it woke a vCPU"
        }
        EvidenceId::HostDemand => {
            "{vcpus} vCPUs wanted {wanted} of one pCPU's time; there are {pcpus} pCPUs, idle \
             {idle} of theirs"
        }
        EvidenceId::HostWaits => "ready and not running: {*}",
        EvidenceId::RivalRealTime => {
            "threads of a real-time priority, or the deadline class, ran in {share} of the waits"
        }
        EvidenceId::OneVcpu => {
            "vCPU {vcpu} of {vcpus} alone; others that lose a tenth of their time so: {more}"
        }
        EvidenceId::OwnPriority => "the vCPUs' threads have {priority}",
        EvidenceId::QuotaUsed => {
            "cpu.max gives {quota} in each {period}, and the vCPUs ran {ran} of that"
        }
        _ => return None,
    })
}

/// Of which time a finding about no VM is a share.
#[must_use]
pub fn whole(finding: &Finding) -> &'static str {
    match finding.id {
        FindingId::HostOvercommitted => "the time of the host's VMs",
        _ => "the machine's time",
    }
}

/// What makes all of a trace doubtful.
#[must_use]
pub fn doubts(trace: &TraceDiagnosis) -> Vec<String> {
    let late = trace.loss.late_permille;
    let order = trace.loss.is_unordered().then(|| {
        format!(
            "{}: it is not in the order of time ({} of its events come late), so nothing of it is \
             sure: sort its lines by time, or give the trace of all pCPUs.",
            title_name(&trace.name),
            super::percent(late)
        )
    });
    clock(trace).into_iter().chain(order).collect()
}

/// That the unit of a trace's clock is not known, if it is not.
#[must_use]
pub fn clock(trace: &TraceDiagnosis) -> Option<String> {
    (!trace.clock_is_ns).then(|| {
        format!(
            "{}: its clock does not count nanoseconds and its unit is not known: shares hold, \
             lengths of time do not.",
            title_name(&trace.name)
        )
    })
}

/// That VMs were distinguished by thread ids alone, where a finding depends on it.
#[must_use]
pub fn adjacency(trace: &TraceDiagnosis, at: usize, all: &Diagnosis) -> Option<String> {
    let depends = all.findings.iter().any(|finding| {
        let by_vms = matches!(
            finding.cause,
            CauseId::OtherVm | CauseId::OwnVm | CauseId::Stacked | CauseId::TooManyVcpus
        );
        finding.trace == at && by_vms
    });
    let name = file_name(&trace.name, all);
    (depends && trace.vms_by == "adjacency").then(|| {
        format!("{name}: it does not show processes, so which threads are one VM is a guess.")
    })
}
