// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Child processes that cannot be lost: each in a group of its own, ended with its whole group
//! when the user interrupts, when its time is over, or when this process dies.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use crate::error::ArtifactError;

const POLL: Duration = Duration::from_millis(20);

pub use steady_race::interrupted;

/// A child process with its group.
#[derive(Debug)]
pub struct Supervised {
    child: Child,
    group: Pid,
}

impl Supervised {
    /// Starts `program` in `directory`, its output in `log`.
    ///
    /// # Errors
    /// [`ArtifactError::Io`] if the log or the program cannot be opened.
    pub fn start(
        program: &Path,
        arguments: &[impl AsRef<OsStr>],
        directory: &Path,
        stdout: &Path,
        stderr: &Path,
    ) -> Result<Self, ArtifactError> {
        let create = |path: &Path| {
            File::create(path).map_err(|error| ArtifactError::io("create", path, error))
        };
        let mut command = ending_with_us("KILL", program);
        command.args(arguments).current_dir(directory);
        let log = create(stdout)?;
        let errors = if stderr == stdout {
            log.try_clone()
                .map_err(|error| ArtifactError::io("share", stdout, error))?
        } else {
            create(stderr)?
        };
        command
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .process_group(0);
        let _ = interrupted();
        let child = command
            .spawn()
            .map_err(|error| ArtifactError::io("start", program, error))?;
        let group =
            Pid::from_raw(i32::try_from(child.id()).expect("a process id is a positive i32"));
        Ok(Self { child, group })
    }

    /// Its end, if it has ended.
    ///
    /// # Errors
    /// [`ArtifactError::Io`] if the system cannot say.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, ArtifactError> {
        self.child
            .try_wait()
            .map_err(|error| ArtifactError::io("wait for", Path::new("a child process"), error))
    }

    /// Process id, for tests that end it from outside.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends the whole group.
    pub fn kill(&mut self) {
        let _ = killpg(self.group, Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            self.kill();
        }
    }
}

/// Lines that a file has by now; 0 where it cannot be read.
#[must_use]
pub fn lines_of(file: &Path) -> u64 {
    fs::read(file).map_or(0, |bytes| bytes.split(|&byte| byte == b'\n').count() as u64)
}

/// A command that gets this signal, such as `TERM`, should this process end before it.
///
/// It is `setpriv` that asks the kernel for that; the shell then ends by itself if this process was
/// killed before setpriv came to that. Both give way to the program, which has their process id.
#[must_use]
pub fn ending_with_us(signal: &str, program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", signal, "--", "/bin/sh", "-c"])
        .arg(r#"[ "$PPID" = "$0" ] || exit 1; exec "$@""#)
        .arg(std::process::id().to_string())
        .arg(program);
    command
}

/// Asks a child to end, by SIGTERM; one that has ended is left alone.
pub fn ask_to_end(child: &Child) {
    if let Ok(id) = i32::try_from(child.id()) {
        let _ = kill(Pid::from_raw(id), Signal::SIGTERM);
    }
}

/// Runs a step of a build to its end; `watch` is called often and may read the growing log.
///
/// # Errors
/// [`ArtifactError::Build`] if it fails or exceeds `limit`, [`ArtifactError::Interrupted`].
pub fn run_step(
    what: &str,
    command: &[&OsStr],
    directory: &Path,
    log: &Path,
    limit: Duration,
    mut watch: impl FnMut(),
) -> Result<(), ArtifactError> {
    let (program, arguments) = command.split_first().expect("a step has a program");
    let mut child = Supervised::start(Path::new(program), arguments, directory, log, log)?;
    let start = Instant::now();
    loop {
        if let Some(status) = child.ended()? {
            if status.success() {
                return Ok(());
            }
            return Err(build_error(what, status.to_string(), log));
        }
        if interrupted() {
            return Err(ArtifactError::Interrupted);
        }
        if start.elapsed() > limit {
            return Err(build_error(
                what,
                format!("no end within {} s", limit.as_secs()),
                log,
            ));
        }
        watch();
        std::thread::sleep(POLL);
    }
}

fn build_error(what: &str, status: String, log: &Path) -> ArtifactError {
    let text = std::fs::read(log)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default();
    let telling: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("rror:") || line.contains("rror ") || line.contains("***"))
        .take(5)
        .collect();
    let last = if telling.is_empty() {
        last_lines(&text, 5)
    } else {
        telling.join("\n")
    };
    ArtifactError::Build {
        what: what.to_owned(),
        status,
        log: log.to_owned(),
        last,
    }
}

/// The last `count` lines of a text.
#[must_use]
pub fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// Finds a program in `$PATH`: a file that may be executed.
pub fn find_program(name: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH")?;
    let extra = ["/usr/sbin", "/sbin"].map(std::path::PathBuf::from);
    std::env::split_paths(&path)
        .chain(extra)
        .map(|directory| directory.join(name))
        .find(|path| {
            let file = path.metadata().ok().filter(std::fs::Metadata::is_file);
            file.is_some_and(|file| file.permissions().mode() & 0o111 != 0)
        })
}
