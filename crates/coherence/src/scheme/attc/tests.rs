// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ATTC step by step, on a machine of two cores: what each update removes, and what it leaves.

use super::Attc;
use super::{FLUSH, FLUSH_CEILING, MATCH_BITS};
use crate::config::{MachineConfig, Mode};
use crate::layout::Key;
use crate::machine::{Look, Machine, View};
use crate::os::{Agent, Bit, Cause, Remap};
use crate::record::{MapKind, Prot};
use crate::scheme::{Registry, Scheme, atlb};
use crate::sim::translate;

const PAGE: u64 = 0x12345;

fn rig(vms: u16, change: impl FnOnce(&mut MachineConfig)) -> (Machine, Attc) {
    let mut config = MachineConfig::default();
    config.core.count = 2;
    config.schemes.set(&atlb::KIB, 1024);
    config.schemes.set(&atlb::LARGE_KIB, 1024);
    change(&mut config);
    Registry::shipped()
        .validate(&config)
        .expect("a possible machine");
    let attc = Attc::new(&config);
    (Machine::new(&config, vms, 1), attc)
}

/// Both cores load from each page.
fn load(m: &mut Machine, attc: &mut Attc, keys: &[Key]) {
    for &key in keys {
        for core in 0..2 {
            translate(m, attc, core, key, false, 0);
        }
        assert!(attc.atlb.get(key).is_some(), "the walk has stored it");
    }
}

fn held(m: &Machine, key: Key) -> usize {
    m.mmu.iter().filter(|mmu| mmu.holds(key)).count()
}

/// Pages migrate; the initiator's cycles.
fn migrate(m: &mut Machine, attc: &mut Attc, agent: Agent, keys: &[Key]) -> u64 {
    let changes = keys
        .iter()
        .map(|&key| {
            let id = m.os.page_of(key);
            m.os.describe(id)
        })
        .collect();
    let update = Remap {
        vm: keys[0].vm(),
        agent,
        cause: Cause::Migration,
        changes,
        tables: Vec::new(),
        frees: false,
        victims: None,
    };
    attc.revoke(&mut View::of(m), &update, 0, 1_000)
}

/// Two pages of different VMs in one ATLB set: Equation 1 puts VM ids above bit 14.
fn of_two_vms_in_one_set(attc: &Attc) -> (Key, Key) {
    let pair = (Key::small(0, PAGE), Key::small(1, PAGE ^ (3 << 14)));
    assert_eq!(attc.atlb.index(pair.0), attc.atlb.index(pair.1));
    pair
}

/// Two pages of VM 0 in one ATLB set.
fn of_one_vm_in_one_set(attc: &Attc) -> (Key, Key) {
    let pair = (
        Key::small(0, PAGE),
        Key::small(0, PAGE + attc.atlb.sets(false)),
    );
    assert_eq!(attc.atlb.index(pair.0), attc.atlb.index(pair.1));
    pair
}

#[test]
fn a_guest_s_update_leaves_the_other_vm_s_entry_in_the_set_and_drops_its_tlb_entry_falsely() {
    let (mut m, mut attc) = rig(2, |_| {});
    let (mine, other) = of_two_vms_in_one_set(&attc);
    load(&mut m, &mut attc, &[mine, other]);
    migrate(&mut m, &mut attc, Agent::Guest, &[mine]);
    assert!(attc.atlb.get(mine).is_none() && attc.atlb.get(other).is_some());
    assert_eq!((held(&m, mine), held(&m, other)), (0, 0));
    // Each of two cores holds each page in L1 and L2.
    assert_eq!(m.counts.true_invalidations, 4);
    assert_eq!(m.counts.false_invalidations, 4);
    assert_eq!(attc.counts()["attempts_filtered"], 1);
}

#[test]
fn a_guest_s_update_drops_every_entry_of_its_vm_in_the_set() {
    let (mut m, mut attc) = rig(1, |_| {});
    let (mine, neighbour) = of_one_vm_in_one_set(&attc);
    load(&mut m, &mut attc, &[mine, neighbour]);
    migrate(&mut m, &mut attc, Agent::Guest, &[mine]);
    assert!(attc.atlb.get(neighbour).is_none());
    assert_eq!(attc.counts()["atlb_bystanders_dropped"], 1);
}

#[test]
fn a_host_s_update_drops_the_entries_of_its_frame_and_no_other_of_the_set() {
    let (mut m, mut attc) = rig(1, |_| {});
    let (moved, neighbour) = of_one_vm_in_one_set(&attc);
    load(&mut m, &mut attc, &[moved, neighbour]);
    let cycles = migrate(&mut m, &mut attc, Agent::Host, &[moved]);
    assert_eq!(cycles, 500, "section 3.3, for one page");
    assert!(attc.atlb.get(moved).is_none() && attc.atlb.get(neighbour).is_some());
    assert_eq!(held(&m, moved), 0);
    assert_eq!(
        m.counts.false_invalidations, 4,
        "the set's address fits both"
    );
    assert_eq!(attc.check(Look::at(&m)), Ok(()));
}

#[test]
fn pages_whose_set_differs_in_one_compared_bit_keep_their_tlb_entries() {
    for (match_bits, kept) in [(0, 2), (14, 0)] {
        let (mut m, mut attc) = rig(1, |config| {
            config.schemes.set(&atlb::KIB, 16_384);
            config.schemes.set(&MATCH_BITS, match_bits);
        });
        // The same TLB sets; the ATLB set differs in bit 14 only.
        let (moved, far) = (Key::small(0, PAGE), Key::small(0, PAGE ^ (1 << 14)));
        load(&mut m, &mut attc, &[moved, far]);
        migrate(&mut m, &mut attc, Agent::Host, &[moved]);
        assert_eq!(held(&m, far), kept, "{match_bits} bits compared");
    }
}

#[test]
fn both_tlb_sets_follow_from_the_atlb_set_s_index_alone() {
    let (m, attc) = rig(4, |_| {});
    let mut draw = steady_random::Stream::new(8, 0);
    for _ in 0..2_000 {
        let page = (u64::from(draw.next_u32()) << 4) | u64::from(draw.below(16));
        let key = Key::small(crate::num::low16(u64::from(draw.below(4))), page);
        let index = attc.atlb.index(key);
        // Section 2.2: bits 3:0 for the L1, bits 13:0 folded by seven for the L2.
        assert_eq!(m.mmu[0].l1_4k.set_of(page) as u64, index & 15);
        let folded = (index ^ (index >> 7)) & 127;
        assert_eq!(m.mmu[0].l2.set_of(page) as u64, folded);
    }
}

#[test]
fn a_displaced_pointer_takes_its_atlb_entry_and_tlb_entries_along() {
    let (mut m, mut attc) = rig(1, |config| {
        config.schemes.set(&super::invtbl::KIB, 1);
        config.schemes.set(&super::invtbl::WAYS, 1);
    });
    // 256 sets of one: the pages' frames follow each other, so the 257th displaces the first.
    let pages: Vec<Key> = (0..256).map(|page| Key::small(0, page)).collect();
    load(&mut m, &mut attc, &pages);
    assert_eq!(attc.counts()["pointer_evictions"], 0);
    assert!(attc.atlb.get(Key::small(0, 0)).is_some());
    load(&mut m, &mut attc, &[Key::small(0, 256)]);
    assert_eq!(attc.counts()["pointer_evictions"], 1);
    assert!(attc.atlb.get(Key::small(0, 0)).is_none());
    assert_eq!(held(&m, Key::small(0, 0)), 0);
    assert_eq!(attc.check(Look::at(&m)), Ok(()));
}

#[test]
fn a_host_s_update_reaches_all_synonyms_of_a_frame() {
    let (mut m, mut attc) = rig(1, |_| {});
    let names: Vec<Key> = (0..4).map(|n| Key::small(0, PAGE + 77 * n)).collect();
    for &alias in &names[1..] {
        m.os.alias(alias, names[0]);
    }
    load(&mut m, &mut attc, &names);
    migrate(&mut m, &mut attc, Agent::Host, &names);
    assert_eq!(attc.counts()["pointers_followed_at_most"], 4);
    for name in names {
        assert!(attc.atlb.get(name).is_none());
        assert_eq!(held(&m, name), 0);
    }
}

#[test]
fn a_large_page_has_an_atlb_and_a_pointer_of_its_own() {
    let (mut m, mut attc) = rig(1, |_| {});
    let (large, small) = (Key::large(0, PAGE), Key::small(0, PAGE));
    load(&mut m, &mut attc, &[large, small]);
    assert_eq!(attc.atlb.index(large), attc.atlb.index(small));
    migrate(&mut m, &mut attc, Agent::Host, &[large]);
    assert!(attc.atlb.get(large).is_none() && attc.atlb.get(small).is_some());
    assert_eq!((held(&m, large), held(&m, small)), (0, 2));
}

#[test]
fn a_cleared_dirty_bit_is_set_again_by_the_next_store_of_every_core() {
    let (mut m, mut attc) = rig(1, |_| {});
    let key = Key::small(0, PAGE);
    for core in 0..2 {
        translate(&mut m, &mut attc, core, key, true, 0);
    }
    let set = m.counts.dirty_updates;
    translate(&mut m, &mut attc, 0, key, true, 500);
    assert_eq!(m.counts.dirty_updates, set, "it is set already");
    let update = m.os.clear(Bit::Dirty, &[key]).expect("the page is dirty");
    attc.revoke(&mut View::of(&mut m), &update, 0, 1_000);
    assert!(!m.os.peek(key).expect("it is mapped").dirty);
    translate(&mut m, &mut attc, 1, key, true, 2_000);
    assert_eq!(m.counts.dirty_updates, set + 1);
    assert!(m.os.peek(key).expect("it is mapped").dirty);
    assert!(m.os.clear(Bit::Dirty, &[Key::small(0, PAGE + 1)]).is_none());
}

#[test]
fn a_store_after_the_right_to_write_is_gone_meets_a_fault_on_every_core() {
    let (mut m, mut attc) = rig(1, |_| {});
    let key = Key::small(0, PAGE);
    for core in 0..2 {
        translate(&mut m, &mut attc, core, key, true, 0);
    }
    let reading = Prot {
        read: true,
        ..Prot::default()
    };
    let update =
        m.os.map_call(0, PAGE << 12, 4096, reading, MapKind::Mprotect)
            .expect("a right is revoked");
    attc.revoke(&mut View::of(&mut m), &update, 0, 1_000);
    let (entry, _) = translate(&mut m, &mut attc, 1, key, false, 2_000);
    assert!(!entry.writable, "loads see the new rights");
    translate(&mut m, &mut attc, 1, key, true, 3_000);
    assert_eq!(m.counts.protection_faults, 1);
}

#[test]
fn unmapping_a_whole_table_reaches_every_page_of_it_and_says_so_to_the_walk_caches() {
    let (mut m, mut attc) = rig(1, |_| {});
    let first = 0x12400;
    let keys: Vec<Key> = (0..512).map(|page| Key::small(0, first + page)).collect();
    load(&mut m, &mut attc, &keys);
    let update =
        m.os.map_call(0, first << 12, 512 << 12, Prot::default(), MapKind::Munmap)
            .expect("pages are revoked");
    assert_eq!(update.tables.len(), 1);
    assert_eq!(update.changes.len(), 512);
    attc.revoke(&mut View::of(&mut m), &update, 0, 1_000);
    for key in keys {
        assert!(attc.atlb.get(key).is_none());
        assert_eq!(held(&m, key), 0);
    }
}

#[test]
fn a_whole_flush_spares_other_vms_unless_dma_wipes_the_table() {
    for (flush, spared) in [("stamp", true), ("walker", true), ("dma", false)] {
        let (mut m, mut attc) = rig(2, |config| {
            config.schemes.set(&FLUSH, flush);
            config.schemes.set(&FLUSH_CEILING, 1);
        });
        let mine = [Key::small(0, PAGE), Key::small(0, PAGE + 1)];
        let other = Key::small(1, PAGE);
        load(&mut m, &mut attc, &[mine[0], mine[1], other]);
        migrate(&mut m, &mut attc, Agent::Guest, &mine);
        assert_eq!(attc.counts()["whole_flushes"], 1);
        assert!(mine.iter().all(|&key| attc.atlb.get(key).is_none()));
        assert!(mine.iter().all(|&key| held(&m, key) == 0));
        assert_eq!(attc.atlb.get(other).is_some(), spared, "{flush:?}");
        assert_eq!(held(&m, other), 2, "TLBs of another VM are left alone");
    }
}

#[test]
fn natively_there_is_no_inverse_table_and_no_line_of_it_is_touched() {
    let (mut m, mut attc) = rig(1, |config| config.mode = Mode::Native);
    let key = Key::small(0, PAGE);
    load(&mut m, &mut attc, &[key]);
    let spn = m.os.peek(key).expect("it is mapped").spn;
    migrate(&mut m, &mut attc, Agent::Guest, &[key]);
    assert!(attc.invtbl.is_none());
    let line = super::Invtbl::new(&m.config).line(spn, false);
    assert!(!m.caches.holds(line));
    assert!(attc.atlb.get(key).is_none());
}
