// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The MP table: how a guest without ACPI finds its processors and interrupt lines.
//!
//! Follows the Intel MultiProcessor Specification, version 1.4: a floating pointer structure
//! (section 4.1), a configuration table header (4.2), then processors, one ISA bus, one I/O APIC,
//! the 16 ISA lines and the two local lines (4.3). Line n of the bus goes to pin n of the I/O APIC,
//! as KVM's default routing has it; line 2, the cascade, is left out.

use thiserror::Error;

/// The most vCPUs an MP table can name: its APIC ids have 8 bits, 255 is the broadcast address and
/// the I/O APIC takes one more.
pub const CPUS_MAX: u32 = 254;

const APIC_ADDRESS: u32 = 0xfee0_0000;
const IO_APIC_ADDRESS: u32 = 0xfec0_0000;
const APIC_VERSION: u8 = 0x14;
const IO_APIC_VERSION: u8 = 0x11;
const POINTER_SIZE: u32 = 16;
const HEADER_SIZE: usize = 44;
const ISA_LINES: u8 = 16;
const CASCADE_LINE: u8 = 2;
const ALL_LOCAL_APICS: u8 = 0xff;

const ENTRY_PROCESSOR: u8 = 0;
const ENTRY_BUS: u8 = 1;
const ENTRY_IO_APIC: u8 = 2;
const ENTRY_IO_INTERRUPT: u8 = 3;
const ENTRY_LOCAL_INTERRUPT: u8 = 4;
const INTERRUPT_VECTORED: u8 = 0;
const INTERRUPT_NMI: u8 = 1;
const INTERRUPT_EXTERNAL: u8 = 3;

/// Why no MP table was made.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum Error {
    /// More processors than 8-bit APIC ids can name.
    #[error(
        "{0} vCPUs: the guest finds its processors in an MP table, whose 8-bit APIC ids name at \
         most {CPUS_MAX} (255 is the broadcast address, one id is the I/O APIC's); give 1 to \
         {CPUS_MAX}"
    )]
    TooManyCpus(u32),
}

/// The identity that each processor entry repeats from CPUID leaf 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Processor {
    /// Family, model and stepping (EAX).
    pub signature: u32,
    /// Feature flags (EDX).
    pub features: u32,
}

/// Makes the floating pointer structure and the table behind it, to be placed at `address`
/// (a multiple of 16), for processors with APIC ids 0 to `cpus` - 1.
///
/// # Errors
/// [`Error::TooManyCpus`] when `cpus` exceeds [`CPUS_MAX`].
pub fn build(address: u32, cpus: u32, processor: Processor) -> Result<Vec<u8>, Error> {
    assert!(cpus > 0 && address.is_multiple_of(16));
    let last = u8::try_from(cpus - 1).map_err(|_| Error::TooManyCpus(cpus))?;
    if cpus > CPUS_MAX {
        return Err(Error::TooManyCpus(cpus));
    }
    let io_apic_id = last + 1;
    let mut entries: Vec<Vec<u8>> = (0..=last)
        .map(|id| processor_entry(id, processor))
        .collect();
    entries.push([&[ENTRY_BUS, 0][..], b"ISA   "].concat());
    let mut io_apic = vec![ENTRY_IO_APIC, io_apic_id, IO_APIC_VERSION, 1];
    io_apic.extend(IO_APIC_ADDRESS.to_le_bytes());
    entries.push(io_apic);
    for line in (0..ISA_LINES).filter(|&line| line != CASCADE_LINE) {
        // Polarity and trigger 0: as the bus has it, which for ISA is active high and edge.
        entries.push(vec![
            ENTRY_IO_INTERRUPT,
            INTERRUPT_VECTORED,
            0,
            0,
            0,
            line,
            io_apic_id,
            line,
        ]);
    }
    entries.push(vec![
        ENTRY_LOCAL_INTERRUPT,
        INTERRUPT_EXTERNAL,
        0,
        0,
        0,
        0,
        ALL_LOCAL_APICS,
        0,
    ]);
    entries.push(vec![
        ENTRY_LOCAL_INTERRUPT,
        INTERRUPT_NMI,
        0,
        0,
        0,
        0,
        ALL_LOCAL_APICS,
        1,
    ]);

    let mut bytes = floating_pointer(address + POINTER_SIZE);
    bytes.extend(table(&entries));
    Ok(bytes)
}

fn processor_entry(id: u8, processor: Processor) -> Vec<u8> {
    const ENABLED: u8 = 1;
    const BOOT_PROCESSOR: u8 = 2;
    let flags = if id == 0 {
        ENABLED | BOOT_PROCESSOR
    } else {
        ENABLED
    };
    let mut entry = vec![ENTRY_PROCESSOR, id, APIC_VERSION, flags];
    entry.extend((processor.signature & 0xfff).to_le_bytes());
    entry.extend(processor.features.to_le_bytes());
    entry.extend([0; 8]);
    entry
}

fn floating_pointer(table: u32) -> Vec<u8> {
    let mut bytes = b"_MP_".to_vec();
    bytes.extend(table.to_le_bytes());
    // One paragraph long, specification 1.4, checksum, no default configuration, virtual-wire mode.
    bytes.extend([1, 4, 0, 0, 0, 0, 0, 0]);
    bytes[10] = checksum(&bytes);
    bytes
}

fn table(entries: &[Vec<u8>]) -> Vec<u8> {
    let count = u16::try_from(entries.len()).expect("at most 254 processors and 19 others");
    let length = HEADER_SIZE + entries.iter().map(Vec::len).sum::<usize>();
    let length = u16::try_from(length).expect("at most 254 * 20 + 204 bytes");
    let mut bytes = b"PCMP".to_vec();
    bytes.extend(length.to_le_bytes());
    bytes.extend([4, 0]);
    bytes.extend(b"STEADY  LAB GUEST   ");
    bytes.extend([0; 6]);
    bytes.extend(count.to_le_bytes());
    bytes.extend(APIC_ADDRESS.to_le_bytes());
    bytes.extend([0; 4]);
    assert_eq!(bytes.len(), HEADER_SIZE);
    bytes.extend(entries.concat());
    bytes[7] = checksum(&bytes);
    bytes
}

/// The byte that makes all of `bytes` add up to zero.
fn checksum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0u8, |sum, byte| sum.wrapping_sub(*byte))
}
