// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line of `steady record`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use steady_record::Condition;

/// `steady record`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo steady record                                  ten seconds into steady-incident.zip
  sudo steady record --vm web --seconds 60 --redact -o web.zip
  sudo steady record --until 'vCPU waits 100 ms' --keep 8 -o /var/lib/steady
  steady diagnose steady-incident.zip
  sudo steady record --guest -o guest.zip
  steady record --dry-run")]
pub struct Record {
    /// The file to write; with --until the folder of incidents
    /// [default: steady-incident.zip, steady-incidents]
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// How long, in seconds; without it 10, and with --until until Ctrl-C.
    #[arg(long, value_name = "SECONDS")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub seconds: Option<u64>,
    /// Keep only the last seconds, in memory, and write them whenever this happens:
    /// `vCPU waits 100 ms` (10 ms to 60 s).
    #[arg(long, value_name = "CONDITION", conflicts_with = "guest")]
    pub until: Option<Condition>,
    /// With --until, how many incidents the folder may have; the oldest go.
    #[arg(long, value_name = "N", default_value_t = 8, requires = "until")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub keep: u16,
    /// Most of a trace, in MiB; with --until, of all incidents in the folder.
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=4000))]
    pub max_mib: u64,
    /// KVM's events of this VM alone, by its name or process. The scheduler's stay whole: they show
    /// who ran instead.
    #[arg(long, value_name = "NAME|PID", conflicts_with = "guest")]
    pub vm: Option<String>,
    /// Replace names of VMs, control groups, programs, files and the host by pseudonyms.
    #[arg(long)]
    pub redact: bool,
    /// Ring for each CPU, in KiB. With --until it is all that is kept.
    #[arg(long, value_name = "KIB", default_value_t = 8192)]
    #[arg(value_parser = clap::value_parser!(u64).range(64..=1_048_576))]
    pub buffer_kib: u64,
    /// Record the shootdowns of this kernel, as a guest, instead of its VMs.
    #[arg(long)]
    pub guest: bool,
    /// Print commands that record such a trace without this program, and run nothing. They have
    /// no --until, --vm and --redact.
    #[arg(long, conflicts_with_all = ["until", "vm", "redact"])]
    pub dry_run: bool,
    /// Of --dry-run: the program that records; the first that is installed if none is named.
    #[arg(long, value_enum, requires = "dry_run")]
    pub tool: Option<Tool>,
}

/// A program that records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Tool {
    /// trace-cmd.
    TraceCmd,
    /// perf.
    Perf,
}
