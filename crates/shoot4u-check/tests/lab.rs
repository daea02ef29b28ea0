// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does the checker find the faults that were planted in the real kernel, in traces of the lab, and
//! stay silent where there was none? `fixtures/record` made them.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::path::Path;

use steady_shoot4u_check::{Report, Use, Verdict, check_file};

/// Traces of the kernel without a fault.
const SOUND: [&str; 3] = ["eager", "qemu-deferred", "qemu-eager"];

fn check(name: &str) -> Report {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    check_file(&folder.join(format!("{name}.dat"))).unwrap()
}

fn found(name: &str) -> Report {
    let report = check(name);
    assert_eq!(report.verdict, Verdict::Violated, "{name}: {report}");
    report
}

#[test]
fn a_sound_kernel_holds_in_both_modes_and_on_both_vendors() {
    for name in SOUND {
        let report = check(name);
        assert_eq!(report.verdict, Verdict::Holds, "{name}: {report}");
        assert!(report.counts.calls_done >= 50, "{name}: {report}");
        assert!(report.counts.entries >= 100, "{name}: {report}");
    }
}

#[test]
fn a_skipped_pcpu_is_found_where_the_target_stayed_in_guest_mode() {
    let report = found("skip-pcpu");
    assert!(report.violations.iter().any(|v| v.usage == Use::Running));
}

#[test]
fn a_vcpu_that_was_moved_without_a_flush_is_found() {
    let report = found("skip-migrated");
    assert!(report.violations.iter().all(|v| v.usage == Use::Entered));
}

#[test]
fn a_wrong_tag_is_found_and_counted() {
    for name in ["wrong-vpid", "wrong-vpid-eager"] {
        assert!(found(name).counts.wrong_tag > 0, "{name}");
    }
}

#[test]
fn a_range_one_page_short_is_found_to_leave_its_last_page() {
    for name in ["short-range", "short-range-eager"] {
        let report = found(name);
        let left = report.violations.iter().map(|v| v.left.as_slice());
        assert!(
            left.clone().any(|left| left[0].end - left[0].start == 4096),
            "{name}: {report}"
        );
    }
}
