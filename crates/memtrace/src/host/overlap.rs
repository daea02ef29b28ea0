// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a sequence goes on as another begins. It models nothing; it finds places, in time that
//! grows with both lengths (the Z algorithm).

/// From where on `ours` agrees with `theirs` longest and for how long, and the same of the next
/// longest place. Without one, the place is the end and the length 0.
pub(super) fn overlap<T: PartialEq>(ours: &[T], theirs: &[T]) -> [(usize, usize); 2] {
    let mut best = [(ours.len(), 0); 2];
    if theirs.is_empty() {
        return best;
    }
    let at = |index: usize| match index.checked_sub(theirs.len()) {
        None => &theirs[index],
        Some(index) => &ours[index],
    };
    let all = theirs.len() + ours.len();
    // How long what begins at each index is what theirs begins with; of theirs itself it may go on
    // into ours.
    let mut lengths = vec![0; all];
    let (mut left, mut right) = (0, 0);
    for index in 1..all {
        let mut length = match index < right {
            true => lengths[index - left].min(right - index),
            false => 0,
        };
        while index + length < all && at(length) == at(index + length) {
            length += 1;
        }
        lengths[index] = length;
        if index + length > right {
            (left, right) = (index, index + length);
        }
        if index >= theirs.len() {
            let found = (index - theirs.len(), length.min(theirs.len()));
            if found.1 > best[0].1 {
                best = [found, best[0]];
            } else if found.1 > best[1].1 {
                best[1] = found;
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::overlap;

    proptest! {
        #[test]
        fn the_two_longest_overlaps_are_those_of_a_search(
            ours in prop::collection::vec(0_u64..3, 0..24),
            theirs in prop::collection::vec(0_u64..3, 0..12),
        ) {
            let agreed = |from: usize| {
                let pairs = ours[from..].iter().zip(&theirs);
                pairs.take_while(|(our, their)| our == their).count()
            };
            let mut all: Vec<usize> = (0..ours.len()).map(agreed).chain([0, 0]).collect();
            all.sort_unstable_by(|one, other| other.cmp(one));
            let found = overlap(&ours, &theirs);
            prop_assert_eq!(found.map(|(_, length)| length), [all[0], all[1]]);
            let first = (0..ours.len()).find(|&from| all[0] > 0 && agreed(from) == all[0]);
            prop_assert_eq!(found[0].0, first.unwrap_or(ours.len()));
        }
    }
}
