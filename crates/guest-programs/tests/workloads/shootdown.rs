// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the shootdown program does to its targets.

use super::*;

/// How long runs are repeated until their target was interrupted often enough.
const LIMIT: Duration = Duration::from_secs(60);

/// Whether the runs interrupted their target half as often as one of them has operations. What the
/// same operations count without a target is taken off: that was done by other programs. On a busy
/// machine a target is interrupted only while it has a CPU, so that one run may be too few.
fn interrupts_its_target(args: &[&str], operations: i64) -> bool {
    let count = operations.to_string();
    let counts = ["--operations", &count, "--local-operations", &count];
    let args = [&["--targets", "1"], args, &counts].concat();
    let end = Instant::now() + LIMIT;
    let mut interrupts = 0;
    while Instant::now() < end {
        let report = run("shootdown", &args);
        let values = values(&report);
        assert_eq!(values["shootdown.operations"], operations);
        interrupts += values["shootdown.ipis"] - values["shootdown.local_ipis"];
        if interrupts >= operations / 2 {
            return true;
        }
    }
    false
}

#[test]
fn each_method_of_shootdown_interrupts_its_target() {
    needs_two_cpus();
    for method in ["mprotect", "madvise", "munmap", "munmap-area"] {
        assert!(
            interrupts_its_target(&["--method", method], 400),
            "{method}: the target was interrupted for fewer than 200 operations within {LIMIT:?}"
        );
    }
}

#[test]
fn the_call_that_gives_the_right_back_is_rare() {
    needs_two_cpus();
    const OPERATIONS: i64 = 320;
    // It shoots down too, and were it made before each operation, the targets would have just run.
    // Other programs' shootdowns only add to the count, so the least of several runs.
    let least = (0..5)
        .map(|_| {
            let args = words("--targets 1 --operations 320 --method mprotect");
            values(&run("shootdown", &args))["shootdown.ipis"]
        })
        .min()
        .expect("five runs");
    assert!(
        least < OPERATIONS * 3 / 2,
        "{least} interrupts for {OPERATIONS} operations"
    );
}

#[test]
fn pages_beyond_the_ceiling_of_single_flushes_work_too() {
    needs_two_cpus();
    let report = run(
        "shootdown",
        &words("--pages 40 --operations 20 --local-operations 0"),
    );
    assert_eq!(
        report.distributions.len(),
        1,
        "no control series was asked for"
    );
    assert!(values(&report)["shootdown.latency.max"] > 0);
}

#[test]
fn targets_that_block_now_and_then_are_still_shot_down() {
    needs_two_cpus();
    let args =
        words("--method munmap-area --sleep-us 50 --target-sleep-us 100 --target-work-us 100");
    assert!(
        interrupts_its_target(&args, 200),
        "the target was interrupted for fewer than 100 operations within {LIMIT:?}"
    );
}
