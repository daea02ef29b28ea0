// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where Linux would have placed what the emulator placed. QEMU gives each `mmap` addresses behind
//! the last ones; Linux gives the highest gap that fits, so that what `munmap` freed comes back at
//! once (`vm_unmapped_area`; compared with Linux 6.18). A TLB sees the difference.
//!
//! Addresses that the program chose (`MAP_FIXED`), the image, the stack and `brk` stay. Left out:
//! hints without `MAP_FIXED`, `MAP_32BIT`, and the alignment of large mappings.

use std::collections::BTreeMap;

/// Where Linux's area for mappings ends without randomization of addresses.
const TOP: u64 = 0x7fff_f7ff_f000;
/// Where it ends below. What the emulator maps by itself is lower.
const BOTTOM: u64 = 0x1000_0000_0000;

/// A part of the emulator's addresses that lies elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    /// Its end in the emulator, exclusive.
    end: u64,
    /// Where it begins in Linux.
    at: u64,
}

/// From the emulator's addresses to Linux's. All are of whole pages.
#[derive(Debug, Default)]
pub(super) struct Places {
    pieces: BTreeMap<u64, Piece>,
    /// Linux's addresses in use: start and end, no two of which touch.
    taken: BTreeMap<u64, u64>,
    /// The last run of addresses that were asked for, with what they differ by.
    last: (u64, u64, u64),
}

impl Places {
    /// Where an address lies.
    #[inline]
    pub(super) fn of(&mut self, address: u64) -> u64 {
        let (from, to, by) = self.last;
        if from <= address && address < to {
            return address.wrapping_add(by);
        }
        self.last = self.run(address);
        address.wrapping_add(self.last.2)
    }

    /// The run of an address: start, end, and what to add.
    fn run(&self, address: u64) -> (u64, u64, u64) {
        let before = self.pieces.range(..=address).next_back();
        if let Some((&start, piece)) = before.filter(|(_, piece)| address < piece.end) {
            return (start, piece.end, piece.at.wrapping_sub(start));
        }
        let next = self.pieces.range(address..).next();
        let from = before.map_or(0, |(_, piece)| piece.end);
        (from, next.map_or(u64::MAX, |(&start, _)| start), 0)
    }

    /// The parts of a range: where they lie, and how long they are.
    pub(super) fn parts(&self, start: u64, len: u64) -> Vec<(u64, u64)> {
        let end = start.saturating_add(len);
        let (mut parts, mut at) = (Vec::new(), start);
        while at < end {
            let (_, to, by) = self.run(at);
            let to = to.min(end);
            parts.push((at.wrapping_add(by), to - at));
            at = to;
        }
        parts
    }

    /// A new mapping: its parts. What the program chose the address of stays there and replaces
    /// what is there, unless something that lies elsewhere got that address.
    pub(super) fn map(&mut self, start: u64, len: u64, fixed: bool) -> Vec<(u64, u64)> {
        if start.checked_add(len).is_none() {
            return vec![(start, len)];
        }
        if !fixed {
            self.forget(start, len);
            self.place(start, len);
        } else {
            let mut at = start;
            for (part, len) in self.parts(start, len) {
                if part == at && !self.is_free(part, len) {
                    self.place(at, len);
                }
                at += len;
            }
        }
        self.parts(start, len)
    }

    /// Gives a range the highest gap. If there is none it stays.
    fn place(&mut self, start: u64, len: u64) {
        if let Some(at) = self.gap(len) {
            self.put(start, len, at);
        }
    }

    /// A range goes: its parts.
    pub(super) fn unmap(&mut self, start: u64, len: u64) -> Vec<(u64, u64)> {
        let parts = self.parts(start, len);
        self.forget(start, len);
        parts
    }

    /// A mapping is moved, to other addresses or with another length. Returns where it was and is,
    /// or `None` if it is not a whole part that lies elsewhere. Linux lets it grow where it is if
    /// there is room.
    pub(super) fn resize(
        &mut self,
        (old, old_len): (u64, u64),
        (new, new_len): (u64, u64),
    ) -> Option<(u64, u64)> {
        let end = old.checked_add(old_len)?;
        new.checked_add(new_len).filter(|_| new_len > 0)?;
        let (_, to, by) = self.run(old);
        if by == 0 || to < end {
            return None;
        }
        let was = old.wrapping_add(by);
        let grown = new_len.saturating_sub(old_len);
        // Above the area is what the kernel mapped before the program.
        let room = TOP - was - old_len >= grown && self.is_free(was + old_len, grown);
        let stays = grown == 0 || room;
        let at = if stays { was } else { self.gap(new_len)? };
        self.forget(old, old_len);
        self.forget(new, new_len);
        self.put(new, new_len, at);
        Some((was, at))
    }

    /// The highest gap for this number of bytes.
    fn gap(&self, len: u64) -> Option<u64> {
        let mut end = TOP;
        for (&start, &to) in self.taken.iter().rev() {
            if end - to >= len {
                break;
            }
            end = start;
        }
        end.checked_sub(len).filter(|&at| at >= BOTTOM && len > 0)
    }

    fn is_free(&self, at: u64, len: u64) -> bool {
        let end = at.saturating_add(len);
        let before = self.taken.range(..end).next_back();
        before.is_none_or(|(_, &to)| to <= at)
    }

    fn put(&mut self, start: u64, len: u64, at: u64) {
        self.last = (0, 0, 0);
        let end = start + len;
        self.pieces.insert(start, Piece { end, at });
        // What touches it becomes one with it.
        let (mut from, mut to) = (at, at + len);
        if let Some((&below, &its)) = self.taken.range(..=from).next_back()
            && its == from
        {
            from = below;
        }
        if let Some(its) = self.taken.remove(&to) {
            to = its;
        }
        self.taken.insert(from, to);
    }

    /// Nothing of a range lies elsewhere any more.
    fn forget(&mut self, start: u64, len: u64) {
        self.last = (0, 0, 0);
        let end = start.saturating_add(len);
        self.split(start);
        self.split(end);
        while let Some((&from, &piece)) = self.pieces.range(start..end).next() {
            self.pieces.remove(&from);
            self.free(piece.at, piece.end - from);
        }
    }

    /// Makes an address the start of a piece, if it lies within one.
    fn split(&mut self, address: u64) {
        let before = self.pieces.range_mut(..address).next_back();
        if let Some((&start, piece)) = before.filter(|(_, piece)| address < piece.end) {
            let rest = Piece {
                end: piece.end,
                at: piece.at + (address - start),
            };
            piece.end = address;
            self.pieces.insert(address, rest);
        }
    }

    fn free(&mut self, at: u64, len: u64) {
        let end = at + len;
        let (&from, &to) = self.taken.range(..=at).next_back().expect("it was taken");
        assert!(end <= to, "what is freed was taken as a whole");
        self.taken.remove(&from);
        if from < at {
            self.taken.insert(from, at);
        }
        if end < to {
            self.taken.insert(end, to);
        }
    }
}

#[cfg(test)]
#[path = "places_tests.rs"]
mod tests;
