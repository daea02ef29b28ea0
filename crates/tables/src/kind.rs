// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kinds of tables and logs: what each is called, what it cannot show, and which command
//! decides what it leaves open.

use steady_diagnose::TableNote;

use crate::table::Side;

/// What records on a host what no table has.
pub(crate) const RECORD: &str = "sudo steady record";

/// A kind of table or log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `perf kvm stat report` and `perf kvm stat live`.
    PerfKvmStat,
    /// `kvm_stat`, its screen, `-1` and `-l`.
    KvmStat,
    /// `perf stat -e kvm:*`.
    PerfStat,
    /// `perf sched latency`.
    SchedLatency,
    /// `perf sched timehist`.
    SchedTimehist,
    /// `virsh domstats`.
    Domstats,
    /// `runqlat`, `cpudist` and other histograms of bcc, bpftrace and SystemTap.
    Histogram,
    /// `runqslower`.
    Runqslower,
    /// `/proc/PID/sched`.
    ProcSched,
    /// `/proc/PID/schedstat`.
    ProcSchedstat,
    /// A cgroup's `cpu.stat`.
    CpuStat,
    /// A cgroup's `cpu.max`.
    CpuMax,
    /// Pressure stall information: `/proc/pressure/cpu` and a cgroup's `cpu.pressure`.
    Pressure,
    /// `mpstat`, `sar -u` and `iostat`.
    Mpstat,
    /// `vmstat`.
    Vmstat,
    /// `top`.
    Top,
    /// The kernel's log.
    KernelLog,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::PerfKvmStat,
        Self::KvmStat,
        Self::PerfStat,
        Self::SchedLatency,
        Self::SchedTimehist,
        Self::Domstats,
        Self::Histogram,
        Self::Runqslower,
        Self::ProcSched,
        Self::ProcSchedstat,
        Self::CpuStat,
        Self::CpuMax,
        Self::Pressure,
        Self::Mpstat,
        Self::Vmstat,
        Self::Top,
        Self::KernelLog,
    ];

    /// Its name in JSON, and in `docs/formats/traces.md`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::PerfKvmStat => "perf-kvm-stat",
            Self::KvmStat => "kvm_stat",
            Self::PerfStat => "perf-stat",
            Self::SchedLatency => "perf-sched-latency",
            Self::SchedTimehist => "perf-sched-timehist",
            Self::Domstats => "virsh-domstats",
            Self::Histogram => "histogram",
            Self::Runqslower => "runqslower",
            Self::ProcSched => "proc-sched",
            Self::ProcSchedstat => "proc-schedstat",
            Self::CpuStat => "cpu.stat",
            Self::CpuMax => "cpu.max",
            Self::Pressure => "pressure",
            Self::Mpstat => "mpstat",
            Self::Vmstat => "vmstat",
            Self::Top => "top",
            Self::KernelLog => "kernel-log",
        }
    }

    /// What it is, in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::PerfKvmStat => "table of perf kvm stat",
            Self::KvmStat => "table of kvm_stat",
            Self::PerfStat => "table of perf stat",
            Self::SchedLatency => "table of perf sched latency",
            Self::SchedTimehist => "table of perf sched timehist",
            Self::Domstats => "statistics of virsh domstats",
            Self::Histogram => "histogram of a BPF or SystemTap tool",
            Self::Runqslower => "table of runqslower",
            Self::ProcSched => "/proc/PID/sched",
            Self::ProcSchedstat => "/proc/PID/schedstat",
            Self::CpuStat => "a cgroup's cpu.stat",
            Self::CpuMax => "a cgroup's cpu.max",
            Self::Pressure => "pressure stall information (PSI)",
            Self::Mpstat => "table of mpstat, sar or iostat",
            Self::Vmstat => "table of vmstat",
            Self::Top => "screen of top",
            Self::KernelLog => "kernel's log",
        }
    }

    /// What such a table cannot show.
    #[must_use]
    pub fn cannot_show(self) -> &'static [&'static str] {
        match self {
            Self::PerfKvmStat => &[
                "when the exits were",
                "which part of an exit's time was a wait for a pCPU",
                "whose vCPU it was if several VMs run",
            ],
            Self::KvmStat | Self::PerfStat => &["how long exits took", "waits for pCPUs"],
            Self::SchedLatency => &[
                "who ran instead",
                "which thread waited if rows are of several",
            ],
            Self::SchedTimehist => &[
                "who ran instead",
                "how long a descheduled thread stayed ready",
            ],
            Self::Domstats | Self::ProcSched | Self::ProcSchedstat => &[
                "who ran instead",
                "when it was",
                "how long the longest wait was",
            ],
            Self::Histogram => &["who waited", "who ran instead", "when it was"],
            Self::Runqslower => &[
                "waits below its bound",
                "who ran through the whole of a wait",
            ],
            Self::CpuMax => &["whether the limit is reached", "waits for pCPUs"],
            Self::CpuStat => &["which vCPU stood still", "when it was"],
            Self::Pressure => &["which tasks waited", "who ran instead"],
            Self::Mpstat | Self::Vmstat | Self::Top => &[
                "who ran instead on the host",
                "how long a single stall was",
                "steal that the host does not report to its guest",
            ],
            Self::KernelLog => &[
                "what the host ran meanwhile",
                "stalls below the watchdog's bound",
            ],
        }
    }

    /// The one command that would decide what it leaves open.
    #[must_use]
    pub fn decide(self) -> &'static str {
        RECORD
    }

    pub(crate) fn note(self, side: Side, rows: u64) -> TableNote {
        TableNote {
            tool: self.word().to_owned(),
            side: side.word().to_owned(),
            rows,
            cannot_show: self
                .cannot_show()
                .iter()
                .map(|&what| what.to_owned())
                .collect(),
            decide: self.decide().to_owned(),
        }
    }
}
