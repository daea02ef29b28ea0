// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Findings in words: what can be seen, why, what was checked, what to do.

use steady_diagnose::{
    Answer, CauseId, Check, CheckId, Confidence, Evidence, EvidenceId, Finding, FindingId,
    Instance, Quantity, Question, Step, StepId, TraceDiagnosis,
};
use steady_report::humane;

pub use super::host_words::sharpener;
use super::{host_words, percent, table_words, time};

/// A blank at which no line is broken; it is written as any other.
pub const GLUE: char = '\u{a0}';

/// What can be seen.
#[must_use]
pub fn symptom(finding: &Finding) -> String {
    let of = finding.of.as_deref().unwrap_or("unknown reason");
    if let Some(vcpu) = finding.vcpu {
        return host_words::of_one(finding, vcpu);
    }
    match finding.id {
        FindingId::Steal if is_in_losses(finding) => "vCPUs may have been ready and not run",
        FindingId::Steal => "vCPUs are ready and do not run",
        FindingId::Uninterruptible if finding.of.is_some() => {
            "threads wait in the host's kernel (D state)"
        }
        FindingId::Uninterruptible => "vCPU threads wait in the host's kernel (D state)",
        FindingId::SlowExits => return format!("exits for {of} take much time"),
        FindingId::PauseIpiWait => "vCPUs leave their guest because they spin: IPI wait",
        FindingId::PauseSpinlock => "vCPUs leave their guest because they spin: spinlock",
        FindingId::PauseOtherLock => "vCPUs leave their guest because they spin: other lock",
        FindingId::PauseTimedDelay => "vCPUs leave their guest because they spin: timed delay",
        FindingId::PauseUserSpin => "vCPUs leave their guest because they spin: user program",
        FindingId::PauseUnknown => "vCPUs leave their guest because they spin: unknown",
        FindingId::PauseContinuous => "pause-loop exits come again and again at one place",
        FindingId::BoostSchedulerMismatch => "KVM boosts a vCPU, and the scheduler runs another",
        FindingId::BoostOverboost => "KVM boosts a vCPU that is not waited for, and it runs",
        FindingId::BoostLostOpportunity => "KVM finds no vCPU to boost while vCPUs stand ready",
        FindingId::IpiDescheduled => "vCPUs wait for IPIs that they sent to vCPUs that do not run",
        FindingId::PreemptedUnmarked => "the guest takes descheduled vCPUs for running ones",
        FindingId::TimerExits => "the guest leaves to arm timers, and when they expire",
        FindingId::ExitUnknown => "exits whose reason is in no table",
        FindingId::Shootdown => "TLB shootdowns wait",
        _ => {
            let of_host = host_words::symptom(finding);
            return of_host.unwrap_or_else(|| table_words::symptom(finding));
        }
    }
    .to_owned()
}

/// How sure it is, in one word.
#[must_use]
pub fn sure(finding: &Finding) -> &'static str {
    match finding.confidence {
        Confidence::High => "high",
        Confidence::Medium => "medium",
        Confidence::Low => "low",
    }
}

/// The first culprit of the kind that the cause names, with its part in thousandths.
#[must_use]
pub fn main_culprit(finding: &Finding) -> Option<(String, u64)> {
    let kind = match finding.cause {
        CauseId::OtherVm => "vm",
        CauseId::Vhost => "vhost",
        CauseId::HostTask => "host-task",
        CauseId::OwnVmm => "own-vmm",
        CauseId::Poller => "poller",
        CauseId::Recorder => "recorder",
        _ => return None,
    };
    let mut culprits = finding.culprits.iter();
    let first = culprits.find(|culprit| culprit.kind == kind)?;
    Some((first.name.clone()?, first.permille))
}

/// Why.
#[must_use]
pub fn cause(finding: &Finding) -> String {
    let (who, permille) = main_culprit(finding).unwrap_or_default();
    let several = permille < 500 && !who.is_empty();
    if let Some((_, Some(why))) = table_words::placed(finding) {
        return why.to_owned();
    }
    match finding.cause {
        CauseId::TooManyVcpus => return host_words::demand(finding),
        CauseId::OtherVm if several => {
            return format!("several other VMs ran on their pCPUs instead, {who} the most");
        }
        CauseId::HostTask if several => {
            return format!("several threads of the host ran instead, {who} the most");
        }
        CauseId::OtherVm if host_words::is_real_time(finding) => {
            return format!("{who} ran on their pCPUs instead, at a real-time priority");
        }
        CauseId::OtherVm => return format!("{who} ran on their pCPUs instead"),
        CauseId::Poller | CauseId::Recorder => return host_words::role(finding.cause, &who),
        CauseId::Vhost => return format!("the vhost thread {who} ran on their pCPUs instead"),
        CauseId::HostTask => return format!("{who}, a thread of the host, ran instead"),
        CauseId::CpuMax if is_unsure_limit(finding) => {
            "most likely a limit (cpu.max) of their cgroup; core scheduling, a hypervisor below \
             the host or a late wake-up would look alike"
        }
        CauseId::OwnVmm => return format!("{who}, a thread of their own VMM, ran instead"),
        CauseId::Untold if let Some(name) = until_loss(finding) => {
            return format!(
                "{name} ran until events were lost; whether they waited on, and for what, is not \
                 known"
            );
        }
        CauseId::Untold if is_in_losses(finding) => {
            "the trace lost the events that would show whether they did, and what ran instead"
        }
        other => of_wait(other)
            .or_else(|| of_exit(other))
            .or_else(|| host_words::cause(other))
            .or_else(|| table_words::cause(other))
            .unwrap_or_else(|| of_spin(finding.cause)),
    }
    .to_owned()
}

/// Whether a finding is about what lies in losses of events, more than about what was seen.
#[must_use]
pub fn is_in_losses(finding: &Finding) -> bool {
    let seen_ns = finding.lost_ns;
    let at_most_ns = finding.at_most_ns.unwrap_or(seen_ns);
    finding.cause == CauseId::Untold && at_most_ns.saturating_sub(seen_ns) > seen_ns
}

/// The thread that ran until the losses that a finding is about.
fn until_loss(finding: &Finding) -> Option<&str> {
    let losses = |evidence: &&Evidence| evidence.id == EvidenceId::InLosses;
    let until = finding.evidence.iter().find(losses)?.value("until")?;
    match until {
        Quantity::Name(name) if is_in_losses(finding) => Some(name),
        _ => None,
    }
}

/// Whether an idle pCPU beside a ready vCPU is all that speaks for a limit.
fn is_unsure_limit(finding: &Finding) -> bool {
    let waits = matches!(
        finding.id,
        FindingId::Steal | FindingId::LongStall | FindingId::ServerWaits
    );
    waits && finding.confidence != Confidence::High && !finding.is_by_quota()
}

fn of_wait(cause: CauseId) -> Option<&'static str> {
    Some(match cause {
        CauseId::OwnVm => {
            "the VM's own vCPUs ran on their pCPUs instead: too few pCPUs for them, by number or \
             by place"
        }
        CauseId::Stacked => {
            "the VM's own vCPUs ran on their pCPUs instead, while other pCPUs that it may use had \
             none of them"
        }
        CauseId::Interrupts => "interrupts and softirqs of the host ran on their pCPUs instead",
        CauseId::CpuMax => "a limit (cpu.max) of their cgroup keeps them off their pCPU",
        CauseId::IdleBeside => {
            "their pCPU was idle all the same, which no limit (cpu.max) explains: core \
             scheduling, a hypervisor below the host, or a late wake-up"
        }
        CauseId::Imbalance => {
            "another pCPU was idle meanwhile and they were not moved there: pinning, or a slow \
             load balance"
        }
        CauseId::WakingPcpu => "their pCPU was idle and had to wake first",
        CauseId::Untold => "the trace does not show what their pCPUs ran",
        _ => return None,
    })
}

fn of_exit(cause: CauseId) -> Option<&'static str> {
    Some(match cause {
        CauseId::UserDevice => "the VMM emulates the device, in a program",
        CauseId::VmmSleeps => {
            "the VMM has the exit and its thread sleeps: for a lock that another of its threads \
             has (QEMU's big lock), or for the device's own I/O"
        }
        CauseId::WriteProtected => {
            "the host write-protected memory that it had mapped: dirty logging (a migration, a \
             snapshot) or shared pages (KSM, fork)"
        }
        CauseId::KernelDevice => "KVM emulates the device itself, and each access leaves the guest",
        CauseId::MappingMemory => "the host maps memory at the guest's first touch, or again",
        CauseId::MemoryReturns => {
            "the host brings memory back that the guest touched: swapped, compressed or migrated"
        }
        CauseId::VmmIo => "the VMM does I/O in the vCPU's own thread and waits for it",
        CauseId::KernelWait => "the thread waits for a lock, memory or I/O of the host",
        CauseId::OwnIpis => {
            "another vCPU of the VM sends it IPIs, and each takes it out of its guest"
        }
        CauseId::HostInterrupts => "interrupts of the host arrive on the vCPU's pCPU",
        CauseId::InterruptsOrWait => {
            "the host served interrupts, or ran another thread: only the scheduler's events would \
             show which"
        }
        CauseId::Handling => "the guest asks for it often, or the host is slow to do it",
        CauseId::GuestTicks => {
            "each tick is armed by the guest, which exits, and expires, which exits again"
        }
        CauseId::GuestTimers => {
            "programs of the guest arm timers, each with an exit: far more than its ticks need"
        }
        CauseId::NewReason => {
            "the processor or kernel is newer than the tables here, or the trace is damaged"
        }
        _ => return None,
    })
}

fn of_spin(cause: CauseId) -> &'static str {
    match cause {
        CauseId::ReceiverDescheduled => {
            "the vCPU that has to answer, mostly to a TLB shootdown, is off its pCPU"
        }
        CauseId::HolderDescheduled => {
            "the lock's holder, or the next in its queue, is off its pCPU"
        }
        CauseId::OwnerDescheduled => {
            "the owner of the reader-writer lock, mutex or wake-up is off its pCPU"
        }
        CauseId::Delay => "the guest's kernel lets a time pass on purpose: no boost can end that",
        CauseId::SpinningProgram => "a program of the guest spins in user mode",
        CauseId::UnknownPlace => "the place has no name here, or one of unknown purpose",
        CauseId::WrongRunner => {
            "each exit lets the host run another, and the spinner comes back to wait on"
        }
        CauseId::LongWait => {
            "the spinner comes back and waits on; which vCPU the host ran is not shown"
        }
        CauseId::SchedulerOrder => {
            "the scheduler keeps its own order: the boosted vCPU was not eligible, or not on the \
             same queue"
        }
        CauseId::AnyReady => "KVM takes ready vCPUs in turn, whether they can end the wait or not",
        CauseId::PassedOver => {
            "KVM passes over vCPUs that were preempted in user mode, and those that spun before"
        }
        CauseId::UnmarkedByKvm => {
            "KVM marks a vCPU preempted only if it left its guest on a host interrupt"
        }
        CauseId::AbsentTargets => "a few take far longer than most: a target was off its pCPU",
        _ => "all take about as long: the targets are slow to take the IPI, not absent",
    }
}

/// What was checked, by answer: the answer, and the checks that have it.
#[must_use]
pub fn checks(finding: &Finding) -> Vec<(&'static str, String)> {
    let answers = [
        ("confirmed", Answer::Held),
        ("ruled out", Answer::Refuted),
        ("not answerable by this trace", Answer::NotAnswerable),
    ];
    let of = |answer: Answer| {
        let same = finding.checks.iter().filter(|check| check.answer == answer);
        same.map(check).collect::<Vec<_>>().join("; ")
    };
    let lines = answers.map(|(said, answer)| (said, of(answer)));
    lines
        .into_iter()
        .filter(|(_, text)| !text.is_empty())
        .collect()
}

/// What was checked, with its numbers.
fn check(check: &Check) -> String {
    let numbers: Vec<String> = check
        .values
        .iter()
        .map(|value| match &value.quantity {
            Quantity::Permille(permille) => percent(*permille),
            Quantity::Count(count) => format!("{} {}", value.name, humane::grouped(*count)),
            Quantity::Name(name) => name.clone(),
            other => format!("{other:?}"),
        })
        .collect();
    match numbers.as_slice() {
        [] => of_check(check.id).to_owned(),
        numbers => format!("{} ({})", of_check(check.id), numbers.join(", ")),
    }
}

/// A question, as a thing that was judged or not.
#[must_use]
pub fn question(question: Question) -> &'static str {
    match question {
        Question::Exits => "exits",
        Question::ExitTimes => "times of exits",
        Question::Steal => "waits of ready vCPUs",
        Question::WakeupWait => "waits after wake-ups",
        Question::WhoRan => "who ran instead",
        Question::PauseLoops => "spinning guests",
        Question::PauseCauses => "why guests spin",
        Question::Boosts => "boosts",
        Question::IpiWaits => "IPIs between vCPUs",
        Question::Timers => "guests' timers",
        Question::HostTicks => "the host's ticks",
        Question::PreemptionMarks => "KVM's marks of preempted vCPUs",
        Question::Shootdowns => "the traced kernel's TLB shootdowns",
    }
}

fn of_check(id: CheckId) -> &'static str {
    match id {
        CheckId::RivalRan => "what ran instead had their pCPUs for most of the waits",
        CheckId::NoneIdleElsewhere => "no other pCPU was idle for most of it",
        CheckId::IdleElsewhere => "another pCPU was idle meanwhile",
        CheckId::OwnPcpuIdle => "their own pCPU was idle for most of it",
        CheckId::RanOnOnePcpu => "each ran on one pCPU only, as if pinned",
        CheckId::WentToVmm => "most went on to the VMM",
        CheckId::AfterMemoryFault => "the exit before was for memory",
        CheckId::ReceiversDescheduled => "receivers that were off their pCPUs made the wait",
        CheckId::ReceiversRan => "receivers ran: those that did not made little of the wait",
        CheckId::OthersDescheduled => "vCPUs of this VM were off their pCPUs while ready",
        CheckId::SymbolsNamePlaces => "symbols name the places",
        CheckId::KernelInUpperHalf => "the guest's kernel is in the upper half of addresses",
        CheckId::WaitWentOn => "the spinner's wait went on after the boost",
        CheckId::ChosenWasReady => "another ran in the chosen vCPU's place",
        CheckId::GuestShootdownsSlow => "the guest's own trace has slow shootdowns",
        CheckId::KvmCountsThem => "KVM's statistic preemption_other counts them",
        CheckId::MoreThanTicks => "more timers than ticks and idle periods need",
        CheckId::ArmsFollowTicks => "no more timers than ticks and idle periods need",
        CheckId::ManualHasCode => "the processor's manual has the code",
        CheckId::HostShowsTargets => "a trace of the host has the targets off their pCPUs",
        other => host_words::check(other)
            .or_else(|| table_words::check(other))
            .unwrap_or("another file shows the same"),
    }
}

/// What to do, in one sentence, with what it would give.
#[must_use]
pub fn step(step: &Step) -> String {
    let name = step.name.as_deref().unwrap_or("it");
    let mut text = match step.id {
        StepId::FindKernelWork => host_words::work(name),
        id => of_step(id).replace("{}", name),
    };
    if let Some(knob) = &step.knob {
        let value = step.value.as_deref();
        let value = value.unwrap_or("its value is not in the trace");
        text += &format!(" ({knob}: {value})");
    }
    match (&step.remedy, step.available) {
        (Some(remedy), true) => text += &format!(" (remedy: {remedy})"),
        (Some(remedy), false) => {
            text =
                format!("not available here: {text} ({remedy}, which this project does not ship)");
        }
        (None, _) => {}
    }
    if let Some(gain) = &step.gain {
        text += &format!(
            "; by the trace it takes away {} and leaves {}, if {}",
            time(gain.removes_ns),
            time(gain.leaves_ns),
            host_words::assumption(gain.assumes)
        );
    }
    text
}

fn of_step(id: StepId) -> &'static str {
    match id {
        StepId::HostInvalidates => "let the host invalidate for vCPUs that do not run",
        StepId::HostTicks => "let the host inject its own ticks",
        StepId::BoostWaitedFor => "boost the vCPU that is waited for",
        StepId::ObeyBoost => "make the host's scheduler obey the boost",
        StepId::ShareOrSplit => "give the VM more pCPUs, or a larger cpu.weight",
        StepId::MoveOtherVm => "pin {} to other pCPUs, or lower the cpu.weight of its cgroup",
        StepId::FewerVcpus => "give the VM no more vCPUs than it has pCPUs",
        StepId::PartVcpus => "put its vCPUs on different pCPUs (steady place --apply, or pins)",
        StepId::MoveVhost => "put {} on other pCPUs (its cgroup's cpuset, or taskset)",
        StepId::MoveInterrupts => {
            "see which they are (/proc/interrupts, /proc/softirqs), and send those of devices to \
             other pCPUs (/proc/irq/*/smp_affinity)"
        }
        StepId::FewerHostTimers => {
            "see what arms timers on that pCPU: a profiler, or the host's own tick (nohz_full)"
        }
        StepId::MoveHostTask => "put {} on other pCPUs (cpuset, or taskset)",
        StepId::LookAtIdle => {
            "see what else keeps the pCPU idle: nr_throttled in cpu.stat, core scheduling \
             (PR_SCHED_CORE), st of the host itself in top"
        }
        StepId::StopProtecting => {
            "see whether a migration, a snapshot or KSM runs (virsh domjobinfo, \
             /sys/kernel/mm/ksm/run)"
        }
        StepId::RaiseCpuMax => "raise cpu.max of the VM's cgroup (libvirt: vcpu_quota)",
        StepId::SpreadPins => "pin these vCPUs to the idle pCPUs, or let them go where they want",
        StepId::ShallowIdle => "keep pCPUs out of deep idle states (cpupower idle-set)",
        StepId::LargerBuffers => {
            "record again with larger buffers (steady record --buffer-kib): the trace lacks events"
        }
        StepId::RecordScheduler => "record the scheduler's events (steady record)",
        StepId::Virtio => "let the guest do without {}: a virtio or vhost device instead",
        StepId::DeliverByProcessor => {
            "let the processor deliver IPIs, if it can (kvm_intel.enable_apicv, kvm_amd.avic)"
        }
        StepId::LookAtVmm => "see what the VMM does meanwhile (perf record of its threads)",
        StepId::Preallocate => "give the guest its memory at once (prealloc, huge pages)",
        StepId::StopReclaim => {
            "see whether the host swaps, balloons or migrates memory (vmstat, memory.pressure)"
        }
        StepId::LookAtStorage => "see which I/O is slow (iostat), and give it an I/O thread",
        StepId::LookAtStack => "see where it waits: /proc/THREAD/stack during a stall",
        StepId::LookAtGuest => "see what in the guest causes these exits: {}",
        StepId::PvFlush => {
            "see that the guest has kvm-pv-tlb-flush and kvm-pv-ipi (its dmesg: `KVM setup pv \
             remote TLB flush`)"
        }
        StepId::PvSpinlocks => "see that the guest has PV spinlocks (its dmesg: `PV qspinlock`)",
        StepId::ShorterWindow => "exit sooner from a spin, at the price of more exits",
        StepId::LongerWindow => "lengthen the window beyond the delay, so that it does not exit",
        StepId::FindDelay => "find the driver or operation of the guest that delays",
        StepId::FindSpinner => "find the spinning program in the guest, with perf or top",
        StepId::GiveSymbols => {
            "give the guest kernel's symbols: --symbols System.map, a copy of /proc/kallsyms, or \
             its vmlinux"
        }
        StepId::FewerTicks => {
            "let the guest's kernel tick less often (CONFIG_HZ; nohz_full for vCPUs of one thread)"
        }
        StepId::GiveHz => {
            "see the guest's CONFIG_HZ, and give it: it arms one timer a tick of {} (--guest-hz {})"
        }
        StepId::HaltPoll => "let idle vCPUs poll for a while, if idle periods are short",
        StepId::LookUpCode => "look the code up in the processor's manual, and report it",
        StepId::RecordHost => "record the host too, and see whether its vCPUs were off their pCPUs",
        other => host_words::step(other)
            .or_else(|| table_words::step(other))
            .unwrap_or("run `{}`"),
    }
}

/// Where it was worst: after the trace's begin, by the trace's own clock, and the option that shows
/// it.
#[must_use]
pub fn worst(finding: &Finding, trace: Option<&TraceDiagnosis>) -> Option<String> {
    let worst = finding.worst.as_ref()?;
    let (length, begin) = (host_words::length(finding), seconds(worst.begin_ns));
    let mut text = format!("{length} at {begin}");
    // Of a clock that was set back the times are not those of the trace any more.
    if let Some(trace) = trace.filter(|trace| trace.zero_ns > 0 && trace.loss.clock_set_back == 0) {
        let own = trace.zero_ns.saturating_add(worst.begin_ns);
        match trace.clock_is_ns {
            true => text += &format!(" (in the trace: {})", exact(own)),
            false => text = format!("at {own} of the trace's clock"),
        }
    }
    if let (Some(vcpu), Some(tid)) = (worst.vcpu, worst.tid) {
        text += &format!(", vCPU {vcpu} (thread {tid})");
    }
    if let Some(pcpu) = worst.pcpu {
        text += &format!(", pCPU {pcpu}");
    }
    // An option and its value stay on one line, to be copied.
    Some(format!("{text}: --time{GLUE}{}", time_option(worst)))
}

/// The value of `--time` that has the instance and a tenth of its length around it.
#[must_use]
pub fn time_option(worst: &Instance) -> String {
    let around_ns = (worst.length_ns / 10).max(10_000);
    let from_ns = worst.begin_ns.saturating_sub(around_ns);
    let end_ns = worst.begin_ns.saturating_add(worst.length_ns);
    let to_ns = end_ns.saturating_add(around_ns);
    format!("{}-{}", exact(from_ns), exact(to_ns))
}

/// Seconds with microseconds, rounded down.
fn exact(ns: u64) -> String {
    format!("{}.{:06}", ns / 1_000_000_000, ns / 1000 % 1_000_000)
}

fn seconds(ns: u64) -> String {
    format!("{}.{:03} s", ns / 1_000_000_000, ns / 1_000_000 % 1000)
}
