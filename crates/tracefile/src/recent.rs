// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A map by numbers that follow each other, as threads' and samples' do: what was looked up last by
//! the low bits of its number is nearly always what is wanted again, without a hash.

use std::collections::HashMap;

/// Numbers that are at hand.
const AT_HAND: usize = 64;

/// The map.
#[derive(Debug, Clone)]
pub(crate) struct Recent<V> {
    all: HashMap<u64, V>,
    at_hand: [Option<(u64, V)>; AT_HAND],
}

impl<V: Copy> Default for Recent<V> {
    fn default() -> Self {
        Self {
            all: HashMap::new(),
            at_hand: [None; AT_HAND],
        }
    }
}

fn place(number: u64) -> usize {
    usize::try_from(number % AT_HAND as u64).unwrap_or(0)
}

impl<V: Copy> Recent<V> {
    /// What a number has.
    #[inline]
    pub fn get(&mut self, number: u64) -> Option<&V> {
        let at_hand = &mut self.at_hand[place(number)];
        if at_hand.is_none_or(|(known, _)| known != number) {
            *at_hand = Some((number, *self.all.get(&number)?));
        }
        at_hand.as_ref().map(|(_, value)| value)
    }

    /// Gives a number what it has from now on, if it is known or fewer than `most` are.
    pub fn set(&mut self, number: u64, value: V, most: usize) {
        if self.all.len() < most || self.all.contains_key(&number) {
            self.all.insert(number, value);
            self.at_hand[place(number)] = Some((number, value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_what_it_was_given_last_and_others_with_its_low_bits_do_not_matter() {
        let mut map = Recent::default();
        let far = 7 + AT_HAND as u64;
        map.set(7, 'a', 2);
        map.set(far, 'b', 2);
        assert_eq!(
            [7, 8].map(|number| map.get(number).copied()),
            [Some('a'), None]
        );
        map.set(7, 'c', 2);
        map.set(8, 'd', 2);
        assert_eq!(
            [7, far, 7, 8].map(|number| map.get(number).copied()),
            [Some('c'), Some('b'), Some('c'), None]
        );
    }
}
