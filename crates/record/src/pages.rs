// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages of a ring buffer of this machine, changed in place: names in records replaced, and records
//! from before a time taken out.
//!
//! A page begins with the time of its first record and the count of its bytes; each record carries
//! the time since the one before (`include/linux/ring_buffer.h`). Only what a running kernel of 64
//! bits and little endian writes is known here; `tracefile` reads those of others.

/// Bytes before the records.
pub(crate) const HEAD: usize = 16;
/// The count's bits that say that records before the page were lost.
const MISSED: u64 = 0b11 << 30;
/// The count's bits that count.
const COUNT: u64 = (1 << 27) - 1;
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// An absolute time has 59 bits; the rest is the page's.
const STAMP_MSB: u64 = 0xf8 << 56;

fn word(page: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(page.get(at..at + 4)?.try_into().ok()?))
}

fn long(page: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(page.get(at..at + 8)?.try_into().ok()?))
}

/// The time of a page's first record.
pub(crate) fn time(page: &[u8]) -> u64 {
    long(page, 0).unwrap_or(0)
}

/// Whether records before the page were lost; says so no more afterwards.
pub(crate) fn take_missed(page: &mut [u8]) -> bool {
    let count = long(page, 8).unwrap_or(0);
    page[8..16].copy_from_slice(&(count & !MISSED).to_le_bytes());
    count & MISSED != 0
}

/// Byte behind the page's last record.
fn end(page: &[u8]) -> usize {
    let count = long(page, 8).unwrap_or(0) & COUNT;
    usize::try_from(count)
        .map_or(HEAD, |count| HEAD + count)
        .min(page.len())
}

/// A record: where its first word is, where its data lie, and its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub word: usize,
    pub data: (usize, usize),
    pub time: u64,
}

/// Forgets what is in a page beside its records: what was there before, and what was discarded.
pub(crate) fn blank(page: &mut [u8]) {
    for (from, to) in read(page).1 {
        page[from..to].fill(0);
    }
    let end = end(page);
    page[end..].fill(0);
}

/// The records of a page. What makes no sense ends it.
pub(crate) fn places(page: &[u8]) -> Vec<Place> {
    read(page).0
}

/// The records, and where discarded ones lie.
fn read(page: &[u8]) -> (Vec<Place>, Vec<(usize, usize)>) {
    let (mut at, mut time, end) = (HEAD, time(page), end(page));
    let (mut found, mut discarded) = (Vec::new(), Vec::new());
    while at + 4 <= end {
        let Some(first) = word(page, at) else { break };
        let (kind, delta) = (first & 31, u64::from(first >> 5));
        let second = word(page, at + 4).unwrap_or(0);
        let far = (u64::from(second) << 27) + delta;
        let len = usize::try_from(second).unwrap_or(usize::MAX);
        match kind {
            PADDING if delta == 0 => break,
            PADDING => {
                time = time.wrapping_add(delta);
                let next = at.saturating_add(4).saturating_add(len);
                discarded.push(((at + 8).min(end), next.clamp((at + 8).min(end), end)));
                at = next;
                continue;
            }
            TIME_EXTEND => time = time.wrapping_add(far),
            TIME_STAMP => time = far | (time & STAMP_MSB),
            _ => {
                let data = match kind {
                    0 => (
                        at + 8,
                        at.saturating_add(4)
                            .saturating_add(len.saturating_add(3) & !3),
                    ),
                    words => (at + 4, at + 4 + 4 * words as usize),
                };
                if data.1 < data.0 || data.1 > end {
                    break;
                }
                time = time.wrapping_add(delta);
                found.push(Place {
                    word: at,
                    data,
                    time,
                });
                at = data.1;
                continue;
            }
        }
        at += 8;
    }
    (found, discarded)
}

/// Takes the records from before `from` out of the page; whether any is left.
pub(crate) fn cut(page: &mut [u8], from: u64) -> bool {
    let Some(first) = places(page).into_iter().find(|place| place.time >= from) else {
        return false;
    };
    let end = end(page);
    page[..8].copy_from_slice(&first.time.to_le_bytes());
    // Time since the page's begin is now 0.
    let kind = word(page, first.word).unwrap_or(0) & 31;
    page[first.word..first.word + 4].copy_from_slice(&kind.to_le_bytes());
    page.copy_within(first.word..end, HEAD);
    let left = end - first.word;
    page[8..16].copy_from_slice(&(left as u64).to_le_bytes());
    page[HEAD + left..].fill(0);
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn small(number: u64) -> u32 {
        u32::try_from(number & u64::from(u32::MAX)).unwrap()
    }

    /// A page of records of four bytes with these times, the first of them the page's.
    fn page(times: &[u64]) -> Vec<u8> {
        let mut page = times[0].to_le_bytes().to_vec();
        page.extend([0; 8]);
        let mut before = times[0];
        for (number, &time) in times.iter().enumerate() {
            let delta = time - before;
            before = time;
            if delta >= 1 << 27 {
                page.extend((TIME_EXTEND | small(delta) << 5).to_le_bytes());
                page.extend(small(delta >> 27).to_le_bytes());
                page.extend(1_u32.to_le_bytes());
            } else {
                page.extend((1 | small(delta) << 5).to_le_bytes());
            }
            page.extend(small(number as u64).to_le_bytes());
        }
        let count = (page.len() - HEAD) as u64;
        page[8..16].copy_from_slice(&count.to_le_bytes());
        page.resize(4096, 0);
        page
    }

    #[test]
    fn a_discarded_record_and_what_lies_behind_the_last_are_forgotten() {
        let mut page = page(&[1000, 1001]);
        let discarded = PADDING | 1 << 5;
        page[24..28].copy_from_slice(&discarded.to_le_bytes());
        page[28..32].copy_from_slice(&12_u32.to_le_bytes());
        page[32..40].fill(b'x');
        page[8] = 24;
        page[40..50].fill(b'y');
        let before = places(&page);
        blank(&mut page);
        assert_eq!(places(&page), before);
        assert_eq!(before.len(), 1);
        assert!(page[32..].iter().all(|&byte| byte == 0));
    }

    proptest! {
        #[test]
        fn a_page_that_is_cut_has_the_later_records_with_their_times(
            steps in prop::collection::vec(0_u64..1 << 29, 1..200), cut_at in 0_usize..220,
        ) {
            let mut time = 1 << 40;
            let mut times = Vec::new();
            for step in steps {
                times.push(time);
                time += step;
            }
            let from = times.get(cut_at).copied().unwrap_or(time + 1);
            let mut page = page(&times);
            let all = places(&page);
            prop_assert_eq!(all.iter().map(|it| it.time).collect::<Vec<_>>(), times);
            let data = |page: &[u8], it: &Place| page[it.data.0..it.data.1].to_vec();
            let later = all.iter().filter(|it| it.time >= from);
            let expected: Vec<_> = later.map(|it| (it.time, data(&page, it))).collect();
            prop_assert_eq!(cut(&mut page, from), !expected.is_empty());
            if !expected.is_empty() {
                let left = places(&page);
                let got: Vec<_> = left.iter().map(|it| (it.time, data(&page, it))).collect();
                prop_assert_eq!(got, expected);
            }
        }

        #[test]
        fn any_bytes_are_survived(
            mut page in prop::collection::vec(any::<u8>(), 16..600), from: u64,
        ) {
            for place in places(&page) {
                assert!(place.data.1 <= page.len());
            }
            cut(&mut page, from);
            blank(&mut page);
        }
    }
}
