// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How often chance alone would make paired runs differ as much: the test by exchange of signs.
//!
//! Two variants that are the same may trade places within each pair, which turns the sign of that
//! pair's difference. The share of all such exchanges whose sum is at least as far from 0 as the
//! sum seen is the probability sought (Fisher 1935, *The Design of Experiments*, section 21). It
//! asks nothing of the shape of the differences, and it cannot fall below two in 2^pairs.

use steady_random::Stream;

/// Up to this many pairs every exchange is counted; beyond it they are drawn.
const MOST_COUNTED: usize = 16;
/// Draws beyond that.
const DRAWS: u64 = 65_535;
/// One, in parts per million.
const MILLION: u64 = 1_000_000;

/// The probability in parts per million, rounded up, that chance alone puts the sum of these
/// differences as far from 0 as it is; a million where there are none.
pub(super) fn probability_ppm(differences: &[i64], stream: &mut Stream) -> u64 {
    let seen: i128 = differences.iter().copied().map(i128::from).sum();
    let (as_far, all) = if differences.len() <= MOST_COUNTED {
        count(differences, seen.abs())
    } else {
        draw(differences, seen.abs(), stream)
    };
    assert!(
        as_far >= 1 && as_far <= all,
        "what was seen is one of the exchanges"
    );
    (as_far * MILLION).div_ceil(all)
}

/// The least probability that `pairs` pairs can show, in parts per million, rounded up.
pub(super) fn least_ppm(pairs: usize) -> u64 {
    match u32::try_from(pairs) {
        Ok(0) => MILLION,
        Ok(pairs) if pairs <= 21 => (2 * MILLION).div_ceil(1 << pairs),
        _ => 1,
    }
}

/// All exchanges in Gray's order: each differs from the one before it in one sign.
fn count(differences: &[i64], seen: i128) -> (u64, u64) {
    let all = 1u64 << differences.len();
    let mut sum: i128 = differences.iter().copied().map(i128::from).sum();
    let mut turned = vec![false; differences.len()];
    let mut as_far = u64::from(sum.abs() >= seen);
    for step in 1..all {
        let at = step.trailing_zeros() as usize;
        let twice = 2 * i128::from(differences[at]);
        sum += if turned[at] { twice } else { -twice };
        turned[at] = !turned[at];
        as_far += u64::from(sum.abs() >= seen);
    }
    (as_far, all)
}

/// Random exchanges, with the one seen among them, so that the probability is never 0.
fn draw(differences: &[i64], seen: i128, stream: &mut Stream) -> (u64, u64) {
    let mut as_far = 1;
    for _ in 0..DRAWS {
        let mut sum = 0i128;
        for chunk in differences.chunks(32) {
            let mut signs = stream.next_u32();
            for &difference in chunk {
                let difference = i128::from(difference);
                sum += if signs & 1 == 0 {
                    difference
                } else {
                    -difference
                };
                signs >>= 1;
            }
        }
        as_far += u64::from(sum.abs() >= seen);
    }
    (as_far, DRAWS + 1)
}

#[cfg(test)]
mod tests {
    use super::{least_ppm, probability_ppm};
    use steady_random::Stream;

    fn probability(differences: &[i64]) -> u64 {
        probability_ppm(differences, &mut Stream::new(1, 0))
    }

    #[test]
    fn runs_that_all_agree_give_the_least_probability() {
        for pairs in 1..=12 {
            let found = probability(&vec![7; pairs]);
            assert_eq!(found, least_ppm(pairs), "{pairs} pairs");
        }
        assert_eq!(least_ppm(8), 7_813);
    }

    #[test]
    fn fishers_own_example_comes_out_as_he_counted_it() {
        // Darwin's maize, differences in eighths of an inch; Fisher counts 1,726 of 32,768.
        let maize = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48];
        assert_eq!(probability(&maize), (1_726u64 * 1_000_000).div_ceil(32_768));
    }

    #[test]
    fn nothing_and_no_difference_show_nothing() {
        assert_eq!(probability(&[]), 1_000_000);
        assert_eq!(probability(&[0; 9]), 1_000_000);
        assert_eq!(probability(&[5, -5]), 1_000_000);
    }

    #[test]
    fn drawn_exchanges_come_near_the_counted_ones() {
        // Sixteen are counted, seventeen are drawn; a zero more changes no sum.
        let mut differences: Vec<i64> = (0..16).map(|at| 3 * at - 10).collect();
        let counted = probability(&differences);
        differences.push(0);
        let drawn = probability(&differences);
        assert!(counted.abs_diff(drawn) < 5_000, "{counted} {drawn}");
    }
}
