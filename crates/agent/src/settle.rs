// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waits until a kernel that has just booted has nothing left to do of its boot, so that what is
//! measured afterwards is not the boot: its clock source is the last one, all CPUs are online, and
//! they have been idle for a while.
//!
//! Left out: RCU, which the kernel itself brings out of its boot mode before it starts init.

use std::time::Duration;

use crate::system;

/// How long CPUs are watched at a time.
const WATCHED: Duration = Duration::from_millis(100);
/// Of that time CPUs have to be idle, in percent.
const IDLE_PERCENT: u64 = 80;
/// The clock source that the kernel uses until it has measured the time-stamp counter, about a
/// second after boot (`arch/x86/kernel/tsc.c`).
const EARLY: &str = "tsc-early";

/// What a kernel lacks of being settled.
#[derive(Debug, Clone, PartialEq, Eq)]
struct State {
    clocksource: String,
    online: String,
    present: String,
    /// Ticks of `/proc/stat`: idle ones, and all.
    idle: u64,
    all: u64,
}

impl State {
    fn now() -> Self {
        let cpu = |file: &str| system::read_trimmed(format!("/sys/devices/system/cpu/{file}"));
        let counters = system::counters();
        let ticks = |wanted: fn(&str) -> bool| {
            counters
                .iter()
                .filter(|(name, _)| wanted(name))
                .map(|(_, ticks)| ticks)
                .sum()
        };
        Self {
            clocksource: system::clocksource(),
            online: cpu("online"),
            present: cpu("present"),
            idle: ticks(|name| name == "cpu.idle"),
            all: ticks(|name| name.starts_with("cpu.")),
        }
    }

    /// What is missing now, in words; empty if nothing is.
    fn missing(&self, before: &Self) -> Vec<String> {
        let mut missing = Vec::new();
        if self.clocksource == EARLY {
            missing.push(format!("its clock source is still {EARLY}"));
        }
        if self.online != self.present {
            let (online, present) = (&self.online, &self.present);
            missing.push(format!("CPUs {online} of {present} are online"));
        }
        let all = self.all.saturating_sub(before.all);
        let idle = self.idle.saturating_sub(before.idle);
        if idle * 100 < all * IDLE_PERCENT {
            missing.push(format!("its CPUs were idle for {idle} of {all} ticks"));
        }
        missing
    }
}

/// Waits, no longer than `limit`; returns what is still missing then, in words.
pub fn wait(limit: Duration) -> Vec<String> {
    let end_ns = system::now_ns() + u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
    let mut before = State::now();
    loop {
        std::thread::sleep(WATCHED);
        let now = State::now();
        let missing = now.missing(&before);
        if missing.is_empty() || system::now_ns() >= end_ns {
            return missing;
        }
        before = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(clocksource: &str, online: &str, idle: u64, all: u64) -> State {
        State {
            clocksource: clocksource.to_owned(),
            online: online.to_owned(),
            present: "0-1".to_owned(),
            idle,
            all,
        }
    }

    #[test]
    fn a_kernel_that_idles_with_all_cpus_and_its_last_clock_source_is_settled() {
        let before = state("tsc", "0-1", 100, 200);
        let now = state("tsc", "0-1", 116, 220);
        assert_eq!(now.missing(&before), Vec::<String>::new());
    }

    #[test]
    fn each_thing_that_is_missing_is_told() {
        let before = state("tsc-early", "0", 100, 200);
        let now = state("tsc-early", "0", 115, 220);
        let missing = now.missing(&before);
        assert_eq!(missing.len(), 3, "{missing:?}");
        assert!(missing[2].contains("15 of 20 ticks"), "{missing:?}");
    }
}
