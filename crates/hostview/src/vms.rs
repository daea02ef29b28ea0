// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The VMs of a host, from `/proc`: names, threads, groups.
//!
//! A VMM is a process with a thread that is named like a vCPU's, or with a VM of KVM open. Threads
//! of a QEMU that does not name them (`debug-threads=off`) are listed as those of its VM, without
//! vCPUs.

use std::fs;
use std::path::Path;

use steady_events::vcpu_number;

use crate::Host;
use crate::files;
use crate::limits::group;
use crate::names::{Vmm, vm_name};

/// Threads of a process that are looked at.
const THREADS_MAX: usize = 4096;

/// One VM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vm {
    /// The name that its VMM was given: QEMU's `-name`, which is libvirt's domain.
    pub name: Option<String>,
    /// Its VMM's process.
    pub process: i32,
    /// Its VMM's program, without its folder.
    pub program: String,
    /// The management that started it, or its VMM.
    pub vmm: Vmm,
    /// The control group of the process, as `/proc/PID/cgroup` has it.
    pub group: Option<String>,
    /// Threads of the process that are not vCPUs, ascending.
    pub threads: Vec<i32>,
    /// Its vCPUs by number.
    pub vcpus: Vec<Vcpu>,
}

/// One vCPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vcpu {
    /// Its number, from the name of its thread.
    pub number: u32,
    /// Its thread.
    pub tid: i32,
}

impl Vm {
    /// Its name, or its process where it has none.
    #[must_use]
    pub fn label(&self) -> String {
        let process = || format!("process {}", self.process);
        self.name.clone().unwrap_or_else(process)
    }
}

/// All VMs, by process. One that ends meanwhile is left out.
#[must_use]
pub fn vms(host: &Host) -> Vec<Vm> {
    let mut processes: Vec<i32> = numbers(&host.proc);
    processes.sort_unstable();
    let found = processes.into_iter();
    found.filter_map(|process| vm(host, process)).collect()
}

/// The entries of a folder that are numbers.
fn numbers(folder: &Path) -> Vec<i32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

fn vm(host: &Host, process: i32) -> Option<Vm> {
    let home = host.proc.join(process.to_string());
    let tasks = home.join("task");
    let mut tids = numbers(&tasks);
    tids.sort_unstable();
    tids.truncate(THREADS_MAX);
    let (mut threads, mut vcpus) = (Vec::new(), Vec::new());
    for tid in tids {
        let task = tasks.join(tid.to_string());
        let comm = files::text(&task.join("comm")).unwrap_or_default();
        match vcpu_number(comm.trim_end().as_bytes()) {
            Some(number) => vcpus.push(Vcpu { number, tid }),
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
    let group = group(&home);
    Some(Vm {
        name: vm_name(&words),
        process,
        program: program.to_owned(),
        vmm: Vmm::of(program, group.as_deref().unwrap_or("")),
        group,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use crate::files::made::write;

    #[test]
    fn a_qemu_of_libvirt_is_found_with_its_name_group_pinning_and_limit() {
        let made = tempfile::tempdir().unwrap();
        let root = made.path();
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
            let status = "Name:\tx\nCpus_allowed_list:\t2-3\n";
            write(root, &format!("{task}/status"), status);
            let group = format!("0::{scope}/vcpu{}\n", tid - 42);
            write(root, &format!("{task}/cgroup"), &group);
        }
        write(root, "proc/41/task/41/comm", "bash\n");
        let groups = format!("sys/fs/cgroup{scope}");
        write(root, &format!("{groups}/vcpu0/cpu.max"), "max 100000\n");
        write(root, &format!("{groups}/vcpu0/cpu.weight"), "100\n");
        write(root, &format!("{groups}/cpu.max"), "50000 100000\n");
        // Of three groups the outermost has the tightest limit.
        let slice = "sys/fs/cgroup/machine.slice/cpu.max";
        write(root, slice, "20000 100000\n");
        let found = vms(&Host::under(root));
        assert_eq!(found.len(), 1);
        let vm = &found[0];
        assert_eq!(
            (vm.name.as_deref(), vm.label()),
            (Some("web,1"), "web,1".to_owned())
        );
        assert_eq!(
            (vm.process, vm.program.as_str()),
            (40, "qemu-system-x86_64")
        );
        assert_eq!((vm.vmm, &vm.threads[..]), (Vmm::Libvirt, &[40][..]));
        let numbers: Vec<(u32, i32)> = vm.vcpus.iter().map(|v| (v.number, v.tid)).collect();
        assert_eq!(numbers, [(0, 42), (1, 43)]);
        let first = Limits::of(&Host::under(root), vm.process, vm.vcpus[0].tid);
        assert_eq!(first.allowed.to_string(), "2-3");
        assert_eq!(first.cpu_max.as_deref(), Some("20000 100000"));
        assert_eq!(first.cpu_weight.as_deref(), Some("100"));
        assert!(
            first
                .group
                .as_deref()
                .is_some_and(|group| group.ends_with("/vcpu0"))
        );
    }
}
