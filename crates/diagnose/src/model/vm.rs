// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of one VM, and of the shootdowns of a traced kernel.

use serde::{Deserialize, Serialize};

use super::{AsleepTable, Instance, LimitTable, PlacementTable, ServerRow, StallRow};
use crate::cause::Cause;
use crate::notes::VmNote;
use crate::spread::Spread;

/// One VM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VmTable {
    /// What the notes of the recording call it; else `vm1`, `vm2`, …, as a trace does not know what
    /// the operator calls it.
    pub name: String,
    /// What the notes of the recording say of it.
    pub note: Option<VmNote>,
    /// Its VMM's process; `None` if neither notes nor records have it.
    pub process: Option<i32>,
    /// Its vCPUs by number.
    pub vcpus: Vec<VcpuTable>,
    /// Exits by reason, most time first.
    pub exits: Vec<ExitRow>,
    /// Pause-loop exits.
    pub pauses: Option<PauseTable>,
    /// Boosts after them.
    pub boosts: Option<BoostTable>,
    /// IPIs whose sender waits.
    pub calls: Option<CallTable>,
    /// Timers.
    pub timers: TimerTable,
    /// Turns.
    pub preemption: Option<PreemptTable>,
    /// Who ran while its vCPUs were ready.
    pub waits: Option<WaitTable>,
    /// When its vCPU threads slept outside halts; `None` if they did not, or it is not known.
    pub asleep: Option<AsleepTable>,
    /// Threads that served it and waited for their pCPUs meanwhile, most time first.
    pub servers: Vec<ServerRow>,
    /// Its stalls of 100 ms and more, longest first; the first 64.
    pub stalls: Vec<StallRow>,
    /// What another placement would have given it; `None` of one vCPU, or without events of the
    /// scheduler.
    pub placement: Option<PlacementTable>,
}

/// What ran while the vCPUs of a VM were ready and did not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitTable {
    /// Their waits, with those that went on when the trace ended.
    pub waited_ns: u64,
    /// What their pCPUs did meanwhile, most first.
    pub by: Vec<RivalRow>,
    /// Of that, by threads that no record shows running up to the ends of the waits, or in waits
    /// that began before the trace did.
    pub assumed_ns: u64,
    /// In losses of events, after they were seen waiting: not in `waited_ns`.
    pub unknown_ns: u64,
    /// Of `waited_ns`, while other pCPUs lost events: they may have run there and come back. It is
    /// 0 where migrations are in the trace, and where the notes pin them all.
    pub doubted_ns: u64,
    /// Of `waited_ns`, by threads with a name of VMMs' threads, or a number close to its vCPUs', of
    /// which nothing shows whose they are.
    pub unplaced_ns: u64,
    /// Of that, by threads of a real-time priority or the deadline class.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub real_time_ns: u64,
    /// Who ran when losses cut most of that off.
    pub until_loss: Option<String>,
    /// The longest of them that began before the trace did, and was longer.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub from_begin_ns: u64,
    /// For how long its vCPUs were seen running.
    pub ran_ns: u64,
    /// What the limit of CPU time gave them, if the notes have one for all that have a limit.
    pub limit: Option<LimitTable>,
    /// Of `waited_ns`, waits that show what they were for: who ran for most of one left the pCPU by
    /// itself, and the vCPU came next; or they are longer than any limit's.
    pub shown_ns: u64,
    /// Of `waited_ns`, waits in which their pCPU had no record for 100 ms and more.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub silent_ns: u64,
    /// The longest such time.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub longest_silent_ns: u64,
    /// Of `waited_ns`, waits in which their own pCPU was idle for a millisecond and more.
    pub idled_ns: u64,
    /// How many these are.
    pub idled: u64,
    /// Of `waited_ns`, while their pCPU was busy and another was idle.
    pub elsewhere_idle_ns: u64,
    /// vCPUs that waited.
    pub vcpus: u64,
    /// Of these, how many ran on no more than one pCPU.
    pub fixed_vcpus: u64,
    /// The weakest priority of their threads, such as `nice 10`; `None` if it is nice 0, as usual,
    /// or not known.
    pub priority: Option<String>,
    /// The longest wait.
    pub worst: Option<Instance>,
    /// The longest waits, longest first; at most 64.
    pub longest: Vec<Instance>,
}

/// Something that ran instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RivalRow {
    /// `vm`, `own-vm`, `vhost`, `interrupts`, `host-task`, `cpu-max` (idle by a limit),
    /// `waking-pcpu` (idle, and had to wake) or `untold`.
    pub kind: String,
    /// Name of the VM or thread.
    pub name: Option<String>,
    /// For how long.
    pub ns: u64,
    /// Of all waits.
    pub permille: u64,
}

/// Exits of one reason that were about one thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DetailRow {
    /// `port`, `msr`, `timer`, `apic`, `hypercall`, `device` (memory), `memory`, `protected`,
    /// `untold`;
    /// of exits without a time also `rip`.
    pub kind: String,
    /// Its number, in hexadecimal; that of a hypercall decimal.
    pub value: Option<String>,
    /// What is there on a PC.
    pub name: Option<String>,
    /// How many.
    pub exits: u64,
    /// Of these, how many went on to the VMM; `None` if nothing says it.
    pub by_vmm: Option<u64>,
    /// Their own time: without waiting for a turn.
    pub own_ns: u64,
    /// Of that, in exits that went on to the VMM; `None` as `by_vmm`.
    pub by_vmm_ns: Option<u64>,
    /// Of their own time, in exits in which the host's own records show an interrupt.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub host_irq_ns: u64,
    /// What most of these interrupts were for: `device`, `passed-through`, `timers`, `rcu` or
    /// `deferred`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub irq: Option<String>,
    /// Of it, in faults at the page of the fault before.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub again_ns: u64,
    /// Why KVM went back to the VMM for most of that (`KVM_EXIT_*`).
    pub user: Option<String>,
    /// The longest.
    pub worst: Option<Instance>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
pub(super) fn is_zero(ns: &u64) -> bool {
    *ns == 0
}

/// One vCPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VcpuTable {
    /// Its number.
    pub number: u32,
    /// Its thread.
    pub tid: i32,
    /// Name of its thread.
    pub comm: String,
    /// Exits, timed or not.
    pub exits: u64,
    /// Of these, exits that no entry of the thread followed.
    pub untimed: u64,
    /// Time outside its guest after the others; `None` if no entry was recorded.
    pub exit_ns: Option<u64>,
    /// Pause-loop exits.
    pub pause_exits: u64,
    /// Ready but descheduled; `None` like the next three if the source has no events of the
    /// scheduler.
    pub steal_ns: Option<u64>,
    /// From wake-up to its turn; `None` also if no wake-up was recorded.
    pub wakeup_wait_ns: Option<u64>,
    /// How often it was descheduled while ready.
    pub descheduled: Option<u64>,
    /// Of these, how often KVM did not mark it preempted.
    pub unmarked: Option<u64>,
}

/// Exits of one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRow {
    /// `vmx` or `svm`.
    pub isa: String,
    /// The raw code; `None` of an exit that was printed by a name which no table has.
    pub code: Option<u64>,
    /// Its name, or `UNKNOWN_` and the code.
    pub name: String,
    /// How many, timed or not.
    pub count: u64,
    /// Of these, exits that no entry followed.
    pub untimed: u64,
    /// Share of all exits.
    pub count_permille: u64,
    /// Share of all exits' time.
    pub time_permille: u64,
    /// The time from exit to entry, of those that have it.
    pub time_ns: Spread,
    /// Of that time what is theirs: without that of being ready or uninterruptible meanwhile.
    pub own_ns: u64,
    /// By what they were about, most time first; the first 16.
    pub about: Vec<DetailRow>,
}

/// Pause-loop exits of one cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CauseRow {
    /// The cause.
    pub cause: Cause,
    /// Exits.
    pub exits: u64,
    /// Share of all pause-loop exits.
    pub permille: u64,
    /// Time spun before them; `None` like the next if no entry was recorded.
    pub spun_ns: Option<u64>,
    /// Time outside the guest after them.
    pub outside_ns: Option<u64>,
    /// Exits in runs of two and more.
    pub in_runs: u64,
    /// Such runs.
    pub runs: u64,
}

impl CauseRow {
    /// Time that this spinning took, inside and outside the guest, as far as it is known.
    #[must_use]
    pub fn took_ns(&self) -> u64 {
        let (spun, outside) = (self.spun_ns.unwrap_or(0), self.outside_ns.unwrap_or(0));
        spun.saturating_add(outside)
    }
}

/// Pause-loop exits of one function, or of one place if no function is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceRow {
    /// The function.
    pub function: Option<String>,
    /// The place with most exits.
    pub rip: String,
    /// Its cause.
    pub cause: Cause,
    /// Exits.
    pub exits: u64,
    /// Of these, while an IPI of the spinner's was not yet taken; `None` if no interrupt was
    /// recorded.
    pub ipi_pending: Option<u64>,
    /// Time spun before them; `None` if no entry was recorded.
    pub spun_ns: Option<u64>,
    /// The longest run.
    pub longest_run: u64,
    /// When that was.
    pub worst: Option<Instance>,
}

/// The longest run of exits at one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRow {
    /// The vCPU.
    pub vcpu: u32,
    /// The place.
    pub rip: String,
    /// The function.
    pub function: Option<String>,
    /// When it began.
    pub begin_ns: u64,
    /// How long it went on.
    pub length_ns: u64,
    /// Its exits.
    pub exits: u64,
}

/// Pause-loop exits of a VM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseTable {
    /// Exits.
    pub exits: u64,
    /// By cause.
    pub by_cause: Vec<CauseRow>,
    /// By function or place, most first; the first 32.
    pub by_place: Vec<PlaceRow>,
    /// Lengths of runs.
    pub runs: Spread,
    /// Share of pause-loop exits in runs of two and more.
    pub in_runs_permille: u64,
    /// Share of pause-loop exits in all exits.
    pub of_all_permille: u64,
    /// The longest run.
    pub longest: Option<RunRow>,
    /// Time spun before exits, lower bound of what was wasted; `None` like the next if no entry
    /// was recorded.
    pub spun_ns: Option<u64>,
    /// Time outside the guest after them.
    pub outside_ns: Option<u64>,
    /// The window that KVM set last, in cycles.
    pub window: Option<u64>,
}

/// How often something was the case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// What.
    pub name: String,
    /// How often.
    pub count: u64,
    /// Its share.
    pub permille: u64,
}

/// Outcomes of the boosts for one cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoostCauseRow {
    /// Why the yielder spun.
    pub cause: Cause,
    /// By outcome.
    pub outcomes: Vec<Count>,
}

/// How often KVM tried a vCPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChosenRow {
    /// Its number.
    pub vcpu: u32,
    /// How often it was tried.
    pub tries: u64,
    /// Of these, how often it was the next to run.
    pub ran_next: u64,
}

/// What became of the looks for a vCPU to boost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoostTable {
    /// Looks.
    pub spins: u64,
    /// vCPUs tried.
    pub tries: u64,
    /// Tries that the scheduler agreed to; `None` if no return of a try was recorded.
    pub agreed: Option<u64>,
    /// Boosts whose outcome is known: those agreed to.
    pub decided: u64,
    /// Of these, how many ran next.
    pub ran_next: u64,
    /// Their share: what the PLE study's Table 1 asks.
    pub ran_next_permille: u64,
    /// Of those that ran next, on the yielder's pCPU.
    pub same_pcpu: u64,
    /// From the request to the chosen vCPU's turn, where it was next.
    pub delay_ns: Spread,
    /// All looks by outcome.
    pub outcomes: Vec<Count>,
    /// The same by cause.
    pub by_cause: Vec<BoostCauseRow>,
    /// Who ran instead, where the scheduler had agreed.
    pub instead: Vec<Count>,
    /// Which vCPUs KVM tried, most first.
    pub chosen: Vec<ChosenRow>,
    /// Looks that passed over a ready vCPU which had yet to take the spinner's IPI.
    pub passed_over: u64,
    /// Yields that a guest asked for itself.
    pub hinted: u64,
    /// Tries that cannot be judged.
    pub unresolved: u64,
}

/// IPIs by where their receiver was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiverRow {
    /// `running`, `descheduled` or `halted`.
    pub receiver: String,
    /// From the IPI to the receiver's entry with it.
    pub delay_ns: Spread,
}

/// Calls between vCPUs, inferred from a host's trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTable {
    /// Always true: a host does not see the handler run, nor what the call was for.
    pub inferred: bool,
    /// From the first IPI until every receiver has entered its guest with it; `None` if no
    /// interrupt was recorded.
    pub call_ns: Option<Spread>,
    /// By where the receiver was; empty if no interrupt was recorded.
    pub by_receiver: Vec<ReceiverRow>,
    /// PV TLB flushes that KVM did in the place of an IPI; `None` if no event is of any.
    pub pv_flushes: Option<u64>,
    /// Hypercalls that send IPIs; `None` if no hypercall was recorded.
    pub pv_ipis: Option<u64>,
    /// The longest wait for a descheduled receiver.
    pub worst: Option<Instance>,
}

/// Shootdowns as the kernel that does them shows them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShootdownTable {
    /// From begin until all have flushed.
    pub latency_ns: Spread,
    /// Targets of each.
    pub targets: Spread,
    /// Flushes done for another CPU.
    pub flushes_for_another: u64,
    /// Begun but never seen done.
    pub unfinished: u64,
    /// The longest.
    pub worst: Option<Instance>,
}

/// What keeping time costs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimerTable {
    /// Exits that arm or stop the timer; `None` if no event is of any.
    pub arms: Option<u64>,
    /// Of these, how many stop it.
    pub stops: Option<u64>,
    /// Exits because the preemption timer ran out; `None` if no exit was recorded, or on hosts
    /// without that timer.
    pub expiry_exits: Option<u64>,
    /// Timer interrupts that virtual APICs took; `None` if no interrupt was recorded.
    pub delivered: Option<u64>,
    /// Exits on the host's own ticks; `None` if no tick was recorded.
    pub host_ticks: Option<u64>,
    /// Ticks that the host put into the guests; `None` if no source has any.
    pub ticks_injected: Option<u64>,
    /// Ticks that the guests took; `None` if no source has any.
    pub ticks_taken: Option<u64>,
    /// Time outside the guest for arming and expiry; `None` if no event is of either, or no
    /// entry was recorded.
    pub guest_timer_ns: Option<u64>,
    /// Time outside the guest for the host's ticks.
    pub host_tick_ns: Option<u64>,
    /// How often its vCPUs halted; `None` if no exit was recorded.
    pub idle_entries: Option<u64>,
    /// For how long, in all; `None` if no entry was recorded.
    pub idle_ns: Option<u64>,
    /// Ticks in a second that the formulas were given.
    pub tick_hz: u64,
    /// The tick of Linux that the guest arms its timer by, if nearly all arms are one tick apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady_hz: Option<u64>,
    /// Exits that a periodic tick would take, by the Paratick paper's section 3.1.
    pub periodic: u64,
    /// Exits that a tickless kernel would take, by its section 3.2; `None` if it is not known for
    /// how long the vCPUs are idle.
    pub tickless: Option<u64>,
    /// Exits that paratick would take at most, by its section 4.2; `None` as `idle_entries`.
    pub paratick_at_most: Option<u64>,
}

/// How often vCPUs were descheduled while ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreemptTable {
    /// For how long.
    pub descheduled_ns: Spread,
    /// From wake-up to the turn; `None` if no wake-up was recorded.
    pub wakeup_ns: Option<Spread>,
    /// By the last exit before.
    pub after: Vec<Count>,
    /// How often KVM marked it preempted; `None` like the next two if no exit was recorded.
    pub marked: Option<u64>,
    /// How often not: PV TLB flush could not see it.
    pub unmarked: Option<u64>,
    /// For how long without the mark.
    pub unmarked_ns: Option<u64>,
    /// How often it waited of its own will.
    pub blocked: u64,
    /// The longest time without the mark.
    pub worst_unmarked: Option<Instance>,
    /// Times in which threads waited where no signal reaches them (D state).
    pub uninterruptible_ns: Spread,
    /// Nanoseconds of these by the last exit before, most first.
    pub uninterruptible_after: Vec<Count>,
    /// The longest of these.
    pub worst_uninterruptible: Option<Instance>,
}
