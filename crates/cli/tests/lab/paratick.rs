// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Paratick in the real kernel: is a guest's timer left alone, and has the guest its ticks all the
//! same, also when its host thinks again?

use crate::support::{Place, metric};

#[test]
fn a_program_that_blocks_leaves_its_timer_alone_and_has_its_ticks() {
    let place = Place::new();
    let scenario = "scenarios/papers/paratick-multithreaded.toml";
    let result = place.raced(scenario, &["tickless", "paratick"]);
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
    let scenario = "scenarios/paratick-modes.toml";
    // The first shows that the others would have them.
    let expected = [("paratick", 2), ("withdrawn", 0), ("unwilling", 0)];
    let result = place.raced(scenario, &expected.map(|(variant, _)| variant));
    for (variant, virtual_cpus) in expected {
        let of = |name: &str| metric(&result, variant, "ticks", name);
        assert_eq!(of("ticks.virtual_cpus"), virtual_cpus, "{variant}");
        assert!(of("ticks.jiffies_off") <= 2, "{variant}");
    }
}
