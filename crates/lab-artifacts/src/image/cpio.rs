// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes initramfs archives in the `newc` format (Documentation/driver-api/early-userspace/
//! buffer-format.rst, Linux 6.12).
//!
//! The same files give the same bytes: no time, owner or inode of the building machine goes in.
//! Archives can be put one behind the other; the kernel unpacks them in order.

use std::collections::BTreeSet;

const FILE: u32 = 0o100_000;
const DIRECTORY: u32 = 0o040_000;
const LINK: u32 = 0o120_000;
/// Time of every entry: 2000-01-01, so that programs that distrust the year 1970 are content.
const TIME: u32 = 946_684_800;

/// An archive under construction.
#[derive(Debug, Default)]
pub struct Archive {
    bytes: Vec<u8>,
    inode: u32,
    directories: BTreeSet<String>,
}

impl Archive {
    /// Adds a file with its parent directories; `path` is relative to the root.
    pub fn file(&mut self, path: &str, mode: u32, contents: &[u8]) {
        self.parents(path);
        self.entry(path, FILE | mode, contents);
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, path: &str, target: &str) {
        self.parents(path);
        self.entry(path, LINK | 0o777, target.as_bytes());
    }

    /// Adds a directory with its parents.
    pub fn directory(&mut self, path: &str) {
        self.parents(path);
        if self.directories.insert(path.to_owned()) {
            self.entry(path, DIRECTORY | 0o755, &[]);
        }
    }

    /// The archive with its trailer.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.inode = 0;
        self.entry("TRAILER!!!", 0, &[]);
        // The kernel wants the next archive at a multiple of four; loaders like whole sectors.
        self.pad(512);
        self.bytes
    }

    fn parents(&mut self, path: &str) {
        assert!(
            !path.starts_with('/') && !path.is_empty(),
            "`{path}` is not relative"
        );
        for (end, _) in path.match_indices('/') {
            if self.directories.insert(path[..end].to_owned()) {
                self.entry(&path[..end], DIRECTORY | 0o755, &[]);
            }
        }
    }

    fn entry(&mut self, name: &str, mode: u32, contents: &[u8]) {
        self.inode += 1;
        let size = u32::try_from(contents.len()).expect("an entry is below 4 GiB");
        let name_size = u32::try_from(name.len() + 1).expect("a path is short");
        let links = if mode & DIRECTORY == DIRECTORY { 2 } else { 1 };
        let fields = [
            self.inode, mode, 0, 0, links, TIME, size, 0, 0, 0, 0, name_size, 0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes
                .extend_from_slice(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad(4);
        self.bytes.extend_from_slice(contents);
        self.pad(4);
    }

    fn pad(&mut self, multiple: usize) {
        let length = self.bytes.len().next_multiple_of(multiple);
        self.bytes.resize(length, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    fn unpack(bytes: &[u8]) -> (tempfile::TempDir, String) {
        let directory = tempfile::tempdir().unwrap();
        let mut cpio = Command::new("cpio")
            .args(["-i", "-d", "--quiet", "--no-absolute-filenames"])
            .current_dir(directory.path())
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the cpio program is installed");
        cpio.stdin.take().unwrap().write_all(bytes).unwrap();
        let output = cpio.wait_with_output().unwrap();
        (directory, String::from_utf8(output.stderr).unwrap())
    }

    #[test]
    fn gnu_cpio_unpacks_what_was_packed() {
        let mut archive = Archive::default();
        archive.file("usr/bin/tool", 0o755, b"#!/bin/sh\n");
        archive.file("odd", 0o644, b"12345");
        archive.link("bin", "usr/bin");
        archive.directory("dev");
        let (directory, said) = unpack(&archive.finish());
        assert_eq!(said, "");
        assert_eq!(
            std::fs::read(directory.path().join("usr/bin/tool")).unwrap(),
            b"#!/bin/sh\n"
        );
        assert_eq!(
            std::fs::read(directory.path().join("odd")).unwrap(),
            b"12345"
        );
        assert_eq!(
            std::fs::read_link(directory.path().join("bin"))
                .unwrap()
                .to_str(),
            Some("usr/bin")
        );
        assert!(directory.path().join("dev").is_dir());
    }

    #[test]
    fn the_same_files_give_the_same_bytes() {
        let pack = || {
            let mut archive = Archive::default();
            archive.file("a/b/c", 0o644, b"x");
            archive.finish()
        };
        assert_eq!(pack(), pack());
        assert_eq!(pack().len() % 512, 0);
    }
}
