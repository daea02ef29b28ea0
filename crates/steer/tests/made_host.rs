// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `place` on made hosts: trees of procfs and sysfs whose threads a test moves and lets wait.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]
#![allow(clippy::expect_used, reason = "a failed test panics")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use steady_hostview::{Cpus, Host};
use steady_steer::place::{Act, Bounds, Hands, Moved, Options, Placer, What};
use steady_steer::{State, Undone};

const MS: u64 = 1_000_000;

/// A thread of the made host.
#[derive(Debug, Clone)]
struct Task {
    process: i32,
    comm: String,
    group: String,
    started: u64,
    run_ns: u64,
    wait_ns: u64,
    cpu: u32,
    allowed: Cpus,
}

/// The made host; its hands change what its tree says.
#[derive(Debug)]
struct Made {
    root: tempfile::TempDir,
    tasks: RefCell<BTreeMap<i32, Task>>,
    /// What the kernel answers to a change.
    refuses: RefCell<Option<io::ErrorKind>>,
    sets: RefCell<usize>,
}

#[derive(Debug, Clone)]
struct OnIt(Rc<Made>);

impl Hands for OnIt {
    fn set(&mut self, tid: i32, cpus: &Cpus) -> io::Result<()> {
        if let Some(kind) = *self.0.refuses.borrow() {
            return Err(kind.into());
        }
        *self.0.sets.borrow_mut() += 1;
        self.0.change(tid, |task| {
            task.allowed = cpus.clone();
            if !cpus.contains(task.cpu) {
                task.cpu = cpus.iter().next().unwrap();
            }
        });
        Ok(())
    }
}

impl Made {
    fn new(pcpus: u32) -> Rc<Self> {
        let root = tempfile::tempdir().unwrap();
        let cpu = root.path().join("sys/devices/system/cpu");
        fs::create_dir_all(&cpu).unwrap();
        fs::write(cpu.join("online"), format!("0-{}\n", pcpus - 1)).unwrap();
        fs::create_dir_all(root.path().join("proc")).unwrap();
        Rc::new(Self {
            root,
            tasks: RefCell::default(),
            refuses: RefCell::default(),
            sets: RefCell::default(),
        })
    }

    fn host(&self) -> Host {
        Host::under(self.root.path())
    }

    fn state(&self) -> PathBuf {
        self.root.path().join("run/place.jsonl")
    }

    /// A VM of `vcpus` vCPUs, all on pCPU 0, as its VMM names its threads.
    fn vm(&self, process: i32, words: &str, comm: fn(u32) -> String, vcpus: u32, allowed: &str) {
        let home = self.root.path().join(format!("proc/{process}"));
        fs::create_dir_all(&home).unwrap();
        fs::write(home.join("cmdline"), words.replace(' ', "\0")).unwrap();
        fs::write(home.join("cgroup"), "0::/machine.slice/x.scope\n").unwrap();
        for number in 0..vcpus {
            let tid = process + 1 + i32::try_from(number).unwrap();
            let task = Task {
                process,
                comm: comm(number),
                group: format!("/machine.slice/x.scope/vcpu{number}"),
                started: 1000 + u64::from(number),
                run_ns: 0,
                wait_ns: 0,
                cpu: 0,
                allowed: allowed.parse().unwrap(),
            };
            self.tasks.borrow_mut().insert(tid, task);
            self.write(tid);
        }
    }

    fn task(&self, tid: i32) -> PathBuf {
        let process = self.tasks.borrow()[&tid].process;
        self.root.path().join(format!("proc/{process}/task/{tid}"))
    }

    fn write(&self, tid: i32) {
        let folder = self.task(tid);
        fs::create_dir_all(&folder).unwrap();
        let task = self.tasks.borrow()[&tid].clone();
        let fields = (4..=52).map(|field| match field {
            22 => task.started.to_string(),
            39 => task.cpu.to_string(),
            _ => "0".to_owned(),
        });
        let fields: Vec<String> = fields.collect();
        let put = |file: &str, text: String| fs::write(folder.join(file), text).unwrap();
        put("comm", format!("{}\n", task.comm));
        put(
            "stat",
            format!("{tid} ({}) R {}\n", task.comm, fields.join(" ")),
        );
        put("schedstat", format!("{} {} 1\n", task.run_ns, task.wait_ns));
        put("status", format!("Cpus_allowed_list:\t{}\n", task.allowed));
        put("cgroup", format!("0::{}\n", task.group));
    }

    fn change(&self, tid: i32, change: impl FnOnce(&mut Task)) {
        change(self.tasks.borrow_mut().get_mut(&tid).unwrap());
        self.write(tid);
    }

    fn ends(&self, tid: i32) {
        let folder = self.task(tid);
        // An open file of a thread that has ended cannot be read; here it is empty.
        for file in ["schedstat", "stat"] {
            fs::write(folder.join(file), "").unwrap();
        }
        fs::remove_dir_all(folder).unwrap();
        self.tasks.borrow_mut().remove(&tid);
    }

    fn allowed(&self, tid: i32) -> String {
        self.tasks.borrow()[&tid].allowed.to_string()
    }

    /// Lets the threads want a pCPU all the time: those that are on one together share it, and each
    /// shares it with a stranger.
    fn runs(&self, ms: u64) {
        let tids: Vec<i32> = self.tasks.borrow().keys().copied().collect();
        let mut on: BTreeMap<(i32, u32), u64> = BTreeMap::new();
        for task in self.tasks.borrow().values() {
            *on.entry((task.process, task.cpu)).or_default() += 1;
        }
        for tid in tids {
            let sharers = {
                let tasks = self.tasks.borrow();
                on[&(tasks[&tid].process, tasks[&tid].cpu)] + 1
            };
            self.change(tid, |task| {
                task.run_ns += ms * MS / sharers;
                task.wait_ns += ms * MS - ms * MS / sharers;
            });
        }
    }
}

fn qemu(number: u32) -> String {
    format!("CPU {number}/KVM")
}

fn options() -> Options {
    Options {
        least: 1,
        bounds: Bounds::default(),
        ..Options::default()
    }
}

fn placer(made: &Rc<Made>, options: Options) -> Placer<OnIt> {
    let mut hands = OnIt(Rc::clone(made));
    let (state, _) = State::<Moved>::take(&made.state(), &made.host(), &mut hands).unwrap();
    let mut placer = Placer::new(made.host(), options, Some(state), hands);
    placer.scan();
    placer
}

/// Runs a number of intervals of 100 ms; what was done.
fn steps(made: &Made, placer: &mut Placer<OnIt>, at: &mut u64, count: u64) -> Vec<Act> {
    let mut acts = Vec::new();
    for _ in 0..count {
        *at += 100;
        made.runs(100);
        acts.extend(placer.step(*at * MS).unwrap());
    }
    acts
}

/// A host of four pCPUs with one VM of four vCPUs that are all on pCPU 0, parted after a second.
fn parted() -> (Rc<Made>, Placer<OnIt>, u64) {
    let made = Made::new(4);
    made.vm(40, "qemu-system-x86_64 -name guest=web", qemu, 4, "0-3");
    let mut placer = placer(&made, options());
    let mut at = 0;
    let acts = steps(&made, &mut placer, &mut at, 15);
    let kept = acts.iter().any(|act| matches!(act.what, What::Keep { .. }));
    assert!(kept, "{acts:?}");
    (made, placer, at)
}

#[test]
fn stacked_siblings_are_parted_and_have_their_pcpus_back_at_the_end() {
    let (made, placer, _) = parted();
    let mut sets: Vec<String> = (41..45).map(|tid| made.allowed(tid)).collect();
    sets.sort();
    assert_eq!(sets, ["0", "1", "2", "3"]);
    let undone = placer.finish().unwrap();
    assert_eq!(
        undone,
        Undone {
            back: 4,
            ..Undone::default()
        }
    );
    assert!((41..45).all(|tid| made.allowed(tid) == "0-3"));
    assert_eq!(fs::read_to_string(made.state()).unwrap(), "");
}

#[test]
fn what_a_killed_one_has_left_is_undone_by_the_next() {
    let (made, placer, _) = parted();
    // As after SIGKILL: nothing of its end is run, but the kernel frees its lock.
    drop(placer);
    assert_ne!(made.allowed(42), "0-3");
    let mut hands = OnIt(Rc::clone(&made));
    let (_, undone) = State::<Moved>::take(&made.state(), &made.host(), &mut hands).unwrap();
    assert_eq!(undone.back, 4);
    assert!((41..45).all(|tid| made.allowed(tid) == "0-3"));
}

#[test]
fn a_thread_whose_number_is_another_s_by_then_is_not_touched() {
    let (made, placer, _) = parted();
    drop(placer);
    made.change(41, |task| task.started = 9999);
    let set = made.allowed(41);
    let mut hands = OnIt(Rc::clone(&made));
    let (_, undone) = State::<Moved>::take(&made.state(), &made.host(), &mut hands).unwrap();
    assert_eq!((undone.back, undone.gone), (3, 1));
    assert_eq!(made.allowed(41), set);
}

#[test]
fn what_somebody_else_has_pinned_since_stays_and_is_not_placed_again() {
    let (made, mut placer, mut at) = parted();
    made.change(43, |task| task.allowed = "2-3".parse().unwrap());
    steps(&made, &mut placer, &mut at, 40);
    assert_eq!(made.allowed(43), "2-3");
    let undone = placer.finish().unwrap();
    assert_eq!((undone.back, undone.theirs), (3, 1));
    assert_eq!(made.allowed(43), "2-3");
}

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
fn a_cpuset_that_shrinks_leaves_no_vcpu_on_fewer_pcpus_at_the_end() {
    let (made, mut placer, mut at) = parted();
    let gone: Cpus = made.allowed(44).parse().unwrap();
    let left = "0-3".parse::<Cpus>().unwrap().without(&gone);
    let group = made.root.path().join("sys/fs/cgroup/machine.slice/x.scope");
    fs::create_dir_all(&group).unwrap();
    fs::write(group.join("cpuset.cpus.effective"), format!("{left}\n")).unwrap();
    // The kernel gives a thread whose CPUs are all gone those of its cpuset.
    made.change(44, |task| task.allowed = left.clone());
    steps(&made, &mut placer, &mut at, 40);
    let undone = placer.finish().unwrap();
    assert_eq!((undone.back, undone.theirs), (4, 0));
    // The made kernel does not cut what it is given by the cpuset.
    assert!((41..45).all(|tid| made.allowed(tid) == "0-3"));
}

#[test]
fn a_vcpu_that_ends_and_one_that_comes_are_followed() {
    let (made, mut placer, mut at) = parted();
    made.ends(44);
    made.vm(50, "qemu-system-x86_64 -name db", qemu, 2, "0-3");
    placer.scan();
    assert_eq!((placer.count(), placer.vcpus()), (2, 5));
    let acts = steps(&made, &mut placer, &mut at, 15);
    assert!(acts.iter().any(|act| act.vm == "db"), "{acts:?}");
    let (one, two) = (made.allowed(51), made.allowed(52));
    assert!(one != two && one != "0-3", "{one} {two}");
    assert_eq!(placer.finish().unwrap().back, 5);
}

#[test]
fn without_rights_there_is_one_error_and_nothing_is_changed() {
    let made = Made::new(4);
    made.vm(40, "qemu-system-x86_64 -name web", qemu, 4, "0-3");
    *made.refuses.borrow_mut() = Some(io::ErrorKind::PermissionDenied);
    let mut placer = placer(&made, options());
    let mut failed = None;
    for at in 1..20 {
        made.runs(100);
        failed = failed.or(placer.step(at * 100 * MS).err());
    }
    let said = failed.unwrap().to_string();
    assert!(said.contains("CAP_SYS_NICE"), "{said}");
    assert_eq!(*made.sets.borrow(), 0);
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
    assert_eq!((placer.count(), *made.sets.borrow()), (0, 0));
}

#[test]
fn a_state_that_is_not_a_file_is_refused_at_once() {
    let made = Made::new(2);
    let mut hands = OnIt(Rc::clone(&made));
    let full = Path::new("/dev/full");
    let said = State::<Moved>::take(full, &made.host(), &mut hands).unwrap_err();
    assert!(
        said.to_string().contains("open /dev/full: not a file"),
        "{said}"
    );
}

#[test]
fn pins_are_by_number_and_given_back_at_the_end() {
    let made = Made::new(2);
    made.vm(40, "qemu-system-x86_64 -name web", qemu, 3, "0-1");
    let mut placer = placer(
        &made,
        Options {
            pin: true,
            ..options()
        },
    );
    steps(&made, &mut placer, &mut 0, 3);
    assert_eq!([41, 42, 43].map(|tid| made.allowed(tid)), ["0", "1", "0"]);
    assert_eq!(placer.finish().unwrap().back, 3);
    assert_eq!(made.allowed(41), "0-1");
}

#[test]
fn what_the_kernel_refuses_to_undo_stays_in_the_file_for_another() {
    let (made, placer, _) = parted();
    drop(placer);
    *made.refuses.borrow_mut() = Some(io::ErrorKind::PermissionDenied);
    let mut hands = OnIt(Rc::clone(&made));
    let take = |hands: &mut OnIt| State::<Moved>::take(&made.state(), &made.host(), hands);
    let (_, undone) = take(&mut hands).unwrap();
    assert_eq!((undone.back, undone.refused), (0, 4));
    assert!(undone.whole(&made.state()).is_err());
    *made.refuses.borrow_mut() = None;
    assert_eq!(take(&mut hands).unwrap().1.back, 4);
    assert!((41..45).all(|tid| made.allowed(tid) == "0-3"));
}

#[test]
fn a_state_file_that_was_removed_is_written_again_and_all_is_undone() {
    let (made, mut placer, mut at) = parted();
    fs::remove_file(made.state()).unwrap();
    steps(&made, &mut placer, &mut at, 1);
    assert!(fs::metadata(made.state()).unwrap().len() > 0);
    fs::remove_file(made.state()).unwrap();
    assert_eq!(placer.finish().unwrap().back, 4);
    assert!((41..45).all(|tid| made.allowed(tid) == "0-3"));
}

#[test]
fn a_vm_that_is_no_longer_seen_is_given_back_at_the_end() {
    let (made, mut placer, mut at) = parted();
    for tid in 41..45 {
        made.change(tid, |task| task.comm = "renamed".to_owned());
    }
    placer.scan();
    steps(&made, &mut placer, &mut at, 5);
    let undone = placer.finish().unwrap();
    assert_eq!(undone.back, 4, "{undone:?}");
    assert!((41..45).all(|tid| made.allowed(tid) == "0-3"));
}

#[test]
fn a_file_with_something_else_in_it_is_refused_and_kept() {
    let made = Made::new(2);
    fs::create_dir_all(made.state().parent().unwrap()).unwrap();
    fs::write(made.state(), "my notes\n").unwrap();
    let mut hands = OnIt(Rc::clone(&made));
    let said = State::<Moved>::take(&made.state(), &made.host(), &mut hands).unwrap_err();
    assert!(
        said.to_string().contains("something else than changes"),
        "{said}"
    );
    assert_eq!(fs::read_to_string(made.state()).unwrap(), "my notes\n");
    let link = made.root.path().join("link");
    std::os::unix::fs::symlink(made.state(), &link).unwrap();
    assert!(State::<Moved>::take(&link, &made.host(), &mut hands).is_err());
}

#[test]
fn a_vcpu_that_its_cpuset_alone_bounds_follows_that_again() {
    let made = Made::new(8);
    made.vm(40, "qemu-system-x86_64 -name web", qemu, 4, "0-3");
    let group = made.root.path().join("sys/fs/cgroup/machine.slice/x.scope");
    fs::create_dir_all(&group).unwrap();
    fs::write(group.join("cpuset.cpus.effective"), "0-3\n").unwrap();
    let mut placer = placer(&made, options());
    steps(&made, &mut placer, &mut 0, 15);
    assert_ne!(made.allowed(41), "0-3");
    placer.finish().unwrap();
    // All that may come: the kernel cuts it by the cpuset of then.
    assert!((41..45).all(|tid| made.allowed(tid) == "0-7"));
}
