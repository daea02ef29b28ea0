// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady coherence`: simulations of TLB coherence, and the traces that they run on.

mod simulate;
mod source;
mod trace;

use std::io::Write;
use std::process::ExitCode;

use steady_memtrace::TraceError;
use steady_memtrace::capture::CaptureError;

use crate::arguments::coherence::{Coherence, Machine};

/// Does what was asked.
pub fn coherence(arguments: &Coherence) -> anyhow::Result<ExitCode> {
    match arguments {
        Coherence::Run(run) => simulate::run(run),
        Coherence::Compare(compare) => simulate::compare(compare),
        Coherence::Capture(capture) => trace::capture(capture),
        Coherence::Convert(convert) => trace::convert(convert),
        Coherence::Machine(shown) => machine(shown),
        Coherence::Check(check) => trace::check(check),
    }
}

/// Prints a machine with every key.
fn machine(arguments: &Machine) -> anyhow::Result<ExitCode> {
    let machine = source::machine(&arguments.machine)?;
    let mut out = std::io::stdout().lock();
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&machine)?)?;
    } else {
        out.write_all(machine.to_toml().as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The exit code for an error of the simulator or of traces, as `steady --help` lists them.
pub fn exit_code(error: &anyhow::Error) -> Option<u8> {
    if error.downcast_ref::<steady_coherence::Error>().is_some() {
        return Some(2);
    }
    if let Some(error) = error.downcast_ref::<TraceError>() {
        return Some(code_of_trace(error));
    }
    Some(match error.downcast_ref::<CaptureError>()? {
        CaptureError::NoCommand
        | CaptureError::PluginPath(_)
        | CaptureError::ProgramMissing(_)
        | CaptureError::NotElf { .. } => 2,
        CaptureError::QemuMissing(_) | CaptureError::PluginMissing(_) => 3,
        CaptureError::Io { .. } => 1,
        CaptureError::Interrupted => 130,
        CaptureError::Trace(error) => code_of_trace(error),
        CaptureError::NoPlugin { .. }
        | CaptureError::PluginSilent { .. }
        | CaptureError::Stream { .. }
        | CaptureError::StreamLost
        | CaptureError::NoExit => 5,
    })
}

fn code_of_trace(error: &TraceError) -> u8 {
    match error {
        TraceError::Io { .. } => 1,
        TraceError::Empty { .. }
        | TraceError::Foreign { .. }
        | TraceError::Version { .. }
        | TraceError::Truncated { .. }
        | TraceError::Damaged { .. }
        | TraceError::Invariant { .. }
        | TraceError::Unsupported { .. }
        | TraceError::Unwritable { .. } => 2,
    }
}
