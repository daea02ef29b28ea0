// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a trace says: one record per memory access, mapping change or marker, in the order in
//! which the recorder saw them. Records of one thread are in program order; the order between
//! threads is that of the capture and holds exactly only around mapping changes.

/// Most instructions between two accesses of one thread, 2^31. More would be seconds of a loop
/// that keeps to its registers, without one load, store, call or return; what a recorder writes
/// that miscounts, an unsigned difference that ran below zero, lies above.
pub const MAX_INSTRUCTIONS: u32 = 1 << 31;

/// One event of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record {
    /// A data access. Instruction fetches are not recorded.
    Access {
        /// Thread that made the access, counted from 0.
        thread: u16,
        /// Virtual address of the first byte.
        vaddr: u64,
        /// Bytes touched, 1 to 255. An access may cross a page boundary.
        size: u8,
        /// True for a store, false for a load. An atomic read-modify-write gives one of each.
        write: bool,
        /// Instructions this thread retired since its previous access, this one's included: 0
        /// for the second access of one instruction, at most [`MAX_INSTRUCTIONS`].
        instructions: u32,
    },
    /// A change of the address space, recorded once the kernel has made it.
    Map {
        /// Thread that asked for the change.
        thread: u16,
        /// First byte of the range.
        start: u64,
        /// Bytes in the range, at least 1; `start + len` does not exceed 2^64 - 1.
        len: u64,
        /// Rights after the change; none after `Munmap` and a shrinking `Brk`.
        prot: Prot,
        /// Which change.
        kind: MapKind,
    },
    /// A place the program or the recorder named.
    Marker {
        /// Thread that reached it.
        thread: u16,
        /// The name, a number. See `docs/formats/memtrace.md` for the reserved ones.
        id: u32,
    },
}

impl Record {
    /// The thread that made the record.
    #[must_use]
    pub fn thread(&self) -> u16 {
        match *self {
            Self::Access { thread, .. }
            | Self::Map { thread, .. }
            | Self::Marker { thread, .. } => thread,
        }
    }
}

/// Access rights of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Prot {
    /// Loads allowed.
    pub read: bool,
    /// Stores allowed.
    pub write: bool,
    /// Instruction fetches allowed.
    pub exec: bool,
}

impl Prot {
    /// From the bits of `mmap(2)`: `PROT_READ` 1, `PROT_WRITE` 2, `PROT_EXEC` 4. Others are ignored.
    #[must_use]
    pub fn from_bits(bits: u64) -> Self {
        Self {
            read: bits & 1 != 0,
            write: bits & 2 != 0,
            exec: bits & 4 != 0,
        }
    }

    /// The same three bits, 0 to 7.
    #[must_use]
    pub fn bits(self) -> u8 {
        u8::from(self.read) | u8::from(self.write) << 1 | u8::from(self.exec) << 2
    }
}

/// Kinds of change of the address space, by the system call that makes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapKind {
    /// A range became mapped: `mmap`, the new place of an `mremap`, or a part of the program's
    /// image or stack at its first use.
    Mmap,
    /// A range is gone: `munmap`, or the old place of an `mremap`.
    Munmap,
    /// Rights changed.
    Mprotect,
    /// Pages were given back but the range stays mapped (`MADV_DONTNEED`, `MADV_FREE`,
    /// `MADV_REMOVE`); other advice is not recorded.
    Madvise,
    /// The heap's end moved over this range: up with rights, down with none.
    Brk,
}

impl MapKind {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Mmap => 0,
            Self::Munmap => 1,
            Self::Mprotect => 2,
            Self::Madvise => 3,
            Self::Brk => 4,
        }
    }

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::Mmap,
            1 => Self::Munmap,
            2 => Self::Mprotect,
            3 => Self::Madvise,
            4 => Self::Brk,
            _ => return None,
        })
    }
}
