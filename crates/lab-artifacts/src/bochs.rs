// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bochs: version 3.0 compiled from Debian 13's source package, or the packaged one.
//!
//! The compiled one runs about four times the instructions per second. The patches of `lab/bochs`
//! fix what the lab needs of it. Where that fails the packaged Bochs is used and said to be. With
//! those of `lab/bochs-tagged` besides it keeps the entries of its TLB by their tags, with those of
//! `lab/bochs-events` it writes what happens to translations.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use steady_race::Watcher;

use crate::cache::{Key, cached, files_below};
use crate::debian;
use crate::error::ArtifactError;
use crate::home::Home;
use crate::process::{find_program, lines_of, run_step};
use crate::said::said;

const STEP_LIMIT: Duration = Duration::from_secs(5 * 60);
const BUILD_LIMIT: Duration = Duration::from_secs(30 * 60);
/// Lines that a build prints, for the progress bar only.
const BUILD_LINES: u64 = 300;
/// The compiled ones, by what `STEADY_BOCHS` is, with the folders of their patches.
pub(crate) const KINDS: [(&str, &[&str]); 3] = [
    ("", &["lab/bochs"]),
    ("tagged", &["lab/bochs", "lab/bochs-tagged"]),
    (EVENTS, &["lab/bochs", "lab/bochs-events"]),
];
const EVENTS: &str = "events";
/// Its string instructions would pass the hooks. What else `--enable-all-optimizations` turns on
/// stays on.
const WITHOUT_REPEATS: [&str; 4] = [
    "--disable-repeat-speedups",
    "--enable-fast-function-calls",
    "--enable-handlers-chaining",
    "--enable-trace-linking",
];
const ALL_OPTIMIZATIONS: &str = "--enable-all-optimizations";
/// No debugger and no graphics; the instruction sets of the CPU models that the lab uses.
const CONFIGURE: [&str; 14] = [
    "--enable-smp",
    "--enable-cpu-level=6",
    "--enable-x86-64",
    "--enable-vmx=2",
    "--enable-svm",
    ALL_OPTIMIZATIONS,
    "--enable-avx",
    "--enable-evex",
    "--enable-memtype",
    "--enable-pci",
    "--enable-cdrom",
    "--disable-docbook",
    "--with-nogui",
    // Its alarm handler writes to the log and can meet itself there: a run would hang for ever.
    "--disable-show-ips",
];
/// The word by which it says its version and ends.
const HELP: &str = "--help";
const FLAGS: &str = "-O2 -fomit-frame-pointer";

/// A Bochs that can be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bochs {
    /// The program.
    pub program: PathBuf,
    /// Its version, such as `3.0`.
    pub version: String,
    /// Whether we compiled it (no debugger, `nogui` display).
    pub compiled: bool,
}

impl Bochs {
    /// What `STEADY_BOCHS` must be for this one to be chosen again; nothing for the usual one.
    #[must_use]
    pub fn choice(&self) -> Option<&'static str> {
        match self.compiled {
            false => Some("packaged"),
            true => Some(asked_for()).filter(|kind| !kind.is_empty()),
        }
    }
}

/// The kind of compiled Bochs that `STEADY_BOCHS` asks for; empty for the usual one.
pub(crate) fn asked_for() -> &'static str {
    let is_it = |&(kind, _): &(&'static str, _)| is_asked_for(kind);
    KINDS.into_iter().find(is_it).map_or("", |(kind, _)| kind)
}

/// The name of the compiled Bochs in the cache.
///
/// # Errors
/// As [`name_in_cache`].
pub(crate) fn cache_name(home: &Home) -> Result<String, ArtifactError> {
    name_in_cache(home, asked_for())
}

/// The name of a kind of compiled Bochs in the cache.
///
/// # Errors
/// [`ArtifactError::Io`] if a patch cannot be read, or the compiler cannot be asked.
pub(crate) fn name_in_cache(home: &Home, kind: &str) -> Result<String, ArtifactError> {
    let mut key = Key::default();
    for patch in patches(home, kind)? {
        let bytes = fs::read(&patch).map_err(|error| ArtifactError::io("read", &patch, error))?;
        key.add("patch", &bytes);
    }
    key.add("flags", FLAGS.as_bytes())
        .add("suite", debian::SUITE.as_bytes())
        .add_version("g++")?;
    for word in configure(kind) {
        key.add("configure", word.as_bytes());
    }
    Ok(format!("bochs-{}", key.finish()))
}

/// The words of `configure` for a kind.
fn configure(kind: &str) -> impl Iterator<Item = &'static str> {
    let repeats = kind != EVENTS;
    CONFIGURE
        .into_iter()
        .filter(move |&word| repeats || word != ALL_OPTIMIZATIONS)
        .chain(WITHOUT_REPEATS.into_iter().filter(move |_| !repeats))
}

/// Our patches to a kind of Bochs, in the order of their names.
fn patches(home: &Home, kind: &str) -> Result<Vec<PathBuf>, ArtifactError> {
    let found = KINDS.into_iter().find(|(name, _)| *name == kind);
    let folders = found.map_or(KINDS[0].1, |(_, folders)| folders);
    let files = folders
        .iter()
        .map(|folder| files_below(&home.project.join(folder)));
    Ok(files.collect::<Result<Vec<_>, _>>()?.concat())
}

/// Whether `STEADY_BOCHS` has this value.
pub(crate) fn is_asked_for(kind: &str) -> bool {
    std::env::var_os("STEADY_BOCHS").is_some_and(|value| value == kind)
}

/// The packaged one's program, and what it says when it is asked for help.
pub(crate) fn packaged_program() -> Option<(PathBuf, Result<String, String>)> {
    let program = find_program("bochs")?;
    let said = said(&program, HELP);
    Some((program, said))
}

fn version_of(program: &Path) -> String {
    let text = said(program, HELP).unwrap_or_default();
    let rest = text.split("Bochs x86 Emulator ").nth(1).unwrap_or_default();
    rest.split_whitespace()
        .next()
        .unwrap_or("of unknown version")
        .to_owned()
}

/// The compiled Bochs, built if it is not in the cache; the packaged one where that fails.
/// `STEADY_BOCHS=packaged` chooses the packaged one. `tagged` compiles one that keeps its TLB's
/// entries by their tags, `events` one that writes what happens to translations, with no fallback.
///
/// # Errors
/// [`ArtifactError::Missing`] if there is neither, [`ArtifactError::Damaged`],
/// [`ArtifactError::Interrupted`].
pub fn ensure(home: &Home, watcher: &dyn Watcher) -> Result<Bochs, ArtifactError> {
    let packaged = || {
        let (program, said) = packaged_program()?;
        said.ok()?;
        Some(Bochs {
            version: version_of(&program),
            program,
            compiled: false,
        })
    };
    let missing = || ArtifactError::Missing {
        program: "bochs".into(),
        why: "the engine `bochs` runs in it",
        package: "bochs",
    };
    if is_asked_for("packaged") {
        return packaged().ok_or_else(missing);
    }
    let build = |work: &Path| build(home, work, watcher);
    match cache_name(home).and_then(|name| cached(&home.cache, &name, build)) {
        Ok(place) => {
            let program = place.join("bochs");
            Ok(Bochs {
                version: version_of(&program),
                program,
                compiled: true,
            })
        }
        Err(error @ (ArtifactError::Interrupted | ArtifactError::Damaged { .. })) => Err(error),
        Err(error) if !asked_for().is_empty() => Err(error),
        Err(error) => match packaged() {
            Some(bochs) => {
                watcher.say(&format!(
                    "Bochs 3.0 could not be compiled, the slower packaged {} is used: {error}",
                    bochs.version
                ));
                Ok(bochs)
            }
            None => Err(error),
        },
    }
}

fn build(home: &Home, work: &Path, watcher: &dyn Watcher) -> Result<(), ArtifactError> {
    let what = "Bochs 3.0";
    watcher.say("building Bochs 3.0, which takes a minute or two once");
    let log = work.join("build.log");
    let os = OsStr::new;
    let tree = work.join("tree");
    debian::fetch(work, "bochs", &tree)?;
    for patch in patches(home, asked_for())? {
        let command = [
            os("patch"),
            os("--force"),
            os("-p1"),
            os("-i"),
            patch.as_os_str(),
        ];
        run_step(
            "patching Bochs",
            &command,
            &tree,
            &work.join("patch.log"),
            STEP_LIMIT,
            || {},
        )?;
    }
    let flags = [format!("CXXFLAGS={FLAGS}"), format!("CFLAGS={FLAGS}")];
    let words: Vec<_> = configure(asked_for()).collect();
    let mut command = vec![os("env")];
    command.extend(
        flags
            .iter()
            .map(OsStr::new)
            .chain([os("./configure")])
            .chain(words.iter().map(OsStr::new)),
    );
    run_step(
        "configuring Bochs",
        &command,
        &tree,
        &work.join("configure.log"),
        STEP_LIMIT,
        || {},
    )?;
    let jobs = format!(
        "-j{}",
        std::thread::available_parallelism().map_or(1, usize::from)
    );
    run_step(
        "building Bochs",
        &[os("make"), os(&jobs), os("bochs")],
        &tree,
        &log,
        BUILD_LIMIT,
        || {
            watcher.progress(what, lines_of(&log).min(BUILD_LINES - 1), BUILD_LINES);
        },
    )?;
    let made = tree.join("bochs");
    fs::copy(&made, work.join("bochs")).map_err(|error| ArtifactError::io("copy", &made, error))?;
    fs::remove_dir_all(&tree).map_err(|error| ArtifactError::io("remove", &tree, error))?;
    watcher.done(what);
    Ok(())
}
