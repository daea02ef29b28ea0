// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The init of a guest: takes workloads from the host over `ttyS1`, runs them, reports.

mod beside;
mod link;

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::time::Duration;

use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};
use steady_agent::channel::{FromGuest, STOP_BYTE, STOP_PORT, ToGuest};

use crate::program::Running;
use crate::raw;
use crate::settle;
use crate::system::{self, Doing, Failure};
use beside::Beside;

/// How long a guest may take to settle once it has booted.
const SETTLE_LIMIT: Duration = Duration::from_secs(5);

/// Serves the host until it says stop, then powers off.
pub fn run() {
    if let Err(failure) = serve() {
        // The console is all that is left to speak on.
        eprintln!("steady-agent: guest: {failure}");
        return;
    }
    // QEMU has no such port; there the restart that follows ends the VM.
    if raw::allow(STOP_PORT, 1).is_ok() {
        raw::write_byte(STOP_PORT, STOP_BYTE);
    }
}

fn open_channel() -> Result<File, Failure> {
    let path = "/dev/ttyS1";
    let line = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .doing(|| format!("open {path}"))?;
    let mut settings = tcgetattr(&line).doing(|| format!("read the settings of {path}"))?;
    cfmakeraw(&mut settings);
    tcsetattr(&line, SetArg::TCSANOW, &settings).doing(|| format!("make {path} raw"))?;
    Ok(line)
}

fn say(line: &mut File, word: &FromGuest) -> Result<(), Failure> {
    let mut text = serde_json::to_vec(word).doing(|| "encode a word to the host".into())?;
    text.push(b'\n');
    line.write_all(&text).doing(|| "write to the host".into())
}

fn serve() -> Result<(), Failure> {
    prepare_machine()?;
    let mut line = open_channel()?;
    let unsettled = settle::wait(SETTLE_LIMIT);
    let mut words = BufReader::new(line.try_clone().doing(|| "share the channel".into())?);
    say(
        &mut line,
        &FromGuest::Hello {
            release: system::release(),
            cpus: system::cpus_online(),
            uptime_ns: system::now_ns(),
            clocksource: system::clocksource(),
            unsettled,
        },
    )?;
    let mut running: Option<Running> = None;
    let mut beside = Beside::default();
    let mut text = String::new();
    loop {
        text.clear();
        if words
            .read_line(&mut text)
            .doing(|| "read from the host".into())?
            == 0
        {
            return Err(Failure::new("the channel to the host was closed"));
        }
        let word: ToGuest = match serde_json::from_str(&text) {
            Ok(word) => word,
            Err(error) => {
                say(
                    &mut line,
                    &FromGuest::Fault {
                        text: format!("not a word of the host: {error}"),
                    },
                )?;
                continue;
            }
        };
        let stop = word == ToGuest::Stop;
        match obey(word, &mut running, &mut beside, &mut line) {
            Ok(()) if stop => return say(&mut line, &FromGuest::Bye),
            Ok(()) => {}
            Err(failure) => say(
                &mut line,
                &FromGuest::Fault {
                    text: failure.to_string(),
                },
            )?,
        }
    }
}

fn obey(
    word: ToGuest,
    running: &mut Option<Running>,
    beside: &mut Beside,
    line: &mut File,
) -> Result<(), Failure> {
    match word {
        ToGuest::Prepare {
            workload,
            background,
        } => {
            *running = Some(Running::prepare(workload, background)?);
            say(line, &FromGuest::Prepared)
        }
        ToGuest::Beside { command } => {
            beside.start(&command)?;
            say(line, &FromGuest::Started)
        }
        ToGuest::Link { link } => {
            link::start(&link)?;
            say(line, &FromGuest::Started)
        }
        ToGuest::Go => {
            let current = running
                .as_mut()
                .ok_or_else(|| Failure::new("told to go with nothing prepared"))?;
            current.start()?;
            if current.is_background() {
                return say(line, &FromGuest::Started);
            }
            current.wait()?;
            say(line, &FromGuest::End)
        }
        ToGuest::Report => {
            beside.check()?;
            let current = running
                .take()
                .ok_or_else(|| Failure::new("told to report with nothing run"))?;
            say(line, &FromGuest::Output(Box::new(current.into_output()?)))
        }
        ToGuest::Stop => match running.take() {
            // That of a workload which has been reported on was checked then.
            Some(mut current) => {
                beside.check()?;
                current.terminate()?;
                say(line, &FromGuest::Output(Box::new(current.into_output()?)))
            }
            None => Ok(()),
        },
    }
}

fn prepare_machine() -> Result<(), Failure> {
    // The first disk, unless it is an end of a channel.
    let serial = system::read_trimmed("/sys/block/vda/serial");
    if std::path::Path::new("/dev/vda").exists() && !serial.starts_with("link-") {
        std::fs::create_dir_all("/data").doing(|| "make /data".into())?;
        nix::mount::mount(
            Some("/dev/vda"),
            "/data",
            Some("ext4"),
            nix::mount::MsFlags::empty(),
            None::<&str>,
        )
        .doing(|| "mount /dev/vda on /data".into())?;
    } else {
        system::mount_one("tmpfs", "/data", None)?;
    }
    // Loopback has no driver here; hostnames are what some programs insist on.
    nix::unistd::sethostname("guest").doing(|| "set the host name".into())
}
