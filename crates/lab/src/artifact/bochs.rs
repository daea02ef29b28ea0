// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bochs: version 3.0 compiled from Debian 13's source package, or the packaged one.
//!
//! The compiled one runs about four times the instructions per second. Its source comes through
//! apt, in a state of its own beside the system's, from the mirror that this machine uses; apt
//! checks the signatures. Where that fails the packaged Bochs is used and said to be.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::artifact::{Key, cached};
use crate::error::LabError;
use crate::home::Home;
use crate::process::{find_program, run_step};
use crate::watcher::Watcher;

/// Debian release whose source package is compiled.
const SUITE: &str = "trixie";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
const STEP_LIMIT: Duration = Duration::from_secs(5 * 60);
const BUILD_LIMIT: Duration = Duration::from_secs(30 * 60);
/// Lines that a build prints, for the progress bar only.
const BUILD_LINES: u64 = 300;
/// No debugger and no graphics; the instruction sets of the CPU models that the lab uses.
const CONFIGURE: [&str; 14] = [
    "--enable-smp",
    "--enable-cpu-level=6",
    "--enable-x86-64",
    "--enable-vmx=2",
    "--enable-svm",
    "--enable-all-optimizations",
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

/// The name of the compiled Bochs in the cache.
fn cache_name() -> String {
    let mut key = Key::default();
    key.add("flags", FLAGS.as_bytes()).add("suite", SUITE.as_bytes()).add_version("g++");
    for word in CONFIGURE {
        key.add("configure", word.as_bytes());
    }
    format!("bochs-{}", key.finish())
}

/// The Bochs that would be used now, without building one.
pub fn present(home: &Home) -> Option<Bochs> {
    let program = home.cache.join(cache_name()).join("bochs");
    let compiled = program.is_file();
    let program = if compiled { program } else { find_program("bochs")? };
    Some(Bochs { version: version_of(&program), program, compiled })
}

fn version_of(program: &Path) -> String {
    let output = Command::new(program).arg("--help").output();
    let text = output.map(|output| [output.stdout, output.stderr].concat()).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let rest = text.split("Bochs x86 Emulator ").nth(1).unwrap_or_default();
    rest.split_whitespace().next().unwrap_or("of unknown version").to_owned()
}

/// The compiled Bochs, built if it is not in the cache; the packaged one where that fails.
/// `STEADY_BOCHS=packaged` chooses the packaged one.
///
/// # Errors
/// [`LabError::Missing`] if there is neither, [`LabError::Interrupted`].
pub fn ensure(home: &Home, watcher: &dyn Watcher) -> Result<Bochs, LabError> {
    let packaged = || find_program("bochs").map(|program| Bochs { version: version_of(&program), program, compiled: false });
    let missing = || LabError::Missing { program: "bochs".into(), why: "the engine `bochs` runs in it", package: "bochs" };
    if std::env::var_os("STEADY_BOCHS").is_some_and(|value| value == "packaged") {
        return packaged().ok_or_else(missing);
    }
    match cached(&home.cache, &cache_name(), |work| build(work, watcher)) {
        Ok(place) => {
            let program = place.join("bochs");
            Ok(Bochs { version: version_of(&program), program, compiled: true })
        }
        Err(LabError::Interrupted) => Err(LabError::Interrupted),
        Err(error) => match packaged() {
            Some(bochs) => {
                watcher.say(&format!("Bochs 3.0 could not be compiled, the slower packaged {} is used: {error}", bochs.version));
                Ok(bochs)
            }
            None => Err(error),
        },
    }
}

fn build(work: &Path, watcher: &dyn Watcher) -> Result<(), LabError> {
    let what = "Bochs 3.0";
    watcher.say("building Bochs 3.0, which takes a minute or two once");
    let log = work.join("build.log");
    let source = fetch(work)?;
    let os = OsStr::new;
    let tree = work.join("tree");
    fs::create_dir_all(&tree).map_err(|error| LabError::io("make", &tree, error))?;
    let unpack = [os("tar"), os("--strip-components=1"), os("-C"), tree.as_os_str(), os("-xf"), source.as_os_str()];
    run_step("unpacking Bochs", &unpack, work, &log, STEP_LIMIT, || {})?;
    let flags = [format!("CXXFLAGS={FLAGS}"), format!("CFLAGS={FLAGS}")];
    let mut configure = vec![os("env")];
    configure.extend(flags.iter().map(OsStr::new).chain([os("./configure")]).chain(CONFIGURE.iter().map(OsStr::new)));
    run_step("configuring Bochs", &configure, &tree, &work.join("configure.log"), STEP_LIMIT, || {})?;
    let jobs = format!("-j{}", std::thread::available_parallelism().map_or(1, usize::from));
    run_step("building Bochs", &[os("make"), os(&jobs), os("bochs")], &tree, &log, BUILD_LIMIT, || {
        let lines = fs::read(&log).map(|bytes| bytes.split(|&byte| byte == b'\n').count()).unwrap_or(0) as u64;
        watcher.progress(what, lines.min(BUILD_LINES - 1), BUILD_LINES);
    })?;
    let made = tree.join("bochs");
    fs::copy(&made, work.join("bochs")).map_err(|error| LabError::io("copy", &made, error))?;
    fs::remove_dir_all(&tree).map_err(|error| LabError::io("remove", &tree, error))?;
    watcher.done(what);
    Ok(())
}

/// Fetches the source archive through apt, with apt's own checks, and returns its path.
fn fetch(work: &Path) -> Result<PathBuf, LabError> {
    let state = work.join("apt");
    for part in ["lists/partial", "cache/archives/partial", "etc"] {
        let path = state.join(part);
        fs::create_dir_all(&path).map_err(|error| LabError::io("make", &path, error))?;
    }
    let list = state.join("etc/sources.list");
    let line = format!("deb-src [signed-by={KEYRING}] {} {SUITE} main\n", mirror()?);
    fs::write(&list, line).map_err(|error| LabError::io("write", &list, error))?;
    let options = [
        format!("Dir::State::lists={}", state.join("lists").display()),
        format!("Dir::Cache={}", state.join("cache").display()),
        format!("Dir::Etc::sourcelist={}", list.display()),
        "Dir::Etc::sourceparts=-".to_owned(),
        "APT::Sandbox::User=root".to_owned(),
        "Acquire::Languages=none".to_owned(),
        "Acquire::http::Timeout=30".to_owned(),
        "Acquire::Retries=2".to_owned(),
    ];
    let mut apt: Vec<&OsStr> = vec![OsStr::new("apt-get")];
    for option in &options {
        apt.extend([OsStr::new("-o"), OsStr::new(option)]);
    }
    let log = work.join("fetch.log");
    let run = |words: &[&str]| {
        let mut command = apt.clone();
        command.extend(words.iter().map(OsStr::new));
        run_step("fetching the source of Bochs", &command, work, &log, STEP_LIMIT, || {})
    };
    run(&["update", "-qq"])?;
    // Only the upstream archive: the packaging is not used.
    run(&["source", "-qq", "--download-only", "--tar-only", "bochs"])?;
    let entries = fs::read_dir(work).map_err(|error| LabError::io("read", work, error))?;
    let archive = entries.flatten().map(|entry| entry.path()).find(|path| path.to_string_lossy().contains(".orig.tar."));
    archive.ok_or_else(|| LabError::Build { what: "fetching the source of Bochs".into(), status: "apt brought no archive".into(), log, last: String::new() })
}

/// The mirror of Debian's main archive that this machine's apt uses.
fn mirror() -> Result<String, LabError> {
    let output = Command::new("apt-get")
        .args(["indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(COMPONENT)|$(REPO_URI)", "Identifier: Packages"])
        .output()
        .map_err(|error| LabError::io("start", Path::new("apt-get"), error))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let found = text.lines().find_map(|line| line.strip_prefix("Debian|Debian|main|"));
    found.map(str::to_owned).ok_or_else(|| LabError::Missing {
        program: "a Debian mirror in apt's sources".into(),
        why: "Bochs 3.0 is compiled from Debian's source package",
        package: "bochs (the slower packaged Bochs), or run apt-get update first",
    })
}
