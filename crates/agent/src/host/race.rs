// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The workloads of the VMs, once all guests are up: prepared, run in a window of the host's
//! counters, reported, and ended.

use std::collections::BTreeMap;

use nix::sys::signal::Signal;
use steady_agent::channel::{FromGuest, Output, ToGuest};
use steady_agent::event::{Event, Fault, FaultKind, Window, WorkloadEnd};
use steady_agent::plan::HostPlan;

use super::counters::{self, Threads};
use super::irqs_off::IrqsOff;
use super::out::Out;
use super::vm::Vm;
use super::{host_fault, wait_us};
use crate::system::{self, Failure};

/// Bound on the answers that need no workload: output, goodbye.
const ANSWER_LIMIT_NS: u64 = 30_000_000_000;

/// Waits for the guest's next word and takes it if it is the one expected.
pub fn expect<T>(
    vm: &mut Vm,
    deadline_ns: u64,
    waiting_for: &str,
    take: impl FnOnce(FromGuest) -> Option<T>,
) -> Result<T, Box<Fault>> {
    let word = vm.hear(deadline_ns, waiting_for)?;
    let said = format!("{word:?}");
    take(word).ok_or_else(|| {
        vm.fault(
            FaultKind::Host,
            format!("it said {said} instead of what was waited for: {waiting_for}"),
        )
    })
}

/// Lets the guest run the set-up of one of its workloads.
pub fn prepare_workload(vm: &mut Vm, index: usize, deadline_ns: u64) -> Result<(), Box<Fault>> {
    let workload = vm.plan.workloads[index].clone();
    let waiting_for = format!("the set-up of {}", workload.program);
    let background = vm.plan.background;
    vm.say(&ToGuest::Prepare {
        workload,
        background,
    })?;
    expect(vm, deadline_ns, &waiting_for, |word| {
        matches!(word, FromGuest::Prepared).then_some(())
    })
}

/// What the VMs of one run share.
pub struct Race<'a> {
    /// The way to the lab.
    pub out: &'a Out,
    /// What is to be run.
    pub plan: &'a HostPlan,
    /// The threads of every VM.
    pub threads: &'a BTreeMap<String, Threads>,
    /// How long interrupts are off at a time.
    pub irqs_off: &'a IrqsOff,
    /// When the whole run is over.
    pub deadline_ns: u64,
}

impl Race<'_> {
    /// Runs all measured VMs beside each other; the first fault is returned when all have ended.
    pub fn measured(&self, vms: &mut [Vm]) -> Result<(), Box<Fault>> {
        std::thread::scope(|scope| {
            let measured = vms.iter_mut().filter(|vm| !vm.plan.background);
            let runs: Vec<_> = measured
                .map(|vm| scope.spawn(|| self.workloads(vm)))
                .collect();
            runs.into_iter().try_for_each(|run| {
                run.join().unwrap_or_else(|_| {
                    Err(host_fault(Failure::new(
                        "a thread of the host's init panicked",
                    )))
                })
            })
        })
    }

    fn workloads(&self, vm: &mut Vm) -> Result<(), Box<Fault>> {
        for index in 0..vm.plan.workloads.len() {
            self.workload(vm, index)?;
        }
        Ok(())
    }

    fn workload(&self, vm: &mut Vm, index: usize) -> Result<(), Box<Fault>> {
        let program = vm.plan.workloads[index].program.clone();
        let name = vm.plan.name.clone();
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        prepare_workload(vm, index, self.deadline_ns)?;
        wait_us(vm.plan.workloads[index].begin_delay_us);
        self.out
            .event(&Event::Begin {
                vm: name.clone(),
                index: number,
                at_ns: system::now_ns(),
            })
            .map_err(host_fault)?;
        let before = counters::snapshot(self.plan.collect, self.threads).map_err(host_fault)?;
        let irqs_off = self.irqs_off.open().map_err(host_fault)?;
        vm.say(&ToGuest::Go)?;
        expect(
            vm,
            self.deadline_ns,
            &format!("the end of {program}"),
            |word| matches!(word, FromGuest::End).then_some(()),
        )?;
        let irqs_off_max_ns = self.irqs_off.close(irqs_off).map_err(host_fault)?;
        let after = counters::snapshot(self.plan.collect, self.threads).map_err(host_fault)?;
        vm.say(&ToGuest::Report)?;
        let output = output(vm, index)?;
        let window = Window {
            irqs_off_max_ns,
            ..counters::window(&before, &after, self.threads)
        };
        self.out
            .event(&Event::End(Box::new(WorkloadEnd {
                vm: name,
                index: number,
                output,
                window: Some(window),
            })))
            .map_err(host_fault)
    }

    /// Ends all VMs; the background ones report what they did.
    pub fn stop_all(&self, vms: &mut [Vm]) -> Result<(), Box<Fault>> {
        for vm in vms {
            let deadline_ns = system::now_ns() + ANSWER_LIMIT_NS;
            if let Some(FromGuest::Output(output)) = vm.stop(deadline_ns)? {
                check(vm, 0, &output)?;
                let end = WorkloadEnd {
                    vm: vm.plan.name.clone(),
                    index: 0,
                    output: *output,
                    window: None,
                };
                self.out
                    .event(&Event::End(Box::new(end)))
                    .map_err(host_fault)?;
            }
        }
        Ok(())
    }
}

fn output(vm: &mut Vm, index: usize) -> Result<Output, Box<Fault>> {
    let deadline_ns = system::now_ns() + ANSWER_LIMIT_NS;
    let program = &vm.plan.workloads[index].program;
    // Each byte is an exit of its VM.
    let waiting_for = format!("the output of {program}; it may print less, or into a file");
    let output = expect(vm, deadline_ns, &waiting_for, |word| match word {
        FromGuest::Output(output) => Some(*output),
        _ => None,
    })?;
    check(vm, index, &output)?;
    Ok(output)
}

/// A workload that failed must not be told as a measure.
fn check(vm: &Vm, index: usize, output: &Output) -> Result<(), Box<Fault>> {
    let plan = &vm.plan.workloads[index];
    if output.ended_as_asked() {
        return Ok(());
    }
    let how = match (output.timed_out, output.exit_code, output.signal) {
        (true, ..) => format!(
            "ran into its time limit of {} ms, `time_limit_s` of the scenario",
            plan.time_limit_ms
        ),
        (false, Some(0), _) => return Ok(()),
        (false, Some(code), _) => format!("ended with exit code {code} where 0 was expected"),
        (false, None, Some(signal)) => {
            let name = Signal::try_from(signal).map_or("", Signal::as_str);
            format!("was ended by signal {signal} ({name})")
        }
        (false, None, None) if output.asked_to_end => {
            "did not end when it was asked to, and was killed".to_owned()
        }
        (false, None, None) => "ended, nobody knows how".to_owned(),
    };
    // dbench tells its errors on standard output.
    let words = [&output.stderr, &output.stdout].map(|text| text.trim());
    let words = words.into_iter().find(|text| !text.is_empty());
    let said = system::tail(words.unwrap_or("nothing"), 500);
    Err(vm.fault(
        FaultKind::Workload,
        format!("{} {how}; it said: {said}", plan.program),
    ))
}
