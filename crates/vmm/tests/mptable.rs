// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The MP table, read back by a parser written from the specification (version 1.4, chapter 4).

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use steady_vmm::mptable::{CPUS_MAX, Error, Processor, build};

const ADDRESS: u32 = 0xf_0000;
const PROCESSOR: Processor = Processor {
    signature: 0x0083_0f10,
    features: 0x178b_fbff,
};

/// What a kernel finds.
#[derive(Debug, Default)]
struct Found {
    apic_ids: Vec<u8>,
    boot_processors: Vec<u8>,
    features: Vec<u32>,
    buses: Vec<(u8, String)>,
    io_apics: Vec<(u8, u32)>,
    /// (interrupt type, bus, bus line, I/O APIC, pin)
    lines: Vec<(u8, u8, u8, u8, u8)>,
    /// (interrupt type, local APIC, local line)
    local_lines: Vec<(u8, u8, u8)>,
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn sums_to_zero(bytes: &[u8]) -> bool {
    bytes.iter().map(|&byte| u32::from(byte)).sum::<u32>() % 256 == 0
}

fn parse(bytes: &[u8]) -> Found {
    assert_eq!(&bytes[..4], b"_MP_");
    assert_eq!(
        (bytes[8], bytes[9]),
        (1, 4),
        "one paragraph, specification 1.4"
    );
    assert_eq!(bytes[11], 0, "a configuration table is present");
    assert!(sums_to_zero(&bytes[..16]), "floating pointer checksum");
    let table = usize::try_from(u32_at(bytes, 4) - ADDRESS).unwrap();
    let table = &bytes[table..];
    assert_eq!(&table[..4], b"PCMP");
    let length = usize::from(u16_at(table, 4));
    assert_eq!(length, table.len(), "base table length");
    assert_eq!(table[6], 4, "specification 1.4");
    assert!(sums_to_zero(&table[..length]), "table checksum");
    assert_eq!(u32_at(table, 36), 0xfee0_0000, "local APIC address");
    let mut found = Found::default();
    let (mut at, mut previous) = (44, 0);
    for _ in 0..u16_at(table, 34) {
        let entry = &table[at..];
        assert!(entry[0] >= previous, "entries are sorted by type");
        previous = entry[0];
        at += found.take(entry);
    }
    assert_eq!(at, length, "the count covers the whole table");
    found
}

impl Found {
    fn take(&mut self, entry: &[u8]) -> usize {
        match entry[0] {
            0 => {
                assert_eq!(entry[3] & 1, 1, "enabled");
                self.apic_ids.push(entry[1]);
                if entry[3] & 2 != 0 {
                    self.boot_processors.push(entry[1]);
                }
                self.features.push(u32_at(entry, 8));
                return 20;
            }
            1 => {
                let name = String::from_utf8(entry[2..8].to_vec()).unwrap();
                self.buses.push((entry[1], name.trim_end().to_owned()));
            }
            2 => {
                assert_eq!(entry[3] & 1, 1, "usable");
                self.io_apics.push((entry[1], u32_at(entry, 4)));
            }
            3 => self
                .lines
                .push((entry[1], entry[4], entry[5], entry[6], entry[7])),
            4 => self.local_lines.push((entry[1], entry[6], entry[7])),
            other => panic!("entry type {other}"),
        }
        8
    }
}

#[test]
fn every_processor_is_listed_once_and_the_first_boots() {
    for cpus in [1, 2, 8, 64, 254] {
        let found = parse(&build(ADDRESS, cpus, PROCESSOR).unwrap());
        let ids: Vec<u8> = (0..u8::try_from(cpus).unwrap()).collect();
        assert_eq!(found.apic_ids, ids);
        assert_eq!(found.boot_processors, [0]);
        assert!(
            found
                .features
                .iter()
                .all(|&features| features == PROCESSOR.features)
        );
    }
}

#[test]
fn the_io_apic_has_an_id_that_no_processor_has() {
    for cpus in [1, 3, CPUS_MAX] {
        let found = parse(&build(ADDRESS, cpus, PROCESSOR).unwrap());
        let [(id, address)] = found.io_apics[..] else {
            panic!("one I/O APIC")
        };
        assert!(!found.apic_ids.contains(&id) && id != 0xff);
        assert_eq!(address, 0xfec0_0000);
    }
}

#[test]
fn each_isa_line_but_the_cascade_goes_to_the_pin_of_its_number() {
    let found = parse(&build(ADDRESS, 2, PROCESSOR).unwrap());
    assert_eq!(found.buses, [(0, "ISA".to_owned())]);
    let expected: Vec<_> = (0..16)
        .filter(|line| *line != 2)
        .map(|line| (0, 0, line, 2, line))
        .collect();
    assert_eq!(found.lines, expected);
}

#[test]
fn local_line_0_is_for_external_interrupts_and_1_for_nmis() {
    let found = parse(&build(ADDRESS, 2, PROCESSOR).unwrap());
    assert_eq!(found.local_lines, [(3, 0xff, 0), (1, 0xff, 1)]);
}

#[test]
fn the_255th_processor_is_refused_with_the_reason() {
    for cpus in [255, 256, 257, u32::MAX] {
        let error = build(ADDRESS, cpus, PROCESSOR).unwrap_err();
        assert_eq!(error, Error::TooManyCpus(cpus));
        assert!(error.to_string().contains("8-bit APIC ids"), "{error}");
    }
}

#[test]
fn the_largest_table_fits_below_high_memory() {
    let size = build(ADDRESS, CPUS_MAX, PROCESSOR).unwrap().len();
    assert!(size <= 0x1_0000, "{size}");
}
