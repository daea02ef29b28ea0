// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs KVM selftests on an emulated host, on the stock kernel and on the patched one.
//!
//! The tests are programs of the host itself: they make VMs of their own. All of a kernel run one
//! after another in one boot. A test passes with exit code 0, and says with exit code 4 that
//! what it needs is not there (tools/testing/selftests/kselftest.h, Linux 6.12). Whatever its exit
//! code, it has failed if the kernel became tainted meanwhile, as by a `WARN`. Left out: a kernel
//! that panics under a test ends the whole run with an error that names the test.

pub mod unit_tests;
mod verdict;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;
use steady_agent::event::Event;
use steady_agent::plan::{Collect, HostPlan, PLAN_PATH, Vmm, WorkloadPlan};
use steady_guest_programs::OWN_DIRECTORY;
use steady_race::{ThisMachine, check_room, replace};

use crate::artifact::kernel::{self, Build, Kernel};
use crate::artifact::programs;
use crate::artifact::selftests::{self, Selftest};
use crate::engine::watch::{self, Bounds};
use crate::engine::{Boot, Engine, EngineKind};
use crate::error::{LabError, RunFault};
use crate::home::Home;
use crate::image::tree;
use crate::process::interrupted;
use crate::translate;
use crate::watcher::Watcher;

pub use verdict::{Outcome, TestResult};

/// Version of the report's JSON.
const SCHEMA_VERSION: u32 = 1;
/// pCPUs of the host: enough to migrate a vCPU and to run two beside each other.
const PCPUS: u32 = 2;
/// Memory of the host, in MiB: the image twice while it is unpacked, and the largest test.
const MEMORY_MIB: u32 = 768;
/// Wall seconds per second of the tests' limits, beyond a fixed part: emulation is slow.
const WALL_PER_LIMIT: u32 = 2;
const WALL_FIXED: Duration = Duration::from_secs(120);

/// What is run, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// The engine.
    pub engine: EngineKind,
    /// The kernels.
    pub kernels: Vec<Build>,
    /// Names of the tests; all if empty.
    pub names: Vec<String>,
    /// Folder for the logs, `selftest/<engine>-<kernel>` below it.
    pub out: PathBuf,
    /// Bound on the run of one kernel by the wall clock; `None`: by the tests' limits.
    pub wall_limit: Option<Duration>,
}

/// What one engine's runs brought.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Always `steady.selftest`.
    pub schema: &'static str,
    /// Version of the schema.
    pub version: u32,
    /// Name of the engine.
    pub engine: &'static str,
    /// Its version.
    pub engine_version: String,
    /// One for each kernel.
    pub kernels: Vec<KernelRun>,
    /// What should not be, in one sentence each; empty if all is well.
    pub faults: Vec<String>,
}

/// What the tests did on one kernel.
#[derive(Debug, Serialize)]
pub struct KernelRun {
    /// `stock`, `patched`, and after a hyphen a configuration that is not the lab's.
    pub kernel: &'static str,
    /// Its release.
    pub release: String,
    /// Folder of the run's logs.
    pub logs: PathBuf,
    /// One for each test, in the order of the list.
    pub tests: Vec<TestResult>,
}

/// Builds what is missing and runs the tests.
///
/// # Errors
/// [`LabError::Selftest`] for an unknown name, [`LabError::Run`] if a run did not come to its end,
/// and what the builds can fail with.
pub fn run(home: &Home, options: &Options, watcher: &dyn Watcher) -> Result<Report, LabError> {
    let tests = chosen(selftests::list(home)?, &options.names)?;
    let out = std::path::absolute(&options.out)
        .map_err(|error| LabError::io("find", &options.out, error))?
        .join("selftest");
    fs::create_dir_all(&out).map_err(|error| LabError::io("make", &out, error))?;
    check_room(&ThisMachine, &out)?;
    let mut engine = options.engine.find(home, watcher)?;
    let folder = selftests::ensure(home, watcher)?;
    let ours = programs::ensure(home, watcher)?;
    engine.calibrate(&ours.agent)?;
    let names: Vec<&str> = tests.iter().map(|test| test.name.as_str()).collect();
    let mut archive = tree::host_alone(&ours, &folder, &names)?;
    let json = serde_json::to_vec(&plan(&tests)).expect("a plan is plain data");
    archive.extend(tree::single(PLAN_PATH.trim_start_matches('/'), &json));
    let mut kernels = Vec::new();
    for &build in &options.kernels {
        kernels.push((build, kernel::ensure(home, build, watcher)?));
    }
    let host = Host {
        engine: &engine,
        archive: &archive,
        tests: &tests,
        limit: options.wall_limit.unwrap_or_else(|| wall_limit(&tests)),
        out: &out,
        watcher,
        ended: AtomicU64::new(0),
        total: (tests.len() * kernels.len()) as u64,
    };
    let kernels = host.run_all(&kernels)?;
    watcher.done(&host.what());
    Ok(Report {
        schema: "steady.selftest",
        version: SCHEMA_VERSION,
        engine: options.engine.name(),
        engine_version: engine.version(),
        faults: verdict::faults(&kernels),
        kernels,
    })
}

fn chosen(all: Vec<Selftest>, names: &[String]) -> Result<Vec<Selftest>, LabError> {
    if let Some(unknown) = names
        .iter()
        .find(|name| all.iter().all(|test| &test.name != *name))
    {
        let known: Vec<&str> = all.iter().map(|test| test.name.as_str()).collect();
        return Err(LabError::Selftest(format!(
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

fn plan(tests: &[Selftest]) -> HostPlan {
    let program = |test: &Selftest| WorkloadPlan {
        program: test.name.clone(),
        begin_delay_us: 0,
        setup: Vec::new(),
        argv: vec![format!("{OWN_DIRECTORY}/{}", test.name)],
        env: BTreeMap::new(),
        time_limit_ms: u64::from(test.limit_s) * 1000,
    };
    HostPlan {
        beside: Vec::new(),
        vmm: Vmm::Steady,
        vms: Vec::new(),
        programs: tests.iter().map(program).collect(),
        collect: Collect {
            exits: false,
            guest_time: false,
            kvm_stats: false,
            cpu_time: false,
        },
        trace: None,
        // Each test has a limit of its own; nothing else is waited for.
        time_limit_ms: 0,
    }
}

/// What the runs of one engine share.
struct Host<'a> {
    engine: &'a Engine,
    archive: &'a [u8],
    tests: &'a [Selftest],
    limit: Duration,
    out: &'a Path,
    watcher: &'a dyn Watcher,
    ended: AtomicU64,
    total: u64,
}

impl Host<'_> {
    fn what(&self) -> String {
        format!("selftests on {}", self.engine.kind().name())
    }

    /// One after another where the clock is the wall, beside each other where it is not.
    fn run_all(&self, kernels: &[(Build, Kernel)]) -> Result<Vec<KernelRun>, LabError> {
        if self.engine.kind().wall_clock() {
            return kernels.iter().map(|kernel| self.run_one(kernel)).collect();
        }
        std::thread::scope(|scope| {
            let runs: Vec<_> = kernels
                .iter()
                .map(|kernel| scope.spawn(|| self.run_one(kernel)))
                .collect();
            runs.into_iter()
                .map(|run| run.join().expect("a run returns its errors"))
                .collect()
        })
    }

    fn run_one(&self, (build, kernel): &(Build, Kernel)) -> Result<KernelRun, LabError> {
        let name = format!("{}-{}", self.engine.kind().name(), build.name());
        let work = self.out.join(format!(".{name}-{}", std::process::id()));
        fs::create_dir_all(&work).map_err(|error| LabError::io("make", &work, error))?;
        match self.emulate(kernel, &work) {
            Ok(tests) => {
                let place = self.out.join(&name);
                replace(&work, &place)?;
                Ok(KernelRun {
                    kernel: build.name(),
                    release: kernel.release.clone(),
                    logs: place,
                    tests,
                })
            }
            Err(watch::Failed::Run(fault)) => {
                let failed = self.out.join(format!("{name}.failed"));
                replace(&work, &failed)?;
                Err(LabError::Run {
                    variant: format!("selftests, {} kernel", build.name()),
                    fault: Box::new(fault),
                    logs: failed,
                })
            }
            Err(watch::Failed::Lab(error)) => {
                let _ = fs::remove_dir_all(&work);
                Err(error)
            }
        }
    }

    fn emulate(&self, kernel: &Kernel, work: &Path) -> Result<Vec<TestResult>, watch::Failed> {
        let boot = Boot {
            kernel: &kernel.image,
            archives: &[self.archive],
            cmdline: &translate::base_cmdline(self.engine),
            pcpus: PCPUS,
            apicv: false,
            memory_mib: MEMORY_MIB,
            directory: work,
            terminal: None,
        };
        let start = self.engine.prepare(&boot)?;
        let step = |text: &str| {
            if text.ends_with(" ended") {
                let ended = self.ended.fetch_add(1, Ordering::Relaxed) + 1;
                self.watcher.progress(&self.what(), ended, self.total);
            }
        };
        let bounds = Bounds {
            limit: self.limit,
            silence: self.engine.kind().silence(),
            stop: &interrupted,
        };
        let ended = watch::run(&start, work, bounds, &step);
        for path in &start.scratch {
            let _ = fs::remove_file(path);
        }
        let transcript = ended?;
        if interrupted() {
            return Err(LabError::Interrupted.into());
        }
        let mut results = Vec::new();
        for (_, event) in &transcript.events {
            let Event::ProgramEnd(end) = event else {
                continue;
            };
            let Some(test) = self.tests.iter().find(|test| test.name == end.program) else {
                let text = format!("the host ran `{}`, which it was not told to", end.program);
                return Err(RunFault::Stream(text, String::new()).into());
            };
            let log = work.join(format!("{}.log", test.name));
            let text = format!("{}{}", end.output.stdout, end.output.stderr);
            fs::write(&log, text).map_err(|error| LabError::io("write", &log, error))?;
            results.push(verdict::judge(test, end));
        }
        if results.len() != self.tests.len() {
            let text = format!(
                "{} of {} tests were reported",
                results.len(),
                self.tests.len()
            );
            return Err(RunFault::Stream(text, String::new()).into());
        }
        Ok(results)
    }
}
