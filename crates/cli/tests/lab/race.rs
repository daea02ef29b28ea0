// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Do races measure what they say, and does Bochs repeat them to the byte?

use std::process::Command;

use serde_json::Value;

use crate::support::{ONE_VM, Place, ends_well, metric, steady};

#[test]
fn sharing_pcpus_makes_the_mean_or_the_tail_of_ipi_shootdowns_ten_times_longer() {
    let place = Place::beside();
    let solo = place.raced("scenarios/solo.toml", &["ipi"]);
    let latency = |result, point: &str| {
        let name = format!("shootdown.latency.{point}");
        metric(result, "ipi", "shootdown", &name)
    };
    let longer = |point| latency(place.two_vms(), point) / latency(&solo, point).max(1);
    assert!(
        longer("mean") >= 10 || longer("p99") >= 10,
        "mean ×{}, p99 ×{}",
        longer("mean"),
        longer("p99")
    );
}

#[test]
fn the_same_scenario_twice_in_bochs_gives_the_same_measures_to_the_byte() {
    let place = Place::beside();
    // Alone, where the other is raced beside a second variant: what else a machine does changes no
    // digit.
    let again = place.raced("scenarios/two-vms.toml", &["ipi"]);
    let measures = |result: &Value| {
        let variants = result["variants"].as_array().unwrap();
        let ipi = variants.iter().find(|one| one["name"] == "ipi").unwrap();
        serde_json::to_string(ipi).unwrap()
    };
    assert_eq!(measures(place.two_vms()), measures(&again));
}

#[test]
fn the_kept_trace_opens_with_trace_cmd_report() {
    let place = Place::beside();
    let scenario = place.scenario(ONE_VM, "");
    ends_well(&place.run(&scenario, &["--trace"]).output().unwrap());
    let trace = place.path("out/test/bochs/plain-r0/trace.dat");
    let report = Command::new("trace-cmd")
        .arg("report")
        .arg(&trace)
        .output()
        .unwrap();
    ends_well(&report);
    let text = String::from_utf8_lossy(&report.stdout);
    for event in ["kvm_exit:", "kvm_entry:", "sched_switch:"] {
        assert!(
            text.contains(event),
            "no {event} among {} lines",
            text.lines().count()
        );
    }
    assert!(
        text.contains("CPU 0/KVM"),
        "the vCPU threads are named as QEMU names them"
    );
}

#[test]
fn a_trace_has_of_each_workload_the_exits_that_the_host_counted() {
    let place = Place::beside();
    let second = "[[vm.workload]]\nprogram = \"pingpong\"\nargs = [\"--operations\", \"2000\"]\n";
    let scenario = place.scenario(&format!("{ONE_VM}{second}"), "");
    ends_well(&place.run(&scenario, &["--trace"]).output().unwrap());
    let result = place.result("test", "bochs");
    for workload in ["shootdown", "pingpong"] {
        let trace = place.path("out/test/bochs/plain-r0/trace.dat");
        let mut command = steady();
        command.arg("diagnose").arg(&trace);
        command.args(["--json", "--vm", "guest", "--workload", workload]);
        let said = command.output().unwrap();
        let said: Value = serde_json::from_slice(&said.stdout).unwrap();
        let exits = said["traces"][0]["vms"][0]["exits"].as_array().unwrap();
        let traced: i64 = exits.iter().map(|one| one["count"].as_i64().unwrap()).sum();
        let counted = metric(&result, "plain", workload, "exits.total");
        // The host counts from a little before the workload's begin to a little after its end: some
        // fifteen exits of an idle guest.
        assert!(
            (traced - counted).abs() * 20 <= counted,
            "{workload}: {traced} traced, {counted} counted"
        );
    }
}

#[test]
fn the_distributions_qemu_runs_the_same_scenario_in_place_of_our_vmm() {
    let place = Place::beside();
    let scenario = place.scenario(ONE_VM, "");
    let text = std::fs::read_to_string(&scenario)
        .unwrap()
        .replace("memory_mib = 384", "memory_mib = 768\nvmm = \"qemu\"");
    std::fs::write(&scenario, text).unwrap();
    ends_well(&place.run(&scenario, &[]).output().unwrap());
    let result = place.result("test", "bochs");
    assert_eq!(result["config"]["vmm"], "qemu");
    assert_eq!(
        metric(&result, "plain", "shootdown", "shootdown.latency.count"),
        50
    );
    assert!(metric(&result, "plain", "shootdown", "exits.total") > 0);
}

#[test]
fn a_disk_workload_finds_its_disk_and_debians_programs_their_libraries() {
    let place = Place::beside();
    let vm = ONE_VM.replace(
        "[[vm.workload]]",
        "disk_mib = 32\n[[vm.workload]]\nprogram = \"fio\"\n[[vm.workload]]",
    );
    // fio alone is linked with 80 MB of storage clients.
    let vm = vm.replace("memory_mib = 96", "memory_mib = 320");
    let scenario = place.scenario(&vm, "");
    let text = std::fs::read_to_string(&scenario).unwrap();
    std::fs::write(
        &scenario,
        text.replace("memory_mib = 384", "memory_mib = 1024"),
    )
    .unwrap();
    ends_well(&place.run(&scenario, &[]).output().unwrap());
    let result = place.result("test", "bochs");
    assert!(metric(&result, "plain", "fio", "time") > 0);
    assert!(metric(&result, "plain", "fio", "exits.total") > 0);
}

#[test]
fn background_programs_that_die_when_they_are_asked_to_end_leave_a_sound_result() {
    let place = Place::beside();
    let load = |name: &str, program: &str, args: &str| {
        format!(
            "[[vm]]\nname = \"{name}\"\nvcpus = 1\nmemory_mib = 96\nbackground = true\n\
             disk_mib = 64\n[[vm.workload]]\nprogram = \"{program}\"\nargs = {args}\n"
        )
    };
    let sysbench = load("cpu", "sysbench", r#"["cpu", "--time=0", "run"]"#);
    let dbench = load("files", "dbench", r#"["-t", "600", "1"]"#);
    let scenario = place.scenario(&format!("{ONE_VM}{sysbench}{dbench}"), "");
    let text = std::fs::read_to_string(&scenario).unwrap();
    let text = text.replace("memory_mib = 384", "memory_mib = 1408");
    std::fs::write(
        &scenario,
        text.replace("memory_mib = 96", "memory_mib = 320"),
    )
    .unwrap();
    ends_well(&place.run(&scenario, &[]).output().unwrap());
    let result = place.result("test", "bochs");
    for load in ["sysbench@shootdown", "dbench@shootdown"] {
        assert!(metric(&result, "plain", load, "cpu_time") > 0, "{load}");
    }
}

#[test]
fn a_pv_feature_that_a_variant_turns_off_is_gone_from_the_guest() {
    let place = Place::beside();
    let variant = "[variant.pv]\nsteal_time = false\n[[variant]]\nname = \"pv\"";
    // Four spinning vCPUs on two pCPUs: half of their time is stolen, and the guest may know it.
    let vm = ONE_VM
        .replace("vcpus = 2", "vcpus = 4")
        .replace("[0, 1]", "[0, 1, 0, 1]")
        .replace("\"1\", \"--op", "\"3\", \"--op");
    let scenario = place.scenario(&vm, variant);
    ends_well(
        &place
            .run(&scenario, &["--engine", "bochs"])
            .output()
            .unwrap(),
    );
    let result = place.result("test", "bochs");
    let steal = |variant| metric(&result, variant, "shootdown", "guest.cpu.steal");
    assert_eq!(steal("plain"), 0);
    assert!(steal("pv") > 0);
}

#[test]
fn a_relative_output_folder_is_relative_to_where_the_command_was_called() {
    let place = Place::beside();
    let scenario = place.scenario(ONE_VM, "");
    let mut command = steady();
    command
        .current_dir(place.folder.path())
        .arg("run")
        .arg(&scenario);
    ends_well(
        &command
            .args(["--engine", "bochs", "-o", "here"])
            .output()
            .unwrap(),
    );
    assert!(place.path("here/test/bochs/result.json").is_file());
    assert!(place.path("here/test/report.html").is_file());
}

#[test]
fn with_apicv_ipis_reach_a_guest_that_runs_without_vm_exits() {
    let place = Place::beside();
    let text = format!(
        "schema = 2\nname = \"test\"\ntitle = \"t\"\nquestion = \"q\"\n\
         [host]\npcpus = 2\nmemory_mib = 384\ntime_limit_s = 30\n{ONE_VM}\n{}{}",
        plain("posted", ""),
        plain("trapped", "host_cmdline = \"kvm_intel.enable_apicv=0\"\n"),
    );
    let path = place.path("test.toml");
    std::fs::write(&path, text).unwrap();
    ends_well(&place.run(&path, &[]).output().unwrap());
    let result = place.result("test", "bochs");
    let count = |variant, name| metric(&result, variant, "shootdown", name);
    // Each of 50 shootdowns is one IPI to the other vCPU, which computes.
    let by_ipis = |variant| count(variant, "exits.EXTERNAL_INTERRUPT");
    for variant in ["posted", "trapped"] {
        assert!(count(variant, "shootdown.ipis") >= 50, "{variant}");
    }
    assert!(
        by_ipis("trapped") >= by_ipis("posted") + 50,
        "trapped {}, posted {}",
        by_ipis("trapped"),
        by_ipis("posted")
    );
}

/// A variant with plain IPIs on a processor with APICv.
fn plain(name: &str, words: &str) -> String {
    format!(
        "[[variant]]\nname = \"{name}\"\n{words}[variant.pv]\ntlb_flush = false\nipi = false\n\
         [variant.switches]\napicv = true\n"
    )
}
