// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds vCPUs that are ready and do not run for long, by the counts that the scheduler keeps
//! anyway.
//!
//! `/proc/PID/task/TID/schedstat` has the time that a thread ran, the time that it waited, and how
//! often it came to run (`sched_info` in `kernel/sched/stats.h`). The second grows at the end of a
//! wait. A look at each vCPU four times in a bound therefore finds every wait of 1.25 bounds and
//! more, unless the recorder itself was kept from looking. One below the bound is never reported.
//! It costs one small read for each vCPU and look, and nothing in the scheduler. A histogram
//! trigger or a program of BPF would be exact, but runs at every switch of every thread, needs
//! kernels built for it, and leaves state behind that is not its recorder's.
//!
//! A wait that goes on shows otherwise: the counts stand still while the thread is in state `R`. On
//! a pCPU without ticks (`nohz_full`) they do so for a running thread too, so such are left out.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use steady_diagnose::VmNotes;

use crate::error::RecordError;

/// How long counts must stand still before a thread's state is looked at.
const STILL_NS: u64 = 1_000_000_000;

/// A wait that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// The VM's name, or its process if it has none.
    pub vm: String,
    /// The vCPU's number.
    pub vcpu: u32,
    /// Its thread.
    pub tid: i32,
    /// How long at least, in nanoseconds.
    pub at_least_ns: u64,
    /// Whether it has ended.
    pub ended: bool,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.at_least_ns / 1_000_000;
        let (vcpu, vm, tid) = (self.vcpu, &self.vm, self.tid);
        write!(
            f,
            "vCPU {vcpu} of {vm} (thread {tid}) waited {ms} ms or more"
        )
    }
}

/// What `schedstat` says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    ran_ns: u64,
    waited_ns: u64,
    runs: u64,
}

impl Counts {
    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split_whitespace().map(str::parse);
        let mut next = || numbers.next()?.ok();
        Some(Self {
            ran_ns: next()?,
            waited_ns: next()?,
            runs: next()?,
        })
    }
}

/// What is known of one thread.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    counts: Counts,
    at_ns: u64,
    /// Since when the counts stand still.
    still_ns: u64,
    /// Since when it was also seen ready.
    ready_ns: Option<u64>,
    /// The wait that goes on was reported.
    reported: bool,
}

impl Seen {
    /// Takes the counts as they are at `now_ns`; how long a wait of `bound_ns` was at least, and
    /// whether it has ended. `is_ready` is asked rarely.
    fn take(
        &mut self,
        now_ns: u64,
        counts: Counts,
        bound_ns: u64,
        is_ready: impl FnOnce() -> bool,
    ) -> Option<(u64, bool)> {
        let passed_ns = now_ns.saturating_sub(self.at_ns);
        let before = std::mem::replace(&mut self.counts, counts);
        self.at_ns = now_ns;
        if counts != before {
            let reported = std::mem::take(&mut self.reported);
            (self.still_ns, self.ready_ns) = (now_ns, None);
            let waited_ns = counts.waited_ns.saturating_sub(before.waited_ns);
            let waits = counts.runs.saturating_sub(before.runs).max(1);
            // Of several waits all but the first lie between the two looks; and the longest is
            // at least as long as their mean.
            let rest_ns = if waits == 1 { 0 } else { passed_ns };
            let least_ns = waited_ns.saturating_sub(rest_ns).max(waited_ns / waits);
            return (least_ns >= bound_ns && !reported).then_some((least_ns, true));
        }
        match self.ready_ns {
            Some(since_ns) => {
                let least_ns = now_ns.saturating_sub(since_ns);
                let long = least_ns >= bound_ns && !self.reported;
                self.reported |= long;
                long.then_some((least_ns, false))
            }
            None => {
                if now_ns.saturating_sub(self.still_ns) >= STILL_NS {
                    self.still_ns = now_ns;
                    self.ready_ns = is_ready().then_some(now_ns);
                }
                None
            }
        }
    }
}

#[derive(Debug)]
struct Thread {
    vm: String,
    vcpu: u32,
    file: File,
    stat: PathBuf,
    seen: Seen,
}

/// Looks at all vCPUs.
#[derive(Debug)]
pub struct Watch {
    proc: PathBuf,
    bound_ns: u64,
    threads: BTreeMap<i32, Thread>,
    tickless: Vec<u32>,
}

impl Watch {
    /// Without any vCPU. `proc` is where procfs is mounted.
    #[must_use]
    pub fn new(proc: &Path, bound_ns: u64) -> Self {
        let list = fs::read_to_string("/sys/devices/system/cpu/nohz_full").unwrap_or_default();
        Self {
            proc: proc.to_owned(),
            bound_ns,
            threads: BTreeMap::new(),
            tickless: cpus_of(list.trim()),
        }
    }

    /// How often [`Self::look`] has to be called, in nanoseconds.
    #[must_use]
    pub fn period_ns(&self) -> u64 {
        (self.bound_ns / 4).min(250_000_000)
    }

    /// How many vCPUs are watched.
    #[must_use]
    pub fn len(&self) -> usize {
        self.threads.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// Watches the vCPUs of these VMs, or of the one VM with this process, and no others.
    ///
    /// # Errors
    /// [`RecordError::NoWaits`] if the kernel does not count.
    pub fn follow(
        &mut self,
        notes: &VmNotes,
        only: Option<i32>,
        now_ns: u64,
    ) -> Result<(), RecordError> {
        let mut old = std::mem::take(&mut self.threads);
        let wanted = notes
            .vms
            .iter()
            .filter(|vm| only.is_none_or(|only| vm.process == only));
        for (vm, vcpu) in wanted.flat_map(|vm| vm.vcpus.iter().map(move |vcpu| (vm, vcpu))) {
            if let Some(known) = old.remove(&vcpu.tid) {
                self.threads.insert(vcpu.tid, known);
                continue;
            }
            let folder = self.proc.join(format!("{}/task/{}", vm.process, vcpu.tid));
            let path = folder.join("schedstat");
            // A thread that has ended since is not a fault.
            let Ok(file) = File::open(&path) else {
                continue;
            };
            let Some(counts) = read(&file) else { continue };
            if counts == Counts::default() {
                return Err(RecordError::NoWaits(path));
            }
            let name = vm.name.clone();
            let seen = Seen {
                counts,
                at_ns: now_ns,
                still_ns: now_ns,
                ..Seen::default()
            };
            let thread = Thread {
                vm: name.unwrap_or_else(|| format!("process {}", vm.process)),
                vcpu: vcpu.number,
                file,
                stat: folder.join("stat"),
                seen,
            };
            self.threads.insert(vcpu.tid, thread);
        }
        Ok(())
    }

    /// The longest wait that shows now. Threads that have ended are forgotten.
    pub fn look(&mut self, now_ns: u64) -> Option<Wait> {
        let (bound_ns, tickless) = (self.bound_ns, &self.tickless);
        let mut found: Option<Wait> = None;
        self.threads.retain(|&tid, thread| {
            let Some(counts) = read(&thread.file) else {
                return false;
            };
            let stat = &thread.stat;
            let is_ready = || is_ready(&fs::read_to_string(stat).unwrap_or_default(), tickless);
            let took = thread.seen.take(now_ns, counts, bound_ns, is_ready);
            if let Some((at_least_ns, ended)) = took
                && found
                    .as_ref()
                    .is_none_or(|other| at_least_ns > other.at_least_ns)
            {
                found = Some(Wait {
                    vm: thread.vm.clone(),
                    vcpu: thread.vcpu,
                    tid,
                    at_least_ns,
                    ended,
                });
            }
            true
        });
        found
    }

    /// Whether the wait of a thread goes on.
    #[must_use]
    pub fn goes_on(&self, tid: i32) -> bool {
        self.threads
            .get(&tid)
            .is_some_and(|thread| thread.seen.reported)
    }
}

fn read(file: &File) -> Option<Counts> {
    let mut bytes = [0; 96];
    let len = file.read_at(&mut bytes, 0).ok()?;
    Counts::parse(std::str::from_utf8(&bytes[..len]).ok()?)
}

/// Whether a thread's `stat` (proc(5)) says that it is ready or runs, on a pCPU that has ticks.
fn is_ready(stat: &str, tickless: &[u32]) -> bool {
    let Some((_, behind)) = stat.rsplit_once(')') else {
        return false;
    };
    let mut words = behind.split_whitespace();
    let state = words.next();
    // Field 39, the pCPU, of which the state is field 3.
    let cpu = words.nth(35).and_then(|word| word.parse().ok());
    state == Some("R") && cpu.is_some_and(|cpu: u32| !tickless.contains(&cpu))
}

/// The CPUs of a list as `0-3,8`.
fn cpus_of(list: &str) -> Vec<u32> {
    let parts = list.split(',').filter_map(|part| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        Some(from.parse::<u32>().ok()?..=to.parse().ok()?)
    });
    parts.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn counts(ran: u64, waited: u64, runs: u64) -> Counts {
        Counts {
            ran_ns: ran * MS,
            waited_ns: waited * MS,
            runs,
        }
    }

    /// Looks every 25 ms with a bound of 100 ms: what each look says, in milliseconds.
    fn looks(of: &[(u64, Counts)], ready: bool) -> Vec<Option<(u64, bool)>> {
        let mut seen = Seen::default();
        let looks = of.iter().map(|&(at, counts)| {
            let said = seen.take(at * MS, counts, 100 * MS, || ready);
            said.map(|(ns, ended)| (ns / MS, ended))
        });
        looks.collect()
    }

    #[test]
    fn one_wait_of_the_bound_is_found_and_many_short_ones_are_not() {
        // One wait of 100 ms that ends between two looks.
        let once = [(0, counts(1, 0, 1)), (25, counts(2, 100, 2))];
        assert_eq!(looks(&once, true)[1], Some((100, true)));
        // Forty waits of 2.5 ms in the recorder's own sleep of 100 ms are 100 ms, not one.
        let many = [(0, counts(1, 0, 1)), (100, counts(2, 100, 41))];
        assert_eq!(looks(&many, true)[1], None);
        // Two waits between two looks: the longer is at least the sum less the time between.
        let two = [(0, counts(1, 0, 1)), (25, counts(2, 130, 3))];
        assert_eq!(looks(&two, true)[1], Some((105, true)));
        let less = [(0, counts(1, 0, 1)), (25, counts(2, 120, 3))];
        assert_eq!(looks(&less, true)[1], None);
    }

    #[test]
    fn a_wait_that_goes_on_is_reported_once_and_sleep_is_not() {
        let stands: Vec<(u64, Counts)> = (0..80).map(|n| (n * 25, counts(1, 0, 1))).collect();
        let said = looks(&stands, true);
        let found: Vec<&(u64, bool)> = said.iter().flatten().collect();
        assert_eq!(
            found,
            [&(100, false)],
            "a second of standing still, and a bound"
        );
        assert!(looks(&stands, false).iter().all(Option::is_none));
        // Its end is not another wait.
        let mut ends = stands.clone();
        ends.push((2000, counts(1, 1990, 2)));
        assert_eq!(looks(&ends, true).iter().flatten().count(), 1);
    }

    #[test]
    fn a_recorder_that_was_kept_from_looking_says_what_the_longest_wait_was_at_least() {
        let late = |waited: u64, runs: u64| {
            let of = [(0, counts(1, 0, 1)), (4000, counts(2, waited, 1 + runs))];
            looks(&of, true)[1]
        };
        assert_eq!(late(3000, 1), Some((3000, true)));
        assert_eq!(late(3000, 8), Some((375, true)), "the mean of eight");
        assert_eq!(late(3000, 31), None, "each may be below 100 ms");
        assert_eq!(late(4500, 31), Some((500, true)), "one began 500 ms before");
    }

    #[test]
    fn a_thread_is_ready_by_its_state_and_pcpu() {
        let stat = |state: &str, cpu: u32| {
            let fields = vec!["0"; 35].join(" ");
            format!("7 (CPU 0) R (x) {state} {fields} {cpu} 0 0")
        };
        assert!(is_ready(&stat("R", 3), &[]));
        assert!(!is_ready(&stat("S", 3), &[]));
        assert!(!is_ready(&stat("R", 3), &cpus_of("1-3,8")));
        assert!(!is_ready("", &[]));
    }
}
