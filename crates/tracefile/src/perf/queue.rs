// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Brings records into the order of time.
//!
//! perf writes the buffers of the CPUs one after the other, round after round. When a round is
//! finished, everything up to the latest time of the round before is complete and can be given
//! out in order (`tools/perf/util/ordered-events.c` states the argument).

/// Bytes that may wait; a trace without marks of rounds is given out by halves beyond.
const WAITING_BYTES: usize = 32 << 20;

/// What waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A record of the event with this index; its bytes are the payload.
    Sample(u32),
    /// A thread got a name; its bytes are the name.
    Comm,
    /// A thread was made by this one.
    Fork(i32),
    /// Events were lost here.
    Lost,
}

/// A record that waits for its turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item {
    pub time: u64,
    pub kind: Kind,
    pub tid: i32,
    /// The thread's process; 0 if it is not known.
    pub process: i32,
    pub cpu: u32,
    at: usize,
    len: u32,
}

/// Records that wait, and those that are due.
#[derive(Debug, Default)]
pub(super) struct Queue {
    items: Vec<Item>,
    bytes: Vec<u8>,
    /// Items before `given` are used up, those before `due` may be given out.
    given: usize,
    due: usize,
    latest: u64,
    /// The latest time when the last round was finished.
    round: u64,
}

impl Queue {
    pub fn push(
        &mut self,
        time: u64,
        kind: Kind,
        (process, tid): (i32, i32),
        cpu: u32,
        bytes: &[u8],
    ) {
        let len = u32::try_from(bytes.len()).unwrap_or(0);
        self.items.push(Item {
            time,
            kind,
            tid,
            process,
            cpu,
            at: self.bytes.len(),
            len,
        });
        self.bytes.extend_from_slice(bytes);
        self.latest = self.latest.max(time);
    }

    /// The latest time of all records so far.
    pub fn latest(&self) -> u64 {
        self.latest
    }

    /// True if more waits than memory is meant for.
    pub fn is_full(&self) -> bool {
        self.items.len() * size_of::<Item>() + self.bytes.len() > WAITING_BYTES
    }

    /// The next record that is due. Call nothing else until there is none.
    pub fn pop(&mut self) -> Option<Item> {
        if self.given >= self.due {
            return None;
        }
        self.given += 1;
        self.items.get(self.given - 1).copied()
    }

    /// The time of what [`Self::pop`] would give.
    pub fn next_time(&self) -> Option<u64> {
        let waiting = self.items.get(self.given..self.due)?;
        waiting.first().map(|item| item.time)
    }

    /// How many records wait or are due.
    pub fn len(&self) -> usize {
        self.items.len() - self.given
    }

    pub fn bytes(&self, item: &Item) -> &[u8] {
        let len = usize::try_from(item.len).unwrap_or(0);
        self.bytes.get(item.at..item.at + len).unwrap_or_default()
    }

    /// A round is finished.
    pub fn finish_round(&mut self) {
        let limit = self.round;
        self.round = self.latest;
        self.sort();
        self.due = self.items.partition_point(|item| item.time <= limit);
        assert!(
            limit <= self.round,
            "a round ends no earlier than the one before"
        );
        assert!(self.due <= self.items.len(), "what is due waits");
    }

    /// Memory is short: the earlier half is due.
    pub fn halve(&mut self) {
        self.sort();
        self.due = self.items.len().div_ceil(2);
    }

    /// The trace has ended: everything is due.
    pub fn finish(&mut self) {
        self.sort();
        self.due = self.items.len();
    }

    /// Drops what was given out, and sorts what is left; equals stay in the file's order.
    fn sort(&mut self) {
        self.items.drain(..self.given);
        self.given = 0;
        self.due = 0;
        if self.items.is_empty() {
            self.bytes.clear();
            return;
        }
        let mut bytes = Vec::with_capacity(self.bytes.len());
        // Before sorting, what is left lies in the order of its bytes but for its sorted part;
        // copying it in the new order makes later reading run straight through memory.
        self.items.sort_by_key(|item| item.time);
        for item in &mut self.items {
            let len = usize::try_from(item.len).unwrap_or(0);
            let from = self.bytes.get(item.at..item.at + len).unwrap_or_default();
            item.at = bytes.len();
            bytes.extend_from_slice(from);
        }
        assert!(bytes.len() <= self.bytes.len(), "sorting makes no bytes");
        self.bytes = bytes;
    }
}
