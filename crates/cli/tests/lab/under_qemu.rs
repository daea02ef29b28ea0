// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is tested under QEMU, whose clock is the wall: each test has the machine alone.

use serde_json::Value;

use crate::selftest::pass;
use crate::support::{ONE_VM, Place, ends_well, metric, project};

#[test]
fn qemu_races_the_same_scenario_and_says_that_its_clock_is_the_wall() {
    let place = Place::new();
    let scenario = place.scenario(ONE_VM, "");
    ends_well(
        &place
            .run(&scenario, &["--engine", "qemu"])
            .output()
            .unwrap(),
    );
    let result = place.result("test", "qemu");
    assert_eq!(result["engine"]["clock"], "wall");
    assert_eq!(result["config"]["host.isa"], "svm");
    assert_eq!(
        metric(&result, "plain", "shootdown", "shootdown.latency.count"),
        50
    );
    assert!(metric(&result, "plain", "shootdown", "exits.msr") > 0);
}

#[test]
fn three_redis_servers_share_a_host_in_the_short_form_of_the_example() {
    let place = Place::new();
    let shipped = project().join("scenarios/redis.toml");
    let text = std::fs::read_to_string(&shipped).unwrap();
    let short = text.replace("\"1500\"", "\"200\"");
    assert_ne!(short, text);
    let path = place.path("redis.toml");
    std::fs::write(&path, short).unwrap();
    let words = [
        "--engine",
        "qemu",
        "--variant",
        "stock",
        "--variant",
        "remedies",
    ];
    ends_well(&place.run(&path, &words).output().unwrap());
    let result = place.result("redis", "qemu");
    for variant in ["stock", "remedies"] {
        let of = |vm: &str, name: &str| -> i64 {
            let mut variants = result["variants"].as_array().unwrap().iter();
            let found = variants.find(|found| found["name"] == variant).unwrap();
            let metrics = found["repetitions"][0]["metrics"].as_array().unwrap();
            let found = metrics
                .iter()
                .find(|metric| metric["vm"].as_str().unwrap_or("") == vm && metric["name"] == name);
            found.unwrap_or_else(|| panic!("no {name} of {vm:?}"))["value"]
                .as_i64()
                .unwrap()
        };
        let rate = "redis.get.throughput";
        let rates = ["store", "store-2", "store-3"].map(|vm| of(vm, rate));
        assert_eq!(of("", &format!("{rate}.sum")), rates.iter().sum::<i64>());
        let fairness = of("", &format!("{rate}.fairness"));
        assert!((333_333..=1_000_000).contains(&fairness), "{fairness}");
        assert!(of("store", "redis.get.latency.p99") >= of("store", "redis.get.latency.min"));
    }
}

/// Two VMs of two vCPUs on two pCPUs, with the distribution's QEMU as VMM, as on most hosts.
const RACE: &str = r#"
schema = 2
name = "packaged"
title = "place and fold on the kernel of a distribution"
question = "Do they act?"
[host]
pcpus = 2
memory_mib = 768
vmm = "qemu"
[[vm]]
name = "victim"
vcpus = 2
memory_mib = 96
cgroup = "vcpu"
[[vm.workload]]
program = "hackbench"
args = ["-g", "1", "-l", "60", "-T"]
[[vm]]
name = "hog"
vcpus = 2
memory_mib = 80
cgroup = "vcpu"
background = true
[[vm.workload]]
program = "spin"
[[variant]]
name = "both"
[variant.place]
[variant.fold]
vms = ["victim"]
"#;

/// Host and guests boot the kernel of Debian's package, with KVM as modules.
#[test]
fn both_act_on_the_kernel_that_debian_12_installs() {
    // Where five emulators share two cores, a vCPU stands still for longer than RCU waits.
    let place = Place::new();
    let scenario = place.path("packaged.toml");
    std::fs::write(&scenario, RACE).unwrap();
    let words = ["--engine", "qemu", "--kernel", "debian-12"];
    ends_well(&place.run(&scenario, &words).output().unwrap());
    let result: Value = place.result("packaged", "qemu");
    let release = result["config"]["kernel.release"].as_str().unwrap();
    assert!(release.starts_with("6.1.") && release.ends_with("-amd64"));
    let run = place.path("out/packaged/qemu/both-r0");
    let said = std::fs::read_to_string(run.join("place.log")).unwrap();
    assert!(said.contains("victim: parts its vCPUs"), "{said}");
    assert!(said.contains("may run where they might"), "{said}");
    let console = std::fs::read_to_string(run.join("victim.console.log")).unwrap();
    assert!(console.contains("programs run on CPUs 0"), "{console}");
}

fn pass_in_qemu(name: &str) {
    pass(&Place::new(), &["--engine", "qemu"], &[name]);
}

/// The decode behind a #GP is SVM's alone.
#[test]
fn a_call_between_an_exit_and_its_emulation_is_seen_in_qemu() {
    pass_in_qemu("shoot4u_emulation_test");
}

#[test]
fn strict_boost_chooses_the_vcpu_that_it_says_in_qemu() {
    pass_in_qemu("strict_boost_test");
}

/// As it is packaged it takes about one in four hundred of them twice in this test.
#[test]
fn our_qemu_takes_each_injected_interrupt_once() {
    pass_in_qemu("injected_once_test");
}
