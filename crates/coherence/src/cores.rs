// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A set of cores, a bit for each.

/// The most cores of a machine: those of AMD's EPYC 9965.
pub const MOST_CORES: u32 = 192;
const WORDS: usize = MOST_CORES as usize / 64;

/// Some of a machine's cores.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CoreSet([u64; WORDS]);

impl CoreSet {
    /// One core.
    #[must_use]
    pub const fn of(core: usize) -> Self {
        let mut set = Self([0; WORDS]);
        set.insert(core);
        set
    }

    /// Adds a core.
    #[inline]
    pub const fn insert(&mut self, core: usize) {
        self.0[core / 64] |= 1 << (core % 64);
    }

    /// Takes a core out.
    #[inline]
    pub const fn remove(&mut self, core: usize) {
        self.0[core / 64] &= !(1 << (core % 64));
    }

    /// Whether a core is in it.
    #[inline]
    #[must_use]
    pub const fn contains(&self, core: usize) -> bool {
        self.0[core / 64] >> (core % 64) & 1 != 0
    }

    /// Without any core.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The number of cores.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// The cores, ascending.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..WORDS).flat_map(move |word| {
            let mut bits = self.0[word];
            std::iter::from_fn(move || {
                let core = word * 64 + bits.trailing_zeros() as usize;
                let some = bits != 0;
                bits &= bits.wrapping_sub(1);
                some.then_some(core)
            })
        })
    }
}

/// The cores whose bit is set.
pub(crate) fn cores_of(mut bits: u128) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let core = bits.trailing_zeros() as usize;
        bits &= bits.wrapping_sub(1);
        (core < 128).then_some(core)
    })
}

#[cfg(test)]
mod tests {
    use super::CoreSet;

    #[test]
    fn cores_come_back_in_order_and_go() {
        let mut set = CoreSet::of(191);
        for core in [64, 0, 63, 128] {
            set.insert(core);
        }
        set.remove(63);
        assert!(set.contains(191) && !set.contains(63));
        assert_eq!(
            (set.iter().collect::<Vec<_>>(), set.len()),
            (vec![0, 64, 128, 191], 4)
        );
        assert!(CoreSet::default().is_empty() && !set.is_empty());
    }
}
