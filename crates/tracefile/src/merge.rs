// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Merging of streams that are each in the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Picks the stream whose head is earliest; of equals the one with the lowest number.
///
/// The stream picked last stays out of the heap while it remains the earliest: records come in
/// bursts of one CPU, and this saves most of the heap's work.
#[derive(Debug, Default)]
pub(crate) struct Merge {
    waiting: BinaryHeap<Reverse<(u64, usize)>>,
    current: Option<usize>,
}

impl Merge {
    /// Adds a stream with the time of its head.
    pub fn add(&mut self, time: u64, stream: usize) {
        self.waiting.push(Reverse((time, stream)));
    }

    /// The stream picked last: its head is used up, and [`Self::pick`] wants to know its next.
    pub fn current(&self) -> Option<usize> {
        self.current
    }

    /// Given the time of the next head of the current stream, if it has one, picks the earliest.
    pub fn pick(&mut self, next_of_current: Option<u64>) -> Option<usize> {
        if let (Some(stream), Some(time)) = (self.current, next_of_current) {
            match self.waiting.peek_mut() {
                Some(mut first) if first.0 < (time, stream) => {
                    let Reverse((_, earliest)) =
                        std::mem::replace(&mut *first, Reverse((time, stream)));
                    self.current = Some(earliest);
                }
                _ => {}
            }
            debug_assert!(self.is_earliest(stream, time), "an earlier head waits");
            return self.current;
        }
        self.current = self.waiting.pop().map(|Reverse((_, stream))| stream);
        assert!(
            self.current.is_some() || self.waiting.is_empty(),
            "a stream was forgotten"
        );
        self.current
    }

    /// Whether `stream`, if it was picked again, is not later than any that waits.
    fn is_earliest(&self, stream: usize, time: u64) -> bool {
        let first = self.waiting.peek();
        self.current != Some(stream) || first.is_none_or(|first| first.0 >= (time, stream))
    }
}
