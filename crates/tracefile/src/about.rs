// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a trace says about itself, before its first record.

use std::collections::BTreeMap;
use std::fmt;

use crate::event::EventDef;

/// How a trace is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// trace-cmd's binary file; 6 or 7.
    TraceDat {
        /// The file's version.
        version: u32,
    },
    /// perf's binary file.
    PerfData {
        /// Written to a pipe: no table of contents.
        pipe: bool,
    },
    /// Text of ftrace's `trace` or `trace_pipe` file, or of `trace-cmd report`.
    FtraceText,
    /// Text of `perf script`.
    PerfScript,
    /// Text of `perf trace`.
    PerfTrace,
    /// Perfetto's protocol buffers.
    Perfetto,
}

impl Format {
    /// Whether fields are read from printed text.
    #[must_use]
    pub fn is_text(self) -> bool {
        matches!(self, Self::FtraceText | Self::PerfScript | Self::PerfTrace)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TraceDat { version } => write!(f, "trace.dat version {version}"),
            Self::PerfData { pipe: false } => f.write_str("perf.data"),
            Self::PerfData { pipe: true } => f.write_str("perf.data (pipe mode)"),
            Self::FtraceText => f.write_str("ftrace text"),
            Self::PerfScript => f.write_str("perf script text"),
            Self::PerfTrace => f.write_str("perf trace text"),
            Self::Perfetto => f.write_str("Perfetto trace"),
        }
    }
}

/// The byte order of a binary trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Endian {
    /// Least significant byte first.
    #[default]
    Little,
    /// Most significant byte first.
    Big,
}

/// A guest that was recorded together with this host (`trace-cmd record -A`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guest {
    /// The name under which trace-cmd knew it.
    pub name: String,
    /// The [`About::trace_id`] of the guest's own trace.
    pub trace_id: u64,
    /// For each vCPU its number and the thread of the host that ran it.
    pub vcpus: Vec<(u32, i32)>,
}

/// How the clock of this trace is shifted against its peer's (trace-cmd's option TIME_SHIFT).
/// Not applied to [`crate::Record::time_ns`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeShift {
    /// The peer's [`About::trace_id`].
    pub peer: u64,
    /// Per CPU of this trace: time of the measurement, offset to add, scaling.
    pub cpus: Vec<Vec<(u64, i64, u64)>>,
}

/// How ticks of the time stamp counter become nanoseconds: `ticks * mult >> shift`.
/// Applied to [`crate::Record::time_ns`] already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TscToNs {
    /// Multiplier.
    pub mult: u32,
    /// Right shift, 0 to 63.
    pub shift: u32,
    /// The offset that was measured; trace-cmd does not apply it, and neither does this crate.
    pub offset: u64,
}

/// What a trace says about itself.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct About {
    /// How it is written down.
    pub format: Format,
    /// The byte order of its records; [`Endian::Little`] for text.
    pub endian: Endian,
    /// The kernel's release (`uname -r`), if it is recorded.
    pub release: Option<String>,
    /// The machine's description: trace-cmd's uname line, or perf's architecture.
    pub uname: Option<String>,
    /// The machine's name, if it is recorded apart.
    pub hostname: Option<String>,
    /// The processor's description, if it is recorded (perf).
    pub cpu_desc: Option<String>,
    /// The version of the program that recorded it.
    pub tool: Option<String>,
    /// The command line of the recording (perf).
    pub command: Option<String>,
    /// The clock of the time stamps, as the kernel calls it (`local`, `mono`, `x86-tsc`, …).
    pub clock: Option<String>,
    /// False if the clock counts something other than nanoseconds (`counter`, `uptime`, or the
    /// time stamp counter without a conversion): `time_ns` then is in that unit.
    pub clock_is_ns: bool,
    /// The step of the time stamps in nanoseconds: 1, or 1000 where text was printed in µs.
    pub resolution_ns: u64,
    /// False if records do not name their CPU: [`crate::Record::cpu`] then is `u32::MAX`.
    pub has_cpus: bool,
    /// How many CPUs the recorded machine had, or how many the trace has data of.
    pub cpus: u32,
    /// Names of ftrace's instances; index 0 is the top one, named "".
    pub instances: Vec<String>,
    /// trace-cmd's number of this recording.
    pub trace_id: Option<u64>,
    /// Guests recorded together with this host.
    pub guests: Vec<Guest>,
    /// Clock corrections against a peer.
    pub time_shifts: Vec<TimeShift>,
    /// The conversion of time stamps, if the clock was the time stamp counter.
    pub tsc: Option<TscToNs>,
    /// Nanoseconds added to every time stamp (trace-cmd's options DATE and OFFSET).
    pub time_offset_ns: i64,
    /// The kernel's symbols, a copy of `/proc/kallsyms`, if embedded.
    pub kallsyms: Option<Vec<u8>>,
    /// Names of tasks by pid, if they are kept apart from the records.
    pub comms: BTreeMap<i32, Vec<u8>>,
    /// The kernel's statistics of each CPU's buffer, as ftrace printed them.
    pub cpu_stats: Vec<String>,
    /// The events that the trace describes, by [`EventDef::index`]. In text, those seen so far.
    pub events: Vec<EventDef>,
}

impl About {
    pub(crate) fn new(format: Format) -> Self {
        Self {
            format,
            endian: Endian::Little,
            release: None,
            uname: None,
            hostname: None,
            cpu_desc: None,
            tool: None,
            command: None,
            clock: None,
            clock_is_ns: true,
            resolution_ns: 1,
            has_cpus: true,
            cpus: 0,
            instances: vec![String::new()],
            trace_id: None,
            guests: Vec::new(),
            time_shifts: Vec::new(),
            tsc: None,
            time_offset_ns: 0,
            kallsyms: None,
            comms: BTreeMap::new(),
            cpu_stats: Vec::new(),
            events: Vec::new(),
        }
    }

    /// The event of this name, and of this system unless `system` is empty.
    #[must_use]
    pub fn event(&self, system: &str, name: &str) -> Option<&EventDef> {
        self.events
            .iter()
            .find(|e| e.name == name && (system.is_empty() || e.system == system))
    }
}
