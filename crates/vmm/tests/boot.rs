// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is put into guest memory, and the state of the boot processor, by the boot protocol.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use std::path::{Path, PathBuf};

use kvm_bindings::kvm_sregs;
use steady_vmm::boot::{Payload, command_line, load};
use steady_vmm::layout::{CMDLINE, ZERO_PAGE};
use steady_vmm::start_state;
use tempfile::TempDir;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

/// A bzImage with an empty kernel: setup header fields of `Documentation/arch/x86/boot.rst`.
fn bzimage(xloadflags: u16, init_size: u32) -> Vec<u8> {
    let mut image = vec![0; 2 * 512 + 4096];
    let mut put = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
    put(0x1f1, &[1]); // setup_sects
    put(0x1fe, &0xaa55u16.to_le_bytes());
    put(0x202, b"HdrS");
    put(0x206, &0x20fu16.to_le_bytes()); // version
    put(0x211, &[1]); // loadflags: loaded high
    put(0x214, &0x10_0000u32.to_le_bytes()); // code32_start
    put(0x22c, &0x7fff_ffffu32.to_le_bytes()); // initrd_addr_max
    put(0x236, &xloadflags.to_le_bytes());
    put(0x258, &0x100_0000u64.to_le_bytes()); // pref_address
    put(0x260, &init_size.to_le_bytes());
    image[1024..].fill(0xcc);
    image
}

struct Files {
    _folder: TempDir,
    kernel: PathBuf,
    initrd: PathBuf,
}

fn files(kernel: &[u8], initrd: &[u8]) -> Files {
    let folder = TempDir::new().unwrap();
    let path = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    Files {
        kernel: path("kernel", kernel),
        initrd: path("initrd", initrd),
        _folder: folder,
    }
}

fn boot(kernel: &Path, initrd: &Path, mib: usize) -> (GuestMemoryMmap, anyhow::Result<u64>) {
    let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), mib << 20)]).unwrap();
    let result = load(
        &memory,
        &Payload {
            kernel,
            initrd,
            cmdline: "quiet",
            disks: 1,
        },
    );
    (memory, result)
}

fn word(memory: &GuestMemoryMmap, at: u64) -> u64 {
    u64::from(memory.read_obj::<u32>(GuestAddress(at)).unwrap())
}

#[test]
fn the_zero_page_leads_to_initrd_and_command_line() {
    let files = files(&bzimage(1, 0x80_0000), b"an initial RAM disk");
    let (memory, entry) = boot(&files.kernel, &files.initrd, 64);
    assert_eq!(entry.unwrap(), 0x10_0200);
    assert_eq!(
        memory.read_obj::<u8>(GuestAddress(0x10_0000)).unwrap(),
        0xcc
    );
    let initrd = word(&memory, ZERO_PAGE + 0x218);
    assert_eq!((initrd % 4096, word(&memory, ZERO_PAGE + 0x21c)), (0, 19));
    let mut text = [0; 19];
    memory.read_slice(&mut text, GuestAddress(initrd)).unwrap();
    assert_eq!(&text, b"an initial RAM disk");
    assert_eq!(word(&memory, ZERO_PAGE + 0x228), CMDLINE);
    let mut line = [0; 41];
    memory.read_slice(&mut line, GuestAddress(CMDLINE)).unwrap();
    assert_eq!(&line, b"quiet virtio_mmio.device=4K@0xd0000000:5\0");
}

#[test]
fn the_memory_map_covers_all_but_the_bios_area() {
    let files = files(&bzimage(1, 0x80_0000), b"x");
    let (memory, entry) = boot(&files.kernel, &files.initrd, 64);
    entry.unwrap();
    assert_eq!(
        memory
            .read_obj::<u8>(GuestAddress(ZERO_PAGE + 0x1e8))
            .unwrap(),
        3
    );
    let map: Vec<(u64, u64, u64)> = (0..3)
        .map(|n| ZERO_PAGE + 0x2d0 + 20 * n)
        .map(|at| {
            (
                word(&memory, at),
                word(&memory, at + 8),
                word(&memory, at + 16),
            )
        })
        .collect();
    assert_eq!(
        map,
        [
            (0, 0x9_fc00, 1),
            (0xf_0000, 0x1_0000, 2),
            (0x10_0000, 0x3f0_0000, 1)
        ]
    );
}

#[test]
fn an_initrd_that_would_overlap_the_kernel_is_refused() {
    let files = files(&bzimage(1, 0x2ff_f000), &[0; 8192]);
    let error = boot(&files.kernel, &files.initrd, 64)
        .1
        .unwrap_err()
        .to_string();
    assert!(error.contains("give the guest more memory"), "{error}");
}

#[test]
fn a_kernel_without_a_64_bit_entry_is_refused() {
    let files = files(&bzimage(0, 0x80_0000), b"x");
    let error = boot(&files.kernel, &files.initrd, 64)
        .1
        .unwrap_err()
        .to_string();
    assert!(error.contains("no 64-bit entry point"), "{error}");
}

#[test]
fn what_is_no_kernel_is_refused() {
    for content in [&b""[..], b"hello", &[0; 5000]] {
        let files = files(content, b"x");
        let error = boot(&files.kernel, &files.initrd, 64)
            .1
            .unwrap_err()
            .to_string();
        assert!(error.contains("a bzImage is expected"), "{error}");
    }
}

#[test]
fn each_disk_has_its_own_window_and_interrupt_on_the_command_line() {
    let line = command_line("quiet", 3).unwrap().as_cstring().unwrap();
    let expected = "quiet virtio_mmio.device=4K@0xd0000000:5 \
                    virtio_mmio.device=4K@0xd0001000:6 virtio_mmio.device=4K@0xd0002000:7";
    assert_eq!(line.to_str().unwrap(), expected);
}

#[test]
fn a_command_line_that_is_too_long_is_refused() {
    assert!(command_line(&"x".repeat(2047), 0).is_ok());
    let error = command_line(&"x".repeat(2048), 0).unwrap_err().to_string();
    assert!(error.contains("2047"), "{error}");
    assert!(command_line(&"x".repeat(2040), 1).is_err());
}

#[test]
fn the_page_tables_map_every_address_below_4_gib_to_itself() {
    let tables = start_state::page_tables();
    let base = steady_vmm::layout::PAGE_TABLES;
    let entry = |table: u64, index: u64| {
        let at = usize::try_from(table - base + 8 * index).unwrap();
        u64::from_le_bytes(tables[at..at + 8].try_into().unwrap())
    };
    for address in [
        0,
        0x7000,
        0x10_0200,
        0x100_0000,
        0xbfff_ffff,
        0xffff_ffff_u64,
    ] {
        let mut table = base;
        for shift in [39, 30] {
            let found = entry(table, (address >> shift) & 511);
            assert_eq!(found & 0x83, 3, "present, writable, a table");
            table = found & !0xfff;
        }
        let page = entry(table, (address >> 21) & 511);
        assert_eq!(page & 0x83, 0x83, "present, writable, 2 MiB");
        assert_eq!((page & !0x1f_ffff) | (address & 0x1f_ffff), address);
    }
}

#[test]
fn the_boot_processor_starts_in_long_mode_with_the_protocols_selectors() {
    let mut sregs = kvm_sregs::default();
    start_state::enter_long_mode(&mut sregs);
    assert_eq!((sregs.cs.selector, sregs.ds.selector), (0x10, 0x18));
    assert_eq!((sregs.cs.l, sregs.cs.db), (1, 0));
    assert_eq!(sregs.efer & 0x500, 0x500);
    assert_eq!(sregs.cr0 & 0x8000_0001, 0x8000_0001);
    assert_eq!(sregs.cr4 & 0x20, 0x20);
    assert_eq!(start_state::registers(0x10_0200).rsi, ZERO_PAGE);
    // The descriptors that the selectors name say the same as the registers.
    let gdt = start_state::gdt();
    let code = u64::from_le_bytes(gdt[0x10..0x18].try_into().unwrap());
    assert_eq!(
        (code >> 40) & 0xff,
        0x9b,
        "present, code, executable and readable"
    );
    assert_eq!((code >> 53) & 1, 1, "64-bit");
}
