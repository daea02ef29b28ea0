// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whole files or none: written beside their place, then moved there.
use crate::error::Error;
use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Writes `bytes` to `path` such that a reader finds the old file or the new one, never a part.
///
/// The bytes go to a temporary file in the same directory, reach the disk, and take the place of
/// `path` by a rename. The new file has the permissions that the process's mask grants.
///
/// # Errors
/// [`Error::Write`] if any step fails, for want of space for instance. The temporary file is then
/// gone and `path` is as it was.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    write_with(path, |file| file.write_all(bytes)).map_err(|source| Error::Write {
        path: path.to_owned(),
        source,
    })
}

fn write_with(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut aside = tempfile::Builder::new()
        .prefix(".steady-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory)?;
    fill(aside.as_file_mut())?;
    aside.as_file().sync_all()?;
    aside.persist(path).map_err(|error| error.error)?;
    // The rename itself must survive a power cut too.
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_leaves_the_old_file_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("result.json");
        write_atomic(&path, b"old").unwrap();
        let failed = write_with(&path, |file| {
            file.write_all(b"half of the n")?;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        });
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_missing_directory_is_named() {
        let path = Path::new("no-such-directory/result.json");
        let error = write_atomic(path, b"").unwrap_err();
        assert!(error.to_string().contains("no-such-directory/result.json"));
    }
}
