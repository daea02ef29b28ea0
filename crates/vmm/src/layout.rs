// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where everything lies in the guest's address spaces.
//!
//! One unbroken block of memory from address 0 to at most 3 GiB, so that no hole is needed below the
//! interrupt controllers and the virtio windows. The first MiB follows the PC's habits, because the
//! guest kernel looks for the MP table there.

/// The highest guest physical address that memory may reach (exclusive).
pub const MEMORY_LIMIT: u64 = 3 << 30;
/// The least memory a guest may have: the kernel is decompressed at 16 MiB and needs room above it.
pub const MEMORY_MIN_MIB: u64 = 64;

/// Global descriptor table of the boot processor.
pub const GDT: u64 = 0x500;
/// The zero page: `struct boot_params`.
pub const ZERO_PAGE: u64 = 0x7000;
/// Root of the boot page tables; a directory-pointer page and four directories follow it.
pub const PAGE_TABLES: u64 = 0x9000;
/// The kernel command line.
pub const CMDLINE: u64 = 0x2_0000;
/// The longest command line, with its terminating zero (`COMMAND_LINE_SIZE` of Linux on x86).
pub const CMDLINE_SIZE: usize = 2048;
/// End of conventional memory: where a BIOS would keep its extended data area.
pub const LOW_MEMORY_END: u64 = 0x9_fc00;
/// The MP floating pointer and table, in the BIOS area that every kernel scans.
pub const MP_TABLE: u64 = 0xf_0000;
/// Start of high memory, where the kernel's protected-mode part is loaded.
pub const HIGH_MEMORY: u64 = 0x10_0000;

/// First virtio-mmio window.
pub const VIRTIO_BASE: u64 = 0xd000_0000;
/// Size of one virtio-mmio window.
pub const VIRTIO_SIZE: u64 = 0x1000;
/// Interrupt lines for the virtio devices: those of the 16 ISA lines that nothing else uses
/// (0 timer, 1 keyboard, 2 cascade, 3 and 4 serial ports, 8 clock, 13 coprocessor).
pub const VIRTIO_IRQS: [u32; 8] = [5, 6, 7, 9, 10, 11, 12, 14];

/// Task-state segment that KVM needs on Intel hosts, below the BIOS at the end of 4 GiB.
pub const KVM_TSS: usize = 0xfffb_d000;
/// Identity-map page that KVM needs on Intel hosts.
pub const KVM_IDENTITY_MAP: u64 = 0xfffb_c000;

/// First serial port (ttyS0): the console.
pub const COM1: u16 = 0x3f8;
/// Interrupt line of the first serial port.
pub const COM1_IRQ: u32 = 4;
/// Second serial port (ttyS1): the channel.
pub const COM2: u16 = 0x2f8;
/// Interrupt line of the second serial port.
pub const COM2_IRQ: u32 = 3;
/// Number of registers of a serial port.
pub const COM_SIZE: u16 = 8;
/// Command and status register of the keyboard controller.
pub const I8042_COMMAND: u16 = 0x64;
/// Index register of the (absent) battery-backed clock; its data register follows.
pub const CMOS_INDEX: u16 = 0x70;
/// The port that a guest writes [`STOP_BYTE`] to when it has finished.
pub const STOP_PORT: u16 = 0x604;
/// What a finished guest writes to [`STOP_PORT`].
pub const STOP_BYTE: u8 = 0x34;
