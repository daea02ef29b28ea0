// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does the checker agree with a host that really keeps tagged entries, with and without faults?

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod host;

use proptest::prelude::*;
use steady_shoot4u_check::{Checker, DoubtKind, Report, Verdict};

use host::{Fault, Host, Isa, Mode, Setting};

/// Runs a host and checks its trace; also how often a revoked translation was really used.
fn race(setting: Setting, seed: u64) -> (Report, u64) {
    let mut host = Host::new(setting, seed);
    host.run(1500);
    let mut checker = Checker::new(u32::try_from(setting.pcpus).unwrap());
    host.events.iter().for_each(|event| checker.feed(*event));
    (checker.finish(), host.stale_uses)
}

fn setting() -> impl Strategy<Value = Setting> {
    let isa = prop_oneof![Just(Isa::Vmx), Just(Isa::Svm)];
    let mode = prop_oneof![Just(Mode::Eager), Just(Mode::Deferred)];
    (isa, mode, 1_usize..4, 1_usize..4).prop_map(|(isa, mode, pcpus, vcpus)| Setting {
        isa,
        mode,
        fault: Fault::None,
        pcpus,
        vcpus,
    })
}

fn fault() -> impl Strategy<Value = Fault> {
    prop::sample::select(vec![
        Fault::SkipPcpu,
        Fault::SkipMigrated,
        Fault::WrongVpid,
        Fault::DropRequest,
        Fault::ShortRange,
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_host_that_follows_the_protocol_never_trips_the_checker(
        setting in setting(), seed: u64
    ) {
        let (report, stale) = race(setting, seed);
        prop_assert_eq!(stale, 0);
        prop_assert_eq!(report.violations_total, 0, "{}", report);
        let idle = report.doubts.iter().all(|doubt| doubt.kind == DoubtKind::NoCalls);
        prop_assert!(report.verdict == Verdict::Holds || idle, "{}", report);
    }

    #[test]
    fn whenever_a_revoked_translation_was_used_the_checker_says_so(
        setting in setting(), fault in fault(), seed: u64
    ) {
        let (report, stale) = race(Setting { fault, ..setting }, seed);
        prop_assert!(stale == 0 || report.verdict == Verdict::Violated, "{stale}: {}", report);
    }
}

/// Of 40 hosts, how many really used a revoked translation; each must be caught.
fn caught(isa: Isa, mode: Mode, fault: Fault) -> usize {
    let setting = Setting {
        isa,
        mode,
        fault,
        pcpus: 2,
        vcpus: 2,
    };
    let mut used = 0;
    for seed in 0..40 {
        let (report, stale) = race(setting, seed);
        if stale > 0 {
            used += 1;
            assert_eq!(
                report.verdict,
                Verdict::Violated,
                "{fault:?} seed {seed}: {report}"
            );
        }
    }
    used
}

#[test]
fn a_skipped_pcpu_is_caught() {
    for (isa, mode) in [
        (Isa::Vmx, Mode::Eager),
        (Isa::Vmx, Mode::Deferred),
        (Isa::Svm, Mode::Deferred),
    ] {
        assert!(
            caught(isa, mode, Fault::SkipPcpu) >= 10,
            "{isa:?} {mode:?}: the fault must show"
        );
    }
}

#[test]
fn a_forgotten_flush_of_a_migrated_vcpu_is_caught() {
    assert!(caught(Isa::Vmx, Mode::Eager, Fault::SkipMigrated) >= 10);
    assert!(caught(Isa::Vmx, Mode::Deferred, Fault::SkipMigrated) >= 10);
}

#[test]
fn a_wrong_tag_is_caught() {
    assert!(caught(Isa::Vmx, Mode::Eager, Fault::WrongVpid) >= 10);
    assert!(caught(Isa::Vmx, Mode::Deferred, Fault::WrongVpid) >= 10);
}

#[test]
fn a_dropped_request_is_caught() {
    assert!(caught(Isa::Vmx, Mode::Deferred, Fault::DropRequest) >= 10);
    assert!(caught(Isa::Svm, Mode::Deferred, Fault::DropRequest) >= 10);
}

#[test]
fn a_range_one_page_short_is_caught() {
    assert!(caught(Isa::Vmx, Mode::Eager, Fault::ShortRange) >= 10);
    assert!(caught(Isa::Vmx, Mode::Deferred, Fault::ShortRange) >= 10);
}

#[test]
fn a_fault_is_caught_also_where_nobody_used_what_was_revoked() {
    let setting = Setting {
        isa: Isa::Vmx,
        mode: Mode::Eager,
        fault: Fault::WrongVpid,
        pcpus: 2,
        vcpus: 2,
    };
    let quiet = (0..40).map(|seed| race(setting, seed));
    let said = quiet
        .filter(|(report, _)| report.verdict == Verdict::Violated)
        .count();
    assert_eq!(
        said, 40,
        "the checker takes what may be cached for what is cached"
    );
}
