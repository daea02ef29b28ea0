// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The report: one JSON object on one line, written aside and renamed, at the end or on demand.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::outcome::Outcome;
use crate::stats::{self, Stats};

/// Schema name in every report.
pub const SCHEMA: &str = "steady.vmm-report";
/// Schema version in every report.
pub const VERSION: u32 = 1;

/// What is reported.
#[derive(Debug, Serialize)]
pub struct Report<'a> {
    /// Always [`SCHEMA`].
    pub schema: &'static str,
    /// Always [`VERSION`].
    pub version: u32,
    /// Name of the guest.
    pub name: &'a str,
    /// How it ended, or `running`.
    pub outcome: Outcome,
    /// One line of explanation.
    pub detail: String,
    /// Wall-clock time from the start of the VMM to the stop, or to this snapshot.
    pub run_time_ns: u64,
    /// Bytes of the channel that the guest sent and that were not fetched.
    pub channel_undelivered_bytes: u64,
    /// KVM's statistics.
    pub stats: AllStats,
    /// Thread id of each vCPU.
    pub vcpu_threads: Vec<u32>,
    /// Scheduler times of each vCPU thread; absent on a host kernel without `CONFIG_SCHED_INFO`.
    pub cpu_time_ns: Vec<Option<CpuTime>>,
}

/// KVM's statistics of the VM and of each vCPU, names as in the kernel.
#[derive(Debug, Serialize)]
pub struct AllStats {
    /// Of the VM.
    pub vm: Stats,
    /// Of each vCPU.
    pub vcpus: Vec<Stats>,
}

/// What `/proc/self/task/TID/schedstat` says, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CpuTime {
    /// Time on a CPU.
    pub run: u64,
    /// Time runnable but waiting for one.
    pub wait: u64,
}

/// Open statistics descriptors of a machine.
#[derive(Debug)]
pub struct StatsFiles {
    /// Of the VM.
    pub vm: File,
    /// Of each vCPU.
    pub vcpus: Vec<File>,
}

impl StatsFiles {
    /// Reads them all.
    ///
    /// # Errors
    /// When one cannot be read or decoded.
    pub fn read(&self) -> Result<AllStats, stats::Error> {
        Ok(AllStats {
            vm: stats::read(&self.vm)?,
            vcpus: self
                .vcpus
                .iter()
                .map(stats::read)
                .collect::<Result<_, _>>()?,
        })
    }
}

/// Scheduler times of a thread of this process.
#[must_use]
pub fn cpu_time(tid: u32) -> Option<CpuTime> {
    parse_schedstat(&fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).ok()?)
}

fn parse_schedstat(text: &str) -> Option<CpuTime> {
    let mut fields = text
        .split_ascii_whitespace()
        .map(|field| field.parse::<u64>().ok());
    Some(CpuTime {
        run: fields.next()??,
        wait: fields.next()??,
    })
}

impl Report<'_> {
    /// Writes the report to `path`: first to `path` with `.part` added, then renamed.
    ///
    /// # Errors
    /// When the file cannot be written or renamed; no half-written report is left then.
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut part = OsString::from(path);
        part.push(".part");
        let part = PathBuf::from(part);
        let mut text = serde_json::to_vec(self).context("cannot encode the report")?;
        text.push(b'\n');
        let written = fs::write(&part, text).and_then(|()| fs::rename(&part, path));
        if written.is_err() {
            // Best effort: the first error is the one to report.
            let _ = fs::remove_file(&part);
        }
        written.with_context(|| format!("cannot write the report {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedstat_gives_run_and_wait() {
        let expected = Some(CpuTime {
            run: 1_500_000,
            wait: 42,
        });
        assert_eq!(parse_schedstat("1500000 42 7\n"), expected);
    }

    #[test]
    fn schedstat_of_an_unknown_form_is_absent_rather_than_wrong() {
        assert_eq!(parse_schedstat(""), None);
        assert_eq!(parse_schedstat("12"), None);
        assert_eq!(parse_schedstat("a b c"), None);
    }

    #[test]
    fn the_hosts_init_reads_the_outcome_of_a_report() {
        use steady_agent::outcome::End;
        for outcome in [Outcome::Clean, Outcome::GuestPanic, Outcome::KvmError] {
            let report = Report {
                schema: SCHEMA,
                version: VERSION,
                name: "a",
                outcome,
                detail: String::new(),
                run_time_ns: 1,
                channel_undelivered_bytes: 0,
                stats: AllStats {
                    vm: Stats::default(),
                    vcpus: Vec::new(),
                },
                vcpu_threads: Vec::new(),
                cpu_time_ns: Vec::new(),
            };
            let text = serde_json::to_string(&report).expect("plain data");
            let end: End = serde_json::from_str(&text).expect("the agent's part");
            assert_eq!(end, End { outcome });
        }
    }
}
