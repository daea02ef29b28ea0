// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The init of the lab's kernels: of the emulated host with `steady.role=host` on the kernel's
//! command line, of a guest without it.
//!
//! It is the only process that the lab brings along beside the VMM and the workloads, so it
//! mounts, supervises, counts and reports; it never leaves without saying why.

mod guest;
mod host;
mod raw;
mod system;

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::process::id() != 1 {
        eprintln!("steady-agent is the init of the lab's kernels; it does nothing as process {}", std::process::id());
        return ExitCode::from(2);
    }
    if let Err(error) = system::mount_base() {
        eprintln!("steady-agent: {error:#}");
        system::restart();
    }
    let cmdline = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
    if cmdline.split_whitespace().any(|word| word == "steady.role=host") {
        host::run();
    } else {
        guest::run();
    }
    system::restart();
}
