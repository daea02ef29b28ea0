// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can go wrong with selftests. Each text says what, and how to fix it.

use steady_lab::LabError;
use steady_lab_artifacts::ArtifactError;
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

impl From<ArtifactError> for SelftestError {
    fn from(error: ArtifactError) -> Self {
        Self::Lab(error.into())
    }
}
