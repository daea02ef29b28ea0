// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Knobs of the host's scheduler: what all threads have through debugfs, and what vCPU threads ask
//! for. Each is read back, as a kernel may take less than it was given.

use std::collections::BTreeMap;
use std::fs;

use steady_agent::plan::Scheduler;

use super::counters::Threads;
use crate::raw;
use crate::system::{self, Doing, Failure};

const FOLDER: &str = "/sys/kernel/debug/sched";

/// Turns the knobs; the VMs are up.
pub fn turn(knobs: &Scheduler, threads: &BTreeMap<String, Threads>) -> Result<(), Failure> {
    for word in &knobs.features {
        feature(FOLDER, word)?;
    }
    if let Some(slice_ns) = knobs.base_slice_ns {
        base_slice(FOLDER, slice_ns)?;
    }
    if knobs.vcpu_slice_ns.is_none() && !knobs.vcpu_batch {
        return Ok(());
    }
    for &thread in threads.values().flat_map(|threads| &threads.vcpus) {
        of_thread(thread, knobs)?;
    }
    Ok(())
}

/// Switches a feature on or off.
fn feature(folder: &str, word: &str) -> Result<(), Failure> {
    let path = format!("{folder}/features");
    // A word that the kernel does not know is an error of the write.
    let written = fs::write(&path, word);
    let there = fs::read_to_string(&path).doing(|| format!("read {path}"))?;
    if written.is_err() || !there.split_whitespace().any(|known| known == word) {
        let known = there.trim_end();
        return Err(Failure::new(format!(
            "this kernel's scheduler has no feature `{word}`; it has, as they are: {known}"
        )));
    }
    Ok(())
}

fn base_slice(folder: &str, slice_ns: u32) -> Result<(), Failure> {
    let path = format!("{folder}/base_slice_ns");
    fs::write(&path, slice_ns.to_string())
        .doing(|| format!("write {path}, which Linux 6.6 and later have"))?;
    let there = system::read_trimmed(&path);
    if there != slice_ns.to_string() {
        return Err(Failure::new(format!(
            "{path} is {there} where {slice_ns} was written"
        )));
    }
    Ok(())
}

fn of_thread(thread: u32, knobs: &Scheduler) -> Result<(), Failure> {
    let policy = match knobs.vcpu_batch {
        true => libc::SCHED_BATCH,
        false => libc::SCHED_OTHER,
    };
    let slice_ns = knobs.vcpu_slice_ns.map(u64::from);
    raw::set_scheduling(thread, policy.unsigned_abs(), slice_ns)
        .doing(|| format!("set policy and slice of the vCPU thread {thread}"))?;
    let (has_policy, has_ns) =
        raw::scheduling(thread).doing(|| format!("read policy and slice of thread {thread}"))?;
    if has_policy != policy.unsigned_abs() || slice_ns.is_some_and(|slice_ns| has_ns != slice_ns) {
        return Err(Failure::new(format!(
            "the vCPU thread {thread} has policy {has_policy} and a slice of {has_ns} ns; slices \
             are taken by Linux 6.12 and later"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_kernel_does_not_take_is_an_error_that_says_what_it_has() {
        let folder = format!("/tmp/steady-agent-sched-{}", std::process::id());
        fs::create_dir_all(&folder).unwrap();
        // A file keeps what it is given, as the kernel does what it knows.
        fs::write(format!("{folder}/features"), "").unwrap();
        feature(&folder, "NO_HRTICK").unwrap();
        base_slice(&folder, 700_000).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        let said = base_slice(&folder, 1).unwrap_err().to_string();
        assert!(said.contains("Linux 6.6"), "{said}");
        // The kernel's own file: /dev/null takes all words and has none.
        let null = format!("/tmp/steady-agent-null-{}", std::process::id());
        fs::create_dir_all(&null).unwrap();
        std::os::unix::fs::symlink("/dev/null", format!("{null}/features")).unwrap();
        std::os::unix::fs::symlink("/dev/null", format!("{null}/base_slice_ns")).unwrap();
        let said = feature(&null, "X").unwrap_err().to_string();
        assert!(said.contains("no feature `X`"), "{said}");
        let said = base_slice(&null, 5).unwrap_err().to_string();
        assert!(said.contains("where 5 was written"), "{said}");
        fs::remove_dir_all(&null).unwrap();
    }

    #[test]
    fn a_thread_has_what_it_was_given_or_it_is_said() {
        let batch = Scheduler {
            vcpu_batch: true,
            ..Scheduler::default()
        };
        let (sender, receiver) = std::sync::mpsc::channel();
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            sender.send(nix::unistd::gettid().as_raw()).unwrap();
            wait.recv().ok();
        });
        let tid = receiver.recv().unwrap().unsigned_abs();
        of_thread(tid, &batch).unwrap();
        assert_eq!(
            raw::scheduling(tid).unwrap().0,
            libc::SCHED_BATCH.unsigned_abs()
        );
        done.send(()).unwrap();
        thread.join().unwrap();
        assert!(of_thread(tid, &batch).is_err(), "it has ended");
    }
}
