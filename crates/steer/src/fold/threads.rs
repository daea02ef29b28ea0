// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The threads of a guest that a fold must leave room for: those that are bound to CPUs, and those
//! of real-time classes.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use steady_hostview::{Cpus, Host};

/// What the threads need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Needs {
    /// The CPUs that each bound thread may run on, each list once.
    pub bound: BTreeSet<Cpus>,
    /// Threads of real-time or deadline classes.
    pub real_time: u32,
    /// Groups below the root with bound threads, by name.
    pub groups: BTreeSet<String>,
}

/// Classes of sched(7) above the fair ones: FIFO, RR, DEADLINE.
const REAL_TIME: [u64; 3] = [1, 2, 6];
/// Fields of `/proc/PID/stat` from the third on: flags are the ninth, the class is the 41st
/// (proc(5)).
const FLAGS: usize = 9 - 3;
const CLASS: usize = 41 - 3;
/// A kernel thread (include/linux/sched.h, `PF_KTHREAD`).
const KERNEL_THREAD: u64 = 0x0020_0000;

impl Needs {
    /// Those of all threads of programs; `all`: the CPUs of a thread that is bound to none.
    pub fn read(host: &Host, all: &Cpus) -> Self {
        let mut needs = Self::default();
        for process in folders(&host.proc) {
            for task in folders(&process.join("task")) {
                needs.add(&task, all);
            }
        }
        needs
    }

    fn add(&mut self, task: &Path, all: &Cpus) {
        let Ok(stat) = fs::read_to_string(task.join("stat")) else {
            return;
        };
        let fields = stat
            .rfind(')')
            .and_then(|at| stat.get(at + 2..))
            .unwrap_or("");
        let field = |at: usize| fields.split_ascii_whitespace().nth(at)?.parse::<u64>().ok();
        if field(FLAGS).is_none_or(|flags| flags & KERNEL_THREAD != 0) {
            return;
        }
        if field(CLASS).is_some_and(|class| REAL_TIME.contains(&class)) {
            self.real_time += 1;
        }
        let status = fs::read_to_string(task.join("status")).unwrap_or_default();
        let list = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let Some(allowed) = list.and_then(|list| list.parse::<Cpus>().ok()) else {
            return;
        };
        if !all.is_within(&allowed) {
            self.bound.insert(allowed);
            let group = fs::read_to_string(task.join("cgroup")).unwrap_or_default();
            let path = group.lines().find_map(|line| line.strip_prefix("0::/"));
            let top = path.and_then(|path| path.split('/').next());
            self.groups
                .extend(top.filter(|top| !top.is_empty()).map(str::to_owned));
        }
    }

    /// The CPUs to fold on: about `count` of the lowest of `all`, and of each bound thread's one
    /// at least; more than there are real-time threads.
    pub fn choose(&self, all: &Cpus, count: u32) -> Cpus {
        let count = count.max(self.real_time + 1) as usize;
        let mut chosen: Cpus = all.iter().take(count).collect();
        for bound in &self.bound {
            let usable = bound.and(all);
            if let (true, Some(cpu)) = (chosen.and(&usable).is_empty(), usable.iter().next()) {
                chosen.insert(cpu);
            }
        }
        chosen
    }
}

fn folders(of: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(of).into_iter().flatten().flatten();
    let numbers = entries.filter(|entry| {
        let name = entry.file_name();
        name.to_str()
            .is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
    });
    numbers.map(|entry| entry.path()).collect()
}
