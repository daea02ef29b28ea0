// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state in which the boot processor enters the kernel: long mode, identity-mapped.
//!
//! `Documentation/arch/x86/boot.rst`, "64-bit boot protocol": paging on, code selector 0x10, data
//! selector 0x18, both flat, interrupts off, RSI at the zero page. The other processors stay in
//! their reset state until the kernel starts them.

use kvm_bindings::{kvm_regs, kvm_segment, kvm_sregs};

use crate::layout::{GDT, PAGE_TABLES, ZERO_PAGE};

const CODE_SELECTOR: u16 = 0x10;
const DATA_SELECTOR: u16 = 0x18;
const TASK_SELECTOR: u16 = 0x20;
/// Descriptors as the processor reads them: null, unused, flat 64-bit code, flat data, a busy task.
const GDT_ENTRIES: [u64; 5] = [
    0,
    0,
    0x00af_9b00_0000_ffff,
    0x00cf_9300_0000_ffff,
    0x008f_8b00_0000_ffff,
];
const CODE_TYPE: u8 = 0xb;
const DATA_TYPE: u8 = 0x3;
const BUSY_TASK_TYPE: u8 = 0xb;

const CR0_PROTECTED: u64 = 1;
const CR0_PAGING: u64 = 1 << 31;
const CR4_PAE: u64 = 1 << 5;
const EFER_LONG_MODE: u64 = (1 << 8) | (1 << 10);
const RFLAGS_RESERVED: u64 = 2;

const PAGE: u64 = 4096;
const PRESENT_WRITABLE: u64 = 0x3;
const LARGE: u64 = 0x80;
const LARGE_PAGE: u64 = 2 << 20;
const DIRECTORIES: u64 = 4;

/// The descriptor table, to be placed at [`GDT`].
#[must_use]
pub fn gdt() -> Vec<u8> {
    GDT_ENTRIES
        .iter()
        .flat_map(|entry| entry.to_le_bytes())
        .collect()
}

/// Page tables that map the first 4 GiB to themselves with 2 MiB pages, to be placed at
/// [`PAGE_TABLES`]: the root, the pointer page, four directories.
#[must_use]
pub fn page_tables() -> Vec<u8> {
    let page_of = |mut entries: Vec<u64>| {
        entries.resize(512, 0);
        entries
    };
    let pointers = PAGE_TABLES + PAGE;
    let directories = pointers + PAGE;
    let mut tables = page_of(vec![pointers | PRESENT_WRITABLE]);
    tables.extend(page_of(
        (0..DIRECTORIES)
            .map(|n| (directories + n * PAGE) | PRESENT_WRITABLE)
            .collect(),
    ));
    tables.extend((0..DIRECTORIES * 512).map(|n| (n * LARGE_PAGE) | LARGE | PRESENT_WRITABLE));
    tables
        .iter()
        .flat_map(|entry| entry.to_le_bytes())
        .collect()
}

/// General registers at the entry.
#[must_use]
pub fn registers(entry: u64) -> kvm_regs {
    kvm_regs {
        rip: entry,
        rsi: ZERO_PAGE,
        rflags: RFLAGS_RESERVED,
        ..Default::default()
    }
}

/// Changes the reset state in `sregs` to long mode with flat segments.
pub fn enter_long_mode(sregs: &mut kvm_sregs) {
    let data = flat(DATA_SELECTOR, DATA_TYPE, false);
    sregs.cs = flat(CODE_SELECTOR, CODE_TYPE, true);
    (sregs.ds, sregs.es, sregs.fs, sregs.gs, sregs.ss) = (data, data, data, data, data);
    sregs.tr = kvm_segment {
        s: 0,
        db: 0,
        ..flat(TASK_SELECTOR, BUSY_TASK_TYPE, false)
    };
    sregs.gdt.base = GDT;
    sregs.gdt.limit = u16::try_from(GDT_ENTRIES.len() * 8 - 1).expect("a short table");
    sregs.idt.base = 0;
    sregs.idt.limit = 0;
    sregs.cr0 |= CR0_PROTECTED | CR0_PAGING;
    sregs.cr3 = PAGE_TABLES;
    sregs.cr4 |= CR4_PAE;
    sregs.efer |= EFER_LONG_MODE;
}

fn flat(selector: u16, type_: u8, code: bool) -> kvm_segment {
    kvm_segment {
        base: 0,
        limit: u32::MAX,
        selector,
        type_,
        present: 1,
        dpl: 0,
        db: u8::from(!code),
        s: 1,
        l: u8::from(code),
        g: 1,
        ..Default::default()
    }
}
