// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Paratick in the real kernel: does it take the exits away, and does a guest have all its ticks?

use crate::support::{Place, ends_well, metric, project};

#[test]
fn a_guest_whose_host_ticks_programs_next_to_no_timer_and_has_half_the_exits() {
    let place = Place::new();
    let scenario = project().join("scenarios/papers/paratick-sequential.toml");
    ends_well(
        &place
            .run(&scenario, &["--engine", "qemu"])
            .output()
            .unwrap(),
    );
    let result = place.result("paratick-sequential", "qemu");
    let count = |variant, name| metric(&result, variant, "sysbench", name);
    let (stock, ours) = (
        count("tickless", "timer.writes"),
        count("paratick", "timer.writes"),
    );
    assert!(stock >= 10 * ours, "{stock} writes against {ours}");
    let (stock, ours) = (
        count("tickless", "exits.total"),
        count("paratick", "exits.total"),
    );
    assert!(stock >= 2 * ours, "{stock} exits against {ours}");
}

#[test]
fn ticks_of_a_guest_that_sleeps_and_computes_are_within_a_hundredth_of_its_rate() {
    let place = Place::new();
    let scenario = project().join("scenarios/papers/paratick-multithreaded.toml");
    let words = ["--engine", "qemu", "--variant", "paratick"];
    ends_well(&place.run(&scenario, &words).output().unwrap());
    let result = place.result("paratick-multithreaded", "qemu");
    let ticks = |name| metric(&result, "paratick", "ticks", name);
    assert_eq!(ticks("ticks.virtual_cpus"), 2);
    assert!(ticks("ticks.jiffies_off") <= 1, "jiffies are late");
    let off_ppm = ticks("ticks.off");
    assert!(off_ppm <= 10_000, "{off_ppm} ppm");
}
