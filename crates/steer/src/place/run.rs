// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command `steady place`: its words, its loop, its end.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use steady_hostview::Host;

use super::hands::{Hands, Kernel, Tied};
use super::judge::Bounds;
use super::moved::Moved;
use super::placer::{Options, Placer};
use crate::error::SteerError;
use crate::guard::{Guard, guard};
use crate::pace::{Pace, Stop, cost, print, say};
use crate::state::{State, Undone};

/// The time for each read of a vCPU, so that there are at most 2,000 reads a second.
const READ_US: u64 = 500;
/// How many times as rarely vCPUs are read while there is nothing to decide.
const IDLE: u32 = 10;
/// How often VMs are looked for; on a host where that takes long, two hundred times as rarely as
/// it takes.
const SCAN: Duration = Duration::from_secs(2);
const SCAN_SHARE: u32 = 200;

/// What is undone.
const THINGS: &str = "vCPUs may run where they might";

/// `steady place`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  sudo steady place                         what it would do now, for ten seconds
  sudo steady place --apply                 part siblings until Ctrl-C, and undo it
  sudo steady place --apply --vm web --json >place.jsonl
  sudo steady place --undo                  undo what a killed one has left")]
pub struct Arguments {
    /// Do it. Without it nothing is changed, and what would be is printed.
    #[arg(long, conflicts_with = "undo")]
    pub apply: bool,
    /// Undo what an earlier one has left, and end.
    #[arg(long)]
    pub undo: bool,
    /// Only this VM, by name or process; may be given more than once.
    #[arg(long, value_name = "NAME|PID")]
    pub vm: Vec<String>,
    /// How long, in seconds; without it ten, and with --apply until Ctrl-C.
    #[arg(long, value_name = "SECONDS")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub seconds: Option<u64>,
    /// How often the vCPUs are read while some wait, in milliseconds; a tenth as often while there
    /// is nothing to decide, and less often where there are very many.
    #[arg(long, value_name = "MS", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u64).range(10..=10_000))]
    pub interval_ms: u64,
    /// The least pCPUs that a busy vCPU may have. From 2 on siblings may meet on one again.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub least: u16,
    /// Pin each vCPU to one pCPU for good in place of parting, and give nothing back until the
    /// end.
    #[arg(long, conflicts_with = "least")]
    pub pin: bool,
    /// Where the changes to undo are kept.
    #[arg(long, value_name = "FILE", default_value = "/run/steady/place.jsonl")]
    pub state: PathBuf,
    /// Print each act as a line of JSON on standard output.
    #[arg(long)]
    pub json: bool,
    /// Wait for the end of standard input, and undo.
    #[arg(long, hide = true)]
    pub guard: bool,
}

/// Runs the command. `words` are those before the arguments, by which this program starts itself.
///
/// # Errors
/// [`SteerError`], after everything was undone that could be.
pub fn run(arguments: &Arguments, words: &[String]) -> Result<(), SteerError> {
    let host = Host::default();
    if arguments.guard {
        return guard::<Moved>(&arguments.state, &mut Kernel).map(|_| ());
    }
    if arguments.undo {
        let (_, undone) = State::<Moved>::take(&arguments.state, &host, &mut Kernel)?;
        say(&format_args!("steady place: {}", undone.words(THINGS)));
        return undone.whole(&arguments.state).map(|_| ());
    }
    if !host.proc.join("self/schedstat").exists() {
        return Err(SteerError::NoTimes(host.proc));
    }
    let stop = Stop::on_signals()?;
    let options = Options {
        only: arguments.vm.clone(),
        least: usize::from(arguments.least),
        pin: arguments.pin,
        bounds: Bounds::default(),
    };
    if !arguments.apply {
        let placer = Placer::new(host, options, None, Tied);
        return follow(
            placer,
            arguments,
            Some(arguments.seconds.unwrap_or(10)),
            &stop,
        );
    }
    more_files();
    let (state, left) = State::<Moved>::take(&arguments.state, &host, &mut Kernel)?;
    if left != Undone::default() {
        say(&format_args!(
            "steady place: an earlier one was killed: {}",
            left.words(THINGS)
        ));
    }
    let _guard = Guard::start(words, &arguments.state).map_err(SteerError::Guard)?;
    let placer = Placer::new(host, options, Some(state), Kernel);
    follow(placer, arguments, arguments.seconds, &stop)
}

/// A file is open for each vCPU: takes as many as this process may have.
fn more_files() {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.maximum;
    // What it has is enough for small hosts; on larger ones it says what it cannot read.
    let _ = setrlimit(Resource::Nofile, Rlimit { current, ..limit });
}

fn follow<H: Hands + 'static>(
    mut placer: Placer<H>,
    arguments: &Arguments,
    seconds: Option<u64>,
    stop: &Stop,
) -> Result<(), SteerError> {
    placer.scan();
    say_begin(&placer, arguments);
    let mut pace = Pace::new(seconds);
    let went = rounds(&mut placer, arguments, &mut pace, stop);
    let undone = placer.finish()?;
    if arguments.apply {
        say(&format_args!("steady place: {}", undone.words(THINGS)));
    }
    say(&format_args!("steady place: {}", cost(&pace)));
    went?;
    undone.whole(&arguments.state).map(|_| ())
}

fn rounds<H: Hands + 'static>(
    placer: &mut Placer<H>,
    arguments: &Arguments,
    pace: &mut Pace,
    stop: &Stop,
) -> Result<(), SteerError> {
    let mut scan_at = Instant::now() + SCAN;
    let mut unreadable = 0;
    loop {
        let now = Instant::now();
        if placer.unreadable() > unreadable {
            unreadable = placer.unreadable();
            say(&format_args!(
                "steady place: {unreadable} vCPUs cannot be read and are left alone: raise \
                 ulimit -n"
            ));
        }
        if now >= scan_at {
            placer.scan();
            scan_at = Instant::now() + SCAN.max(now.elapsed() * SCAN_SHARE);
        }
        for act in placer.step(pace.now_ns())? {
            print(&act, arguments.json)?;
        }
        let budget = Duration::from_micros(READ_US * placer.vcpus() as u64);
        let mut interval = Duration::from_millis(arguments.interval_ms);
        if !placer.is_at_work() {
            interval *= IDLE;
        }
        let interval = interval.max(budget);
        if !pace.wait(interval, stop) {
            return Ok(());
        }
    }
}

/// VMs that are named at the beginning.
const NAMED: usize = 8;

fn say_begin<H: Hands + 'static>(placer: &Placer<H>, arguments: &Arguments) {
    let how = if arguments.apply {
        "acts on"
    } else {
        "a dry run: looks at"
    };
    let (vms, vcpus) = (placer.vms(), placer.vcpus());
    let (count, mut named) = (vms.len(), vms.take(NAMED).collect::<Vec<_>>().join(", "));
    if count > NAMED {
        named.push_str(&format!(" and {} more", count - NAMED));
    }
    if count > 0 {
        return say(&format_args!(
            "steady place: {how} {count} VMs with {vcpus} vCPUs: {named}"
        ));
    }
    let which = if arguments.vm.is_empty() {
        "no VM runs"
    } else {
        "no such VM runs"
    };
    let seconds = SCAN.as_secs();
    say(&format_args!(
        "steady place: {how} nothing: {which} yet; it is looked for every {seconds} s"
    ));
}
