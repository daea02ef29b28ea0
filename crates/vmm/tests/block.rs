// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The block device, driven as a guest would, by registers and rings written by hand; hostile
//! guests included.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use std::io::{self, Cursor, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use proptest::prelude::*;
use steady_vmm::virtio::disk::Shared;
use steady_vmm::virtio::mmio::Registers;
use steady_vmm::virtio::request::{Backend, Disk, ID_SIZE};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

const MEMORY: usize = 1 << 20;
const TABLE: u64 = 0x1000;
const AVAILABLE: u64 = 0x2000;
const USED: u64 = 0x3000;
const HEADER: u64 = 0x4000;
const STATUS: u64 = 0x4100;
const DATA: u64 = 0x8000;
const SECTORS: u64 = 64;
const QUEUE: u16 = 16;

const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;
const IN: u32 = 0;
const OUT: u32 = 1;
const FLUSH: u32 = 4;
const GET_ID: u32 = 8;
const OK: u8 = 0;
const IO_ERROR: u8 = 1;
const UNSUPPORTED: u8 = 2;
const NOT_WRITTEN: u8 = 0xaa;

/// A disk in memory that can be made to fail.
struct Memory {
    data: Cursor<Vec<u8>>,
    broken: bool,
    syncs: u32,
}

impl Memory {
    fn check(&self) -> io::Result<()> {
        if self.broken {
            Err(io::Error::other("broken"))
        } else {
            Ok(())
        }
    }
}

impl Read for Memory {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.check().and_then(|()| self.data.read(buffer))
    }
}

impl Write for Memory {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.check().and_then(|()| self.data.write(buffer))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.check()
    }
}

impl Seek for Memory {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.data.seek(to)
    }
}

impl Backend for Memory {
    fn sync(&mut self) -> io::Result<()> {
        self.syncs += 1;
        self.check()
    }
}

/// A guest with its disk.
struct Bench {
    shared: Arc<Shared>,
    registers: Registers,
    disk: Disk<Memory>,
    queued: u16,
}

impl Bench {
    /// A device that the guest's driver has set up.
    fn new() -> Self {
        let mut bench = Self::reset();
        bench.negotiate((1 << 32) | (1 << 9));
        bench.place_queue(QUEUE.into(), [TABLE, AVAILABLE, USED]);
        bench.set(0x70, 15);
        bench
    }

    fn reset() -> Self {
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), MEMORY)]).unwrap();
        let shared = Arc::new(Shared::new(memory).unwrap());
        let data = Cursor::new(vec![0; usize::try_from(SECTORS * 512).unwrap()]);
        let backend = Memory {
            data,
            broken: false,
            syncs: 0,
        };
        let disk = Disk {
            backend,
            sectors: SECTORS,
            id: *b"a disk\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        };
        let registers = Registers::new(shared.clone(), SECTORS);
        Bench {
            shared,
            registers,
            disk,
            queued: 0,
        }
    }

    fn set(&mut self, register: u64, value: u32) {
        self.registers.write(register, &value.to_le_bytes());
    }

    fn get(&self, register: u64) -> u32 {
        let mut bytes = [0; 4];
        self.registers.read(register, &mut bytes);
        u32::from_le_bytes(bytes)
    }

    fn negotiate(&mut self, features: u64) {
        self.set(0x70, 3);
        for (page, half) in [(0, features & 0xffff_ffff), (1, features >> 32)] {
            self.set(0x24, page);
            self.set(0x20, u32::try_from(half).unwrap());
        }
        self.set(0x70, 11);
    }

    fn place_queue(&mut self, size: u32, places: [u64; 3]) {
        self.set(0x30, 0);
        self.set(0x38, size);
        for (register, place) in [0x80, 0x90, 0xa0].into_iter().zip(places) {
            self.set(register, u32::try_from(place & 0xffff_ffff).unwrap());
            self.set(register + 4, u32::try_from(place >> 32).unwrap());
        }
        self.set(0x44, 1);
    }

    fn poke(&self, at: u64, bytes: &[u8]) {
        self.shared
            .memory
            .write_slice(bytes, GuestAddress(at))
            .unwrap();
    }

    fn peek(&self, at: u64, size: usize) -> Vec<u8> {
        let mut bytes = vec![0; size];
        self.shared
            .memory
            .read_slice(&mut bytes, GuestAddress(at))
            .unwrap();
        bytes
    }

    fn descriptor(&self, table: u64, index: u16, (at, size, flags): (u64, u32, u16), next: u16) {
        let mut bytes = at.to_le_bytes().to_vec();
        bytes.extend(size.to_le_bytes());
        bytes.extend(flags.to_le_bytes());
        bytes.extend(next.to_le_bytes());
        self.poke(table + 16 * u64::from(index), &bytes);
    }

    fn header(&self, kind: u32, sector: u64) {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend([0; 4]);
        bytes.extend(sector.to_le_bytes());
        self.poke(HEADER, &bytes);
    }

    /// Makes the chain that starts at descriptor `head` available and lets the device work.
    fn offer(&mut self, head: u16) -> usize {
        self.poke(STATUS, &[NOT_WRITTEN]);
        self.poke(
            AVAILABLE + 4 + 2 * u64::from(self.queued % QUEUE),
            &head.to_le_bytes(),
        );
        self.queued += 1;
        self.poke(AVAILABLE + 2, &self.queued.to_le_bytes());
        self.shared.serve(&mut self.disk)
    }

    /// One request in the usual framing: header, data, status. Returns its status.
    fn request(&mut self, kind: u32, sector: u64, data: Option<(u64, u32, u16)>) -> u8 {
        self.header(kind, sector);
        let mut parts = vec![(HEADER, 16, 0)];
        parts.extend(data);
        parts.push((STATUS, 1, WRITE));
        let last = parts.len() - 1;
        for (index, (at, size, flags)) in (0..).zip(parts) {
            let next = if usize::from(index) < last { NEXT } else { 0 };
            self.descriptor(TABLE, index, (at, size, flags | next), index + 1);
        }
        assert_eq!(self.offer(0), 1);
        self.peek(STATUS, 1)[0]
    }

    /// Id and length of the last entry in the used ring.
    fn last_used(&self) -> (u32, u32) {
        let slot = u64::from((self.queued - 1) % QUEUE);
        let entry = self.peek(USED + 4 + 8 * slot, 8);
        let word = |at: usize| u32::from_le_bytes(entry[at..at + 4].try_into().unwrap());
        (word(0), word(4))
    }
}

#[test]
fn what_is_written_is_read_back_from_the_same_sectors() {
    let mut bench = Bench::new();
    let text: Vec<u8> = (0..1024u32).map(|n| n.to_le_bytes()[0] ^ 0x5a).collect();
    bench.poke(DATA, &text);
    assert_eq!(bench.request(OUT, 3, Some((DATA, 1024, 0))), OK);
    assert_eq!(bench.last_used(), (0, 1));
    assert_eq!(
        &bench.disk.backend.data.get_ref()[3 * 512..5 * 512],
        &text[..]
    );
    assert_eq!(bench.request(IN, 3, Some((DATA + 0x1000, 1024, WRITE))), OK);
    assert_eq!(bench.last_used(), (0, 1025));
    assert_eq!(bench.peek(DATA + 0x1000, 1024), text);
}

#[test]
fn flush_reaches_the_backend_and_get_id_gives_the_name() {
    let mut bench = Bench::new();
    assert_eq!(bench.request(FLUSH, 0, None), OK);
    assert_eq!(bench.disk.backend.syncs, 1);
    assert_eq!(bench.request(GET_ID, 0, Some((DATA, 20, WRITE))), OK);
    assert_eq!(bench.peek(DATA, ID_SIZE), bench.disk.id);
}

#[test]
fn an_unknown_request_is_unsupported() {
    assert_eq!(Bench::new().request(13, 0, None), UNSUPPORTED);
}

#[test]
fn an_error_of_the_host_becomes_an_io_error_and_the_disk_goes_on() {
    let mut bench = Bench::new();
    bench.disk.backend.broken = true;
    assert_eq!(bench.request(IN, 0, Some((DATA, 512, WRITE))), IO_ERROR);
    assert_eq!(bench.request(OUT, 0, Some((DATA, 512, 0))), IO_ERROR);
    assert_eq!(bench.request(FLUSH, 0, None), IO_ERROR);
    bench.disk.backend.broken = false;
    assert_eq!(bench.request(IN, 0, Some((DATA, 512, WRITE))), OK);
}

#[test]
fn sectors_beyond_the_end_are_refused_and_nothing_is_written() {
    let mut bench = Bench::new();
    bench.poke(DATA, &[0xee; 1024]);
    for sector in [SECTORS, SECTORS - 1, u64::MAX, u64::MAX / 512, 1 << 55] {
        assert_eq!(
            bench.request(OUT, sector, Some((DATA, 1024, 0))),
            IO_ERROR,
            "{sector}"
        );
    }
    assert!(
        bench
            .disk
            .backend
            .data
            .get_ref()
            .iter()
            .all(|&byte| byte == 0)
    );
    assert_eq!(
        bench.disk.backend.data.get_ref().len(),
        usize::try_from(SECTORS * 512).unwrap()
    );
}

#[test]
fn a_part_of_a_sector_is_refused() {
    let mut bench = Bench::new();
    assert_eq!(bench.request(IN, 0, Some((DATA, 511, WRITE))), IO_ERROR);
    assert_eq!(bench.request(OUT, 0, Some((DATA, 513, 0))), IO_ERROR);
}

#[test]
fn a_header_that_is_too_short_is_an_io_error() {
    let mut bench = Bench::new();
    bench.descriptor(TABLE, 0, (HEADER, 15, NEXT), 1);
    bench.descriptor(TABLE, 1, (STATUS, 1, WRITE), 0);
    assert_eq!(bench.offer(0), 1);
    assert_eq!(bench.peek(STATUS, 1), [IO_ERROR]);
}

#[test]
fn a_request_without_room_for_a_status_is_dropped_with_length_0() {
    let mut bench = Bench::new();
    bench.header(IN, 0);
    bench.descriptor(TABLE, 0, (HEADER, 16, 0), 0);
    assert_eq!(bench.offer(0), 1);
    assert_eq!(bench.last_used(), (0, 0));
}

#[test]
fn buffers_outside_of_memory_are_dropped_with_length_0() {
    let mut bench = Bench::new();
    bench.header(IN, 0);
    for (at, size) in [
        (u64::MAX - 100, 512),
        (MEMORY as u64, 512),
        (DATA, u32::MAX),
    ] {
        bench.descriptor(TABLE, 0, (HEADER, 16, NEXT), 1);
        bench.descriptor(TABLE, 1, (at, size, WRITE | NEXT), 2);
        bench.descriptor(TABLE, 2, (STATUS, 1, WRITE), 0);
        assert_eq!(bench.offer(0), 1);
        assert_eq!(bench.last_used(), (0, 0), "{at:#x}");
        assert_eq!(bench.peek(STATUS, 1), [NOT_WRITTEN]);
    }
}

#[test]
fn a_chain_that_loops_ends() {
    let mut bench = Bench::new();
    bench.header(FLUSH, 0);
    bench.descriptor(TABLE, 0, (HEADER, 16, NEXT), 1);
    bench.descriptor(TABLE, 1, (STATUS, 1, WRITE | NEXT), 0);
    assert_eq!(bench.offer(0), 1);
}

#[test]
fn an_indirect_table_works_and_one_inside_another_does_not() {
    let mut bench = Bench::new();
    bench.header(IN, 0);
    let inner = DATA + 0x4000;
    bench.descriptor(inner, 0, (HEADER, 16, NEXT), 1);
    bench.descriptor(inner, 1, (DATA, 512, WRITE | NEXT), 2);
    bench.descriptor(inner, 2, (STATUS, 1, WRITE), 0);
    bench.descriptor(TABLE, 0, (inner, 48, INDIRECT), 0);
    assert_eq!(bench.offer(0), 1);
    assert_eq!(bench.peek(STATUS, 1), [OK]);
    bench.descriptor(inner, 1, (inner, 48, INDIRECT), 0);
    assert_eq!(bench.offer(0), 1);
    assert_eq!(bench.peek(STATUS, 1), [NOT_WRITTEN]);
}

#[test]
fn an_available_index_that_runs_ahead_serves_nothing() {
    let mut bench = Bench::new();
    bench.poke(AVAILABLE + 2, &(QUEUE + 1).to_le_bytes());
    assert_eq!(bench.shared.serve(&mut bench.disk), 0);
}

#[test]
fn completion_raises_the_interrupt_and_the_guest_acknowledges_it() {
    let mut bench = Bench::new();
    bench.request(FLUSH, 0, None);
    assert_eq!(bench.get(0x60), 1);
    assert_eq!(bench.shared.interrupt.read().unwrap(), 1);
    bench.set(0x64, 1);
    assert_eq!(bench.get(0x60), 0);
}

#[test]
fn the_registers_name_a_block_device_of_this_size() {
    let bench = Bench::reset();
    let identity = [0x0, 0x4, 0x8].map(|register| bench.get(register));
    assert_eq!(identity, [0x7472_6976, 2, 2]);
    assert_eq!(
        u64::from(bench.get(0x100)) | u64::from(bench.get(0x104)) << 32,
        SECTORS
    );
}

#[test]
fn features_that_were_not_offered_are_not_accepted() {
    for features in [1 << 9, (1 << 32) | (1 << 13), (1 << 32) | (1 << 40)] {
        let mut bench = Bench::reset();
        bench.negotiate(features);
        assert_eq!(bench.get(0x70) & 8, 0, "{features:#x}");
    }
}

#[test]
fn a_queue_outside_of_memory_is_not_made_ready() {
    let outside = MEMORY as u64 - 16;
    for place in 0..3 {
        let mut places = [TABLE, AVAILABLE, USED];
        places[place] = outside;
        let mut bench = Bench::reset();
        bench.negotiate(1 << 32);
        bench.place_queue(QUEUE.into(), places);
        assert_eq!(bench.get(0x44), 0, "place {place}");
        assert_eq!(bench.get(0x70) & 64, 64, "the driver is asked to reset");
    }
}

#[test]
fn after_a_reset_nothing_is_served_until_it_is_set_up_again() {
    let mut bench = Bench::new();
    bench.set(0x70, 0);
    assert_eq!((bench.get(0x70), bench.get(0x44)), (0, 0));
    assert_eq!(bench.offer(0), 0);
}

proptest! {
    #[test]
    fn no_chain_of_descriptors_panics_or_grows_the_disk(
        kind in prop_oneof![Just(IN), Just(OUT), Just(FLUSH), Just(GET_ID), any::<u32>()],
        sector in prop_oneof![0..SECTORS, any::<u64>()],
        chain in prop::collection::vec(
            (
                prop_oneof![Just(HEADER), Just(STATUS), Just(DATA), Just(TABLE), any::<u64>()],
                prop_oneof![Just(16u32), Just(1), Just(512), 0..100_000u32, any::<u32>()],
                0u16..8,
                0u16..20,
            ),
            usize::from(QUEUE),
        ),
        heads in prop::collection::vec(0u16..20, 1..6),
    ) {
        let mut bench = Bench::new();
        bench.header(kind, sector);
        for (index, &(at, size, flags, next)) in (0..).zip(&chain) {
            bench.descriptor(TABLE, index, (at, size, flags), next);
        }
        for head in heads {
            bench.offer(head);
        }
        prop_assert_eq!(bench.disk.backend.data.get_ref().len() as u64, SECTORS * 512);
    }

    #[test]
    fn no_register_access_panics(
        accesses in prop::collection::vec((0u64..0x120, any::<u32>(), 0usize..9, any::<bool>()), 0..40),
    ) {
        let mut bench = Bench::reset();
        for (register, value, size, write) in accesses {
            let mut bytes = [value.to_le_bytes(), value.to_le_bytes()].concat();
            bytes.truncate(size);
            if write {
                bench.registers.write(register, &bytes);
            } else {
                bench.registers.read(register, &mut bytes);
            }
            bench.shared.serve(&mut bench.disk);
        }
    }
}
