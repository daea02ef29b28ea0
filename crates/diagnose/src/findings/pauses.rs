// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Findings about vCPUs that spin, and about those that are boosted for them.

use steady_remedies::Stall;

use super::other::listed;
use super::{Context, FEW, advice, remedy};
use crate::cause::Cause;
use crate::model::{
    BoostTable, CauseRow, Confidence, Evidence, EvidenceId, Finding, PauseTable, PlaceRow, Step,
};

/// From this length on a run of exits is called continuous.
const LONG_RUN: u64 = 10;

/// One finding for each cause that has a share worth telling.
pub fn causes(context: &Context<'_>) -> Vec<Finding> {
    let Some(pauses) = &context.vm.pauses else {
        return Vec::new();
    };
    let worth = |row: &&CauseRow| context.matters(row.exits, context.per_second(row.took_ns()));
    let rows = pauses.by_cause.iter().filter(worth);
    rows.map(|row| cause(context, pauses, row)).collect()
}

fn cause(context: &Context<'_>, pauses: &PauseTable, row: &CauseRow) -> Finding {
    let lost_ns = context.per_second(row.took_ns());
    let (id, why, refuted_by) = words(row.cause);
    let places = pauses
        .by_place
        .iter()
        .filter(|place| place.cause == row.cause);
    let mut evidence = vec![
        Evidence::new(EvidenceId::PauseShare)
            .count("exits", row.exits)
            .permille("share", row.permille)
            .count("all", pauses.exits),
        Evidence::new(EvidenceId::PauseTime)
            .maybe_ns("spun", row.spun_ns)
            .maybe_ns("outside", row.outside_ns),
    ];
    evidence.extend(places.take(3).map(of_place));
    Finding {
        id: id.to_owned(),
        severity: context.severity(lost_ns),
        trace: context.at,
        vm: Some(context.vm.name.clone()),
        symptom: format!(
            "vCPUs leave their guest because they spin: {}",
            row.cause.words()
        ),
        evidence,
        lost_ns_per_s: lost_ns,
        cause: why.to_owned(),
        confidence: if row.cause == Cause::Unknown {
            Confidence::Low
        } else {
            Confidence::High
        },
        refuted_by: refuted_by.to_owned(),
        next: steps(context, pauses, row.cause),
    }
}

fn of_place(place: &PlaceRow) -> Evidence {
    Evidence::new(EvidenceId::PausePlace)
        .count("exits", place.exits)
        .named("rip", &place.rip)
        .maybe_named("function", place.function.as_deref())
        .count("longest", place.longest_run)
        .maybe_count("ipi_pending", place.ipi_pending)
}

fn words(cause: Cause) -> (&'static str, &'static str, &'static str) {
    match cause {
        Cause::IpiWait => (
            "pause-ipi-wait",
            "A vCPU waits until others have taken its IPI, mostly a TLB shootdown, and one of them \
             is descheduled.",
            "Receivers that were running when the IPI came, in the table of IPIs: then the guest's \
             handler itself is slow.",
        ),
        Cause::Spinlock => (
            "pause-spinlock",
            "A vCPU waits for a spinlock whose holder, or the next in its queue, is descheduled.",
            "The same share of exits on a host with a pCPU for every vCPU: then the lock is \
             contended by itself.",
        ),
        Cause::OtherLock => (
            "pause-other-lock",
            "A vCPU waits for a reader-writer lock, a mutex or a wake-up whose owner is \
             descheduled.",
            "The same share of exits on a host with a pCPU for every vCPU: then the lock is \
             contended by itself.",
        ),
        Cause::TimedDelay => (
            "pause-timed-delay",
            "The guest's kernel lets a time pass on purpose; nobody could end the wait, so the \
             exit and any boost are in vain.",
            "A function other than a delay at these places.",
        ),
        Cause::UserSpin => (
            "pause-user-spin",
            "A program of the guest spins in user mode; which one only the guest knows.",
            "A guest whose kernel runs in the lower half of its addresses.",
        ),
        Cause::Unknown => (
            "pause-unknown",
            "The place is not known, or lies in a function of unknown purpose.",
            "Symbols of this guest's kernel that name the places.",
        ),
    }
}

fn steps(context: &Context<'_>, pauses: &PauseTable, cause: Cause) -> Vec<Step> {
    let window = pauses
        .window
        .map(|window| format!("{window} cycles, as KVM set it last"));
    let ple = "kvm_intel.ple_window";
    match cause {
        Cause::IpiWait => vec![
            remedy(
                "let the host invalidate for vCPUs that do not run, so that nobody waits for them",
                Stall::CallWait,
            ),
            advice(
                "check that the guest has kvm-pv-tlb-flush and kvm-pv-ipi (its dmesg: `KVM setup \
                 pv remote TLB flush`)",
            ),
            remedy("boost the vCPU that has the IPI", Stall::BoostTarget),
        ],
        Cause::Spinlock | Cause::OtherLock => vec![
            remedy(
                "make the host's scheduler obey the boost",
                Stall::BoostOutcome,
            ),
            advice(
                "check that the guest uses PV spinlocks (its dmesg: `PV qspinlock`), unless it has \
                 a pCPU for each vCPU",
            ),
            context.knob(
                "exit sooner from a spin, at the price of more exits",
                ple,
                window,
            ),
        ],
        Cause::TimedDelay => vec![
            context.knob(
                "lengthen the window beyond the delay, so that it does not exit",
                ple,
                window,
            ),
            advice("find the driver or operation of the guest that delays; it may have a setting"),
        ],
        Cause::UserSpin => vec![advice(
            "find the spinning program in the guest, with perf or top",
        )],
        Cause::Unknown => vec![advice(
            "give the guest kernel's symbols: --symbols System.map, a copy of /proc/kallsyms, or \
             its vmlinux",
        )],
    }
}

/// Exits that come again at the same place.
pub fn runs(context: &Context<'_>) -> Option<Finding> {
    let pauses = context.vm.pauses.as_ref()?;
    let longest = pauses.longest.as_ref()?;
    if longest.exits < LONG_RUN || pauses.exits < FEW {
        return None;
    }
    let of_runs = |from: u64| {
        let runs = pauses
            .runs
            .buckets
            .iter()
            .filter(|bucket| bucket[0] >= from);
        runs.map(|bucket| bucket[2]).sum::<u64>()
    };
    let outside_ns = pauses.outside_ns.unwrap_or(0);
    let lost_ns = context.per_second(outside_ns.saturating_mul(pauses.in_runs_permille) / 1000);
    Some(Finding {
        id: "pause-continuous".to_owned(),
        severity: context.severity(lost_ns),
        trace: context.at,
        vm: Some(context.vm.name.clone()),
        symptom: "pause-loop exits come again and again at one place".to_owned(),
        evidence: vec![
            Evidence::new(EvidenceId::RunShare).permille("share", pauses.in_runs_permille),
            Evidence::new(EvidenceId::RunLongest)
                .count("exits", longest.exits)
                .number("vcpu", longest.vcpu.into())
                .named("rip", &longest.rip)
                .maybe_named("function", longest.function.as_deref())
                .ns("length", longest.length_ns),
            Evidence::new(EvidenceId::RunCounts)
                .count("runs_10", of_runs(LONG_RUN))
                .count("runs_100", of_runs(100))
                .count("runs", pauses.runs.count),
        ],
        lost_ns_per_s: lost_ns,
        cause: "Each exit gives the host a chance to run the vCPU that is waited for, and it runs \
             another: the spinner comes back and finds nothing changed."
            .to_owned(),
        confidence: Confidence::High,
        refuted_by:
            "Runs as long in a guest that has its pCPUs for itself: then the wait is long, \
             not the schedule wrong."
                .to_owned(),
        next: vec![
            remedy("choose the vCPU that is waited for", Stall::BoostTarget),
            remedy(
                "make the host's scheduler obey the choice",
                Stall::BoostOutcome,
            ),
        ],
    })
}

/// Boosts that did not do what they were for.
pub fn boosts(context: &Context<'_>) -> Vec<Finding> {
    let Some(boosts) = &context.vm.boosts else {
        return Vec::new();
    };
    if boosts.spins < FEW {
        return Vec::new();
    }
    let count = |name: &str| {
        let row = boosts.outcomes.iter().find(|row| row.name == name);
        row.map_or((0, 0), |row| (row.count, row.permille))
    };
    let wasted_ns = context
        .vm
        .pauses
        .as_ref()
        .and_then(|pauses| pauses.outside_ns)
        .unwrap_or(0);
    let mut findings = Vec::new();
    for kind in boost_kinds() {
        let (name, symptom, cause, refuted_by, step) = kind;
        let (times, share) = count(name);
        if times < FEW / 4 {
            continue;
        }
        let lost_ns = context.per_second(wasted_ns.saturating_mul(share) / 1000);
        findings.push(Finding {
            id: format!("boost-{name}"),
            severity: context.severity(lost_ns),
            trace: context.at,
            vm: Some(context.vm.name.clone()),
            symptom: symptom.to_owned(),
            evidence: evidence(boosts, name, times, share),
            lost_ns_per_s: lost_ns,
            cause: cause.to_owned(),
            confidence: if name == "scheduler-mismatch" {
                Confidence::High
            } else {
                Confidence::Medium
            },
            refuted_by: refuted_by.to_owned(),
            next: vec![step],
        });
    }
    findings
}

/// Outcomes that are findings: name, symptom, cause, what would refute it, what to do.
fn boost_kinds() -> [(&'static str, &'static str, &'static str, &'static str, Step); 3] {
    [
        (
            "scheduler-mismatch",
            "KVM boosts a vCPU, and the scheduler runs another",
            "The scheduler keeps its own order: it forgets the boost of a vCPU that is not \
             eligible, or has another that is due first. With a cgroup for each vCPU the two are \
             not even on one queue.",
            "The chosen vCPU had gone to sleep or to another pCPU before the decision, so that the \
             scheduler had no choice.",
            remedy(
                "lower the yielder, so that the boosted vCPU is picked",
                Stall::BoostOutcome,
            ),
        ),
        (
            "overboost",
            "KVM boosts a vCPU that the spinner does not wait for, and it runs",
            "KVM takes any vCPU that stands ready in turn; one woken from a halt cannot hold a \
             lock, and one without the spinner's IPI cannot end its wait.",
            "Spinners whose wait ends right after the boosted vCPU ran.",
            remedy("boost only who can end the wait", Stall::BoostTarget),
        ),
        (
            "lost-opportunity",
            "KVM finds nobody to boost while vCPUs of the VM stand ready",
            "KVM passes over vCPUs that were preempted in user mode, though they too have to take \
             an IPI, and those that spun before.",
            "Spinners that wait for a vCPU which runs already.",
            remedy(
                "make receivers of IPIs candidates also in user mode",
                Stall::BoostTarget,
            ),
        ),
    ]
}

fn evidence(boosts: &BoostTable, name: &str, times: u64, share: u64) -> Vec<Evidence> {
    let mut evidence = vec![
        Evidence::new(EvidenceId::BoostShare)
            .count("times", times)
            .count("spins", boosts.spins)
            .permille("share", share),
        Evidence::new(EvidenceId::BoostRanNext)
            .count("decided", boosts.decided)
            .count("ran_next", boosts.ran_next)
            .permille("share", boosts.ran_next_permille),
    ];
    if name == "scheduler-mismatch" {
        evidence.push(listed(EvidenceId::BoostInstead, boosts.instead.iter()));
    } else if boosts.passed_over > 0 {
        let passed_over = Evidence::new(EvidenceId::BoostPassedOver);
        evidence.push(passed_over.count("looks", boosts.passed_over));
    }
    evidence
}
