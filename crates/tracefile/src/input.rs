// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A trace as a file that can be read at any place, whatever it came from.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;

/// A file of known length, read at places, so that several readers can share it.
#[derive(Debug)]
pub(crate) struct Input {
    file: File,
    len: u64,
    name: String,
}

impl Input {
    pub fn new(file: File, name: &str) -> io::Result<Self> {
        let len = file.metadata()?.len();
        Ok(Self {
            file,
            len,
            name: name.to_owned(),
        })
    }

    /// Copies a stream into a file without a name: formats whose parts lie far apart need to be
    /// read at places, and a pipe cannot.
    pub fn spool(mut reader: impl Read, name: &str) -> io::Result<Self> {
        let mut file = temporary()?;
        let mut buffer = vec![0; 1 << 20];
        let mut len = 0;
        loop {
            let n = match reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            file.write_all(&buffer[..n])?;
            len += u64::try_from(n).unwrap_or(0);
        }
        Ok(Self {
            file,
            len,
            name: name.to_owned(),
        })
    }

    /// The file, standing at its start.
    pub fn into_file(self) -> File {
        self.file
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn read_exact_at(&self, out: &mut [u8], at: u64) -> io::Result<()> {
        self.file.read_exact_at(out, at)
    }
}
/// A file without a name, in the folder for temporary files.
///
/// # Errors
/// Those of the file system, with the folder's name and what to do.
pub(crate) fn temporary() -> io::Result<File> {
    tempfile::tempfile().map_err(|error| {
        let folder = std::env::temp_dir();
        let text = format!(
            "no temporary file can be made in {}: {}; set TMPDIR to a folder that you may write to",
            folder.display(),
            error.kind()
        );
        io::Error::new(error.kind(), text)
    })
}
