// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where things are in the machine's physical memory, and how translations are named.
//!
//! Page tables, the ATLBs and the inverse table lie in DRAM below the frames for data; NVM lies
//! above all DRAM. 2 MiB frames come from regions of their own, so they are always aligned.

/// Bytes of a cache line, as a shift.
pub const LINE_SHIFT: u32 = 6;
/// Bytes of a small page, as a shift.
pub const PAGE_SHIFT: u32 = 12;
/// Small pages in a large page, as a shift.
pub const LARGE_SHIFT: u32 = 9;

/// First frame for page tables.
pub const TABLE_FRAMES: u64 = 0x1_0000;
/// Address of the ATLB for 4 KiB pages (`BASE_ADDR_ATLB` of Equation 1).
pub const ATLB_BASE: u64 = 0x40_0000_0000;
/// Address of the ATLB for 2 MiB pages.
pub const LARGE_ATLB_BASE: u64 = 0x50_0000_0000;
/// Address of the inverse table.
pub const INVTBL_BASE: u64 = 0x60_0000_0000;
/// First DRAM frame for 4 KiB pages of data.
pub const DRAM_FRAMES: u64 = 0x1000_0000;
/// First DRAM frame for 2 MiB pages of data.
pub const DRAM_LARGE_FRAMES: u64 = 0x1800_0000;
/// First NVM frame for 4 KiB pages; all frames from here on are NVM.
pub const NVM_FRAMES: u64 = 0x2000_0000;
/// First NVM frame for 2 MiB pages.
pub const NVM_LARGE_FRAMES: u64 = 0x2800_0000;

/// The first line of NVM.
pub const NVM_LINE: u64 = NVM_FRAMES << (PAGE_SHIFT - LINE_SHIFT);

/// Names one translation: address space (VM), page number and page size. Never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(u64);

impl Key {
    const VALID: u64 = 1 << 63;
    const LARGE: u64 = 1 << 62;
    const VM_SHIFT: u32 = 40;
    const PAGE_MASK: u64 = (1 << 40) - 1;

    /// The 4 KiB page `vpn` of VM `vm`.
    #[inline]
    #[must_use]
    pub const fn small(vm: u16, vpn: u64) -> Self {
        Self(Self::VALID | ((vm as u64) << Self::VM_SHIFT) | vpn)
    }

    /// The 2 MiB page `number` (address >> 21) of VM `vm`.
    #[inline]
    #[must_use]
    pub const fn large(vm: u16, number: u64) -> Self {
        Self(Self::VALID | Self::LARGE | ((vm as u64) << Self::VM_SHIFT) | number)
    }

    /// The key as the tables store it.
    #[inline]
    #[must_use]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// The key a table stored; `raw` came from [`Key::raw`].
    #[inline]
    #[must_use]
    pub const fn from_raw(raw: u64) -> Self {
        debug_assert!(raw & Self::VALID != 0, "an empty slot is not a translation");
        Self(raw)
    }

    /// The VM, from 0.
    #[inline]
    #[must_use]
    pub const fn vm(self) -> u16 {
        crate::num::low16((self.0 >> Self::VM_SHIFT) & 0xFFFF)
    }

    /// The page number, in units of the page's own size.
    #[inline]
    #[must_use]
    pub const fn page(self) -> u64 {
        self.0 & Self::PAGE_MASK
    }

    /// A 2 MiB page.
    #[inline]
    #[must_use]
    pub const fn is_large(self) -> bool {
        self.0 & Self::LARGE != 0
    }

    /// The number of the page's first 4 KiB page.
    #[inline]
    #[must_use]
    pub const fn first_vpn(self) -> u64 {
        if self.is_large() {
            self.page() << LARGE_SHIFT
        } else {
            self.page()
        }
    }

    /// 4 KiB pages in the page: 1 or 512.
    #[must_use]
    pub const fn small_pages(self) -> u64 {
        if self.is_large() { 1 << LARGE_SHIFT } else { 1 }
    }

    /// `VM_ID` as the hardware sees it: the guests are 1, 2, ...; 0 is the host's.
    #[inline]
    #[must_use]
    pub const fn vm_id(self) -> u64 {
        self.vm() as u64 + 1
    }
}

/// The line of address `vaddr` in the page `key` whose first frame is `spn`.
#[inline]
#[must_use]
pub const fn data_line(key: Key, spn: u64, vaddr: u64) -> u64 {
    let frame = spn + ((vaddr >> PAGE_SHIFT) & (key.small_pages() - 1));
    (frame << (PAGE_SHIFT - LINE_SHIFT)) | ((vaddr >> LINE_SHIFT) & 63)
}

/// A fast, fixed hash for tables keyed by the numbers above. No table of it is ever iterated.
#[derive(Debug, Clone, Copy, Default)]
pub struct PageHasher(u64);

impl std::hash::Hasher for PageHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }
    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0.rotate_left(23) ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

/// A map from page numbers or keys.
pub type PageMap<V> = std::collections::HashMap<u64, V, std::hash::BuildHasherDefault<PageHasher>>;
