// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checksums of what is in the cache: written when it is built, compared before it is used.
//!
//! An entry has a file [`SUMS`] as `sha256sum` writes it, so that `sha256sum -c` reads it too.
//! Entries of older programs have none: [`check`] takes them over as they are, and says so. What
//! it can see of those is a kernel image shorter than its own header says. Left out: what somebody
//! changed on purpose, together with its checksum.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::files_below;
use crate::error::ArtifactError;
use crate::home::is_of_package;
use crate::need::{Fix, LAB_PACKAGE};

/// The file of an entry that has the checksums of its others.
pub const SUMS: &str = "SHA256SUMS";
/// The file of a kernel's entry that boots.
const IMAGE: &str = "bzImage";

/// What was found of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checked {
    /// Every file is the one that was built.
    Same,
    /// It has no checksums: nothing is known of it but that a kernel's image is not short.
    Adopted,
}

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

/// Compares an entry with its checksums, and gives it some where it has none.
///
/// # Errors
/// As [`compare`].
pub fn check(folder: &Path) -> Result<Checked, ArtifactError> {
    let checked = compare(folder)?;
    if checked == Checked::Adopted {
        // A cache of another user's, which may only be read, is used as it is.
        let _ = write(folder);
    }
    Ok(checked)
}

/// Compares an entry with its checksums; writes nothing.
///
/// # Errors
/// [`ArtifactError::Damaged`] with the first file that is not as it was built,
/// [`ArtifactError::Io`].
pub fn compare(folder: &Path) -> Result<Checked, ArtifactError> {
    whole_image(folder)?;
    let sums = folder.join(SUMS);
    let text = match fs::read_to_string(&sums) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Checked::Adopted),
        Err(error) => return Err(ArtifactError::io("read", &sums, error)),
    };
    for line in text.lines() {
        let Some((wanted, name)) = line.split_once("  ") else {
            return Err(damaged(folder, &sums, "is not a list of checksums"));
        };
        let path = folder.join(name);
        let found = match digest(&path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(damaged(folder, &path, "is missing"));
            }
            Err(error) => return Err(ArtifactError::io("read", &path, error)),
        };
        if found != wanted {
            let what = "is not what was built: its checksum differs";
            return Err(damaged(folder, &path, what));
        }
    }
    Ok(Checked::Same)
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
    let fix = if is_of_package(folder) {
        Fix::AsRoot(format!("apt-get install --reinstall {LAB_PACKAGE}"))
    } else {
        Fix::Run(format!("steady cache prune {}", entry_name(folder)))
    };
    ArtifactError::Damaged {
        file: file.to_owned(),
        what: what.to_owned(),
        fix,
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

/// Refuses a kernel image that ends before its header says (Documentation/arch/x86/boot.rst:
/// `setup_sects` at 0x1f1, `syssize` in units of 16 bytes at 0x1f4, `HdrS` at 0x202).
pub(crate) fn whole_image(folder: &Path) -> Result<(), ArtifactError> {
    let path = folder.join(IMAGE);
    let Ok(mut file) = File::open(&path) else {
        return Ok(());
    };
    let mut head = Vec::new();
    let read = file.by_ref().take(0x206).read_to_end(&mut head);
    read.map_err(|error| ArtifactError::io("read", &path, error))?;
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    let said = match head.get(0x202..0x206) {
        Some(b"HdrS") => {
            let size = u32::from_le_bytes([head[0x1f4], head[0x1f5], head[0x1f6], head[0x1f7]]);
            (u64::from(head[0x1f1]) + 1) * 512 + u64::from(size) * 16
        }
        _ => return Err(damaged(folder, &path, "is not the image of a kernel")),
    };
    if length < said {
        let what = format!("has {length} bytes of the {said} that its header names");
        return Err(damaged(folder, &path, &what));
    }
    Ok(())
}

/// The least of a kernel's image: a header that names three units of 16 bytes behind it.
#[cfg(test)]
pub(crate) fn least_image() -> Vec<u8> {
    let mut bytes = vec![0; 1024 + 48];
    bytes[0x1f1] = 1;
    bytes[0x1f4] = 3;
    bytes[0x202..0x206].copy_from_slice(b"HdrS");
    bytes
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
        assert_eq!(check(place.path()).unwrap(), Checked::Same);
        fs::write(place.path().join("programs/a"), "b").unwrap();
        let said = check(place.path()).unwrap_err().to_string();
        assert!(said.contains("programs/a is not what was built"), "{said}");
        fs::remove_file(place.path().join("programs/a")).unwrap();
        let said = check(place.path()).unwrap_err().to_string();
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
    fn an_entry_without_checksums_is_taken_over_once() {
        let place = entry();
        assert_eq!(check(place.path()).unwrap(), Checked::Adopted);
        assert_eq!(check(place.path()).unwrap(), Checked::Same);
    }

    #[test]
    fn a_short_kernel_is_refused_even_without_checksums() {
        let place = entry();
        let path = place.path().join(IMAGE);
        fs::write(&path, least_image()).unwrap();
        assert_eq!(check(place.path()).unwrap(), Checked::Adopted);
        fs::remove_file(place.path().join(SUMS)).unwrap();
        fs::write(&path, &least_image()[..1050]).unwrap();
        let said = check(place.path()).unwrap_err().to_string();
        assert!(said.contains("has 1050 bytes of the 1072"), "{said}");
        fs::write(&path, "not a kernel").unwrap();
        let said = check(place.path()).unwrap_err().to_string();
        assert!(said.contains("is not the image of a kernel"), "{said}");
    }
}
