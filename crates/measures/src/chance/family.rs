// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Many measures, few runs: which of many probabilities may count as shown.
//!
//! Of a hundred measures that do not differ, five fall below 5 % by chance. The step-up rule of
//! Benjamini and Hochberg (1995) holds the share of false ones among those shown to a level, and so
//! the chance of any at all where nothing differs.

/// The greatest probability that counts as shown in a family, in parts per million; `None` where
/// none does. Of those shown, a share of at most `level_ppm` is false.
#[must_use]
pub fn threshold_ppm(probabilities_ppm: &[u64], level_ppm: u64) -> Option<u64> {
    let mut ascending = probabilities_ppm.to_vec();
    ascending.sort_unstable();
    let all = ascending.len() as u128;
    let shown = |&(at, &found): &(usize, &u64)| {
        u128::from(found) * all <= (at as u128 + 1) * u128::from(level_ppm)
    };
    let last = ascending.iter().enumerate().rfind(shown);
    last.map(|(_, &found)| found)
}

#[cfg(test)]
mod tests {
    use super::threshold_ppm;

    #[test]
    fn the_first_example_of_the_rules_authors_shows_four_of_fifteen() {
        // Benjamini and Hochberg 1995, section 4.1, in parts per million.
        let found = [
            100, 400, 1_900, 9_500, 20_100, 27_800, 29_800, 34_400, 45_900, 324_000, 426_200,
            571_900, 652_800, 759_000, 1_000_000,
        ];
        assert_eq!(threshold_ppm(&found, 50_000), Some(9_500));
    }

    #[test]
    fn nothing_is_shown_of_nothing_and_of_high_probabilities() {
        assert_eq!(threshold_ppm(&[], 50_000), None);
        assert_eq!(threshold_ppm(&[60_000, 900_000], 50_000), None);
        assert_eq!(threshold_ppm(&[50_000], 50_000), Some(50_000));
    }

    #[test]
    fn one_that_fails_alone_is_shown_beside_others() {
        assert_eq!(threshold_ppm(&[40_000, 45_000], 50_000), Some(45_000));
        assert_eq!(threshold_ppm(&[40_000, 900_000], 50_000), None);
    }
}
