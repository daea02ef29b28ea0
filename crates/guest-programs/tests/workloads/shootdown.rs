// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the shootdown program does to its targets.
use super::*;

/// Whether in one of the runs of half a minute the kernel counted so many TLB interrupts. On a busy
/// machine the target may have no CPU for the whole of a run, and is not interrupted then.
fn soon_interrupts(args: &[&str], least: i64) -> bool {
    let end = Instant::now() + Duration::from_secs(30);
    while Instant::now() < end {
        if values(&run("shootdown", args))["shootdown.ipis"] >= least {
            return true;
        }
    }
    false
}

#[test]
fn each_method_of_shootdown_interrupts_its_target() {
    needs_two_cpus();
    for method in ["mprotect", "madvise", "munmap", "munmap-area"] {
        let args = ["--targets", "1", "--operations", "400", "--method", method];
        assert!(
            soon_interrupts(&args, 200),
            "{method}: in no run did half of 400 operations interrupt the target"
        );
    }
}

#[test]
fn the_call_that_gives_the_right_back_is_rare() {
    needs_two_cpus();
    const OPERATIONS: i64 = 320;
    // It shoots down too, and were it made before each operation, the targets would have just run.
    // Other programs' shootdowns only add to the count, hence the least of several runs.
    let least = (0..5)
        .map(|_| {
            let args = [
                "--targets",
                "1",
                "--operations",
                "320",
                "--method",
                "mprotect",
            ];
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
        &[
            "--pages",
            "40",
            "--operations",
            "20",
            "--local-operations",
            "0",
        ],
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
    let args = [
        "--targets",
        "1",
        "--operations",
        "200",
        "--method",
        "munmap-area",
        "--sleep-us",
        "50",
        "--target-sleep-us",
        "100",
        "--target-work-us",
        "100",
    ];
    assert!(
        soon_interrupts(&args, 100),
        "in no run did half of 200 operations interrupt the target"
    );
}
