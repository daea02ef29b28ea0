// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rounds of a command that acts until a signal ends it, and how it says what it did.

use std::fmt::Display;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use steady_hostview::{Host, Meter};

use crate::error::SteerError;

/// How long a sleep goes on after a signal.
const NAP: Duration = Duration::from_millis(50);

/// Whether a signal has asked for the end.
#[derive(Debug, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// From SIGINT, SIGTERM and SIGHUP.
    pub fn on_signals() -> Result<Self, SteerError> {
        let stop = Self::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let flag = Arc::clone(&stop.0);
            signal_hook::flag::register(signal, flag).map_err(SteerError::Signals)?;
        }
        Ok(stop)
    }
}

/// Rounds from now on.
#[derive(Debug)]
pub(crate) struct Pace {
    begun: Instant,
    round: Instant,
    limit: Option<Duration>,
}

impl Pace {
    /// Rounds for a number of seconds, or without end.
    pub fn new(seconds: Option<u64>) -> Self {
        let begun = Instant::now();
        let limit = seconds.map(Duration::from_secs);
        let round = begun;
        Self {
            begun,
            round,
            limit,
        }
    }

    /// Since the first round, at least 1.
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos())
            .unwrap_or(u64::MAX)
            .max(1)
    }

    /// Waits until `interval` after the last round began; whether there is another one.
    pub fn wait(&mut self, interval: Duration, stop: &Stop) -> bool {
        let next = self.round + interval;
        loop {
            let over = self
                .limit
                .is_some_and(|limit| self.begun.elapsed() >= limit);
            if over || stop.0.load(Ordering::Relaxed) {
                return false;
            }
            let now = Instant::now();
            if now >= next {
                self.round = now;
                return true;
            }
            std::thread::sleep(NAP.min(next - now));
        }
    }
}

/// What this process has taken until now, of all pCPUs together, and since when: for its last line.
pub(crate) fn cost(pace: &Pace) -> String {
    let process = i32::try_from(std::process::id()).unwrap_or(0);
    let meter = Meter::open(&Host::default(), process, process).ok();
    let took_ns = meter
        .and_then(|meter| meter.read())
        .map_or(0, |did| did.run_ns);
    let millipercent = u128::from(took_ns) * 100_000 / u128::from(pace.now_ns());
    format!(
        "took {} ms of CPU time, {}.{:03} % of one pCPU",
        took_ns / 1_000_000,
        millipercent / 1000,
        millipercent % 1000
    )
}

/// A line for people on standard error, which may be closed.
pub(crate) fn say(words: &dyn Display) {
    let _ = writeln!(std::io::stderr(), "{words}");
}

/// A line for people on standard error, or an object for programs on standard output.
pub(crate) fn print<A: Display + Serialize>(act: &A, json: bool) -> Result<(), SteerError> {
    if !json {
        say(act);
        return Ok(());
    }
    let text = serde_json::to_string(act).unwrap_or_else(|error| unreachable!("{error}"));
    let mut out = std::io::stdout().lock();
    let written = writeln!(out, "{text}").and_then(|()| out.flush());
    written.map_err(SteerError::Write)
}
