// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From what the plugin saw to records: system calls become changes of the address space, and the
//! ranges that QEMU mapped itself (image, interpreter, stack) become `Mmap` records at their
//! first use. Follows Linux's x86-64 calls; `brk` is rounded up to pages as the kernel does.

use super::places::Places;
use super::stream::{RawAccess, Syscall};
use crate::record::{MapKind, Prot, Record};
use crate::space::AddressSpace;

const MREMAP_FIXED: u64 = 2;
const MREMAP_DONTUNMAP: u64 = 4;
/// `MAP_FIXED` and `MAP_FIXED_NOREPLACE` (`asm-generic/mman-common.h`).
const FIXED: u64 = 0x10 | 0x10_0000;
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
    /// Where Linux would have placed mappings; `None` if they are where Linux placed them.
    places: Option<Places>,
    /// Accesses in no range known.
    pub(crate) unmapped_accesses: u64,
}

impl Converter {
    /// Of what an emulator placed: mappings are where Linux would have placed them.
    pub(crate) fn placing(page_size: u32) -> Self {
        Self {
            places: Some(Places::default()),
            ..Self::new(page_size)
        }
    }

    /// Of what Linux placed.
    pub(crate) fn new(page_size: u32) -> Self {
        Self {
            page_size: u64::from(page_size),
            known: AddressSpace::default(),
            candidates: AddressSpace::default(),
            heap_end: None,
            places: None,
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

    /// Hands `emit` the access, after any range it is the first to use. One across two mappings
    /// lies where its first byte does.
    pub(crate) fn access<E>(
        &mut self,
        thread: u16,
        mut raw: RawAccess,
        emit: &mut impl FnMut(Record) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Some(places) = &mut self.places {
            raw.vaddr = places.of(raw.vaddr);
        }
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
        let (kind, prot, parts) = match call.num {
            9 => {
                let parts = self.new_mapping(ret, a2, a4 & FIXED != 0);
                (MapKind::Mmap, Prot::from_bits(a3), parts)
            }
            10 | 329 => (MapKind::Mprotect, Prot::from_bits(a3), self.parts(a1, a2)),
            11 => (MapKind::Munmap, Prot::default(), self.unmapping(a1, a2)),
            12 => return self.brk(thread, ret, emit),
            25 => return self.mremap(thread, (a1, a2), (ret, a3), a4, emit),
            28 if DROPPING_ADVICE.contains(&a3) => {
                let parts = self.parts(a1, a2);
                for &(start, len) in &parts {
                    self.materialize(thread, start, start.saturating_add(len), emit)?;
                }
                let first = parts.first().and_then(|&(start, _)| self.known.find(start));
                let prot = first.map_or(Prot::default(), |range| range.2);
                (MapKind::Madvise, prot, parts)
            }
            _ => return Ok(()),
        };
        for (start, len) in parts {
            self.change(thread, start, len, prot, kind, emit)?;
        }
        Ok(())
    }

    /// A length in whole pages; 0 if there is none.
    fn round(&self, len: u64) -> u64 {
        len.checked_next_multiple_of(self.page_size).unwrap_or(0)
    }

    /// Where the parts of a range lie, as the range is rounded to whole pages.
    fn parts(&self, start: u64, len: u64) -> Vec<(u64, u64)> {
        let len = self.round(len);
        match &self.places {
            Some(places) => places.parts(start, len),
            None => vec![(start, len)],
        }
    }

    /// The same of a new mapping.
    fn new_mapping(&mut self, start: u64, len: u64, fixed: bool) -> Vec<(u64, u64)> {
        let len = self.round(len);
        match &mut self.places {
            Some(places) => places.map(start, len, fixed),
            None => vec![(start, len)],
        }
    }

    /// The same of a range that goes.
    fn unmapping(&mut self, start: u64, len: u64) -> Vec<(u64, u64)> {
        let len = self.round(len);
        match &mut self.places {
            Some(places) => places.unmap(start, len),
            None => vec![(start, len)],
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
        let (mut old, mut new) = ((old.0, self.round(old.1)), (new.0, self.round(new.1)));
        let (start, _) = self.parts(old.0, old.1).first().copied().unwrap_or(old);
        self.materialize(thread, start, start.saturating_add(old.1), emit)?;
        let prot = self
            .known
            .find(start)
            .map_or(Prot::from_bits(3), |range| range.2);
        let (keeps, fixed) = (flags & MREMAP_DONTUNMAP != 0, flags & MREMAP_FIXED != 0);
        let places = self.places.as_mut().filter(|_| !keeps && !fixed);
        let placed = places.and_then(|places| places.resize(old, new));
        if let Some((was, at)) = placed {
            (old.0, new.0) = (was, at);
        }
        let (gone, made) = if old.0 == new.0 {
            let both = old.1.min(new.1);
            let end = old.0.saturating_add(both);
            ((end, old.1 - both), (end, new.1 - both))
        } else {
            (if keeps { (old.0, 0) } else { old }, new)
        };
        let (gone, made) = match placed {
            Some(_) => (vec![gone], vec![made]),
            None => (
                self.unmapping(gone.0, gone.1),
                self.new_mapping(made.0, made.1, fixed || old.0 == new.0),
            ),
        };
        for (start, len) in gone {
            self.change(thread, start, len, Prot::default(), MapKind::Munmap, emit)?;
        }
        for (start, len) in made {
            self.change(thread, start, len, prot, MapKind::Mmap, emit)?;
        }
        Ok(())
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
