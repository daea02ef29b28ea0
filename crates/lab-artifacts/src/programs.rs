// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Our own static programs that go into the images: the two inits, the VMM, what steers hosts and
//! guests, the C workloads.
//!
//! A package brings them built. In a checkout they are built where a source is not as it was, or a
//! program is not as it was made: else no compiler is called, so that none must be there. Left out:
//! a newer compiler, which alone builds nothing again.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use steady_race::Watcher;

use crate::cache::{Key, files_below};
use crate::error::ArtifactError;
use crate::home::{Home, PROGRAMS};
use crate::need::artifacts::own_programs;
use crate::need::require;
use crate::process::run_step;

const TARGET: &str = "x86_64-unknown-linux-gnu";
/// Folders of what is built, in the project.
const LAB: &str = "target/lab";
const WORKLOADS: &str = "target/workloads";
/// The file that says of which sources it was built.
const STAMP: &str = "target/lab/sources";
const LIMIT: Duration = Duration::from_secs(20 * 60);
/// Crates of both inits and the VMM, for the progress bar only (`cargo tree` lists them).
const CRATES: u64 = 52;
const WHAT: &str = "programs";

/// Where the programs are.
#[derive(Debug, Clone)]
pub struct Programs {
    /// The init of host and guests.
    pub agent: PathBuf,
    /// The VMM.
    pub vmm: PathBuf,
    /// The remedies that need no kernel.
    pub steer: PathBuf,
    /// Folder of the C workloads.
    pub workloads: PathBuf,
}

/// The programs of an installed package; `None` in a checkout, where they are built.
#[must_use]
pub fn packaged(home: &Home) -> Option<Programs> {
    let folder = home.project.join(PROGRAMS);
    folder
        .is_dir()
        .then(|| Programs::of(&folder, folder.join("workloads")))
}

/// Those of the package; else builds what is not up to date, and `watcher` hears of it only if
/// there is something to build.
///
/// # Errors
/// [`ArtifactError::Build`] with the compiler's words, [`ArtifactError::Lacks`] if a package is
/// not whole, [`ArtifactError::Io`], [`ArtifactError::Interrupted`].
pub fn ensure(home: &Home, watcher: &dyn Watcher) -> Result<Programs, ArtifactError> {
    if let Some(programs) = packaged(home) {
        require(own_programs(home))?;
        return Ok(programs);
    }
    if up_to_date(home) {
        return Ok(places(home));
    }
    let target = home.project.join(LAB);
    let logs = home.project.join("target/lab-logs");
    std::fs::create_dir_all(&logs).map_err(|error| ArtifactError::io("make", &logs, error))?;
    // What is built from here on is not of the sources that it names.
    let stamp = home.project.join(STAMP);
    if stamp.exists() {
        std::fs::remove_file(&stamp).map_err(|error| ArtifactError::io("remove", &stamp, error))?;
    }
    let sources = sources(home)?;
    cargo(home, &target, &logs.join("static-programs.log"), watcher)?;
    let workloads = home.project.join(WORKLOADS);
    let folder = home.project.join("workloads");
    let out = format!("OUT={}", workloads.display());
    let command = [
        OsStr::new("make"),
        OsStr::new("-C"),
        folder.as_os_str(),
        OsStr::new(&out),
    ];
    run_step(
        "building the C workloads",
        &command,
        &home.project,
        &logs.join("workloads.log"),
        LIMIT,
        || {},
    )?;
    let written = made(home).and_then(|made| std::fs::write(&stamp, sources + &made));
    written.map_err(|error| ArtifactError::io("write", &stamp, error))?;
    Ok(places(home))
}

impl Programs {
    fn of(folder: &Path, workloads: PathBuf) -> Self {
        Self {
            agent: folder.join("steady-agent"),
            vmm: folder.join("steady-vmm"),
            steer: folder.join("steady-steer"),
            workloads,
        }
    }

    /// All their files.
    fn files(&self) -> impl Iterator<Item = PathBuf> {
        let own = steady_guest_programs::PROGRAMS.iter();
        let own: BTreeSet<_> = own.flat_map(|program| program.own_binaries).collect();
        let own = own.into_iter().map(|name| self.workloads.join(name));
        [&self.agent, &self.vmm, &self.steer]
            .into_iter()
            .cloned()
            .chain(own)
    }
}

fn places(home: &Home) -> Programs {
    let made = home.project.join(LAB).join(TARGET).join("static");
    Programs::of(&made, home.project.join(WORKLOADS))
}

/// Whether this user may write where the programs are built.
pub(crate) fn may_build(home: &Home) -> bool {
    let target = home.project.join(LAB);
    let there = target.ancestors().find(|path| path.exists());
    there.is_some_and(|path| nix::unistd::access(path, nix::unistd::AccessFlags::W_OK).is_ok())
}

/// Whether the programs are built from the sources as they are now.
pub(crate) fn up_to_date(home: &Home) -> bool {
    let stamp = std::fs::read_to_string(home.project.join(STAMP));
    let now = || Some(sources(home).ok()? + &made(home).ok()?);
    stamp.is_ok_and(|stamp| now().is_some_and(|now| now == stamp))
}

/// The programs as they are: of each a line with its length and when it was written.
fn made(home: &Home) -> io::Result<String> {
    let mut lines = String::new();
    for path in places(home).files() {
        let found = path.metadata()?;
        let (length, s, ns) = (found.len(), found.mtime(), found.mtime_nsec());
        lines += &format!("\n{length} {s}.{ns:09} {}", file_name(&path));
    }
    Ok(lines)
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// A name for all sources of the programs: of every crate, since which of them go in is cargo's to
/// know, and of the workloads.
fn sources(home: &Home) -> Result<String, ArtifactError> {
    let crates = home.project.join("crates");
    let mut parts = vec!["Cargo.toml".to_owned(), "Cargo.lock".to_owned()];
    let entries = std::fs::read_dir(&crates);
    for entry in entries.map_err(|error| ArtifactError::io("read", &crates, error))? {
        let entry = entry.map_err(|error| ArtifactError::io("read", &crates, error))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        parts.extend([format!("{name}/Cargo.toml"), format!("{name}/src")]);
    }
    parts.sort();
    let mut key = Key::default();
    for name in &parts[..2] {
        let path = home.project.join(name);
        let bytes =
            std::fs::read(&path).map_err(|error| ArtifactError::io("read", &path, error))?;
        key.add(name, &bytes);
    }
    let parts: Vec<&str> = parts[2..].iter().map(String::as_str).collect();
    key.add_parts(&crates, &parts)?;
    for path in files_below(&home.project.join("workloads"))? {
        let bytes =
            std::fs::read(&path).map_err(|error| ArtifactError::io("read", &path, error))?;
        key.add(&file_name(&path), &bytes);
    }
    Ok(key.finish())
}

fn cargo(
    home: &Home,
    target: &Path,
    log: &Path,
    watcher: &dyn Watcher,
) -> Result<(), ArtifactError> {
    let os = OsStr::new;
    // crt-static needs an explicit target, or the build scripts would be static too and fail. A
    // panic aborts, so that tables to unwind by would only make images larger.
    let flags =
        "-C target-feature=+crt-static -C relocation-model=static -C force-unwind-tables=no";
    let flags = format!("RUSTFLAGS={flags}");
    let command = [
        os("env"),
        os(&flags),
        os("cargo"),
        os("build"),
        os("--locked"),
        os("--profile=static"),
        os("--target"),
        os(TARGET),
        os("--target-dir"),
        target.as_os_str(),
        os("-p"),
        os("steady-agent"),
        os("-p"),
        os("steady-vmm"),
        os("-p"),
        os("steady-steer"),
    ];
    let mut shown = 0;
    let built = run_step(
        "building the lab's static programs",
        &command,
        &home.project,
        log,
        LIMIT,
        || {
            let begun = compiled(&std::fs::read(log).unwrap_or_default());
            if begun > shown {
                if shown == 0 {
                    watcher.say("building the programs of the emulated machines");
                }
                shown = begun;
                watcher.progress(WHAT, begun.min(CRATES - 1), CRATES);
            }
        },
    );
    if shown > 0 {
        watcher.done(WHAT);
    }
    built
}

/// How many crates cargo has begun to compile, by what it has written.
fn compiled(log: &[u8]) -> u64 {
    let lines = log.split(|&byte| byte == b'\n');
    lines
        .filter(|line| line.trim_ascii_start().starts_with(b"Compiling "))
        .count() as u64
}

#[cfg(test)]
mod tests {
    use steady_race::Silent;

    use super::*;
    use crate::cache::sums;

    #[test]
    fn a_packages_programs_are_taken_as_they_are_and_one_that_is_cut_off_is_named() {
        let place = tempfile::tempdir().unwrap();
        let home = Home {
            project: place.path().to_owned(),
            cache: place.path().join("cache"),
        };
        assert!(packaged(&home).is_none(), "a checkout");
        let folder = place.path().join(PROGRAMS);
        std::fs::create_dir_all(folder.join("workloads")).unwrap();
        let vmm = folder.join("steady-vmm");
        std::fs::write(&vmm, "program").unwrap();
        sums::write(&folder).unwrap();
        let found = ["program", "pro"].map(|bytes| {
            std::fs::write(&vmm, bytes).unwrap();
            ensure(&home, &Silent).map_err(|error| error.to_string())
        });
        let said = found[1].as_ref().unwrap_err();
        assert!(found[0].is_ok() && said.contains("steady-vmm is not what was built"));
        std::fs::write(&vmm, "program").unwrap();
        let found = ensure(&home, &Silent).unwrap();
        assert_eq!(found.vmm, folder.join("steady-vmm"));
        assert!(!place.path().join("target").exists(), "nothing is built");
    }

    #[test]
    fn only_crates_that_are_compiled_count_as_progress() {
        let log =
            b"   Compiling libc v0.2.1\nwarning: x\n   Compiling steady-agent v0.1.0 (/a)\n    \
                    Finished `static` profile [optimized] target(s) in 1s\n";
        assert_eq!(compiled(log), 2);
        assert_eq!(compiled(b"    Finished `static` profile\n"), 0);
    }

    #[test]
    fn programs_are_up_to_date_until_a_source_changes() {
        let place = tempfile::tempdir().unwrap();
        let home = Home {
            project: place.path().to_owned(),
            cache: place.path().join("cache"),
        };
        let write = |name: &str, text: &str| {
            let path = home.project.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let sources = [
            "Cargo.toml",
            "Cargo.lock",
            "crates/a/Cargo.toml",
            "crates/a/src/lib.rs",
            "workloads/spin.c",
        ];
        sources.iter().for_each(|name| write(name, "text"));
        let below = |file: &Path| {
            file.strip_prefix(place.path())
                .unwrap()
                .display()
                .to_string()
        };
        let files: Vec<String> = places(&home).files().map(|file| below(&file)).collect();
        files.iter().for_each(|file| write(file, "program"));
        let stamp = || super::sources(&home).unwrap() + &made(&home).unwrap();
        write(STAMP, &stamp());
        for file in &files {
            assert!(up_to_date(&home), "before {file}");
            std::fs::remove_file(home.project.join(file)).unwrap();
            assert!(!up_to_date(&home), "{file} is not there");
            write(file, "other");
            assert!(!up_to_date(&home), "{file} is another");
            write(STAMP, &stamp());
        }
        write("crates/a/tests/test.rs", "a test");
        assert!(up_to_date(&home), "no program is built of a test");
        for name in sources {
            write(name, "other");
            assert!(!up_to_date(&home), "{name}");
            write(name, "text");
        }
    }
}
