// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How the threads of a machine agree to stop.
//!
//! Any thread may name a cause; the first one counts. The main thread waits here, and vCPU threads
//! report here that they have left the guest, then wait to be released, so that their scheduler times
//! can still be read.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::outcome::StopCause;

#[derive(Debug, Default)]
struct State {
    cause: Option<StopCause>,
    snapshot_wanted: bool,
    cpus_out: usize,
    released: bool,
}

/// What the main thread has to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Write a snapshot of the report.
    Snapshot,
    /// Stop the machine for this reason.
    Stop(StopCause),
}

/// The agreement.
#[derive(Debug, Default)]
pub struct Control {
    stopping: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

impl Control {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for a stop. Only the first cause is kept.
    pub fn stop(&self, cause: StopCause) {
        self.lock().cause.get_or_insert(cause);
        self.stopping.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    /// Whether a stop was asked for.
    #[must_use]
    pub fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Asks for a snapshot of the report.
    pub fn want_snapshot(&self) {
        self.lock().snapshot_wanted = true;
        self.changed.notify_all();
    }

    /// Waits for something to do. A snapshot comes before a stop.
    pub fn wait(&self) -> Request {
        let mut state = self.lock();
        loop {
            if std::mem::take(&mut state.snapshot_wanted) {
                return Request::Snapshot;
            }
            if let Some(cause) = &state.cause {
                return Request::Stop(cause.clone());
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Called by a vCPU thread that has left the guest for good; returns when released.
    pub fn leave_and_wait(&self) {
        let mut state = self.lock();
        state.cpus_out += 1;
        self.changed.notify_all();
        while !state.released {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits up to `limit` for `cpus` vCPU threads to have left; returns how many have.
    pub fn wait_cpus_out(&self, cpus: usize, limit: Duration) -> usize {
        let waiting = |state: &mut State| state.cpus_out < cpus;
        let waited = self.changed.wait_timeout_while(self.lock(), limit, waiting);
        waited.unwrap_or_else(PoisonError::into_inner).0.cpus_out
    }

    /// Lets the vCPU threads end.
    pub fn release(&self) {
        self.lock().released = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cause_counts() {
        let control = Control::default();
        control.stop(StopCause::StopPort);
        control.stop(StopCause::Signal("SIGTERM"));
        assert_eq!(control.wait(), Request::Stop(StopCause::StopPort));
    }

    #[test]
    fn a_snapshot_is_written_once_and_before_the_stop() {
        let control = Control::default();
        control.stop(StopCause::StopPort);
        control.want_snapshot();
        assert_eq!(control.wait(), Request::Snapshot);
        assert_eq!(control.wait(), Request::Stop(StopCause::StopPort));
    }

    #[test]
    fn a_vcpu_that_does_not_leave_is_not_waited_for_beyond_the_limit() {
        let control = std::sync::Arc::new(Control::default());
        let other = control.clone();
        let left = std::thread::spawn(move || other.leave_and_wait());
        assert_eq!(control.wait_cpus_out(1, Duration::from_secs(10)), 1);
        assert_eq!(control.wait_cpus_out(2, Duration::from_millis(20)), 1);
        control.release();
        left.join().unwrap();
    }
}
