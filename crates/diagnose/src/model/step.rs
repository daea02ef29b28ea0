// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Steps against what was found, with what each would give, and what a better recording would have.

use serde::{Deserialize, Serialize};

/// What an estimate rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Assumption {
    /// IPIs to vCPUs that do not run are answered as soon as those to vCPUs that do.
    AnsweredAsByRunning,
    /// Exits cost what they cost now, and only one is left for each idle period.
    OneExitForEachIdle,
    /// The first exit of each run ends the wait.
    FirstExitEndsRun,
    /// A boost that is followed ends the wait.
    BoostEndsWait,
    /// What is waited for goes away and nothing takes its place.
    NobodyTakesItsPlace,
    /// The vCPU moves to the idle pCPU at once.
    MovesAtOnce,
    /// Idle time of other pCPUs is all used.
    IdleTimeIsUsed,
    /// The guest does without these exits.
    NoSuchExits,
    /// Who wants a pCPU shares it fairly with the others that do, and these stay where they are.
    FairShares,
}

/// What a step would give, by the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gain {
    /// Of the finding's time, what goes.
    pub removes_ns: u64,
    /// What stays.
    pub leaves_ns: u64,
    /// If this holds.
    pub assumes: Assumption,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepId {
    /// The host invalidates for vCPUs that do not run.
    HostInvalidates,
    /// The host injects ticks.
    HostTicks,
    /// The vCPU that is waited for is boosted.
    BoostWaitedFor,
    /// The scheduler obeys the boost.
    ObeyBoost,
    /// More pCPUs, fewer vCPUs, or more weight.
    ShareOrSplit,
    /// Move the VM that ran instead, or weigh it less.
    MoveOtherVm,
    /// Fewer vCPUs than the pCPUs that the VM may use.
    FewerVcpus,
    /// Put the VM's vCPUs on different pCPUs.
    PartVcpus,
    /// Run fewer vCPUs on the host: move a VM to another host, or give VMs fewer vCPUs.
    FewerVcpusOnHost,
    /// Say by weights which VMs go first.
    WeighVms,
    /// See in the VMM's log and jobs what it did then: a pause, a snapshot, a migration.
    LookAtVmmJobs,
    /// Give dirty pages a larger ring, or let a migration take longer.
    LargerDirtyRing,
    /// See firmware, the host's suspension, or the hypervisor below it.
    LookBelowHost,
    /// Give the serving thread pCPUs of its own.
    MoveServer,
    /// Record entries too, so that exits have times.
    RecordEntries,
    /// Put vhost threads elsewhere.
    MoveVhost,
    /// Send interrupts elsewhere.
    MoveInterrupts,
    /// See what arms the host's timers on that pCPU.
    FewerHostTimers,
    /// Put the host's thread elsewhere.
    MoveHostTask,
    /// See what gives a kernel thread of one pCPU its work: it cannot go elsewhere.
    FindKernelWork,
    /// Keep vCPUs off the pCPU of a thread that polls on purpose.
    LeavePoller,
    /// Record with less work.
    RecordLess,
    /// Lower a real-time priority, or keep vCPUs off the pCPUs of its threads.
    LowerRealTime,
    /// Let the processor deliver the interrupts of a device that is passed through.
    PostInterrupts,
    /// Keep RCU's callbacks off the pCPU.
    OffloadRcu,
    /// See what else keeps a pCPU idle: core scheduling, a hypervisor below the host.
    LookAtIdle,
    /// See what write-protects the guest's memory.
    StopProtecting,
    /// Raise the limit of the VM's cgroup.
    RaiseCpuMax,
    /// Raise the limit of a group that is not a VM's.
    RaiseGroupLimit,
    /// Raise the limit of a thread that serves the VM.
    RaiseServerLimit,
    /// Widen or spread the pinning.
    SpreadPins,
    /// Keep pCPUs from deep idle states.
    ShallowIdle,
    /// Record with larger buffers: events were lost.
    LargerBuffers,
    /// Record the scheduler's events.
    RecordScheduler,
    /// Use a paravirtual device.
    Virtio,
    /// Let the processor deliver the guest's interrupts.
    DeliverByProcessor,
    /// See why the VMM is slow to answer.
    LookAtVmm,
    /// Give the guest huge pages or preallocate them.
    Preallocate,
    /// See who swaps or balloons.
    StopReclaim,
    /// See which I/O of the VMM waits.
    LookAtStorage,
    /// See what in the host's kernel waits.
    LookAtStack,
    /// See in the log what all CPUs did.
    AllBacktraces,
    /// See why the guest does this.
    LookAtGuest,
    /// See that the guest has its PV features for IPIs and flushes.
    PvFlush,
    /// See that the guest has PV spinlocks.
    PvSpinlocks,
    /// Exit sooner from a spin.
    ShorterWindow,
    /// Exit later from a spin.
    LongerWindow,
    /// Find what delays.
    FindDelay,
    /// Find the spinning program.
    FindSpinner,
    /// Give symbols.
    GiveSymbols,
    /// Let the guest's kernel tick less often.
    FewerTicks,
    /// Say how often the guest's kernel ticks.
    GiveHz,
    /// Let idle vCPUs poll.
    HaltPoll,
    /// Look the code up.
    LookUpCode,
    /// Record the host too.
    RecordHost,
    /// Run the command of this name on the host while it happens, to see who ran instead.
    RecordWhile,
    /// Run the command of this name: it has what the table lacks.
    AskTool,
    /// Give the guest a clock that does not leave it, if the port is a timer's.
    GuestClock,
    /// Find the program that makes split locks.
    FindSplitLocks,
    /// See what heats the processor, or limits its power.
    CoolProcessor,
    /// Let real-time vCPUs sleep, or have all of their pCPU.
    RealTimeShare,
    /// Find the real-time tasks that use up a CPU.
    FindRealTime,
}

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// What.
    pub id: StepId,
    /// What it is about, if it needs a name.
    pub name: Option<String>,
    /// A knob of the host or guest.
    pub knob: Option<String>,
    /// Its present value, if the trace or the host shows it.
    pub value: Option<String>,
    /// A remedy of this project.
    pub remedy: Option<String>,
    /// Whether it can be had: false of a remedy that this project does not ship.
    pub available: bool,
    /// What it would give.
    pub gain: Option<Gain>,
}

/// What a better recording would have had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sharpener {
    /// `sched_switch`.
    Switches,
    /// `sched_wakeup`.
    Wakeups,
    /// `irq_handler_entry`, `softirq_entry` and their ends.
    HostIrqs,
    /// `kvm_userspace_exit`.
    UserExits,
    /// `kvm_pio`, `kvm_mmio`, `kvm_page_fault`, `kvm_msr`.
    Accesses,
    /// The guest's symbols.
    Symbols,
    /// The probes of `steady record`.
    Probes,
    /// `kvm_apic_accept_irq`.
    Ipis,
    /// A trace of the guest of the same time.
    GuestTrace,
    /// A trace of the host of the same time.
    HostTrace,
    /// All events: some were lost.
    LostEvents,
    /// Whether the VM has a limit of CPU time.
    Limits,
}
