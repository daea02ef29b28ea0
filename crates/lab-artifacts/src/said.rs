// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What programs say of themselves: their version, their help.
//!
//! A program that is there may still not work: a stub, one of another machine, one whose
//! interpreter is gone, one that never ends. It is asked once a process, within a limit. Left out:
//! whether it also does what it is for.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

const LIMIT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(2);
/// Longest output that is waited for, in bytes.
const MOST: u64 = 1 << 20;

/// What stands between what it was asked and the status that it ended with.
const ENDS: &str = " ends with ";

type Said = Result<String, String>;

/// What a program says of its version.
///
/// # Errors
/// What it did instead, in words that follow its path.
pub(crate) fn version(program: &Path) -> Said {
    said(program, "--version").or_else(|error| match error.contains(ENDS) {
        // `openssl` knows the word alone, and `mawk` its own option.
        true => said(program, "version")
            .or_else(|_| said(program, "-Wversion"))
            .map_err(|_| error),
        false => Err(error),
    })
}

/// What a program says when it is called with one word.
///
/// # Errors
/// As [`version`].
pub(crate) fn said(program: &Path, word: &str) -> Said {
    static SAID: Mutex<BTreeMap<(PathBuf, String), Said>> = Mutex::new(BTreeMap::new());
    let asked = (program.to_owned(), word.to_owned());
    let lock = || SAID.lock().expect("no thread panics with what was said");
    if let Some(known) = lock().get(&asked) {
        return known.clone();
    }
    let found = ask(program, word);
    lock().insert(asked, found.clone());
    found
}

fn ask(program: &Path, word: &str) -> Said {
    let mut command = Command::new(program);
    command.arg(word).env("LC_ALL", "C");
    let output = output(&mut command, LIMIT).map_err(|error| format!("cannot be run: {error}"))?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    if !output.status.success() {
        return Err(format!("{word}{ENDS}{}", output.status));
    }
    if text.trim().is_empty() {
        return Err(format!("{word} prints nothing"));
    }
    Ok(text)
}

/// Runs a command to its end and returns what it printed.
///
/// # Errors
/// If it cannot be started, does not end within `limit`, or prints more than [`MOST`].
pub(crate) fn output(command: &mut Command, limit: Duration) -> io::Result<Output> {
    // Not pipes: what the command leaves running may hold them open.
    let [mut out, mut errors] = [memory()?, memory()?];
    command
        .stdin(Stdio::null())
        .stdout(out.try_clone()?)
        .stderr(errors.try_clone()?)
        .process_group(0);
    let mut child = command.spawn()?;
    let group = Pid::from_raw(i32::try_from(child.id()).expect("a process id is a positive i32"));
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        let long = out.metadata()?.len() + errors.metadata()?.len() > MOST;
        if long || start.elapsed() > limit {
            let _ = killpg(group, Signal::SIGKILL);
            child.wait()?;
            let said = match long {
                true => "it prints without an end".to_owned(),
                false => format!("no end within {} s", limit.as_secs()),
            };
            return Err(io::Error::new(io::ErrorKind::TimedOut, said));
        }
        std::thread::sleep(POLL);
    };
    let read = |file: &mut File| -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        file.rewind()?;
        file.take(MOST).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    Ok(Output {
        status,
        stdout: read(&mut out)?,
        stderr: read(&mut errors)?,
    })
}

fn memory() -> io::Result<File> {
    let file = memfd_create(c"said", MFdFlags::MFD_CLOEXEC)?;
    Ok(File::from(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> io::Result<Output> {
        output(Command::new("/bin/sh").args(["-c", script]), limit)
    }

    #[test]
    fn what_a_command_prints_is_returned_though_it_leaves_a_process_that_holds_its_output() {
        let output = shell("sleep 2 & echo out; echo err >&2; exit 3", LIMIT).unwrap();
        let found = (&output.stdout[..], &output.stderr[..], output.status.code());
        assert_eq!(found, (&b"out\n"[..], &b"err\n"[..], Some(3)));
    }

    #[test]
    fn a_command_without_an_end_is_ended() {
        for (script, expected) in [
            ("sleep 60 & wait", "no end within 0 s"),
            ("exec yes", "without an end"),
        ] {
            let limit = match script {
                "exec yes" => LIMIT,
                _ => Duration::from_millis(100),
            };
            let error = shell(script, limit).unwrap_err().to_string();
            assert!(error.contains(expected), "{script}: {error}");
        }
    }

    #[test]
    fn a_program_that_does_not_work_has_no_version() {
        assert!(version(Path::new("/bin/sed")).unwrap().contains("GNU sed"));
        for (program, expected) in [
            ("/bin/false", "--version ends with exit status: 1"),
            ("/no-such-program", "No such file"),
            ("/etc/passwd", "Permission denied"),
        ] {
            match version(Path::new(program)) {
                Err(said) => assert!(said.contains(expected), "{program}: {said}"),
                Ok(said) => panic!("{program}: {said}"),
            }
        }
    }
}
