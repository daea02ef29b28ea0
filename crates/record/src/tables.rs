// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables of the host that stand beside a trace, as text that `steady diagnose` reads like any
//! other: the limits of the VMs' groups and the pressure of CPUs, each before and after the
//! recording, and what the kernel's log complains of.
//!
//! Left out: times of the vCPUs' threads, which the trace has itself.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use steady_diagnose::VmNotes;
use steady_hostview::Host;

/// Groups whose limits are read.
const GROUPS: usize = 1024;
/// Bytes of the kernel's log that are kept, from its end.
const LOG: usize = 256 << 10;
/// Bytes of all tables at most.
const MOST: usize = 4 << 20;

/// The host's tables as they are now.
pub(crate) fn tables(host: &Host, notes: &VmNotes) -> String {
    let (mut out, groups) = (String::new(), &host.groups);
    append(&mut out, &host.proc.join("pressure/cpu"));
    let vcpus = notes.vms.iter().flat_map(|vm| &vm.vcpus);
    let mut folders = BTreeSet::new();
    for group in vcpus.filter_map(|vcpu| vcpu.cgroup.as_deref()) {
        // A limit may be set at any group above; each counts what it kept back itself.
        let own = groups.join(group.trim_start_matches('/'));
        let within = own
            .ancestors()
            .take_while(|folder| folder.starts_with(groups));
        folders.extend(within.map(Path::to_path_buf));
    }
    for folder in folders.iter().take(GROUPS) {
        append(&mut out, &folder.join("cpu.stat"));
    }
    out
}

/// Adds each line of a file behind the file's path, as grep prints several files.
fn append(out: &mut String, file: &Path) {
    let text = fs::read_to_string(file).unwrap_or_default();
    for line in text.lines() {
        if out.len() < MOST {
            let _ = writeln!(out, "{}:{line}", file.display());
        }
    }
}

/// The end of the kernel's log, if it complains of a stall.
pub(crate) fn complaints() -> String {
    let dmesg = Command::new("dmesg").stdin(Stdio::null()).output();
    let bytes = dmesg.map(|output| output.stdout).unwrap_or_default();
    end_with_complaints(&bytes)
}

fn end_with_complaints(log: &[u8]) -> String {
    let mut end = &log[log.len().saturating_sub(LOG)..];
    let text = String::from_utf8_lossy(end).into_owned();
    if steady_tables::complains(&mut end) {
        text
    } else {
        String::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn notes(group: &str) -> VmNotes {
        let vcpu = serde_json::json!({ "number": 0, "tid": 7, "cgroup": group });
        let vm = serde_json::json!({
            "name": "web", "process": 6, "vmm": "qemu", "cgroup": null, "threads": [],
            "vcpus": [vcpu],
        });
        let all = serde_json::json!({ "schema": "steady.vms", "version": 1, "vms": [vm] });
        VmNotes::parse(all.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn limits_of_all_groups_above_and_pressure_are_read_back_as_tables() {
        let host = tempfile::tempdir().unwrap();
        let root = host.path();
        write(
            root,
            "proc/pressure/cpu",
            "some avg10=50.00 avg60=9.00 avg300=1.00 total=7\n",
        );
        let stat = |periods: u64, throttled: u64| {
            format!("nr_periods {periods}\nnr_throttled {throttled}\nthrottled_usec 9\n")
        };
        write(
            root,
            "sys/fs/cgroup/a.slice/vm.scope/cpu.stat",
            &stat(100, 90),
        );
        write(root, "sys/fs/cgroup/a.slice/cpu.stat", "usage_usec 1\n");
        let now = || tables(&Host::under(root), &notes("/a.slice/vm.scope"));
        let before = now();
        // While it was recorded: 5 of 10 periods.
        write(
            root,
            "sys/fs/cgroup/a.slice/vm.scope/cpu.stat",
            &stat(110, 95),
        );
        let both = before + &now();
        let mut incident = steady_tables::Incident::default();
        incident.add(steady_tables::read(&mut both.as_bytes(), "t").unwrap());
        let judged = incident.judge();
        let findings: Vec<_> = judged.iter().flat_map(|(_, findings)| findings).collect();
        let shares: Vec<u64> = findings
            .iter()
            .map(|finding| finding.lost_permille)
            .collect();
        assert_eq!(shares, [500, 500]);
        assert!(both.contains("vm.scope/cpu.stat:nr_throttled 95"), "{both}");
    }

    #[test]
    fn a_log_is_kept_only_if_it_complains() {
        let quiet = b"[ 1.0] usb 1-1: new device\n[ 2.0] eth0: link up\n";
        assert_eq!(end_with_complaints(quiet), "");
        let stall = b"[ 1.0] watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [a:1]\n";
        assert!(end_with_complaints(stall).contains("soft lockup"));
    }
}
