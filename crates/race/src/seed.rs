// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The seed of each repetition.

/// Seed of repetition `index` of a scenario whose seed is `scenario`: their sum, modulo 2^64.
///
/// So repetition 0 has the scenario's own seed, all variants of one repetition have the same one,
/// and any repetition can be had alone by a scenario with its seed. Neighbouring seeds give
/// unrelated streams only if the engine mixes the seed, which it has to do for its streams anyway.
#[must_use]
pub fn seed_of(scenario: u64, index: u32) -> u64 {
    scenario.wrapping_add(u64::from(index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_have_seeds_of_their_own_and_the_first_the_scenarios() {
        assert_eq!([0, 1, 2].map(|index| seed_of(7, index)), [7, 8, 9]);
        assert_eq!(seed_of(u64::MAX, 1), 0);
    }
}
