// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A finding as data: what can be seen, why, what was checked, what to do. The report says it in
//! words.

use serde::{Deserialize, Serialize};

use super::{Evidence, Sharpener, Step, Value};

/// How sure a cause is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// A guess that fits.
    Low,
    /// Inferred; something else could be behind it.
    Medium,
    /// The trace shows it.
    High,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Good to know.
    Note,
    /// Costs less than 1 % of a vCPU's time, or is harmless as far as it shows.
    Minor,
    /// Costs 1 % to 10 %.
    Major,
    /// Costs more.
    Severe,
}

/// What can be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingId {
    /// vCPUs are ready and do not run.
    Steal,
    /// More vCPUs are ready than the host has pCPUs, and their VMs wait for each other.
    HostOvercommitted,
    /// One wait, sleep or exit was long enough to be felt, however small its share.
    LongStall,
    /// All pCPUs were silent at once while vCPUs ran.
    HostStoodStill,
    /// vCPU threads sleep though their guests have not halted.
    Asleep,
    /// A thread that serves the VM waits for its pCPU while a vCPU sleeps until it is served.
    ServerWaits,
    /// vCPU threads wait where no signal reaches them.
    Uninterruptible,
    /// Exits of one reason take much time.
    SlowExits,
    /// Exits without times come so often that they must take much time.
    ExitStorm,
    /// Pause-loop exits for IPIs.
    PauseIpiWait,
    /// Pause-loop exits for spinlocks.
    PauseSpinlock,
    /// Pause-loop exits for other locks.
    PauseOtherLock,
    /// Pause-loop exits in delays.
    PauseTimedDelay,
    /// Pause-loop exits of programs.
    PauseUserSpin,
    /// Pause-loop exits at unknown places.
    PauseUnknown,
    /// Pause-loop exits again and again at one place.
    PauseContinuous,
    /// Boosts that the scheduler did not follow.
    BoostSchedulerMismatch,
    /// Boosts of the wrong vCPU.
    BoostOverboost,
    /// No vCPU boosted though some stood ready.
    BoostLostOpportunity,
    /// IPIs that wait for descheduled receivers.
    IpiDescheduled,
    /// Descheduled vCPUs that KVM did not mark.
    PreemptedUnmarked,
    /// Exits for the guest's timers.
    TimerExits,
    /// Exits of unknown reason.
    ExitUnknown,
    /// Shootdowns of the traced kernel itself wait.
    Shootdown,
    /// A table counts exits, or other events of KVM, without their time.
    ExitCounts,
    /// Threads that serve guests, or the host, wait for a pCPU.
    ThreadsWait,
    /// A cgroup reached the limit of its CPU time.
    Throttled,
    /// Tasks of the host wait for CPUs (PSI, run-queue latency).
    CpuPressure,
    /// The host's CPUs have no idle time left.
    HostBusy,
    /// Tasks wait for memory or I/O, or interrupts take their CPUs: `of` says which.
    OtherPressure,
    /// Core scheduling keeps CPUs idle beside a group's tasks.
    ForcedIdle,
    /// A kernel's log complains: of a lockup, a stall, a hung task, a clock, a lock.
    KernelComplaint,
    /// A table lacks what it could show: `of` says what. That is neither a fault nor an all-clear.
    NotMeasured,
}

impl FindingId {
    /// The word that stands for it in JSON.
    #[must_use]
    pub fn word(self) -> String {
        let word = serde_json::to_value(self).ok();
        let word = word.as_ref().and_then(serde_json::Value::as_str);
        word.unwrap_or_default().to_owned()
    }
}

/// Why it is so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CauseId {
    /// Another VM's vCPUs ran instead.
    OtherVm,
    /// The VM's own vCPUs ran instead.
    OwnVm,
    /// They did, while another pCPU that they may use had none of them.
    Stacked,
    /// vhost threads ran instead.
    Vhost,
    /// Interrupts and what they defer ran instead.
    Interrupts,
    /// A thread of the host ran instead.
    HostTask,
    /// A thread ran instead that polls its pCPU on purpose.
    Poller,
    /// A program that records ran instead.
    Recorder,
    /// Interrupts of a device that is passed through to a VM came by the host.
    PassedThrough,
    /// A limit keeps the vCPU from an idle pCPU.
    CpuMax,
    /// The pCPU was idle though the vCPU was ready, and a limit does not explain it.
    IdleBeside,
    /// Other threads of the VM's own VMM ran instead.
    OwnVmm,
    /// Another pCPU was idle and the vCPU was not moved there.
    Imbalance,
    /// The pCPU had to wake from idling.
    WakingPcpu,
    /// What ran is not in the trace.
    Untold,
    /// The VMs of the host want more pCPUs than there are.
    TooManyVcpus,
    /// Nothing ran on any pCPU: firmware, a suspended host, or a hypervisor below it.
    StoodStill,
    /// The VMM keeps the vCPU out of its guest: a pause, a snapshot, a migration, a lock.
    VmmHolds,
    /// The VMM collects dirty pages before the vCPU may go on.
    DirtyRing,
    /// Something holds the sleeping thread, and the trace does not show what.
    SleepNotShown,
    /// The guest leaves far more often than a guest at work does.
    ExitRate,
    /// A device that the VMM emulates answers slowly.
    UserDevice,
    /// The VMM has the exit, and its thread sleeps most of the time.
    VmmSleeps,
    /// The host write-protected memory that it had mapped.
    WriteProtected,
    /// What KVM itself emulates takes the time.
    KernelDevice,
    /// The host maps memory for the guest.
    MappingMemory,
    /// The host reads memory back, or makes room for it.
    MemoryReturns,
    /// The VMM's own I/O holds the vCPU's thread.
    VmmIo,
    /// Something in the host's kernel holds the vCPU's thread.
    KernelWait,
    /// The host's interrupts take the time.
    HostInterrupts,
    /// Another vCPU of the VM sends IPIs, and each takes the receiver out of its guest.
    OwnIpis,
    /// The host's interrupts, or a wait for a pCPU: the scheduler's events would show which.
    InterruptsOrWait,
    /// KVM answers such exits at once: something below it, or not recorded, stopped the host.
    HostStopped,
    /// KVM's handling of this reason takes the time.
    Handling,
    /// A receiver of the spinner's IPI does not run.
    ReceiverDescheduled,
    /// Who holds a spinlock, or is next for it, does not run.
    HolderDescheduled,
    /// Who owns a lock of another kind does not run.
    OwnerDescheduled,
    /// The guest lets a time pass.
    Delay,
    /// A program of the guest spins.
    SpinningProgram,
    /// The place is not known.
    UnknownPlace,
    /// The host runs others than the one that is waited for, exit after exit.
    WrongRunner,
    /// Each exit leaves the spinner waiting; the trace does not show which vCPU the host runs.
    LongWait,
    /// The scheduler keeps its own order.
    SchedulerOrder,
    /// KVM takes any ready vCPU in turn.
    AnyReady,
    /// KVM passes over vCPUs preempted in user mode.
    PassedOver,
    /// KVM marks only what left on a host interrupt.
    UnmarkedByKvm,
    /// Ticks are armed and expire by exits.
    GuestTicks,
    /// The guest arms far more timers than its ticks need.
    GuestTimers,
    /// The tables lack this reason.
    NewReason,
    /// A few shootdowns take far longer than most.
    AbsentTargets,
    /// All shootdowns take long.
    SlowTargets,
    /// The table does not show what ran instead.
    NotShown,
    /// Counts without times do not show what costs most.
    CountsOnly,
    /// The cgroup had used up its limit and stood still until its next period.
    Quota,
    /// More threads want to run than the host has CPUs.
    HostFull,
    /// The stack waits for other CPUs to flush their TLBs.
    WaitsForShootdown,
    /// The stack waits for other CPUs to answer an IPI.
    WaitsForIpi,
    /// The stack waits for a spinning lock.
    WaitsForLock,
    /// The stack waits for a mutex, a semaphore or another lock that sleeps.
    WaitsForOwner,
    /// The stack waits for I/O.
    WaitsForIo,
    /// The stack handles timers, or waits for a time to pass.
    TimerWork,
    /// The CPU was idle or ran a program, and its kernel did nothing: it stood still itself.
    CpuStoodStill,
    /// The host's KVM itself worked for the guest all the time.
    KvmWork,
    /// The kernel ran a function that no list here explains.
    KernelWork,
    /// A reading of the clocks was interrupted, or a clock is wrong.
    ClockDisturbed,
    /// The log has no stack.
    NoStack,
    /// Tasks wait for I/O.
    IoPressure,
    /// Memory is short: tasks wait until it is reclaimed, swapped in or compacted.
    MemoryPressure,
    /// Interrupts and what they defer take the CPUs from tasks.
    InterruptLoad,
    /// Tasks of different cookies may not run beside each other on one core.
    CoreScheduling,
    /// A program makes split locks or bus locks, which stop all CPUs, and the kernel slows it.
    SplitLocks,
    /// The processor slowed itself down: too hot, or too much power.
    HotProcessor,
    /// Real-time tasks used up their share, and the kernel stopped them for the rest of a second.
    RealTimeTasks,
    /// The kernel or the tool does not count it, or an older version does not print it.
    NotCounted,
}

/// Something that must be so if the cause is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckId {
    /// The named rival had the pCPU for most of the waits: `share`.
    RivalRan,
    /// No other pCPU was idle meanwhile: `idle`.
    NoneIdleElsewhere,
    /// In the whole trace its vCPUs ran for the `quota` of their cgroup: `share` of it.
    RunsItsQuota,
    /// The thread sleeps after KVM went back to the VMM: `share`.
    SleepsInVmm,
    /// Another pCPU was idle meanwhile: `idle`.
    IdleElsewhere,
    /// The vCPU's own pCPU was idle: `idle`.
    OwnPcpuIdle,
    /// Each vCPU that waited ran on one pCPU only, as one that is pinned: `vcpus`, `fixed`.
    RanOnOnePcpu,
    /// These exits went on to the VMM: `share`.
    WentToVmm,
    /// The last exit before was a fault in memory: `share`.
    AfterMemoryFault,
    /// Receivers did not run when the IPI came: `share`.
    ReceiversDescheduled,
    /// Receivers ran when the IPI came: those that did not made only `share` of the waits.
    ReceiversRan,
    /// vCPUs of the VM were descheduled while ready: `share` of its time.
    OthersDescheduled,
    /// Symbols name the places.
    SymbolsNamePlaces,
    /// The guest's kernel is in the upper half of its addresses.
    KernelInUpperHalf,
    /// Those that ran next did not end the spinner's wait.
    WaitWentOn,
    /// The chosen vCPU was still on the run queue at the decision.
    ChosenWasReady,
    /// The guest's own trace shows slow shootdowns.
    GuestShootdownsSlow,
    /// KVM's statistics preemption_other counts them.
    KvmCountsThem,
    /// No more timers than ticks and idle periods need: `arms`, `tickless`.
    ArmsFollowTicks,
    /// More timers than ticks and idle periods need: `arms`, `tickless`.
    MoreThanTicks,
    /// The processor's manual has the code.
    ManualHasCode,
    /// A trace of the host shows the targets off their pCPUs.
    HostShowsTargets,
    /// Another file of the incident shows the same: its `name`.
    AnotherFileAgrees,
    /// Another file of the incident shows a limit that was reached: its `name`.
    AnotherFileHasLimit,
    /// Another file of the incident shows that vCPUs waited for pCPUs: its `name`.
    AnotherFileHasWaits,
    /// Another file of the incident shows that no limit is set: its `name`.
    AnotherFileHasNoLimit,
}

/// What became of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// It is so.
    Held,
    /// It is not so: the cause is doubtful.
    Refuted,
    /// This trace cannot answer it.
    NotAnswerable,
}

/// A check of a cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// What must be so.
    pub id: CheckId,
    /// Whether it is.
    pub answer: Answer,
    /// The numbers that decided.
    pub values: Vec<Value>,
}

/// What is behind it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Culprit {
    /// Which kind of thing: `vm`, `own-vm`, `vhost`, `interrupts`, `host-task`, `cpu-max`,
    /// `waking-pcpu`, `poller`, `recorder`, `passed-through`, `untold`, `exit`.
    pub kind: String,
    /// Its name: a VM's, a thread's, a device's.
    pub name: Option<String>,
    /// Its time.
    pub ns: u64,
    /// Of the finding's time, in thousandths.
    pub permille: u64,
}

/// Where it was worst.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    /// When it began, after the trace's first event.
    pub begin_ns: u64,
    /// How long it was.
    pub length_ns: u64,
    /// On which pCPU.
    pub pcpu: Option<u32>,
    /// The vCPU.
    pub vcpu: Option<u32>,
    /// Its thread.
    pub tid: Option<i32>,
}

/// What hurts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What can be seen.
    pub id: FindingId,
    /// What of that, where one kind has several: an exit reason.
    pub of: Option<String>,
    /// How bad.
    pub severity: Severity,
    /// Place of its trace in [`super::Diagnosis::traces`].
    pub trace: usize,
    /// The VM, if it is about one.
    pub vm: Option<String>,
    /// The vCPU, if it is about one of several: its time is the finding's whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vcpu: Option<u32>,
    /// Time lost, summed over the VM's vCPUs, in nanoseconds.
    pub lost_ns: u64,
    /// The same in each second of the trace.
    pub lost_ns_per_s: u64,
    /// With what lies in losses of events, which may be lost time or not; `None` if nothing does.
    pub at_most_ns: Option<u64>,
    /// Of the time of all the VM's vCPUs, or of the machine's CPUs, in thousandths; more than
    /// 1000 where waits overlap.
    pub lost_permille: u64,
    /// The numbers that show it.
    pub evidence: Vec<Evidence>,
    /// Why.
    pub cause: CauseId,
    /// Who is behind it, most first.
    pub culprits: Vec<Culprit>,
    /// How sure the cause is.
    pub confidence: Confidence,
    /// What must be so if the cause is right, and whether it is.
    pub checks: Vec<Check>,
    /// Where it was worst.
    pub worst: Option<Instance>,
    /// What to do next, most useful first.
    pub next: Vec<Step>,
    /// What would have made it surer.
    pub sharper_with: Vec<Sharpener>,
}

impl Finding {
    /// Whether how long vCPUs ran shows the limit that kept them off their pCPUs.
    #[must_use]
    pub fn is_by_quota(&self) -> bool {
        let by_quota = |check: &Check| check.id == CheckId::RunsItsQuota;
        self.checks.iter().any(by_quota)
    }
}
