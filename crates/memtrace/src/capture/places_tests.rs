// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Places against a table of pages: does no page lie where another does, and is a new mapping in
//! the highest gap? What Linux does is asked of Linux itself by the test of captures.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const PAGE: u64 = 4096;
/// Where the emulator places.
const FIRST: u64 = 0x40_0000_0000;

/// Where each page of the emulator lies, and where the emulator places next.
#[derive(Default)]
struct Table {
    pages: BTreeMap<u64, u64>,
    next: u64,
}

impl Table {
    /// The highest gap of this number of pages, found page by page.
    fn gap(&self, count: u64) -> u64 {
        let used: std::collections::BTreeSet<u64> = self.pages.values().copied().collect();
        let mut end = TOP / PAGE;
        loop {
            match (end - count..end).rev().find(|page| used.contains(page)) {
                None => return end - count,
                Some(page) => end = page,
            }
        }
    }

    fn new_range(&mut self, count: u64) -> u64 {
        self.next += count;
        FIRST / PAGE + self.next - count
    }
}

fn bytes(pages: u64) -> u64 {
    pages * PAGE
}

proptest! {
    #[test]
    fn places_agree_with_a_table_of_pages(
        steps in prop::collection::vec((0u8..4, 1u64..9, 0usize..99, 0u64..9), 1..80)
    ) {
        let (mut places, mut table) = (Places::default(), Table::default());
        // Ranges in the emulator: first page and count.
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for (what, count, which, other) in steps {
            let at = which % ranges.len().max(1);
            match what {
                1 | 2 if !ranges.is_empty() => {
                    let (first, all) = ranges.swap_remove(at);
                    let (skip, count) = (other % all, count.min(all - other % all));
                    places.unmap(bytes(first + skip), bytes(count));
                    for page in first + skip..first + skip + count {
                        table.pages.remove(&page);
                    }
                    let parts = [(first, skip), (first + skip + count, all - skip - count)];
                    ranges.extend(parts.into_iter().filter(|part| part.1 > 0));
                }
                3 if !ranges.is_empty() => {
                    let (first, all) = ranges[at];
                    let was = table.pages[&first];
                    let grown = was + all..was + count.max(all);
                    let used = |page| table.pages.values().any(|&its| its == page);
                    let stays = grown.end <= TOP / PAGE && !grown.clone().any(used);
                    let to = if stays { was } else { table.gap(count) };
                    let new = table.new_range(count);
                    let to_bytes = |(first, count)| (bytes(first), bytes(count));
                    let found = places.resize(to_bytes((first, all)), to_bytes((new, count)));
                    prop_assert_eq!(found, Some((bytes(was), bytes(to))));
                    for page in 0..all {
                        table.pages.remove(&(first + page));
                    }
                    for page in 0..count {
                        table.pages.insert(new + page, to + page);
                    }
                    ranges[at] = (new, count);
                }
                _ => {
                    let to = table.gap(count);
                    let first = table.new_range(count);
                    let parts = places.map(bytes(first), bytes(count), false);
                    prop_assert_eq!(parts, [(bytes(to), bytes(count))]);
                    for page in 0..count {
                        table.pages.insert(first + page, to + page);
                    }
                    ranges.push((first, count));
                }
            }
            for (&page, &to) in &table.pages {
                prop_assert_eq!(places.of(bytes(page) + 7), bytes(to) + 7);
            }
        }
    }
}

#[test]
fn what_the_program_chose_the_address_of_stays_there() {
    let mut places = Places::default();
    assert_eq!(places.map(0x40_0000, 0x3000, true), [(0x40_0000, 0x3000)]);
    assert_eq!(places.of(0x40_1008), 0x40_1008);
}

#[test]
fn what_replaces_a_part_of_a_mapping_lies_with_the_mapping() {
    let mut places = Places::default();
    let [(at, _)] = places.map(FIRST, 0x5000, false)[..] else {
        panic!("one part");
    };
    let part = places.map(FIRST + 0x1000, 0x2000, true);
    assert_eq!(part, [(at + 0x1000, 0x2000)]);
    let beyond = places.map(FIRST + 0x4000, 0x2000, true);
    assert_eq!(beyond, [(at + 0x4000, 0x1000), (FIRST + 0x5000, 0x1000)]);
}

#[test]
fn a_chosen_address_that_is_taken_is_placed_too() {
    let mut places = Places::default();
    let [(at, _)] = places.map(FIRST, 0x2000, false)[..] else {
        panic!("one part");
    };
    assert_eq!(places.map(at, 0x1000, true), [(at - 0x1000, 0x1000)]);
    assert_eq!(places.of(FIRST), at);
}
