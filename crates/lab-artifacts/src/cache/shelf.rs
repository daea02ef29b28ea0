// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What stands in the cache, who uses it, and how it is taken out.
//!
//! A process that uses an entry has a shared lock on its folder until it ends; what is taken out
//! is locked alone first. Programs of older versions hold no lock, so processes are asked as well:
//! an entry that one runs, has open, works in or was started with stays.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;

use super::files_below;
use super::sums::SUMS;
use crate::error::ArtifactError;
use crate::kernel::package::RELEASES;

/// The locks of this process, by the folders that they are on.
static HELD: Mutex<BTreeMap<PathBuf, File>> = Mutex::new(BTreeMap::new());

/// Holds a folder until this process ends; whether it is there.
///
/// # Errors
/// [`ArtifactError::Io`] if it is there and cannot be opened.
pub(crate) fn hold(place: &Path) -> Result<bool, ArtifactError> {
    let mut held = HELD.lock().expect("no thread panics with the locks");
    let folder = match File::open(place) {
        Ok(folder) => folder,
        Err(error) if is_absent(&error) => return Ok(false),
        Err(error) => return Err(ArtifactError::io("open", place, error)),
    };
    // A file system without locks has none to wait for either.
    let _ = folder.lock_shared();
    let same = |one: &File| Some((one.metadata().ok()?.dev(), one.metadata().ok()?.ino()));
    let there = File::open(place).is_ok_and(|now| {
        now.metadata().is_ok_and(|now| now.is_dir()) && same(&now) == same(&folder)
    });
    if there {
        held.insert(place.to_owned(), folder);
    }
    Ok(there)
}

/// Whether an error says that there is no such file, also where a part of its path is a file.
fn is_absent(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory)
}

/// One thing that stands in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name, which is that of its folder.
    pub name: String,
    /// Where it is.
    pub place: PathBuf,
    /// The length of all its files, in bytes.
    pub bytes: u64,
    /// When its folder was last written into.
    pub made: Option<SystemTime>,
    /// Whether it has checksums.
    pub has_sums: bool,
    /// Whether a process uses it.
    pub in_use: bool,
}

impl Entry {
    /// Whether a build of this project made it, or began it: its name ends in a key.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        // A version, as in `kernel-7.3-KEY`, has points, too.
        let mut names = std::iter::successors(Some(self.name.as_str()), |name| {
            Some(name.rsplit_once('.')?.0)
        });
        names.any(|name| ends_in_key(name) && !name.starts_with("deb-"))
    }

    /// Whether it is a distribution's kernel, whose name is its release's: no build makes it again.
    #[must_use]
    pub fn is_release(&self) -> bool {
        let release = self.name.strip_prefix("kernel-");
        RELEASES.iter().any(|known| release == Some(known.name))
    }

    /// Whether a build left it: it failed, or was interrupted.
    #[must_use]
    pub fn is_left_over(&self) -> bool {
        is_left_over(&self.name)
    }
}

/// Whether a name is that of what a build left: something follows its key.
pub(super) fn is_left_over(name: &str) -> bool {
    name.contains('.') && !ends_in_key(name)
}

fn ends_in_key(name: &str) -> bool {
    let hex = |key: &str| key.len() == 16 && key.bytes().all(|byte| byte.is_ascii_hexdigit());
    name.rsplit_once('-').is_some_and(|(_, key)| hex(key))
}

/// Everything in the cache, by name; nothing if there is no cache.
///
/// # Errors
/// [`ArtifactError::Io`], also if it cannot be known what is in use.
pub fn entries(cache: &Path) -> Result<Vec<Entry>, ArtifactError> {
    let wrong = |error| ArtifactError::io("read", cache, error);
    let found = match fs::read_dir(cache) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(wrong(error)),
    };
    let used = used_by_processes(Path::new("/proc"), cache)?;
    let mut entries = Vec::new();
    for entry in found {
        let entry = entry.map_err(wrong)?;
        let place = entry.path();
        if !place.is_dir() {
            continue;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        let lengths = files_below(&place)?
            .into_iter()
            .map(|path| fs::symlink_metadata(path).map_or(0, |metadata| metadata.len()));
        entries.push(Entry {
            bytes: lengths.sum(),
            made: entry
                .metadata()
                .and_then(|metadata| metadata.modified())
                .ok(),
            has_sums: place.join(SUMS).is_file(),
            in_use: used.contains(&name) || is_locked(&place)?,
            name,
            place,
        });
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

/// Takes an entry out of the cache; `false` if a process uses it, and it stays then.
///
/// # Errors
/// [`ArtifactError::Io`].
pub fn remove(cache: &Path, entry: &Entry) -> Result<bool, ArtifactError> {
    let place = &entry.place;
    let folder = File::open(place).map_err(|error| ArtifactError::io("open", place, error))?;
    if folder.try_lock().is_err()
        || used_by_processes(Path::new("/proc"), cache)?.contains(&entry.name)
    {
        return Ok(false);
    }
    // A process that comes now finds either all of it or nothing.
    let gone = cache.join(format!("{}.gone-{}", entry.name, std::process::id()));
    fs::rename(place, &gone).map_err(|error| ArtifactError::io("rename", place, error))?;
    fs::remove_dir_all(&gone).map_err(|error| ArtifactError::io("remove", &gone, error))?;
    Ok(true)
}

fn is_locked(place: &Path) -> Result<bool, ArtifactError> {
    match File::open(place) {
        Ok(folder) => Ok(folder.try_lock().is_err()),
        Err(error) if is_absent(&error) => Ok(false),
        Err(error) => Err(ArtifactError::io("open", place, error)),
    }
}

/// The entries that some process runs, has open, works in or was started with; those of other
/// users as far as this one may know.
fn used_by_processes(proc: &Path, cache: &Path) -> Result<Vec<String>, ArtifactError> {
    let wrong = |path: &Path, error| ArtifactError::io("read", path, error);
    // A process that ended meanwhile uses nothing; one of another user cannot be asked.
    let may_fail = |error: &io::Error| {
        let known = [
            nix::libc::ENOENT,
            nix::libc::ESRCH,
            nix::libc::EACCES,
            nix::libc::EPERM,
        ];
        error
            .raw_os_error()
            .is_some_and(|code| known.contains(&code))
    };
    let mut used = Vec::new();
    // The system names files by no symbolic link.
    let roots = [Some(cache.to_owned()), cache.canonicalize().ok()];
    let own = std::process::id();
    // `self` is this process once more.
    let is_other = |name: &OsStr| {
        let number = name.to_str().and_then(|name| name.parse::<u32>().ok());
        number.is_some_and(|number| number != own)
    };
    let processes = fs::read_dir(proc).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let processes = processes.map_err(|error| wrong(proc, error))?;
    if !processes
        .iter()
        .any(|entry| entry.file_name() == *own.to_string())
    {
        return Err(wrong(
            proc,
            io::Error::other("it does not list processes; mount it"),
        ));
    }
    for process in processes
        .iter()
        .filter(|entry| is_other(&entry.file_name()))
    {
        let process = process.path();
        let mut paths: Vec<PathBuf> = ["exe", "cwd"]
            .iter()
            .filter_map(|name| fs::read_link(process.join(name)).ok())
            .collect();
        let open = match fs::read_dir(process.join("fd")) {
            Ok(open) => Some(open),
            Err(error) if may_fail(&error) => None,
            Err(error) => return Err(wrong(&process, error)),
        };
        paths.extend(
            open.into_iter()
                .flatten()
                .flatten()
                .filter_map(|entry| fs::read_link(entry.path()).ok()),
        );
        let words = match fs::read(process.join("cmdline")) {
            Err(error) if !may_fail(&error) => return Err(wrong(&process, error)),
            words => words.unwrap_or_default(),
        };
        let words = String::from_utf8_lossy(&words).into_owned();
        paths.extend(words.split('\0').map(PathBuf::from));
        let names = paths.iter().filter_map(|path| {
            roots
                .iter()
                .flatten()
                .find_map(|root| path.strip_prefix(root).ok())
        });
        used.extend(names.filter_map(|rest| {
            let first = rest.components().next()?;
            Some(first.as_os_str().to_string_lossy().into_owned())
        }));
    }
    Ok(used)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn cache_with(names: &[&str]) -> tempfile::TempDir {
        let cache = tempfile::tempdir().unwrap();
        for name in names {
            fs::create_dir(cache.path().join(name)).unwrap();
            fs::write(cache.path().join(name).join("file"), "12345").unwrap();
        }
        cache
    }

    fn named(cache: &Path, name: &str) -> Entry {
        let mut entries = entries(cache).unwrap().into_iter();
        entries.find(|entry| entry.name == name).unwrap()
    }

    #[test]
    fn entries_are_listed_by_name_with_their_lengths() {
        let cache = cache_with(&["kernel-1", "bochs-1.failed"]);
        let found = entries(cache.path()).unwrap();
        let words: Vec<_> = found
            .iter()
            .map(|entry| (entry.name.as_str(), entry.bytes, entry.is_left_over()))
            .collect();
        assert_eq!(words, [("bochs-1.failed", 5, true), ("kernel-1", 5, false)]);
        assert!(entries(&cache.path().join("none")).unwrap().is_empty());
    }

    #[test]
    fn only_what_is_named_by_a_key_is_ours() {
        let key = "0123456789abcdef";
        let of = |name: String| Entry {
            place: PathBuf::from("/x"),
            bytes: 0,
            made: None,
            has_sums: true,
            in_use: false,
            name,
        };
        for name in ["kernel-stock-", "qemu-user-", "bochs-", "kernel-7.3-"] {
            for (end, is_left) in [("", false), (".failed", true), (".4711", true)] {
                let entry = of(format!("{name}{key}{end}"));
                assert!(entry.is_ours(), "{name}{end}");
                assert_eq!(entry.is_left_over(), is_left, "{name}{end}");
            }
        }
        for name in ["tools", "kernel-debian-12", "deb-0123456789abcdef", "mine"] {
            let entry = of(name.to_owned());
            let is_release = name == "kernel-debian-12";
            assert!(
                !entry.is_ours() && entry.is_release() == is_release,
                "{name}"
            );
        }
    }

    #[test]
    fn what_this_process_holds_stays_and_what_nobody_uses_goes() {
        let cache = cache_with(&["kernel-1", "kernel-2"]);
        assert!(hold(&cache.path().join("kernel-1")).unwrap());
        assert!(!hold(&cache.path().join("kernel-3")).unwrap());
        for (name, goes) in [("kernel-1", false), ("kernel-2", true)] {
            let entry = named(cache.path(), name);
            assert_eq!(entry.in_use, !goes, "{name}");
            assert_eq!(remove(cache.path(), &entry).unwrap(), goes, "{name}");
            assert_eq!(entry.place.exists(), !goes, "{name}");
        }
    }

    #[test]
    fn what_a_process_without_a_lock_works_in_or_was_started_with_stays() {
        let real = cache_with(&["qemu-1", "bochs-1"]);
        let links = tempfile::tempdir().unwrap();
        let link = links.path().join("cache");
        std::os::unix::fs::symlink(real.path(), &link).unwrap();
        let mut works = Command::new("sleep")
            .arg("60")
            .current_dir(link.join("qemu-1"))
            .spawn()
            .unwrap();
        let mut reads = Command::new("tail")
            .args(["-f", "/dev/null"])
            .arg(link.join("bochs-1/file"))
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let stays = ["qemu-1", "bochs-1"].map(|name| {
            let entry = named(&link, name);
            entry.in_use && !remove(&link, &entry).unwrap()
        });
        for child in [&mut works, &mut reads] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(stays, [true, true]);
        assert!(remove(&link, &named(&link, "qemu-1")).unwrap());
    }
}
