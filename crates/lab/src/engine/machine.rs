// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the machine that runs the emulators has to spare of its CPU time.

use std::fs;
use std::time::Duration;

use steady_measures::Ratio;

/// `USER_HZ` of x86 is 100 (`include/asm-generic/param.h`).
const MS_PER_TICK: u64 = 10;

/// The longest that two looks at a process are apart, and some more.
const MOST_PASSED: Duration = Duration::from_secs(1);

/// CPU time in clock ticks.
#[derive(Debug, Clone, Copy, Default)]
pub struct CpuTime {
    all: u64,
    idle: u64,
    child: u64,
    child_waited_ns: u64,
}

impl CpuTime {
    /// Of this machine, and of a process.
    #[must_use]
    pub fn now(process: Option<u32>) -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let line = stat.lines().next().unwrap_or_default();
        let ticks: Vec<u64> = line
            .split_whitespace()
            .skip(1)
            .take(8)
            .filter_map(|word| word.parse().ok())
            .collect();
        let idle = ticks.iter().skip(3).take(2).sum();
        let child = process.map_or(0, |id| {
            let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            // The name in brackets may hold blanks; user and system time are the 12th and 13th
            // behind it.
            let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
            rest.split_whitespace()
                .skip(11)
                .take(2)
                .filter_map(|word| word.parse::<u64>().ok())
                .sum()
        });
        Self {
            all: ticks.iter().sum(),
            idle,
            child,
            child_waited_ns: process.map_or(0, waited_ns),
        }
    }

    /// CPU time of the process since it began.
    #[must_use]
    pub fn of_process(&self) -> Duration {
        Duration::from_millis(self.child * MS_PER_TICK)
    }

    /// How long the process's threads have waited for a CPU since it began, in sum.
    #[must_use]
    pub fn process_waited(&self) -> Duration {
        Duration::from_nanos(self.child_waited_ns)
    }

    /// For how long of the time that has `passed` until `after` the process ran or had nothing to
    /// do. What it waited for a CPU does not count, nor does what this process slept itself,
    /// stopped or suspended with the machine.
    #[must_use]
    pub fn could_run(&self, after: &Self, passed: Duration) -> Duration {
        let ran = after.of_process().saturating_sub(self.of_process());
        let waited = after.process_waited().saturating_sub(self.process_waited());
        ran.max(passed.min(MOST_PASSED).saturating_sub(waited))
    }

    /// What neither idled nor went to the process, in percent of all.
    pub fn others_percent(&self, after: &Self) -> u64 {
        let all = after.all.saturating_sub(self.all).max(1);
        let used = all.saturating_sub(after.idle.saturating_sub(self.idle));
        let others = used.saturating_sub(after.child.saturating_sub(self.child));
        let percent = Ratio::of(others, all).and_then(|share| share.floor(100));
        percent.map_or(0, i64::unsigned_abs)
    }
}

/// The second figure of each thread's `schedstat` (`Documentation/scheduler/sched-stats.rst`).
fn waited_ns(process: u32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{process}/task"));
    let of_thread = |task: fs::DirEntry| {
        let stat = fs::read_to_string(task.path().join("schedstat")).ok()?;
        stat.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    tasks.map_or(0, |tasks| tasks.flatten().filter_map(of_thread).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_neither_idled_nor_was_used_by_the_child_went_to_others() {
        let before = CpuTime {
            all: 1000,
            idle: 500,
            child: 0,
            child_waited_ns: 0,
        };
        let after = CpuTime {
            all: 1200,
            idle: 550,
            child: 90,
            child_waited_ns: 0,
        };
        assert_eq!(before.others_percent(&after), 30);
    }

    #[test]
    fn time_in_which_a_process_waited_for_a_cpu_or_was_not_looked_at_it_could_not_run() {
        let at = |child, waited_ms: u64| CpuTime {
            child,
            child_waited_ns: waited_ms * 1_000_000,
            ..CpuTime::default()
        };
        let ms = Duration::from_millis;
        let begin = at(100, 500);
        // Slept; ran; waited; ran and waited by turns; two threads that ran.
        assert_eq!(begin.could_run(&at(100, 500), ms(30)), ms(30));
        assert_eq!(begin.could_run(&at(103, 500), ms(30)), ms(30));
        assert_eq!(begin.could_run(&at(100, 530), ms(30)), ms(0));
        assert_eq!(begin.could_run(&at(101, 520), ms(30)), ms(10));
        assert_eq!(begin.could_run(&at(106, 500), ms(30)), ms(60));
        // The machine was suspended for an hour.
        assert_eq!(begin.could_run(&at(100, 500), ms(3_600_000)), ms(1000));
    }

    #[test]
    fn this_process_is_seen_to_use_cpu_time() {
        let begun = std::time::Instant::now();
        while begun.elapsed().as_millis() < 100 {}
        let now = CpuTime::now(Some(std::process::id()));
        assert!(now.child > 0 && now.all > now.idle, "{now:?}");
    }
}
