// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady evidence` and `steady reproduce`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Examples under `steady evidence --help`.
pub const EXAMPLES: &str = "\
Examples:
  steady evidence run shoot4u-default        # race what is missing or old of one claim
  steady evidence run --budget 1h            # of all claims, for an hour
  steady evidence jobs | parallel -j 8       # a line for each piece; a Slurm array takes them too
  steady evidence render                     # write docs/validation and the README's figures
  steady evidence check                      # does everything hold together? It boots nothing
  steady evidence score out/*/*/result.json  # the scoreboard, with what was just measured";

/// `steady evidence`.
#[derive(Debug, Subcommand)]
pub enum Evidence {
    /// Race what is missing or old, and record it.
    Run(Run),
    /// Write the pages and figures from claims and records.
    Render,
    /// Check claims, papers, records and pages against each other; exit code 5 on a fault.
    Check,
    /// Print a command for each piece that is missing or old.
    Jobs(Claims),
    /// Seal counts that have no seal yet.
    Seal,
    /// Add pieces that were raced elsewhere to the records.
    Add(Add),
    /// Print the scoreboard of one screen.
    Score(Score),
}

/// Which claims.
#[derive(Debug, Args)]
pub struct Claims {
    /// Claims or systems; all if none is named.
    #[arg(value_name = "CLAIM|SYSTEM")]
    pub claims: Vec<String>,
}

/// `steady evidence run`.
#[derive(Debug, Args)]
pub struct Run {
    /// Which claims.
    #[command(flatten)]
    pub claims: Claims,
    /// Only this seed.
    #[arg(long, value_name = "SEED")]
    pub seed: Option<u64>,
    /// Race also what is recorded of today's kernel.
    #[arg(long)]
    pub again: bool,
    /// Begin no further piece this long after the start, such as `30m`.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub budget: Option<std::time::Duration>,
    /// Write the piece there, sealed, and do not add it to the records.
    #[arg(long, value_name = "FILE", requires = "seed")]
    pub piece: Option<PathBuf>,
    /// Folder of the programs that scenarios name by a path, such as `./mine`, and of their files.
    #[arg(long, value_name = "FOLDER")]
    pub programs: Option<PathBuf>,
    /// Folder for races under way.
    #[arg(long, value_name = "FOLDER", default_value = "out/evidence")]
    pub out: PathBuf,
}

/// `steady evidence add`.
#[derive(Debug, Args)]
pub struct Add {
    /// The claim that the pieces are of.
    pub claim: String,
    /// Pieces that `steady evidence run --piece` wrote.
    #[arg(required = true, value_name = "RESULT")]
    pub pieces: Vec<PathBuf>,
}

/// `steady evidence score`.
#[derive(Debug, Args)]
pub struct Score {
    /// Results of this machine to be set beside the recorded ones.
    #[arg(value_name = "RESULT")]
    pub results: Vec<PathBuf>,
    /// A diagnosis (`steady diagnose --json`) whose first finding is shown in the diagnosis's line.
    #[arg(long, value_name = "FILE")]
    pub diagnosis: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// A paper of which every item is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Paper {
    /// Shoot4U: TLB shootdowns by hypercall.
    Shoot4u,
    /// Paratick: scheduler ticks at VM entry.
    Paratick,
    /// Strict Boost and Debooster: the vCPU that is waited for runs.
    StrictBoost,
    /// The study of pause-loop exits.
    Ple,
    /// ATTC: addressable-TLB-based translation coherence.
    Attc,
}

impl Paper {
    /// The word of its manifest.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Shoot4u => "shoot4u",
            Self::Paratick => "paratick",
            Self::StrictBoost => "strict-boost",
            Self::Ple => "ple",
            Self::Attc => "attc",
        }
    }
}

/// `steady reproduce`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  steady reproduce shoot4u             # every item of the paper beside what is recorded; a second
  steady reproduce paratick --run      # and beside one run of each race on this machine
  steady reproduce attc --verdict differs
  steady reproduce attc --run --short  # the headline numbers from one seed; under a minute
  steady reproduce attc --run          # every number and figure, five seeds; a quarter of an hour
  steady reproduce attc --beyond       # more cores, more VMs, large pages, other table sizes")]
pub struct Reproduce {
    /// The paper.
    #[arg(value_enum)]
    pub paper: Paper,
    /// Measure now as well, once for each claim.
    #[arg(long)]
    pub run: bool,
    /// Folder of the programs that scenarios name by a path; races that want some are left out
    /// without it.
    #[arg(long, value_name = "FOLDER", requires = "run")]
    pub programs: Option<PathBuf>,
    /// Only items with this verdict: agrees, differs, input, beside, open, old, not-recorded,
    /// not-here.
    #[arg(long, value_name = "VERDICT")]
    pub verdict: Option<String>,
    /// Of ATTC, only the numbers that the paper claims first.
    #[arg(long, requires = "run")]
    pub short: bool,
    /// Of ATTC, experiments that the paper does not have.
    #[arg(long, conflicts_with_all = ["short", "run"])]
    pub beyond: bool,
    /// Of ATTC, find the one calibrated number, the shootdown rate, again.
    #[arg(long, conflicts_with_all = ["short", "beyond", "run"])]
    pub calibrate: bool,
    /// Of ATTC, seeds: the first and those after it; 5, and 1 with --short, if not given.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub seeds: Option<u32>,
    /// Of ATTC, let the oracle check every access.
    #[arg(long)]
    pub check: bool,
    /// Of ATTC, threads of the simulator; results do not depend on it.
    #[arg(long, value_name = "COUNT", default_value_t = 2)]
    pub threads: usize,
    /// Write what was measured now as a result, for `steady evidence score`.
    #[arg(short, long, value_name = "FILE", requires = "run")]
    pub output: Option<PathBuf>,
    /// Print everything as JSON (docs/formats/reproduction.md).
    #[arg(long)]
    pub json: bool,
}
