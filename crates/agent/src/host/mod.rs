// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The init of the emulated host: starts the VMs of the plan, runs their workloads, counts, and
//! sends what it saw to the lab.
//!
//! Order: all guests up; background workloads and the host's own load started; the measured VMs
//! run their workloads one after another (VMs beside each other), each in a window of the host's
//! counters; all stopped. Programs of the host itself, if the plan has any, come first, then a BPF
//! scheduler, if it has one.
//! The first fault ends the run: everything is killed and the consoles are sent.

mod alive;
mod beside;
mod cgroup;
mod counters;
mod hist;
mod irqs_off;
mod kernel_log;
mod late;
mod link;
mod modules;
mod notes;
mod out;
mod programs;
mod race;
mod sched_ext;
mod scheduler;
mod trace;
mod vm;
mod vmm;

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use steady_agent::channel::{FromGuest, ToGuest};
use steady_agent::event::{Event, Fault, FaultKind};
use steady_agent::plan::{HostPlan, PLAN_PATH, VmPlan};

use crate::settle;
use crate::system::{self, Doing, Failure};
use irqs_off::IrqsOff;
use out::Out;
use race::{Race, expect, prepare_workload};
use sched_ext::Loaded;
use vm::Vm;

/// Exits by a host timer tick, as a filter on `kvm_exit`. VMX: basic reason 1 (Intel SDM volume 3,
/// appendix C) with the kernel's LOCAL_TIMER_VECTOR. SVM (`SVM_EXIT_INTR`, AMD APM volume 2,
/// appendix C) does not tell the vector, so all host interrupts count.
const VMX_TICK: &str = "exit_reason==1 && intr_info==0x800000ec";
const SVM_TICK: &str = "exit_reason==0x60";

/// How long the host may take to settle once it has booted.
const SETTLE_LIMIT: Duration = Duration::from_secs(10);

/// Runs the plan, reports, and switches the emulator off.
pub fn run() {
    let out = match Out::open() {
        Ok(out) => Arc::new(out),
        Err(failure) => return eprintln!("steady-agent: host: {failure}"),
    };
    alive::begin(Arc::clone(&out));
    let mut vms = Vec::new();
    let fault = run_plan(&out, &mut vms).err();
    let fault = fault.map(|fault| cause(fault, &mut vms));
    for vm in &mut vms {
        vm.kill();
    }
    if let Err(failure) = finish(&out, &vms, fault) {
        eprintln!("steady-agent: host: {failure}");
    }
    out::power_off();
}

/// A VM that is lost takes its counters with it, and the host may miss these before it hears of the
/// VM, above all of one whose workload nobody waits for. Then the loss is the fault to tell of.
fn cause(fault: Box<Fault>, vms: &mut [Vm]) -> Box<Fault> {
    if fault.kind != FaultKind::Host {
        return fault;
    }
    vms.iter_mut().find_map(Vm::lost).unwrap_or(fault)
}

fn finish(out: &Out, vms: &[Vm], fault: Option<Box<Fault>>) -> Result<(), Failure> {
    for vm in vms {
        let files = vm.files();
        for (path, end) in [
            (&files.console, "console.log"),
            (&files.report, "vmm.json"),
            (&files.said, "vmm.log"),
        ] {
            if fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0) {
                out.file(&format!("{}.{end}", vm.plan.name), path)?;
            }
        }
    }
    if let Some(fault) = fault {
        out.event(&Event::Fault(*fault))?;
    }
    out.event(&Event::Done {
        at_ns: system::now_ns(),
    })
}

fn host_fault(failure: Failure) -> Box<Fault> {
    Box::new(Fault {
        kind: FaultKind::Host,
        vm: None,
        text: failure.to_string(),
        console_tail: String::new(),
    })
}

fn vmm_fault(vm: &VmPlan, failure: Failure) -> Box<Fault> {
    Box::new(Fault {
        kind: FaultKind::Vmm,
        vm: Some(vm.name.clone()),
        text: failure.to_string(),
        console_tail: String::new(),
    })
}

fn run_plan(out: &Out, vms: &mut Vec<Vm>) -> Result<(), Box<Fault>> {
    let plan = prepare(out).map_err(host_fault)?;
    let deadline_ns = system::now_ns() + plan.time_limit_ms * 1_000_000;
    programs::run(out, &plan.programs).map_err(host_fault)?;
    let Some(object) = &plan.bpf else {
        return run_vms(out, &plan, deadline_ns, None, vms);
    };
    let scheduler = sched_ext::load(out, object).map_err(host_fault)?;
    let scheduler = Arc::new(scheduler);
    let ended = run_vms(out, &plan, deadline_ns, Some(&scheduler), vms);
    // Other faults may follow from its end.
    scheduler
        .fault()
        .map_or(ended, |failure| Err(host_fault(failure)))
}

fn run_vms(
    out: &Out,
    plan: &HostPlan,
    deadline_ns: u64,
    scheduler: Option<&Arc<Loaded>>,
    vms: &mut Vec<Vm>,
) -> Result<(), Box<Fault>> {
    link::prepare(plan).map_err(host_fault)?;
    for vm in &plan.vms {
        wait_us(vm.start_delay_us);
        let started = Vm::start(plan.vmm, vm, scheduler.cloned(), deadline_ns);
        vms.push(started.map_err(|failure| vmm_fault(vm, failure))?);
    }
    let mut threads = BTreeMap::new();
    for vm in vms.iter_mut() {
        greet(out, vm, deadline_ns)?;
        threads.insert(vm.plan.name.clone(), vm.threads().map_err(host_fault)?);
        link::start(vm, deadline_ns)?;
        run_beside(vm, deadline_ns)?;
    }
    for vm in vms.iter_mut().filter(|vm| vm.plan.background) {
        prepare_workload(vm, 0, deadline_ns)?;
        wait_us(vm.plan.workloads[0].begin_delay_us);
        vm.say(&ToGuest::Go)?;
        expect(
            vm,
            deadline_ns,
            "its background workload to start",
            |word| matches!(word, FromGuest::Started).then_some(()),
        )?;
    }
    let beside = beside::start(&plan.beside).map_err(host_fault)?;
    let recording = match &plan.trace {
        Some(trace) => Some(trace::start(trace).map_err(host_fault)?),
        None => None,
    };
    late::write_parameters().map_err(host_fault)?;
    scheduler::turn(&plan.scheduler, &threads).map_err(host_fault)?;
    let irqs_off = IrqsOff::start(plan.trace.is_some()).map_err(host_fault)?;
    let race = Race {
        out,
        plan,
        threads: &threads,
        irqs_off: &irqs_off,
        deadline_ns,
    };
    race.measured(vms)?;
    if let Some(recording) = recording {
        let file = recording.stop().map_err(host_fault)?;
        out.file("trace.dat", file).map_err(host_fault)?;
        let notes = notes::write(plan.vmm, &plan.vms, &threads, file).map_err(host_fault)?;
        out.file("trace.dat.vms", &notes).map_err(host_fault)?;
    }
    for (name, said) in beside.stop().map_err(host_fault)? {
        if fs::metadata(&said).is_ok_and(|metadata| metadata.len() > 0) {
            out.file(&format!("{name}.log"), said.as_ref())
                .map_err(host_fault)?;
        }
    }
    race.stop_all(vms)
}

/// Starts what a guest runs beside its workloads.
fn run_beside(vm: &mut Vm, deadline_ns: u64) -> Result<(), Box<Fault>> {
    for command in vm.plan.beside.clone() {
        let what = format!("{} to start in the guest", command.program);
        vm.say(&ToGuest::Beside { command })?;
        expect(vm, deadline_ns, &what, |word| {
            matches!(word, FromGuest::Started).then_some(())
        })?;
    }
    Ok(())
}

/// A wait that the seed of the run asks for.
pub fn wait_us(us: u32) {
    std::thread::sleep(std::time::Duration::from_micros(us.into()));
}

fn prepare(out: &Out) -> Result<HostPlan, Failure> {
    modules::load()?;
    let unsettled = settle::wait(SETTLE_LIMIT);
    system::mount_one("debugfs", "/sys/kernel/debug", None)?;
    system::mount_one("tracefs", "/sys/kernel/tracing", None)?;
    cgroup::prepare()?;
    let isa = if fs::exists("/sys/module/kvm_intel/parameters/nested").unwrap_or(false)
        && cpu_has("vmx")
    {
        "vmx"
    } else {
        "svm"
    };
    out.event(&Event::Up {
        release: system::release(),
        cpus: system::cpus_online(),
        uptime_ns: system::now_ns(),
        clocksource: system::clocksource(),
        isa: isa.to_owned(),
        parameters: parameters(),
        unsettled,
    })?;
    if !fs::exists("/dev/kvm").unwrap_or(false) {
        return Err(Failure::new(
            "the host has no /dev/kvm: the emulated CPU offers neither VMX nor SVM",
        ));
    }
    let text = fs::read_to_string(PLAN_PATH).doing(|| format!("read {PLAN_PATH}"))?;
    let plan: HostPlan = serde_json::from_str(&text).doing(|| format!("read {PLAN_PATH}"))?;
    plan.check()
        .map_err(|what| Failure::new(format!("the plan cannot be carried out: {what}")))?;
    let tick = if isa == "vmx" { VMX_TICK } else { SVM_TICK };
    hist::enable(plan.collect.exits, plan.collect.guest_time, tick)?;
    Ok(plan)
}

fn cpu_has(flag: &str) -> bool {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    text.lines()
        .find(|line| line.starts_with("flags"))
        .is_some_and(|line| line.split_whitespace().any(|word| word == flag))
}

/// Parameters of the KVM modules that say what the host does with a spinning or idle vCPU.
fn parameters() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for module in ["kvm", "kvm_intel", "kvm_amd"] {
        let Ok(entries) = fs::read_dir(format!("/sys/module/{module}/parameters")) else {
            continue;
        };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            found.insert(
                format!("{module}.{name}"),
                system::read_trimmed(entry.path()),
            );
        }
    }
    found
}

fn greet(out: &Out, vm: &mut Vm, deadline_ns: u64) -> Result<(), Box<Fault>> {
    let name = vm.plan.name.clone();
    let event = expect(vm, deadline_ns, "the guest to boot", |word| match word {
        FromGuest::Hello {
            release,
            cpus,
            uptime_ns,
            clocksource,
            unsettled,
        } => Some(Event::GuestUp {
            vm: name,
            release,
            cpus,
            uptime_ns,
            clocksource,
            unsettled,
            at_ns: system::now_ns(),
        }),
        _ => None,
    })?;
    out.event(&event).map_err(host_fault)
}
