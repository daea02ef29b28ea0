// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Each mapping call's effect, against the manual page of the call.

use std::convert::Infallible;

use super::*;

const RW: Prot = Prot {
    read: true,
    write: true,
    exec: false,
};

fn converter() -> Converter {
    Converter::new(4096)
}

fn call(to: &mut Converter, num: i64, args: [u64; 4], ret: u64) -> Vec<Record> {
    let mut out = Vec::new();
    let call = Syscall {
        num,
        ret: i64::from_le_bytes(ret.to_le_bytes()),
        args: [args[0], args[1], args[2], args[3], 0, 0],
    };
    let mut emit = |record| {
        out.push(record);
        Ok::<(), Infallible>(())
    };
    to.syscall(1, &call, &mut emit).expect("never fails");
    out
}

fn touch(to: &mut Converter, vaddr: u64) -> Vec<Record> {
    let mut out = Vec::new();
    let raw = RawAccess {
        vaddr,
        instructions: 1,
        size: 8,
        write: false,
    };
    let mut emit = |record| {
        out.push(record);
        Ok::<(), Infallible>(())
    };
    to.access(0, raw, &mut emit).expect("never fails");
    out
}

fn map(start: u64, len: u64, prot: Prot, kind: MapKind) -> Record {
    Record::Map {
        thread: 1,
        start,
        len,
        prot,
        kind,
    }
}

#[test]
fn a_mapping_is_rounded_up_to_whole_pages() {
    let made = call(&mut converter(), 9, [0, 5000, 3, 0x22], 0x7000);
    assert_eq!(made, [map(0x7000, 8192, RW, MapKind::Mmap)]);
}

#[test]
fn a_failed_call_changes_nothing() {
    let enomem = u64::MAX - 11;
    assert_eq!(call(&mut converter(), 9, [0, 4096, 3, 0x22], enomem), []);
    assert_eq!(
        call(&mut converter(), 11, [0x7000, 4096, 0, 0], u64::MAX - 21),
        []
    );
}

#[test]
fn the_heap_is_known_from_its_first_move() {
    let mut to = converter();
    assert_eq!(call(&mut to, 12, [0; 4], 0x5010), []);
    let grown = call(&mut to, 12, [0x8010, 0, 0, 0], 0x8010);
    assert_eq!(grown, [map(0x6000, 0x3000, RW, MapKind::Brk)]);
    let shrunk = call(&mut to, 12, [0x7000, 0, 0, 0], 0x7000);
    assert_eq!(shrunk, [map(0x7000, 0x2000, Prot::default(), MapKind::Brk)]);
}

#[test]
fn a_moved_mapping_is_unmapped_and_mapped_with_its_rights() {
    let mut to = converter();
    let read_only = Prot::from_bits(1);
    call(&mut to, 9, [0, 0x2000, 1, 0x22], 0x10000);
    let moved = call(&mut to, 25, [0x10000, 0x2000, 0x5000, 1], 0x40000);
    let gone = map(0x10000, 0x2000, Prot::default(), MapKind::Munmap);
    assert_eq!(
        moved,
        [gone, map(0x40000, 0x5000, read_only, MapKind::Mmap)]
    );
}

#[test]
fn a_mapping_resized_in_place_changes_at_its_end_only() {
    let mut to = converter();
    call(&mut to, 9, [0, 0x2000, 3, 0x22], 0x10000);
    let grown = call(&mut to, 25, [0x10000, 0x2000, 0x3000, 0], 0x10000);
    assert_eq!(grown, [map(0x12000, 0x1000, RW, MapKind::Mmap)]);
    let shrunk = call(&mut to, 25, [0x10000, 0x3000, 0x1000, 0], 0x10000);
    assert_eq!(
        shrunk,
        [map(0x11000, 0x2000, Prot::default(), MapKind::Munmap)]
    );
}

#[test]
fn only_advice_that_drops_pages_is_told() {
    let mut to = converter();
    call(&mut to, 9, [0, 0x2000, 3, 0x22], 0x10000);
    assert_eq!(call(&mut to, 28, [0x10000, 0x2000, 14, 0], 0), []);
    let dropped = call(&mut to, 28, [0x10000, 0x2000, 4, 0], 0);
    assert_eq!(dropped, [map(0x10000, 0x2000, RW, MapKind::Madvise)]);
}

#[test]
fn a_range_of_the_image_is_told_at_its_first_use_and_once() {
    let mut to = converter();
    to.region(0x400000, 0x3000, 3);
    let first = touch(&mut to, 0x401000);
    assert_eq!(first.len(), 2);
    assert!(matches!(
        first[0],
        Record::Map {
            start: 0x40_0000,
            len: 0x3000,
            ..
        }
    ));
    assert_eq!(touch(&mut to, 0x402000).len(), 1);
    assert_eq!(to.unmapped_accesses, 0);
}

#[test]
fn a_candidate_under_a_new_mapping_is_never_told() {
    let mut to = converter();
    to.region(0x400000, 0x3000, 1);
    call(&mut to, 9, [0x400000, 0x3000, 3, 0x32], 0x400000);
    assert_eq!(touch(&mut to, 0x401000).len(), 1);
}

#[test]
fn rights_changed_on_an_untold_range_tell_of_it_first() {
    let mut to = converter();
    to.region(0x400000, 0x3000, 3);
    let told = call(&mut to, 10, [0x401000, 0x1000, 1, 0], 0);
    let image = map(0x400000, 0x3000, RW, MapKind::Mmap);
    let relro = map(0x401000, 0x1000, Prot::from_bits(1), MapKind::Mprotect);
    assert_eq!(told, [image, relro]);
}

#[test]
fn an_access_nowhere_known_is_counted() {
    let mut to = converter();
    assert_eq!(touch(&mut to, 0x1234).len(), 1);
    assert_eq!(to.unmapped_accesses, 1);
}
