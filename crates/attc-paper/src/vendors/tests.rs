// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Do the forms differ in what they say and in nothing else, and do their keys see it?

use steady_coherence::scheme::atlb::WARM as WARM_TABLE;
use steady_coherence::workload::Workload;

use super::*;

fn dedup() -> Workload {
    find("dedup").expect("it is in Table 3")
}

#[test]
fn the_runs_of_the_key_have_updates_under_every_scheme() {
    for place in places::all().iter().filter(|place| place.vms == 1) {
        let found = place.run(dedup(), (1, CALIBRATED_RATE * OFTEN), GLANCE);
        for outcome in found.expect("it runs") {
            let counts = outcome.counts;
            let updates = counts.program_updates + counts.guest_migrations;
            assert!(updates > 0, "{}", outcome.label);
        }
    }
    for form in &FORMS {
        let key = form.fingerprint().expect("it runs");
        assert_eq!(form.fingerprint().expect("it runs"), key);
    }
}

#[test]
fn the_warm_form_counts_after_more_accesses_than_its_working_set_has_lines() {
    let [short, warm, ..] = &FORMS;
    let workload = dedup();
    let kib = u64::from(workload.footprint_mib) << 10;
    let lines = kib * u64::from(workload.pattern.working_set_percent) / 100 * 16;
    // Eight words of a line follow each other where a thread streams.
    let streamed = |form: &Form| {
        let accesses = form.length.warmup * u64::from(workload.threads);
        accesses * u64::from(workload.pattern.stream_per_1000) / 1000 / 8
    };
    assert!(streamed(warm) > lines && streamed(short) < lines);
    let (of_warm, of_short) = (warm.given(), short.given());
    for (label, conditions) in &of_warm {
        assert_eq!(conditions["cores"], "8");
        assert_eq!(of_short.get(label), Some(conditions), "{label}");
    }
}

#[test]
fn a_table_that_begins_empty_is_the_one_change_to_machines_of_the_same_name() {
    for (full, empty) in [(0, 2), (1, 3)] {
        let full = FORMS[full].machines();
        for (label, machine) in FORMS[empty].machines() {
            assert!(!machine.schemes.flag(&WARM_TABLE), "{label}");
            let mut same = machine;
            same.schemes.set(&WARM_TABLE, true);
            assert_eq!(Some(&same), full.get(&label), "{label}");
        }
    }
}

#[test]
fn a_result_has_the_length_of_its_own_runs_and_each_seed_of_every_label() {
    let form = Form {
        word: "x",
        title: "x",
        question: "x",
        length: GLANCE,
        places: places::warm_empty,
        flushes: false,
    };
    let settings = Settings {
        seeds: 2,
        ..Settings::full()
    };
    let result = form.run(&settings, ("x", ""), &|_, _| {});
    let result = result.expect("it runs");
    assert_eq!(result.config["accesses_of_each_thread"], "400");
    assert_eq!(result.config["warmup_of_each_thread"], "100");
    assert!(!result.config.contains_key("accesses"));
    assert_eq!(result.variants.len(), form.given().len());
    for variant in &result.variants {
        let counts = variant.repetitions.iter().map(|one| one.metrics.len());
        assert_eq!(counts.collect::<Vec<_>>(), [1, 1], "{}", variant.name);
    }
}

#[test]
fn the_keys_of_rivals_reach_them() {
    let update = |name: &str| {
        let places = places::all();
        let place = places.iter().find(|place| place.name == name);
        let rate = (1, CALIBRATED_RATE * OFTEN);
        let found = place.expect("a place").run(dedup(), rate, GLANCE);
        let all = found.expect("it runs");
        let own = all.iter().find(|one| one.scheme == "invlpgb");
        let counts = own.expect("a job").counts;
        (counts.ipi_shootdowns, counts.initiator_cycles)
    };
    let ((none, usual), (ipis, _), (quick_none, quick)) =
        (update("8"), update("8-ipis"), update("8-quick"));
    assert_eq!((none, quick_none), (0, 0), "nothing is interrupted");
    assert!(ipis > 0, "guests send IPIs");
    assert!(quick < usual, "the wait is shorter");
}
