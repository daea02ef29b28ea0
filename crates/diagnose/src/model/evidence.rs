// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Evidence: numbers with their units. The report puts them into words.

use serde::{Deserialize, Serialize};

/// What a piece of evidence shows; with it go the names of its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EvidenceId {
    /// Pause-loop exits of one cause: `exits`, `share` of `all` of the VM.
    PauseShare,
    /// Time around them: `spun` before, `outside` after.
    PauseTime,
    /// One place: `exits`, `rip`, `function` if it is known, `longest` run, `ipi_pending`.
    PausePlace,
    /// `share` of the exits that are in runs.
    RunShare,
    /// The longest run: `exits`, `vcpu`, `rip`, `function` if it is known, `length`.
    RunLongest,
    /// Long runs: `runs_10`, `runs_100`, among `runs`.
    RunCounts,
    /// Looks for a vCPU to boost with one outcome: `times` of `spins`, `share`.
    BoostShare,
    /// Boosts that the scheduler agreed to: `decided`, of these `ran_next`, `share`.
    BoostRanNext,
    /// Who ran instead: a count for each.
    BoostInstead,
    /// Looks that left out a ready vCPU with an IPI of the spinner's: `looks`.
    BoostPassedOver,
    /// Calls to vCPUs that do not run: `descheduled` of `all`, `share`.
    IpiShare,
    /// How long these took: `mean`, `max`; a running vCPU: `running_mean`.
    IpiDelay,
    /// Whole calls: `calls`, `mean`, `p99`, `max`.
    IpiCalls,
    /// Deschedules: `times`, `mean`, `max`.
    StealDescheduled,
    /// Waits after wake-ups: `times`, `mean`, `max`.
    StealWakeup,
    /// The same as the guest's steal time counts it: `descheduled` and, with it, `woken`.
    StealAsGuestCounts,
    /// Exits of one reason: `reason`, `exits`, `mean`, `max`.
    ExitShare,
    /// What they were about: `kind`, `value` and `name` if they are known, `exits`, `time`.
    ExitAbout,
    /// Waits in D state: `times`, `mean`, `max`.
    StuckTimes,
    /// Their time by the last exit before: a time for each reason.
    StuckAfter,
    /// The vCPU that waits most: `vcpu`, `steal`.
    StealWorst,
    /// Deschedules without KVM's mark: `unmarked` of `all`, `share`.
    UnmarkedShare,
    /// Their `time`.
    UnmarkedTime,
    /// Their last exits: a count for each reason.
    UnmarkedAfter,
    /// Exits for timers: `arms`, of these `stops`, `expiries`, `share` of all exits.
    TimerExits,
    /// Their `time`.
    TimerTime,
    /// Exits by formula at `tick` and `idle_entries`: `periodic`, `tickless`, `paratick_at_most`.
    TimerFormulas,
    /// Exits of one unknown code: `exits`, `isa`, `reason`, `time`.
    UnknownReason,
    /// `shootdowns` with `targets` each: `mean`, `p50`, `p99`, `max`.
    ShootdownLatency,
    /// All their `time`.
    ShootdownTime,
    /// `share` of events that were lost: every number is too low.
    EventsLost,
    /// A wait began before the trace did: `length` is the least that it was.
    FromBegin,
    /// What lies in losses: up to `more`, which is not in the number.
    InLosses,
    /// pCPUs of which the trace has no record: `seen` of `pcpus`.
    PcpusUnseen,
    /// In `share` of the waits threads ran that may be its own VMM's.
    MayBeOwnVmm,
    /// Only switches of vCPUs are in the trace.
    OnlyVcpus,
    /// Of `waited` in waits in which a pCPU had no record for long, the longest `length`.
    PcpuSilent,
    /// The trace lasts `length` only: what holds for it may not hold for longer.
    ShortExcerpt,
    /// One stall: `length`, after an exit for `reason`.
    StallLength,
    /// A guest reports a soft lockup after 20 s, or where `watchdog_thresh` is at most this.
    StallWatchdog,
    /// Further stalls of 100 ms and more: `more`.
    StallOthers,
    /// Sleep outside halts: `times`, `mean`, `max`.
    AsleepTimes,
    /// The same by why KVM went back to the VMM: a time for each.
    AsleepReasons,
    /// `exits` of `reason`, `per_second`.
    StormRate,
    /// `exits` of them, `share`, at one place: `kind` (`memory`, `rip`) and `at`.
    StormPlace,
    /// A server's waits: `times`, `mean`, `max`.
    ServerTimes,
    /// What was wanted: `vcpus` wanted `wanted` thousandths of a pCPU; there are `pcpus`, `idle`.
    HostDemand,
    /// For how long each VM waited: a time for each.
    HostWaits,
    /// A limit: `quota` of each `period`; the vCPUs `ran` that share of it.
    QuotaUsed,
    /// The priority of the vCPUs' threads, where it is not nice 0.
    OwnPriority,
    /// In `share` of the waits threads of a real-time priority, or the deadline class, ran.
    RivalRealTime,
    /// What only `vcpu` of `vcpus` loses, and `more` others beside it.
    OneVcpu,
    /// A thread in a table: `name`, `waits` in number, `mean`, `max`, and `at`, by its clock.
    TableThread,
    /// By a table: `who` was ready but did not run for `waited`, `ran`, `share` of the two.
    TableWait,
    /// Steal in a guest's table: of `who` `mean` and `max` in `samples`.
    TableSteal,
    /// A cgroup's limit: `throttled` of `periods`, `share`, `time` and the group's `name`.
    TableThrottle,
    /// PSI: `avg10`, `avg60`, `avg300` of `who`, and the `time` in all.
    TablePressure,
    /// Exits in a table: `reason`, `exits`, `share` of them and `time_share`, `mean`, `max`.
    TableExits,
    /// Events in a table: `name`, `count`, `rate` in a second.
    TableEvents,
    /// A histogram of waits: `waits`, of these `late` ones of `bound` and more, `longest` bucket.
    TableHistogram,
    /// A host's CPUs: `idle`, of all `guest`, and `ready` threads on `cpus`.
    TableIdle,
    /// Interrupts and softirqs took `mean` of the time, `max` at most, of `who`.
    TableInterrupts,
    /// CPUs waited for I/O for `mean` of the time, `max` at most.
    TableIoWait,
    /// KiB swapped `in` and `out` in a second.
    TableSwap,
    /// Beside a group's tasks CPUs were kept idle for `time`; the group `ran`, its `name`.
    TableForcedIdle,
    /// A thread in a table, its `name`, was blocked for `max` at once, for `time` in all.
    TableBlocked,
    /// A limit in a table: `quota` of each `period`, and the group's `name`.
    TableLimit,
    /// What is not in a table was looked for in `rows` of it, of `who`.
    TableLacks,
    /// A line of a log: its `line` number and its `text`.
    LogLine,
    /// The stack below a line of a log: `function`, and its `caller` that explains it.
    LogStack,
    /// How often a log complains: `times`, on `cpus` CPUs, `longest`.
    LogTimes,
}

/// A number with its unit, or a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "unit", content = "value", rename_all = "kebab-case")]
pub enum Quantity {
    /// How many.
    Count(u64),
    /// Nanoseconds of the trace's clock.
    Ns(u64),
    /// Thousandths of a whole.
    Permille(u64),
    /// How often in a second.
    Hz(u64),
    /// A number that names something, such as a vCPU's.
    Number(u64),
    /// A name: a function, an exit reason, an address in hexadecimal.
    Name(String),
}

/// A quantity and what it is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Value {
    /// Its name in the piece of evidence.
    pub name: String,
    /// The number.
    #[serde(flatten)]
    pub quantity: Quantity,
}

/// Numbers that show one thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// What they show.
    pub id: EvidenceId,
    /// The numbers.
    pub values: Vec<Value>,
}

impl Evidence {
    /// Without values.
    #[must_use]
    pub fn new(id: EvidenceId) -> Self {
        let values = Vec::new();
        Self { id, values }
    }

    /// The value of this name.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&Quantity> {
        let mut values = self.values.iter();
        values
            .find(|value| value.name == name)
            .map(|value| &value.quantity)
    }

    fn with(mut self, name: &str, quantity: Quantity) -> Self {
        assert!(!name.is_empty(), "a value has a name");
        assert!(self.value(name).is_none(), "{name} is there twice");
        let name = name.to_owned();
        self.values.push(Value { name, quantity });
        self
    }

    /// With a count.
    #[must_use]
    pub fn count(self, name: &str, count: u64) -> Self {
        self.with(name, Quantity::Count(count))
    }

    /// With a count, if it is known.
    #[must_use]
    pub fn maybe_count(self, name: &str, count: Option<u64>) -> Self {
        match count {
            Some(count) => self.count(name, count),
            None => self,
        }
    }

    /// With a time.
    #[must_use]
    pub fn ns(self, name: &str, ns: u64) -> Self {
        self.with(name, Quantity::Ns(ns))
    }

    /// With a time, if it is known.
    #[must_use]
    pub fn maybe_ns(self, name: &str, ns: Option<u64>) -> Self {
        match ns {
            Some(ns) => self.ns(name, ns),
            None => self,
        }
    }

    /// With a share.
    #[must_use]
    pub fn permille(self, name: &str, permille: u64) -> Self {
        self.with(name, Quantity::Permille(permille))
    }

    /// With a frequency.
    #[must_use]
    pub fn hz(self, name: &str, hz: u64) -> Self {
        self.with(name, Quantity::Hz(hz))
    }

    /// With a number that names.
    #[must_use]
    pub fn number(self, name: &str, number: u64) -> Self {
        self.with(name, Quantity::Number(number))
    }

    /// With a name.
    #[must_use]
    pub fn named(self, name: &str, value: &str) -> Self {
        self.with(name, Quantity::Name(value.to_owned()))
    }

    /// With a name, if there is one.
    #[must_use]
    pub fn maybe_named(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.named(name, value),
            None => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_carries_its_unit() {
        let evidence = Evidence::new(EvidenceId::StealWorst)
            .number("vcpu", 3)
            .ns("steal", 12);
        let text = serde_json::to_string(&evidence).unwrap();
        assert_eq!(
            text,
            r#"{"id":"steal-worst","values":[{"name":"vcpu","unit":"number","value":3},"#
                .to_owned()
                + r#"{"name":"steal","unit":"ns","value":12}]}"#
        );
        assert_eq!(serde_json::from_str::<Evidence>(&text).unwrap(), evidence);
    }

    #[test]
    #[should_panic(expected = "steal is there twice")]
    fn one_name_has_one_value() {
        let _ = Evidence::new(EvidenceId::StealWorst)
            .ns("steal", 1)
            .ns("steal", 2);
    }
}
