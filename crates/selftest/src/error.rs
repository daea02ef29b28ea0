// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can go wrong with selftests. Each text says what, and how to fix it.

use steady_lab::LabError;
use steady_lab_artifacts::ArtifactError;
use steady_race::Why;
use thiserror::Error;

/// An error of the selftests.
#[derive(Debug, Error)]
pub enum SelftestError {
    /// The emulated host, or what it is made of.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// What was asked for cannot be.
    #[error("selftests: {0}")]
    Asked(String),
}

impl SelftestError {
    /// Exit code of the command for this error, as `steady --help` lists them.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Lab(error) => error.exit_code(),
            Self::Asked(_) => Why::Input.exit_code(),
        }
    }
}

impl From<ArtifactError> for SelftestError {
    fn from(error: ArtifactError) -> Self {
        Self::Lab(error.into())
    }
}
