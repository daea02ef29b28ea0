// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line: every command and flag with its help.

pub mod coherence;
pub mod diagnose;
pub mod evidence;
pub mod host;
pub mod record;
pub mod shoot4u;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use steady_lab::engine::Processor;
use steady_lab_artifacts::kernel::{Build as BuildOf, Choice, Flavor, Series};
use steady_race::Entry;

use crate::engines::{ENGINES, EngineName};

const AFTER_HELP: &str = "\
Exit codes:
  0    done
  1    a file could not be read or written
  2    the command line, a scenario or a machine asks for what cannot be, or a trace or a result
       is damaged, of another kind or mostly not of its format
  3    this machine lacks something (steady doctor says what, and how to fix it)
  4    a build failed; the error names its log
  5    a run failed, and the error names its logs; or a test or check found a fault
  130  interrupted

Environment:
  STEADY_CACHE   where kernels and emulators are kept (default ~/.cache/steady)
  STEADY_HOME    the project's tree (default: found from the current folder upwards, else from this
                 program's own, where it may be share/steady, else the tree it was built in, else
                 /usr/share/steady)
  STEADY_BOCHS   `packaged` takes the distribution's Bochs instead of the compiled one, `tagged` one
                 that keeps the entries of its TLB over VM exits, by VPID and EPT, or ASID;
                 `events` one that writes accesses, tables and invalidations (STEADY_EVENTS)
  STEADY_QEMU    `packaged` takes the distribution's QEMU even if the patched one is built,
                 `patched` the patched one, which is built if it is not there
  LINUX_SOURCE   a Linux 6.12 tree or tarball instead of the distribution's
  NO_COLOR       no colour, whatever the terminal";

/// Keeps the guests of an overcommitted KVM host steady.
#[derive(Debug, Parser)]
#[command(name = "steady", version = env!("STEADY_VERSION"), after_long_help = AFTER_HELP)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Race a scenario's variants on real nested KVM in an emulated host.
    Run(Run),
    /// Build what races and captures need: the kernel, the emulators, the images' programs.
    Build(Build),
    /// Run KVM selftests on an emulated host, on the stock kernel and on the patched one.
    Selftest(Selftest),
    /// Boot an emulated host with a shell, or run a program of yours in it.
    Host(host::Host),
    /// Check traces of the remedy Shoot4U.
    #[command(subcommand)]
    Shoot4u(shoot4u::Shoot4u),
    /// Say which commands would work here, what is missing, and the one command that fixes it.
    Doctor(Doctor),
    /// List, verify or remove what is built and kept in the cache.
    #[command(subcommand)]
    Cache(Cache),
    /// Show results that were written before.
    Report(Report),
    /// Join the results of a race that was made in pieces.
    Join(Join),
    /// Say from traces of KVM hosts what makes guests stall, and what would help.
    Diagnose(diagnose::Diagnose),
    /// Record this host, or this guest, into one file that can be diagnosed; or whenever a vCPU
    /// waits.
    Record(record::Record),
    /// Part the busy vCPUs of each VM from each other, on this host; without --apply a dry run.
    Place(steady_steer::place::Arguments),
    /// Run this guest's programs on as many vCPUs as have time; without --apply a dry run.
    Fold(steady_steer::fold::Arguments),
    /// Simulate TLB coherence in hardware and software, on generated or captured accesses.
    #[command(subcommand, after_help = coherence::EXAMPLES)]
    Coherence(coherence::Coherence),
    /// Set every item of a paper beside what is recorded here, and beside what is measured now.
    Reproduce(evidence::Reproduce),
    /// Race, record and check what is claimed, and write the pages from it.
    #[command(subcommand, after_help = evidence::EXAMPLES)]
    Evidence(evidence::Evidence),
    /// Print a completion script.
    Completions {
        /// For which shell.
        shell: clap_complete::Shell,
    },
    /// Write the manual pages.
    Man {
        /// Into which folder.
        directory: PathBuf,
    },
}

/// `steady run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  steady run scenarios/two-vms.toml
  steady run scenarios/two-vms.toml --engine bochs --variant kvm-pv
  steady run scenarios/two-vms.toml --engine bochs --trace
  steady run scenarios/two-vms.toml --engine bochs --until 5% --budget 20m
  steady run scenarios/solo.toml --kernel debug
  steady run --check scenarios/*.toml
  steady run --check --engine bochs scenarios/solo.toml
  steady run --check --print old.toml > new.toml
  steady run scenarios/solo.toml --json | jq .measures_digest")]
pub struct Run {
    /// Scenario files.
    #[arg(required = true, value_name = "SCENARIO")]
    pub scenarios: Vec<PathBuf>,
    /// Engine to run on; may be given more than once [default: qemu]. With --check the scenario is
    /// checked for the engines that are given.
    #[arg(long, value_parser = EngineName)]
    pub engine: Vec<&'static Entry>,
    /// Only this variant; may be given more than once.
    #[arg(long, value_name = "NAME")]
    pub variant: Vec<String>,
    /// Run each variant N times, each time with a seed of its own, in place of what the scenario
    /// says; from 6 on a difference can be distinguished from chance.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repetitions: Option<u32>,
    /// Seed of the first repetition, in place of what the scenario says; the others' are the next
    /// ones, so that a long race can be made in pieces.
    #[arg(long, value_name = "SEED")]
    pub seed: Option<u64>,
    /// Go on until the 95 % intervals of the measures that answer are within this share of their
    /// ratios, such as `5%`, with at most 100 repetitions.
    #[arg(long, value_name = "SHARE", value_parser = share_ppm)]
    pub until: Option<u64>,
    /// A measure whose interval `--until` waits for, in place of those that answer; may be given
    /// more than once.
    #[arg(long, value_name = "NAME", requires = "until")]
    pub measure: Vec<String>,
    /// Begin no further repetition for `--until` this long after the first run began, such as `90s`
    /// or `10m`.
    #[arg(long, value_name = "TIME", requires = "until", value_parser = humantime::parse_duration)]
    pub budget: Option<Duration>,
    /// The kernel of hosts and guests, of the variants that name none: `lab`, `debug` (checks of
    /// locks, RCU and memory), `rt` (PREEMPT_RT), another configuration of `linux/config`; `7.3`,
    /// which fetches that source and builds it with the remedies; `6.1`, likewise, with what a talk
    /// did on CFS and no remedy; `6.12-proposal`, which is the lab's with what a list proposed for
    /// directed yields; `6.12-ranges`, which is the lab's with ranges in PV TLB flush; `debian-12`,
    /// `debian-13`, or these with `-backports`, which fetches the package that the release
    /// installs; or, with a `/` in it, a `.deb` of a kernel, or the folder of its packages, of
    /// their files, or of the objects of one that you built. Exit code 5 if such a kernel, or one
    /// that a variant names, complains of itself
    #[arg(long, value_name = "KERNEL")]
    pub kernel: Option<String>,
    /// Folder of the programs that a scenario names by a path, such as `./mine`, and of their
    /// files, in place of the scenario's own; the result has their digests.
    #[arg(long, value_name = "FOLDER")]
    pub programs: Option<PathBuf>,
    /// Only read and check the scenarios.
    #[arg(long)]
    pub check: bool,
    /// Print the checked scenarios, every default written out, in the present schema.
    #[arg(long, requires = "check")]
    pub print: bool,
    /// Keep a trace.dat of each run, recorded by trace-cmd in the emulated host.
    #[arg(long)]
    pub trace: bool,
    /// Folder for results.
    #[arg(short, long, value_name = "FOLDER", default_value = "out")]
    pub out: PathBuf,
    /// Bound on each run by the wall clock, in seconds.
    #[arg(long, value_name = "SECONDS")]
    pub wall_limit: Option<u64>,
    /// Print the results as JSON instead of tables.
    #[arg(long)]
    pub json: bool,
    /// Show every measure, and each step of each run.
    #[arg(short, long)]
    pub verbose: bool,
}

impl Run {
    /// The engines to run on.
    pub fn engines(&self) -> Vec<&'static Entry> {
        match &self.engine[..] {
            [] => vec![&ENGINES.0[0]],
            named => named.to_vec(),
        }
    }
}

/// `steady build`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  steady build kernel bochs")]
pub struct Build {
    /// What to build; all that races and captures need if nothing is named.
    #[arg(value_enum)]
    pub what: Vec<Artifact>,
    /// In which configuration of `linux/config` to build the kernel; may be given more than once.
    #[arg(long, value_name = "CONFIG", value_parser = flavor)]
    pub kernel: Vec<Flavor>,
}

/// Parts per million of a share such as `5%` or `2.5%`.
fn share_ppm(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a share; expected a percentage such as 5% or 2.5%");
    let percent = text.strip_suffix('%').ok_or_else(wrong)?;
    let (whole, part) = percent.split_once('.').unwrap_or((percent, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) || whole.len() > 3 || part.len() > 4 {
        return Err(wrong());
    }
    let part: u64 = format!("{part:0<4}").parse().map_err(|_| wrong())?;
    let ppm = whole.parse::<u64>().map_err(|_| wrong())? * 10_000 + part;
    if (1_000..=1_000_000).contains(&ppm) {
        Ok(ppm)
    } else {
        Err(format!("{text} is out of range; expected 0.1% to 100%"))
    }
}

fn flavor(text: &str) -> Result<Flavor, String> {
    match text.parse::<Choice>()? {
        Choice::Built(flavor) => Ok(flavor),
        _ => Err(format!("expected one of {}", Flavor::names())),
    }
}

/// What can be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Artifact {
    /// The kernel of host and guests.
    Kernel,
    /// Bochs 3.0 from Debian 13's source package.
    Bochs,
    /// The QEMU of hosts: this Debian's source package, with the fixes of `lab/qemu`.
    Qemu,
    /// The inits, the VMM and the C workloads.
    Programs,
    /// The qemu-x86_64 with plugins that captures need, where the packaged one has none.
    QemuUser,
    /// The KVM selftests, and the stock kernel that they are compared on; only if named.
    Selftests,
}

/// A kernel, as `--kernel` takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KernelName {
    /// The distribution's sources as they are.
    Stock,
    /// With this project's files and hooks.
    Patched,
    /// The patched one with lock, RCU and memory checks.
    Debug,
    /// The patched one with PREEMPT_RT.
    Rt,
    /// The stock one with the checks of `debug`, to compare with it.
    StockDebug,
    /// The stock one with PREEMPT_RT.
    StockRt,
}

impl KernelName {
    /// Which kernel that is.
    pub fn build(self) -> BuildOf {
        let (series, flavor) = match self {
            Self::Stock => (Series::Stock, Flavor::Lab),
            Self::Patched => (Series::Patched, Flavor::Lab),
            Self::Debug => (Series::Patched, Flavor::Debug),
            Self::Rt => (Series::Patched, Flavor::Rt),
            Self::StockDebug => (Series::Stock, Flavor::Debug),
            Self::StockRt => (Series::Stock, Flavor::Rt),
        };
        BuildOf { series, flavor }
    }
}

/// A processor, as `--cpu` takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Cpu {
    /// AMD's, with SVM and NRIPS.
    Amd,
    /// Intel's that delivers a guest's interrupts itself.
    Apicv,
}

impl Cpu {
    /// Which processor that is.
    pub fn processor(self) -> Processor {
        match self {
            Self::Amd => Processor::Amd,
            Self::Apicv => Processor::Apicv,
        }
    }
}

/// Another suite for `steady selftest`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Suite {
    /// The suite of KVM's own project: the first NAME is your checkout of it.
    KvmUnitTests,
}

/// `steady selftest`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit code 5 means that a test of the kernel says another thing on the patched kernel than on the
stock one of the same configuration, or fails where that was not run; that a test of this project
does not pass on the patched one; that a kernel complained of itself; that a host was lost; or that
a test is not the same in each repetition. Ctrl-C leaves a report of what had ended, with code 130.

With --suite kvm-unit-tests the programs of that suite, built from your checkout by its own
Makefile, run in the distribution's QEMU inside the emulated host: on the stock kernel, and on the
patched one with everything off and with each remedy on. What differs is run again before it is a
fault.

Examples:
  steady selftest --engine qemu --engine bochs
  steady selftest --engine bochs --repetitions 10
  steady selftest --kernel stock-debug --kernel debug
  steady selftest --kernel patched kvm_pv_test steal_time
  steady selftest --kernel patched xapic_ipi_test -- -s 10
  steady selftest --engine bochs --cpu amd --kernel patched kvm_pv_test
  steady selftest --suite kvm-unit-tests ~/src/kvm-unit-tests --engine bochs
  steady selftest --suite kvm-unit-tests ~/src/kvm-unit-tests smptest apic pcid-enabled")]
pub struct Selftest {
    /// Another suite than KVM's selftests.
    #[arg(long, value_enum, value_name = "SUITE", requires = "names")]
    pub suite: Option<Suite>,
    /// With --suite: every mode of each remedy, and not its default alone.
    #[arg(long, requires = "suite")]
    pub all_modes: bool,
    /// Only these tests, by their names in linux/selftests/tests and linux/*/selftests/tests; with
    /// --suite its folder first.
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Arguments of each of these tests.
    #[arg(
        last = true,
        value_name = "ARGUMENT",
        conflicts_with = "suite",
        requires = "names"
    )]
    pub test_arguments: Vec<String>,
    /// Engine to run on; may be given more than once.
    #[arg(long, value_parser = EngineName, default_value = ENGINES.0[0].name)]
    pub engine: Vec<&'static Entry>,
    /// Another processor of the engine: `amd` (SVM with NRIPS) or `apicv` (it delivers a guest's
    /// interrupts itself); both in Bochs.
    #[arg(long, value_enum, value_name = "CPU", conflicts_with = "suite")]
    pub cpu: Option<Cpu>,
    /// A word more for the hosts' kernel command line; may be given more than once.
    #[arg(long, value_name = "WORD", conflicts_with = "suite")]
    pub append: Vec<String>,
    /// Kernel to run on; may be given more than once. With --suite `debug` or `rt` stands for the
    /// patched kernel, and the stock one of that configuration runs besides.
    #[arg(long, value_enum, default_values = ["stock", "patched"])]
    pub kernel: Vec<KernelName>,
    /// Run the suite N times on each kernel, each time in a boot of its own, with another seed.
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "suite")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repetitions: u32,
    /// Seed of the first repetition, the others' are the next ones: it draws how long the host
    /// waits before each test, up to 20 ms.
    #[arg(
        long,
        value_name = "SEED",
        default_value_t = 1,
        conflicts_with = "suite"
    )]
    pub seed: u64,
    /// Folder for the logs, in `selftest/` below it.
    #[arg(short, long, value_name = "FOLDER", default_value = "out")]
    pub out: PathBuf,
    /// Bound on each kernel's run by the wall clock, in seconds; tests of a suite have their own.
    #[arg(long, value_name = "SECONDS", conflicts_with = "suite")]
    pub wall_limit: Option<u64>,
    /// Print the reports as JSON instead of tables.
    #[arg(long)]
    pub json: bool,
}

/// `steady doctor`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  steady doctor
  steady doctor run
  steady doctor 'run --engine bochs' 'coherence capture'
Exit code 3 means that a command would not work here. One that belongs on another kind of machine
counts only if it is named.")]
pub struct Doctor {
    /// Only these commands, by their first words.
    #[arg(value_name = "COMMAND")]
    pub commands: Vec<String>,
    /// Print what was found as JSON.
    #[arg(long)]
    pub json: bool,
}

/// `steady cache`.
#[derive(Debug, Subcommand)]
pub enum Cache {
    /// List what is there: its size, and whether this tree would use it.
    List,
    /// Compare what is there with its checksums; exit code 5 if something is not as it was built.
    Verify {
        /// Only these entries; all if none is named.
        #[arg(value_name = "ENTRY")]
        entries: Vec<String>,
    },
    /// Remove what this tree would not use, and what failed builds left. What a process uses stays.
    Prune {
        /// Only these entries, whether this tree would use them or not.
        #[arg(value_name = "ENTRY")]
        entries: Vec<String>,
        /// Remove everything.
        #[arg(long, conflicts_with = "entries")]
        all: bool,
        /// Only say what would be removed.
        #[arg(long)]
        dry_run: bool,
    },
}

/// `steady report`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  steady report out/two-vms/*/result.json\n  \
                  steady report result.json --variant kvm-pv --variant ipi\n  \
                  steady report out/two-vms/bochs/result.json --html page.html\n  \
                  steady report before/result.json after/result.json\n  \
                  steady report result.json --csv | head\n\n\
                  Two results are also set against each other, variant by variant: what differs\n\
                  between them is listed, and runs with the same seed are compared."
)]
pub struct Report {
    /// Results.
    #[arg(required = true, value_name = "RESULT")]
    pub results: Vec<PathBuf>,
    /// Only this variant; may be given more than once, and ratios are to the first one given.
    #[arg(long = "variant", value_name = "NAME")]
    pub variants: Vec<String>,
    /// Write a self-contained page instead of a table.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["csv", "markdown"])]
    pub html: Option<PathBuf>,
    /// Print every measure of every run as comma-separated values, a line each.
    #[arg(long, conflicts_with = "markdown")]
    pub csv: bool,
    /// Print tables in Markdown.
    #[arg(long)]
    pub markdown: bool,
    /// Show every measure.
    #[arg(short, long)]
    pub verbose: bool,
}

/// `steady join`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  steady run scenarios/solo.toml --repetitions 4 -o first\n  \
                  steady run scenarios/solo.toml --repetitions 4 --seed 5 -o second\n  \
                  steady join {first,second}/solo/qemu/result.json -o joined.json\n  \
                  steady report joined.json"
)]
pub struct Join {
    /// Results of one scenario, raced on the same with seeds of their own; also of one that was
    /// interrupted. Logs and traces stay beside them.
    #[arg(required = true, value_name = "RESULT")]
    pub results: Vec<PathBuf>,
    /// Where to write the result of all their runs.
    #[arg(short, long, value_name = "FILE")]
    pub out: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_read_to_the_ten_thousandth_of_a_percent() {
        assert_eq!(share_ppm("5%"), Ok(50_000));
        assert_eq!(share_ppm("2.5%"), Ok(25_000));
        assert_eq!(share_ppm("0.1%"), Ok(1_000));
    }

    #[test]
    fn what_is_no_share_is_refused() {
        for text in ["5", "%", "-5%", "5.%", "0%", "101%", "5 %", "1e2%"] {
            assert!(share_ppm(text).is_err(), "{text}");
        }
    }
}
