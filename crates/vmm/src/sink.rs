// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A bounded queue of bytes between a guest's serial port and the thread that delivers them.
//!
//! A guest writes a serial port byte by byte. Waking the deliverer for each would cost two context
//! switches per byte on CPUs that are being measured, so the deliverer gathers for a moment first.
//! A full queue makes the writing vCPU wait: nothing is lost and nothing grows without bound. Closing
//! the queue ends that wait, and the byte is dropped then.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Capacity of each queue in bytes.
pub const CAPACITY: usize = 64 << 10;

#[derive(Debug, Default)]
struct State {
    bytes: VecDeque<u8>,
    closed: bool,
}

/// The queue. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Sink {
    shared: Arc<(Mutex<State>, Condvar)>,
}

impl Sink {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere cannot leave the queue half changed.
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.shared
            .1
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a byte; waits while the queue is full. Returns false when the queue is closed.
    #[must_use]
    pub fn push(&self, byte: u8) -> bool {
        let mut state = self.lock();
        while state.bytes.len() >= CAPACITY && !state.closed {
            state = self.wait(state);
        }
        if state.closed {
            return false;
        }
        state.bytes.push_back(byte);
        if matches!(state.bytes.len(), 1 | GATHERED) {
            self.shared.1.notify_all();
        }
        true
    }

    /// Refuses further bytes and wakes all who wait. What is queued can still be taken.
    pub fn close(&self) {
        self.lock().closed = true;
        self.shared.1.notify_all();
    }

    /// Number of bytes in the queue.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.lock().bytes.len()
    }

    /// Waits for bytes, then up to `gather` for more to come along, and copies the oldest ones to
    /// `buffer`. They stay in the queue until [`Sink::consume`]. Returns 0 when the queue is closed
    /// and empty.
    pub fn peek(&self, buffer: &mut [u8], gather: Duration) -> usize {
        let mut state = self.lock();
        while state.bytes.is_empty() && !state.closed {
            state = self.wait(state);
        }
        let deadline = Instant::now() + gather;
        while state.bytes.len() < GATHERED && !state.closed {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.shared.1.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let count = state.bytes.len().min(buffer.len());
        for (to, from) in buffer.iter_mut().zip(&state.bytes) {
            *to = *from;
        }
        count
    }

    /// Removes the oldest `count` bytes, which [`Sink::peek`] has shown.
    pub fn consume(&self, count: usize) {
        let mut state = self.lock();
        assert!(count <= state.bytes.len());
        state.bytes.drain(..count);
        self.shared.1.notify_all();
    }
}

/// The number of bytes that are worth delivering at once.
const GATHERED: usize = CAPACITY / 4;

impl io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.iter().all(|&byte| self.push(byte)) {
            Ok(bytes.len())
        } else {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
