// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is wrong with a kernel of the user's, as far as it shows before anything is built or
//! unpacked.

use super::flavor::Choice;
use super::package::{self, Package};
use crate::error::ArtifactError;

/// Looks at the files that a choice names; the lab's, releases and ports have none yet.
///
/// # Errors
/// [`ArtifactError::GivenKernel`], [`ArtifactError::GivenWithoutKvm`],
/// [`ArtifactError::NotAKernel`], [`ArtifactError::Io`].
pub fn look_at(choice: &Choice) -> Result<(), ArtifactError> {
    match choice {
        Choice::Given(folder) => super::given(folder).map(drop),
        Choice::Packaged(package @ (Package::File(_) | Package::Folder(_))) => {
            package::name_in_cache(package).map(drop)
        }
        Choice::Built(_) | Choice::Ported(_) | Choice::Packaged(Package::Debian(_)) => Ok(()),
    }
}
