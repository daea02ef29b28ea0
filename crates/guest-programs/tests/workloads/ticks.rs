// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What does `ticks` tell of threads that are bound to no CPU?

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
