// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where things are: the project's tree and the cache beside it.

use std::path::{Path, PathBuf};

use crate::error::ArtifactError;

/// The two folders that everything else is found under.
#[derive(Debug, Clone)]
pub struct Home {
    /// Root of the project's tree.
    pub project: PathBuf,
    /// Cache for what takes long to build: `$STEADY_CACHE`, or `~/.cache/steady`.
    pub cache: PathBuf,
}

impl Home {
    /// Finds both. The project is `$STEADY_HOME`, or the first folder with `linux/config` from
    /// the current one upwards, or the tree that this program was built in.
    ///
    /// # Errors
    /// [`ArtifactError::NoProject`] if no such tree exists.
    pub fn find() -> Result<Self, ArtifactError> {
        let given = std::env::var_os("STEADY_HOME").map(PathBuf::from);
        let here = std::env::current_dir().unwrap_or_default();
        let built = Path::new(env!("CARGO_MANIFEST_DIR"))
            .ancestors()
            .nth(2)
            .map(Path::to_path_buf);
        let mut candidates = given
            .into_iter()
            .chain(here.ancestors().map(Path::to_path_buf))
            .chain(built);
        let project = candidates.find(|path| path.join("linux/config/lab.config").is_file());
        Ok(Self {
            project: project.ok_or(ArtifactError::NoProject { searched: here })?,
            cache: std::path::absolute(cache_root())
                .map_err(|error| ArtifactError::io("find", &cache_root(), error))?,
        })
    }
}

fn cache_root() -> PathBuf {
    if let Some(path) = std::env::var_os("STEADY_CACHE") {
        return path.into();
    }
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home =
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_else(|| "/root".into())).join(".cache");
    base.unwrap_or_else(home).join("steady")
}
