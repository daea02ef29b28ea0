// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The directories that the host's dynamic loader searches: those of `/etc/ld.so.conf`, then its
//! own. The cache that `ldconfig` makes of them is not read.

use std::path::{Path, PathBuf};

const CONFIGURATION: &str = "/etc/ld.so.conf";
/// Directories that glibc searches without configuration, on Debian and elsewhere.
const BUILT_IN: [&str; 6] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];
/// Files may include files; a loop ends here.
const INCLUDE_DEPTH_MAX: u32 = 8;

/// Directories to search, in order.
#[derive(Debug)]
pub(super) struct Search {
    directories: Vec<PathBuf>,
}

impl Search {
    /// As the host is configured. A file that cannot be read adds nothing, as with `ldconfig`.
    pub(super) fn of_host() -> Self {
        let mut search = Self {
            directories: Vec::new(),
        };
        search.read(Path::new(CONFIGURATION), INCLUDE_DEPTH_MAX);
        for directory in BUILT_IN {
            search.add(PathBuf::from(directory));
        }
        search
    }

    pub(super) fn directories(&self) -> &[PathBuf] {
        &self.directories
    }

    fn add(&mut self, directory: PathBuf) {
        if directory.is_dir() && !self.directories.contains(&directory) {
            self.directories.push(directory);
        }
    }

    fn read(&mut self, path: &Path, depth: u32) {
        let Ok(text) = std::fs::read_to_string(path) else {
            return;
        };
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default().trim();
            match line.strip_prefix("include ") {
                Some(pattern) if depth > 0 => self.include(pattern.trim(), path, depth - 1),
                Some(_) => {}
                None if line.starts_with('/') => self.add(PathBuf::from(line)),
                None => {}
            }
        }
    }

    /// `glob` sorts what it finds, as the loader's tool does.
    fn include(&mut self, pattern: &str, from: &Path, depth: u32) {
        let pattern = from.parent().unwrap_or(Path::new("/")).join(pattern);
        let Ok(paths) = glob::glob(&pattern.to_string_lossy()) else {
            return;
        };
        for path in paths.flatten() {
            self.read(&path, depth);
        }
    }
}
