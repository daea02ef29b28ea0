// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which measures a race of a scenario can give: by its VMs, its workloads and what it collects.
//! Nothing is booted.
//!
//! Of KVM's statistics only those that every result has are known by name, and of VM exits those
//! that a lab's guest leaves for and goes on. Left out: whether a run's settings make one rare.

use steady_guest_programs::find;
use steady_measures::names;
use steady_scenario::{Collect, Runs, Scenario, Vm};

use crate::claim::{Claim, Row};
use crate::figures::is_in;

/// What a traced run's diagnosis gives of a VM, and of its workloads where they are measured;
/// `steady evidence run` adds them.
pub const DIAGNOSIS: [&str; 11] = [
    "diagnosis.pause.exits",
    "diagnosis.pause.ipi_wait",
    "diagnosis.pause.spinlock",
    "diagnosis.pause.other_lock",
    "diagnosis.pause.timed_delay",
    "diagnosis.pause.user_spin",
    "diagnosis.pause.unknown",
    "diagnosis.pause.in_runs",
    "diagnosis.pause.longest_run",
    "diagnosis.boost.decided",
    "diagnosis.boost.ran_next",
];

/// Exits of a lab's guest by its engine, Bochs with VMX and QEMU with SVM: those of its races, and
/// those for the APIC that KVM then handles (`arch/x86/kvm/vmx/vmx.c`, Linux 6.12). A guest that
/// ends, as by a triple fault, gives no measure.
const EXITS: [(&str, &str); 2] = [
    (
        "bochs",
        "APIC_ACCESS APIC_WRITE CPUID CR_ACCESS DR_ACCESS EOI_INDUCED EPT_MISCONFIG EPT_VIOLATION \
         EXTERNAL_INTERRUPT HLT INTERRUPT_WINDOW IO_INSTRUCTION MSR_READ MSR_WRITE \
         PAUSE_INSTRUCTION PREEMPTION_TIMER TPR_BELOW_THRESHOLD VMCALL WBINVD XSETBV",
    ),
    (
        "qemu",
        "cpuid hlt hypercall interrupt io msr npf vintr wbinvd xsetbv",
    ),
];
/// Interrupts of the guest by their letters in `/proc/interrupts` (`arch/x86/kernel/irq.c` of Linux
/// 6.12, `PTK` of the series).
const INTERRUPTS: &str = "CAL HYP IWI LOC NMI PMI PTK RES SPU TLB";

/// Why a race cannot give what a row names, in words; `None` where it can.
pub(crate) fn lacking(claim: &Claim, row: &Row, scenario: &Scenario) -> Option<String> {
    let measure = row.measure.as_str();
    let Some(name) = &row.vm else {
        return Some("a race gives measures of VMs alone; expected `vm`".to_owned());
    };
    let Some(vm) = scenario.vms.iter().find(|vm| &vm.name == name) else {
        return Some(format!("the scenario has no VM `{name}`"));
    };
    if !row.share_of.is_empty() {
        return lacking_share(claim, row, scenario);
    }
    if !row.mean_over.is_empty() {
        let text = "`mean_over` is in place of `workload`; expected one of both";
        let each = |workload: &String| {
            let one = Row {
                workload: Some(workload.clone()),
                mean_over: Vec::new(),
                ..row.clone()
            };
            lacking(claim, &one, scenario)
        };
        return match row.workload {
            Some(_) => Some(text.to_owned()),
            None => row.mean_over.iter().find_map(each),
        };
    }
    let Some(workload) = &row.workload else {
        if !DIAGNOSIS.contains(&measure) {
            let known = DIAGNOSIS.join(", ");
            return Some(format!("a VM has no measure `{measure}`; it has {known}"));
        }
        let text = "the measure is of a trace; expected `trace = true` in the claim";
        return (!claim.trace).then(|| text.to_owned());
    };
    // Measures of a background program are named after the workload that they are beside.
    let (program, beside) = match workload.split_once('@') {
        Some((program, beside)) => (program, Some(beside)),
        None => (workload.as_str(), None),
    };
    let named = |vm: &Vm, beside: &str| {
        let own = beside.strip_prefix(&format!("{}.", vm.name));
        program_of(vm, own.unwrap_or(beside)).is_some()
    };
    let runs = program_of(vm, program)
        .filter(|_| beside.is_none_or(|beside| scenario.vms.iter().any(|vm| named(vm, beside))));
    let Some(runs) = runs else {
        return Some(format!("the VM `{name}` has no workload `{workload}`"));
    };
    if DIAGNOSIS.contains(&measure) {
        let text = "a diagnosis is of measured workloads, in a claim with `trace = true`";
        return (vm.background || beside.is_some() || !claim.trace).then(|| text.to_owned());
    }
    let collects = |what| scenario.measure.collect.contains(&what);
    let in_window =
        vm.background == beside.is_some() && of_window(&claim.engine, measure, &collects);
    let measured = !vm.background && of_measured(measure, &collects);
    let own = beside.is_none() && (counter(measure) || gives(runs, measure));
    (!in_window && !measured && !own).then(|| {
        format!(
            "`{workload}` of the VM `{name}` gives no measure `{measure}`; see \
             docs/formats/result.md, and `measure.collect` in the scenario"
        )
    })
}

/// Why a race cannot give a share, in words; `None` where it can.
fn lacking_share(claim: &Claim, row: &Row, scenario: &Scenario) -> Option<String> {
    if !row.mean_over.is_empty() {
        return Some("a row is a share or a mean; expected `share_of` or `mean_over`".to_owned());
    }
    if !row.share_of.contains(&row.measure) {
        let text = "`share_of` has measures of which `measure` is one; expected it among them";
        return Some(text.to_owned());
    }
    let twice = |at: usize| row.share_of[..at].contains(&row.share_of[at]);
    if row.share_of.len() < 2 || (1..row.share_of.len()).any(twice) {
        let text = "`share_of` is a sum; expected two measures or more, each once";
        return Some(text.to_owned());
    }
    row.share_of.iter().find_map(|measure| {
        let one = Row {
            measure: measure.clone(),
            share_of: Vec::new(),
            ..row.clone()
        };
        lacking(claim, &one, scenario)
    })
}

/// The program that a VM runs under the name that results give to a workload: the program's, with
/// a number from its second run on.
fn program_of<'a>(vm: &'a Vm, workload: &str) -> Option<&'a Runs> {
    let mut workloads = vm.workloads.iter().enumerate();
    let found = workloads.find(|(at, one)| {
        let same = |other: &&steady_scenario::Workload| other.program.name() == one.program.name();
        let own = match vm.workloads[..*at].iter().filter(same).count() {
            0 => one.program.name().to_owned(),
            more => format!("{}-{}", one.program.name(), more + 1),
        };
        own == workload
    });
    found.map(|(_, one)| &one.program)
}

/// Whether a program can give the measure; of one that a user brings nothing is known.
fn gives(runs: &Runs, measure: &str) -> bool {
    runs.known()
        .is_none_or(|known| find(known.name).is_ok_and(|program| program.gives(measure)))
}

/// What the host counts of a VM while a workload is measured.
fn of_window(engine: &str, measure: &str, collects: &dyn Fn(Collect) -> bool) -> bool {
    let exit = measure.strip_prefix(names::EXITS_PREFIX);
    let class = measure.strip_prefix(names::GUEST_TIME_PREFIX);
    match measure {
        "window" => true,
        names::CPU_TIME | "cpu_time.vcpus" | "cpu_wait.vcpus" => collects(Collect::CpuTime),
        names::EXITS_TOTAL | names::TIMER_WRITES | names::TIMER_INTERRUPTS | names::TIMER_HOST => {
            collects(Collect::Exits)
        }
        names::HALTS
        | names::HYPERCALLS
        | names::DIRECTED_YIELDS_ATTEMPTED
        | names::DIRECTED_YIELDS_SUCCESSFUL
        | names::TLB_FLUSHES => collects(Collect::KvmStats),
        "guest_samples" => collects(Collect::GuestTime),
        _ => {
            let exits = EXITS.iter().find(|(of, _)| *of == engine);
            let exits = exits.map_or("", |(_, exits)| exits);
            let exit = exit.is_some_and(|name| is_in(exits, name));
            let class = class.is_some_and(|class| names::GUEST_TIME_CLASSES.contains(&class));
            exit && collects(Collect::Exits) || class && collects(Collect::GuestTime)
        }
    }
}

/// What the host counts of the measured VM alone.
fn of_measured(measure: &str, collects: &dyn Fn(Collect) -> bool) -> bool {
    let costs = [
        names::HOST_IPIS,
        names::HOST_IPIS_PER_1000_SHOOTDOWNS,
        names::EXITS_PER_1000_SHOOTDOWNS,
    ];
    measure == names::HOST_IRQS_OFF_MAX || costs.contains(&measure) && collects(Collect::Exits)
}

/// What the guest counts: interrupts by their letters in `/proc/interrupts`, and time of its CPUs.
fn counter(measure: &str) -> bool {
    let classes = "user nice system idle iowait irq softirq steal";
    let interrupts = measure.strip_prefix("guest.irq.");
    let interrupts = interrupts.is_some_and(|letters| is_in(INTERRUPTS, letters));
    let cpu = measure.strip_prefix("guest.cpu.");
    interrupts || cpu.is_some_and(|class| is_in(classes, class))
}
