// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The VMs that run on this host, from `/proc`: names, threads, groups, pinning, limits.
//!
//! A VMM is a process with a thread that is named like a vCPU's, or with a VM of KVM open. Threads
//! of a QEMU that does not name them (`debug-threads=off`) are noted as those of its VM, without
//! numbers.

use std::fs;
use std::path::Path;

use steady_diagnose::{VcpuNote, VmNote, VmNotes, vcpu_number};

/// Threads of a process that are noted.
const THREADS_MAX: usize = 4096;

/// All VMs, by process. `proc` and `groups` are where procfs and the control groups are mounted.
pub(crate) fn vms(proc: &Path, groups: &Path) -> VmNotes {
    let mut processes: Vec<i32> = numbers(proc);
    processes.sort_unstable();
    let found = processes
        .into_iter()
        .filter_map(|process| vm(proc, groups, process));
    VmNotes::new(found.collect())
}

/// The entries of a folder that are numbers.
fn numbers(folder: &Path) -> Vec<i32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

fn vm(proc: &Path, groups: &Path, process: i32) -> Option<VmNote> {
    let home = proc.join(process.to_string());
    let tasks = home.join("task");
    let mut tids = numbers(&tasks);
    tids.sort_unstable();
    tids.truncate(THREADS_MAX);
    let (mut threads, mut vcpus) = (Vec::new(), Vec::new());
    for tid in tids {
        let task = tasks.join(tid.to_string());
        let comm = fs::read(task.join("comm")).unwrap_or_default();
        match vcpu_number(comm.trim_ascii_end()) {
            Some(number) => vcpus.push(vcpu(&task, groups, number, tid)),
            None => threads.push(tid),
        }
    }
    if vcpus.is_empty() && !has_vm(&home) {
        return None;
    }
    vcpus.sort_by_key(|vcpu| (vcpu.number, vcpu.tid));
    let words = fs::read(home.join("cmdline")).unwrap_or_default();
    let words: Vec<String> = words
        .split(|byte| *byte == 0)
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    let program = words
        .first()
        .map_or("", |word| word.rsplit('/').next().unwrap_or(word));
    Some(VmNote {
        name: name(&words),
        process,
        vmm: program.to_owned(),
        cgroup: cgroup(&home),
        threads,
        vcpus,
    })
}

/// Whether the process has a VM of KVM open.
fn has_vm(home: &Path) -> bool {
    let entries = fs::read_dir(home.join("fd"))
        .into_iter()
        .flatten()
        .flatten();
    let mut links = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
    links.any(|link| link.to_str() == Some("anon_inode:kvm-vm"))
}

fn vcpu(task: &Path, groups: &Path, number: u32, tid: i32) -> VcpuNote {
    let status = fs::read_to_string(task.join("status")).unwrap_or_default();
    let mut lines = status.lines();
    let cpus = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let cgroup = cgroup(task);
    let own = cgroup
        .as_deref()
        .map(|path| groups.join(path.trim_start_matches('/')));
    let read = |folder: &Path, file: &str| {
        let text = fs::read_to_string(folder.join(file)).ok()?;
        Some(text.trim().to_owned())
    };
    let limit = own.as_deref().and_then(|own| {
        let within = own
            .ancestors()
            .take_while(|folder| folder.starts_with(groups));
        // Each group above has its own: the tightest is reached first.
        let limits = within.filter_map(|folder| read(folder, "cpu.max"));
        let limits = limits.filter_map(|limit| Some((share(&limit)?, limit)));
        limits.min().map(|(_, limit)| limit)
    });
    // That none is set is known where all groups are of the unified hierarchy.
    let unified = groups.join("cgroup.controllers").exists() && own.is_some();
    let none = || unified.then(|| "max 100000".to_owned());
    VcpuNote {
        number,
        tid,
        cpus: cpus.map(|cpus| cpus.trim().to_owned()),
        cpu_max: limit.or_else(none),
        cpu_weight: own.as_deref().and_then(|own| read(own, "cpu.weight")),
        cgroup,
    }
}

/// Of a limit `QUOTA PERIOD`, the quota in thousandths of a CPU; `max` is not one.
fn share(limit: &str) -> Option<u64> {
    let (quota, period) = limit.split_once(' ')?;
    let (quota, period): (u64, u64) = (quota.parse().ok()?, period.parse().ok()?);
    quota.checked_mul(1000)?.checked_div(period)
}

/// The control group of the unified hierarchy; of the older one that of the CPU controller.
fn cgroup(home: &Path) -> Option<String> {
    let text = fs::read_to_string(home.join("cgroup")).ok()?;
    let unified = text.lines().find_map(|line| line.strip_prefix("0::"));
    let by_cpu = || {
        text.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let controllers = parts.next()?;
            let path = parts.next()?;
            controllers
                .split(',')
                .any(|name| name == "cpu")
                .then_some(path)
        })
    };
    unified.or_else(by_cpu).map(str::to_owned)
}

/// What the VMM calls its VM: `-name guest=web,debug-threads=on` or `-name web` of QEMU, `--name`
/// of crosvm, `--id` of Firecracker.
fn name(words: &[String]) -> Option<String> {
    let at = words
        .iter()
        .position(|word| matches!(word.as_str(), "-name" | "--name" | "--id"))?;
    let value = words.get(at + 1)?;
    // QEMU writes a comma in a name twice.
    let value = value.replace(",,", "\u{0}");
    let mut parts = value.split(',');
    let guest = parts.clone().find_map(|part| part.strip_prefix("guest="));
    let name = guest.or_else(|| parts.next().filter(|part| !part.contains('=')))?;
    let name = name.replace('\u{0}', ",");
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn a_qemu_of_libvirt_is_noted_with_its_name_group_pinning_and_limit() {
        let host = tempfile::tempdir().unwrap();
        let root = host.path();
        let scope = "/machine.slice/machine-qemu\\x2d1\\x2dweb.scope/libvirt";
        let words = "/usr/bin/qemu-system-x86_64\0-name\0guest=web,,1,debug-threads=on\0-S\0";
        write(root, "proc/40/cmdline", words);
        write(root, "proc/40/cgroup", &format!("0::{scope}/emulator\n"));
        for (tid, comm) in [
            (40, "qemu-system-x86"),
            (43, "CPU 1/KVM"),
            (42, "CPU 0/KVM"),
        ] {
            let task = format!("proc/40/task/{tid}");
            write(root, &format!("{task}/comm"), &format!("{comm}\n"));
            write(
                root,
                &format!("{task}/status"),
                "Name:\tx\nCpus_allowed_list:\t2-3\n",
            );
            let group = format!("0::{scope}/vcpu{}\n", tid - 42);
            write(root, &format!("{task}/cgroup"), &group);
        }
        write(root, "proc/41/task/41/comm", "bash\n");
        // Of three groups the outermost has the tightest limit.
        write(root, "groups/machine.slice/cpu.max", "20000 100000\n");
        let groups = format!("groups{scope}");
        write(root, &format!("{groups}/vcpu0/cpu.max"), "max 100000\n");
        write(root, &format!("{groups}/vcpu0/cpu.weight"), "100\n");
        write(root, &format!("{groups}/cpu.max"), "50000 100000\n");
        let notes = vms(&root.join("proc"), &root.join("groups"));
        assert_eq!(notes.vms.len(), 1);
        let vm = &notes.vms[0];
        assert_eq!(vm.name.as_deref(), Some("web,1"));
        assert_eq!((vm.process, vm.vmm.as_str()), (40, "qemu-system-x86_64"));
        assert_eq!(vm.threads, [40]);
        let numbers: Vec<(u32, i32)> = vm.vcpus.iter().map(|v| (v.number, v.tid)).collect();
        assert_eq!(numbers, [(0, 42), (1, 43)]);
        let first = &vm.vcpus[0];
        assert_eq!(first.cpus.as_deref(), Some("2-3"));
        assert_eq!(first.cpu_max.as_deref(), Some("20000 100000"));
        assert_eq!(first.cpu_weight.as_deref(), Some("100"));
        assert!(
            first
                .cgroup
                .as_deref()
                .is_some_and(|group| group.ends_with("/vcpu0"))
        );
    }

    #[test]
    fn that_no_limit_is_set_is_noted_where_it_is_known() {
        let host = tempfile::tempdir().unwrap();
        let (task, groups) = (host.path().join("task"), host.path().join("groups"));
        write(host.path(), "task/cgroup", "0::/a.scope\n");
        write(host.path(), "groups/a.scope/cpu.max", "max 100000\n");
        let noted = || vcpu(&task, &groups, 0, 7).cpu_max;
        assert_eq!(noted(), None);
        write(host.path(), "groups/cgroup.controllers", "cpu memory\n");
        assert_eq!(noted().as_deref(), Some("max 100000"));
    }

    #[test]
    fn names_are_read_as_each_vmm_is_given_them() {
        let of = |words: &[&str]| name(&words.iter().map(|&w| w.to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["qemu", "-name", "web"]).as_deref(), Some("web"));
        assert_eq!(of(&["qemu", "-name", "debug-threads=on"]), None);
        assert_eq!(
            of(&["firecracker", "--id", "fc-1"]).as_deref(),
            Some("fc-1")
        );
        assert_eq!(of(&["qemu", "-name"]), None);
        assert_eq!(of(&["bash"]), None);
    }
}
