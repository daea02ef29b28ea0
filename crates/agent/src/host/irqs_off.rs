// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The longest time that interrupts were off on a pCPU of the host, by the kernel's tracer for it
//! (Documentation/trace/ftrace.rst, `irqsoff`, Linux 6.12). Time inside a guest is not counted: KVM
//! tells the tracer that interrupts are on before it enters one.
//!
//! Kernels without the tracer have no such measure, and neither has a run that is recorded: at each
//! new maximum the tracer exchanges its ring buffer with a spare one, and the trace loses events.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::system::{self, Doing, Failure};

const TRACING: &str = "/sys/kernel/tracing";
const TRACER: &str = "irqsoff";
/// The tracer's maximum is written and read in microseconds (kernel/trace/trace.c,
/// `tracing_nsecs_read()`).
const NS_PER_UNIT: u64 = 1_000;

/// The tracer, where the kernel has it.
#[derive(Debug)]
pub struct IrqsOff(Option<Mutex<Windows>>);

/// A window that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Window(u64);

impl IrqsOff {
    /// Starts the tracer, unless the run is recorded or the kernel has none.
    pub fn start(recorded: bool) -> Result<Self, Failure> {
        let known = system::read_trimmed(format!("{TRACING}/available_tracers"));
        if recorded || !known.split_whitespace().any(|name| name == TRACER) {
            return Ok(Self(None));
        }
        let path = format!("{TRACING}/current_tracer");
        fs::write(&path, TRACER).doing(|| format!("write `{TRACER}` to {path}"))?;
        Ok(Self(Some(Mutex::default())))
    }

    /// Opens a window; `None` without the tracer.
    pub fn open(&self) -> Result<Option<Window>, Failure> {
        self.locked()
            .map(|mut windows| {
                let maximum_ns = take_maximum_ns()?;
                Ok(windows.open(maximum_ns))
            })
            .transpose()
    }

    /// Closes a window: the longest time in it, in nanoseconds.
    pub fn close(&self, window: Option<Window>) -> Result<Option<u64>, Failure> {
        let (Some(mut windows), Some(window)) = (self.locked(), window) else {
            return Ok(None);
        };
        let maximum_ns = take_maximum_ns()?;
        Ok(Some(windows.close(window, maximum_ns)))
    }

    fn locked(&self) -> Option<MutexGuard<'_, Windows>> {
        let windows = self.0.as_ref()?;
        Some(windows.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Reads the tracer's maximum and sets it back to 0.
fn take_maximum_ns() -> Result<u64, Failure> {
    let path = format!("{TRACING}/tracing_max_latency");
    let text = fs::read_to_string(&path).doing(|| format!("read {path}"))?;
    let units: u64 = text
        .trim()
        .parse()
        .doing(|| format!("{path} says `{}`", text.trim()))?;
    fs::write(&path, "0").doing(|| format!("write 0 to {path}"))?;
    Ok(units * NS_PER_UNIT)
}

/// Windows that overlap share the one maximum that the tracer has: who takes it gives it to all.
#[derive(Debug, Default)]
struct Windows {
    next: u64,
    open: BTreeMap<Window, u64>,
}

impl Windows {
    fn share(&mut self, maximum_ns: u64) {
        for longest in self.open.values_mut() {
            *longest = maximum_ns.max(*longest);
        }
    }

    fn open(&mut self, maximum_ns: u64) -> Window {
        self.share(maximum_ns);
        let window = Window(self.next);
        self.next += 1;
        let before = self.open.insert(window, 0);
        assert!(before.is_none(), "each window has a number of its own");
        window
    }

    fn close(&mut self, window: Window, maximum_ns: u64) -> u64 {
        self.share(maximum_ns);
        let longest = self.open.remove(&window);
        longest.expect("a window is closed once")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_what_was_longest_in_it_and_nothing_from_before() {
        let mut windows = Windows::default();
        let window = windows.open(900);
        assert_eq!(windows.close(window, 40), 40);
        let next = windows.open(700);
        assert_eq!(windows.close(next, 30), 30);
    }

    #[test]
    fn windows_that_overlap_all_have_the_maximum_that_one_of_them_took() {
        let mut windows = Windows::default();
        let long = windows.open(0);
        let short = windows.open(10);
        assert_eq!(windows.close(short, 500), 500);
        let late = windows.open(20);
        assert_eq!(windows.close(long, 30), 500);
        assert_eq!(windows.close(late, 5), 30);
    }
}
