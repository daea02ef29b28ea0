// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traces whose answer is known and was once wrong. `inputs/` holds them; each was made up from a
//! host on paper, so that every expected number follows by arithmetic from its text.

use std::path::{Path, PathBuf};

use serde_json::Value;
use steady_decode::TraceEvents;
use steady_diagnose::{Diagnoser, VmNotes};

fn input(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/inputs");
    folder.join(format!("{name}.txt.zst"))
}

/// The diagnosis as JSON, with the notes beside the trace if there are any.
fn diagnosis(name: &str) -> Value {
    let mut source = steady_tracefile::open(&input(name)).expect("the trace opens");
    let mut diagnoser = Diagnoser::new();
    let notes = std::fs::read(input(name).with_extension("").with_extension("txt.vms"));
    diagnoser.notes = notes.ok().map(|text| VmNotes::parse(&text).expect("notes"));
    let mut events = TraceEvents::new(source.as_mut());
    let read = diagnoser.trace(name, &mut events, &mut |_, _, _| Ok(()));
    read.expect("the trace is read");
    serde_json::to_value(diagnoser.finish()).expect("it is JSON")
}

fn findings(diagnosis: &Value) -> &Vec<Value> {
    diagnosis["findings"].as_array().expect("a list")
}

fn first(diagnosis: &Value) -> &Value {
    let first = findings(diagnosis).first();
    first.unwrap_or_else(|| panic!("there is a finding in {diagnosis:#}"))
}

fn number(of: &Value) -> u64 {
    of.as_u64().unwrap_or_else(|| panic!("{of} is a number"))
}

/// Whether `found` lies within `tolerance` of `wanted`.
fn near(found: &Value, wanted: u64, tolerance: u64) -> bool {
    number(found).abs_diff(wanted) <= tolerance
}

fn names(finding: &Value) -> Vec<String> {
    let culprits = finding["culprits"].as_array().expect("a list").iter();
    culprits
        .map(|culprit| culprit["name"].as_str().unwrap_or("").to_owned())
        .collect()
}

#[test]
fn c01_a_wait_ends_where_the_vcpu_is_seen_running_again() {
    let diagnosis = diagnosis("01-own-events-only");
    let first = first(&diagnosis);
    assert_eq!(
        (&first["id"], &first["cause"]),
        (&"steal".into(), &"host-task".into())
    );
    // 50 waits of 5.9 ms but the last, which no event of the vCPU ends, in 494.1 ms.
    assert!(
        near(&first["lost_ns"], 49 * 5_900_000, 6_000_000),
        "{first:#}"
    );
    assert!(near(&first["lost_permille"], 590, 10), "{first:#}");
    assert_eq!(names(first), ["stress-ng"]);
    // What to do names who ran.
    assert_eq!(first["next"][0]["id"], "move-host-task");
    assert_eq!(first["next"][0]["name"], "stress-ng");
    // That nothing followed stress-ng is not in the trace.
    assert_ne!(first["confidence"], "high");
    let vcpu = &diagnosis["traces"][0]["vms"][0]["vcpus"][0];
    assert_eq!(vcpu["steal_ns"], first["lost_ns"], "one number, not two");
}

#[test]
fn c02_what_lies_in_a_loss_is_not_known_and_not_counted_as_waiting() {
    let diagnosis = diagnosis("02-lost-while-out");
    for finding in findings(&diagnosis) {
        assert!(number(&finding["lost_permille"]) <= 55, "{finding:#}");
        assert_eq!(finding["confidence"], "low", "{finding:#}");
        let own = finding["culprits"].as_array().expect("a list").iter();
        assert!(
            own.clone().all(|each| each["kind"] != "own-vm"),
            "{finding:#}"
        );
    }
    let waits = &diagnosis["traces"][0]["vms"][0]["waits"];
    // Twice 50 ms lie in the losses.
    assert!(
        near(&waits["unknown_ns"], 100_000_000, 200_000),
        "{waits:#}"
    );
    assert!(number(&waits["waited_ns"]) <= 1_000_000, "{waits:#}");
    let first = first(&diagnosis);
    assert!(
        near(&first["at_most_ns"], 100_000_000, 200_000),
        "{first:#}"
    );
}

#[test]
fn c03_one_stall_of_four_seconds_is_a_finding_with_its_time_vcpu_and_culprit() {
    let diagnosis = diagnosis("03-one-4s-freeze-of-one-of-8-vcpus");
    let first = first(&diagnosis);
    assert_eq!(first["id"], "long-stall");
    let worst = &first["worst"];
    assert!(near(&worst["begin_ns"], 30_000_200_000, 1_000), "{worst}");
    assert!(near(&worst["length_ns"], 3_999_600_000, 1_000), "{worst}");
    assert_eq!((number(&worst["vcpu"]), number(&worst["tid"])), (3, 3003));
    assert_eq!(names(first), ["backup"]);
    assert_eq!(first["cause"], "host-task");
    assert!(["major", "severe"].contains(&first["severity"].as_str().unwrap_or("")));
}

#[test]
fn c04_one_wait_of_two_seconds_in_d_state_is_a_finding() {
    let diagnosis = diagnosis("04-one-2s-dstate");
    let first = first(&diagnosis);
    assert_eq!(first["id"], "long-stall");
    assert_eq!(first["cause"], "memory-returns");
    assert!(
        near(&first["worst"]["length_ns"], 1_999_500_000, 1_000),
        "{first:#}"
    );
    assert_eq!(number(&first["worst"]["vcpu"]), 2);
}

#[test]
fn c05_a_vcpu_asleep_outside_a_halt_is_held_by_its_vmm_and_not_by_interrupts() {
    let diagnosis = diagnosis("05-vmm-holds-the-vcpu");
    let first = first(&diagnosis);
    assert_eq!(
        (&first["id"], &first["cause"]),
        (&"asleep".into(), &"vmm-holds".into())
    );
    // 50 times 79.75 ms in 5 s, but for the time to wake up.
    assert!(near(&first["lost_permille"], 798, 5), "{first:#}");
    assert_eq!(names(first), ["qemu-kvm (1000)"]);
    let interrupts = findings(&diagnosis).iter();
    assert_eq!(
        interrupts
            .filter(|f| f["cause"] == "host-interrupts")
            .count(),
        0
    );
}

#[test]
fn c06_threads_that_may_be_one_vm_do_not_accuse_each_other() {
    let diagnosis = diagnosis("06-one-vm-ids-apart");
    let first = first(&diagnosis);
    assert_eq!(first["cause"], "own-vm", "{first:#}");
    assert_ne!(first["confidence"], "high");
    let vms = diagnosis["traces"][0]["vms"].as_array().expect("a list");
    assert_eq!(vms.len(), 1);
}

#[test]
fn c07_a_vcpu_that_runs_its_quota_in_each_period_is_not_held_by_its_neighbour() {
    let diagnosis = diagnosis("07-limit-beside-neighbour");
    let web = findings(&diagnosis)
        .iter()
        .find(|finding| finding["vm"] == "web");
    let web = web.expect("a finding about web");
    assert_eq!(web["cause"], "cpu-max", "{web:#}");
    assert_eq!(first(&diagnosis)["vm"], "web");
    let accused = findings(&diagnosis)
        .iter()
        .filter(|f| f["vm"] == "web" && f["cause"] == "other-vm" && f["confidence"] == "high");
    assert_eq!(accused.count(), 0);
    let step = &web["next"][0];
    assert_eq!(
        (&step["knob"], &step["value"]),
        (&"cpu.max".into(), &"50000 100000".into())
    );
    assert_eq!(web["confidence"], "medium", "the time fits, and no more");
    // `db` takes the pCPUs meanwhile, and wants more: none is idle.
    assert!(step["gain"].is_null(), "{step:#}");
}

#[test]
fn c08_the_cause_is_where_the_time_went_and_not_where_most_exits_were() {
    let diagnosis = diagnosis("08-one-exit-to-the-vmm-has-the-time");
    let first = first(&diagnosis);
    assert_eq!(first["cause"], "dirty-ring", "{first:#}");
    let mapping = findings(&diagnosis)
        .iter()
        .filter(|f| f["cause"] == "mapping-memory");
    assert_eq!(mapping.count(), 0);
}

#[test]
fn c09_a_storm_of_exits_without_times_is_a_finding_by_its_rate() {
    let diagnosis = diagnosis("09-exits-only-storm");
    let first = first(&diagnosis);
    assert_eq!(
        (&first["id"], &first["of"]),
        (&"exit-storm".into(), &"npf".into())
    );
    let evidence = first["evidence"].as_array().expect("a list").iter();
    let values = evidence.flat_map(|each| each["values"].as_array().expect("a list"));
    let rate = values.clone().find(|value| value["name"] == "per_second");
    // 999 gaps of 2 us: 500,500 a second of 1,000 exits in 1.998 ms.
    let rate = &rate.expect("a rate")["value"];
    assert!(near(rate, 500_500, 100), "{rate}");
    assert_eq!(number(&first["lost_ns"]), 0, "its time is not known");
    // All of them were for one page of the guest's memory.
    assert_eq!(names(first), ["guest address 0x1729a1000"]);
    assert_eq!(number(&first["culprits"][0]["permille"]), 1000);
}

#[test]
fn c10_interrupts_of_an_arm64_host_are_interrupts() {
    let diagnosis = diagnosis("10-arm64-irq");
    let first = first(&diagnosis);
    assert!(
        ["host-interrupts", "interrupts-or-wait"].contains(&first["cause"].as_str().unwrap_or("")),
        "{first:#}"
    );
    for step in findings(&diagnosis)
        .iter()
        .flat_map(|f| f["next"].as_array().expect("a list"))
    {
        assert!(
            step["id"] != "look-at-guest" || step["name"] != Value::Null,
            "{step}"
        );
    }
}

#[test]
fn c11_a_clock_that_is_set_back_gives_no_more_than_all_of_the_time() {
    let diagnosis = diagnosis("11-clock-goes-back");
    let first = first(&diagnosis);
    assert!(number(&first["lost_permille"]) <= 1000, "{first:#}");
    // 20 waits of 0.8995 s; of one the end lies behind the step.
    assert!(near(&first["lost_permille"], 900, 20), "{first:#}");
    let trace = &diagnosis["traces"][0];
    assert_eq!(number(&trace["loss"]["clock_set_back"]), 1);
    let span = number(&trace["span_ns"]);
    assert!(span.abs_diff(20_000_000_000) < 1_100_000_000, "{span}");
}

#[test]
fn c12_a_clock_of_unknown_unit_is_said_to_be_one() {
    let diagnosis = diagnosis("12-tsc-clock");
    assert_eq!(diagnosis["traces"][0]["clock_is_ns"], false);
    assert!(findings(&diagnosis).iter().all(|f| f["id"] != "long-stall"));
}

#[test]
fn c13_timers_of_programs_are_not_blamed_on_ticks() {
    let diagnosis = diagnosis("13-timers-of-programs");
    let first = first(&diagnosis);
    assert_eq!(
        (&first["id"], &first["cause"]),
        (&"timer-exits".into(), &"guest-timers".into())
    );
    let steps = first["next"].as_array().expect("a list");
    assert_eq!(steps[0]["id"], "look-at-guest", "{first:#}");
    for step in steps.iter().filter(|step| step["id"] == "host-ticks") {
        let gain = &step["gain"];
        // At 250 Hz, 5 ms hold one tick or two, of 500 exits.
        let most = number(&first["lost_ns"]) / 100;
        assert!(
            gain.is_null() || number(&gain["removes_ns"]) <= most,
            "{step}"
        );
    }
}

#[test]
fn c14_a_vhost_thread_that_waits_for_its_pcpu_is_found() {
    let diagnosis = diagnosis("14-vhost-waits-vcpu-blocked");
    let first = first(&diagnosis);
    assert_eq!(first["id"], "server-waits", "{first:#}");
    // 80.1 ms of each 100 ms, of 2.99 s.
    assert!(near(&first["lost_permille"], 803, 2), "{first:#}");
    assert_eq!(names(first), ["backup"]);
    assert_eq!(number(&first["worst"]["pcpu"]), 1);
    assert_eq!(first["of"], "vhost-1000");
}

#[test]
fn c15_a_host_with_more_ready_vcpus_than_pcpus_is_one_finding_about_the_host() {
    let diagnosis = diagnosis("15-host-overcommitted");
    let first = first(&diagnosis);
    assert_eq!(first["id"], "host-overcommitted", "{first:#}");
    assert_eq!(findings(&diagnosis).len(), 1);
    for step in first["next"].as_array().expect("a list") {
        assert_ne!(step["id"], "move-other-vm");
    }
    let host = &diagnosis["traces"][0]["host"];
    assert_eq!(number(&host["pcpus"]), 4);
    assert_eq!(number(&host["idle_permille"]), 0);
    // Three vCPUs on each of four pCPUs, of which one shows from the begin, one from its first
    // entry after 10 ms, and one after 20 ms, of 299.85 ms in all.
    assert!(near(&host["wanted_permille"], 11_600, 20), "{host:#}");
}

#[test]
fn c16_quoted_printable_mail_is_read_as_the_text_that_it_was() {
    let diagnosis = diagnosis("16-quoted-printable");
    let trace = &diagnosis["traces"][0];
    assert_eq!(number(&trace["events"]), 12);
    assert_eq!(number(&trace["loss"]["unread_lines"]), 0);
    let exits = trace["vms"][0]["exits"].as_array().expect("a list");
    assert_eq!(exits.len(), 1);
    assert_eq!(exits[0]["name"], "EPT_VIOLATION");
}
