// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line of `steady coherence` and `steady reproduce`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use steady_coherence::config::{Mode, preset_names};
use steady_coherence::{Registry, Spec};

/// Shown below `steady coherence --help`.
pub const EXAMPLES: &str = "\
Examples:
  steady coherence compare dedup                     # five schemes on a generated workload
  steady coherence capture -o x.smt -- pbzip2 -kc FILE
  steady coherence convert -o x.smt drmemtrace.app.1234.5678.dir
  steady coherence check x.smt
  steady coherence compare x.smt --check -o out      # the oracle on; out/tlb-x/report.html
  steady coherence run dedup --scheme attc --json    # one scheme, as JSON
  steady coherence sweep dedup core.count=8,64 --seeds 8 -o out     # many machines, as CSV

docs/GUIDE.md walks through it; docs/COHERENCE.md says what is modelled and what is left out.";

/// `steady coherence`.
#[derive(Debug, Subcommand)]
pub enum Coherence {
    /// Simulate one scheme on a workload or a captured trace.
    Run(SimulateOne),
    /// Simulate several schemes on the same accesses; the first is the baseline.
    Compare(SimulateMany),
    /// Simulate machines with every combination of some keys' values, under several seeds.
    Sweep(Sweep),
    /// Record the memory accesses of a real program.
    Capture(Capture),
    /// Print how often a recorded host and its guests change page tables, and shoot TLBs down.
    Rates(Rates),
    /// Make a trace of ours from one of DynamoRIO or ChampSim, or from text (Pin, lackey, gem5).
    Convert(Convert),
    /// Print a machine with every key: a preset, or a file on top of its preset.
    Machine(Machine),
    /// Verify captured traces: checksums, index, totals, every access inside a mapping.
    Check(Check),
}

/// What every simulation runs on.
#[derive(Debug, Clone, Args)]
pub struct Input {
    /// A workload of the ATTC paper's Table 3, such as dedup, or a captured trace.
    #[arg(value_name = "WORKLOAD|TRACE")]
    pub source: PathBuf,
    /// The machine.
    #[arg(long, value_name = "PRESET|FILE", default_value = "paper", help = machines())]
    pub machine: PathBuf,
    /// Accesses to simulate; 4,000,000 of a workload and the whole of a trace, if not given.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub accesses: Option<u64>,
    /// Accesses before counting begins; a quarter of all, if not given.
    #[arg(long, value_name = "COUNT")]
    pub warmup: Option<u64>,
    /// Seed of every random choice.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Virtual machines, each with a copy of the workload or trace.
    #[arg(long, value_name = "COUNT")]
    pub vms: Option<u16>,
    /// Pages swept per 10^11 instructions and MiB: the shootdown rate (not for traces).
    #[arg(long, value_name = "PAGES")]
    pub rate: Option<u32>,
    /// Let the oracle check every access.
    #[arg(long)]
    pub check: bool,
}

/// What `run` and `compare` take.
#[derive(Debug, Args)]
pub struct Simulate {
    /// What to simulate.
    #[command(flatten)]
    pub input: Input,
    /// Write FOLDER/tlb-NAME/coherence/result.json and FOLDER/tlb-NAME/report.html.
    #[arg(short, long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Print the result as JSON instead of a table (docs/formats/result.md).
    #[arg(long)]
    pub json: bool,
    /// Show every measure.
    #[arg(short, long)]
    pub verbose: bool,
    /// A key of the machine file with another value; may be given more than once.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// What `--machine` takes, for its help.
fn machines() -> String {
    let presets = preset_names().join(", ");
    format!("The machine: {presets}, or a TOML file (docs/formats/machine.md)")
}

/// The names of all schemes, for helps.
fn schemes() -> String {
    let registry = Registry::shipped();
    let named = |native: bool| {
        let fits = |spec: &&&Spec| spec.refuses(Mode::Virtualized).is_some() == native;
        let names = registry.all().iter().filter(fits).map(|spec| spec.name);
        names.collect::<Vec<_>>().join(", ")
    };
    format!("{}; on native machines also {}", named(false), named(true))
}

/// What `--scheme` takes, for its help.
fn one_scheme() -> String {
    format!("The scheme: {}", schemes())
}

/// What `--schemes` takes, for its help.
fn many_schemes() -> String {
    format!(
        "The schemes, by commas; the first is the baseline, which the others are ratios to. There \
         are {}. If not given: kvmtlb, shoot4u, hatric, attc and ideal, on native machines ipi, \
         unitd, didi, hatric, attc and ideal",
        schemes()
    )
}

/// `steady coherence run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  steady coherence run dedup
  steady coherence run dedup --scheme hatric --machine server --check
  steady coherence run words.smt --scheme kvmtlb --json | jq .variants")]
pub struct SimulateOne {
    /// What to simulate.
    #[command(flatten)]
    pub simulate: Simulate,
    /// The scheme.
    #[arg(long, value_name = "NAME", default_value = "attc", help = one_scheme())]
    pub scheme: String,
}

/// `steady coherence compare`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  steady coherence compare dedup
  steady coherence compare words.smt --check -o out
  steady coherence compare ft --schemes kvmtlb,shoot4u,attc --machine my-machine.toml
  steady coherence compare run*.smt --set rivals.invlpgb_sync_cycles=900   # captures are runs")]
pub struct SimulateMany {
    /// What to simulate.
    #[command(flatten)]
    pub simulate: Simulate,
    /// More captures of the same program: each is a run, as a seed is of a workload.
    #[arg(value_name = "TRACE", conflicts_with = "seeds")]
    pub more: Vec<PathBuf>,
    /// The schemes.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help = many_schemes())]
    pub schemes: Vec<String>,
    /// Threads of the simulator; results do not depend on it.
    #[arg(long, value_name = "COUNT", default_value_t = 2)]
    pub threads: usize,
    /// Seeds from --seed on. Ratios have a 95 % interval from 5 on, and a verdict from 8 on; where
    /// some of several schemes do not differ, from 10 on.
    #[arg(long, value_name = "COUNT", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub seeds: u32,
}

/// `steady coherence sweep`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  steady coherence sweep dedup core.count=8,64,128 --seeds 8 -o out
  steady coherence sweep words.smt vms=1,2,4 mode=native,virtualized --schemes kvmtlb,attc -o out
  steady coherence sweep dedup attc.atlb_kib=4096,16384 --seeds 8 -o out --jobs | parallel -j 8
  steady coherence sweep dedup attc.atlb_kib=4096,16384 --seeds 8 -o out --jobs >jobs; then in a
  Slurm array: sh -c \"$(sed -n ${SLURM_ARRAY_TASK_ID}p jobs)\"

A piece is one combination under one seed. Each is kept in FOLDER/pieces when it is done, under a
name that follows from all it depends on, this program's length and time of change included. A
sweep that was stopped goes on there, and a piece that a job made is taken. FOLDER/sweep.csv and
sweep.json have every counter of every scheme, and sweep.parquet has the CSV with types, for
DuckDB. Their bytes depend neither on --threads nor on what was there before.")]
pub struct Sweep {
    /// What to simulate.
    #[command(flatten)]
    pub input: Input,
    /// A key of the machine file, `vms` or `rate`, with its values by commas.
    #[arg(required = true, value_name = "KEY=VALUES")]
    pub keys: Vec<String>,
    /// The schemes.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help = many_schemes())]
    pub schemes: Vec<String>,
    /// Seeds from --seed on. Ratios have a 95 % interval from 5 on, and a verdict from 8 on; where
    /// some of several schemes do not differ, from 10 on.
    #[arg(long, value_name = "COUNT", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub seeds: u32,
    /// Pieces simulated at a time; one for each CPU, if not given. Results do not depend on it.
    #[arg(long, value_name = "COUNT")]
    pub threads: Option<usize>,
    /// Folder of the pieces, sweep.csv, sweep.parquet, sweep.json and report.html.
    #[arg(short, long, value_name = "FOLDER")]
    pub out: PathBuf,
    /// The measure that report.html plots: a column of sweep.csv, as a ratio to the first scheme.
    #[arg(long, value_name = "MEASURE", default_value = "ipc")]
    pub plot: String,
    /// Print a command for each piece that is missing, for GNU parallel or Slurm.
    #[arg(long, conflicts_with_all = ["piece", "json", "csv"])]
    pub jobs: bool,
    /// Simulate only this piece, counted from 1 in the order of --jobs of an empty folder.
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["json", "csv"])]
    pub piece: Option<usize>,
    /// Print sweep.json instead of a table.
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// Print sweep.csv instead of a table.
    #[arg(long)]
    pub csv: bool,
}

/// `steady coherence capture`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  steady coherence capture -o bzip.smt -- pbzip2 -p4 -kc big.tar
  steady coherence capture -o words.smt --wait-marker --max-accesses 20000000 -- ./wordcount 8 16
  steady coherence check bzip.smt && steady coherence compare bzip.smt
  steady coherence capture --host scenarios/two-vms.toml --max-accesses 100000000 -o host.sht

The program runs under a qemu-x86_64 with plugins: that of Debian 12's package qemu-user, or one
that is built on first use. Its output stays its own; the summary goes to standard error and names
the processes that it made, which are not recorded. With --wait-marker the program says itself
where recording starts, by syscall(0x53544459, 1, 0).")]
pub struct Capture {
    /// Trace to write; it takes its name when it is whole.
    #[arg(short, long, value_name = "TRACE")]
    pub output: PathBuf,
    /// Record after this many instructions of all threads.
    #[arg(long, value_name = "COUNT", conflicts_with = "wait_marker")]
    pub skip_instructions: Option<u64>,
    /// Record from the start marker that the program makes.
    #[arg(long)]
    pub wait_marker: bool,
    /// Stop the program after this many accesses; of a host, record as many (20,000,000).
    #[arg(long, value_name = "COUNT")]
    pub max_accesses: Option<u64>,
    /// Stop the program after this many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub time_limit: u64,
    /// Instructions a thread may run ahead of the slowest running one; 0 for no limit.
    #[arg(long, value_name = "COUNT", default_value_t = 20_000)]
    pub window: u64,
    /// Record the addresses that the program sees under the emulator, which gives each mmap new
    /// ones. Without this, mappings are where Linux would have placed them.
    #[arg(long)]
    pub emulator_addresses: bool,
    /// The plugin, if not the one in this tree, which is built when it is needed.
    #[arg(long, value_name = "FILE")]
    pub plugin: Option<PathBuf>,
    /// Record an emulated host with its guests, of one run of this scenario in Bochs
    /// (docs/formats/hosttrace.md). The run's result is left in TRACE.run.
    #[arg(
        long,
        value_name = "SCENARIO",
        conflicts_with_all = ["command", "skip_instructions", "wait_marker", "window", "plugin",
                              "time_limit", "emulator_addresses"]
    )]
    pub host: Option<PathBuf>,
    /// The scenario's variant, if not its first.
    #[arg(
        long,
        value_name = "NAME",
        requires = "host",
        conflicts_with = "command"
    )]
    pub variant: Option<String>,
    /// The run's seed, if not the scenario's.
    #[arg(
        long,
        value_name = "NUMBER",
        requires = "host",
        conflicts_with = "command"
    )]
    pub seed: Option<u64>,
    /// Record from the first VM entry at or after this time of the host, in ticks of its clock: 200
    /// million are a second.
    #[arg(
        long,
        value_name = "TICKS",
        requires = "host",
        conflicts_with = "command",
        default_value_t = 1_000_000_000
    )]
    pub after_ticks: u64,
    /// Let the host's kernel trace the run as well (TRACE.run has its trace.dat), and compare what
    /// both saw of each vCPU; exit code 5 where they differ.
    #[arg(long, requires = "host", conflicts_with = "command")]
    pub trace: bool,
    /// The program and its arguments.
    #[arg(last = true, required_unless_present = "host", value_name = "PROGRAM")]
    pub command: Vec<OsString>,
}

/// `steady coherence rates`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  steady coherence rates host.sht
  steady coherence rates host.sht --json | jq '.owners[] | {owner, updates}'

What counts as an update, a shootdown and a victim: docs/formats/hosttrace.md.")]
pub struct Rates {
    /// A trace of `steady coherence capture --host`.
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// Print the rates as JSON.
    #[arg(long)]
    pub json: bool,
}

/// `steady coherence convert`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  steady coherence convert -o app.smt drmemtrace.app.1234.5678.dir
  steady coherence convert -o mix.smt 600.perlbench.champsimtrace.xz 605.mcf.champsimtrace.xz
  steady coherence convert -o x.smt trace.txt        # lines `thread r|w address size`

DynamoRIO's traces are read in their final form (.trace, .trace.gz, .trace.zip), 64-bit and not
filtered; a folder stands for all threads in it. ChampSim's are read plain too. What is packed by
gzip, xz, zstd or bzip2 is unpacked. Several files become threads of one trace. What each format
cannot show, the form of text traces, and the one-liners that make one of what Pin, Valgrind's
lackey and gem5 print are in docs/formats/memtrace.md.")]
pub struct Convert {
    /// Trace to write; it takes its name when it is whole.
    #[arg(short, long, value_name = "TRACE")]
    pub output: PathBuf,
    /// Files of one tool, folders of DynamoRIO, or texts.
    #[arg(required = true, value_name = "FILE|FOLDER")]
    pub inputs: Vec<PathBuf>,
    /// Print what was written as JSON (docs/formats/memtrace.md).
    #[arg(long)]
    pub json: bool,
}

/// `steady coherence machine`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  steady coherence machine server > mine.toml
  steady coherence machine mine.toml      # is it possible, and what does it come to?

The keys are in docs/formats/machine.md.")]
pub struct Machine {
    /// The machine.
    #[arg(value_name = "PRESET|FILE", default_value = "paper", help = machines())]
    pub machine: PathBuf,
    /// Print it as JSON instead of TOML, in the same keys.
    #[arg(long)]
    pub json: bool,
}

/// `steady coherence check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  steady coherence check bzip.smt
  steady coherence check host.sht                 # of capture --host: walks each access again
  steady coherence check *.smt --json | jq '.traces[].digest'

The exit code is 5 if an access of a host does not agree with the host's recorded tables, or none
could be walked.")]
pub struct Check {
    /// Traces of programs or of hosts.
    #[arg(required = true, value_name = "TRACE")]
    pub traces: Vec<PathBuf>,
    /// Print what they hold as JSON (docs/formats/memtrace.md).
    #[arg(long)]
    pub json: bool,
}
