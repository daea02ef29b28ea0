// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A set of addresses as sorted, disjoint, non-adjacent ranges.

use serde::Serialize;

use crate::event::Range;

/// A set of guest-virtual addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Ranges(Vec<Range>);

impl Ranges {
    /// The addresses of one range; an empty range gives the empty set.
    #[must_use]
    pub fn new(range: Range) -> Self {
        Self(if range.start < range.end {
            vec![range]
        } else {
            Vec::new()
        })
    }

    /// True if no address is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The ranges, ascending.
    #[must_use]
    pub fn as_slice(&self) -> &[Range] {
        &self.0
    }

    /// Takes the addresses of `range` out.
    pub fn subtract(&mut self, range: Range) {
        if range.start >= range.end {
            return;
        }
        let mut rest = Vec::with_capacity(self.0.len() + 1);
        for own in &self.0 {
            let below = Range {
                start: own.start,
                end: own.end.min(range.start),
            };
            let above = Range {
                start: own.start.max(range.end),
                end: own.end,
            };
            rest.extend([below, above].into_iter().filter(|r| r.start < r.end));
        }
        self.0 = rest;
        self.check();
    }

    /// Puts the addresses of `other` in.
    pub fn add(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
        self.0.sort_unstable();
        let mut merged: Vec<Range> = Vec::with_capacity(self.0.len());
        for range in self.0.drain(..) {
            match merged.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => merged.push(range),
            }
        }
        self.0 = merged;
        self.check();
    }

    /// Ranges rise, and none is empty or touches its neighbour's inside.
    fn check(&self) {
        assert!(
            self.0.iter().all(|range| range.start < range.end),
            "an empty range"
        );
        assert!(
            self.0.windows(2).all(|two| two[0].end <= two[1].start),
            "ranges overlap"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn small() -> impl Strategy<Value = Range> {
        (0_u64..40, 0_u64..40).prop_map(|(start, end)| Range { start, end })
    }

    proptest! {
        /// The oracle is a set of single addresses.
        #[test]
        fn adding_and_subtracting_agree_with_a_set_of_addresses(
            steps in prop::collection::vec((any::<bool>(), small()), 0..20)
        ) {
            let (mut ranges, mut oracle) = (Ranges::default(), BTreeSet::new());
            for (add, range) in steps {
                if add {
                    ranges.add(&Ranges::new(range));
                    oracle.extend(range.start..range.end);
                } else {
                    ranges.subtract(range);
                    oracle.retain(|a| *a < range.start || *a >= range.end);
                }
                let inside: BTreeSet<u64> =
                    ranges.as_slice().iter().flat_map(|r| r.start..r.end).collect();
                prop_assert_eq!(&inside, &oracle);
                prop_assert!(ranges.as_slice().windows(2).all(|w| w[0].end <= w[1].start));
            }
        }
    }
}
