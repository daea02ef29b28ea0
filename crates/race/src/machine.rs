// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a race asks of the machine that it runs on: the user's wish to stop, and room on its disks.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The machine, as a race sees it. Tests put another in its place.
pub trait Machine: Sync {
    /// Whether the user has asked to stop.
    fn interrupted(&self) -> bool;
    /// Room left for files at a path, in bytes; `None` if the system cannot say.
    fn free_bytes(&self, path: &Path) -> Option<u64>;
    /// One line on it for the report.
    fn describe(&self) -> String;
}

/// The machine that this program runs on.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThisMachine;

impl Machine for ThisMachine {
    fn interrupted(&self) -> bool {
        interrupted()
    }

    fn free_bytes(&self, path: &Path) -> Option<u64> {
        free_bytes(path)
    }

    fn describe(&self) -> String {
        let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = text
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        format!(
            "{cpus} CPUs, {}",
            model.map_or("unknown processor", |(_, name)| name.trim())
        )
    }
}

/// Whether the user has asked to stop by a signal; the first call installs the handlers.
#[must_use]
pub fn interrupted() -> bool {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    let flag = FLAG.get_or_init(|| {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [
            signal_hook::consts::SIGINT,
            signal_hook::consts::SIGTERM,
            signal_hook::consts::SIGHUP,
        ] {
            // Without a handler the signal ends us, and the children with us: still clean.
            let _ = signal_hook::flag::register(signal, Arc::clone(&flag));
        }
        flag
    });
    flag.load(Ordering::Relaxed)
}

/// Room left for files at a path, in bytes; `None` if the system cannot say.
#[must_use]
pub fn free_bytes(path: &Path) -> Option<u64> {
    let numbers = nix::sys::statvfs::statvfs(path).ok()?;
    Some(
        numbers
            .blocks_available()
            .saturating_mul(numbers.fragment_size()),
    )
}
