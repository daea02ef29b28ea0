// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The init of the lab's kernels: of the emulated host with `steady.role=host` on the kernel's
//! command line, of a guest without it.
//!
//! As an ordinary program it only tells the frequency of the time-stamp counter (`--tsc-khz`).
//!
//! It is the only process that the lab brings along beside the VMM and the workloads, so it
//! mounts, supervises, counts and reports; it never leaves without saying why.

mod guest;
mod host;
mod program;
mod raw;
mod settle;
mod system;

use std::process::ExitCode;

/// How long the time-stamp counter is compared with the clock, in nanoseconds.
const CALIBRATION_NS: u64 = 100_000_000;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("--tsc-khz") {
        println!("{}", time_stamp_khz());
        return ExitCode::SUCCESS;
    }
    if std::process::id() != 1 {
        eprintln!(
            "steady-agent is the init of the lab's kernels; it does nothing as process {}",
            std::process::id()
        );
        return ExitCode::from(2);
    }
    if let Err(error) = system::mount_base() {
        eprintln!("steady-agent: {error}");
        system::restart();
    }
    let cmdline = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
    if cmdline
        .split_whitespace()
        .any(|word| word == "steady.role=host")
    {
        host::run();
    } else {
        guest::run();
    }
    system::restart();
}

/// Frequency of this machine's time-stamp counter, which TCG hands to its guests.
fn time_stamp_khz() -> u64 {
    let (from_ns, from) = (system::now_ns(), raw::time_stamp());
    loop {
        let (now_ns, now) = (system::now_ns(), raw::time_stamp());
        let passed_ns = now_ns - from_ns;
        if passed_ns >= CALIBRATION_NS {
            return now.wrapping_sub(from) * 1_000_000 / passed_ns;
        }
    }
}
