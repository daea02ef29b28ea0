// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The readers against the kernel's own tools: what `trace-cmd report` and `perf script` printed of
//! the fixtures is kept beside them.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use common::{Rules, compare, digest, fixture, fixture_bytes, fixture_source, open_bytes};

const EXACT: Rules = Rules {
    step_ns: 1,
    hexadecimal: &[],
    low_half: &[],
    forgets_ended: false,
};
/// From version 6.12 on `perf script` drops a thread's name when the thread ends.
const OF_ANY_PERF: Rules = Rules {
    forgets_ended: true,
    ..EXACT
};
/// `trace-cmd report -R` prints what the kernel prints with `%x`.
const RAW: Rules = Rules {
    step_ns: 1,
    hexadecimal: &[
        ("kvm_msr", "ecx"),
        ("kvm_hv_timer_state", "vcpu_id"),
        ("kvm_apic_ipi", "dest_id"),
        ("kvm_cpuid", "function"),
        ("kvm_cpuid", "index"),
    ],
    low_half: &[("kvm_ioapic_set_irq", "e")],
    forgets_ended: false,
};

type Compared = BTreeMap<(String, String), u64>;

/// Asserts how often fields were compared: `EVENT COUNT: FIELD FIELD`, an event and count each.
fn assert_compared(compared: &Compared, expected: &[&str]) {
    for each in expected {
        let (head, fields) = each.split_once(": ").unwrap();
        let (event, count) = head.split_once(' ').unwrap();
        for field in fields.split(' ') {
            let found = compared.get(&(event.to_owned(), field.to_owned()));
            assert_eq!(found, Some(&count.parse().unwrap()), "{event}.{field}");
        }
    }
}

/// Compares a binary trace with the text that a tool printed of it.
fn compared(binary: &str, text: &str, rules: &Rules) -> Compared {
    compare(
        fixture_source(binary).as_mut(),
        fixture_source(text).as_mut(),
        rules,
    )
}

#[test]
fn every_record_of_an_intel_host_is_as_trace_cmd_prints_it() {
    let compared = compared("bochs-intel-v6.dat", "bochs-intel-v6.raw.txt.gz", &RAW);
    assert_compared(
        &compared,
        &[
            "kvm_exit 491: exit_reason guest_rip isa vcpu_id intr_info",
            "kvm_entry 491: rip",
            "kvm_ple_window_update 130: new",
            "sched_switch 68: prev_comm next_comm prev_state next_pid",
            "kvm_msr 163: ecx",
            "hrtimer_start 72: expires",
        ],
    );
}

#[test]
fn every_record_of_an_amd_host_is_as_trace_cmd_prints_it() {
    let compared = compared("qemu-amd-v7-zstd.dat", "qemu-amd-v7-zstd.raw.txt.gz", &RAW);
    assert_compared(
        &compared,
        &[
            "kvm_exit 269: exit_reason isa",
            "sched_switch 71: prev_comm",
        ],
    );
}

#[test]
fn both_versions_and_compression_give_the_same_records() {
    let six = digest(fixture_source("bochs-intel-v6.dat").as_mut());
    assert_eq!(six.len(), 2500);
    assert_eq!(
        six,
        digest(fixture_source("bochs-intel-v7-zstd.dat").as_mut())
    );
}

#[test]
fn fields_that_trace_cmd_report_prints_in_words_are_read_back() {
    let compared = compared("bochs-intel-v6.dat", "bochs-intel-v6.report.txt.gz", &EXACT);
    assert_compared(
        &compared,
        &[
            "kvm_exit 491: guest_rip info1 info2",
            "kvm_entry 491: vcpu_id",
            "sched_switch 68: prev_comm next_pid",
            "sched_wakeup 2: comm target_cpu",
            "kvm_msr 163: ecx data write",
            "kvm_apic_ipi 16: dest_id",
            "kvm_ple_window_update 130: old",
            "kvm_wait_lapic_expire 131: delta",
            "kvm_inj_virq 148: vector",
        ],
    );
}

#[test]
fn fields_that_an_amd_host_prints_in_words_are_read_back() {
    let compared = compared(
        "qemu-amd-v7-zstd.dat",
        "qemu-amd-v7-zstd.report.txt.gz",
        &EXACT,
    );
    assert_compared(
        &compared,
        &[
            "kvm_exit 269: guest_rip",
            "kvm_pio 229: port rw val",
            "kvm_set_irq 22: irq_source_id",
            "kvm_hv_timer_state 18: hv_timer_in_use",
        ],
    );
}

#[test]
fn ftrace_text_gives_what_the_binary_trace_gives() {
    let microseconds = Rules {
        step_ns: 1000,
        ..EXACT
    };
    let mut text = fixture_source("bochs-intel.ftrace.txt.gz");
    let compared = compare(
        fixture_source("bochs-intel-v6.dat").as_mut(),
        text.as_mut(),
        &microseconds,
    );
    assert_compared(
        &compared,
        &[
            "kvm_exit 491: vcpu_id intr_info error_code",
            "kvm_entry 491: rip",
            "sched_switch 68: prev_comm next_prio",
        ],
    );
    assert_eq!((text.about().cpus, text.about().resolution_ns), (2, 1000));
    assert_eq!(text.loss().lost(), 7);
}

#[test]
fn ftrace_text_gives_the_flags_of_the_binary_trace() {
    let mut binary = fixture_source("bochs-intel-v6.dat");
    let mut text = fixture_source("bochs-intel.ftrace.txt.gz");
    let mut in_interrupt = 0;
    while let (Some(a), Some(b)) = (binary.next().unwrap(), text.next().unwrap()) {
        assert_eq!(a.flags, b.flags, "{}", a.time_ns);
        in_interrupt += u64::from(a.flags & 0x08 != 0);
    }
    assert_eq!(in_interrupt, 69 + 66 + 69 + 66);
}

#[test]
fn a_symbolic_exit_reason_is_text_and_a_number_only_in_the_binary_trace() {
    let mut text = fixture_source("bochs-intel-v6.report.txt.gz");
    let mut pauses = 0;
    while let Some(r) = text.next().unwrap() {
        if r.event.name == "kvm_exit" {
            assert_eq!(r.u64_named("exit_reason"), None);
            pauses += u64::from(r.str_named("exit_reason") == Some(b"PAUSE_INSTRUCTION"));
        }
    }
    assert_eq!(pauses, 114);
}

#[test]
fn every_sample_of_a_perf_data_is_as_perf_prints_it() {
    // A file, a compressed one, a pipe, and a trace with losses; the least that was compared.
    for (name, event, field, least) in [
        ("perf-file", "sched_switch", "prev_comm", 300),
        ("perf-file", "sched_switch", "next_pid", 300),
        ("perf-file", "softirq_entry", "vec", 10),
        ("perf-zstd", "sched_switch", "next_comm", 600),
        ("perf-zstd", "sched_wakeup", "target_cpu", 100),
        ("perf-pipe", "sched_switch", "prev_prio", 200),
        ("perf-lost", "sched_switch", "next_comm", 500),
        ("perf-lost", "sched_stat_runtime", "runtime", 200),
    ] {
        let (binary, text) = (format!("{name}.data"), format!("{name}.script.txt.gz"));
        let compared = compared(&binary, &text, &EXACT);
        let count = compared.get(&(event.to_owned(), field.to_owned()));
        assert!(count >= Some(&least), "{name}: {event}.{field}: {count:?}");
    }
}

#[test]
fn a_trace_reads_the_same_from_a_pipe() {
    for name in [
        "bochs-intel-v7-zstd.dat",
        "perf-file.data",
        "perf-pipe.data",
        "perf-zstd.data",
    ] {
        let piped = digest(open_bytes(fixture_bytes(name)).unwrap().as_mut());
        assert_eq!(piped, digest(fixture_source(name).as_mut()), "{name}");
    }
}

/// What a tool prints now; fails with the package to install if it is not there.
fn tool(program: &str, package: &str, args: &[&str], file: &str) -> Vec<u8> {
    let output = Command::new("timeout")
        .arg("300")
        .arg(program)
        .args(args)
        .arg("-i")
        .arg(fixture(file))
        .stdin(Stdio::null())
        .output()
        .expect("timeout runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{program} of {file}: {} ({said}); is it installed? apt-get install {package}",
        output.status
    );
    output.stdout
}

#[test]
fn the_tools_of_this_machine_agree() {
    for name in [
        "bochs-intel-v6.dat",
        "bochs-intel-v7-zstd.dat",
        "qemu-amd-v7-zstd.dat",
    ] {
        let text = tool("trace-cmd", "trace-cmd", &["report", "-t", "-R"], name);
        let mut text = open_bytes(text).unwrap();
        let compared = compare(fixture_source(name).as_mut(), text.as_mut(), &RAW);
        assert!(!compared.is_empty(), "{name}");
    }
    for name in [
        "perf-file.data",
        "perf-zstd.data",
        "perf-pipe.data",
        "perf-lost.data",
    ] {
        let text = tool("perf", "linux-perf", &["script", "--ns"], name);
        let mut text = open_bytes(text).unwrap();
        let compared = compare(fixture_source(name).as_mut(), text.as_mut(), &OF_ANY_PERF);
        assert!(!compared.is_empty(), "{name}");
    }
}
