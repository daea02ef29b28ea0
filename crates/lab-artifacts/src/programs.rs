// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Our own static programs that go into the images: the two inits, the VMM, what steers hosts and
//! guests, the C workloads.
//!
//! A package brings them built. In a checkout cargo and make know best what is up to date, so they
//! are asked each time.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use steady_race::Watcher;

use crate::error::ArtifactError;
use crate::home::{Home, PROGRAMS};
use crate::process::run_step;

const TARGET: &str = "x86_64-unknown-linux-gnu";
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
/// [`ArtifactError::Build`] with the compiler's words, [`ArtifactError::Missing`] if a package is
/// not whole, [`ArtifactError::Io`], [`ArtifactError::Interrupted`].
pub fn ensure(home: &Home, watcher: &dyn Watcher) -> Result<Programs, ArtifactError> {
    if let Some(programs) = packaged(home) {
        return programs.whole();
    }
    let target = home.project.join("target/lab");
    let logs = home.project.join("target/lab-logs");
    std::fs::create_dir_all(&logs).map_err(|error| ArtifactError::io("make", &logs, error))?;
    cargo(home, &target, &logs.join("static-programs.log"), watcher)?;
    let workloads = home.project.join("target/workloads");
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
    Ok(Programs::of(&target.join(TARGET).join("static"), workloads))
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

    /// Itself, if all of a package's programs are there.
    fn whole(self) -> Result<Self, ArtifactError> {
        let all = [&self.agent, &self.vmm, &self.steer, &self.workloads];
        let lost = all.into_iter().find(|path| !path.exists()).cloned();
        match lost {
            None => Ok(self),
            Some(lost) => Err(ArtifactError::Missing {
                program: lost.display().to_string(),
                why: "it belongs to the package, and goes into the images",
                package: "--reinstall steady",
            }),
        }
    }
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

    #[test]
    fn a_packages_programs_are_taken_as_they_are_and_a_lost_one_is_named() {
        let place = tempfile::tempdir().unwrap();
        let home = Home {
            project: place.path().to_owned(),
            cache: place.path().join("cache"),
        };
        assert!(packaged(&home).is_none(), "a checkout");
        let folder = place.path().join(PROGRAMS);
        std::fs::create_dir_all(folder.join("workloads")).unwrap();
        for name in ["steady-agent", "steady-vmm"] {
            std::fs::write(folder.join(name), "").unwrap();
        }
        let said = ensure(&home, &Silent).unwrap_err().to_string();
        assert!(
            said.contains("programs/steady-steer is not installed")
                && said.contains("apt-get install --reinstall steady"),
            "{said}"
        );
        std::fs::write(folder.join("steady-steer"), "").unwrap();
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
}
