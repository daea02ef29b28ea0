// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The readers against the kernel's own tools: what `trace-cmd report` and `perf script` printed of
//! the fixtures is kept beside them.

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

fn assert_compared(compared: &Compared, fields: &[(&str, &str, u64)]) {
    for (event, field, count) in fields {
        let key = ((*event).to_owned(), (*field).to_owned());
        assert_eq!(compared.get(&key), Some(count), "{event}.{field}");
    }
}

#[test]
fn every_record_of_an_intel_host_is_as_trace_cmd_prints_it() {
    let compared = compare(
        fixture_source("bochs-intel-v6.dat").as_mut(),
        fixture_source("bochs-intel-v6.raw.txt.gz").as_mut(),
        &RAW,
    );
    assert_compared(
        &compared,
        &[
            ("kvm_exit", "exit_reason", 491),
            ("kvm_exit", "guest_rip", 491),
            ("kvm_exit", "isa", 491),
            ("kvm_exit", "vcpu_id", 491),
            ("kvm_exit", "intr_info", 491),
            ("kvm_entry", "rip", 491),
            ("kvm_ple_window_update", "new", 130),
            ("sched_switch", "prev_comm", 68),
            ("sched_switch", "next_comm", 68),
            ("sched_switch", "prev_state", 68),
            ("sched_switch", "next_pid", 68),
            ("kvm_msr", "ecx", 163),
            ("hrtimer_start", "expires", 72),
        ],
    );
}

#[test]
fn every_record_of_an_amd_host_is_as_trace_cmd_prints_it() {
    let compared = compare(
        fixture_source("qemu-amd-v7-zstd.dat").as_mut(),
        fixture_source("qemu-amd-v7-zstd.raw.txt.gz").as_mut(),
        &RAW,
    );
    assert_compared(
        &compared,
        &[
            ("kvm_exit", "exit_reason", 269),
            ("kvm_exit", "isa", 269),
            ("sched_switch", "prev_comm", 71),
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
    let compared = compare(
        fixture_source("bochs-intel-v6.dat").as_mut(),
        fixture_source("bochs-intel-v6.report.txt.gz").as_mut(),
        &EXACT,
    );
    assert_compared(
        &compared,
        &[
            ("kvm_exit", "guest_rip", 491),
            ("kvm_exit", "info1", 491),
            ("kvm_exit", "info2", 491),
            ("kvm_entry", "vcpu_id", 491),
            ("sched_switch", "prev_comm", 68),
            ("sched_switch", "next_pid", 68),
            ("sched_wakeup", "comm", 2),
            ("sched_wakeup", "target_cpu", 2),
            ("kvm_msr", "ecx", 163),
            ("kvm_msr", "data", 163),
            ("kvm_msr", "write", 163),
            ("kvm_apic_ipi", "dest_id", 16),
            ("kvm_ple_window_update", "old", 130),
            ("kvm_wait_lapic_expire", "delta", 131),
            ("kvm_inj_virq", "vector", 148),
        ],
    );
}

#[test]
fn fields_that_an_amd_host_prints_in_words_are_read_back() {
    let compared = compare(
        fixture_source("qemu-amd-v7-zstd.dat").as_mut(),
        fixture_source("qemu-amd-v7-zstd.report.txt.gz").as_mut(),
        &EXACT,
    );
    assert_compared(
        &compared,
        &[
            ("kvm_exit", "guest_rip", 269),
            ("kvm_pio", "port", 229),
            ("kvm_pio", "rw", 229),
            ("kvm_pio", "val", 229),
            ("kvm_set_irq", "irq_source_id", 22),
            ("kvm_hv_timer_state", "hv_timer_in_use", 18),
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
            ("kvm_exit", "vcpu_id", 491),
            ("kvm_exit", "intr_info", 491),
            ("kvm_exit", "error_code", 491),
            ("kvm_entry", "rip", 491),
            ("sched_switch", "prev_comm", 68),
            ("sched_switch", "next_prio", 68),
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

fn perf(name: &str, fields: &[(&str, &str, u64)]) {
    let mut binary = fixture_source(&format!("{name}.data"));
    let compared = compare(
        binary.as_mut(),
        fixture_source(&format!("{name}.script.txt.gz")).as_mut(),
        &EXACT,
    );
    for (event, field, least) in fields {
        let count = compared.get(&((*event).to_owned(), (*field).to_owned()));
        assert!(count >= Some(least), "{event}.{field}: {count:?}");
    }
}

#[test]
fn every_sample_of_a_file_is_as_perf_prints_it() {
    perf(
        "perf-file",
        &[
            ("sched_switch", "prev_comm", 300),
            ("sched_switch", "next_pid", 300),
            ("softirq_entry", "vec", 10),
        ],
    );
}

#[test]
fn every_sample_of_a_compressed_file_is_as_perf_prints_it() {
    perf(
        "perf-zstd",
        &[
            ("sched_switch", "next_comm", 600),
            ("sched_wakeup", "target_cpu", 100),
        ],
    );
}

#[test]
fn every_sample_of_a_pipe_is_as_perf_prints_it() {
    perf("perf-pipe", &[("sched_switch", "prev_prio", 200)]);
}

#[test]
fn every_sample_of_a_trace_with_losses_is_as_perf_prints_it() {
    perf(
        "perf-lost",
        &[
            ("sched_switch", "next_comm", 500),
            ("sched_stat_runtime", "runtime", 200),
        ],
    );
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
