// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Folders on the disk: room for them, and how one takes another's place.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use thiserror::Error;

use crate::machine::Machine;

/// Room that a race needs beside what it brings back, in MiB.
pub const NEED_MIB: u64 = 256;

/// A file or folder could not be used.
#[derive(Debug, Error)]
#[error("cannot {action} {}: {error}", path.display())]
pub struct FileError {
    /// What was tried.
    pub action: &'static str,
    /// With which file or folder.
    pub path: PathBuf,
    /// What the system said.
    pub error: io::Error,
}

impl FileError {
    pub(crate) fn new(action: &'static str, path: &Path, error: io::Error) -> Self {
        Self {
            action,
            path: path.to_owned(),
            error,
        }
    }
}

/// There is not enough room.
#[derive(Debug, Error)]
#[error(
    "only {free_mib} MiB free at {}, at least {need_mib} are needed: make room, or set another \
     place with -o",
    path.display()
)]
pub struct NoRoom {
    /// Where.
    pub path: PathBuf,
    /// What is there, in MiB.
    pub free_mib: u64,
    /// What is needed, in MiB.
    pub need_mib: u64,
}

/// Whether there is room for results at `folder`.
///
/// # Errors
/// [`NoRoom`] below [`NEED_MIB`]; where the system cannot say, there is room.
pub fn check_room(machine: &dyn Machine, folder: &Path) -> Result<(), NoRoom> {
    let free_mib = machine.free_bytes(folder).unwrap_or(u64::MAX) >> 20;
    if free_mib < NEED_MIB {
        return Err(NoRoom {
            path: folder.to_owned(),
            free_mib,
            need_mib: NEED_MIB,
        });
    }
    Ok(())
}

/// Puts the folder `from` in the place of `to`. What was there is gone only when the new one is in
/// place, and at every moment one of the two is there, where the file system can exchange names.
///
/// # Errors
/// [`FileError`]; what was at `to` is then still there.
pub fn replace(from: &Path, to: &Path) -> Result<(), FileError> {
    let remove =
        |old: &Path| fs::remove_dir_all(old).map_err(|error| FileError::new("remove", old, error));
    if !to.exists() {
        return fs::rename(from, to).map_err(|error| FileError::new("rename", from, error));
    }
    match renameat2(AT_FDCWD, from, AT_FDCWD, to, RenameFlags::RENAME_EXCHANGE) {
        Ok(()) => remove(from),
        Err(Errno::EINVAL | Errno::ENOSYS) => {
            let old = aside(from, to)?;
            remove(&old)
        }
        Err(error) => Err(FileError::new("rename", from, error.into())),
    }
}

/// The same in two steps, for a file system that cannot exchange names. Returns where the old is.
fn aside(from: &Path, to: &Path) -> Result<PathBuf, FileError> {
    let old = from.with_extension("old");
    fs::rename(to, &old).map_err(|error| FileError::new("move aside", to, error))?;
    match fs::rename(from, to) {
        Ok(()) => Ok(old),
        Err(error) => {
            let error = FileError::new("rename", from, error);
            fs::rename(&old, to).map_err(|error| FileError::new("move back", &old, error))?;
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with the folders `new` and `old`, each with a file of its own name.
    fn folders() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let place = tempfile::tempdir().expect("a folder");
        for name in ["new", "old"] {
            let folder = place.path().join(name);
            fs::create_dir(&folder).expect("made");
            fs::write(folder.join(name), name).expect("written");
        }
        let (new, old) = (place.path().join("new"), place.path().join("old"));
        (place, new, old)
    }

    #[test]
    fn a_folder_takes_the_place_of_another_and_nothing_else_is_left() {
        let (place, new, old) = folders();
        replace(&new, &old).expect("replaced");
        assert!(old.join("new").is_file() && !old.join("old").exists());
        assert_eq!(fs::read_dir(place.path()).expect("read").count(), 1);
    }

    #[test]
    fn the_old_folder_stays_if_the_new_one_cannot_take_its_place() {
        let (place, new, old) = folders();
        fs::remove_dir_all(&new).expect("removed");
        for replace in [replace, |from: &Path, to: &Path| {
            aside(from, to).map(|_| ())
        }] {
            let error = replace(&new, &old).expect_err("there is no new one");
            assert!(error.to_string().starts_with("cannot rename "), "{error}");
            assert!(old.join("old").is_file());
            assert_eq!(fs::read_dir(place.path()).expect("read").count(), 1);
        }
    }

    #[test]
    fn without_an_exchange_of_names_the_old_is_moved_aside_first() {
        let (_place, new, old) = folders();
        let gone = aside(&new, &old).expect("replaced");
        assert!(old.join("new").is_file() && gone.join("old").is_file());
    }
}
