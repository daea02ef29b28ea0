// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Paratick in the real kernel: is a guest's timer left alone, and has the guest its ticks all the
//! same, also when its host thinks again?

use crate::support::{Place, ends_well, metric, project};

#[test]
fn a_program_that_blocks_leaves_its_timer_alone_and_has_its_ticks() {
    let place = Place::new();
    let scenario = project().join("scenarios/papers/paratick-multithreaded.toml");
    let words = [
        "--variant",
        "tickless",
        "--variant",
        "paratick",
        "--repetitions",
        "1",
    ];
    ends_well(&place.run(&scenario, &words).output().unwrap());
    let result = place.result("paratick-multithreaded", "bochs");
    for measure in ["timer.writes", "timer.interrupts"] {
        let [stock, remedied] =
            ["tickless", "paratick"].map(|variant| metric(&result, variant, "hackbench", measure));
        assert!(
            remedied * 2 <= stock,
            "{measure}: {remedied} against {stock}"
        );
    }
    let [handled, expected] = ["handled", "expected"]
        .map(|name| metric(&result, "paratick", "ticks", &format!("ticks.{name}")));
    assert!(
        handled.abs_diff(expected) * 10 <= expected.unsigned_abs(),
        "{handled} ticks of {expected}"
    );
}

#[test]
fn a_guest_whose_host_stops_giving_ticks_programs_its_own() {
    let place = Place::new();
    let scenario = project().join("scenarios/paratick-modes.toml");
    let words = [
        "--variant",
        "withdrawn",
        "--variant",
        "unwilling",
        "--repetitions",
        "1",
    ];
    ends_well(&place.run(&scenario, &words).output().unwrap());
    let result = place.result("paratick-modes", "bochs");
    for variant in ["withdrawn", "unwilling"] {
        assert_eq!(
            metric(&result, variant, "ticks", "ticks.virtual_cpus"),
            0,
            "{variant}"
        );
        assert!(
            metric(&result, variant, "ticks", "ticks.jiffies_off") <= 2,
            "{variant}"
        );
    }
}
