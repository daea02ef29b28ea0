// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The exit codes of errors, as `steady --help` lists them. A room whose errors should end the
//! command with another code than 1 has its line in [`KNOWN`].

use anyhow::Error;
use steady_diagnose::{DiagnoseError, SymbolsError};
use steady_lab::LabError;
use steady_lab_artifacts::ArtifactError;
use steady_memtrace::TraceError;
use steady_memtrace::capture::CaptureError;
use steady_memtrace::host::HostTraceError;
use steady_race::{RaceError, Trouble};
use steady_record::RecordError;
use steady_scenario::{LoadError, UnknownVariant};
use steady_selftest::SelftestError;
use steady_steer::SteerError;

use crate::command::spans::NoWorkload;

/// Whatever has no line of its own.
const OTHER: u8 = 1;
/// The input is not what was expected.
const INPUT: u8 = 2;
/// Something is not installed.
const MISSING: u8 = 3;
/// A run failed.
const RUN: u8 = 5;
/// The user asked to stop.
const INTERRUPTED: u8 = 130;

/// An error that knows its exit code.
trait ExitCode: std::error::Error + Send + Sync + 'static {
    fn exit_code(&self) -> u8;
}

/// The errors that know theirs; no two match one error.
const KNOWN: [fn(&Error) -> Option<u8>; 21] = [
    code_of::<ArtifactError>,
    code_of::<LabError>,
    code_of::<SelftestError>,
    code_of::<RaceError>,
    code_of::<RecordError>,
    code_of::<SteerError>,
    code_of::<Trouble>,
    code_of::<LoadError>,
    code_of::<UnknownVariant>,
    code_of::<steady_measures::Error>,
    code_of::<steady_evidence::Error>,
    code_of::<DiagnoseError>,
    code_of::<SymbolsError>,
    code_of::<steady_tables::ReadError>,
    code_of::<steady_tracefile::Error>,
    code_of::<steady_shoot4u_check::Error>,
    code_of::<steady_coherence::Error>,
    code_of::<TraceError>,
    code_of::<CaptureError>,
    code_of::<HostTraceError>,
    code_of::<NoWorkload>,
];

/// The exit code for an error.
pub fn exit_code(error: &Error) -> u8 {
    let known = KNOWN.iter().find_map(|code_of| code_of(error));
    known.unwrap_or(OTHER)
}

fn code_of<E: ExitCode>(error: &Error) -> Option<u8> {
    error.downcast_ref::<E>().map(E::exit_code)
}

/// Errors that are always the input's.
macro_rules! of_input {
    ($($error:ty),*) => {
        $(impl ExitCode for $error {
            fn exit_code(&self) -> u8 {
                INPUT
            }
        })*
    };
}

of_input!(
    LoadError,
    UnknownVariant,
    DiagnoseError,
    SymbolsError,
    steady_tables::ReadError,
    steady_tracefile::Error,
    steady_shoot4u_check::Error,
    steady_coherence::Error,
    NoWorkload
);

impl ExitCode for ArtifactError {
    fn exit_code(&self) -> u8 {
        self.why().exit_code()
    }
}

impl ExitCode for LabError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Run { .. } => RUN,
            _ => self.why().exit_code(),
        }
    }
}

impl ExitCode for SelftestError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Lab(error) => error.exit_code(),
            Self::Asked(_) => INPUT,
        }
    }
}

impl ExitCode for RaceError {
    fn exit_code(&self) -> u8 {
        Self::exit_code(self)
    }
}

impl ExitCode for SteerError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::NoTimes(_) | Self::NoSteal(_) | Self::NoCpuset(_) => MISSING,
            _ => OTHER,
        }
    }
}

impl ExitCode for RecordError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::NoTracefs(_)
            | Self::NoRights(_)
            | Self::ReadOnly(_)
            | Self::Locked(_)
            | Self::NoEvents
            | Self::NoWaits(_) => MISSING,
            Self::Condition(_) | Self::NoVm { .. } | Self::Damaged { .. } => INPUT,
            _ => OTHER,
        }
    }
}

impl ExitCode for Trouble {
    fn exit_code(&self) -> u8 {
        self.why.exit_code()
    }
}

impl ExitCode for steady_measures::Error {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Read { .. } | Self::Write { .. } => OTHER,
            _ => INPUT,
        }
    }
}

impl ExitCode for steady_evidence::Error {
    fn exit_code(&self) -> u8 {
        match self {
            Self::File { .. } => OTHER,
            Self::None { .. } => MISSING,
            _ => INPUT,
        }
    }
}

impl ExitCode for TraceError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Io { .. } => OTHER,
            Self::Empty { .. }
            | Self::Foreign { .. }
            | Self::Version { .. }
            | Self::Truncated { .. }
            | Self::Damaged { .. }
            | Self::Invariant { .. }
            | Self::Unsupported { .. }
            | Self::NoAccesses { .. }
            | Self::Unwritable { .. } => INPUT,
        }
    }
}

impl ExitCode for HostTraceError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Io { .. } => OTHER,
            _ => INPUT,
        }
    }
}

impl ExitCode for CaptureError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::NoCommand
            | Self::PluginPath(_)
            | Self::ProgramMissing(_)
            | Self::NotElf { .. } => INPUT,
            Self::QemuMissing(_) | Self::PluginMissing(_) => MISSING,
            Self::Io { .. } => OTHER,
            Self::Interrupted => INTERRUPTED,
            Self::Trace(error) => error.exit_code(),
            Self::NoPlugin { .. }
            | Self::PluginSilent { .. }
            | Self::Stream { .. }
            | Self::StreamLost
            | Self::NoExit => RUN,
        }
    }
}
