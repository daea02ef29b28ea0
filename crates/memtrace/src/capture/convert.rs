// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From what the plugin saw to records: system calls become changes of the address space, and the
//! ranges that QEMU mapped itself (image, interpreter, stack) become `Mmap` records at their
//! first use. Follows Linux's x86-64 calls; `brk` is rounded up to pages as the kernel does.

use super::stream::{RawAccess, Syscall};
use crate::record::{MapKind, Prot, Record};
use crate::space::AddressSpace;

const MREMAP_DONTUNMAP: u64 = 4;
/// Advice that takes pages away: `MADV_DONTNEED`, `MADV_FREE`, `MADV_REMOVE`,
/// `MADV_DONTNEED_LOCKED` (`asm-generic/mman-common.h`).
const DROPPING_ADVICE: [u64; 4] = [4, 8, 9, 24];

/// Keeps the address space while records are made.
#[derive(Debug)]
pub(crate) struct Converter {
    page_size: u64,
    /// What the records so far map.
    known: AddressSpace,
    /// What the guest may own without having asked for it.
    candidates: AddressSpace,
    /// The heap's end, rounded up to a page, once the program has asked for it.
    heap_end: Option<u64>,
    /// Accesses in no range known.
    pub(crate) unmapped_accesses: u64,
}

impl Converter {
    pub(crate) fn new(page_size: u32) -> Self {
        Self {
            page_size: u64::from(page_size),
            known: AddressSpace::default(),
            candidates: AddressSpace::default(),
            heap_end: None,
            unmapped_accesses: 0,
        }
    }

    /// Takes in a range that may be the guest's.
    pub(crate) fn region(&mut self, start: u64, len: u64, prot: u64) {
        if len > 0 && start.checked_add(len).is_some() {
            self.candidates
                .apply(start, len, Prot::from_bits(prot), MapKind::Mmap);
        }
    }

    /// Hands `emit` the access, after any range it is the first to use.
    pub(crate) fn access<E>(
        &mut self,
        thread: u16,
        raw: RawAccess,
        emit: &mut impl FnMut(Record) -> Result<(), E>,
    ) -> Result<(), E> {
        let end = raw.vaddr.saturating_add(u64::from(raw.size));
        if !self.known.covers(raw.vaddr, end) {
            self.materialize(thread, raw.vaddr, end, emit)?;
            self.unmapped_accesses += u64::from(!self.known.covers(raw.vaddr, end));
        }
        emit(Record::Access {
            thread,
            vaddr: raw.vaddr,
            size: raw.size,
            write: raw.write,
            instructions: raw.instructions,
        })
    }

    /// Hands `emit` what a mapping call changed; nothing when it failed.
    pub(crate) fn syscall<E>(
        &mut self,
        thread: u16,
        call: &Syscall,
        emit: &mut impl FnMut(Record) -> Result<(), E>,
    ) -> Result<(), E> {
        if (-4095..0).contains(&call.ret) {
            return Ok(());
        }
        let ret = u64::from_le_bytes(call.ret.to_le_bytes());
        let [a1, a2, a3, a4, ..] = call.args;
        let mut change = |start, len, prot, kind| self.change(thread, start, len, prot, kind, emit);
        match call.num {
            9 => change(ret, a2, Prot::from_bits(a3), MapKind::Mmap),
            10 | 329 => change(a1, a2, Prot::from_bits(a3), MapKind::Mprotect),
            11 => change(a1, a2, Prot::default(), MapKind::Munmap),
            12 => self.brk(thread, ret, emit),
            25 => self.mremap(thread, (a1, a2), (ret, a3), a4, emit),
            28 if DROPPING_ADVICE.contains(&a3) => {
                self.materialize(thread, a1, a1.saturating_add(a2), emit)?;
                let prot = self.known.find(a1).map_or(Prot::default(), |range| range.2);
                self.change(thread, a1, a2, prot, MapKind::Madvise, emit)
            }
            _ => Ok(()),
        }
    }

    fn brk<E>(
        &mut self,
        thread: u16,
        end: u64,
        emit: &mut impl FnMut(Record) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(end) = end.checked_next_multiple_of(self.page_size) else {
            return Ok(());
        };
        let rw = Prot::from_bits(3);
        match self.heap_end.replace(end) {
            Some(old) if old < end => self.change(thread, old, end - old, rw, MapKind::Brk, emit),
            Some(old) if old > end => {
                self.change(thread, end, old - end, Prot::default(), MapKind::Brk, emit)
            }
            _ => Ok(()),
        }
    }

    /// `old` and `new` are start and length.
    fn mremap<E>(
        &mut self,
        thread: u16,
        old: (u64, u64),
        new: (u64, u64),
        flags: u64,
        emit: &mut impl FnMut(Record) -> Result<(), E>,
    ) -> Result<(), E> {
        let round = |len: u64| len.checked_next_multiple_of(self.page_size).unwrap_or(0);
        let (old_len, new_len) = (round(old.1), round(new.1));
        self.materialize(thread, old.0, old.0.saturating_add(old_len), emit)?;
        let prot = self
            .known
            .find(old.0)
            .map_or(Prot::from_bits(3), |range| range.2);
        if old.0 != new.0 {
            if flags & MREMAP_DONTUNMAP == 0 {
                self.change(
                    thread,
                    old.0,
                    old_len,
                    Prot::default(),
                    MapKind::Munmap,
                    emit,
                )?;
            }
            self.change(thread, new.0, new_len, prot, MapKind::Mmap, emit)
        } else if new_len < old_len {
            let gone = old_len - new_len;
            let start = old.0.saturating_add(new_len);
            self.change(thread, start, gone, Prot::default(), MapKind::Munmap, emit)
        } else {
            let start = old.0.saturating_add(old_len);
            self.change(thread, start, new_len - old_len, prot, MapKind::Mmap, emit)
        }
    }

    /// Makes one change, rounded to whole pages, and hands it over. An empty or impossible range
    /// is not a change.
    fn change<E>(
        &mut self,
        thread: u16,
        start: u64,
        len: u64,
        prot: Prot,
        kind: MapKind,
        emit: &mut impl FnMut(Record) -> Result<(), E>,
    ) -> Result<(), E> {
        let rounded = len.checked_next_multiple_of(self.page_size);
        let Some((len, end)) = rounded.and_then(|len| Some((len, start.checked_add(len)?))) else {
            return Ok(());
        };
        if len == 0 {
            return Ok(());
        }
        match kind {
            // A new mapping lies over what was there: no need to report that any more.
            MapKind::Mmap | MapKind::Brk => {
                self.candidates
                    .apply(start, len, Prot::default(), MapKind::Munmap);
            }
            _ => self.materialize(thread, start, end, emit)?,
        }
        self.known.apply(start, len, prot, kind);
        emit(Record::Map {
            thread,
            start,
            len,
            prot,
            kind,
        })
    }

    /// Reports the candidates that `start..end` touches, whole: they are the guest's.
    fn materialize<E>(
        &mut self,
        thread: u16,
        start: u64,
        end: u64,
        emit: &mut impl FnMut(Record) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some((from, to, prot)) = self.candidates.first_in(start, end) {
            self.candidates
                .apply(from, to - from, Prot::default(), MapKind::Munmap);
            self.known.apply(from, to - from, prot, MapKind::Mmap);
            emit(Record::Map {
                thread,
                start: from,
                len: to - from,
                prot,
                kind: MapKind::Mmap,
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "convert_tests.rs"]
mod tests;
