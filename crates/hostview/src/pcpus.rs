// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the pCPUs did, from `/proc/stat` (proc(5)).
//!
//! `/proc/stat` counts in ticks of 10 ms, so that an interval of 100 ms is known to a tenth.

use crate::{Host, files};

/// Ticks a second of `/proc/stat` (`USER_HZ`, which is 100 on every architecture with KVM).
const TICK_NS: u64 = 10_000_000;

/// The idle time of each pCPU until now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pcpus {
    /// By pCPU, in nanoseconds: idle, and idle while a task waited for I/O; `None` for those
    /// offline.
    pub idle_ns: Vec<Option<u64>>,
}

impl Pcpus {
    /// Reads them; empty where there is no `/proc/stat`.
    #[must_use]
    pub fn read(host: &Host) -> Self {
        let text = files::text(&host.proc.join("stat")).unwrap_or_default();
        let mut idle_ns = Vec::new();
        for line in text.lines().take_while(|line| line.starts_with("cpu")) {
            let mut words = line[3..].split_ascii_whitespace();
            // The first line is the sum and has a blank in place of a number.
            if line.as_bytes().get(3) == Some(&b' ') {
                continue;
            }
            let Some(cpu) = words.next().and_then(|cpu| cpu.parse::<usize>().ok()) else {
                continue;
            };
            let ticks: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
            if cpu >= idle_ns.len() {
                idle_ns.resize(cpu + 1, None);
            }
            // user, nice, system, idle, iowait
            idle_ns[cpu] = ticks
                .get(3)
                .zip(ticks.get(4))
                .map(|(a, b)| (a + b) * TICK_NS);
        }
        Self { idle_ns }
    }

    /// How long a pCPU was idle since `before`, in nanoseconds; 0 where one of the two has it not.
    #[must_use]
    pub fn idle_since(&self, before: &Self, cpu: u32) -> u64 {
        let of = |pcpus: &Self| pcpus.idle_ns.get(cpu as usize).copied().flatten();
        // A pCPU that was offline meanwhile may count from the start again.
        of(self)
            .zip(of(before))
            .map_or(0, |(now, then)| now.saturating_sub(then))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn idle_time_is_by_pcpu_and_none_for_those_offline() {
        let made = tempfile::tempdir().unwrap();
        let host = Host::under(made.path());
        fs::create_dir_all(&host.proc).unwrap();
        let put = |idle: u64| {
            let text =
                format!("cpu  9 9 9 9 9\ncpu0 1 0 1 {idle} 2 0 0\ncpu2 1 0 1 7 0 0 0\nintr 5\n");
            fs::write(host.proc.join("stat"), text).unwrap();
        };
        put(10);
        let before = Pcpus::read(&host);
        assert_eq!(before.idle_ns, [Some(120_000_000), None, Some(70_000_000)]);
        put(15);
        let now = Pcpus::read(&host);
        assert_eq!(
            [0, 1, 2, 3].map(|cpu| now.idle_since(&before, cpu)),
            [50_000_000, 0, 0, 0]
        );
    }
}
