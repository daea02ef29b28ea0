// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kinds of mistakes, each over many sizes: limits beside neighbours, distinct VMs, hosts with
//! too few pCPUs, storms.

use steady_decode::TraceEvents;
use steady_diagnose::{Confidence, Diagnoser, Diagnosis, VcpuNote, VmNote, VmNotes};

use super::causes::{self, Cause, OWN};
use super::host::{EPT_MISCONFIG, EXTERNAL_INTERRUPT, Host, Recorder, Thread};
use super::print::Layout;
use super::{bytes, draw, word};

const US: u64 = 1000;
const ZERO: u64 = 100_000_000_000;

fn diagnosed(host: &Host, layout: Layout, notes: Option<VmNotes>) -> Diagnosis {
    let reader = std::io::Cursor::new(bytes(host, Recorder::Whole, layout, 0));
    let mut source = steady_tracefile::open_stream(Box::new(reader), "made").expect("it opens");
    let mut diagnoser = Diagnoser::new();
    diagnoser.notes = notes;
    let mut events = TraceEvents::new(source.as_mut());
    let read = diagnoser.trace("made", &mut events, &mut |_, _, _| Ok(()));
    read.expect("it is read");
    diagnoser.finish()
}

/// Vms whose vCPUs take turns on each pCPU, for `rounds` rounds; the first of each round runs for
/// `first_us` of it and the others share the rest.
fn round_robin(vms: u32, vcpus: u32, period_us: u64, first_us: u64, rounds: u64) -> Host {
    let mut host = Host::default();
    for cpu in 0..vcpus {
        let thread = |vm: u32| {
            let process = 1000 * (vm + 1).cast_signed();
            Thread::vcpu(cpu, process + 1 + cpu.cast_signed(), process)
        };
        for round in 0..rounds {
            let mut at = ZERO + round * period_us * US;
            for vm in 0..vms {
                let length = match vm {
                    0 => first_us,
                    _ => (period_us - first_us) / u64::from(vms - 1),
                };
                let end = at + length * US;
                host.entry(at + US, cpu, &thread(vm), cpu);
                host.exit(end - US, cpu, &thread(vm), cpu, EXTERNAL_INTERRUPT);
                host.switch(end, cpu, &thread(vm), "R", &thread((vm + 1) % vms));
                at = end;
            }
        }
    }
    host
}

fn notes(vms: u32, vcpus: u32, limit: &str) -> VmNotes {
    let vm = |vm: u32| {
        let process = 1000 * (vm + 1).cast_signed();
        let vcpu = |number: u32| VcpuNote {
            number,
            tid: process + 1 + number.cast_signed(),
            cpus: None,
            cgroup: None,
            cpu_max: (vm == 0).then(|| limit.to_owned()),
            cpu_weight: None,
        };
        VmNote {
            name: Some(format!("name{vm}")),
            process,
            vmm: "qemu".to_owned(),
            cgroup: None,
            threads: vec![process],
            vcpus: (0..vcpus).map(vcpu).collect(),
        }
    };
    VmNotes::new((0..vms).map(vm).collect())
}

#[test]
fn a_limit_that_is_used_up_is_the_cause_and_one_that_is_not_is_none() {
    for at in 0..40 {
        let vcpus = u32::try_from(1 + draw(at) % 3).expect("a few");
        let first_us = 15_000 + draw(at + 100) % 70_000;
        let host = round_robin(2, vcpus, 100_000, first_us, 40);
        let of = |limit: String| {
            let diagnosis = diagnosed(&host, Layout::Ftrace, Some(notes(2, vcpus, &limit)));
            let own = diagnosis.findings.into_iter();
            let mut own = own.filter(|finding| finding.vm.as_deref() == Some("name0"));
            own.next()
        };
        let used = of(format!("{first_us} 100000"));
        let used = used.unwrap_or_else(|| panic!("{first_us} of 100 ms: nothing"));
        assert_eq!(word(&used.cause), "cpu-max", "{first_us}");
        assert_eq!(used.confidence, Confidence::Medium);
        // A limit twice as wide cannot be what holds them.
        if let Some(wide) = of(format!("{} 100000", first_us * 5 / 2)) {
            assert_ne!(word(&wide.cause), "cpu-max", "{first_us}");
        }
    }
}

#[test]
fn vms_are_told_apart_by_process_where_the_text_has_it_however_ids_lie() {
    for at in 0..30 {
        // One VM, its threads anywhere.
        let mut host = Host::default();
        let vcpus = u32::try_from(2 + draw(at) % 4).expect("a few");
        let tid = |vcpu: u32| {
            let apart = i32::try_from(draw(at * 16 + u64::from(vcpu)) % 40).expect("small");
            1001 + 60 * vcpu.cast_signed() + apart
        };
        let thread = |vcpu: u32| Thread::vcpu(vcpu, tid(vcpu), 1000);
        for round in 0..60_u64 {
            let vcpu = u32::try_from(round).expect("small") % vcpus;
            let (begin, end) = (ZERO + round * 5_000 * US, ZERO + (round + 1) * 5_000 * US);
            host.entry(begin + US, 0, &thread(vcpu), vcpu);
            host.exit(end - US, 0, &thread(vcpu), vcpu, EXTERNAL_INTERRUPT);
            host.switch(end, 0, &thread(vcpu), "R", &thread((vcpu + 1) % vcpus));
        }
        for layout in Layout::ALL {
            let diagnosis = diagnosed(&host, layout, None);
            let trace = &diagnosis.traces[0];
            assert_eq!(trace.vms.len(), 1, "{layout:?}");
            let told = layout.has_processes();
            let by = if told { "process" } else { "adjacency" };
            assert_eq!(trace.vms_by, by, "{layout:?}");
            let first = &diagnosis.findings[0];
            assert_eq!(word(&first.cause), "own-vm", "{layout:?}");
            assert!(told || first.confidence < Confidence::High, "{layout:?}");
        }
    }
}

#[test]
fn vms_that_share_all_pcpus_alike_are_one_finding_and_nobody_is_to_move() {
    for at in 0..30 {
        let vms = u32::try_from(2 + draw(at) % 5).expect("a few");
        let vcpus = u32::try_from(1 + draw(at + 50) % 4).expect("a few");
        let period_us = u64::from(vms) * (2_000 + draw(at + 99) % 6_000);
        let host = round_robin(vms, vcpus, period_us, period_us / u64::from(vms), 60);
        let diagnosis = diagnosed(&host, Layout::FtraceTgid, None);
        let found: Vec<String> = diagnosis.findings.iter().map(|of| word(&of.id)).collect();
        assert_eq!(found, ["host-overcommitted"], "{vms} VMs of {vcpus} vCPUs");
        let moves = diagnosis.findings[0].next.iter();
        assert!(moves.clone().all(|step| word(&step.id) != "move-other-vm"));
        let host = diagnosis.traces[0].host.as_ref().expect("it was recorded");
        assert_eq!(host.pcpus, u64::from(vcpus));
        // All want all of the time, but each is seen from its first turn on.
        let all = u64::from(vms * vcpus) * 1000;
        assert!(host.wanted_permille <= all && host.wanted_permille * 100 >= all * 95);
    }
}

#[test]
fn no_step_gives_more_than_what_was_lost() {
    for at in 0..20 {
        let host = round_robin(2, 2, 20_000, 4_000 + draw(at) % 14_000, 40);
        for finding in diagnosed(&host, Layout::Perf, None).findings {
            for gain in finding.next.iter().filter_map(|step| step.gain) {
                assert!(gain.removes_ns <= finding.lost_ns);
                assert_eq!(gain.removes_ns + gain.leaves_ns, finding.lost_ns);
            }
        }
    }
}

#[test]
fn exits_without_entries_are_a_storm_from_fifty_thousand_in_a_second_on() {
    for (apart_us, storm) in [(2, true), (10, true), (19, true), (21, false), (100, false)] {
        let mut host = Host::default();
        let vcpu = Thread::vcpu(0, 1001, 1000);
        for at in 0..2_000 {
            host.exit(ZERO + at * apart_us * US, 0, &vcpu, 0, EPT_MISCONFIG);
        }
        let found = diagnosed(&host, Layout::Ftrace, None).findings;
        let is_storm = found
            .iter()
            .any(|finding| word(&finding.id) == "exit-storm");
        assert_eq!(is_storm, storm, "one in {apart_us} us");
    }
}

#[test]
fn a_thread_of_another_priority_is_named_with_it() {
    for (prio, said) in [
        (120, "backup"),
        (110, "backup (nice -10)"),
        (139, "backup (nice 19)"),
        (49, "backup (real-time priority 50)"),
    ] {
        let size = super::size(Cause::HostTask, 3);
        let host = causes::make(Cause::HostTask, size);
        let text = bytes(&host, Recorder::Whole, Layout::Ftrace, OWN);
        let text = String::from_utf8(text).expect("it is text");
        // As the next thread and, when it is switched out, as the one before.
        let next = "next_comm=backup next_pid=777 next_prio=";
        let text = text.replace(&format!("{next}120"), &format!("{next}{prio}"));
        let before = next.replace("next", "prev");
        let text = text.replace(&format!("{before}120"), &format!("{before}{prio}"));
        let reader = std::io::Cursor::new(text.into_bytes());
        let mut source = steady_tracefile::open_stream(Box::new(reader), "made").expect("opens");
        let mut diagnoser = Diagnoser::new();
        let mut events = TraceEvents::new(source.as_mut());
        let read = diagnoser.trace("made", &mut events, &mut |_, _, _| Ok(()));
        read.expect("it is read");
        let first = &diagnoser.finish().findings[0];
        assert_eq!(first.culprits[0].name.as_deref(), Some(said), "{prio}");
    }
}
