// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether workloads with more shootdowns gain more: Kendall's rank correlation, as a share.
//!
//! Of all pairs of workloads, the share in which the one with the higher rate gains more. A pair
//! that ties in either counts half. Half of all pairs is what chance gives, and what a scheme has
//! that gains nothing anywhere: a correlation of 0. All pairs are a correlation of 1, and 0 pairs
//! are one of -1.

use std::cmp::Ordering;

use steady_coherence::num::basis_points;

use crate::closed::by_agent;
use crate::runs::WorkloadResults;
use crate::shares::signed;

/// A rate as a fraction: how many, of how many.
type Fraction = (u64, u64);

/// The share for the gain of a label over kvmtlb, by the rate of shootdowns under kvmtlb, basis
/// points.
pub(super) fn of_rate(all: &[WorkloadResults], label: &str) -> i64 {
    let point = |w: &WorkloadResults| {
        let counts = &w.get("kvmtlb").counts;
        let (guest, host) = by_agent(counts);
        ((guest + host, counts.instructions), w.gain(label, "kvmtlb"))
    };
    in_order(&all.iter().map(point).collect::<Vec<_>>())
}

/// The share of pairs in order, basis points.
fn in_order(points: &[(Fraction, i64)]) -> i64 {
    let later = |at: usize| points[at + 1..].iter();
    let pairs = points.iter().enumerate();
    let pairs = pairs.flat_map(|(at, one)| later(at).map(move |other| (one, other)));
    let halves = pairs.map(|(one, other)| {
        let rates = by_rate(one.0, other.0);
        let gains = one.1.cmp(&other.1);
        match (rates, gains) {
            (Ordering::Equal, _) | (_, Ordering::Equal) => 1,
            (rates, gains) if rates == gains => 2,
            _ => 0,
        }
    });
    let all = (points.len() * points.len().saturating_sub(1)) as u64;
    signed(basis_points(halves.sum(), all))
}

/// Fractions by their size, without division.
fn by_rate(one: Fraction, other: Fraction) -> Ordering {
    let cross = |above: u64, below: u64| u128::from(above) * u128::from(below.max(1));
    cross(one.0, other.1).cmp(&cross(other.0, one.1))
}

#[cfg(test)]
mod tests {
    use super::in_order;

    /// Rates of whole numbers.
    fn share(points: &[(u64, i64)]) -> i64 {
        let points: Vec<_> = points
            .iter()
            .map(|&(rate, gain)| ((rate, 1), gain))
            .collect();
        in_order(&points)
    }

    #[test]
    fn pairs_counted_by_hand_have_their_share() {
        assert_eq!(share(&[(1, 10), (2, 20), (3, 30)]), 10_000);
        assert_eq!(share(&[(3, 10), (2, 20), (1, 30)]), 0);
        // Of six pairs, the second and third go the other way.
        assert_eq!(share(&[(1, 10), (2, 20), (3, 15), (4, 40)]), 8_333);
        // Of ten pairs, (4, 1) is behind the three before it.
        let one_behind = [(1, 2), (2, 3), (3, 4), (4, 1), (5, 9)];
        assert_eq!(share(&one_behind), 7_000);
    }

    #[test]
    fn a_tie_counts_half_and_so_no_gain_at_all_is_half_of_the_pairs() {
        assert_eq!(share(&[(1, 0), (2, 0), (3, 0), (4, 0)]), 5_000);
        assert_eq!(share(&[(1, 10), (1, 20), (2, 30)]), 8_333);
    }

    #[test]
    fn rates_are_compared_as_fractions() {
        // 2 of 7 is less than 3 of 10, and 4 of 14 is 2 of 7.
        assert_eq!(in_order(&[((2, 7), 1), ((3, 10), 2)]), 10_000);
        assert_eq!(in_order(&[((2, 7), 2), ((3, 10), 1)]), 0);
        assert_eq!(in_order(&[((2, 7), 2), ((4, 14), 1)]), 5_000);
    }
}
