// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Is a recorded trace read as what happened?

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod dat;
mod host;

use steady_shoot4u_check::{Checker, DoubtKind, Error, Report, Stamped, Verdict, check_file};

use host::{Fault, Host, Isa, Mode, Setting};

fn events(fault: Fault, isa: Isa, mode: Mode) -> Vec<Stamped> {
    let setting = Setting {
        isa,
        mode,
        fault,
        pcpus: 2,
        vcpus: 2,
    };
    let mut host = Host::new(setting, 1);
    host.run(3000);
    host.events
}

fn check(bytes: &[u8]) -> Result<Report, Error> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    check_file(file.path())
}

fn direct(events: &[Stamped]) -> Report {
    let mut checker = Checker::new(2);
    events.iter().for_each(|event| checker.feed(*event));
    checker.finish()
}

#[test]
fn a_trace_file_gives_the_report_of_its_events() {
    for (fault, isa, mode) in [
        (Fault::None, Isa::Vmx, Mode::Eager),
        (Fault::None, Isa::Svm, Mode::Deferred),
        (Fault::WrongVpid, Isa::Vmx, Mode::Eager),
        (Fault::ShortRange, Isa::Vmx, Mode::Deferred),
        (Fault::DropRequest, Isa::Vmx, Mode::Deferred),
    ] {
        let events = events(fault, isa, mode);
        let report = check(&dat::write(&events, 2, None)).unwrap();
        assert_eq!(report, direct(&events));
        let expected = if fault == Fault::None {
            Verdict::Holds
        } else {
            Verdict::Violated
        };
        assert_eq!(report.verdict, expected, "{report}");
    }
}

#[test]
fn a_trace_that_was_cut_off_gives_no_all_clear() {
    let events = events(Fault::None, Isa::Vmx, Mode::Eager);
    let bytes = dat::write(&events, 2, None);
    let report = check(&bytes[..bytes.len() - 5000]).unwrap();
    assert_eq!(report.verdict, Verdict::CannotSay);
    assert!(report.doubts.iter().any(|d| d.kind == DoubtKind::Lost));
    assert!(report.to_string().contains("cut off at"), "{report}");
}

#[test]
fn a_page_that_tells_of_lost_events_gives_no_all_clear() {
    let events = events(Fault::None, Isa::Vmx, Mode::Eager);
    let mut bytes = dat::write(&events, 2, None);
    // The flag for missed events in the commit word of the last page's header.
    let page = bytes.len() - 4096;
    bytes[page + 11] |= 0x80;
    let report = check(&bytes).unwrap();
    assert_eq!(report.verdict, Verdict::CannotSay, "{report}");
    assert!(report.doubts.iter().any(|d| d.kind == DoubtKind::Lost));
}

#[test]
fn without_the_first_flushes_threads_stay_unknown_and_there_is_no_all_clear() {
    let mut events = events(Fault::None, Isa::Vmx, Mode::Eager);
    // One target's own events but its entries are gone, as if their recording had been forgotten.
    let own = |event: &steady_shoot4u_check::Event| match event {
        steady_shoot4u_check::Event::Flush { vcpu, .. } => *vcpu,
        steady_shoot4u_check::Event::Call { initiator, .. }
        | steady_shoot4u_check::Event::Done { initiator, .. } => *initiator,
        _ => steady_shoot4u_check::VcpuId { vm: 0, vcpu: 0 },
    };
    let silent = steady_shoot4u_check::VcpuId { vm: 100, vcpu: 1 };
    events.retain(|stamped| own(&stamped.event) != silent);
    let report = check(&dat::write(&events, 2, None)).unwrap();
    assert_eq!(report.verdict, Verdict::CannotSay, "{report}");
    let kinds: Vec<_> = report.doubts.iter().map(|d| d.kind).collect();
    assert!(kinds.contains(&DoubtKind::StrayThread), "{report}");
}

#[test]
fn a_missing_field_is_named() {
    let events = events(Fault::None, Isa::Vmx, Mode::Eager);
    let error = check(&dat::write(
        &events,
        2,
        Some(("kvm_shoot4u_invalidate", "tag")),
    ));
    let said = error.unwrap_err().to_string();
    assert!(
        said.contains("kvm_shoot4u_invalidate") && said.contains("`tag`"),
        "{said}"
    );
}

#[test]
fn a_trace_of_a_stock_kernel_proves_nothing() {
    let fixtures = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../tracefile/tests/fixtures/bochs-intel-v6.dat"
    );
    let report = check_file(fixtures.as_ref()).unwrap();
    assert_eq!(report.verdict, Verdict::CannotSay);
    assert!(report.doubts.iter().any(|d| d.kind == DoubtKind::NoCalls));
}
