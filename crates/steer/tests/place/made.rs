// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Made hosts: trees of procfs and sysfs whose threads a test moves and lets wait.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;

use steady_hostview::{Cpus, Host};
use steady_steer::State;
use steady_steer::place::{Act, Bounds, Hands, Moved, Options, Placer, What};

pub const MS: u64 = 1_000_000;

/// A thread of the made host.
#[derive(Debug, Clone)]
pub struct Task {
    pub process: i32,
    pub comm: String,
    pub group: String,
    pub started: u64,
    pub run_ns: u64,
    pub wait_ns: u64,
    pub cpu: u32,
    pub allowed: Cpus,
}

/// The made host; its hands change what its tree says.
#[derive(Debug)]
pub struct Made {
    pub root: tempfile::TempDir,
    pub tasks: RefCell<BTreeMap<i32, Task>>,
    /// What the kernel answers to a change.
    pub refuses: RefCell<Option<io::ErrorKind>>,
    pub sets: RefCell<usize>,
}

#[derive(Debug, Clone)]
pub struct OnIt(pub Rc<Made>);

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
    pub fn new(pcpus: u32) -> Rc<Self> {
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

    pub fn host(&self) -> Host {
        Host::under(self.root.path())
    }

    pub fn state(&self) -> PathBuf {
        self.root.path().join("run/place.jsonl")
    }

    /// A VM of `vcpus` vCPUs, all on pCPU 0, as its VMM names its threads.
    pub fn vm(
        &self,
        process: i32,
        words: &str,
        comm: fn(u32) -> String,
        vcpus: u32,
        allowed: &str,
    ) {
        let home = self.root.path().join(format!("proc/{process}"));
        fs::create_dir_all(&home).unwrap();
        fs::write(home.join("cmdline"), words.replace(' ', "\0")).unwrap();
        fs::write(home.join("cgroup"), "0::/machine.slice/x.scope\n").unwrap();
        for number in 0..vcpus {
            self.vcpu(process, comm(number), number, allowed);
        }
    }

    /// A vCPU more of a VM.
    pub fn vcpu(&self, process: i32, comm: String, number: u32, allowed: &str) {
        let tid = process + 1 + i32::try_from(number).unwrap();
        let task = Task {
            process,
            comm,
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

    pub fn task(&self, tid: i32) -> PathBuf {
        let process = self.tasks.borrow()[&tid].process;
        self.root.path().join(format!("proc/{process}/task/{tid}"))
    }

    pub fn write(&self, tid: i32) {
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

    pub fn change(&self, tid: i32, change: impl FnOnce(&mut Task)) {
        change(self.tasks.borrow_mut().get_mut(&tid).unwrap());
        self.write(tid);
    }

    pub fn ends(&self, tid: i32) {
        let folder = self.task(tid);
        // An open file of a thread that has ended cannot be read; here it is empty.
        for file in ["schedstat", "stat"] {
            fs::write(folder.join(file), "").unwrap();
        }
        fs::remove_dir_all(folder).unwrap();
        self.tasks.borrow_mut().remove(&tid);
    }

    pub fn allowed(&self, tid: i32) -> String {
        self.tasks.borrow()[&tid].allowed.to_string()
    }

    /// Lets the threads want a pCPU all the time: those that are on one together share it, and each
    /// shares it with a stranger.
    pub fn runs(&self, ms: u64) {
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

pub fn qemu(number: u32) -> String {
    format!("CPU {number}/KVM")
}

pub fn options() -> Options {
    Options {
        least: 1,
        bounds: Bounds::default(),
        ..Options::default()
    }
}

pub fn placer(made: &Rc<Made>, options: Options) -> Placer<OnIt> {
    let mut hands = OnIt(Rc::clone(made));
    let (state, _) = State::<Moved>::take(&made.state(), &made.host(), &mut hands).unwrap();
    let mut placer = Placer::new(made.host(), options, Some(state), hands);
    placer.scan();
    placer
}

/// Runs a number of intervals of 100 ms; what was done.
pub fn steps(made: &Made, placer: &mut Placer<OnIt>, at: &mut u64, count: u64) -> Vec<Act> {
    let mut acts = Vec::new();
    for _ in 0..count {
        *at += 100;
        made.runs(100);
        acts.extend(placer.step(*at * MS).unwrap());
    }
    acts
}

/// Lets all threads sleep for eleven seconds; what was done.
pub fn sleeps(placer: &mut Placer<OnIt>, at: &mut u64) -> Vec<What> {
    let mut acts = Vec::new();
    for _ in 0..110 {
        *at += 100;
        acts.extend(placer.step(*at * MS).unwrap());
    }
    acts.into_iter().map(|act| act.what).collect()
}

/// A host of four pCPUs with one VM of four vCPUs that are all on pCPU 0, parted after a second.
pub fn parted() -> (Rc<Made>, Placer<OnIt>, u64) {
    let made = Made::new(4);
    made.vm(40, "qemu-system-x86_64 -name guest=web", qemu, 4, "0-3");
    let mut placer = placer(&made, options());
    let mut at = 0;
    let acts = steps(&made, &mut placer, &mut at, 15);
    let kept = acts.iter().any(|act| matches!(act.what, What::Keep { .. }));
    assert!(kept, "{acts:?}");
    (made, placer, at)
}
