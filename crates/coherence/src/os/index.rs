// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds a page by its key: a table for each aligned run of 512 page numbers, found by a hash.
//!
//! Neighbours stand side by side, as programs and system calls use them; a hash of every page alone
//! would miss the host's caches at each, and would have to grow as pages come.

use super::NONE;
use crate::layout::{Key, PageMap};
use crate::num::{id32, ix};

/// Pages of a run, as a shift.
const RUN_SHIFT: u32 = 9;
const RUN: u64 = 1 << RUN_SHIFT;

/// The pages of all VMs by key.
#[derive(Debug, Clone, Default)]
pub(super) struct PageIndex {
    by_run: PageMap<u32>,
    /// Pages of each run; [`NONE`] for those not seen.
    runs: Vec<u32>,
    /// The run asked for last, and where its pages begin.
    last: Option<(u64, usize)>,
}

impl PageIndex {
    /// The page of a key that has been seen.
    pub fn get(&self, key: Key) -> Option<u32> {
        let (run, at) = (key.raw() >> RUN_SHIFT, ix(key.raw() % RUN));
        let begin = match self.last {
            Some((last, begin)) if last == run => begin,
            _ => begin_of(*self.by_run.get(&run)?),
        };
        Some(self.runs[begin + at]).filter(|&page| page != NONE)
    }

    /// Where the page of a key stands, [`NONE`] if it has not been seen.
    pub fn slot(&mut self, key: Key) -> &mut u32 {
        let (run, at) = (key.raw() >> RUN_SHIFT, ix(key.raw() % RUN));
        let begin = match self.last {
            Some((last, begin)) if last == run => begin,
            _ => self.begin(run),
        };
        self.last = Some((run, begin));
        &mut self.runs[begin + at]
    }

    /// Where the pages of a run begin; made when it is new.
    fn begin(&mut self, run: u64) -> usize {
        let runs = &mut self.runs;
        let number = *self.by_run.entry(run).or_insert_with(|| {
            let number = id32(runs.len() >> RUN_SHIFT);
            runs.resize(runs.len() + ix(RUN), NONE);
            number
        });
        begin_of(number)
    }
}

/// Where the pages of a run begin, by its number.
const fn begin_of(number: u32) -> usize {
    (number as usize) << RUN_SHIFT
}

#[cfg(test)]
mod tests {
    use super::{NONE, PageIndex};
    use crate::layout::Key;

    #[test]
    fn pages_of_two_vms_and_sizes_are_apart_and_found_again() {
        let mut index = PageIndex::default();
        let keys = [
            Key::small(0, 511),
            Key::small(0, 512),
            Key::small(1, 511),
            Key::large(0, 511),
            Key::small(0, 7),
        ];
        for (page, key) in (0..).zip(keys) {
            assert_eq!(index.get(key), None);
            assert_eq!(*index.slot(key), NONE, "{key:?} is new");
            *index.slot(key) = page;
        }
        for (page, key) in (0..).zip(keys) {
            assert_eq!(index.get(key), Some(page));
            assert_eq!(*index.slot(key), page);
        }
        assert_eq!(index.get(Key::small(0, 8)), None);
    }
}
