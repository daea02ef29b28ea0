// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs KVM selftests on an emulated host, on the stock kernel and on the patched one.
//!
//! The tests are programs of the host itself: they make VMs of their own. All of a kernel run one
//! after another in one boot. A test passes with exit code 0, and says with exit code 4 that
//! what it needs is not there (tools/testing/selftests/kselftest.h, Linux 6.12). Whatever its exit
//! code, it has failed if the kernel became tainted meanwhile, as by a `WARN`, or complained.
//!
//! The suite can be repeated, each time in a boot and with a seed of its own, which draws how long
//! the host waits before each test ([`Chance::test_delay_us`]). A host that is lost, as by a panic,
//! is a fault that names the test; what had ended before it counts.

mod error;
mod hosts;
mod report;
pub mod unit_tests;
mod verdict;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use steady_agent::plan::{Collect, HostPlan, Scheduler, Vmm, WorkloadPlan};
use steady_guest_programs::OWN_DIRECTORY;
use steady_lab::LabError;
use steady_lab::chance::Chance;
use steady_lab::engine::{EngineKind, Processor};
use steady_lab_artifacts::image::tree;
use steady_lab_artifacts::kernel::{self, Build, Flavor, Kernel, Series};
use steady_lab_artifacts::need::{self, Need, artifacts};
use steady_lab_artifacts::process::interrupted;
use steady_lab_artifacts::selftests::{self, Selftest};
use steady_lab_artifacts::{ArtifactError, Home, programs};
use steady_race::{ThisMachine, Watcher, check_room, seed_of};

use hosts::{Hosts, Job};

pub use error::SelftestError;
pub use report::{KernelRun, Report, Row, Verdicts};
pub use verdict::{Outcome, TestResult};

/// Wall seconds per second of the tests' limits, beyond a fixed part: emulation is slow.
const WALL_PER_LIMIT: u32 = 2;
const WALL_FIXED: Duration = Duration::from_secs(120);

/// What is run, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// The engine.
    pub engine: EngineKind,
    /// Its processor.
    pub processor: Processor,
    /// The kernels.
    pub kernels: Vec<Build>,
    /// Names of the tests; all if empty.
    pub names: Vec<String>,
    /// Arguments of each test.
    pub arguments: Vec<String>,
    /// Words more for the hosts' command line.
    pub append: Vec<String>,
    /// How often the suite runs on each kernel, at least 1.
    pub repetitions: u32,
    /// Seed of the first repetition; that of the others is this and their number.
    pub seed: u64,
    /// Folder for the logs, `selftest/<engine>-<kernel>` below it.
    pub out: PathBuf,
    /// Bound on the run of one kernel by the wall clock; `None`: by the tests' limits.
    pub wall_limit: Option<Duration>,
}

/// What selftests on these kernels need of this machine.
#[must_use]
pub fn needs(home: &Home, engine: EngineKind, kernels: &[Build]) -> Vec<Need> {
    let mut needs = engine.needs(home);
    needs.extend(artifacts::selftests(home));
    needs.extend(artifacts::own_programs(home));
    needs.extend(
        kernels
            .iter()
            .flat_map(|&build| artifacts::kernel(home, build)),
    );
    needs
}

/// Builds what is missing and runs the tests. After Ctrl-C the report has what there was.
///
/// # Errors
/// [`SelftestError::Asked`] for an unknown name, for kernels that cannot be compared and for a
/// processor that the engine does not have,
/// [`LabError::Interrupted`] if nothing had ended, and what the builds can fail with.
pub fn run(home: &Home, options: &Options, watcher: &dyn Watcher) -> Result<Report, SelftestError> {
    assert!(options.repetitions > 0, "a report is of something");
    check_kernels(&options.kernels)?;
    check_processor(options.engine, options.processor)?;
    let tests = chosen(selftests::list(home)?, &options.names)?;
    need::require(needs(home, options.engine, &options.kernels)).map_err(LabError::from)?;
    let out = std::path::absolute(&options.out)
        .map_err(|error| LabError::io("find", &options.out, error))?
        .join("selftest");
    fs::create_dir_all(&out).map_err(|error| LabError::io("make", &out, error))?;
    check_room(&ThisMachine, &out).map_err(ArtifactError::from)?;
    let mut engine = options.engine.find(home, watcher)?;
    let folder = selftests::ensure(home, watcher)?;
    let ours = programs::ensure(home, watcher)?;
    engine.calibrate(&ours.agent)?;
    let names: Vec<&str> = tests.iter().map(|test| test.name.as_str()).collect();
    let archive = tree::host_alone(&ours, &folder, &names)?;
    let mut kernels = Vec::new();
    for &build in &options.kernels {
        kernels.push((build, kernel::ensure(home, build, watcher)?));
    }
    let jobs = jobs(&kernels, options);
    let hosts = Hosts {
        engine: &engine,
        processor: options.processor,
        archive: &archive,
        tests: &tests,
        arguments: &options.arguments,
        append: &options.append,
        repetitions: options.repetitions,
        limit: options.wall_limit.unwrap_or_else(|| wall_limit(&tests)),
        wall: options.wall_limit.is_some(),
        out: &out,
        watcher,
        ended: AtomicU64::new(0),
        total: (tests.len() * jobs.len()) as u64,
    };
    let runs = hosts.run_all(&jobs)?;
    watcher.done(&hosts.what());
    if interrupted() && runs.iter().all(|run| run.tests.is_empty()) {
        return Err(LabError::Interrupted.into());
    }
    let partial = interrupted().then(|| {
        let (begun, all) = (runs.len(), jobs.len());
        format!("interrupted: {begun} of {all} runs had begun, and what had ended of them counts")
    });
    let processor = options.processor.name();
    let version = match processor {
        Some(name) => format!("{}, {name}", engine.version()),
        None => engine.version(),
    };
    let known = (options.engine.name(), version);
    let names: Vec<(String, bool)> = tests
        .iter()
        .map(|test| (test.name.clone(), test.own))
        .collect();
    Ok(Report::new(
        known,
        options.repetitions,
        &names,
        runs,
        partial,
    ))
}

/// One boot for each kernel and repetition, the kernels of a repetition behind each other: what
/// Ctrl-C leaves can then be compared.
fn jobs<'a>(kernels: &'a [(Build, Kernel)], options: &Options) -> Vec<Job<'a>> {
    let of = |repetition: u32| {
        kernels.iter().map(move |(build, kernel)| Job {
            build: *build,
            kernel,
            repetition,
            seed: seed_of(options.seed, repetition),
        })
    };
    (0..options.repetitions).flat_map(of).collect()
}

/// Refuses kernels that look like a comparison and are not one: other configurations say
/// other things.
fn check_kernels(kernels: &[Build]) -> Result<(), SelftestError> {
    let alone = |series| -> BTreeSet<Flavor> {
        let of = |wanted| kernels.iter().filter(move |build| build.series == wanted);
        let other = match series {
            Series::Stock => Series::Patched,
            Series::Patched => Series::Stock,
        };
        let beside: BTreeSet<Flavor> = of(other).map(|build| build.flavor).collect();
        let flavors = of(series).map(|build| build.flavor);
        flavors.filter(|flavor| !beside.contains(flavor)).collect()
    };
    let (stock, patched) = (alone(Series::Stock), alone(Series::Patched));
    let (Some(&stock), Some(&patched)) = (stock.first(), patched.first()) else {
        return Ok(());
    };
    let name = |series, flavor| Build { series, flavor }.name();
    Err(SelftestError::Asked(format!(
        "the kernel {} cannot be compared with {}, which has another configuration; take {} beside \
         it, or leave the stock kernel out",
        name(Series::Patched, patched),
        name(Series::Stock, stock),
        name(Series::Stock, patched),
    )))
}

fn check_processor(engine: EngineKind, processor: Processor) -> Result<(), SelftestError> {
    match processor.name() {
        Some(name) if !engine.has(processor) => Err(SelftestError::Asked(format!(
            "the engine {} has no processor `{name}`; use --engine bochs, or leave --cpu out",
            engine.name()
        ))),
        _ => Ok(()),
    }
}

fn chosen(all: Vec<Selftest>, names: &[String]) -> Result<Vec<Selftest>, SelftestError> {
    if let Some(unknown) = names
        .iter()
        .find(|name| all.iter().all(|test| &test.name != *name))
    {
        let known: Vec<&str> = all.iter().map(|test| test.name.as_str()).collect();
        return Err(SelftestError::Asked(format!(
            "there is no test `{unknown}`; known: {}",
            known.join(", ")
        )));
    }
    Ok(all
        .into_iter()
        .filter(|test| names.is_empty() || names.contains(&test.name))
        .collect())
}

fn wall_limit(tests: &[Selftest]) -> Duration {
    let limits_s: u32 = tests.iter().map(|test| test.limit_s).sum();
    WALL_FIXED + Duration::from_secs(limits_s.into()) * WALL_PER_LIMIT
}

fn plan(tests: &[Selftest], arguments: &[String], seed: u64) -> HostPlan {
    let chance = Chance::new(seed);
    let argv = |test: &Selftest| {
        let program = format!("{OWN_DIRECTORY}/{}", test.name);
        [program].into_iter().chain(arguments.to_vec()).collect()
    };
    let program = |test: &Selftest| WorkloadPlan {
        program: test.name.clone(),
        begin_delay_us: chance.test_delay_us(&test.name),
        argv: argv(test),
        time_limit_ms: u64::from(test.limit_s) * 1000,
        ..WorkloadPlan::default()
    };
    let plan = HostPlan {
        beside: Vec::new(),
        vmm: Vmm::Steady,
        vms: Vec::new(),
        programs: tests.iter().map(program).collect(),
        bpf: None,
        scheduler: Scheduler::default(),
        collect: Collect {
            exits: false,
            guest_time: false,
            kvm_stats: false,
            cpu_time: false,
        },
        trace: None,
        // Each test has a limit of its own; nothing else is waited for.
        time_limit_ms: 0,
    };
    assert_eq!(plan.check(), Ok(()), "a host can run each selftest");
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use steady_lab::engine::{bochs, qemu};

    fn build(series: Series, flavor: Flavor) -> Build {
        Build { series, flavor }
    }

    #[test]
    fn a_processor_that_an_engine_lacks_is_refused_and_the_engine_that_has_it_named() {
        for processor in [Processor::Apicv, Processor::Amd] {
            assert!(check_processor(bochs::KIND, processor).is_ok());
            let refused = check_processor(qemu::KIND, processor);
            let said = refused.unwrap_err().to_string();
            assert!(said.contains("use --engine bochs"), "{said}");
        }
        assert!(check_processor(qemu::KIND, Processor::Usual).is_ok());
    }

    #[test]
    fn a_stock_kernel_of_another_configuration_is_refused_and_the_right_one_named() {
        let stock = build(Series::Stock, Flavor::Lab);
        let debug = build(Series::Patched, Flavor::Debug);
        let said = check_kernels(&[stock, debug]).unwrap_err().to_string();
        assert!(said.contains("take stock-debug beside it"), "{said}");
        let stock_debug = build(Series::Stock, Flavor::Debug);
        let patched = build(Series::Patched, Flavor::Lab);
        for sound in [
            &[stock_debug, debug][..],
            &[debug],
            &[stock],
            &[stock, patched, debug],
        ] {
            assert!(check_kernels(sound).is_ok(), "{sound:?}");
        }
    }

    #[test]
    fn the_same_seed_waits_the_same_before_each_test_and_another_otherwise() {
        let test = |name: &str| Selftest {
            name: name.to_owned(),
            limit_s: 1,
            own: false,
        };
        let tests = [test("a"), test("b"), test("c")];
        let waits = |seed| -> Vec<u32> {
            let plan = plan(&tests, &[], seed);
            plan.programs.iter().map(|it| it.begin_delay_us).collect()
        };
        assert_eq!(waits(1), waits(1));
        assert_ne!(waits(1), waits(2));
        assert!(waits(1)[0] != waits(1)[1], "each test has its own");
    }

    #[test]
    fn arguments_stand_behind_the_program_of_each_test() {
        let tests = [Selftest {
            name: "a".to_owned(),
            limit_s: 1,
            own: false,
        }];
        let arguments = ["100".to_owned(), "2".to_owned()];
        let argv = plan(&tests, &arguments, 1).programs.remove(0).argv;
        assert_eq!(argv, [&format!("{OWN_DIRECTORY}/a"), "100", "2"]);
    }
}
