// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keys of what a result depends on in this tree: the kernel series, an emulator's patches, and
//! the programs that run in host and guests.
//!
//! A kernel's documents are left out of its key, since nothing is compiled from them. The
//! distribution's source and the compilers are left out as well: a result names its release.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::error::Error;

/// Parts of `linux/` that a kernel is made of.
const KERNEL: [&str; 6] = ["apply", "lib.sh", "configure", "config", "hooks", "new"];
/// Parts of `linux/` that make those of another version of these.
const PORT: &str = "port";
/// Folder of `linux/` with what differs by version.
const PORTS: &str = "ports";
/// What of them no kernel of a claim is compiled from: documents, and the configuration of a kernel
/// that claims cannot name.
const LEFT_OUT: [&str; 2] = ["new/Documentation", "config/bpf.config"];
/// The sources of what runs in every emulated host and guest: both inits, the VMM, and what all
/// workloads are linked with.
const MACHINES: [&str; 4] = [
    "crates/agent/src",
    "crates/vmm/src",
    "workloads/Makefile",
    "workloads/common",
];
/// The sources of what steers a host or a guest.
const STEER: [&str; 2] = ["crates/hostview/src", "crates/steer/src"];

/// The part of [`programs`] that is in every image.
pub const OF_MACHINES: &str = "machines";
/// The part of [`programs`] that is in images with a remedy which is a program.
pub const OF_STEER: &str = "steer";

/// The key of the kernel series below `root`.
///
/// # Errors
/// [`Error::File`].
pub fn kernel(root: &Path) -> Result<String, Error> {
    of_linux(root, &[])
}

/// The key of each port of the series below `root`, by the version of Linux that it is to: of the
/// series, of what ports it, and of what differs.
///
/// # Errors
/// [`Error::File`].
pub fn ports(root: &Path) -> Result<BTreeMap<String, String>, Error> {
    let of = |version: String| {
        let key = of_linux(root, &more_of_port(&version).each_ref().map(String::as_str))?;
        Ok((version, key))
    };
    versions(root)?.into_iter().map(of).collect()
}

/// The versions of Linux that the series below `root` is ported to.
pub(crate) fn versions(root: &Path) -> Result<BTreeSet<String>, Error> {
    let folder = root.join("linux").join(PORTS);
    let mut files = Vec::new();
    below(&folder, &mut files)?;
    let version = |file: PathBuf| {
        let first = file.strip_prefix(&folder).ok()?.iter().next()?;
        first.to_str().map(str::to_owned)
    };
    Ok(files.into_iter().filter_map(version).collect())
}

/// What of `linux/` makes a port to a version, beside the series.
pub(crate) fn more_of_port(version: &str) -> [String; 2] {
    [PORT.to_owned(), format!("{PORTS}/{version}")]
}

/// The key of the kernel series and of these parts of `linux/`.
fn of_linux(root: &Path, more: &[&str]) -> Result<String, Error> {
    digest(&root.join("linux"), made_of(root, more)?)
}

/// The files of the kernel series below `root`, and of these parts of `linux/`.
pub(crate) fn made_of(root: &Path, more: &[&str]) -> Result<Vec<PathBuf>, Error> {
    let linux = root.join("linux");
    let mut files = Vec::new();
    for part in KERNEL.iter().chain(more) {
        below(&linux.join(part), &mut files)?;
    }
    files.retain(|path| {
        LEFT_OUT
            .iter()
            .all(|part| !path.starts_with(linux.join(part)))
    });
    Ok(files)
}

/// The keys of the programs of emulated hosts and guests below `root`: of [`OF_MACHINES`], of
/// [`OF_STEER`], and of each program in `workloads/` by its name.
///
/// # Errors
/// [`Error::File`].
pub fn programs(root: &Path) -> Result<BTreeMap<String, String>, Error> {
    let of = |parts: &[&str]| {
        let mut files = Vec::new();
        for part in parts {
            below(&root.join(part), &mut files)?;
        }
        digest(root, files)
    };
    let mut keys = BTreeMap::from([
        (OF_MACHINES.to_owned(), of(&MACHINES)?),
        (OF_STEER.to_owned(), of(&STEER)?),
    ]);
    let mut files = Vec::new();
    below(&root.join("workloads"), &mut files)?;
    for file in files {
        // A program has a source of its name, and may have a folder of it.
        let of_root = file.strip_prefix(root.join("workloads"));
        let name = of_root
            .ok()
            .and_then(|path| path.to_str()?.strip_suffix(".c"));
        if let Some(name) = name.filter(|name| !name.contains('/')) {
            let (source, folder) = (format!("workloads/{name}.c"), format!("workloads/{name}"));
            keys.insert(name.to_owned(), of(&[&source, &folder])?);
        }
    }
    Ok(keys)
}

/// These keys in one line, as records have them: `dedup=0123456789abcdef machines=…`.
#[must_use]
pub fn line(keys: &BTreeMap<String, String>) -> String {
    let words = keys.iter().map(|(name, key)| format!("{name}={key}"));
    words.collect::<Vec<_>>().join(" ")
}

/// The key of each emulator's patches below `root`, by the folder of `lab/` that holds them, which
/// has the engine's name.
///
/// # Errors
/// [`Error::File`].
pub fn emulators(root: &Path) -> Result<BTreeMap<String, String>, Error> {
    let lab = root.join("lab");
    let mut files = Vec::new();
    below(&lab, &mut files)?;
    let mut by_engine: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
    for file in files {
        let engine = file
            .strip_prefix(&lab)
            .ok()
            .and_then(|rest| rest.iter().next());
        let engine = PathBuf::from(engine.unwrap_or_default());
        by_engine.entry(engine).or_default().push(file);
    }
    let keys = by_engine.into_iter().map(|(engine, files)| {
        let key = digest(&lab.join(&engine), files)?;
        Ok((engine.to_string_lossy().into_owned(), key))
    });
    keys.collect()
}

/// The key of one file, as `sha256sum` begins.
///
/// # Errors
/// [`Error::File`].
pub fn file(path: &Path) -> Result<String, Error> {
    let bytes = fs::read(path).map_err(|error| Error::file("read", path, error))?;
    Ok(first_digits(&Sha256::digest(bytes)))
}

/// Adds `path`, or all files below it where it is a folder.
fn below(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), Error> {
    if path.is_file() {
        files.push(path.to_owned());
        return Ok(());
    }
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::file("read", path, error)),
    };
    for entry in entries {
        let entry = entry.map_err(|error| Error::file("read", path, error))?;
        below(&entry.path(), files)?;
    }
    Ok(())
}

/// 16 hexadecimal digits of names and contents, in the order of names.
pub(crate) fn digest(root: &Path, mut files: Vec<PathBuf>) -> Result<String, Error> {
    files.sort();
    let mut all = Sha256::new();
    for path in files {
        let bytes = fs::read(&path).map_err(|error| Error::file("read", &path, error))?;
        let bytes = without_tests(&path, &bytes);
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy();
        for part in [name.as_bytes(), bytes] {
            all.update((part.len() as u64).to_le_bytes());
            all.update(part);
        }
    }
    Ok(first_digits(&all.finalize()))
}

/// A Rust file without the tests at its end, which are in no program.
fn without_tests<'a>(path: &Path, bytes: &'a [u8]) -> &'a [u8] {
    const TESTS: &[u8] = b"\n#[cfg(test)]\nmod tests {";
    let is_rust = path.extension().is_some_and(|kind| kind == "rs");
    let at = bytes
        .windows(TESTS.len())
        .position(|window| window == TESTS);
    at.filter(|_| is_rust).map_or(bytes, |at| &bytes[..at])
}

fn first_digits(digest: &[u8]) -> String {
    let bytes = digest.iter().take(8);
    bytes.map(|byte| format!("{byte:02x}")).collect()
}
