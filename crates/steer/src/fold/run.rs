// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command `steady fold`: its words, its loop, its end.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use steady_hostview::Host;

use super::folder::Folder;
use super::groups::Written;
use super::judge::Bounds;
use crate::error::SteerError;
use crate::guard::{Guard, guard};
use crate::pace::{Pace, Stop, cost, print, say};
use crate::state::{State, Undone};

/// What is undone.
const THINGS: &str = "files of control groups";

/// `steady fold`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  sudo steady fold                          what it would do now, for ten seconds
  sudo steady fold --apply                  follow the steal until Ctrl-C, and undo it
  sudo steady fold --undo                   undo what a killed one has left")]
pub struct Arguments {
    /// Do it. Without it nothing is changed, and what would be is printed.
    #[arg(long, conflicts_with = "undo")]
    pub apply: bool,
    /// Undo what an earlier one has left, and end.
    #[arg(long)]
    pub undo: bool,
    /// How long, in seconds; without it ten, and with --apply until Ctrl-C.
    #[arg(long, value_name = "SECONDS")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub seconds: Option<u64>,
    /// How often the steal is read, in milliseconds. Four readings make a decision.
    #[arg(long, value_name = "MS", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u64).range(50..=10_000))]
    pub interval_ms: u64,
    /// Where the changes to undo are kept.
    #[arg(long, value_name = "FILE", default_value = "/run/steady/fold.jsonl")]
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
        return guard::<Written>(&arguments.state, &mut ()).map(|_| ());
    }
    if arguments.undo {
        let (_, undone) = State::<Written>::take(&arguments.state, &host, &mut ())?;
        say(&format_args!("steady fold: {}", undone.words(THINGS)));
        return undone.whole(&arguments.state).map(|_| ());
    }
    let stop = Stop::on_signals()?;
    if !arguments.apply {
        let folder = Folder::new(host, Bounds::default(), None)?;
        return follow(
            folder,
            arguments,
            Some(arguments.seconds.unwrap_or(10)),
            &stop,
        );
    }
    let (state, left) = State::<Written>::take(&arguments.state, &host, &mut ())?;
    if left != Undone::default() {
        say(&format_args!(
            "steady fold: an earlier one was killed: {}",
            left.words(THINGS)
        ));
    }
    let _guard = Guard::start(words, &arguments.state).map_err(SteerError::Guard)?;
    let folder = Folder::new(host, Bounds::default(), Some(state))?;
    follow(folder, arguments, arguments.seconds, &stop)
}

fn follow(
    mut folder: Folder,
    arguments: &Arguments,
    seconds: Option<u64>,
    stop: &Stop,
) -> Result<(), SteerError> {
    let how = if arguments.apply {
        "acts on"
    } else {
        "a dry run: looks at"
    };
    say(&format_args!(
        "steady fold: {how} a guest of {} CPUs",
        folder.cpus()
    ));
    let mut pace = Pace::new(seconds);
    let interval = Duration::from_millis(arguments.interval_ms);
    let went = loop {
        match folder.step(pace.now_ns()) {
            Ok(Some(act)) => {
                if let Err(error) = print(&act, arguments.json) {
                    break Err(error);
                }
            }
            Ok(None) => {}
            Err(error) => break Err(error),
        }
        if !pace.wait(interval, stop) {
            break Ok(());
        }
    };
    let undone = folder.finish()?;
    if arguments.apply {
        say(&format_args!("steady fold: {}", undone.words(THINGS)));
    }
    say(&format_args!("steady fold: {}", cost(&pace)));
    went?;
    undone.whole(&arguments.state).map(|_| ())
}
