// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a guest got of the time that it wanted, from its own `/proc/stat`: what it ran and what was
//! stolen from it (proc(5); `KVM_FEATURE_STEAL_TIME`).
//!
//! `/proc/stat` counts in ticks of 10 ms, so that a decision looks at several intervals together.

use std::fs;

use steady_hostview::Host;

/// Ticks a second of `/proc/stat` (`USER_HZ`).
const TICK_NS: u64 = 10_000_000;

/// What a guest's CPUs did until now, in nanoseconds of all of them together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Did {
    /// Programs and kernel, with interrupts.
    pub run_ns: u64,
    /// Wanted to run, while the host ran something else.
    pub steal_ns: u64,
}

impl Did {
    /// Reads it; `None` where there is no `/proc/stat`, or one without steal.
    #[must_use]
    pub fn read(host: &Host) -> Option<Self> {
        let text = fs::read_to_string(host.proc.join("stat")).ok()?;
        let sum = text.lines().next()?.strip_prefix("cpu ")?;
        let words = sum.split_ascii_whitespace().map(str::parse);
        let ticks: Vec<u64> = words.collect::<Result<_, _>>().ok()?;
        // user, nice, system, idle, iowait, irq, softirq, steal
        let [user, nice, system, _, _, irq, softirq, steal, ..] = ticks[..] else {
            return None;
        };
        Some(Self {
            run_ns: (user + nice + system + irq + softirq) * TICK_NS,
            steal_ns: steal * TICK_NS,
        })
    }

    /// What was done since `before`. Steal that runs backwards, as after a migration, counts as 0.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            run_ns: self.run_ns.saturating_sub(before.run_ns),
            steal_ns: self.steal_ns.saturating_sub(before.steal_ns),
        }
    }

    /// The sum of two.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            run_ns: self.run_ns + other.run_ns,
            steal_ns: self.steal_ns + other.steal_ns,
        }
    }

    /// Of what was wanted, what was stolen, in thousandths.
    #[must_use]
    pub fn stolen(&self) -> u64 {
        let wanted_ns = self.run_ns + self.steal_ns;
        (self.steal_ns * 1000).checked_div(wanted_ns).unwrap_or(0)
    }

    /// CPUs' worth of time that were run in `length_ns`, in thousandths of a CPU.
    #[must_use]
    pub fn ran(&self, length_ns: u64) -> u64 {
        (self.run_ns * 1000).checked_div(length_ns).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_and_steal_are_of_the_sum_of_all_cpus() {
        let made = tempfile::tempdir().unwrap();
        let host = Host::under(made.path());
        assert_eq!(Did::read(&host), None);
        fs::create_dir_all(&host.proc).unwrap();
        let put = |text: &str| fs::write(host.proc.join("stat"), text).unwrap();
        put("cpu  10 1 5 100 3 2 1 7 0 0\ncpu0 5 0 0 0 0 0 0 0 0 0\n");
        let before = Did::read(&host).unwrap();
        assert_eq!((before.run_ns, before.steal_ns), (190_000_000, 70_000_000));
        put("cpu  20 1 5 100 3 2 1 17 0 0\n");
        let did = Did::read(&host).unwrap().since(&before);
        assert_eq!((did.stolen(), did.ran(200_000_000)), (500, 500));
        put("cpu  20 1 5 100 3\n");
        assert_eq!(Did::read(&host), None);
    }
}
