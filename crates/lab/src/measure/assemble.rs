// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One run's events as one repetition of the result.
//!
//! Numbers of a measured workload are of its own window. A background VM is seen through the
//! windows of the others, so its workload is named `spin@shootdown`: spin, while shootdown ran.

use std::collections::BTreeMap;
use std::path::Path;

use steady_agent::channel::Output;
use steady_agent::event::{Event, VmWindow, Window, WorkloadEnd};
use steady_events::Isa;
use steady_guest_programs as guest_programs;
use steady_measures::{
    Artifact, Better, Distribution, Metric, Ratio, Repetition, Unit, Warning, names,
};
use steady_scenario::{Collect, ResultFrom, Scenario, Vm, Workload};

use super::symbol::{Class, Symbols};
use super::{complaint, over_vms, spans};
use crate::engine::watch::Transcript;
use crate::error::RunFault;

/// From this share of CPU time on, others disturb a wall clock enough to say so, in percent.
const BUSY_PERCENT: u64 = 10;
/// The trace that a host sends, by name.
const TRACE: &str = "trace.dat";

/// What is known before the run.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// The symbols of each guest's kernel, by the name of its VM.
    pub symbols: &'a BTreeMap<String, &'a Symbols>,
    /// Whether the engine's clock is the wall.
    pub wall_clock: bool,
    /// Folder of the result; artifacts are named relative to it.
    pub result_directory: &'a Path,
    /// Folder of this run, below it.
    pub run_directory: &'a Path,
}

/// The repetition that a transcript shows.
///
/// # Errors
/// [`RunFault::Output`] if a program's output cannot be read, [`RunFault::Report`] for what the
/// scenario does not have, [`RunFault::Files`].
pub fn repetition(
    context: Context<'_>,
    index: u32,
    transcript: &Transcript,
) -> Result<Repetition, RunFault> {
    let mut made = Repetition {
        index,
        ..Repetition::default()
    };
    let mut isa = Isa::Vmx;
    for (_, event) in &transcript.events {
        match event {
            Event::Up {
                isa: word,
                unsettled,
                ..
            } => {
                made.warnings.extend(not_settled("the host", unsettled));
                let known = Isa::from_word(word);
                // KVM of other machines is read in traces; the lab emulates none of them.
                let known = known.filter(|isa| matches!(isa, Isa::Vmx | Isa::Svm));
                isa = known.ok_or_else(|| {
                    RunFault::Report(format!(
                        "the host names the ISA `{word}`; vmx or svm was expected"
                    ))
                })?;
            }
            Event::GuestUp { vm, unsettled, .. } => {
                let who = format!("the guest of {vm}");
                made.warnings.extend(not_settled(&who, unsettled));
            }
            Event::End(end) => workload(context, isa, end, &mut made)?,
            _ => {}
        }
    }
    let vms = &context.scenario.vms;
    let is_measured = |name: &str| vms.iter().any(|vm| vm.name == name && !vm.background);
    let together = over_vms::metrics(&made.metrics, is_measured);
    made.metrics.extend(together);
    if context.wall_clock && transcript.others_percent > BUSY_PERCENT {
        let text = format!(
            "{} % of this machine's CPU time went to others during the run, and this \
             engine's clock is the wall: its latencies are too high; repeat it on a quiet machine",
            transcript.others_percent
        );
        made.warnings.push(Warning {
            code: "machine-busy".to_owned(),
            text,
        });
    }
    let vms: Vec<&str> = vms.iter().map(|vm| vm.name.as_str()).collect();
    made.warnings
        .extend(complaint::warnings(context.run_directory, &vms));
    if transcript.files.iter().any(|name| name == TRACE) {
        made.artifacts.push(artifact(context, TRACE, "trace")?);
        spans::write(context.scenario, transcript, context.run_directory, TRACE)?;
    }
    Ok(made)
}

/// The warning that measuring began before the boot had ended.
fn not_settled(who: &str, unsettled: &[String]) -> Option<Warning> {
    (!unsettled.is_empty()).then(|| Warning {
        code: "not-settled".to_owned(),
        text: format!(
            "{who} had not settled when it began: {}",
            unsettled.join("; ")
        ),
    })
}

fn artifact(context: Context<'_>, file: &str, name: &str) -> Result<Artifact, RunFault> {
    let path = context.run_directory.join(file);
    let relative = path
        .strip_prefix(context.result_directory)
        .unwrap_or(&path)
        .to_string_lossy()
        .into_owned();
    let described = Artifact::of_file(context.result_directory, &relative, name);
    described.map_err(|error| RunFault::Files(format!("cannot read {}: {error}", path.display())))
}

fn workload(
    context: Context<'_>,
    isa: Isa,
    end: &WorkloadEnd,
    made: &mut Repetition,
) -> Result<(), RunFault> {
    let vms = &context.scenario.vms;
    let unknown = || {
        RunFault::Report(format!(
            "the host reports on VM {} workload {}, which the scenario has not",
            end.vm, end.index
        ))
    };
    let vm = vms
        .iter()
        .find(|vm| vm.name == end.vm)
        .ok_or_else(unknown)?;
    let named = vm.workloads.get(end.index as usize).ok_or_else(unknown)?;
    let workload = workload_name(vm, end.index as usize);
    let fault = |what: String| RunFault::Output {
        vm: end.vm.clone(),
        program: named.program.name().to_owned(),
        what,
    };
    let (metrics, distributions) =
        reported(named, &end.output, &end.vm, &workload).map_err(fault)?;
    let shootdowns = distributions
        .iter()
        .filter(|each| each.name() == names::SHOOTDOWN_LATENCY)
        .map(Distribution::count)
        .sum();
    made.metrics.extend(metrics);
    made.distributions.extend(distributions);
    for (name, &count) in &end.output.counters {
        let metric = Metric::new(
            format!("guest.{name}"),
            Unit::Count,
            Better::Neutral,
            integer(count),
        );
        made.metrics
            .push(metric.in_vm(&end.vm).of_workload(&workload));
    }
    if let Some(window) = &end.window {
        of_window(context, isa, window, (&end.vm, &workload), made);
        let irqs_off = window.irqs_off_max_ns.map(|longest_ns| {
            let value = integer(longest_ns);
            Metric::new(names::HOST_IRQS_OFF_MAX, Unit::Ns, Better::Lower, value)
        });
        made.metrics
            .extend(irqs_off.map(|metric| metric.in_vm(&end.vm).of_workload(&workload)));
        if context.scenario.measure.collect.contains(&Collect::Exits) {
            let costs = shootdown_costs(window, &end.vm, shootdowns);
            made.metrics.extend(
                costs
                    .into_iter()
                    .map(|metric| metric.in_vm(&end.vm).of_workload(&workload)),
            );
        }
    }
    Ok(())
}

/// What the program says of itself: nothing, if it died in the background as it was asked to.
fn reported(
    named: &Workload,
    output: &Output,
    vm: &str,
    workload: &str,
) -> Result<(Vec<Metric>, Vec<Distribution>), String> {
    if output.ended_as_asked() && output.exit_code != Some(0) {
        return Ok((Vec::new(), Vec::new()));
    }
    let name = named.program.name();
    let output = program_output(output);
    let report = match named.program.known() {
        Some(_) => guest_programs::find(name)
            .map_err(|error| error.to_string())?
            .parse(&output),
        None => guest_programs::brought(name, named.result == ResultFrom::Line, &output),
    };
    let report = report.map_err(|error| error.to_string())?;
    report
        .scoped(vm, workload)
        .map_err(|error| error.to_string())
}

/// What the host spends on a thousand shootdowns: interrupts between its pCPUs, and exits of the
/// VM. Whatever else happened in the window is in them.
fn shootdown_costs(window: &Window, vm: &str, shootdowns: u64) -> Vec<Metric> {
    let exits: u64 = window
        .vms
        .get(vm)
        .map_or(0, |counted| counted.exits.values().sum());
    let lower = |name, value| Metric::new(name, Unit::Count, Better::Lower, value);
    let mut metrics = vec![lower(names::HOST_IPIS, integer(window.host_ipis))];
    let per_1000 = |count: u64| Ratio::of(count, shootdowns)?.floor(1000);
    if let (Some(ipis), Some(exits)) = (per_1000(window.host_ipis), per_1000(exits)) {
        metrics.push(lower(names::HOST_IPIS_PER_1000_SHOOTDOWNS, ipis));
        metrics.push(lower(names::EXITS_PER_1000_SHOOTDOWNS, exits));
    }
    metrics
}

/// Name of a workload in the results: its program, with a number if the VM runs it twice.
pub(super) fn workload_name(vm: &Vm, index: usize) -> String {
    let program = vm.workloads[index].program.name();
    let earlier = vm.workloads[..index]
        .iter()
        .filter(|workload| workload.program.name() == program)
        .count();
    if earlier == 0 {
        program.to_owned()
    } else {
        format!("{program}-{}", earlier + 1)
    }
}

fn program_output(output: &Output) -> guest_programs::Output<'_> {
    let exit = match (output.timed_out, output.exit_code, output.signal) {
        (true, ..) => guest_programs::Exit::TimeLimit,
        (false, Some(code), _) => guest_programs::Exit::Code(code),
        (false, None, signal) => guest_programs::Exit::Signal(signal.unwrap_or(0)),
    };
    guest_programs::Output {
        stdout: &output.stdout,
        stderr: &output.stderr,
        wall_ns: output.wall_ns,
        exit,
    }
}

fn of_window(
    context: Context<'_>,
    isa: Isa,
    window: &Window,
    measured: (&str, &str),
    made: &mut Repetition,
) {
    let (measured_vm, workload) = measured;
    if window.dropped > 0 {
        let text = format!(
            "{} VM exits of {measured_vm}, {workload}, had no room in the kernel's \
             histogram; exit counts and guest time are lower bounds",
            window.dropped
        );
        made.warnings.push(Warning {
            code: "events-lost".to_owned(),
            text,
        });
    }
    for vm in &context.scenario.vms {
        let Some(counted) = window.vms.get(&vm.name) else {
            continue;
        };
        let scope = if vm.name == measured_vm {
            workload.to_owned()
        } else if vm.background {
            let beside = beside(&context.scenario.vms, measured_vm, workload);
            format!("{}@{beside}", workload_name(vm, 0))
        } else {
            // Another measured VM has windows of its own.
            continue;
        };
        let mut metrics = of_vm(context, isa, counted, window.length_ns);
        if context
            .scenario
            .measure
            .collect
            .contains(&Collect::GuestTime)
        {
            let symbols = context.symbols.get(&vm.name);
            let symbols = symbols.expect("a VM that ran has booted a kernel");
            metrics.extend(guest_time(symbols, counted));
        }
        made.metrics.extend(
            metrics
                .into_iter()
                .map(|metric| metric.in_vm(&vm.name).of_workload(&scope)),
        );
    }
}

/// What a background program ran beside: the workload, with its VM where another measured VM has
/// one of the same name.
fn beside(vms: &[Vm], measured_vm: &str, workload: &str) -> String {
    let twice = vms
        .iter()
        .filter(|vm| !vm.background && vm.name != measured_vm)
        .any(|vm| (0..vm.workloads.len()).any(|index| workload_name(vm, index) == workload));
    if twice {
        format!("{measured_vm}.{workload}")
    } else {
        workload.to_owned()
    }
}

fn of_vm(context: Context<'_>, isa: Isa, counted: &VmWindow, length_ns: u64) -> Vec<Metric> {
    let collects = |what| context.scenario.measure.collect.contains(&what);
    let lower =
        |name: &str, unit, value: u64| Metric::new(name, unit, Better::Lower, integer(value));
    let neutral =
        |name: String, unit, value: u64| Metric::new(name, unit, Better::Neutral, integer(value));
    let mut metrics = vec![neutral("window".to_owned(), Unit::Ns, length_ns)];
    if collects(Collect::CpuTime) {
        metrics.push(lower(
            names::CPU_TIME,
            Unit::Ns,
            counted.vcpu_run_ns + counted.vmm_run_ns,
        ));
        metrics.push(neutral(
            "cpu_time.vcpus".to_owned(),
            Unit::Ns,
            counted.vcpu_run_ns,
        ));
        metrics.push(neutral(
            "cpu_wait.vcpus".to_owned(),
            Unit::Ns,
            counted.vcpu_wait_ns,
        ));
    }
    if collects(Collect::Exits) {
        metrics.push(lower(
            names::EXITS_TOTAL,
            Unit::Count,
            counted.exits.values().sum(),
        ));
        for (&reason, &count) in &counted.exits {
            let name = format!("{}{}", names::EXITS_PREFIX, isa.exit_name(reason));
            // Two raw VMX reasons that differ in their flags alone have one name.
            match metrics.iter_mut().find(|metric| metric.name == name) {
                Some(metric) => metric.value += integer(count),
                None => metrics.push(Metric::new(
                    name,
                    Unit::Count,
                    Better::Lower,
                    integer(count),
                )),
            }
        }
        metrics.extend(timer_work(counted));
    }
    if collects(Collect::KvmStats) {
        let always = [
            names::HALTS,
            names::HYPERCALLS,
            names::DIRECTED_YIELDS_ATTEMPTED,
            names::DIRECTED_YIELDS_SUCCESSFUL,
            names::TLB_FLUSHES,
        ];
        for (stat, &value) in &counted.stats {
            let name = format!("{}{stat}", names::STAT_PREFIX);
            if value > 0 || always.contains(&name.as_str()) {
                let unit = if stat.ends_with("_ns") {
                    Unit::Ns
                } else {
                    Unit::Count
                };
                metrics.push(neutral(name, unit, value));
            }
        }
    }
    metrics
}

/// Registers with which a guest programs its local timer: `IA32_TSC_DEADLINE`, and in x2APIC mode
/// the timer's LVT entry, initial count and divider (Intel SDM volume 4, table 2-2).
const TIMER_REGISTERS: [u64; 4] = [0x6e0, 0x832, 0x838, 0x83e];

/// What a VM's timers cost, apart from the exit reasons: these do not distinguish a write to the
/// timer from another, nor, on SVM, the host's timer from another interrupt.
fn timer_work(counted: &VmWindow) -> Vec<Metric> {
    let writes = counted.writes.iter();
    let writes = writes.filter(|(register, _)| TIMER_REGISTERS.contains(register));
    let counts = [
        (names::TIMER_WRITES, writes.map(|(_, count)| count).sum()),
        (names::TIMER_INTERRUPTS, counted.timer_interrupts),
        (names::TIMER_HOST, counted.host_timer_interrupts),
    ];
    let metric =
        |(name, count): (&str, u64)| Metric::new(name, Unit::Count, Better::Lower, integer(count));
    counts.map(metric).into()
}

/// vCPU time by class, in the shares of the sampled RIPs.
fn guest_time(symbols: &Symbols, counted: &VmWindow) -> Vec<Metric> {
    let samples: u64 = counted.rips.values().sum();
    let mut metrics = vec![Metric::new(
        "guest_samples",
        Unit::Count,
        Better::Neutral,
        integer(samples),
    )];
    if samples == 0 {
        return metrics;
    }
    let mut counts = [0_u64; Class::ALL.len()];
    for (&rip, &count) in &counted.rips {
        counts[symbols.class(rip) as usize] += count;
    }
    assert_eq!(
        counts.iter().sum::<u64>(),
        samples,
        "each sample has one class"
    );
    for class in Class::ALL {
        let share = Ratio::of(counts[class as usize], samples);
        let time = share.and_then(|share| share.floor(counted.vcpu_run_ns));
        let value = time.unwrap_or(i64::MAX);
        let name = format!("{}{}", names::GUEST_TIME_PREFIX, class.word());
        metrics.push(Metric::new(name, Unit::Ns, Better::Neutral, value));
    }
    metrics
}

fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
