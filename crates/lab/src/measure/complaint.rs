// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a kernel says of itself when something is wrong with it, though it goes on: a stall, a
//! lock-up, an oops. Such a run has an end and numbers, but not those of a sound machine.
//!
//! Left out: panics, which end a run as a fault, and what the console does not show: `WARNING:` is
//! below the level of a quiet one.

use std::fs;
use std::path::Path;

use steady_measures::Warning;

use crate::engine::SERIAL;

/// How such lines begin in Linux 6.12, behind their time stamp (`kernel/rcu`, `kernel/watchdog.c`,
/// `kernel/hung_task.c`, `kernel/panic.c`, `arch/x86/kernel/dumpstack.c`).
const BEGINNINGS: [&str; 7] = [
    "rcu: INFO: ",
    "watchdog: BUG: ",
    "INFO: task ",
    "BUG: ",
    "Oops: ",
    "WARNING: ",
    "general protection fault",
];

/// The first complaint in a console's log, without its time stamp.
fn first(log: &str) -> Option<&str> {
    log.lines().find_map(|line| {
        let text = match line.trim_start().strip_prefix('[') {
            Some(rest) => rest.split_once("] ")?.1,
            None => line,
        };
        let text = text.trim();
        let complains = BEGINNINGS.iter().any(|word| text.starts_with(word));
        complains.then_some(text)
    })
}

/// A warning for each kernel of a run that complained: the host's, and those of `vms`.
pub fn warnings(run_directory: &Path, vms: &[&str]) -> Vec<Warning> {
    let host = [("the host".to_owned(), SERIAL.to_owned())];
    let guests = vms
        .iter()
        .map(|vm| (format!("VM {vm}"), format!("{vm}.console.log")));
    let logs = host.into_iter().chain(guests);
    logs.filter_map(|(who, file)| {
        // A VM that a variant leaves out has no log.
        let bytes = fs::read(run_directory.join(&file)).ok()?;
        let log = String::from_utf8_lossy(&bytes);
        let said = first(&log)?;
        Some(Warning {
            code: "kernel-complained".to_owned(),
            text: format!(
                "the kernel of {who} complained: {said} (read {file}); its measures are not \
                 those of a sound machine"
            ),
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALL: &str = "[    0.010348] ACPI BIOS Error (bug): A valid RSDP was not found\r\n\
        [   21.867513] rcu: INFO: rcu_sched self-detected stall on CPU\r\n\
        [   21.869353] rcu: \t0-...!: (1 ticks this GP) idle=0eac/0/0x1\r\n";

    #[test]
    fn a_stall_is_found_behind_its_time_stamp() {
        let found = first(STALL);
        assert_eq!(
            found,
            Some("rcu: INFO: rcu_sched self-detected stall on CPU")
        );
    }

    #[test]
    fn what_firmware_and_drivers_lack_is_no_complaint() {
        let log = "[    0.010348] ACPI BIOS Error (bug): A valid RSDP was not found\n\
            [    0.121551] [Firmware Bug]: TSC_DEADLINE disabled due to Errata\n\
            [    0.160117] kvm_intel: VMX not supported by CPU 0\nno stamp: BUG: here\n";
        assert_eq!(first(log), None);
    }

    #[test]
    fn each_kernel_that_complained_is_named_with_its_log() {
        let run = tempfile::tempdir().expect("a folder");
        fs::write(run.path().join(SERIAL), "[ 0.1] all is well\n").expect("written");
        fs::write(run.path().join("b.console.log"), STALL).expect("written");
        let found = warnings(run.path(), &["a", "b"]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0]
                .text
                .contains("VM b complained: rcu: INFO: rcu_sched")
        );
        assert!(found[0].text.contains("(read b.console.log)"));
    }
}
