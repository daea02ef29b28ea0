// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whole runs: same bytes, clear errors, bounded memory, schemes in their order.

mod common;

use common::{BASE, busy_machine, busy_trace};
use steady_coherence::compare::{compare, jobs};
use steady_coherence::config::Mode;
use steady_coherence::record::{Memory, Record, Resident, Source};
use steady_coherence::workload::{Generator, GeneratorOptions, Mix, TABLE_3, Workload, find};
use steady_coherence::{MachineConfig, Options, Registry, Spec, scheme};

fn generator(name: &str, accesses: u64) -> Generator {
    let options = GeneratorOptions {
        seed: 1,
        sweep_rate: 900,
        vms: 1,
        accesses,
        dram_percent: 95,
    };
    Generator::new(find(name).expect("a workload"), &options).expect("valid options")
}

#[test]
fn one_thread_or_many_give_the_same_bytes() {
    let schemes = [
        &scheme::KVMTLB,
        &scheme::HATRIC,
        &scheme::ATTC,
        &scheme::IDEAL,
    ];
    let jobs = jobs(&MachineConfig::default(), &schemes);
    let run = |threads| {
        let source = generator("bodytrack", 300_000);
        let all = compare(source, 300_000, &jobs, &Options::default(), threads).unwrap();
        serde_json::to_string(&all).unwrap()
    };
    let one = run(1);
    assert_eq!(one, run(1));
    assert_eq!(one, run(3));
}

#[test]
fn a_comparison_is_a_valid_result_of_the_shared_schema() {
    let jobs = jobs(&MachineConfig::default(), &[&scheme::KVMTLB, &scheme::ATTC]);
    let run = |seed| {
        let options = Options {
            seed,
            ..Options::default()
        };
        compare(generator("bodytrack", 50_000), 50_000, &jobs, &options, 1).unwrap()
    };
    let all = [run(1), run(2)];
    let result = steady_coherence::result::run_result(&all, "bodytrack", "Which is faster?");
    let read = steady_measures::RunResult::from_json("test", &result.to_json()).unwrap();
    assert_eq!(read.variants[1].name, "attc");
    let seeds: Vec<Option<u64>> = read.variants[1]
        .repetitions
        .iter()
        .map(|r| r.seed)
        .collect();
    assert_eq!(seeds, [Some(1), Some(2)]);
    // Nothing that is counted is hidden, also of the scheme's own.
    let metrics = &read.variants[1].repetitions[1].metrics;
    let value = |name: &str| {
        metrics
            .iter()
            .find(|one| one.name == name)
            .map(|one| one.value)
    };
    let counts = &all[1].outcomes[1].counts;
    for (name, counted) in [
        ("counter.walk_cycles", counts.walk_cycles),
        ("counter.l1_tlb_misses", counts.l1_tlb_misses),
        ("counter.tlb_messages", counts.tlb_messages),
        ("counter.true_invalidations", counts.true_invalidations),
        ("tlb.walks", counts.walks),
        (
            "counter.cache.l1_misses",
            all[1].outcomes[1].caches.l1_misses,
        ),
    ] {
        assert_eq!(value(name), i64::try_from(counted).ok(), "{name}");
    }
    assert!(counts.walk_cycles > 0 && value("counter.own.pointer_evictions").is_some());
}

#[test]
fn a_captured_trace_gives_its_records_to_the_simulator() {
    use steady_memtrace as trace;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.trace");
    let mut writer = trace::FileWriter::create(&path, &trace::Header::new("test")).unwrap();
    writer
        .writer()
        .push(&trace::Record::Access {
            thread: 0,
            vaddr: BASE,
            size: 8,
            write: true,
            instructions: 5,
        })
        .unwrap();
    writer.finish().unwrap();
    let jobs = jobs(&MachineConfig::default(), &[&scheme::IDEAL]);
    let source = steady_coherence::captured::open(&path).unwrap();
    assert_eq!(source.processors(), Some(Vec::new()), "it is recorded");
    let all = compare(source, u64::MAX, &jobs, &Options::default(), 1).unwrap();
    let counts = &all.outcomes[0].counts;
    assert_eq!((counts.accesses, counts.instructions), (1, 5));
}

#[test]
fn a_scheme_gets_the_same_result_alone_as_in_company() {
    let run = |schemes: &[&'static Spec]| {
        let jobs = jobs(&busy_machine(), schemes);
        let source = Memory::new(busy_trace(11, 6, 64, 20_000), 777);
        compare(source, u64::MAX, &jobs, &Options::default(), 1).unwrap()
    };
    let alone = run(&[&scheme::ATTC]);
    let company = run(&[&scheme::KVMTLB, &scheme::ATTC]);
    assert_eq!(alone.outcomes[0], company.outcomes[1]);
}

#[test]
fn messages_cost_every_scheme_that_sends_some_and_no_other() {
    for mode in [Mode::Virtualized, Mode::Native] {
        for spec in Registry::shipped().all().iter().copied() {
            if spec.refuses(mode).is_some() {
                continue;
            }
            let run = |hop_cycles, port_cycles| {
                let mut machine = busy_machine();
                machine.mode = mode;
                (machine.network.hop_cycles, machine.network.port_cycles) =
                    (hop_cycles, port_cycles);
                let source = Memory::new(busy_trace(11, 6, 64, 20_000), 777);
                let jobs = jobs(&machine, &[spec]);
                let all = compare(source, u64::MAX, &jobs, &Options::default(), 1).unwrap();
                all.outcomes[0].counts
            };
            let (free, costly) = (run(0, 1), run(300, 0));
            let silent = ["ideal", "ideal-atlb"].contains(&spec.name);
            let dearer = costly.initiator_cycles > free.initiator_cycles;
            assert_eq!(dearer, !silent, "{} {mode:?}", spec.name);
            // A port without hops is not there.
            assert_eq!(run(0, 50), free, "{}", spec.name);
        }
    }
}

/// Digests of outcomes; a change of the model or of an input changes them, nothing else may.
#[test]
fn every_scheme_gives_the_bytes_that_it_always_gave() {
    let known = [
        (
            Mode::Virtualized,
            "5bc58096747254728c21f642415efae47bcba2f99b92b49032e871515ce92727",
        ),
        (
            Mode::Native,
            "d88120d619e2f82d6106bbebbb880e5d79bc46c4cede8fc9eab13d9fdee005c5",
        ),
    ];
    for (mode, digest) in known {
        let mut machine = busy_machine();
        machine.mode = mode;
        // As the default was when the digests were taken.
        machine.mmu.scattered_frames_percent = 0;
        let registry = Registry::shipped();
        // Those that were there when the digests were taken; a scheme added later has none here.
        let there = [
            "ipi",
            "kvmtlb",
            "shoot4u",
            "unitd",
            "hatric",
            "didi",
            "site",
            "attc",
            "pom-tlb",
            "ideal",
            "ideal-atlb",
        ];
        let found = there.map(|name| registry.find(name).expect("it is still there"));
        let fits = |spec: &&'static Spec| spec.refuses(mode).is_none();
        let mut schemes: Vec<&'static Spec> = found.into_iter().filter(fits).collect();
        schemes.sort_by_key(|spec| spec.name);
        let options = Options {
            vms: 2,
            threads_per_vm: 3,
            check: true,
            ..Options::default()
        };
        let source = Memory::new(busy_trace(21, 6, 200, 20_000), 777);
        let jobs = jobs(&machine, &schemes);
        let all = compare(source, u64::MAX, &jobs, &options, 2).expect("a valid run");
        assert_eq!(all.digest, digest, "{mode:?}");
    }
}

#[test]
fn updates_of_several_pages_lose_and_regain_the_rights_of_the_same_pages() {
    let updates = Mix {
        many_percent: 30,
        whole_percent: 30,
    };
    let workload = find("wordcount").expect("a workload");
    let options = GeneratorOptions {
        seed: 1,
        sweep_rate: 2_000_000,
        vms: 1,
        accesses: 400_000,
        dram_percent: 95,
    };
    let workload = Workload {
        updates,
        ..workload
    };
    let mut source = Generator::new(workload, &options).expect("valid options");
    let mut records = Vec::new();
    while source.next_block(&mut records).expect("no end of records") {}
    let mut lost = std::collections::BTreeMap::new();
    let mut lengths = std::collections::BTreeMap::new();
    for record in records {
        let Record::Map {
            thread,
            start,
            len,
            prot,
            ..
        } = record
        else {
            continue;
        };
        if prot.write {
            assert_eq!(lost.remove(&thread), Some((start, len)));
        } else {
            assert_eq!(lost.insert(thread, (start, len)), None);
            *lengths.entry(len >> 12).or_insert(0) += 1;
        }
    }
    let kinds: Vec<u64> = lengths.keys().copied().collect();
    assert_eq!(kinds, [1, 8, 64], "{lengths:?}");
    // Of each hundred 40, 30 and 30.
    assert!(
        lengths[&1] > lengths[&8] && lengths[&8] * 2 > lengths[&1],
        "{lengths:?}"
    );
}

#[test]
fn a_trace_shorter_than_its_warm_up_is_refused_with_numbers() {
    let options = Options {
        warmup: 500,
        ..Options::default()
    };
    let jobs = jobs(&MachineConfig::default(), &[&scheme::IDEAL]);
    let error = compare(generator("vips", 100), 100, &jobs, &options, 1).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("100 accesses, the warm-up needs 500"),
        "{error}"
    );
}

#[test]
fn an_address_beyond_48_bits_is_named_with_its_record() {
    let bad = Record::Access {
        thread: 0,
        vaddr: 1 << 50,
        size: 8,
        write: false,
        instructions: 1,
    };
    let jobs = jobs(&MachineConfig::default(), &[&scheme::IDEAL]);
    let source = Memory::new(vec![bad], 1);
    let error = compare(source, u64::MAX, &jobs, &Options::default(), 1).unwrap_err();
    assert!(error.to_string().starts_with("record 0:"), "{error}");
}

#[test]
fn unknown_key_names_line_and_the_nearest_right_one() {
    let error = Registry::shipped()
        .load("[core]\ncuont = 4\n", "m.toml")
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("m.toml:2:1: unknown field"), "{error}");
    assert!(error.contains("did you mean `count`"), "{error}");
}

#[test]
fn impossible_machines_are_refused_by_key() {
    for (text, begins) in [
        ("[core]\ncount = 0", "m.toml:2:9: `core.count`"),
        ("mmu.l2 = { entries = 1000 }", "m.toml:1:10: `mmu.l2`"),
        ("[attc]\n\natlb_kib = 512", "m.toml:3:12: `attc.atlb_kib`"),
        ("[l3]\nkib = 1024", "m.toml:2:7: `l3.kib`"),
        ("[l1d]\nkib = 4", "m.toml:2:7: `l1d.kib`"),
        ("[dram]\nbanks = 3", "m.toml:2:9: `dram.banks`"),
        (
            "hybrid.guest_percent = 101",
            "m.toml:1:24: `hybrid.guest_percent`",
        ),
        (
            "attc.host_update_cycles = 4000000000",
            "m.toml:1:27: `attc.host_update_cycles`",
        ),
        // The preset's own value is too small for more cores.
        ("[core]\ncount = 128", "m.toml: `l3.kib`"),
        (
            "preset = \"servre\"",
            "m.toml:1:10: no preset `servre`; did you mean `server`?",
        ),
    ] {
        let error = Registry::shipped()
            .load(text, "m.toml")
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(begins), "{text}: {error}");
    }
}

#[test]
fn a_section_given_in_part_keeps_its_own_defaults() {
    let machine = Registry::shipped()
        .load("[mmu.l2]\nmiss_cycles = 20", "m.toml")
        .unwrap();
    assert_eq!((machine.mmu.l2.entries, machine.mmu.l2.ways), (1536, 12));
    assert!(
        Registry::shipped()
            .load("preset = \"server\"", "m.toml")
            .unwrap()
            .core
            .count
            == 32
    );
}

#[test]
fn native_schemes_say_that_they_are_native() {
    let jobs = jobs(&MachineConfig::default(), &[&scheme::UNITD]);
    let error = compare(generator("vips", 10), 10, &jobs, &Options::default(), 1).unwrap_err();
    assert!(error.to_string().contains("mode = \"native\""), "{error}");
}

/// Initiator and victim cycles of each scheme on the same 600,000 accesses of freqmine.
fn coherence_cycles(mode: Mode, schemes: &[&'static Spec]) -> Vec<u64> {
    let machine = MachineConfig {
        mode,
        ..MachineConfig::default()
    };
    let source = generator("freqmine", 600_000);
    let jobs = jobs(&machine, schemes);
    let all = compare(source, 600_000, &jobs, &Options::default(), 2).expect("a valid run");
    let cost = |outcome: &steady_coherence::Outcome| {
        outcome.counts.initiator_cycles + outcome.counts.victim_cycles
    };
    all.outcomes.iter().map(cost).collect()
}

#[test]
fn virtualized_costs_fall_from_kvmtlb_over_shoot4u_and_attc_to_ideal() {
    let schemes = [
        &scheme::KVMTLB,
        &scheme::SHOOT4U,
        &scheme::ATTC,
        &scheme::IDEAL,
    ];
    let costs = coherence_cycles(Mode::Virtualized, &schemes);
    assert!(costs.windows(2).all(|pair| pair[0] > pair[1]), "{costs:?}");
}

#[test]
fn native_hardware_costs_a_tenth_of_interrupts_at_most() {
    let schemes = [&scheme::IPI, &scheme::UNITD, &scheme::ATTC];
    let costs = coherence_cycles(Mode::Native, &schemes);
    assert!(
        costs[0] > 10 * costs[1] && costs[0] > 10 * costs[2],
        "{costs:?}"
    );
}

#[test]
fn generators_have_table_3_s_threads_and_stay_in_its_footprint() {
    for workload in TABLE_3 {
        let mut source = generator(workload.name, 50_000);
        let data: u64 = source.residents()[0].pages;
        assert_eq!(
            data,
            u64::from(workload.footprint_mib) * 256,
            "{}",
            workload.name
        );
        let residents = source.residents();
        let mut records = Vec::new();
        while source.next_block(&mut records).unwrap() {}
        let threads: std::collections::BTreeSet<u16> = records.iter().map(Record::thread).collect();
        assert_eq!(
            threads.len(),
            usize::from(workload.threads),
            "{}",
            workload.name
        );
        for record in &records {
            if let Record::Access { vaddr, .. } = record {
                let holds =
                    |one: &Resident| (one.start..one.start + (one.pages << 12)).contains(vaddr);
                assert!(residents.iter().any(holds), "{vaddr:#x}");
            }
        }
    }
}

#[test]
fn a_marker_begins_the_counting() {
    let mut records = busy_trace(2, 2, 16, 1_000);
    let before = records
        .iter()
        .filter(|record| matches!(record, Record::Access { thread: 0, .. }))
        .count();
    records.push(Record::Marker { thread: 0, id: 7 });
    for _ in 0..10 {
        records.push(Record::Access {
            thread: 0,
            vaddr: BASE,
            size: 8,
            write: false,
            instructions: 1,
        });
    }
    let options = Options {
        start_marker: Some(7),
        ..Options::default()
    };
    let jobs = jobs(&busy_machine(), &[&scheme::IDEAL]);
    let all = compare(Memory::new(records, 64), u64::MAX, &jobs, &options, 1).unwrap();
    let counted = all.outcomes[0].counts.accesses;
    assert!((10..before as u64).contains(&counted), "{counted} counted");
}
