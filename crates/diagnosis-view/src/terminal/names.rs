// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What files, VMs and what ran instead of them are called. A VM without a name is shown with its
//! VMM and its threads, so that an operator can find it.

use std::path::Path;

use steady_diagnose::{Culprit, Diagnosis, Finding, TraceDiagnosis, VmTable};

use super::percent;

/// Threads that are listed one by one.
const THREADS_LISTED: usize = 4;

/// A file without its folder, unless another of the files is called the same.
pub fn file_name<'n>(name: &'n str, all: &Diagnosis) -> &'n str {
    let short = title_name(name);
    let same = all
        .traces
        .iter()
        .filter(|trace| title_name(&trace.name) == short);
    if same.count() > 1 { name } else { short }
}

/// A file without its folder.
#[must_use]
pub fn title_name(name: &str) -> &str {
    let file = Path::new(name).file_name();
    file.and_then(|file| file.to_str()).unwrap_or(name)
}

/// A VM by what the diagnosis calls it; with VMM and threads where that is only a number.
pub fn with_threads(trace: &TraceDiagnosis, name: &str) -> String {
    let vm = trace.vms.iter().find(|vm| vm.name == name);
    vm.map_or_else(|| name.to_owned(), label_of)
}

/// `web`, or `vm1 (QEMU 1000, threads 1001 to 1004)`.
#[must_use]
pub fn label_of(vm: &VmTable) -> String {
    if vm.note.as_ref().is_some_and(|note| note.name.is_some()) || vm.vcpus.is_empty() {
        return vm.name.clone();
    }
    let mut tids: Vec<i32> = vm.vcpus.iter().map(|vcpu| vcpu.tid).collect();
    tids.sort_unstable();
    let (first, last) = (tids[0], tids[tids.len() - 1]);
    let follow = tids
        .windows(2)
        .all(|pair| pair[0].checked_add(1) == Some(pair[1]));
    let threads = match tids.len() {
        1 => format!("thread {first}"),
        _ if follow => format!("threads {first} to {last}"),
        2..=THREADS_LISTED => {
            let tids: Vec<String> = tids.iter().map(i32::to_string).collect();
            format!("threads {}", tids.join(", "))
        }
        count => format!("{count} threads from {first} to {last}"),
    };
    match vm.process {
        Some(process) => format!("{} ({} {process}, {threads})", vm.name, vmm_of(vm)),
        None => format!("{} ({threads})", vm.name),
    }
}

/// The VMM by the notes, or by how it names its vCPUs' threads.
fn vmm_of(vm: &VmTable) -> &'static str {
    let noted = vm.note.as_ref().map_or("", |note| note.vmm.as_str());
    let comm = vm.vcpus.first().map_or("", |vcpu| vcpu.comm.as_str());
    let known = [
        ("qemu", "CPU ", "QEMU"),
        ("firecracker", "fc_vcpu", "Firecracker"),
        ("crosvm", "crosvm_vcpu", "crosvm"),
        ("cloud-hypervisor", "vcpu", "Cloud Hypervisor"),
        ("lkvm", "kvm-vcpu-", "kvmtool"),
    ];
    let mut known = known.iter();
    let found = known.find(|(program, thread, _)| match noted {
        "" => comm.starts_with(thread),
        noted => noted.contains(program),
    });
    found.map_or("process", |(_, _, name)| name)
}

/// What is behind it, in a few words.
#[must_use]
pub fn culprits(finding: &Finding, trace: Option<&TraceDiagnosis>) -> String {
    let of = |culprits: &[Culprit]| {
        let who: Vec<String> = culprits.iter().map(|of| culprit(of, trace)).collect();
        who.join(", ")
    };
    match finding.culprits.split_first() {
        // A limit keeps vCPUs off their pCPUs, and whatever is ready runs there.
        Some((limit, others)) if finding.is_by_quota() && !others.is_empty() => {
            format!("{}; meanwhile ran {}", culprit(limit, trace), of(others))
        }
        _ => of(&finding.culprits),
    }
}

fn culprit(culprit: &Culprit, trace: Option<&TraceDiagnosis>) -> String {
    let name = culprit.name.as_deref().unwrap_or_default();
    let who = match culprit.kind.as_str() {
        "own-vm" => "the VM's own vCPUs".to_owned(),
        "interrupts" => "interrupts and softirqs".to_owned(),
        "cpu-max" => "a limit (cpu.max)".to_owned(),
        "passed-through" => format!("{name}, a device that is passed through"),
        "idle" => "none, their pCPU was idle".to_owned(),
        "waker" => format!("woken by {name}"),
        "waking-pcpu" => "none, the pCPU had to wake".to_owned(),
        "untold" => "not shown".to_owned(),
        "vm" => trace.map_or_else(|| name.to_owned(), |trace| with_threads(trace, name)),
        _ => name.to_owned(),
    };
    format!("{who} {}", percent(culprit.permille))
}
