// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whole files or none: written beside their place, then moved there.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::Error;

/// A file under way. It takes its place by a rename when it is whole; dropped before, it is gone.
///
/// A symbolic link stays, and the file that it names is replaced. What is not a file, such as a
/// device or a pipe, keeps its place and is written to as the bytes come.
#[derive(Debug)]
pub struct WholeFile(Way);

#[derive(Debug)]
enum Way {
    /// Beside its place, which is in this directory.
    Aside {
        file: NamedTempFile,
        directory: PathBuf,
        path: PathBuf,
    },
    Straight(File),
}

impl WholeFile {
    /// Begins the file that will be at `path`, with the permissions that the process's mask
    /// grants.
    ///
    /// # Errors
    /// If its directory is not there or cannot be written to.
    pub fn create(path: &Path) -> io::Result<Self> {
        let path = match fs::metadata(path) {
            Ok(found) if !found.is_file() && !found.is_dir() => {
                let file = OpenOptions::new().write(true).open(path)?;
                return Ok(Self(Way::Straight(file)));
            }
            Ok(_) => fs::canonicalize(path)?,
            Err(_) => path.to_owned(),
        };
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        // Its own words would name the temporary file, which no one knows.
        fs::metadata(&directory)?;
        let file = tempfile::Builder::new()
            .prefix(".steady-")
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(&directory)?;
        Ok(Self(Way::Aside {
            file,
            directory,
            path,
        }))
    }

    /// The file is whole: it reaches the disk and gets its name.
    ///
    /// # Errors
    /// If either fails; what was at its place is as it was.
    pub fn finish(self) -> io::Result<()> {
        match self.0 {
            Way::Straight(mut file) => file.flush(),
            Way::Aside {
                file,
                directory,
                path,
            } => {
                file.as_file().sync_all()?;
                file.persist(path).map_err(|error| error.error)?;
                // The rename itself must survive a power cut too.
                File::open(directory)?.sync_all()
            }
        }
    }

    fn file(&mut self) -> &mut File {
        match &mut self.0 {
            Way::Straight(file) => file,
            Way::Aside { file, .. } => file.as_file_mut(),
        }
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file().flush()
    }
}

/// Writes `bytes` to `path` such that a reader finds the old file or the new one, never a part;
/// see [`WholeFile`].
///
/// # Errors
/// [`Error::Write`] if any step fails, for want of space for instance. The temporary file is then
/// gone and `path` is as it was.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let write = || {
        let mut file = WholeFile::create(path)?;
        file.write_all(bytes)?;
        file.finish()
    };
    write().map_err(|source| Error::Write {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileTypeExt, symlink};

    #[test]
    fn a_file_that_does_not_become_whole_leaves_the_old_one_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("result.json");
        write_atomic(&path, b"old").unwrap();
        let mut file = WholeFile::create(&path).unwrap();
        file.write_all(b"half of the n").unwrap();
        drop(file);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_full_device_is_an_error_and_stays_a_device() {
        let error = write_atomic(Path::new("/dev/full"), b"bytes").unwrap_err();
        let Error::Write { source, .. } = error else {
            panic!("{error}");
        };
        assert_eq!(source.kind(), io::ErrorKind::StorageFull);
        let kind = fs::symlink_metadata("/dev/full").unwrap().file_type();
        assert!(kind.is_char_device());
    }

    #[test]
    fn a_link_stays_and_the_file_that_it_names_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let [file, link] = ["file", "link"].map(|name| directory.path().join(name));
        fs::write(&file, "old").unwrap();
        symlink("file", &link).unwrap();
        write_atomic(&link, b"new").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[test]
    fn a_missing_directory_is_named() {
        let path = Path::new("no-such-directory/result.json");
        let error = write_atomic(path, b"").unwrap_err();
        assert!(error.to_string().contains("no-such-directory/result.json"));
    }
}
