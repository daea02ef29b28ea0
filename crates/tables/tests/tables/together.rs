// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Several files of one incident: what agrees is surer, what disagrees is not.

use steady_diagnose::{Answer, CauseId, CheckId, Confidence, Finding, FindingId, StepId};
use steady_tables::{Incident, read};

const DOMSTATS: &str = "Domain: 'a'\n  vcpu.0.time=3000000000\n  vcpu.0.delay=1000000000\n";
const IDLE_DOMSTATS: &str = "Domain: 'a'\n  vcpu.0.time=3000000000\n  vcpu.0.delay=1000\n";
const LIMIT: &str = "nr_periods 1000\nnr_throttled 600\nthrottled_usec 45000000\n";
const PRESSURE: &str =
    "/proc/pressure/cpu:some avg10=62.50 avg60=40.00 avg300=12.00 total=45000000\n";
const STEAL: &str =
    "%Cpu(s): 50.0 us,  5.0 sy,  0.0 ni, 20.0 id,  0.0 wa,  0.0 hi,  1.0 si, 24.0 st\n";
const LOCKUP: &str = "\
[ 70.1] watchdog: BUG: soft lockup - CPU#2 stuck for 26s! [postgres:77]
[ 70.1] RIP: 0010:free_unref_page_commit+0x3e/0x120
";

fn together(files: &[(&str, &str)]) -> Vec<Finding> {
    let mut incident = Incident::default();
    for (name, text) in files {
        incident.add(read(&mut text.as_bytes(), name).unwrap());
    }
    incident
        .judge()
        .into_iter()
        .flat_map(|(_, findings)| findings)
        .collect()
}

fn of(findings: &[Finding], id: FindingId) -> &Finding {
    findings.iter().find(|finding| finding.id == id).unwrap()
}

#[test]
fn alone_a_delay_has_no_cause() {
    let findings = together(&[("dom", DOMSTATS)]);
    let steal = of(&findings, FindingId::Steal);
    assert_eq!(
        (steal.cause, steal.confidence),
        (CauseId::NotShown, Confidence::Low)
    );
    assert_eq!(steal.checks, []);
}

#[test]
fn a_limit_that_was_reached_explains_a_delay_before_all_else() {
    let findings = together(&[("dom", DOMSTATS), ("stat", LIMIT), ("psi", PRESSURE)]);
    let steal = of(&findings, FindingId::Steal);
    assert_eq!(
        (steal.cause, steal.confidence),
        (CauseId::Quota, Confidence::Medium)
    );
    assert_eq!(steal.checks[0].id, CheckId::AnotherFileHasLimit);
    assert_eq!(steal.next[0].id, StepId::RaiseCpuMax);
}

#[test]
fn pressure_explains_a_delay_without_a_limit() {
    let findings = together(&[("dom", DOMSTATS), ("psi", PRESSURE)]);
    let steal = of(&findings, FindingId::Steal);
    assert_eq!(
        (steal.cause, steal.confidence),
        (CauseId::HostFull, Confidence::Medium)
    );
    assert_eq!(
        of(&findings, FindingId::CpuPressure).checks[0].answer,
        Answer::Held
    );
}

#[test]
fn a_guests_steal_makes_its_lockup_surer_and_none_makes_it_doubtful() {
    let findings = together(&[("log", LOCKUP), ("top", STEAL)]);
    let lockup = of(&findings, FindingId::KernelComplaint);
    assert_eq!(lockup.confidence, Confidence::Medium);
    assert_eq!(lockup.checks[0].answer, Answer::Held);
    let findings = together(&[("log", LOCKUP), ("dom", IDLE_DOMSTATS)]);
    let lockup = of(&findings, FindingId::KernelComplaint);
    assert_eq!(lockup.confidence, Confidence::Low);
    assert_eq!(lockup.checks[0].answer, Answer::Refuted);
}

#[test]
fn the_order_of_the_files_does_not_matter() {
    let mut files = [
        ("dom", DOMSTATS),
        ("stat", LIMIT),
        ("top", STEAL),
        ("log", LOCKUP),
    ];
    let sorted = |files: &[(&str, &str)]| {
        let mut findings = together(files);
        findings.sort_by_key(|finding| (finding.id, finding.lost_permille));
        findings
    };
    let forward = sorted(&files);
    files.reverse();
    assert_eq!(sorted(&files), forward);
}

#[test]
fn one_file_may_hold_several_tables() {
    let pasted = format!("$ virsh domstats\n{DOMSTATS}$ cat cpu.stat\n{LIMIT}$ dmesg\n{LOCKUP}");
    let findings = together(&[("paste", &pasted)]);
    assert_eq!(of(&findings, FindingId::Steal).cause, CauseId::Quota);
    assert_eq!(findings.len(), 3);
}

/// A limit of a container, and a log of bare metal, are of no vCPU: they explain no wait of one,
/// and no wait of one confirms them.
#[test]
fn what_is_not_of_a_vcpu_neither_explains_its_waits_nor_is_confirmed_by_them() {
    let docker = "/sys/fs/cgroup/system.slice/docker-ab.scope/cpu.stat:";
    let lines = LIMIT.lines().map(|line| format!("{docker}{line}\n"));
    let docker: String = lines.collect();
    let metal = "[ 5.1] Hardware name: Dell Inc. PowerEdge R640/0RGP26\n";
    let metal = format!("{LOCKUP}{metal}");
    let findings = together(&[("dom", DOMSTATS), ("stat", &docker), ("log", &metal)]);
    let steal = of(&findings, FindingId::Steal);
    assert_eq!(steal.cause, CauseId::NotShown, "{steal:#?}");
    assert_eq!(of(&findings, FindingId::Throttled).checks, []);
    assert_eq!(of(&findings, FindingId::KernelComplaint).checks, []);
}
