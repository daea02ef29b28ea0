// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the kernels of a run say of themselves when something is wrong with them, though they go
//! on: a stall, a lock-up, an oops. Such a run has an end and numbers, but not those of a sound
//! machine.
//!
//! Left out: panics, which end a run as a fault, and what the console does not show: of `WARNING:`
//! only kernels that check themselves speak there ([`crate::translate::HEAR_WARNINGS`]).

use std::fs;
use std::path::Path;

use steady_agent::complaint::complaint;
use steady_measures::Warning;

use crate::engine::SERIAL;

/// The code of these warnings.
pub const KERNEL_COMPLAINED: &str = "kernel-complained";

/// A warning for each kernel of a run that complained: the host's, and those of `vms`.
#[must_use]
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
        let mut said = log.lines().filter_map(complaint);
        let first = said.next()?;
        let more = match said.count() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Some(Warning {
            code: KERNEL_COMPLAINED.to_owned(),
            text: format!(
                "the kernel of {who} complained: {first}{more} (read {file}); its measures are not \
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
        assert!(found[0].text.contains(" on CPU (read b.console.log)"));
    }

    #[test]
    fn the_first_complaint_is_told_with_the_number_of_those_behind_it() {
        let run = tempfile::tempdir().expect("a folder");
        let log = "[ 0.1] WARNING: suspicious RCU usage\n[ 0.1] other words\n\
            [ 0.2] BUG: sleeping function called from invalid context at x.c:1\n";
        fs::write(run.path().join(SERIAL), log).expect("written");
        let found = warnings(run.path(), &[]);
        let text = &found[0].text;
        assert!(
            text.contains("complained: WARNING: suspicious RCU usage and 1 more (read"),
            "{text}"
        );
    }
}
