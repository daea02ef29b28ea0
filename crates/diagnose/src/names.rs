// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Threads by the name and the priority that they had at a time, since both change: a thread that
//! executes a program takes its name, and `chrt` changes a priority.
//!
//! Left out: names beyond the bounds, which are empty.

use std::collections::BTreeMap;

use steady_events::Task;

/// How names of threads of VMMs begin: QEMU's (main and I/O threads, workers, displays, migration,
/// `call_rcu`, `gmain`), those of the kernel for a VM, those of other VMMs, and of programs beside
/// them.
pub const VMM_THREADS: [&str; 46] = [
    "qemu",
    "kvm",
    "vhost-",
    "CPU ",
    "IO ",
    "iothread",
    "worker",
    "vnc_worker",
    "SPICE Worker",
    "mon_iothread",
    "live_migration",
    "mig/",
    "migration_",
    "multifd",
    "return path",
    "postcopy",
    "bg_snapshot",
    "call_rcu",
    "gmain",
    "gdbus",
    "pool-",
    "threaded-ml",
    "colo",
    "TPM",
    "_",
    "cloud-hyperviso",
    "vmm",
    "http-server",
    "firecracker",
    "fc_",
    "crosvm",
    "lkvm",
    "VBox",
    "EMT",
    "vmx",
    "KVM ",
    "dconf worker",
    "virtiofsd",
    "dump_thread",
    "get_dirtyrate",
    "touch_pages",
    "ui-worker",
    "virtio-",
    "threadpool-",
    "ioeventfd-",
    "swtpm",
];

/// Names that are kept.
const MOST_NAMES: usize = 65_536;
/// Names of one thread that are kept.
const MOST_OF_ONE: usize = 64;
/// Stands for all names beyond the bounds.
const BEYOND: u32 = u32::MAX;

/// A thread as it was at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Who {
    /// Its number.
    pub tid: i32,
    /// Which of the names, or [`BEYOND`].
    name: u32,
}

/// What threads were.
#[derive(Debug, Default)]
pub struct Names {
    all: Vec<(String, Option<u8>)>,
    of: BTreeMap<i32, Vec<u32>>,
}

impl Names {
    /// The thread as it is.
    pub fn who(&mut self, task: Task<'_>) -> Who {
        let tid = task.tid;
        let text = String::from_utf8_lossy(task.comm);
        let own = self.of.get(&tid).map_or(&[][..], Vec::as_slice);
        let is = |at: &u32| self.get(Who { tid, name: *at }) == (text.as_ref(), task.prio);
        if let Some(&name) = own.iter().find(|at| is(at)) {
            return Who { tid, name };
        }
        let name = match u32::try_from(self.all.len()) {
            Ok(at) if self.all.len() < MOST_NAMES && own.len() < MOST_OF_ONE => at,
            _ => return Who { tid, name: BEYOND },
        };
        self.all.push((text.into_owned(), task.prio));
        self.of.entry(tid).or_default().push(name);
        Who { tid, name }
    }

    /// What it was called, and its priority if that is known.
    #[must_use]
    pub fn get(&self, who: Who) -> (&str, Option<u8>) {
        let at = usize::try_from(who.name).unwrap_or(usize::MAX);
        let known = self.all.get(at);
        known.map_or(("", None), |(name, prio)| (name.as_str(), *prio))
    }
}
