// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How far a paired ratio can be trusted: a 95 % interval by drawing the pairs again.
//!
//! The ratio of a pair is value over base of one seed; over the pairs it is their geometric mean,
//! so that twice as long and half as long weigh the same, and a pair counts once however large its
//! numbers are. A median would do as well for the middle, but of eight pairs it takes a few values
//! only, and its interval jumps between them.
//!
//! The interval is the percentile bootstrap's, with the percentiles moved outwards for few pairs
//! (Hesterberg 2015, *What Teachers Should Know About the Bootstrap*, section 4.3: the expanded
//! percentile interval, which makes up for what few samples leave out).

use steady_random::Stream;

/// Sets of pairs that are drawn.
const DRAWS: usize = 4_000;
/// Fewer pairs than this give no interval: its percentiles would lie beyond the draws.
pub(super) const FEWEST_PAIRS: usize = 5;
/// For 5, 6, … 30 pairs, the lower percentile of the interval in parts per million: the normal
/// distribution function at -sqrt(n / (n - 1)) times Student's 97.5th percentile with n - 1
/// degrees of freedom.
const TAIL_PPM: [usize; 26] = [
    954, 2_432, 4_109, 5_738, 7_225, 8_551, 9_722, 10_757, 11_671, 12_483, 13_207, 13_856, 14_439,
    14_966, 15_445, 15_881, 16_280, 16_646, 16_983, 17_294, 17_582, 17_850, 18_099, 18_332, 18_550,
    18_754,
];

/// The two ends, as mean logarithms in the units of the input; `None` of fewer than
/// [`FEWEST_PAIRS`].
pub(super) fn interval(logs: &[i64], stream: &mut Stream) -> Option<(i64, i64)> {
    let beyond = logs.len().checked_sub(FEWEST_PAIRS)?;
    let tail_ppm = TAIL_PPM[beyond.min(TAIL_PPM.len() - 1)];
    let pairs = u32::try_from(logs.len()).ok()?;
    let mut means: Vec<i64> = (0..DRAWS)
        .map(|_| {
            let drawn = (0..pairs).map(|_| logs[stream.below(pairs) as usize]);
            mean(drawn.map(i128::from).sum(), logs.len())
        })
        .collect();
    means.sort_unstable();
    let outside = DRAWS * tail_ppm / 1_000_000;
    let (low, high) = (means[outside], means[DRAWS - 1 - outside]);
    assert!(low <= high, "the ends of an interval are in order");
    Some((low, high))
}

/// `sum` over `count`, rounded down.
pub(super) fn mean(sum: i128, count: usize) -> i64 {
    assert!(count > 0, "a mean is of something");
    let mean = sum.div_euclid(i128::try_from(count).unwrap_or(i128::MAX));
    i64::try_from(mean).expect("a mean lies between the least and the greatest")
}

#[cfg(test)]
mod tests {
    use super::{FEWEST_PAIRS, interval, mean};
    use steady_random::Stream;

    #[test]
    fn equal_pairs_give_an_interval_without_width() {
        let found = interval(&[42; 8], &mut Stream::new(1, 0));
        assert_eq!(found, Some((42, 42)));
    }

    #[test]
    fn too_few_pairs_give_none() {
        assert_eq!(
            interval(&[1; FEWEST_PAIRS - 1], &mut Stream::new(1, 0)),
            None
        );
    }

    #[test]
    fn the_true_mean_lies_inside_in_about_95_of_100_races() {
        // Sums of twelve uniform draws are near normal; 0 is their true mean.
        let mut source = Stream::new(7, 0);
        let (mut inside, races) = (0, 1_000);
        for race in 0..races {
            let logs: Vec<i64> = (0..8)
                .map(|_| {
                    (0..12)
                        .map(|_| i64::from(source.below(2_001)) - 1_000)
                        .sum()
                })
                .collect();
            let (low, high) = interval(&logs, &mut Stream::new(race, 1)).unwrap();
            inside += u32::from(low <= 0 && 0 <= high);
        }
        assert!((930..=975).contains(&inside), "{inside} of {races}");
    }

    #[test]
    fn a_mean_is_rounded_down_on_both_sides_of_0() {
        assert_eq!((mean(7, 2), mean(-7, 2)), (3, -4));
    }
}
