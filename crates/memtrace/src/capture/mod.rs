// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records a real program: runs it under `qemu-x86_64` with the `qemu-memtrace` plugin and writes
//! what the plugin sends as a trace, on the fly. The trace takes its name only when it is whole.
//!
//! Left out: programs for other machines than x86-64, memory the kernel writes on the program's
//! behalf, and processes the program forks, which are named in the summary.

mod children;
mod convert;
mod error;
mod places;
mod run;
mod setup;
mod stream;

pub use children::Children;
pub use error::CaptureError;
pub use run::run;

pub(crate) use convert::Converter;
pub(crate) use stream::{RawAccess, Syscall};

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::footer::{Digest, Totals};

/// Marker the recorder writes when recording starts later than the program.
pub const MARKER_STARTED: u32 = 0xffff_ffff;
/// Marker the recorder writes where the program stopped the recording.
pub const MARKER_STOPPED: u32 = 0xffff_fffe;

/// When accesses begin to be recorded. Mapping changes are recorded from the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// With the program's first instruction.
    #[default]
    AtOnce,
    /// After this many instructions of all threads together.
    AfterInstructions(u64),
    /// Between the start and the stop marker the program makes by system call; the other two ways
    /// ignore those.
    AtMarker,
}

/// What to record and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// The program and its arguments. A name without a slash is looked up in `PATH`.
    pub command: Vec<OsString>,
    /// The trace's name. An existing file is replaced once the new one is whole.
    pub output: PathBuf,
    /// The emulator: `qemu-x86_64`, looked up in `PATH`, or a path.
    pub qemu: PathBuf,
    /// The plugin, `libqemu-memtrace.so`.
    pub plugin: PathBuf,
    /// When to begin.
    pub start: Start,
    /// Accesses after which the program is stopped.
    pub max_accesses: Option<u64>,
    /// Wall-clock time after which the program is stopped.
    pub time_limit: Duration,
    /// Instructions a thread may run ahead of the slowest running one; 0 for no limit. Smaller
    /// windows interleave the threads finer and slow the capture down.
    pub window_instructions: u64,
    /// Record where the emulator placed mappings, and not where Linux would have placed them. Only
    /// then are addresses those that the program sees.
    pub emulator_addresses: bool,
    /// False to discard what the program prints.
    pub show_output: bool,
}

impl Options {
    /// Options with the defaults: everything, for ten minutes at most.
    #[must_use]
    pub fn new(command: Vec<OsString>, output: PathBuf, plugin: PathBuf) -> Self {
        Self {
            command,
            output,
            qemu: PathBuf::from("qemu-x86_64"),
            plugin,
            start: Start::AtOnce,
            max_accesses: None,
            time_limit: Duration::from_secs(600),
            window_instructions: 20_000,
            emulator_addresses: false,
            show_output: true,
        }
    }
}

/// Why a capture ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The program exited with this code.
    Exited(i32),
    /// A signal killed the program; each thread's last accesses, up to 255, are missing.
    Killed(i32),
    /// The program became another one by `execve`, which is not recorded.
    Replaced,
    /// The limit on accesses was reached.
    AccessLimit,
    /// The time limit was reached; each thread's last accesses, up to 255, are missing.
    TimeLimit,
    /// The caller asked to stop; the same accesses are missing.
    Interrupted,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "the program exited with code {code}"),
            Self::Killed(signal) => write!(f, "signal {signal} killed the program"),
            Self::Replaced => f.write_str("the program replaced itself by another (execve)"),
            Self::AccessLimit => f.write_str("stopped at the limit on accesses"),
            Self::TimeLimit => f.write_str("stopped at the time limit"),
            Self::Interrupted => f.write_str("stopped on request"),
        }
    }
}

/// What a capture gave.
#[derive(Debug, Clone)]
pub struct Summary {
    /// Totals of the trace.
    pub totals: Totals,
    /// The trace's digest.
    pub digest: Digest,
    /// Why it ended.
    pub ending: Ending,
    /// Accesses outside every known range: System V shared memory, for one. The trace claims to
    /// know all its mappings only when there are none.
    pub unmapped_accesses: u64,
    /// Processes that the program made; they are not in the trace. Sorted by program.
    pub children: Vec<Children>,
    /// Wall-clock time from start to end.
    pub elapsed: Duration,
}
