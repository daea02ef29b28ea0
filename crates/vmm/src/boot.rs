// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Puts a Linux kernel into guest memory and the boot processor at its 64-bit entry.
//!
//! Follows `Documentation/arch/x86/boot.rst` of Linux 6.12: a bzImage with the 64-bit entry point,
//! the zero page with a memory map, command line and initrd, identity-mapped page tables, and the
//! segments that the protocol asks for. There is no firmware and no real-mode code.

use std::fs::File;
use std::io;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use linux_loader::cmdline::Cmdline;
use linux_loader::configurator::linux::LinuxBootConfigurator;
use linux_loader::configurator::{BootConfigurator, BootParams};
use linux_loader::loader::bootparam::{XLF_KERNEL_64, boot_e820_entry, boot_params, setup_header};
use linux_loader::loader::{BzImage, KernelLoader, load_cmdline};
use vm_memory::{Address, Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

use crate::layout::{
    CMDLINE, CMDLINE_SIZE, HIGH_MEMORY, LOW_MEMORY_END, MP_TABLE, VIRTIO_BASE, VIRTIO_IRQS,
    VIRTIO_SIZE, ZERO_PAGE,
};

/// The 64-bit entry point lies this far behind the start of the protected-mode part.
const ENTRY_64: u64 = 0x200;
const LOADER_UNDEFINED: u8 = 0xff;
const E820_RAM: u32 = 1;
const E820_RESERVED: u32 = 2;
const PAGE: u64 = 4096;

/// What to boot.
#[derive(Debug)]
pub struct Payload<'a> {
    /// The kernel, a bzImage.
    pub kernel: &'a Path,
    /// The initial RAM disk.
    pub initrd: &'a Path,
    /// The command line, to which the disks are added.
    pub cmdline: &'a str,
    /// Number of virtio disks.
    pub disks: usize,
}

/// Loads everything into `memory` and returns the address to start at.
///
/// # Errors
/// When a file cannot be read, is not a bzImage with a 64-bit entry, or does not fit.
pub fn load(memory: &GuestMemoryMmap, payload: &Payload<'_>) -> Result<u64> {
    let size = memory.last_addr().raw_value() + 1;
    let (entry, mut header) = load_kernel(memory, payload.kernel)?;
    let kernel_end = header.pref_address + u64::from(header.init_size);
    let (initrd, initrd_size) = load_initrd(
        memory,
        payload.initrd,
        size,
        kernel_end,
        header.initrd_addr_max,
    )?;
    header.type_of_loader = LOADER_UNDEFINED;
    header.ramdisk_image = initrd;
    header.ramdisk_size = initrd_size;
    header.cmd_line_ptr = u32::try_from(CMDLINE).expect("below 1 MiB");
    load_command_line(memory, payload)?;
    let params = zero_page(header, size);
    LinuxBootConfigurator::write_bootparams(
        &BootParams::new(&params, GuestAddress(ZERO_PAGE)),
        memory,
    )
    .context("cannot write the zero page")?;
    Ok(entry)
}

fn load_kernel(memory: &GuestMemoryMmap, path: &Path) -> Result<(u64, setup_header)> {
    let shown = path.display();
    let mut file = File::open(path).with_context(|| format!("cannot open the kernel {shown}"))?;
    let high = Some(GuestAddress(HIGH_MEMORY));
    let loaded = BzImage::load(memory, None, &mut file, high)
        .with_context(|| format!("cannot load the kernel {shown}; a bzImage is expected"))?;
    let header = loaded
        .setup_header
        .context("the kernel has no setup header")?;
    let flags = header.xloadflags;
    ensure!(
        header.version >= 0x20c && flags & XLF_KERNEL_64 != 0,
        "the kernel {shown} has no 64-bit entry point; build it with CONFIG_64BIT"
    );
    Ok((loaded.kernel_load.raw_value() + ENTRY_64, header))
}

/// Puts the initrd as high as the kernel accepts; returns its address and size.
fn load_initrd(
    memory: &GuestMemoryMmap,
    path: &Path,
    memory_size: u64,
    kernel_end: u64,
    address_max: u32,
) -> Result<(u32, u32)> {
    let shown = path.display();
    let mut file = File::open(path).with_context(|| format!("cannot open the initrd {shown}"))?;
    let size = file
        .metadata()
        .with_context(|| format!("cannot examine {shown}"))?
        .len();
    let top = memory_size.min(u64::from(address_max) + 1);
    let address = top.checked_sub(size).map(|start| start / PAGE * PAGE);
    let Some(address) = address.filter(|start| *start >= kernel_end) else {
        bail!(
            "the initrd {shown} ({size} bytes) does not fit between the kernel, which needs the \
             first {kernel_end} bytes, and {top}; give the guest more memory"
        );
    };
    let count = usize::try_from(size).context("the initrd is too large")?;
    memory
        .read_exact_volatile_from(GuestAddress(address), &mut file, count)
        .with_context(|| format!("cannot read the initrd {shown}"))?;
    Ok((u32::try_from(address)?, u32::try_from(size)?))
}

fn load_command_line(memory: &GuestMemoryMmap, payload: &Payload<'_>) -> Result<()> {
    let line = command_line(payload.cmdline, payload.disks)?;
    load_cmdline(memory, GuestAddress(CMDLINE), &line).context("cannot write the command line")
}

/// The user's words and one `virtio_mmio.device=` for each disk.
///
/// # Errors
/// When the whole exceeds [`CMDLINE_SIZE`] or has characters that the kernel does not take.
pub fn command_line(words: &str, disks: usize) -> Result<Cmdline> {
    assert!(disks <= VIRTIO_IRQS.len());
    let build = || -> Result<Cmdline, linux_loader::cmdline::Error> {
        let mut line = Cmdline::new(CMDLINE_SIZE)?;
        if !words.trim().is_empty() {
            line.insert_str(words.trim())?;
        }
        let mut address = VIRTIO_BASE;
        for irq in &VIRTIO_IRQS[..disks] {
            line.add_virtio_mmio_device(VIRTIO_SIZE, GuestAddress(address), *irq, None)?;
            address += VIRTIO_SIZE;
        }
        Ok(line)
    };
    build().with_context(|| {
        format!(
            "cannot use the kernel command line; with {disks} disks it may have {} printable ASCII \
             characters in all",
            CMDLINE_SIZE - 1
        )
    })
}

/// The zero page with the kernel's own header and a memory map.
fn zero_page(header: setup_header, memory_size: u64) -> boot_params {
    assert!(memory_size > HIGH_MEMORY);
    let mut params = boot_params {
        hdr: header,
        ..boot_params::default()
    };
    let map = [
        (0, LOW_MEMORY_END, E820_RAM),
        (MP_TABLE, HIGH_MEMORY, E820_RESERVED),
        (HIGH_MEMORY, memory_size, E820_RAM),
    ];
    for (slot, (start, end, kind)) in params.e820_table.iter_mut().zip(map) {
        *slot = boot_e820_entry {
            addr: start,
            size: end - start,
            r#type: kind,
        };
        params.e820_entries += 1;
    }
    params
}

/// Writes `bytes` at `address`, for tables that the guest reads.
///
/// # Errors
/// When they do not lie in memory.
pub fn write(memory: &GuestMemoryMmap, address: u64, bytes: &[u8]) -> Result<()> {
    memory
        .write_slice(bytes, GuestAddress(address))
        .map_err(io::Error::other)
        .with_context(|| format!("cannot write {} bytes at {address:#x}", bytes.len()))
}
