// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether two groups that are not paired differ by more than chance: traces of before and after,
//! of which none belongs to a certain other one.
//!
//! The test is exact: of all ways to divide the values into groups of these sizes, the share in
//! which the means lie at least as far apart as they do (a permutation test, two-sided). It asks
//! for no distribution, only that under chance each value could have been in either group. Groups
//! whose divisions are too many to go through draw some with a seed.

use steady_random::Stream;

/// Divisions that are gone through; beyond, as many are drawn.
const DIVISIONS: u64 = 200_000;
const MILLION: u64 = 1_000_000;

/// The probability that chance alone sets the means of the groups as far apart, in parts per
/// million; a million if either is empty.
#[must_use]
pub fn unpaired_ppm(before: &[u64], after: &[u64]) -> u64 {
    let (n, m) = (before.len(), after.len());
    if n == 0 || m == 0 {
        return MILLION;
    }
    let all: Vec<u64> = before.iter().chain(after).copied().collect();
    let sum: u128 = all.iter().copied().map(u128::from).sum();
    // The means of a group and of the rest are as far apart as its sum is from its due share.
    let apart = |part: u128| {
        let (size, whole) = (n as u128, all.len() as u128);
        (part * whole).abs_diff(sum * size)
    };
    let found = apart(before.iter().copied().map(u128::from).sum());
    let (far, tried) = match divisions(all.len(), n) {
        Some(count) => (count_far(&all, n, &|part| apart(part) >= found), count),
        None => {
            let mut stream = Stream::new(1, steady_random::named("unpaired"));
            let drawn = (0..DIVISIONS).filter(|_| apart(draw(&all, n, &mut stream)) >= found);
            // What was found is one of the divisions.
            (u64::try_from(drawn.count()).unwrap_or(0) + 1, DIVISIONS + 1)
        }
    };
    assert!(far <= tried, "a part of all divisions");
    far * MILLION / tried
}

/// The least probability that groups of these sizes can have, in parts per million: where all of
/// one lie above all of the other.
#[must_use]
pub fn least_unpaired_ppm(before: usize, after: usize) -> u64 {
    match divisions(before + after, before) {
        Some(0) | None => 0,
        Some(_) if before == 0 || after == 0 => MILLION,
        // The two outermost divisions, or the same one twice where the groups are as large.
        Some(count) => (if before == after { 2 } else { 1 }) * MILLION / count,
    }
}

/// In how many ways `n` of `all` can be chosen, if these can be gone through.
fn divisions(all: usize, n: usize) -> Option<u64> {
    let mut count = 1_u64;
    for k in 1..=n.min(all - n) {
        count = count.checked_mul(u64::try_from(all - k + 1).ok()?)? / u64::try_from(k).ok()?;
        if count > DIVISIONS {
            return None;
        }
    }
    Some(count)
}

/// Goes through all choices of `n` values and counts those whose sum is far.
fn count_far(values: &[u64], n: usize, is_far: &dyn Fn(u128) -> bool) -> u64 {
    fn choose(values: &[u64], n: usize, sum: u128, is_far: &dyn Fn(u128) -> bool) -> u64 {
        if n == 0 {
            return u64::from(is_far(sum));
        }
        let Some((first, rest)) = values.split_first() else {
            return 0;
        };
        if values.len() < n {
            return 0;
        }
        choose(rest, n - 1, sum + u128::from(*first), is_far) + choose(rest, n, sum, is_far)
    }
    choose(values, n, 0, is_far)
}

/// The sum of `n` values drawn without putting back.
fn draw(values: &[u64], n: usize, stream: &mut Stream) -> u128 {
    let mut left = values.to_vec();
    let mut sum = 0;
    for _ in 0..n {
        let size = u32::try_from(left.len()).unwrap_or(u32::MAX);
        sum += u128::from(left.swap_remove(stream.below(size) as usize));
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::{MILLION, least_unpaired_ppm, unpaired_ppm};

    #[test]
    fn four_traces_that_lie_above_four_others_are_two_of_seventy_divisions() {
        let ppm = unpaired_ppm(&[1, 2, 3, 4], &[11, 12, 13, 14]);
        assert_eq!(ppm, 2 * MILLION / 70);
        assert_eq!(ppm, least_unpaired_ppm(4, 4));
    }

    #[test]
    fn equal_groups_show_nothing() {
        assert_eq!(unpaired_ppm(&[5, 5, 5], &[5, 5, 5]), MILLION);
        assert_eq!(unpaired_ppm(&[], &[1]), MILLION);
    }

    #[test]
    fn groups_mixed_among_each_other_are_likely_by_chance() {
        assert!(unpaired_ppm(&[1, 4, 5, 8], &[2, 3, 6, 7]) > 900_000);
    }

    #[test]
    fn chance_shows_a_difference_in_at_most_5_of_100_pairs_of_groups() {
        let mut stream = steady_random::Stream::new(3, 9);
        let mut value = || u64::from(stream.below(1_000));
        let shown = (0..400).filter(|_| {
            let groups: Vec<u64> = (0..10).map(|_| value()).collect();
            unpaired_ppm(&groups[..5], &groups[5..]) <= 50_000
        });
        assert!(shown.count() <= 30);
    }

    #[test]
    fn many_values_are_drawn_and_give_the_same_each_time() {
        let before: Vec<u64> = (0..20).collect();
        let after: Vec<u64> = (10..30).collect();
        let ppm = unpaired_ppm(&before, &after);
        assert_eq!(ppm, unpaired_ppm(&before, &after));
        assert!(ppm < 1_000, "{ppm}");
    }
}
