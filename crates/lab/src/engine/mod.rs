// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The emulated hosts: how each emulator is started, and how its run is watched to the end.

pub mod bochs;
pub mod machine;
pub mod qemu;
pub mod watch;

use std::path::{Path, PathBuf};

use steady_measures::Clock;

use crate::artifact::bochs::Bochs;
use crate::error::LabError;

/// An engine of the lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EngineKind {
    /// QEMU's TCG with AMD SVM; its clock is the wall.
    Qemu,
    /// Bochs with Intel VMX; its clock is instructions, so runs repeat to the last digit.
    Bochs,
}

impl EngineKind {
    /// Its name in commands and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Qemu => "qemu",
            Self::Bochs => "bochs",
        }
    }

    /// Most pCPUs that it can emulate.
    pub fn most_pcpus(self) -> u32 {
        match self {
            Self::Qemu => 64,
            // Bochs gives 8 bits to APIC ids, and its BIOS's tables have room for fewer.
            Self::Bochs => 8,
        }
    }

    /// Most memory of an emulated host, in MiB, where the emulator itself has a limit.
    pub fn most_memory_mib(self) -> Option<u32> {
        match self {
            Self::Qemu => None,
            // The range of Bochs 3.0's memory option, without its support for large RAM files.
            Self::Bochs => Some(2048),
        }
    }

    /// What its nanoseconds are made of.
    pub fn clock(self) -> Clock {
        match self {
            Self::Qemu => Clock::Wall,
            Self::Bochs => Clock::Instructions {
                per_second: bochs::INSTRUCTIONS_PER_SECOND,
            },
        }
    }
}

/// An engine with the program that runs it.
#[derive(Debug, Clone)]
pub enum Engine {
    /// QEMU, by its program.
    Qemu {
        /// The program.
        program: PathBuf,
        /// Frequency of this machine's time-stamp counter, which is the guest's under TCG.
        tsc_khz: u64,
    },
    /// Bochs.
    Bochs(Bochs),
}

/// What one emulated host boots.
#[derive(Debug, Clone, Copy)]
pub struct Boot<'a> {
    /// Kernel image.
    pub kernel: &'a Path,
    /// Initramfs archives, unpacked one after another.
    pub archives: &'a [&'a [u8]],
    /// The kernel's command line.
    pub cmdline: &'a str,
    /// Physical CPUs.
    pub pcpus: u32,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Folder for what is booted and for the logs.
    pub directory: &'a Path,
}

/// How an emulator is started, and where its words go.
#[derive(Debug)]
pub struct Start {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Files that are of no use once the run has ended well.
    pub scratch: Vec<PathBuf>,
}

/// The serial console of the emulated host.
pub const SERIAL: &str = "serial.log";
/// What the emulator itself says.
pub const EMULATOR_LOG: &str = "emulator.log";
/// The frames that the host sends.
pub const STREAM: &str = "stream.bin";

impl Engine {
    /// Which engine it is.
    pub fn kind(&self) -> EngineKind {
        match self {
            Self::Qemu { .. } => EngineKind::Qemu,
            Self::Bochs(_) => EngineKind::Bochs,
        }
    }

    /// Words that every host of this engine needs on its kernel's command line.
    pub fn host_words(&self) -> String {
        match self {
            Self::Qemu { tsc_khz, .. } => format!("{} tsc_early_khz={tsc_khz}", qemu::HOST_WORDS),
            Self::Bochs(bochs) if bochs.compiled => bochs::HOST_WORDS.to_owned(),
            Self::Bochs(_) => bochs::HOST_WORDS_PACKAGED.to_owned(),
        }
    }

    /// Writes what the emulator boots and says how to start it.
    ///
    /// # Errors
    /// [`LabError::Io`], and what making the boot medium can fail with.
    pub fn prepare(&self, boot: &Boot<'_>) -> Result<Start, LabError> {
        match self {
            Self::Qemu { program, .. } => qemu::prepare(program, boot),
            Self::Bochs(bochs) => bochs::prepare(bochs, boot),
        }
    }
}
