// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Machines of today: wide TLBs, 192 cores, an L3 that does not include the L2s. Every scheme that
//! can run on one keeps it coherent, and one that cannot is the only one that refuses it.

mod common;

use steady_coherence::config::{Inclusion, Mode, TlbConfig};
use steady_coherence::record::Record;
use steady_coherence::scheme::{ATTC, KVMTLB, atlb, attc};
use steady_coherence::{MachineConfig, Registry};

use common::{busy_machine, busy_trace, run_checked};

/// A change of a busy machine, by its name.
type Change = (&'static str, fn(&mut MachineConfig));

const fn l2(entries: u32, ways: u32) -> TlbConfig {
    TlbConfig {
        entries,
        ways,
        miss_cycles: 17,
    }
}

const CHANGES: [Change; 5] = [
    ("Zen 4's L2 TLB, 24 ways", |m| m.mmu.l2 = l2(3072, 24)),
    ("Zen 5's L2 TLB, 256 sets", |m| {
        m.mmu.l2 = l2(4096, 16);
        // Small enough to be busy, and wide enough for the index.
        m.schemes.set(&atlb::KIB, 4096);
        m.schemes.set(&atlb::LARGE_KIB, 4096);
    }),
    ("an L3 that does not include the L2s", |m| {
        m.inclusion = Inclusion::NonInclusive;
        m.l3.kib = 16;
    }),
    ("five levels", |m| m.mmu.levels = 5),
    ("192 cores", |m| {
        m.inclusion = Inclusion::NonInclusive;
        m.core.count = 192;
    }),
];

#[test]
fn every_scheme_is_sound_on_machines_of_today() {
    for (name, change) in CHANGES {
        for mode in [Mode::Virtualized, Mode::Native] {
            let mut machine = busy_machine();
            machine.mode = mode;
            change(&mut machine);
            let cores = machine.core.count;
            let registry = Registry::shipped();
            for scheme in registry
                .all()
                .iter()
                .filter(|one| one.refuses(mode).is_none())
            {
                let (threads, length) = if cores > 4 {
                    (200, 12_000)
                } else {
                    (6, 30_000)
                };
                let trace = busy_trace(5, threads, 96, length);
                let sim = run_checked(&machine, scheme, trace, 2, threads / 2, |_| {});
                let oracle = sim.oracle().expect("checked runs have an oracle");
                assert_eq!(oracle.violations, 0, "{name}: {}", scheme.name);
                assert_eq!(sim.check(), Ok(()), "{name}: {}", scheme.name);
                assert!(sim.counts().pages_revoked > 50, "{name}: {}", scheme.name);
            }
        }
    }
}

#[test]
fn a_fifth_level_is_one_read_more_of_the_first_walk_from_the_root() {
    let access = |page: u64| Record::Access {
        thread: 0,
        vaddr: page << 12,
        size: 8,
        write: false,
        instructions: 1,
    };
    // Two pages of one table, then one below another entry of the root.
    let pages = [0x1000, 0x1001, 0x1000 + (1 << 27)];
    let reads = |levels: u32, pages: &[u64]| {
        let mut machine = MachineConfig::default();
        (machine.mode, machine.mmu.levels) = (Mode::Native, levels);
        let records = pages.iter().map(|&page| access(page)).collect();
        let sim = run_checked(&machine, &KVMTLB, records, 1, 0, |_| {});
        sim.counts().walk_reads
    };
    assert_eq!(
        [1, 2, 3].map(|count| reads(4, &pages[..count])),
        [4, 4 + 1, 4 + 1 + 4]
    );
    assert_eq!(
        [1, 2, 3].map(|count| reads(5, &pages[..count])),
        [5, 5 + 1, 5 + 1 + 4]
    );
}

/// A message that names too few bits of a page misses the set where the TLB holds it.
#[test]
fn the_index_of_attc_follows_the_index_of_the_tlb() {
    for (sets, shift) in [(64, 14), (128, 14), (256, 16), (512, 18)] {
        let mut machine = MachineConfig::default();
        machine.mmu.l2 = l2(sets * 4, 4);
        let table = atlb::Atlb::new(&machine);
        let key = |vm| steady_coherence::layout::Key::small(vm, 0x2_5A5A);
        // The bits below the shift are the page's in every VM; VM ids are 1, 2 and so on.
        assert_eq!(
            table.index(key(0)) ^ table.index(key(1)),
            (3 << shift) & 0x3_FFFF,
            "{sets}"
        );
    }
}

#[test]
fn a_machine_is_refused_only_by_the_scheme_that_cannot_run_on_it() {
    let registry = Registry::shipped();
    let load = |text: &str| registry.load(text, "m.toml");
    for text in [
        "preset = \"server\"\nmmu.l2 = { entries = 3072, ways = 24 }",
        "preset = \"server\"\nmmu.l2 = { entries = 3072, ways = 12 }",
        "preset = \"server\"\nmmu.l2 = { entries = 4096, ways = 16 }",
        "preset = \"server\"\ninclusion = \"non-inclusive\"\nl3 = { kib = 61440, ways = 15 }",
        "inclusion = \"non-inclusive\"\ncore.count = 192",
        "mmu.levels = 5",
        "preset = \"zen5\"",
        "preset = \"sapphire-rapids\"",
        "preset = \"granite-rapids\"",
    ] {
        let machine = load(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        ATTC.build(&machine)
            .unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    // 1024 sets fold 20 bits of a page, and an index of the ATLB has 18.
    let wide = load("mmu.l2 = { entries = 4096, ways = 4 }").expect("for other schemes");
    assert!(KVMTLB.build(&wide).is_ok());
    let refused = ATTC.build(&wide).err().map(|error| error.to_string());
    let said = refused.expect("attc cannot");
    assert!(
        said.starts_with("`mmu.l2 sets` is 1024: expected at most 256 sets for `attc`"),
        "{said}"
    );
    let mut narrow = load("mmu.l2 = { entries = 4096, ways = 16 }").expect("with all bits");
    narrow.schemes.set(&attc::MATCH_BITS, 14);
    assert!(ATTC.build(&narrow).is_err(), "14 bits do not give 256 sets");
}

#[test]
fn what_an_inclusive_l3_cannot_hold_names_the_other_kind() {
    for text in [
        "core.count = 192",
        "preset = \"server\"\nl3 = { kib = 61440, ways = 15 }",
    ] {
        let error = Registry::shipped()
            .load(text, "m.toml")
            .expect_err("it cannot hold them");
        let error = error.to_string();
        assert!(
            error.contains("else `inclusion = \"non-inclusive\"`"),
            "{error}"
        );
    }
}

#[test]
fn each_value_of_a_machine_of_today_has_its_source_beside_it() {
    for name in ["sapphire-rapids", "granite-rapids", "zen5"] {
        let path = format!("{}/presets/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).expect("the preset is there");
        let values = text.lines().filter(|line| {
            !line.starts_with('#') && !line.starts_with("preset") && line.contains(" = ")
        });
        let mut count = 0;
        for line in values {
            count += 1;
            let source = line.split_once('#').map_or("", |(_, source)| source.trim());
            assert!(!source.is_empty(), "{name}: {line}");
            // What is named in brackets stands at the head of the file.
            for named in source.split('[').skip(1) {
                let mark = named.split(']').next().expect("a first part");
                let head = format!("[{mark}]:");
                assert!(text.contains(&head), "{name}: {mark} is not explained");
            }
        }
        assert!(count > 30, "{name} has {count} values");
    }
}
