// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From a variant of a scenario to the plan of an emulated host and its kernel's command line.

pub mod brought;
mod link;
pub mod packaged;
mod program;
pub mod scx;
pub mod steer;

use std::collections::{BTreeMap, BTreeSet};

use steady_agent::plan::{
    Collect, Grouping, HostPlan, Shown, TracePlan, VmPlan, Vmm, WorkloadPlan,
};
use steady_events::probe;
use steady_lab_artifacts::image::tree::{self, HostNeeds};
use steady_lab_artifacts::kernel::Flavor;
use steady_remedies::{Registry, Remedy, VmmDuty};
use steady_scenario::{
    self as scenario, Chosen, Dedicated, GuestKernel, Hypervisor, Kernel, Scenario, Variant, Vm,
    Word,
};

use crate::chance::Chance;
use crate::engine::{Engine, EngineKind, Processor, bochs};
use crate::error::LabError;
use crate::kernels::Booted;
use crate::measure::spans;
use program::run_of;

pub use program::{check_programs, host_programs, programs};

/// trace-cmd's buffer for each pCPU, in KiB.
const TRACE_BUFFER_KIB: u32 = 8 << 10;
/// The period of `cpu.max` that the kernel has by itself, in microseconds.
const CPU_PERIOD_US: u32 = 100_000;
/// Added to the limit of a scenario for what surrounds the workloads, in seconds of the host.
const PLAN_SLACK_S: u64 = 5;

/// Refuses what the engine cannot give.
///
/// # Errors
/// [`LabError::Beyond`].
pub fn check(scenario: &Scenario, kind: EngineKind, variants: &[&Variant]) -> Result<(), LabError> {
    let beyond = |what: String, limit: String| {
        Err(LabError::Beyond {
            scenario: scenario.name.clone(),
            what,
            limit,
        })
    };
    let most = kind.most_pcpus();
    if scenario.host.pcpus > most {
        let limit = format!(
            "the engine {} gives at most {most}; lower host.pcpus",
            kind.name()
        );
        return beyond(format!("{} pCPUs", scenario.host.pcpus), limit);
    }
    if let Some(most) = kind.most_memory_mib()
        && scenario.host.memory_mib > most
    {
        let limit = format!(
            "the engine {} gives at most {most}; lower host.memory_mib",
            kind.name()
        );
        let what = format!("{} MiB of host memory", scenario.host.memory_mib);
        return beyond(what, limit);
    }
    for variant in variants {
        if variant.hypervisor != Hypervisor::Kvm && scenario.host.vmm == scenario::Vmm::Qemu {
            let what = format!("the hypervisor of variant {}", variant.name);
            let limit = "only steady-vmm shows another; use vmm = \"steady\"";
            return beyond(what, limit.to_owned());
        }
        if variant.switches.dedicated.is_some() && scenario.host.vmm == scenario::Vmm::Qemu {
            let what = format!("the dedicated pCPUs of variant {}", variant.name);
            let limit = "only steady-vmm shows ones that are not; use vmm = \"steady\"";
            return beyond(what, limit.to_owned());
        }
        if let Some((what, limit)) = link::beyond(scenario, variant) {
            return beyond(what, limit.to_owned());
        }
        if variant.switches.apicv && !kind.has(Processor::Apicv) {
            let what = format!("the processor with APICv of variant {}", variant.name);
            let limit = format!(
                "the engine {} has none; use --engine bochs, or leave the variant out",
                kind.name()
            );
            return beyond(what, limit);
        }
        for chosen in &variant.remedies {
            if let Some(limit) = refusal(chosen, scenario.host.vmm) {
                let wants = format!(
                    "variant {} needs the remedy {}",
                    variant.name, chosen.remedy
                );
                return beyond(wants, limit);
            }
        }
    }
    Ok(())
}

/// Why a remedy cannot be had as it was chosen, if it cannot.
fn refusal(chosen: &Chosen, vmm: scenario::Vmm) -> Option<String> {
    let remedy = chosen.remedy;
    if !remedy.shipped {
        return Some("this kernel series does not have it yet".to_owned());
    }
    if remedy.vmm == VmmDuty::ShowFeatureBit && vmm == scenario::Vmm::Qemu {
        return Some("QEMU does not know its feature bit; use vmm = \"steady\"".to_owned());
    }
    None
}

/// The configuration of the kernel that the guest boots, where it is not its host's kernel.
#[must_use]
pub fn flavor_of(vm: &Vm) -> Option<Flavor> {
    match vm.kernel {
        GuestKernel::Host => None,
        GuestKernel::Hz100 => Some(Flavor::Hz100),
        GuestKernel::Hz300 => Some(Flavor::Hz300),
        GuestKernel::Hz1000 => Some(Flavor::Hz1000),
        GuestKernel::Power => Some(Flavor::Power),
    }
}

/// The configurations of guests' kernels that hosts of these variants have to hold.
#[must_use]
pub fn flavors(scenario: &Scenario, variants: &[&Variant]) -> BTreeSet<Flavor> {
    let vms = variants.iter().flat_map(|variant| scenario.vms_of(variant));
    vms.filter_map(flavor_of).collect()
}

/// What a kernel needs for itself while it boots, in MiB.
const KERNEL_MIB: u64 = 48;

/// Refuses machines whose memory does not hold their images: an initramfs is there twice while it
/// is unpacked, and the host holds the guests beside its own.
///
/// # Errors
/// [`LabError::Beyond`] with what is needed at least.
pub fn check_memory(
    scenario: &Scenario,
    guest_bytes: usize,
    host_bytes: usize,
) -> Result<(), LabError> {
    let mib = |bytes: usize| (bytes as u64).div_ceil(1 << 20);
    let (guest_mib, host_mib) = (mib(guest_bytes), mib(host_bytes));
    let beyond = |who: String, has_mib: u32, image_mib: u64, need_mib: u64| LabError::Beyond {
        scenario: scenario.name.clone(),
        what: format!("{who} has {has_mib} MiB of memory"),
        limit: format!(
            "its image with all programs takes {image_mib} MiB, so it needs at least \
             {need_mib}; raise memory_mib"
        ),
    };
    for vm in &scenario.vms {
        let need_mib = KERNEL_MIB + 2 * guest_mib;
        if u64::from(vm.memory_mib) < need_mib {
            let who = format!("VM {}", vm.name);
            return Err(beyond(who, vm.memory_mib, guest_mib, need_mib));
        }
    }
    let guests_mib: u64 = scenario.vms.iter().map(|vm| u64::from(vm.memory_mib)).sum();
    let need_mib = KERNEL_MIB + host_mib + host_mib.max(guests_mib);
    if u64::from(scenario.host.memory_mib) < need_mib {
        let host = scenario.host.memory_mib;
        return Err(beyond("the host".to_owned(), host, host_mib, need_mib));
    }
    Ok(())
}

/// What the host's image needs.
///
/// # Errors
/// As [`programs`].
pub fn host_needs(scenario: &Scenario, trace: bool) -> Result<HostNeeds, LabError> {
    Ok(HostNeeds {
        qemu: scenario.host.vmm == scenario::Vmm::Qemu,
        trace,
        disk: scenario.vms.iter().any(|vm| vm.disk_mib.is_some()),
        programs: host_programs(scenario)?,
        steer: steer::on_hosts(scenario),
        schedulers: Vec::new(),
    })
}

/// The plan of one variant under one seed.
///
/// # Errors
/// [`ArtifactError::Program`] for arguments that a program does not take.
pub fn plan(
    scenario: &Scenario,
    variant: &Variant,
    seed: u64,
    trace: bool,
) -> Result<HostPlan, LabError> {
    assert!(
        scenario
            .variants
            .iter()
            .any(|known| known.name == variant.name),
        "{} is a variant of {}",
        variant.name,
        scenario.name
    );
    let chance = Chance::new(seed);
    let collects = |what| scenario.measure.collect.contains(&what);
    let vms: Result<Vec<VmPlan>, LabError> = scenario
        .vms_of(variant)
        .map(|each| vm(each, variant, chance))
        .collect();
    let mut vms = vms?;
    link::join(&mut vms, scenario, variant);
    let plan = HostPlan {
        vmm: match scenario.host.vmm {
            scenario::Vmm::Steady => Vmm::Steady,
            scenario::Vmm::Qemu => Vmm::Qemu,
        },
        vms,
        programs: Vec::new(),
        beside: beside(scenario, variant, chance)?,
        bpf: scx::object(variant),
        scheduler: scheduler(variant),
        collect: Collect {
            exits: collects(scenario::Collect::Exits),
            guest_time: collects(scenario::Collect::GuestTime),
            kvm_stats: collects(scenario::Collect::KvmStats),
            cpu_time: collects(scenario::Collect::CpuTime),
        },
        trace: trace.then(|| TracePlan {
            events: trace_events(variant),
            probes: probe::PROBES.iter().map(ToString::to_string).collect(),
            buffer_kib: TRACE_BUFFER_KIB,
        }),
        time_limit_ms: (u64::from(scenario.host.time_limit_s) + PLAN_SLACK_S) * 1000,
    };
    assert_eq!(
        plan.check(),
        Ok(()),
        "a sound scenario gives a plan that a host can do"
    );
    Ok(plan)
}

/// What `--trace` records of this variant.
fn trace_events(variant: &Variant) -> Vec<String> {
    let mut events: Vec<String> = probe::EVENTS
        .iter()
        .chain([&probe::GROUP])
        .map(|&event| event.to_owned())
        .collect();
    // Says when, in the trace's clock, a workload began.
    events.push(spans::EVENT.to_owned());
    let systems = variant.remedies.iter();
    events.extend(
        systems
            .filter_map(|on| on.remedy.trace_system)
            .map(str::to_owned),
    );
    events
}

fn vm(vm: &Vm, variant: &Variant, chance: Chance) -> Result<VmPlan, LabError> {
    let workloads: Result<Vec<WorkloadPlan>, LabError> = vm
        .workloads
        .iter()
        .enumerate()
        .map(|(at, _)| workload(vm, at, chance))
        .collect();
    Ok(VmPlan {
        name: vm.name.clone(),
        vcpus: vm.vcpus,
        memory_mib: vm.memory_mib,
        pin: vm.pin.clone(),
        cpu_weight: vm.cpu_weight,
        cgroup: match vm.cgroup {
            scenario::Cgroup::Vm => Grouping::Vm,
            scenario::Cgroup::Vcpu => Grouping::Vcpu,
            scenario::Cgroup::None => Grouping::None,
        },
        cpu_max_us: vm
            .cpu_quota_us
            .map(|quota| (quota, vm.cpu_period_us.unwrap_or(CPU_PERIOD_US))),
        disk_mib: vm.disk_mib,
        kernel: flavor_of(vm).map(|flavor| format!("/{}", tree::guest_kernel(flavor))),
        cmdline: variant.guest_cmdline_of(vm),
        start_delay_us: chance.start_delay_us(&vm.name),
        background: vm.background,
        shown: match variant.hypervisor {
            Hypervisor::Kvm => Shown::Kvm,
            Hypervisor::HyperV => Shown::HyperV,
        },
        mwait: variant.switches.dedicated == Some(Dedicated::Mwait),
        halts: variant.switches.dedicated == Some(Dedicated::Halt),
        pv: pv(vm, variant),
        hidden_features: hidden_features(vm, variant),
        beside: steer::of_guest(variant, &vm.name),
        links: Vec::new(),
        workloads: workloads?,
    })
}

/// KVM's features, and its hint where the variant gives it.
fn pv(vm: &Vm, variant: &Variant) -> BTreeMap<String, bool> {
    let features = variant.pv_of(vm);
    let features = features
        .iter()
        .map(|(feature, on)| (feature.name().to_owned(), on));
    let hinted = variant.switches.dedicated == Some(Dedicated::Hint);
    let hint = hinted.then(|| ("realtime".to_owned(), true));
    features.chain(hint).collect()
}

/// The feature bits of remedies that are on, but not offered to `vm`.
fn hidden_features(vm: &Vm, variant: &Variant) -> Vec<u32> {
    let on = variant.remedies.iter();
    let unaware = on.filter(|on| !on.is_offered_to(&vm.name));
    unaware.filter_map(|on| on.remedy.feature_bit).collect()
}

fn workload(vm: &Vm, at: usize, chance: Chance) -> Result<WorkloadPlan, LabError> {
    let begin_delay_us = chance.begin_delay_us(&vm.name, at);
    let seed = chance.program_seed(&vm.name, at);
    run_of(&vm.workloads[at], vm.vcpus, seed, begin_delay_us)
}

fn scheduler(variant: &Variant) -> steady_agent::plan::Scheduler {
    let knobs = variant.scheduler.clone();
    steady_agent::plan::Scheduler {
        features: knobs.features,
        base_slice_ns: knobs.base_slice_ns,
        vcpu_slice_ns: knobs.vcpu_slice_ns,
        vcpu_batch: knobs.vcpu_policy == Some(scenario::VcpuPolicy::Batch),
    }
}

/// What the host itself runs.
fn beside(
    scenario: &Scenario,
    variant: &Variant,
    chance: Chance,
) -> Result<Vec<WorkloadPlan>, LabError> {
    let workloads = scenario.host.workloads.iter().enumerate();
    workloads
        .map(|(at, each)| run_of(each, scenario.host.pcpus, chance.program_seed("", at), 0))
        .chain(steer::of_host(variant).into_iter().map(Ok))
        .collect()
}

/// Words for the kernel of every emulated host.
#[must_use]
pub fn base_cmdline(engine: &Engine) -> String {
    // Idle by HLT: on MONITOR, Bochs 3.0 takes a physical address for the linear one of what other
    // processors may no longer write past the monitor, and a store that should wake is lost; QEMU's
    // MWAIT polls.
    format!(
        "console=ttyS0 quiet steady.role=host no_timer_check idle=nomwait {}",
        engine.host_words()
    )
}

/// The word for a kernel that checks itself: with it the console of a kernel that is `quiet` shows
/// warnings too. Most of what such a kernel finds is printed as one (`KERN_WARNING`, level 4).
pub const HEAR_WARNINGS: &str = "loglevel=5";

/// The command line of the host's kernel.
#[must_use]
pub fn host_cmdline(engine: &Engine, variant: &Variant, booted: &Booted) -> String {
    let mut words = vec![base_cmdline(engine)];
    words.extend(booted.checks_itself.then(|| HEAR_WARNINGS.to_owned()));
    let remedies = booted.has_remedies.then(Registry::default);
    words.extend(variant_words(variant, remedies.as_ref()));
    words.join(" ")
}

/// How many times as long as elsewhere everything may take on a kernel that checks itself. Two to
/// three times was seen on `debug`; on `rt` hackbench took 105 s of a limit that was 30.
pub const SLOWER: u32 = 8;

/// Makes a plan one for kernels that check themselves: guests show their warnings, if a variant's
/// own words do not say otherwise, and every limit is longer.
pub fn for_kernel_that_checks(plan: &mut HostPlan) {
    let longer = |limit_ms: &mut u64| *limit_ms *= u64::from(SLOWER);
    longer(&mut plan.time_limit_ms);
    let of_host = plan.programs.iter_mut().chain(&mut plan.beside);
    of_host.for_each(|program| longer(&mut program.time_limit_ms));
    for vm in &mut plan.vms {
        vm.cmdline = format!("{HEAR_WARNINGS} {}", vm.cmdline);
        let workloads = vm.workloads.iter_mut();
        workloads.for_each(|workload| longer(&mut workload.time_limit_ms));
    }
}

/// What a variant adds to the command line of the host's kernel; `registry` are the remedies whose
/// parameters the kernel has. A kernel without them would complain of what it does not know.
#[must_use]
pub fn variant_words(variant: &Variant, registry: Option<&Registry>) -> Vec<String> {
    let mut words = Vec::new();
    if !variant.switches.ple {
        words.push("kvm_intel.ple_gap=0 kvm_amd.pause_filter_count=0".to_owned());
    }
    // Only Bochs has an Intel host with pause-loop exiting; elsewhere the word is without effect.
    if let Some(window_ns) = variant.switches.ple_window_ns {
        let cycles = bochs::tsc_cycles(window_ns);
        words.push(format!("kvm_intel.ple_window={cycles}"));
    }
    if let Some(poll_ns) = variant.switches.halt_poll_ns {
        words.push(format!("kvm.halt_poll_ns={poll_ns}"));
    }
    if let Some(registry) = registry.filter(|_| variant.kernel != Kernel::Stock) {
        let remedies = registry.shipped();
        words.extend(remedies.map(|remedy| remedy_word(variant, remedy)));
    }
    if !variant.host_cmdline.is_empty() {
        words.push(variant.host_cmdline.clone());
    }
    words
}

/// One parameter that the kernel series has. The VMM offers its guests all that the host's KVM
/// supports, so a remedy that is not on is switched off.
fn remedy_word(variant: &Variant, remedy: &Remedy) -> String {
    let on = variant.remedies.iter().find(|on| on.remedy == remedy);
    let value = on.map_or(remedy.off, |on| {
        on.mode.map_or(remedy.default_mode, |mode| mode.name)
    });
    format!("{}={value}", remedy.parameter)
}

#[cfg(test)]
mod tests;
