// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Before a capture: finds emulator, plugin and program, and starts them.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{IsTerminal, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};

use super::error::io_error;
use super::{CaptureError, Options, Start};

/// What a capture runs, all of it known to exist.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) qemu: PathBuf,
    pub(super) plugin: PathBuf,
    pub(super) program: PathBuf,
    /// First line of the emulator's `--version`.
    pub(super) qemu_version: String,
}

impl Setup {
    pub(super) fn find(options: &Options) -> Result<Self, CaptureError> {
        let name = options.command.first().ok_or(CaptureError::NoCommand)?;
        let qemu = find_executable(&options.qemu)
            .ok_or_else(|| CaptureError::QemuMissing(options.qemu.clone()))?;
        let plugin = options
            .plugin
            .canonicalize()
            .map_err(|_| CaptureError::PluginMissing(options.plugin.clone()))?;
        if plugin.to_string_lossy().contains(',') {
            return Err(CaptureError::PluginPath(plugin));
        }
        let program = find_executable(Path::new(name))
            .ok_or_else(|| CaptureError::ProgramMissing(PathBuf::from(name)))?;
        require_x86_64(&program)?;
        let version = Command::new(&qemu)
            .arg("--version")
            .output()
            .map_err(io_error("ask the emulator for its version"))?;
        let version = String::from_utf8_lossy(&version.stdout);
        Ok(Self {
            qemu,
            plugin,
            program,
            qemu_version: version.lines().next().unwrap_or_default().to_owned(),
        })
    }

    /// Starts the program in a process group of its own.
    pub(super) fn spawn(&self, options: &Options, socket: &Path) -> Result<Guard, CaptureError> {
        let mut plugin = OsString::from(&self.plugin);
        plugin.push(",socket=");
        plugin.push(socket);
        plugin.push(format!(",window={}", options.window_instructions));
        match options.start {
            Start::AtOnce => {}
            Start::AfterInstructions(count) => plugin.push(format!(",skip={count}")),
            Start::AtMarker => plugin.push(",wait-marker=on"),
        }
        let mut command = Command::new(&self.qemu);
        command
            // The emulator's random numbers (the guest's AT_RANDOM) repeat from run to run.
            .args(["-seed", "1", "-plugin"])
            .arg(plugin)
            .arg("-0")
            .arg(&options.command[0])
            .arg(&self.program)
            .args(&options.command[1..])
            // A group of its own can be ended whole, children included.
            .process_group(0);
        // A background group that reads a terminal would stop.
        if std::io::stdin().is_terminal() {
            command.stdin(Stdio::null());
        }
        if !options.show_output {
            command.stdout(Stdio::null()).stderr(Stdio::null());
        }
        let child = command.spawn().map_err(io_error("start the emulator"))?;
        Ok(Guard { child, done: None })
    }
}

/// The running program; dropped, it and its children are killed.
#[derive(Debug)]
pub(super) struct Guard {
    child: Child,
    done: Option<ExitStatus>,
}

impl Guard {
    /// Its status, if it has ended.
    pub(super) fn try_wait(&mut self) -> Result<Option<ExitStatus>, CaptureError> {
        if self.done.is_none() {
            self.done = self
                .child
                .try_wait()
                .map_err(io_error("wait for the emulator"))?;
        }
        Ok(self.done)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // The group may hold children even when its leader has gone. Nothing can be done here
        // about an error, which says that all are gone already.
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(group) = group {
            let _ = kill_process_group(group, Signal::KILL);
        }
        if self.done.is_none() {
            let _ = self.child.wait();
        }
    }
}

/// `name` itself if it has a slash, else the first file of that name in `PATH`.
fn find_executable(name: &Path) -> Option<PathBuf> {
    let runs = |path: &Path| {
        path.metadata()
            .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    };
    if name.components().count() > 1 || name.is_absolute() {
        return runs(name).then(|| name.to_owned());
    }
    env::split_paths(&env::var_os("PATH")?)
        .map(|folder| folder.join(name))
        .find(|path| runs(path))
}

fn require_x86_64(path: &Path) -> Result<(), CaptureError> {
    const MACHINE: usize = 18;
    const X86_64: [u8; 2] = [62, 0];
    let mut head = Vec::new();
    File::open(path)
        .and_then(|file| file.take(20).read_to_end(&mut head))
        .map_err(io_error("read the program"))?;
    // Class 2 is 64 bits.
    if head.len() == 20 && head.starts_with(b"\x7fELF\x02") && head[MACHINE..] == X86_64 {
        return Ok(());
    }
    head.truncate(8);
    Err(CaptureError::NotElf {
        path: path.to_owned(),
        found: head.escape_ascii().to_string(),
    })
}
