// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does it part siblings where that is right, and leave alone what is not its own?

use std::fs;
use std::io;
use std::rc::Rc;

use steady_hostview::Cpus;
use steady_steer::place::{Act, Options, Placer, What};

use crate::made::{Made, OnIt, options, parted, placer, qemu, steps};

#[test]
fn a_pinned_vcpu_keeps_its_pcpu_and_no_sibling_is_put_there() {
    let made = Made::new(4);
    made.vm(40, "qemu-system-x86_64 -name web", qemu, 3, "0-3");
    made.change(41, |task| task.allowed = "0".parse().unwrap());
    let mut placer = placer(&made, options());
    steps(&made, &mut placer, &mut 0, 15);
    assert_eq!(made.allowed(41), "0");
    let others: Vec<Cpus> = [42, 43]
        .map(|tid| made.allowed(tid).parse().unwrap())
        .to_vec();
    assert!(
        others.iter().all(|set| !set.contains(0) && set.len() < 3),
        "{others:?}"
    );
}

#[test]
fn a_vcpu_that_ends_and_one_that_comes_are_followed() {
    let (made, mut placer, mut at) = parted();
    made.ends(44);
    made.vm(50, "qemu-system-x86_64 -name db", qemu, 2, "0-3");
    placer.scan();
    let vms: Vec<String> = placer.vms().collect();
    assert_eq!(vms, ["web (libvirt, 3 vCPUs)", "db (libvirt, 2 vCPUs)"]);
    let acts = steps(&made, &mut placer, &mut at, 15);
    assert!(acts.iter().any(|act| act.vm == "db"), "{acts:?}");
    let (one, two) = (made.allowed(51), made.allowed(52));
    assert!(one != two && one != "0-3", "{one} {two}");
    assert_eq!(placer.finish().unwrap().back, 5);
}

#[test]
fn a_dry_run_says_what_it_would_do_and_touches_nothing() {
    let made = Made::new(4);
    made.vm(40, "qemu-system-x86_64 -name web", qemu, 4, "0-3");
    let mut placer = Placer::new(made.host(), options(), None, OnIt(Rc::clone(&made)));
    placer.scan();
    let acts = steps(&made, &mut placer, &mut 0, 50);
    let [
        Act {
            vm,
            what:
                What::WouldPart {
                    share,
                    stacked,
                    sets,
                },
            ..
        },
    ] = &acts[..]
    else {
        panic!("{acts:?}");
    };
    assert_eq!(
        (vm.as_str(), *share, stacked.permille, sets.len()),
        ("web", 800, 1000, 4)
    );
    let said = acts[0].to_string();
    assert!(
        said.contains("would part its vCPUs") && said.contains("80.0 %"),
        "{said}"
    );
    assert_eq!(*made.sets.borrow(), 0);
    assert!(!made.state().exists());
}

#[test]
fn threads_of_every_vmm_are_found() {
    for (words, comm) in [
        (
            "qemu-system-x86_64 -name guest=a,debug-threads=on",
            qemu as fn(u32) -> String,
        ),
        ("/usr/bin/kvm -id 100 -name a", qemu),
        ("/usr/libexec/qemu-kvm -name guest=default_a", qemu),
        ("/usr/bin/firecracker --id a", |n| format!("fc_vcpu {n}")),
        ("cloud-hypervisor --api-socket x", |n| format!("vcpu{n}")),
    ] {
        let made = Made::new(2);
        made.vm(40, words, comm, 2, "0-1");
        let mut placer = placer(&made, options());
        steps(&made, &mut placer, &mut 0, 15);
        assert_ne!(made.allowed(41), made.allowed(42), "{words}");
    }
}

#[test]
fn a_vm_that_is_not_asked_for_is_left_alone() {
    let made = Made::new(2);
    made.vm(40, "qemu-system-x86_64 -name web", qemu, 2, "0-1");
    let only = vec!["db".to_owned()];
    let mut placer = placer(&made, Options { only, ..options() });
    steps(&made, &mut placer, &mut 0, 30);
    assert_eq!((placer.vcpus(), *made.sets.borrow()), (0, 0));
}

#[test]
fn where_the_kernel_takes_no_set_nothing_is_tried_and_nothing_is_said() {
    let made = Made::new(4);
    made.vm(40, "qemu-system-x86_64 -name web", qemu, 4, "0-3");
    *made.refuses.borrow_mut() = Some(io::ErrorKind::InvalidInput);
    let mut placer = placer(&made, options());
    assert_eq!(steps(&made, &mut placer, &mut 0, 50), []);
    assert!(!placer.is_at_work() || placer.vcpus() == 4);
}

#[test]
fn one_vm_is_on_trial_at_a_time() {
    let made = Made::new(4);
    made.vm(40, "qemu-system-x86_64 -name a", qemu, 4, "0-3");
    made.vm(60, "qemu-system-x86_64 -name b", qemu, 4, "0-3");
    let mut placer = placer(&made, options());
    let acts = steps(&made, &mut placer, &mut 0, 20);
    let words: Vec<(&str, bool)> = acts
        .iter()
        .map(|act| (act.vm.as_str(), matches!(act.what, What::Part { .. })))
        .collect();
    assert_eq!(
        words,
        [("a", true), ("a", false), ("b", true), ("b", false)]
    );
}

#[test]
fn a_pinned_sibling_that_is_busy_keeps_nothing_at_work() {
    let made = Made::new(4);
    made.vm(40, "qemu-system-x86_64 -name web", qemu, 3, "0-3");
    made.change(41, |task| task.allowed = "0".parse().unwrap());
    let mut placer = placer(&made, options());
    steps(&made, &mut placer, &mut 0, 30);
    assert_ne!(made.allowed(42), "0-3");
    assert!(!placer.is_at_work());
}

#[test]
fn a_process_number_that_is_another_vm_s_is_judged_from_the_start() {
    let (made, mut placer, mut at) = parted();
    for tid in 41..45 {
        made.ends(tid);
    }
    made.vm(
        40,
        "qemu-system-x86_64 -name other",
        |n| qemu(n + 10),
        4,
        "0-3",
    );
    placer.scan();
    let acts = steps(&made, &mut placer, &mut at, 15);
    let parts = |act: &&Act| matches!(act.what, What::Part { .. });
    let part = acts.iter().find(parts).map(|act| act.vm.as_str());
    assert_eq!(part, Some("other"));
}

#[test]
fn a_vm_of_which_one_vcpu_goes_on_has_all_its_pcpus_again() {
    let (made, mut placer, mut at) = parted();
    for tid in 42..45 {
        made.ends(tid);
    }
    placer.scan();
    let acts = steps(&made, &mut placer, &mut at, 40);
    assert_eq!(
        acts.iter().map(|act| &act.what).collect::<Vec<_>>(),
        [&What::GiveBack]
    );
    assert_eq!(made.allowed(41), "0-3");
}

#[test]
fn more_busy_vcpus_than_pcpus_have_them_all_again() {
    let made = Made::new(2);
    made.vm(40, "qemu-system-x86_64 -name web", qemu, 2, "0-1");
    let mut placer = placer(&made, options());
    let mut at = 0;
    steps(&made, &mut placer, &mut at, 15);
    assert_ne!(made.allowed(41), "0-1");
    made.vm(40, "qemu-system-x86_64 -name web", qemu, 3, "0-1");
    for (tid, cpu) in [(41, 0), (42, 1)] {
        made.change(tid, |task| task.allowed = Cpus::one(cpu));
    }
    placer.scan();
    let acts = steps(&made, &mut placer, &mut at, 15);
    assert!(acts.iter().any(|act| act.what == What::TooWide), "{acts:?}");
}

#[test]
fn pcpus_are_split_again_for_others_that_are_busy_and_not_at_every_look() {
    let made = Made::new(4);
    made.vm(40, "qemu-system-x86_64 -name web", qemu, 3, "0-3");
    let mut placer = placer(&made, options());
    let mut at = 0;
    steps(&made, &mut placer, &mut at, 25);
    // A vCPU that slept until now.
    made.vcpu(40, qemu(3), 3, "0-3");
    placer.scan();
    assert!(!placer.is_at_work());
    let splits = |acts: &[Act]| {
        let split = |act: &&Act| matches!(act.what, What::Split { .. });
        acts.iter().filter(split).count()
    };
    assert_eq!(splits(&steps(&made, &mut placer, &mut at, 3)), 1);
    let now: Vec<String> = (41..45).map(|tid| made.allowed(tid)).collect();
    assert!(now.iter().all(|set| set.len() == 1), "{now:?}");
    made.ends(44);
    assert_eq!(splits(&steps(&made, &mut placer, &mut at, 3)), 0);
    assert!(placer.is_at_work());
    assert_eq!(splits(&steps(&made, &mut placer, &mut at, 10)), 1);
}

#[test]
fn a_pcpu_that_is_offline_counts_for_nothing() {
    // Three of four have times, and are idle for a sixth of them.
    let idle = |online: &str| {
        let made = Made::new(4);
        let cpu = made.root.path().join("sys/devices/system/cpu/online");
        fs::write(cpu, online).unwrap();
        made.vm(40, "qemu-system-x86_64 -name web", qemu, 2, "0-3");
        let mut placer = placer(&made, options());
        let (mut at, mut acts) = (0, Vec::new());
        for ticks in 0..20 {
            let cpus = (0..3).map(|cpu| format!("cpu{cpu} 0 0 0 {} 0\n", ticks * 5 / 3));
            let stat = format!("cpu  0 0 0 0 0\n{}", cpus.collect::<String>());
            fs::write(made.root.path().join("proc/stat"), stat).unwrap();
            acts.extend(steps(&made, &mut placer, &mut at, 1));
        }
        acts
    };
    assert!(idle("0-2\n").is_empty());
    assert!(!idle("0-3\n").is_empty());
}
