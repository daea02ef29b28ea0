// SPDX-License-Identifier: Apache-2.0 OR MIT
#![forbid(unsafe_code)]
//! Seeded random streams: the one source of random draws in this project.
//!
//! PCG XSH-RR 64/32 (O'Neill, "PCG: A Family of Simple Fast Space-Efficient Statistically Good
//! Algorithms for Random Number Generation", 2014), one stream for each entity, so that a draw of
//! one never moves another's. All is integer arithmetic: the same seed gives the same bytes on
//! every machine, and golden values in the tests keep it so. Not for secrets: a stream can be
//! foretold.

/// One stream of random numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    state: u64,
    increment: u64,
}

/// Mixes a seed with an entity's number (SplitMix64's finalizer; Steele, Lea, Flood 2014). For one
/// seed no two entities get the same value.
#[inline]
#[must_use]
pub const fn mix(seed: u64, entity: u64) -> u64 {
    let mut z = seed.wrapping_add(entity.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The number of an entity that has a name: FNV-1a, 64 bits, the same on every machine.
#[must_use]
pub fn named(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The low 32 bits.
#[expect(clippy::cast_possible_truncation, reason = "truncation is the purpose")]
#[inline]
const fn low32(value: u64) -> u32 {
    value as u32
}

impl Stream {
    /// The stream of `entity` under `seed`; streams of different entities are independent.
    #[must_use]
    pub const fn new(seed: u64, entity: u64) -> Self {
        let mut stream = Self {
            state: 0,
            increment: (mix(seed ^ 0x5EED, entity) << 1) | 1,
        };
        stream.state = mix(seed, entity).wrapping_add(stream.increment);
        stream
    }

    /// The next 32 bits.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        debug_assert!(
            self.increment & 1 == 1,
            "an even increment halves the period"
        );
        let old = self.state;
        self.state = old
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(self.increment);
        low32(((old >> 18) ^ old) >> 27).rotate_right(low32(old >> 59))
    }

    /// A number in `0..bound` (`bound` > 0), by multiplication; the bias is below 2^-32 * bound.
    #[inline]
    pub fn below(&mut self, bound: u32) -> u32 {
        debug_assert!(bound > 0, "an empty range has no number");
        let drawn = low32((u64::from(self.next_u32()) * u64::from(bound)) >> 32);
        debug_assert!(drawn < bound.max(1), "a draw lies in its range");
        drawn
    }
}

#[cfg(test)]
mod tests {
    use super::{Stream, mix};

    fn first(seed: u64, entity: u64) -> [u32; 4] {
        let mut stream = Stream::new(seed, entity);
        std::array::from_fn(|_| stream.next_u32())
    }

    /// Results of earlier versions are repeated only while these stay.
    #[test]
    fn seeds_and_entities_give_the_draws_that_they_always_gave() {
        assert_eq!(first(1, 0), [3633627948, 4048508706, 510165233, 2708382215]);
        assert_eq!(first(1, 1), [16729313, 131609955, 525635975, 4262976664]);
        assert_eq!(
            first(7, 3),
            [3634436132, 2394799123, 3428482847, 1798758098]
        );
        assert_eq!(
            first(u64::MAX, 0x00AC_CE55),
            [2915418819, 3712647067, 3594849580, 3215960853]
        );
    }

    #[test]
    fn mixing_gives_what_splitmix64_gives() {
        // The first outputs of SplitMix64 from state 0, as its authors' reference code prints them.
        let known = [
            0xE220_A839_7B1D_CDAF,
            0x6E78_9E6A_A1B9_65F4,
            0x06C4_5D18_8009_454F,
        ];
        assert_eq!([0, 1, 2].map(|entity| mix(0, entity)), known);
    }

    #[test]
    fn streams_of_two_entities_differ_and_repeat() {
        assert_ne!(first(7, 0), first(7, 1));
        assert_ne!(first(7, 0), first(8, 0));
        assert_eq!(first(7, 3), first(7, 3));
    }

    #[test]
    fn bounded_draws_reach_every_value_and_no_other() {
        let mut stream = Stream::new(1, 2);
        let mut seen = [false; 5];
        for _ in 0..200 {
            seen[stream.below(5) as usize] = true;
        }
        assert!(seen.iter().all(|&hit| hit));
    }

    #[test]
    fn a_name_has_the_number_that_its_authors_publish() {
        // Fowler, Noll and Vo's test vectors for FNV-1a, 64 bits.
        assert_eq!(super::named(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(super::named("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(super::named("foobar"), 0x8594_4171_f739_67e8);
    }
}
