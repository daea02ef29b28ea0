// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the machine that runs the emulators has to spare of its CPU time.

use std::fs;
use std::time::Duration;

use steady_measures::Ratio;

/// `USER_HZ` of x86 is 100 (`include/asm-generic/param.h`).
const MS_PER_TICK: u64 = 10;

/// CPU time in clock ticks.
#[derive(Debug, Clone, Copy, Default)]
pub struct CpuTime {
    all: u64,
    idle: u64,
    child: u64,
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
        }
    }

    /// CPU time of the process since it began.
    #[must_use]
    pub fn of_process(&self) -> Duration {
        Duration::from_millis(self.child * MS_PER_TICK)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_neither_idled_nor_was_the_childs_went_to_others() {
        let before = CpuTime {
            all: 1000,
            idle: 500,
            child: 0,
        };
        let after = CpuTime {
            all: 1200,
            idle: 550,
            child: 90,
        };
        assert_eq!(before.others_percent(&after), 30);
    }

    #[test]
    fn this_process_is_seen_to_use_cpu_time() {
        let begun = std::time::Instant::now();
        while begun.elapsed().as_millis() < 100 {}
        let now = CpuTime::now(Some(std::process::id()));
        assert!(now.child > 0 && now.all > now.idle, "{now:?}");
    }
}
