// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Seeded, portable random streams: PCG XSH-RR 64/32, one stream per entity.
//!
//! The draws are integers only, so every machine produces the same bytes.

/// One stream of random numbers.
#[derive(Debug, Clone)]
pub struct Stream {
    state: u64,
    increment: u64,
}

/// Mixes a seed with an entity's number (SplitMix64's finalizer).
#[must_use]
pub const fn mix(seed: u64, entity: u64) -> u64 {
    let mut z = seed.wrapping_add(entity.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
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
        let old = self.state;
        self.state = old
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(self.increment);
        let shifted = low32(((old >> 18) ^ old) >> 27);
        shifted.rotate_right(low32(old >> 59))
    }

    /// A number in `0..bound` (`bound` > 0), by multiplication; the bias is below 2^-32 * bound.
    #[inline]
    pub fn below(&mut self, bound: u32) -> u32 {
        debug_assert!(bound > 0, "an empty range has no number");
        low32((u64::from(self.next_u32()) * u64::from(bound)) >> 32)
    }
}

#[cfg(test)]
mod tests {
    use super::Stream;

    #[test]
    fn streams_of_two_entities_differ_and_repeat() {
        let draw = |entity| {
            let mut stream = Stream::new(7, entity);
            (0..4).map(|_| stream.next_u32()).collect::<Vec<_>>()
        };
        assert_ne!(draw(0), draw(1));
        assert_eq!(draw(3), draw(3));
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
}

fn low32(value: u64) -> u32 {
    (value & 0xffff_ffff) as u32
}
