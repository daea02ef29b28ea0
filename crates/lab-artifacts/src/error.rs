// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can go wrong while something is found, built or packed. Each text says what, where to read
//! more, and how to fix it.

use std::io;
use std::path::{Path, PathBuf};

use steady_race::{FileError, NoRoom, Trouble, Why};
use thiserror::Error;

use crate::need::{Fix, Lacks};

/// An error while something is found, built or packed.
#[derive(Debug, Error)]
pub enum ArtifactError {
    /// The project's own files are not there.
    #[error("the Steady tree is not {searched}; fix: {}", crate::home::NO_TREE)]
    NoProject {
        /// Where it was searched, in words.
        searched: String,
    },
    /// A file could not be read or written.
    #[error("cannot {action} {}: {error}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A program that is needed is not installed.
    #[error("{program} is not installed: {why}; fix: apt-get install {package}")]
    Missing {
        /// The program or file.
        program: String,
        /// What it is needed for.
        why: &'static str,
        /// Debian package that has it.
        package: &'static str,
    },
    /// A step of a build failed.
    #[error("{what} failed ({status}); log: {}\n{last}", log.display())]
    Build {
        /// What was being built.
        what: String,
        /// How it ended.
        status: String,
        /// The whole output.
        log: PathBuf,
        /// Its lines that say why.
        last: String,
    },
    /// Something in the cache, or in the package `steady-lab`, is not as it was built.
    #[error("{} {what}; fix: {fix}", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        what: String,
        /// What brings it back.
        fix: Fix,
    },
    /// What a command needs is not all there.
    #[error("{0}")]
    Lacks(Lacks),
    /// The cache has no entry of this name.
    #[error("the cache has no entry `{0}`; `steady cache list` names them")]
    NoEntry(String),
    /// `--kernel` names none.
    #[error("{0}")]
    KernelChoice(String),
    /// The folder that should hold a built kernel does not.
    #[error(
        "no built kernel: {} is not there; expected the folder that `make O=FOLDER bzImage` \
         filled, one of a kernel's packages, or one with vmlinuz, config and modules",
        missing.display()
    )]
    GivenKernel {
        /// The file that is not there.
        missing: PathBuf,
    },
    /// The folder of a built kernel has no KVM.
    #[error(
        "{} has no {what}; expected CONFIG_KVM and CONFIG_KVM_INTEL or CONFIG_KVM_AMD, built in or \
         as modules that `make O=FOLDER modules` made",
        folder.display()
    )]
    GivenWithoutKvm {
        /// The folder.
        folder: PathBuf,
        /// What it lacks.
        what: String,
    },
    /// A package that should hold a kernel does not.
    #[error(
        "{} {what}: expected a package `linux-image-RELEASE` of amd64 with the modules of KVM and \
         those that they depend on, a folder of the packages that one kernel is split into, or a \
         folder with their files",
        package.display()
    )]
    NotAKernel {
        /// The package, or the folder.
        package: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The kernel sources are not usable.
    #[error("no kernel source: {what}; fix: {fix}")]
    KernelSource {
        /// What is wrong.
        what: String,
        /// How to get one.
        fix: String,
        /// Whether the user named one.
        given: bool,
    },
    /// A program of the scenario cannot be put in the image.
    #[error("workload {program}: {what}")]
    Program {
        /// The program.
        program: String,
        /// What is wrong, and how to fix it.
        what: String,
    },
    /// A list of selftests is not one.
    #[error("selftests: {0}")]
    Selftests(String),
    /// There is not enough room.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    /// The user asked to stop.
    #[error("interrupted; every emulator was ended")]
    Interrupted,
}

impl ArtifactError {
    /// An [`ArtifactError::Io`].
    #[must_use]
    pub fn io(action: &'static str, path: &Path, error: io::Error) -> Self {
        Self::Io {
            action,
            path: path.to_owned(),
            error,
        }
    }

    /// The part that must act on it.
    #[must_use]
    pub fn why(&self) -> Why {
        match self {
            Self::GivenKernel { .. }
            | Self::GivenWithoutKvm { .. }
            | Self::NoEntry(_)
            | Self::NotAKernel { .. }
            | Self::KernelChoice(_)
            | Self::Program { .. }
            | Self::Selftests(_) => Why::Input,
            Self::Missing { .. }
            | Self::Lacks(_)
            | Self::KernelSource { .. }
            | Self::NoProject { .. } => Why::Missing,
            Self::Build { .. } => Why::Build,
            Self::Io { .. } | Self::Damaged { .. } | Self::NoRoom(_) => Why::Machine,
            Self::Interrupted => Why::Interrupted,
        }
    }
}

impl From<ArtifactError> for Trouble {
    fn from(error: ArtifactError) -> Self {
        Self {
            why: error.why(),
            error: Box::new(error),
        }
    }
}

impl From<FileError> for ArtifactError {
    fn from(found: FileError) -> Self {
        Self::Io {
            action: found.action,
            path: found.path,
            error: found.error,
        }
    }
}
