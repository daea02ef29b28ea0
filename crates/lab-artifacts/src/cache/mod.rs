// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What takes long to make is kept in the cache, under a key made of everything that went in.
//!
//! A build happens beside its place and is renamed when it is whole, so an interrupted one leaves
//! nothing that looks finished. What is there is compared with its checksums ([`sums`]) and held
//! until this process ends, so that it is not removed meanwhile ([`shelf`]).

pub mod program;
pub mod shelf;
pub mod sums;
pub mod wanted;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::error::ArtifactError;
use crate::process::find_program;
use crate::said;

/// Collects what a build depends on.
#[derive(Debug, Default)]
pub struct Key(Sha256);

impl Key {
    /// Adds named bytes.
    pub fn add(&mut self, name: &str, bytes: &[u8]) -> &mut Self {
        for part in [name.as_bytes(), bytes] {
            self.0.update((part.len() as u64).to_le_bytes());
            self.0.update(part);
        }
        self
    }

    /// Adds all files of `parts`, which are files or folders of `root`, by their relative paths.
    ///
    /// # Errors
    /// [`ArtifactError::Io`] if one cannot be read.
    pub fn add_parts(&mut self, root: &Path, parts: &[&str]) -> Result<&mut Self, ArtifactError> {
        let mut files = files_below(root)?;
        files.retain(|path| parts.iter().any(|part| path.starts_with(root.join(part))));
        for path in files {
            let bytes = fs::read(&path).map_err(|error| ArtifactError::io("read", &path, error))?;
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy();
            self.add(&name, &bytes);
        }
        Ok(self)
    }

    /// Adds the first line that a program prints of its version.
    ///
    /// # Errors
    /// [`ArtifactError::Io`] if it cannot say: a key without it would be that of something else.
    pub fn add_version(&mut self, program: &str) -> Result<&mut Self, ArtifactError> {
        let path = find_program(program);
        let path = path.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound));
        let said = path.and_then(|path| said::version(&path).map_err(io::Error::other));
        let said = said
            .map_err(|error| ArtifactError::io("ask the version of", Path::new(program), error))?;
        let line = said.lines().next().unwrap_or_default();
        Ok(self.add(program, line.as_bytes()))
    }

    /// The key: 16 hexadecimal digits.
    #[must_use]
    pub fn finish(&self) -> String {
        let digest = self.0.clone().finalize();
        digest[..8]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

/// All files below a folder, sorted; none if there is no such folder.
///
/// # Errors
/// [`ArtifactError::Io`] if a folder cannot be read.
pub fn files_below(root: &Path) -> Result<Vec<PathBuf>, ArtifactError> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        if !folder.is_dir() {
            continue;
        }
        let entries =
            fs::read_dir(&folder).map_err(|error| ArtifactError::io("read", &folder, error))?;
        for entry in entries {
            let entry = entry.map_err(|error| ArtifactError::io("read", &folder, error))?;
            let path = entry.path();
            if path.is_dir() {
                folders.push(path)
            } else {
                files.push(path)
            }
        }
    }
    files.sort();
    Ok(files)
}

/// How far ninja has come: its last line begins with `[done/all]`.
pub(crate) fn steps_done(log: &Path) -> u64 {
    let bytes = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let last = text.lines().rev().find_map(|line| line.strip_prefix('['));
    last.and_then(|rest| rest.split('/').next()?.parse().ok())
        .unwrap_or(0)
}

/// Makes `cache/name` by `build`, which fills a folder beside it; a finished one is used again.
///
/// # Errors
/// What `build` returns; its folder is then kept as `name.failed`, so that its logs can be read.
/// [`ArtifactError::Damaged`] if a finished one is not as it was built.
pub fn cached(
    cache: &Path,
    name: &str,
    build: impl FnOnce(&Path) -> Result<(), ArtifactError>,
) -> Result<PathBuf, ArtifactError> {
    let place = cache.join(name);
    if ready(&place)? {
        return Ok(place);
    }
    fs::create_dir_all(cache).map_err(|error| ArtifactError::io("make", cache, error))?;
    let failed = cache.join(format!("{name}.failed"));
    let work = tempfile::Builder::new()
        .prefix(&format!("{name}."))
        .tempdir_in(cache)
        .map_err(|error| ArtifactError::io("make a folder in", cache, error))?;
    shelf::hold(work.path())?;
    match build(work.path()).and_then(|()| sums::write(work.path())) {
        Ok(()) => {
            let made = work.keep();
            // Somebody else may have built the same in the meantime; theirs is as good.
            match fs::rename(&made, &place) {
                Err(_) if place.is_dir() => fs::remove_dir_all(&made)
                    .map_err(|error| ArtifactError::io("remove", &made, error))?,
                result => result.map_err(|error| ArtifactError::io("rename", &made, error))?,
            }
            shelf::hold(&place)?;
            Ok(place)
        }
        Err(error) => {
            let _ = fs::remove_dir_all(&failed);
            let kept = work.keep();
            let _ = fs::rename(&kept, &failed);
            Err(moved(error, &kept, &failed))
        }
    }
}

/// Whether an entry is there; then it is as it was built, and held until this process ends.
///
/// # Errors
/// [`ArtifactError::Damaged`] if it is not, [`ArtifactError::Io`].
pub(crate) fn ready(place: &Path) -> Result<bool, ArtifactError> {
    if !shelf::hold(place)? {
        return Ok(false);
    }
    sums::compare(place)?;
    Ok(true)
}

/// The error with its log at the place where it is kept.
fn moved(error: ArtifactError, from: &Path, to: &Path) -> ArtifactError {
    match error {
        ArtifactError::Build {
            what,
            status,
            log,
            last,
        } => {
            let log = log
                .strip_prefix(from)
                .map(|rest| to.join(rest))
                .unwrap_or(log);
            ArtifactError::Build {
                what,
                status,
                log,
                last,
            }
        }
        other => other,
    }
}
