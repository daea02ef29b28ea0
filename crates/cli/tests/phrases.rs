// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Words and figures of a diagnosis that once said more, or less, than the trace does: each test
//! has an input of its own, printed as ftrace prints it.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::fmt::Write as _;
use std::process::{Command, Stdio};

use serde_json::Value;

/// What `steady diagnose` prints of a trace with these lines, broken at no place.
fn diagnosed(lines: &str, words: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.txt");
    std::fs::write(&trace, lines).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_steady"))
        .arg("diagnose")
        .arg(&trace)
        .args(words)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{talk}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn json(lines: &str) -> Value {
    serde_json::from_str(&diagnosed(lines, &["--json"])).unwrap()
}

/// A line of the vCPU's own thread.
fn own(lines: &mut String, us: u64, event: &str) {
    let (s, us) = (1 + us / 1_000_000, us % 1_000_000);
    writeln!(lines, "       CPU 0/KVM-100 [000] {s}.{us:06}: {event}").unwrap();
}

fn exit(lines: &mut String, us: u64, reason: &str, rip: &str) {
    let event = format!("kvm_exit: vcpu 0 reason {reason} rip {rip} info1 0x0 info2 0x0");
    own(lines, us, &event);
}

fn entry(lines: &mut String, us: u64) {
    own(lines, us, "kvm_entry: vcpu 0, rip 0xffffffff81000010");
}

/// A vCPU that is off its pCPU from one time to another.
fn off(lines: &mut String, from_us: u64, to_us: u64) {
    let vcpu = ("CPU 0/KVM", 100);
    let other = ("backup", 200);
    let switch = |(from, from_tid): (&str, u32), (to, to_tid): (&str, u32)| {
        format!(
            "sched_switch: prev_comm={from} prev_pid={from_tid} prev_prio=120 prev_state=R ==> \
             next_comm={to} next_pid={to_tid} next_prio=120"
        )
    };
    own(lines, from_us, &switch(vcpu, other));
    let (s, us) = (1 + to_us / 1_000_000, to_us % 1_000_000);
    let back = switch(other, vcpu);
    writeln!(lines, "          backup-200 [000] {s}.{us:06}: {back}").unwrap();
}

/// 274 us, of which the vCPU waits 259.
fn short_trace() -> String {
    let mut lines = String::new();
    entry(&mut lines, 0);
    exit(&mut lines, 5, "EXTERNAL_INTERRUPT", "0xffffffff81000010");
    off(&mut lines, 6, 265);
    entry(&mut lines, 270);
    exit(&mut lines, 274, "EXTERNAL_INTERRUPT", "0xffffffff81000010");
    lines
}

#[test]
fn a_trace_of_274_us_is_not_told_by_the_second() {
    let text = diagnosed(&short_trace(), &[]);
    let lost = "Lost: 94.5 % of vm1's time (259 µs of 1 vCPU in 274 µs).";
    assert!(text.contains(lost), "{text}");
    for verbose in [&[][..], &["--verbose"]] {
        let text = diagnosed(&short_trace(), verbose);
        assert!(!text.contains("945 ms"), "{text}");
        assert!(!text.contains("each second"), "{text}");
    }
}

#[test]
fn one_vcpu_and_one_pcpu_are_told_in_the_singular() {
    let text = diagnosed(&short_trace(), &["--verbose"]);
    assert!(text.contains("1 vCPU "), "{text}");
    for wrong in ["1 vCPUs", "1 pCPUs"] {
        assert!(!text.contains(&format!(" {wrong}")), "{wrong}: {text}");
    }
}

#[test]
fn a_figure_is_rounded_and_the_same_in_text_and_json() {
    // 2 of 3 ms: 666.67 thousandths, which is 667 rounded and 666 cut off.
    let mut lines = String::new();
    entry(&mut lines, 0);
    exit(&mut lines, 500, "EXTERNAL_INTERRUPT", "0xffffffff81000010");
    off(&mut lines, 500, 2_500);
    entry(&mut lines, 2_600);
    exit(
        &mut lines,
        3_000,
        "EXTERNAL_INTERRUPT",
        "0xffffffff81000010",
    );
    let finding = &json(&lines)["findings"][0];
    assert_eq!(finding["lost_ns"], 2_000_000);
    assert_eq!(finding["lost_permille"], 667);
    let text = diagnosed(&lines, &["--verbose"]);
    assert!(text.contains("66.7 %"), "{text}");
    assert!(!text.contains("66.6 %"), "{text}");
}

#[test]
fn a_table_that_stops_says_how_many_rows_it_leaves_out() {
    let reasons = [
        "CPUID",
        "HLT",
        "INVD",
        "INVLPG",
        "RDPMC",
        "RDTSC",
        "VMCALL",
        "CR_ACCESS",
        "DR_ACCESS",
        "IO_INSTRUCTION",
        "MSR_READ",
        "MSR_WRITE",
        "WBINVD",
        "XSETBV",
    ];
    let mut lines = String::new();
    for (at, reason) in (0_u64..).zip(reasons) {
        entry(&mut lines, at * 100);
        exit(&mut lines, at * 100 + 50, reason, "0xffffffff81000010");
    }
    entry(&mut lines, 5_000);
    let text = diagnosed(&lines, &["--verbose"]);
    let left = "and 2 more reasons: --json and --csv have all";
    assert!(text.contains(left), "{text}");
    let exits = json(&lines)["traces"][0]["vms"][0]["exits"].clone();
    assert_eq!(exits.as_array().unwrap().len(), reasons.len());
}

/// Pause-loop exits at one place, 40 in a row.
fn spins(with_scheduler: bool) -> String {
    let mut lines = String::new();
    for at in 0..40 {
        entry(&mut lines, at * 100);
        exit(
            &mut lines,
            at * 100 + 60,
            "PAUSE_INSTRUCTION",
            "0xffffffff81000020",
        );
        if with_scheduler {
            off(&mut lines, at * 100 + 65, at * 100 + 95);
        }
    }
    entry(&mut lines, 4_000);
    lines
}

#[test]
fn nobody_is_said_to_run_instead_without_an_event_of_the_scheduler() {
    let cause = |lines: &str| {
        let findings = json(lines)["findings"].clone();
        let findings = findings.as_array().unwrap().iter();
        let mut found = findings.filter(|finding| finding["id"] == "pause-continuous");
        found.next().unwrap()["cause"].clone()
    };
    assert_eq!(cause(&spins(false)), "long-wait");
    assert_eq!(cause(&spins(true)), "wrong-runner");
    let text = diagnosed(&spins(false), &["--verbose"]);
    assert!(
        text.contains("which vCPU the host ran is not shown"),
        "{text}"
    );
    for claim in ["runs another", "ran on their pCPUs", "lets the host run"] {
        assert!(!text.contains(claim), "{claim}: {text}");
    }
}
