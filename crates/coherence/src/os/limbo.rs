// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames between their page's end and their reuse: where a scheme revokes lazily, stale
//! translations may lead to them for a while, so that no page gets one meanwhile.
//!
//! System software parks the frames of an update here. It learns from the scheme whether that
//! update was put off, and frees them at once or at a cycle. A scheme that never puts off has none.

use std::collections::VecDeque;

use super::Os;
use crate::layout::{Key, PageMap};

/// A frame and its pool.
type Frame = (bool, u64);

/// Frames that are neither in use nor free.
#[derive(Debug, Clone, Default)]
pub(super) struct Limbo {
    /// Freed frames come here at all.
    on: bool,
    /// Of the update that is being made.
    parked: Vec<Frame>,
    /// Frames that lost a page by that update and have another.
    shared: Vec<u64>,
    /// Frames in use that lost a page by an update put off: the cycle from which they may be used
    /// again once they are free.
    lost: PageMap<u64>,
    /// With the cycle from which each may be used again. Cores' clocks differ a little, so that the
    /// order is that of the updates.
    held: VecDeque<(u64, Frame)>,
}

impl Os {
    /// From now on freed frames wait for [`Os::settle`].
    pub fn hold_frames(&mut self) {
        self.limbo.on = true;
    }

    /// Whether a page has been unmapped whose translations may still be cached.
    #[must_use]
    pub(crate) fn may_be_stale(&self, page: Key) -> bool {
        self.limbo.on && self.peek(page).is_none()
    }

    /// A frame has lost its last page.
    pub(super) fn drop_frame(&mut self, large: bool, spn: u64) {
        let pool = &mut self.pools[usize::from(large)];
        if self.limbo.on {
            pool.retire(spn);
            self.limbo.parked.push((large, spn));
        } else {
            pool.release(spn);
        }
    }

    /// A frame has lost one of its pages.
    pub(super) fn share_frame(&mut self, spn: u64) {
        if self.limbo.on {
            self.limbo.shared.push(spn);
        }
    }

    /// The frames that the update just made has freed may be used again: from cycle `from`, or now.
    pub fn settle(&mut self, from: Option<u64>) {
        assert!(
            self.limbo.on || from.is_none(),
            "frames wait where cores sweep"
        );
        for spn in std::mem::take(&mut self.limbo.shared) {
            if let Some(cycle) = from {
                self.limbo.lost.insert(spn, cycle);
            }
        }
        for (large, spn) in std::mem::take(&mut self.limbo.parked) {
            match from.max(self.limbo.lost.remove(&spn)) {
                Some(cycle) => self.limbo.held.push_back((cycle, (large, spn))),
                None => self.pools[usize::from(large)].give_back(spn),
            }
        }
    }

    /// Frees the frames whose time has come at cycle `now`.
    pub fn reclaim(&mut self, now: u64) {
        while let Some(&(from, (large, spn))) = self.limbo.held.front()
            && from <= now
        {
            self.limbo.held.pop_front();
            self.pools[usize::from(large)].give_back(spn);
        }
    }

    /// Frames that wait.
    #[must_use]
    pub fn frames_held(&self) -> usize {
        self.limbo.parked.len() + self.limbo.held.len()
    }
}
