// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `[[vm]]` with its copies, and checks what ties its keys together.

use super::table::{Field, Reader};
use super::value::{Placed, Problems, Text};
use super::workload::{WorkloadRead, check_background, check_measured};
use super::{CMDLINE, NAME, check_unique, keys, pv};
use crate::limits::*;
use crate::model::{Pv, Vm};
use crate::words::{Cgroup, GuestKernel};

/// The VMs, and what can be said of them even if some are wrong.
#[derive(Debug)]
pub(super) struct Vms {
    /// Memory of all VMs whose size could be read, in MiB.
    pub memory_mib: u64,
    /// The VMs, if all are right.
    pub vms: Option<Vec<Vm>>,
}

/// Reads every VM. `pcpus`: the host's, where they could be read.
pub(super) fn vms(tables: &[Reader<'_>], pcpus: Option<u32>, problems: &Problems) -> Vms {
    let read: Vec<VmRead> = tables
        .iter()
        .map(|table| VmRead::of(table, pcpus))
        .collect();
    let names: Vec<_> = read.iter().flat_map(VmRead::names).collect();
    check_unique("VM", names.iter().map(Option::as_ref), problems);
    check_count(&read, problems);
    let background = |vm: &VmRead| vm.background.as_ref().is_some_and(|yes| *yes.get_ref());
    if let Some(first) = read.first().filter(|_| read.iter().all(background)) {
        let span = first.background.as_ref().map_or(0..0, Placed::span);
        let label = "expected at least one VM that is measured: `background = false`";
        problems.add(span, "every VM is a background VM", label);
    }
    let memory = read
        .iter()
        .filter_map(|vm| Some(u64::from(*vm.memory_mib.as_ref()?.get_ref()) * vm.count()));
    let memory_mib = memory.sum();
    check_reached(&read, problems);
    let vms: Option<Vec<Vec<Vm>>> = read.into_iter().map(VmRead::finish).collect();
    Vms {
        memory_mib,
        vms: vms.map(|vms| vms.concat()),
    }
}

/// Reports a VM that one is to reach and that serves none, or that is itself.
fn check_reached(read: &[VmRead], problems: &Problems) {
    let serving = read.iter().filter(|vm| matches!(vm.serves, Some(Some(_))));
    let serving: Vec<String> = serving
        .flat_map(VmRead::names)
        .flatten()
        .map(Placed::into_inner)
        .collect();
    for vm in read {
        let Some(Some(reaches)) = &vm.reaches else {
            continue;
        };
        let own: Vec<_> = vm.names().into_iter().flatten().collect();
        for (at, name) in reaches.get_ref().iter().enumerate() {
            let itself = own.iter().any(|own| own.get_ref() == name);
            let twice = reaches.get_ref()[..at].contains(name);
            let (message, label) = if itself {
                (
                    format!("VM `{name}` reaches itself"),
                    "its socket is there already",
                )
            } else if twice {
                (
                    format!("VM `{name}` is listed twice"),
                    "remove one of the two",
                )
            } else if !serving.contains(name) {
                let label = "expected a VM with `serves`, the path of its program's socket";
                (format!("no VM `{name}` serves others"), label)
            } else {
                continue;
            };
            problems.add(reaches.span(), message, label);
        }
    }
}

/// A path of a socket: those of Linux have at most 107 bytes.
const SOCKET: Text = Text {
    expected: "the absolute path of a local socket",
    most_chars: 107,
    holds: |text| text.starts_with('/') && text.bytes().all(|b| b.is_ascii_graphic()),
};

/// Reports VMs that are too many only with their copies.
fn check_count(read: &[VmRead], problems: &Problems) {
    let copied = read.iter().find(|vm| vm.count() > 1);
    let count: u64 = read.iter().map(VmRead::count).sum();
    if let Some(copies) = copied.and_then(|vm| vm.copies.as_ref())
        && usize::try_from(count).is_ok_and(|count| count > LIST_ITEMS)
    {
        let message = format!("the VMs are {count} with their copies");
        problems.add(
            copies.span(),
            message,
            format!("expected at most {LIST_ITEMS}"),
        );
    }
}

/// A VM as far as it could be read.
#[derive(Debug)]
struct VmRead {
    name: Option<Placed<String>>,
    copies: Option<Placed<u32>>,
    vcpus: Option<Placed<u32>>,
    memory_mib: Option<Placed<u32>>,
    pin: Option<Option<Placed<Vec<u32>>>>,
    cpu_weight: Option<Placed<u32>>,
    cgroup: Option<Placed<Cgroup>>,
    cpu_quota_us: Option<Option<Placed<u32>>>,
    cpu_period_us: Option<Option<Placed<u32>>>,
    disk_mib: Option<Option<Placed<u32>>>,
    kernel: Option<Placed<GuestKernel>>,
    guest_cmdline: Option<Placed<String>>,
    background: Option<Placed<bool>>,
    serves: Option<Option<Placed<String>>>,
    reaches: Option<Option<Placed<Vec<String>>>>,
    pv: Option<Pv>,
    workloads: Option<Vec<WorkloadRead>>,
}

impl VmRead {
    fn of(table: &Reader<'_>, pcpus: Option<u32>) -> Self {
        let workloads = table.tables("workload", &keys::WORKLOAD, LIST_ITEMS);
        let workloads = table.need(workloads);
        let vm = Self {
            name: table.need(table.string("name", &NAME)),
            copies: table.or(table.integer("copies", COPIES), 1),
            vcpus: table.need(table.integer("vcpus", VCPUS)),
            memory_mib: table.need(table.integer("memory_mib", VM_MEMORY_MIB)),
            pin: Reader::optional(pins(table, pcpus)),
            cpu_weight: table.or(table.integer("cpu_weight", CPU_WEIGHT), DEFAULT_CPU_WEIGHT),
            cgroup: table.or(table.word("cgroup"), Cgroup::Vm),
            cpu_quota_us: Reader::optional(table.integer("cpu_quota_us", CPU_QUOTA_US)),
            cpu_period_us: Reader::optional(table.integer("cpu_period_us", CPU_PERIOD_US)),
            disk_mib: Reader::optional(table.integer("disk_mib", DISK_MIB)),
            kernel: table.or(table.word("kernel"), GuestKernel::Host),
            guest_cmdline: table.or(table.string("guest_cmdline", &CMDLINE), String::new()),
            background: table.or(table.boolean("background"), false),
            serves: Reader::optional(table.string("serves", &SOCKET)),
            reaches: Reader::optional(table.texts("reaches", &NAME, REACHES)),
            pv: pv::pv(table, "vm"),
            workloads: workloads
                .map(|tables| tables.get_ref().iter().map(WorkloadRead::of).collect()),
        };
        vm.check_names(table.problems);
        vm.check_placement(table.problems);
        vm.check_limit(table.problems);
        vm.check_programs(table.problems);
        vm
    }

    /// How many VMs it is, itself and its copies.
    fn count(&self) -> u64 {
        let copies = self.copies.as_ref();
        copies.map_or(1, |copies| u64::from(*copies.get_ref()))
    }

    /// The names of all of them, each at the place of the first.
    fn names(&self) -> Vec<Option<Placed<String>>> {
        let placed = |name: &Placed<String>, at| {
            let text = copy_name(name.get_ref(), at);
            Some(Placed::new(name.span(), text))
        };
        let Some(name) = &self.name else {
            return vec![None];
        };
        (1..=self.count()).map(|at| placed(name, at)).collect()
    }

    fn check_names(&self, problems: &Problems) {
        let Some(Some(last)) = self.names().pop() else {
            return;
        };
        let chars = last.get_ref().chars().count();
        if chars > NAME_CHARS {
            let message = format!("the last copy's name has {chars} characters");
            problems.add(
                last.span(),
                message,
                format!("expected at most {NAME_CHARS}"),
            );
        }
    }

    fn check_placement(&self, problems: &Problems) {
        if let (Some(vcpus), Some(Some(pin))) = (&self.vcpus, &self.pin) {
            let pinned = pin.get_ref().len();
            if u32::try_from(pinned) != Ok(*vcpus.get_ref()) {
                let message = format!("`pin` names {pinned} pCPUs for {} vCPUs", vcpus.get_ref());
                problems.add(pin.span(), message, "expected one pCPU for each vCPU");
            }
        }
        if let (Some(weight), Some(cgroup)) = (&self.cpu_weight, &self.cgroup)
            && *cgroup.get_ref() == Cgroup::None
            && *weight.get_ref() != DEFAULT_CPU_WEIGHT
        {
            let message = "`cpu_weight` has no effect with `cgroup = \"none\"`";
            problems.add(
                weight.span(),
                message,
                "remove it, or choose \"vm\" or \"vcpu\"",
            );
        }
    }

    fn check_limit(&self, problems: &Problems) {
        if let (Some(Some(quota)), Some(cgroup)) = (&self.cpu_quota_us, &self.cgroup)
            && *cgroup.get_ref() == Cgroup::None
        {
            let message = "`cpu_quota_us` has no effect with `cgroup = \"none\"`";
            let label = "remove it, or choose \"vm\" or \"vcpu\"";
            problems.add(quota.span(), message, label);
        }
        if let (Some(None), Some(Some(period))) = (&self.cpu_quota_us, &self.cpu_period_us) {
            let message = "`cpu_period_us` has no effect without `cpu_quota_us`";
            problems.add(period.span(), message, "remove it, or add `cpu_quota_us`");
        }
    }

    fn check_programs(&self, problems: &Problems) {
        let Some(workloads) = &self.workloads else {
            return;
        };
        let without_disk = matches!(self.disk_mib, Some(None));
        for runs in workloads.iter().filter_map(|read| read.program.as_ref()) {
            let known = runs.get_ref().known();
            if without_disk && let Some(program) = known.filter(|program| program.needs_disk) {
                let message = format!("`{}` works on a disk, the VM has none", program.name);
                problems.add(runs.span(), message, "add `disk_mib` to the VM");
            }
        }
        match self.background.as_ref().map(Placed::get_ref) {
            Some(true) => check_background(workloads, problems),
            Some(false) => check_measured(workloads, problems),
            None => {}
        }
    }

    /// The VM, and its copies behind it.
    fn finish(self) -> Option<Vec<Vm>> {
        let count = self.count();
        self.copies.as_ref()?;
        let first = self.one()?;
        let copy = |at| Vm {
            name: copy_name(&first.name, at),
            ..first.clone()
        };
        Some((1..=count).map(copy).collect())
    }

    fn one(self) -> Option<Vm> {
        let background = self.background?.into_inner();
        let workloads = self
            .workloads?
            .into_iter()
            .map(|workload| workload.finish(background));
        Some(Vm {
            name: self.name?.into_inner(),
            vcpus: self.vcpus?.into_inner(),
            memory_mib: self.memory_mib?.into_inner(),
            pin: self.pin?.map(Placed::into_inner),
            cpu_weight: self.cpu_weight?.into_inner(),
            cgroup: self.cgroup?.into_inner(),
            cpu_quota_us: self.cpu_quota_us?.map(Placed::into_inner),
            cpu_period_us: self.cpu_period_us?.map(Placed::into_inner),
            disk_mib: self.disk_mib?.map(Placed::into_inner),
            kernel: self.kernel?.into_inner(),
            guest_cmdline: self.guest_cmdline?.into_inner(),
            background,
            serves: self.serves?.map(Placed::into_inner),
            reaches: self.reaches?.map(Placed::into_inner).unwrap_or_default(),
            pv: self.pv?,
            workloads: workloads.collect::<Option<_>>()?,
        })
    }
}

/// The name of a copy, counted from 1: the first is the VM itself.
fn copy_name(name: &str, at: u64) -> String {
    match at {
        1 => name.to_owned(),
        at => format!("{name}-{at}"),
    }
}

/// `pin`, each element checked against the host's pCPUs.
fn pins(table: &Reader<'_>, pcpus: Option<u32>) -> Field<Vec<u32>> {
    let last = pcpus.unwrap_or(*PCPUS.end()) - 1;
    table.list("pin", "an array of pCPU numbers", |list| {
        let pin = |(vcpu, value)| table.number(&format!("`pin[{vcpu}]`"), value, &(0..=last));
        // Collected before the verdict, so that every wrong element is reported.
        let pins: Vec<Option<u32>> = list.iter().enumerate().map(pin).collect();
        pins.into_iter().collect()
    })
}
