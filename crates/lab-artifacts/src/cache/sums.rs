// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checksums of what is in the cache: written when it is built, compared before it is used.
//!
//! A folder has a file [`SUMS`] as `sha256sum` writes it, so that `sha256sum -c` reads it too. The
//! folders of a package with programs or kernels have one as well. One without it is refused, since
//! nothing is known of it. Left out: what somebody changed on purpose, together with its checksum.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::files_below;
use crate::error::ArtifactError;
use crate::home::package_fix;
use crate::need::Fix;

/// The file of an entry that has the checksums of its others.
pub const SUMS: &str = "SHA256SUMS";

/// Writes the checksums of all files below `folder` into it.
///
/// # Errors
/// [`ArtifactError::Io`].
pub fn write(folder: &Path) -> Result<(), ArtifactError> {
    let mut text = String::new();
    for (name, path) in files(folder)? {
        let digest = digest(&path).map_err(|error| ArtifactError::io("read", &path, error))?;
        text.push_str(&format!("{digest}  {name}\n"));
    }
    let to = folder.join(SUMS);
    let new = folder.join(format!("{SUMS}.{}", std::process::id()));
    fs::write(&new, text).map_err(|error| ArtifactError::io("write", &new, error))?;
    fs::rename(&new, &to).map_err(|error| ArtifactError::io("rename", &new, error))
}

/// Compares an entry with its checksums.
///
/// # Errors
/// [`ArtifactError::Damaged`] with the first file that is not as it was built,
/// [`ArtifactError::Io`].
pub fn compare(folder: &Path) -> Result<(), ArtifactError> {
    let sums = folder.join(SUMS);
    has(folder, SUMS)?;
    let text =
        fs::read_to_string(&sums).map_err(|error| ArtifactError::io("read", &sums, error))?;
    let lines = text.lines().map(|line| line.split_once("  "));
    let Some(listed) = lines.collect::<Option<Vec<_>>>() else {
        return Err(damaged(folder, &sums, "is not a list of checksums"));
    };
    for (name, path) in files(folder)? {
        if listed.iter().all(|(_, known)| *known != name) {
            return Err(damaged(folder, &path, "has no checksum"));
        }
    }
    for (wanted, name) in listed {
        has(folder, name)?;
        let path = folder.join(name);
        let found = digest(&path).map_err(|error| ArtifactError::io("read", &path, error))?;
        if found != wanted {
            let what = "is not what was built: its checksum differs";
            return Err(damaged(folder, &path, what));
        }
    }
    Ok(())
}

/// Refuses an entry without the file or folder `wanted`.
///
/// # Errors
/// [`ArtifactError::Damaged`].
pub fn has(folder: &Path, wanted: &str) -> Result<(), ArtifactError> {
    let path = folder.join(wanted);
    match path.exists() {
        true => Ok(()),
        false => Err(damaged(folder, &path, "is missing")),
    }
}

fn damaged(folder: &Path, file: &Path, what: &str) -> ArtifactError {
    let prune = || Fix::Run(format!("steady cache prune {}", entry_name(folder)));
    ArtifactError::Damaged {
        file: file.to_owned(),
        what: what.to_owned(),
        fix: package_fix(folder).unwrap_or_else(prune),
    }
}

/// An entry's name, which is that of its folder.
pub(crate) fn entry_name(folder: &Path) -> String {
    let name = folder.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// The files that have a checksum, by their names below `folder`.
fn files(folder: &Path) -> Result<BTreeMap<String, PathBuf>, ArtifactError> {
    let named = files_below(folder)?.into_iter().map(|path| {
        let name = path.strip_prefix(folder).unwrap_or(&path);
        (name.to_string_lossy().into_owned(), path.clone())
    });
    Ok(named.filter(|(name, _)| !name.starts_with(SUMS)).collect())
}

fn digest(path: &Path) -> io::Result<String> {
    let mut hasher = Sha256::new();
    io::copy(&mut File::open(path)?, &mut hasher)?;
    let digest = hasher.finalize();
    Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> tempfile::TempDir {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("programs")).unwrap();
        fs::write(place.path().join("programs/a"), "a").unwrap();
        fs::write(place.path().join("build.log"), "done\n").unwrap();
        place
    }

    #[test]
    fn an_entry_is_the_same_until_a_byte_of_it_changes_or_a_file_goes() {
        let place = entry();
        write(place.path()).unwrap();
        compare(place.path()).unwrap();
        fs::write(place.path().join("programs/a"), "b").unwrap();
        let said = compare(place.path()).unwrap_err().to_string();
        assert!(said.contains("programs/a is not what was built"), "{said}");
        fs::remove_file(place.path().join("programs/a")).unwrap();
        let said = compare(place.path()).unwrap_err().to_string();
        assert!(said.contains("programs/a is missing"), "{said}");
    }

    #[test]
    fn the_checksums_are_those_of_sha256sum() {
        let place = entry();
        write(place.path()).unwrap();
        let checked = std::process::Command::new("sha256sum")
            .args(["--check", "--strict", SUMS])
            .current_dir(place.path())
            .output()
            .unwrap();
        assert!(checked.status.success(), "{checked:?}");
        assert_eq!(
            checked.stdout.iter().filter(|&&byte| byte == b'\n').count(),
            2
        );
    }

    #[test]
    fn an_entry_without_checksums_or_with_other_words_is_refused() {
        let place = entry();
        let said = || compare(place.path()).unwrap_err().to_string();
        assert!(said().contains("SHA256SUMS is missing; fix: steady cache prune"));
        for (sums, expected) in [
            ("no sums\n", "is not a list of checksums"),
            ("", "build.log has no checksum"),
        ] {
            fs::write(place.path().join(SUMS), sums).unwrap();
            assert!(said().contains(expected), "{}", said());
        }
    }
}
