// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The folder of a flight recorder's incidents, which never takes more than it may: the oldest go.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::RecordError;

const PREFIX: &str = "incident-";
const SUFFIX: &str = ".zip";

/// A folder of incidents.
#[derive(Debug, Clone)]
pub struct Shelf {
    folder: PathBuf,
    /// How many incidents it may have.
    pub keep: usize,
    /// How many bytes they may have together.
    pub most: u64,
}

impl Shelf {
    /// Makes the folder if it is not there.
    ///
    /// # Errors
    /// [`RecordError::Io`].
    pub fn new(folder: &Path, keep: usize, most: u64) -> Result<Self, RecordError> {
        assert!(keep > 0, "a shelf for no incident");
        fs::create_dir_all(folder).map_err(RecordError::io("make", folder))?;
        Ok(Self {
            folder: folder.to_owned(),
            keep,
            most,
        })
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where an incident of this time goes.
    #[must_use]
    pub fn place(&self, unix_s: u64) -> PathBuf {
        // Fixed width: by name they are in the order of time.
        self.folder.join(format!("{PREFIX}{unix_s:012}{SUFFIX}"))
    }

    /// Removes the oldest until one more of `size` bytes may come, or none more if that is 0; which
    /// went.
    ///
    /// # Errors
    /// [`RecordError::Io`].
    pub fn make_room(&self, size: u64) -> Result<Vec<PathBuf>, RecordError> {
        let entries = fs::read_dir(&self.folder).map_err(RecordError::io("read", &self.folder))?;
        let own = |name: &str| {
            let number = name
                .strip_prefix(PREFIX)
                .and_then(|rest| rest.strip_suffix(SUFFIX));
            number.is_some_and(|it| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit()))
        };
        let mut there: Vec<(PathBuf, u64)> = entries
            .flatten()
            .filter(|entry| entry.file_name().to_str().is_some_and(own))
            .filter_map(|entry| Some((entry.path(), entry.metadata().ok()?.len())))
            .collect();
        there.sort();
        let mut total: u64 = there.iter().map(|(_, size)| size).sum();
        let mut gone = Vec::new();
        let more = usize::from(size > 0);
        while !there.is_empty() && (there.len() + more > self.keep || total + size > self.most) {
            let (path, size) = there.remove(0);
            fs::remove_file(&path).map_err(RecordError::io("remove", &path))?;
            total -= size;
            gone.push(path);
        }
        Ok(gone)
    }

    /// Bytes that are free on its file system.
    #[must_use]
    pub fn free(&self) -> u64 {
        free(&self.folder)
    }
}

/// Bytes that are free where a path is; without an answer as many as can be.
#[must_use]
pub fn free(path: &Path) -> u64 {
    rustix::fs::statvfs(path).map_or(u64::MAX, |fs| fs.f_bavail.saturating_mul(fs.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_by_count_and_by_size_and_others_files_stay() {
        let place = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(&place.path().join("new/folder"), 3, 100).unwrap();
        let others = [
            "incident-x.zip",
            "incident-.zip",
            "incident-1.zip.bak",
            "notes",
        ];
        for name in others {
            fs::write(shelf.folder().join(name), [0; 90]).unwrap();
        }
        let put = |time: u64, size: usize| {
            let gone = shelf.make_room(size as u64).unwrap();
            fs::write(shelf.place(time), vec![0; size]).unwrap();
            gone.len()
        };
        assert_eq!([put(9, 10), put(10, 10), put(11, 10)], [0, 0, 0]);
        assert_eq!(put(100, 10), 1, "three may be there");
        assert!(!shelf.place(9).exists() && shelf.place(10).exists());
        assert_eq!(put(101, 85), 2, "and 100 bytes");
        fs::write(shelf.place(101), [0; 101]).unwrap();
        let both = [shelf.place(100), shelf.place(101)];
        assert_eq!(
            shelf.make_room(0).unwrap(),
            both,
            "the last alone is more than 100"
        );
        assert!(others.iter().all(|name| shelf.folder().join(name).exists()));
    }
}
