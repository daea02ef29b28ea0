// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A BPF scheduler of the host: bpftool loads it before the first VM starts, and it must schedule
//! the host until all VMs have stopped. What counts is the kernel's own state in
//! `/sys/kernel/sched_ext` (`kernel/sched/ext.c`), read after the load, while a guest is waited
//! for, and at the end. A scheduler that the kernel has ended cannot come back: what is enabled
//! later has another `enable_seq`.

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use steady_agent::plan::WorkloadPlan;

use self::seen::Seen;
use super::kernel_log::KernelLog;
use super::out::Out;
use crate::program::{Running, STDERR};
use crate::system::{self, Doing, Failure};

mod seen;

const FOLDER: &str = "/sys/kernel/sched_ext";
const BPFTOOL: &str = "/usr/sbin/bpftool";
/// What the lab calls the words of bpftool and the verifier.
const LOG: &str = "scx.log";
/// The kernel verifies a program for seconds where the host is emulated.
const LOAD_LIMIT_MS: u64 = 60_000;
/// How long the kernel may take to end a scheduler, after which it says why.
const END_LIMIT: Duration = Duration::from_secs(5);
/// Most bytes of words that an error repeats.
const SAID_LIMIT: usize = 700;

/// A scheduler that was loaded.
#[derive(Debug)]
pub struct Loaded {
    folder: PathBuf,
    seen: Seen,
    /// `None` in tests of a user who may not read it.
    log: Option<Mutex<KernelLog>>,
    /// Why it has ended, once that was seen.
    why: OnceLock<String>,
}

/// Loads `object` and checks that it schedules the host.
pub fn load(out: &Out, object: &str) -> Result<Loaded, Failure> {
    let folder = PathBuf::from(FOLDER);
    let bytes = fs::read(object).doing(|| format!("read {object}"))?;
    let log = KernelLog::open()?;
    let before = Seen::of(&folder);
    let mut running = Running::prepare(
        WorkloadPlan {
            program: "bpftool".to_owned(),
            argv: [BPFTOOL, "struct_ops", "register", object]
                .map(str::to_owned)
                .to_vec(),
            folder: Some("/".to_owned()),
            time_limit_ms: LOAD_LIMIT_MS,
            ..WorkloadPlan::default()
        },
        false,
    )?;
    running.start()?;
    running.wait()?;
    if fs::metadata(STDERR).is_ok_and(|metadata| metadata.len() > 0) {
        out.file(LOG, STDERR.as_ref())?;
    }
    let output = running.into_output()?;
    let seen = Seen::of(&folder);
    let lacks = match output.exit_code {
        Some(0) => seen.lacks(&before, &bytes),
        Some(code) => Some(format!("bpftool ended with exit code {code}, expected 0")),
        None => Some(format!("bpftool did not end in {LOAD_LIMIT_MS} ms")),
    };
    let loaded = Loaded {
        folder,
        seen,
        log: Some(Mutex::new(log)),
        why: OnceLock::new(),
    };
    let Some(lacks) = lacks else {
        return Ok(loaded);
    };
    if loaded.seen.was_enabled_and_is_not(&before) {
        return Err(ended(&name_of(object), &lacks, &loaded.kernel_said()));
    }
    let said = [output.stdout.trim(), output.stderr.trim()].join("\n");
    Err(Failure::new(format!(
        "the BPF scheduler {object} does not schedule the host: {lacks}; bpftool said: {}; the \
         kernel said: {}; correct it by the verifier's words, which are in {LOG} of the run",
        or_nothing(system::tail(said.trim(), SAID_LIMIT)),
        loaded.kernel_said(),
    )))
}

impl Loaded {
    /// As if what `folder` shows had been loaded.
    #[cfg(test)]
    pub fn shown_in(folder: &std::path::Path) -> Self {
        Self {
            folder: folder.to_owned(),
            seen: Seen::of(folder),
            log: KernelLog::open().ok().map(Mutex::new),
            why: OnceLock::new(),
        }
    }

    /// Why it does not schedule the host any more; `None` if it does.
    pub fn fault(&self) -> Option<Failure> {
        if self.why.get().is_none() && Seen::of(&self.folder) == self.seen {
            return None;
        }
        Some(Failure::new(self.why.get_or_init(|| self.find_why())))
    }

    fn find_why(&self) -> String {
        // The kernel says why before it has ended it.
        let begun = Instant::now();
        let mut now = Seen::of(&self.folder);
        while now.state == "disabling" && begun.elapsed() < END_LIMIT {
            std::thread::sleep(Duration::from_millis(10));
            now = Seen::of(&self.folder);
        }
        assert!(!self.seen.state.is_empty(), "a scheduler was loaded");
        let change = now.first_change(&self.seen);
        let (name, here, there) = change.unwrap_or(("state", "enabled", "enabled without a break"));
        let what = format!("{FOLDER}/{name} is `{here}`, expected `{there}`");
        ended(&self.seen.ops, &what, &self.kernel_said()).to_string()
    }

    /// What the kernel has said of BPF schedulers since before the load.
    fn kernel_said(&self) -> String {
        let log = self.log.as_ref();
        let log = log.map(|log| log.lock().expect("no thread panics with the log"));
        let lines = log.and_then(|mut log| log.warnings().ok());
        let lines = lines.unwrap_or_default();
        let of_it = lines.iter().filter(|line| line.starts_with("sched_ext: "));
        let of_it: Vec<&str> = of_it.map(String::as_str).collect();
        or_nothing(system::tail(&of_it.join("; "), SAID_LIMIT)).to_owned()
    }
}

/// The failure of a scheduler that was enabled and is not any more.
fn ended(name: &str, what: &str, kernel_said: &str) -> Failure {
    Failure::new(format!(
        "the BPF scheduler {name} ended before the VMs had stopped: {what}; the kernel said: \
         {kernel_said}"
    ))
}

/// What the scheduler of `/scx/NAME.bpf.o` is called where the kernel does not say it any more.
fn name_of(object: &str) -> String {
    let file = object.rsplit('/').next().unwrap_or(object);
    file.trim_end_matches(".bpf.o").to_owned()
}

fn or_nothing(said: &str) -> &str {
    if said.is_empty() { "nothing" } else { said }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheduler_is_called_as_its_file() {
        assert_eq!(name_of("/scx/forgets.bpf.o"), "forgets");
    }

    #[test]
    fn an_end_is_seen_at_the_next_look_and_is_not_forgotten() {
        let folder = std::env::temp_dir().join(format!("steady-scx-{}", std::process::id()));
        fs::create_dir_all(folder.join("root")).unwrap();
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
        for (name, text) in [("state", "enabled\n"), ("root/ops", "fifo\n")] {
            write(name, text);
        }
        let loaded = Loaded::shown_in(&folder);
        assert!(loaded.fault().is_none());
        write("state", "disabled\n");
        let said = loaded.fault().unwrap().to_string();
        assert!(said.contains("scheduler fifo ended"), "{said}");
        assert!(said.contains("is `disabled`"), "{said}");
        write("state", "enabled\n");
        assert_eq!(loaded.fault().unwrap().to_string(), said);
        fs::remove_dir_all(&folder).unwrap();
    }
}
