// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sets of CPUs, in the kernel's text form (`0-3,8`; Documentation/admin-guide/cputopology.rst).

use std::fmt;
use std::str::FromStr;

/// The most CPUs that Linux has on x86-64 (`NR_CPUS_RANGE_END` with `MAXSMP`).
const MAX: u32 = 8192;

/// A set of CPUs.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cpus {
    /// Bit i of word w is CPU 64 w + i; the last word is not 0.
    words: Vec<u64>,
}

/// A list of CPUs that is not one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpusError(String);

impl fmt::Display for CpusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = &self.0;
        write!(
            f,
            "`{what}` is not a list of CPUs; expected numbers below {MAX} and ranges, as in 0-3,8"
        )
    }
}

impl std::error::Error for CpusError {}

impl Cpus {
    /// The set of one CPU.
    #[must_use]
    pub fn one(cpu: u32) -> Self {
        [cpu].into_iter().collect()
    }

    /// Adds a CPU.
    ///
    /// # Panics
    /// If Linux cannot have a CPU of that number.
    pub fn insert(&mut self, cpu: u32) {
        assert!(cpu < MAX, "CPU {cpu} is below {MAX}");
        let word = cpu as usize / 64;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (cpu % 64);
    }

    /// Whether the CPU is in the set.
    #[must_use]
    pub fn contains(&self, cpu: u32) -> bool {
        let word = self.words.get(cpu as usize / 64);
        word.is_some_and(|word| word >> (cpu % 64) & 1 == 1)
    }

    /// How many CPUs are in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0u32..).zip(&self.words).flat_map(|(at, &word)| {
            (0..64)
                .filter(move |bit| word >> bit & 1 == 1)
                .map(move |bit| at * 64 + bit)
        })
    }

    /// The CPUs in both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self::trimmed(
            self.words
                .iter()
                .zip(&other.words)
                .map(|(a, b)| a & b)
                .collect(),
        )
    }

    /// The CPUs in this set and not in the other.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let others = other.words.iter().copied().chain(std::iter::repeat(0));
        Self::trimmed(self.words.iter().zip(others).map(|(a, b)| a & !b).collect())
    }

    /// Whether each CPU of this set is in the other.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        self.without(other).is_empty()
    }

    fn trimmed(mut words: Vec<u64>) -> Self {
        while words.last() == Some(&0) {
            words.pop();
        }
        Self { words }
    }
}

impl FromIterator<u32> for Cpus {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        let mut set = Self::default();
        cpus.into_iter().for_each(|cpu| set.insert(cpu));
        set
    }
}

impl FromStr for Cpus {
    type Err = CpusError;

    fn from_str(text: &str) -> Result<Self, CpusError> {
        let wrong = || CpusError(text.trim().to_owned());
        let number = |text: &str| text.parse::<u32>().ok().filter(|&cpu| cpu < MAX);
        let mut set = Self::default();
        for part in text.trim().split(',').filter(|_| !text.trim().is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = number(first).zip(number(last)).ok_or_else(wrong)?;
            if first > last {
                return Err(wrong());
            }
            (first..=last).for_each(|cpu| set.insert(cpu));
        }
        Ok(set)
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.iter().peekable();
        let mut comma = "";
        while let Some(first) = rest.next() {
            let mut last = first;
            while rest.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            write!(f, "{comma}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            comma = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_of_the_kernel_are_read_and_written_alike() {
        for text in ["", "0", "0-3,8", "63-64", "5,7,9-127"] {
            assert_eq!(text.parse::<Cpus>().unwrap().to_string(), text);
        }
        assert_eq!("0-1\n".parse::<Cpus>().unwrap().len(), 2);
    }

    #[test]
    fn what_is_not_a_list_is_refused_with_its_text() {
        for text in ["a", "1-", "3-1", "0,,1", "8192", "-1"] {
            let said = text.parse::<Cpus>().unwrap_err().to_string();
            assert!(said.contains(&format!("`{text}`")), "{said}");
        }
    }

    proptest! {
        #[test]
        fn sets_behave_as_sets_of_numbers_do(
            one in proptest::collection::btree_set(0u32..200, 0..40),
            two in proptest::collection::btree_set(0u32..200, 0..40),
        ) {
            type Set = std::collections::BTreeSet<u32>;
            let of = |cpus: &Set| cpus.iter().copied().collect::<Cpus>();
            let (a, b) = (of(&one), of(&two));
            prop_assert_eq!(a.iter().collect::<Vec<_>>(), one.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(a.and(&b), one.intersection(&two).copied().collect());
            prop_assert_eq!(a.without(&b), one.difference(&two).copied().collect());
            prop_assert_eq!(a.is_within(&b), one.is_subset(&two));
            prop_assert_eq!(a.len(), one.len());
            prop_assert_eq!(a.to_string().parse::<Cpus>().unwrap(), a);
        }
    }
}
