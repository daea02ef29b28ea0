// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What one vCPU may have cached on one pCPU.

use std::collections::VecDeque;

use crate::event::{Range, Stamped};
use crate::ranges::Ranges;

/// Revocations kept apart in one context; beyond it the oldest are joined, which loses nothing but
/// the names of the later calls.
const STALE_KEPT: usize = 64;
/// Invalidations remembered for the story of a violation.
const TRIED_KEPT: usize = 8;

/// An event with its place in the trace: several events may have one time stamp.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    /// Place in the trace; the first event is 1.
    pub seq: u64,
    pub stamped: Stamped,
}

/// Addresses that a call revoked and that the context may still translate the old way.
#[derive(Debug, Clone)]
pub(crate) struct Stale {
    pub call: u64,
    pub begin: Seen,
    pub target: Seen,
    /// The call's end, once it came.
    pub done: Option<Seen>,
    /// Page tables were freed: only a whole invalidation ends it.
    pub needs_whole: bool,
    pub left: Ranges,
}

/// The entries that one vCPU may have on one pCPU.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    /// The first entry into guest mode since the last whole invalidation; 0 if that may lie before
    /// the trace. `None`: nothing is cached.
    populated: Option<u64>,
    /// Partial invalidations that calls still open may count as theirs.
    served: Vec<(u64, Range)>,
    /// The VPID or ASID under which the vCPU runs there, and whether KVM itself said so.
    tag: Option<(u32, bool)>,
    stale: Vec<Stale>,
    tried: VecDeque<Seen>,
}

impl Default for Context {
    /// Before the trace anything may have happened.
    fn default() -> Self {
        Self {
            populated: Some(0),
            served: Vec::new(),
            tag: None,
            stale: Vec::new(),
            tried: VecDeque::new(),
        }
    }
}

impl Context {
    /// The vCPU enters guest mode.
    pub fn enter(&mut self, seq: u64) {
        self.populated.get_or_insert(seq);
    }

    /// A call names the vCPU as a target that is not left to the caller. What was invalidated
    /// since the call began counts: the guest's page tables were changed before.
    pub fn revoke(&mut self, mut stale: Stale) {
        if self.populated.is_none_or(|seq| seq > stale.begin.seq) {
            return;
        }
        if !stale.needs_whole {
            let since = self.served.iter().filter(|(seq, _)| *seq > stale.begin.seq);
            since.for_each(|(_, range)| stale.left.subtract(*range));
        }
        if stale.left.is_empty() {
            return;
        }
        if self.stale.len() >= STALE_KEPT {
            self.join_oldest();
        }
        assert!(
            stale.done.is_none(),
            "a call that has ended revokes nothing more"
        );
        self.stale.push(stale);
    }

    /// Joins the two oldest revocations of calls that ended.
    fn join_oldest(&mut self) {
        let mut ended = (0..self.stale.len()).filter(|i| self.stale[*i].done.is_some());
        if let (Some(first), Some(second)) = (ended.next(), ended.next()) {
            let later = self.stale.remove(second);
            let oldest = &mut self.stale[first];
            oldest.left.add(&later.left);
            oldest.needs_whole |= later.needs_whole;
        }
    }

    /// The call that began at `begin_seq` owes the vCPU nothing.
    pub fn forget(&mut self, begin_seq: u64) {
        self.stale.retain(|stale| stale.begin.seq != begin_seq);
    }

    /// A call ended: what it revoked must not be used from now on.
    pub fn done(&mut self, begin_seq: u64, done: Seen) {
        for stale in &mut self.stale {
            if stale.begin.seq == begin_seq {
                stale.done = Some(done);
            }
        }
    }

    /// Everything was invalidated. `entering`: the vCPU is on its way into guest mode.
    /// Returns how long, in nanoseconds, a revoked translation had lain there, at most.
    pub fn clear(&mut self, seen: Seen, entering: bool) -> u64 {
        self.populated = entering.then_some(seen.seq);
        self.served.clear();
        let longest = self.stale.iter().map(|s| s.lain(seen)).max().unwrap_or(0);
        self.stale.clear();
        longest
    }

    /// A range was invalidated; `open_since` is the begin of the oldest call that is not done.
    /// Returns the same as [`Self::clear`].
    pub fn invalidate(&mut self, seen: Seen, range: Range, open_since: Option<u64>) -> u64 {
        self.served
            .retain(|(seq, _)| open_since.is_some_and(|open| *seq > open));
        if open_since.is_some() {
            self.served.push((seen.seq, range));
        }
        let mut longest = 0;
        self.stale.retain_mut(|stale| {
            if !stale.needs_whole {
                stale.left.subtract(range);
            }
            if stale.left.is_empty() {
                longest = longest.max(stale.lain(seen));
            }
            !stale.left.is_empty()
        });
        assert!(
            self.stale.iter().all(|stale| !stale.left.is_empty()),
            "an empty rest is over"
        );
        longest
    }

    /// Takes out what ended calls revoked: each is reported once.
    pub fn take_revoked(&mut self) -> Vec<Stale> {
        let (revoked, open) = std::mem::take(&mut self.stale)
            .into_iter()
            .partition(|stale| stale.done.is_some());
        self.stale = open;
        assert!(
            self.stale.iter().all(|stale| stale.done.is_none()),
            "an ended call stayed"
        );
        revoked
    }

    /// Notes an invalidation for the story of a violation, whether it helped or not.
    pub fn tried(&mut self, seen: Seen) {
        if self.tried.len() == TRIED_KEPT {
            self.tried.pop_front();
        }
        self.tried.push_back(seen);
    }

    /// What was tried since `seq`.
    pub fn tried_since(&self, seq: u64) -> impl Iterator<Item = Seen> + '_ {
        self.tried.iter().copied().filter(move |s| s.seq > seq)
    }

    /// KVM says under which tag the vCPU runs; `None`: under a new one that it does not name.
    pub fn set_tag(&mut self, tag: Option<u32>) {
        self.tag = tag.map(|tag| (tag, true));
    }

    /// Whether `tag` is the vCPU's own here. The first one seen is believed where KVM did not say.
    pub fn is_own_tag(&mut self, tag: u32) -> bool {
        self.tag.get_or_insert((tag, false)).0 == tag
    }

    /// Whether KVM itself said the tag.
    pub fn tag_is_sure(&self) -> bool {
        self.tag.is_some_and(|(_, sure)| sure)
    }
}

impl Stale {
    /// Nanoseconds from the call's end to `now`; 0 if it has not ended.
    fn lain(&self, now: Seen) -> u64 {
        self.done.map_or(0, |done| {
            now.stamped.time_ns.saturating_sub(done.stamped.time_ns)
        })
    }
}
