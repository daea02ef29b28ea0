// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What does `ticks` report of threads that are bound to no CPU, and of waits for jiffies?

use super::*;

const SHORT: [&str; 2] = ["--milliseconds", "200"];

#[test]
fn threads_bound_to_no_cpu_are_told_of_where_there_are_some() {
    let alone = run("ticks", &SHORT);
    assert!(!values(&alone).contains_key("ticks.roaming.operations"));

    let mut args = SHORT.to_vec();
    args.extend(["--threads", "1", "--roaming", "2"]);
    let beside = run("ticks", &args);
    let [operations, time_ns] =
        ["operations", "time"].map(|part| values(&beside)[&*format!("ticks.roaming.{part}")]);
    assert!(operations > 0, "they came nowhere");
    assert!(time_ns >= 200_000_000, "{time_ns} ns of at least 200 ms");
}

#[test]
fn more_threads_bound_to_no_cpu_than_there_is_room_for_are_refused() {
    refused("ticks", &["--roaming", "65"], &["roaming", "64"]);
}

#[test]
fn a_receive_takes_its_timeout_or_longer_and_a_grace_period_some_time() {
    let mut args = SHORT.to_vec();
    args.extend(["--threads", "1", "--receive-us", "10000", "--grace", "1"]);
    let report = run("ticks", &args);
    let of = |name: &str| values(&report)[&*format!("ticks.{name}")];
    assert!(of("receive.count") > 0 && of("grace.count") > 0);
    assert!(of("receive.min") >= 10_000_000, "{} ns", of("receive.min"));
    assert_eq!(of("receive.early"), 0);
    assert!(of("grace.max") > 0);
    for wait in ["receive", "grace"] {
        let parts = ["min", "p50", "p99", "max"].map(|part| of(&format!("{wait}.{part}")));
        assert!(parts.is_sorted(), "{wait}: {parts:?}");
    }
}

#[test]
fn waits_for_jiffies_are_reported_only_where_they_were_asked_for() {
    let report = run("ticks", &SHORT);
    assert!(
        !values(&report)
            .keys()
            .any(|name| { name.starts_with("ticks.receive") || name.starts_with("ticks.grace") })
    );
}
