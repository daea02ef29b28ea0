// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What both inits need from the kernel: mounts, clock, restart, and small files under `/proc`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use nix::mount::{MsFlags, mount};
use nix::sys::reboot::{RebootMode, reboot};
use nix::time::{ClockId, clock_gettime};

/// An error in words, with its context before it.
#[derive(Debug)]
pub struct Failure(String);

impl Failure {
    /// From one sentence.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Adds what was being done to an error.
pub trait Doing<T> {
    /// On error: "`what`: the error".
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Failure>;
}

impl<T, E: std::fmt::Display> Doing<T> for Result<T, E> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Failure> {
        self.map_err(|error| Failure(format!("{}: {error}", what())))
    }
}

/// Mounts a file system, making its directory.
pub fn mount_one(kind: &str, at: &str, data: Option<&str>) -> Result<(), Failure> {
    fs::create_dir_all(at).doing(|| format!("make {at}"))?;
    match mount(Some(kind), at, Some(kind), MsFlags::empty(), data) {
        // The kernel mounts devtmpfs by itself before init.
        Ok(()) | Err(nix::errno::Errno::EBUSY) => Ok(()),
        Err(error) => Err(Failure(format!("mount {kind} on {at}: {error}"))),
    }
}

/// Mounts what every process expects.
pub fn mount_base() -> Result<(), Failure> {
    mount_one("proc", "/proc", None)?;
    mount_one("sysfs", "/sys", None)?;
    mount_one("devtmpfs", "/dev", None)?;
    mount_one("tmpfs", "/dev/shm", None)?;
    mount_one("devpts", "/dev/pts", None)
        .or_else(|_| fs::create_dir_all("/dev/pts").doing(|| "make /dev/pts".into()))?;
    mount_one("tmpfs", "/tmp", None)?;
    mount_one("tmpfs", "/run", None)
}

/// Time since boot, in nanoseconds.
pub fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map(Duration::from)
        .unwrap_or_default();
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Restarts the machine; emulators and VMMs of the lab take a restart as the end.
pub fn restart() -> ! {
    let _ = reboot(RebootMode::RB_AUTOBOOT);
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// The contents of a small file without the blanks at its ends; empty if it cannot be read.
pub fn read_trimmed(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// Kernel release.
pub fn release() -> String {
    read_trimmed("/proc/sys/kernel/osrelease")
}

/// The clock source that the kernel uses.
pub fn clocksource() -> String {
    read_trimmed("/sys/devices/system/clocksource/clocksource0/current_clocksource")
}

/// CPUs online.
pub fn cpus_online() -> u32 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let count = stat
        .lines()
        .filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "))
        .count();
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Interrupt counts by their letters (`irq.TLB`), summed over CPUs, and CPU ticks by class.
pub fn counters() -> BTreeMap<String, u64> {
    let mut counters = BTreeMap::new();
    for line in fs::read_to_string("/proc/interrupts")
        .unwrap_or_default()
        .lines()
        .skip(1)
    {
        let mut words = line.split_whitespace();
        let Some(name) = words.next().map(|word| word.trim_end_matches(':')) else {
            continue;
        };
        let sum = words.map_while(|word| word.parse::<u64>().ok()).sum();
        if name.chars().all(|letter| letter.is_ascii_uppercase()) {
            counters.insert(format!("irq.{name}"), sum);
        }
    }
    const CLASSES: [&str; 8] = [
        "user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal",
    ];
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    if let Some(line) = stat.lines().find(|line| line.starts_with("cpu ")) {
        for (class, value) in CLASSES.iter().zip(line.split_whitespace().skip(1)) {
            counters.insert(format!("cpu.{class}"), value.parse().unwrap_or(0));
        }
    }
    counters
}

/// What was added to the counters from `before` to `after`.
pub fn added(
    before: &BTreeMap<String, u64>,
    after: &BTreeMap<String, u64>,
) -> BTreeMap<String, u64> {
    after
        .iter()
        .map(|(name, value)| {
            (
                name.clone(),
                value.saturating_sub(before.get(name).copied().unwrap_or(0)),
            )
        })
        .collect()
}

/// The last `limit` bytes of a text, cut at a character.
pub fn tail(text: &str, limit: usize) -> &str {
    let mut from = text.len().saturating_sub(limit);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    &text[from..]
}
