// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can go wrong with a capture, each with how to fix it.

use std::io;
use std::path::PathBuf;

use crate::error::TraceError;

/// Why there is no trace.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// No program was named.
    #[error("nothing to capture: expected a program and its arguments")]
    NoCommand,
    /// The emulator is not installed.
    #[error(
        "{} not found: captures need QEMU's user-mode emulation with plugins; Debian 12 packages \
         it (apt-get install qemu-user), elsewhere `steady build qemu-user` makes it",
        .0.display()
    )]
    QemuMissing(PathBuf),
    /// The plugin is not built.
    #[error(
        "plugin {} not found: build it with `make -C plugins/qemu-memtrace` or name another",
        .0.display()
    )]
    PluginMissing(PathBuf),
    /// The plugin's path would be read as several options by QEMU.
    #[error("plugin path {} holds a comma, which QEMU takes for an option; move it", .0.display())]
    PluginPath(PathBuf),
    /// The program does not exist or cannot be executed.
    #[error("program {} not found: expected an executable file, or a name in PATH", .0.display())]
    ProgramMissing(PathBuf),
    /// The program is a script or for another machine.
    #[error(
        "{}: not an x86-64 ELF program (it begins with \"{found}\"): name the binary itself, \
         for a script its interpreter", .path.display()
    )]
    NotElf {
        /// The program.
        path: PathBuf,
        /// Its first bytes, printable.
        found: String,
    },
    /// The emulator ended before the plugin reported.
    #[error(
        "the emulator ended before the plugin started ({status}): its message above says why; \
         needed is qemu-x86_64 with TCG plugins, 7.0 or newer, not linked statically"
    )]
    NoPlugin {
        /// Exit status of the emulator.
        status: String,
    },
    /// The plugin never called.
    #[error("the plugin did not report within {seconds} s; is the machine overloaded?")]
    PluginSilent {
        /// How long it was waited for.
        seconds: u64,
    },
    /// The caller asked to stop before there was anything to keep.
    #[error("interrupted before the program began; no trace was written")]
    Interrupted,
    /// The stream from the plugin is not what the converter understands.
    #[error("stream from the plugin, byte {offset}: expected {expected}, found {found}")]
    Stream {
        /// Offset into the stream.
        offset: u64,
        /// What should have come.
        expected: String,
        /// What came.
        found: String,
    },
    /// The stream broke while the program ran on.
    #[error(
        "the stream broke while the program ran: it probably closes all its file descriptors, \
         the plugin's among them; no trace was written. Limit the capture (--max-accesses) to \
         what comes before that"
    )]
    StreamLost,
    /// The program said that it ends and did not.
    #[error("the program ended but the emulator did not exit; no trace was written")]
    NoExit,
    /// The operating system refused.
    #[error("cannot {action}: {error}")]
    Io {
        /// What was tried, as a verb phrase.
        action: &'static str,
        /// The system's reason.
        error: io::Error,
    },
    /// The trace could not be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

pub(super) fn io_error(action: &'static str) -> impl FnOnce(io::Error) -> CaptureError {
    move |error| CaptureError::Io { action, error }
}
