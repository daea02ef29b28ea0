// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packages of Debian, of sources and of kernels: through apt, in a state of its own beside the
//! system's, from the mirror that this machine uses; apt checks the signatures.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use crate::error::ArtifactError;
use crate::need::{Lacks, artifacts};
use crate::process::run_step;
use crate::said::output;

/// The release whose source packages are compiled, but where this machine's own is asked for.
pub const SUITE: &str = "trixie";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Folder of apt's own state for a download.
const STATE: &str = "apt";
const STEP_LIMIT: Duration = Duration::from_secs(5 * 60);
/// What downloads a file with apt's configuration, and how long that may take.
const HELPER: &str = "/usr/lib/apt/apt-helper";
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// Unpacks the upstream source of `package` of [`SUITE`] into the new folder `tree`, without the
/// packaging; what was downloaded into `work` for it is removed again.
///
/// # Errors
/// [`ArtifactError::Build`] if apt or tar fails, [`ArtifactError::Lacks`] if this machine's apt
/// has no lists of a mirror, [`ArtifactError::Io`], [`ArtifactError::Interrupted`].
pub fn fetch(work: &Path, package: &str, tree: &Path) -> Result<(), ArtifactError> {
    let archive = download(work, package, SUITE, ".orig.tar.", &["--tar-only"])?;
    fs::create_dir_all(tree).map_err(|error| ArtifactError::io("make", tree, error))?;
    let unpack = [
        OsStr::new("tar"),
        OsStr::new("--strip-components=1"),
        OsStr::new("-C"),
        tree.as_os_str(),
        OsStr::new("-xf"),
        archive.as_os_str(),
    ];
    let what = format!("unpacking the source of {package}");
    run_step(
        &what,
        &unpack,
        work,
        &work.join("unpack.log"),
        STEP_LIMIT,
        || {},
    )?;
    forget_state(work)?;
    fs::remove_file(&archive).map_err(|error| ArtifactError::io("remove", &archive, error))
}

/// Unpacks the source of `package` of this machine's own release into the new folder `tree`, with
/// the changes that Debian makes to it.
///
/// # Errors
/// As [`fetch`]; [`ArtifactError::Build`] also if dpkg-source fails.
pub fn fetch_packaged(work: &Path, package: &str, tree: &Path) -> Result<(), ArtifactError> {
    let place = work.join("source");
    fs::create_dir_all(&place).map_err(|error| ArtifactError::io("make", &place, error))?;
    let description = download(&place, package, &release()?, ".dsc", &[])?;
    let unpack = [
        OsStr::new("dpkg-source"),
        OsStr::new("--no-check"),
        OsStr::new("-x"),
        description.as_os_str(),
        tree.as_os_str(),
    ];
    let what = format!("unpacking the source of {package}");
    let log = work.join("unpack.log");
    run_step(&what, &unpack, work, &log, STEP_LIMIT, || {})?;
    fs::remove_dir_all(&place).map_err(|error| ArtifactError::io("remove", &place, error))
}

fn forget_state(work: &Path) -> Result<(), ArtifactError> {
    let state = work.join(STATE);
    fs::remove_dir_all(&state).map_err(|error| ArtifactError::io("remove", &state, error))
}

/// The code name of this machine's release, such as `bookworm`.
fn release() -> Result<String, ArtifactError> {
    let file = Path::new("/etc/os-release");
    let text = fs::read_to_string(file).map_err(|error| ArtifactError::io("read", file, error))?;
    let found = text
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    found
        .map(str::to_owned)
        .ok_or_else(|| ArtifactError::Missing {
            program: "VERSION_CODENAME in /etc/os-release".into(),
            why: "the source of this release's package is compiled",
            package: "base-files",
        })
}

/// Downloads a source package through apt, with apt's own checks, and returns the path of the file
/// of it whose name contains `wanted`.
fn download(
    work: &Path,
    package: &str,
    suite: &str,
    wanted: &str,
    only: &[&str],
) -> Result<PathBuf, ArtifactError> {
    let what = format!("fetching the source of {package}");
    let apt = Apt::new(work, "deb-src", suite, &what)?;
    apt.run(&["apt-get", "update", "-qq"])?;
    let words = ["apt-get", "source", "-qq", "--download-only"];
    apt.run(&[&words, only, &[package]].concat())?;
    let entries = fs::read_dir(work).map_err(|error| ArtifactError::io("read", work, error))?;
    let archive = entries
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.to_string_lossy().contains(wanted));
    archive.ok_or_else(|| apt.brought_nothing())
}

/// apt with a state of its own, of one suite.
struct Apt<'a> {
    work: &'a Path,
    what: &'a str,
    options: Vec<String>,
}

impl<'a> Apt<'a> {
    /// `kind` is that of the archive's line: `deb` or `deb-src`; `what` it is for.
    fn new(work: &'a Path, kind: &str, suite: &str, what: &'a str) -> Result<Self, ArtifactError> {
        let state = work.join(STATE);
        for part in ["lists/partial", "cache/archives/partial", "etc"] {
            let path = state.join(part);
            fs::create_dir_all(&path).map_err(|error| ArtifactError::io("make", &path, error))?;
        }
        let list = state.join("etc/sources.list");
        let Some(mirror) = mirror()? else {
            return Err(ArtifactError::Lacks(Lacks(
                vec![artifacts::mirror_of_apt()],
            )));
        };
        let line = format!("{kind} [signed-by={KEYRING}] {mirror} {suite} main\n");
        fs::write(&list, line).map_err(|error| ArtifactError::io("write", &list, error))?;
        let options = [
            format!("Dir::State::lists={}", state.join("lists").display()),
            format!("Dir::Cache={}", state.join("cache").display()),
            format!("Dir::Etc::sourcelist={}", list.display()),
            "Dir::Etc::sourceparts=-".to_owned(),
            "APT::Sandbox::User=root".to_owned(),
            "Acquire::Languages=none".to_owned(),
            // Without it an update without a network ends well, and what it lacks is not found.
            "APT::Update::Error-Mode=any".to_owned(),
            "Acquire::http::Timeout=30".to_owned(),
            "Acquire::Retries=2".to_owned(),
        ];
        let options = options
            .into_iter()
            .flat_map(|option| ["-o".to_owned(), option]);
        Ok(Self {
            work,
            what,
            options: options.collect(),
        })
    }

    fn log(&self) -> PathBuf {
        self.work.join("fetch.log")
    }

    /// Runs a program of apt's in that state.
    fn run(&self, words: &[&str]) -> Result<(), ArtifactError> {
        let (program, words) = words.split_first().expect("a program");
        let words = self
            .options
            .iter()
            .map(String::as_str)
            .chain(words.iter().copied());
        let command: Vec<&OsStr> = [*program]
            .into_iter()
            .chain(words)
            .map(OsStr::new)
            .collect();
        run_step(
            self.what,
            &command,
            self.work,
            &self.log(),
            STEP_LIMIT,
            || {},
        )
    }

    /// The packages that one depends on, as apt's lists have it.
    fn depends(&self, package: &str) -> Result<Vec<String>, ArtifactError> {
        let mut command = Command::new("apt-cache");
        command
            .args(&self.options)
            .args(["depends", "--important", package]);
        let output = output(&mut command, STEP_LIMIT)
            .map_err(|error| ArtifactError::io("run", Path::new("apt-cache"), error))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let names = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("Depends: "));
        Ok(names.map(str::to_owned).collect())
    }

    fn brought_nothing(&self) -> ArtifactError {
        ArtifactError::Build {
            what: self.what.to_owned(),
            status: "apt brought no archive".into(),
            log: self.log(),
            last: String::new(),
        }
    }
}

/// Downloads one binary package of a suite into `work`.
///
/// # Errors
/// As [`fetch`].
pub fn fetch_binary(work: &Path, package: &str, suite: &str) -> Result<PathBuf, ArtifactError> {
    let what = format!("fetching {package} of {suite}");
    let apt = Apt::new(work, "deb", suite, &what)?;
    apt.run(&["apt-get", "update", "-qq"])?;
    apt.run(&["apt-get", "download", "-qq", package])?;
    forget_state(work)?;
    packages_in(work)?
        .pop()
        .ok_or_else(|| apt.brought_nothing())
}

/// The packages in a folder, by name.
fn packages_in(folder: &Path) -> Result<Vec<PathBuf>, ArtifactError> {
    let entries = fs::read_dir(folder).map_err(|error| ArtifactError::io("read", folder, error))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension() == Some(OsStr::new("deb")));
    files.sort();
    Ok(files)
}

/// Downloads binary packages into `work`: those that `meta` of a suite depends on, and these in
/// turn, whose names begin with one of `parts`.
///
/// # Errors
/// As [`fetch`].
pub fn fetch_binaries(
    work: &Path,
    meta: &str,
    suite: &str,
    parts: &[&str],
) -> Result<Vec<PathBuf>, ArtifactError> {
    let what = format!("fetching {meta} of {suite}");
    let apt = Apt::new(work, "deb", suite, &what)?;
    apt.run(&["apt-get", "update", "-qq"])?;
    let mut wanted: Vec<String> = Vec::new();
    let mut asked = vec![meta.to_owned()];
    while let Some(package) = asked.pop() {
        for name in apt.depends(&package)? {
            if parts.iter().any(|part| name.starts_with(part)) && !wanted.contains(&name) {
                wanted.push(name.clone());
                asked.push(name);
            }
        }
    }
    if wanted.is_empty() {
        return Err(apt.brought_nothing());
    }
    let mut words = vec!["apt-get", "download", "-qq"];
    words.extend(wanted.iter().map(String::as_str));
    apt.run(&words)?;
    forget_state(work)?;
    packages_in(work)
}

/// The mirror of Debian's main archive that this machine's apt has lists of, asked once a process:
/// apt reads all its lists for it.
///
/// # Errors
/// [`ArtifactError::Io`] without apt.
pub(crate) fn mirror() -> Result<Option<String>, ArtifactError> {
    static FOUND: OnceLock<Option<String>> = OnceLock::new();
    if let Some(found) = FOUND.get() {
        return Ok(found.clone());
    }
    let mut command = Command::new("apt-get");
    command.args([
        "indextargets",
        "--format",
        "$(ORIGIN)|$(LABEL)|$(COMPONENT)|$(REPO_URI)",
        "Identifier: Packages",
    ]);
    let output = output(&mut command, ANSWER_LIMIT)
        .map_err(|error| ArtifactError::io("run", Path::new("apt-get"), error))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let found = text
        .lines()
        .find_map(|line| line.strip_prefix("Debian|Debian|main|"));
    Ok(FOUND.get_or_init(|| found.map(str::to_owned)).clone())
}

/// Whether a mirror of Debian's archive answers, asked once a process and through apt, which knows
/// of proxies; else apt's words.
pub(crate) fn answers(mirror: &str) -> Result<(), String> {
    static SAID: OnceLock<Result<(), String>> = OnceLock::new();
    let ask = || {
        let place = tempfile::tempdir().map_err(|error| error.to_string())?;
        let release = format!("{}/dists/{SUITE}/InRelease", mirror.trim_end_matches('/'));
        let mut command = Command::new(HELPER);
        command
            .args(["-o", "Acquire::Retries=0", "-o", "APT::Sandbox::User=root"])
            .args(["download-file", &release])
            .arg(place.path().join("InRelease"))
            .env("LC_ALL", "C");
        let output = output(&mut command, ANSWER_LIMIT).map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let said = text.lines().find_map(|line| line.strip_prefix("E: "));
        match output.status.success() {
            true => Ok(()),
            false => Err(said.unwrap_or("it does not say why").to_owned()),
        }
    };
    SAID.get_or_init(ask).clone()
}
