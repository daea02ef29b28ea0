// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Races the variants of a scenario on one engine and writes the result.
//!
//! Everything is made in a folder beside its place, `out/<scenario>/.<engine>-<process>`. A whole
//! race takes the place of `out/<scenario>/<engine>`; a failed one is kept, with its logs, as
//! `<engine>.failed`, and an earlier result stays what it was.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use steady_agent::plan::PLAN_PATH;
use steady_measures::{
    EngineInfo, Phase, Repetition, RunResult, ScenarioInfo, Warning, sha256_hex,
};
use steady_scenario::{Scenario, Variant, Word};

use crate::artifact::kernel::{self, Kernel};
use crate::artifact::{bochs, programs};
use crate::describe::{describe, empty, host_facts, machine, millis, paper, phases, qemu_version};
use crate::engine::machine::free_bytes;
use crate::engine::qemu;
use crate::engine::watch::{self, Failed, Transcript};
use crate::engine::{Boot, Engine, EngineKind};
use crate::error::{LabError, RunFault};
use crate::home::Home;
use crate::image::tree;
use crate::measure::assemble::{self, unsound};
use crate::measure::symbol::Symbols;
use crate::process::{find_program, interrupted};
use crate::translate;
use crate::watcher::Watcher;

/// Room that a race needs beside what it brings back, in MiB.
const NEED_MIB: u64 = 256;
/// Wall seconds per second of the scenario's limit, beyond a fixed part: emulation is slow.
const WALL_PER_LIMIT: u32 = 4;
const WALL_FIXED: Duration = Duration::from_secs(90);

/// What is raced, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// The engine.
    pub engine: EngineKind,
    /// Names of the variants; all if empty.
    pub variants: Vec<String>,
    /// Whether each run keeps a `trace.dat`.
    pub trace: bool,
    /// Folder for the results.
    pub out: PathBuf,
    /// Bound on one run by the wall clock; `None`: by the scenario's limit.
    pub wall_limit: Option<Duration>,
    /// Repeats the race, for the report.
    pub command: String,
    /// Start of the race, UTC, for the report.
    pub started: String,
}

/// A finished race.
#[derive(Debug)]
pub struct Race {
    /// The result.
    pub result: RunResult,
    /// Its folder, with `result.json` in it.
    pub directory: PathBuf,
}

/// Builds what is missing and races the variants.
///
/// # Errors
/// [`LabError`], the first one; the others of a race are ended.
pub fn race(
    home: &Home,
    scenario: &Scenario,
    options: &Options,
    watcher: &dyn Watcher,
) -> Result<Race, LabError> {
    let variants = scenario
        .select(&options.variants)
        .map_err(|error| LabError::Beyond {
            scenario: scenario.name.clone(),
            what: error.to_string(),
            limit: "name one that it has with --variant".into(),
        })?;
    translate::check(scenario, options.engine, &variants)?;
    let begun = Instant::now();
    // Emulators run in folders of their own, where a relative path would mean another place.
    let out = std::path::absolute(&options.out)
        .map_err(|error| LabError::io("find", &options.out, error))?;
    let folder = out.join(&scenario.name);
    fs::create_dir_all(&folder).map_err(|error| LabError::io("make", &folder, error))?;
    check_room(&folder)?;
    let lab = Lab::ready(home, scenario, options, watcher)?;
    let work = folder.join(format!(".{}-{}", options.engine.name(), std::process::id()));
    let place = folder.join(options.engine.name());
    let failed = folder.join(format!("{}.failed", options.engine.name()));
    fs::create_dir_all(&work).map_err(|error| LabError::io("make", &work, error))?;
    let made = lab
        .run_all(&variants, &work)
        .and_then(|runs| lab.result(&variants, runs, begun));
    let saved = made.and_then(|result| {
        result
            .save_atomic(&work.join("result.json"))
            .map_err(unsound)
            .map(|()| result)
    });
    match saved {
        Ok(result) => {
            replace(&work, &place)?;
            Ok(Race {
                result,
                directory: place,
            })
        }
        Err(LabError::Run {
            variant,
            fault,
            logs,
        }) => {
            let rest = logs
                .strip_prefix(&work)
                .map(Path::to_path_buf)
                .unwrap_or_default();
            replace(&work, &failed)?;
            Err(LabError::Run {
                variant,
                fault,
                logs: failed.join(rest),
            })
        }
        Err(error) => {
            let _ = fs::remove_dir_all(&work);
            Err(error)
        }
    }
}

pub(crate) fn check_room(folder: &Path) -> Result<(), LabError> {
    let free_mib = free_bytes(folder).unwrap_or(u64::MAX) >> 20;
    if free_mib < NEED_MIB {
        return Err(LabError::NoRoom {
            path: folder.to_owned(),
            free_mib,
            need_mib: NEED_MIB,
        });
    }
    Ok(())
}

/// Puts `from` in the place of `to`; what was there is gone only when the new one is in place.
pub(crate) fn replace(from: &Path, to: &Path) -> Result<(), LabError> {
    let old = from.with_extension("old");
    let had = to.exists();
    if had {
        fs::rename(to, &old).map_err(|error| LabError::io("move aside", to, error))?;
    }
    fs::rename(from, to).map_err(|error| LabError::io("rename", from, error))?;
    if had {
        fs::remove_dir_all(&old).map_err(|error| LabError::io("remove", &old, error))?;
    }
    Ok(())
}

/// Everything that the runs of one race share.
struct Lab<'a> {
    scenario: &'a Scenario,
    options: &'a Options,
    watcher: &'a dyn Watcher,
    engine: Engine,
    engine_version: String,
    kernel: Kernel,
    symbols: Symbols,
    host_archive: Vec<u8>,
}

/// One finished run.
struct Run {
    repetition: Repetition,
    phases: Vec<Phase>,
    host: BTreeMap<String, String>,
}

impl<'a> Lab<'a> {
    fn ready(
        home: &Home,
        scenario: &'a Scenario,
        options: &'a Options,
        watcher: &'a dyn Watcher,
    ) -> Result<Self, LabError> {
        let (mut engine, engine_version) = engine(home, options.engine, watcher)?;
        let wanted = translate::programs(scenario)?;
        let kernel = kernel::ensure(home, watcher)?;
        let ours = programs::ensure(home)?;
        if let Engine::Qemu { tsc_khz, .. } = &mut engine {
            *tsc_khz = qemu::tsc_khz(&ours.agent)?;
        }
        let guest = tree::guest(&ours, &wanted)?;
        let host_archive = tree::host(
            &ours,
            &kernel,
            &guest,
            translate::host_needs(scenario, options.trace),
        )?;
        translate::check_memory(scenario, guest.len(), host_archive.len())?;
        let symbols = Symbols::load(&kernel.system_map)?;
        Ok(Self {
            scenario,
            options,
            watcher,
            engine,
            engine_version,
            kernel,
            symbols,
            host_archive,
        })
    }

    /// How many emulators run beside each other: TCG already uses a thread for each pCPU and its
    /// clock is the wall, so those run one after another; Bochs is one thread with its own clock.
    fn beside(&self) -> usize {
        match self.options.engine {
            EngineKind::Qemu => 1,
            EngineKind::Bochs => std::thread::available_parallelism().map_or(1, usize::from),
        }
    }

    fn run_all(&self, variants: &[&Variant], work: &Path) -> Result<Vec<Run>, LabError> {
        let tasks: Vec<(usize, u32)> = (0..self.scenario.repetitions)
            .flat_map(|repetition| (0..variants.len()).map(move |variant| (variant, repetition)))
            .collect();
        let next = AtomicUsize::new(0);
        let ended = AtomicUsize::new(0);
        let slots: Vec<Mutex<Option<Result<Run, LabError>>>> =
            tasks.iter().map(|_| Mutex::new(None)).collect();
        let what = format!("{} on {}", self.scenario.name, self.options.engine.name());
        std::thread::scope(|scope| {
            for _ in 0..self.beside().min(tasks.len()) {
                scope.spawn(|| {
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        let Some(&(variant, repetition)) = tasks.get(at) else {
                            return;
                        };
                        let run = self.run_one(variants[variant], repetition, work);
                        if run.is_err() {
                            // The race is lost; let no further run begin.
                            next.store(tasks.len(), Ordering::Relaxed);
                        }
                        *slots[at].lock().expect("no thread panics with a slot") = Some(run);
                        let done = ended.fetch_add(1, Ordering::Relaxed) + 1;
                        self.watcher
                            .progress(&what, done as u64, tasks.len() as u64);
                    }
                });
            }
        });
        self.watcher.done(&what);
        let mut runs = Vec::new();
        for slot in slots {
            if let Some(run) = slot.into_inner().expect("no thread panics with a slot") {
                runs.push(run?);
            }
        }
        if interrupted() {
            return Err(LabError::Interrupted);
        }
        assert_eq!(
            runs.len(),
            tasks.len(),
            "every run ended or the race failed"
        );
        Ok(runs)
    }

    fn run_one(&self, variant: &Variant, index: u32, work: &Path) -> Result<Run, LabError> {
        let directory = work.join(format!("{}-r{index}", variant.name));
        fs::create_dir_all(&directory).map_err(|error| LabError::io("make", &directory, error))?;
        let name = format!("{} r{index}", variant.name);
        let step = |text: &str| self.watcher.say(&format!("{name}: {text}"));
        let mut ended = self.emulate(variant, &directory, &step);
        let lost = match &ended {
            Err(Failed::Run(fault)) => fault.lost(),
            _ => None,
        };
        let lost = lost.filter(|_| self.options.engine == EngineKind::Qemu);
        if let Some(lost) = lost {
            // QEMU 7.2's nested SVM loses a guest or the host now and then. One more try, and said so.
            let first = work.join(format!("{}-r{index}.lost", variant.name));
            replace(&directory, &first)?;
            fs::create_dir_all(&directory)
                .map_err(|error| LabError::io("make", &directory, error))?;
            step(&format!("{lost}; once more"));
            ended = self.emulate(variant, &directory, &step);
        }
        let transcript = ended.map_err(|failed| self.failed(variant, &directory, failed))?;
        let context = assemble::Context {
            scenario: self.scenario,
            symbols: &self.symbols,
            wall_clock: self.options.engine == EngineKind::Qemu,
            result_directory: work,
            run_directory: &directory,
        };
        let mut repetition = assemble::repetition(context, index, &transcript)
            .map_err(|fault| self.failed(variant, &directory, fault.into()))?;
        if let Some(lost) = lost {
            let text = format!(
                "{lost} in the first try, whose logs are in {}-r{index}.lost; seen with QEMU 7.2's nested SVM, and a fault of the kernel if it comes again",
                variant.name
            );
            repetition.warnings.push(Warning {
                code: "retried".to_owned(),
                text,
            });
        }
        let phases = phases(&variant.name, index, &transcript);
        Ok(Run {
            repetition,
            phases,
            host: host_facts(&transcript),
        })
    }

    fn failed(&self, variant: &Variant, directory: &Path, failed: Failed) -> LabError {
        match failed {
            Failed::Run(fault) => LabError::Run {
                variant: variant.name.clone(),
                fault: Box::new(fault),
                logs: directory.to_owned(),
            },
            // A folder that cannot be written is the run's own misfortune: keep what there is.
            Failed::Lab(LabError::Io {
                action,
                path,
                error,
            }) if path.starts_with(directory) => {
                let fault = RunFault::Files(LabError::io(action, &path, error).to_string());
                LabError::Run {
                    variant: variant.name.clone(),
                    fault: Box::new(fault),
                    logs: directory.to_owned(),
                }
            }
            Failed::Lab(error) => error,
        }
    }

    fn emulate(
        &self,
        variant: &Variant,
        directory: &Path,
        step: &dyn Fn(&str),
    ) -> Result<Transcript, Failed> {
        let plan = translate::plan(self.scenario, variant, self.options.trace)?;
        let json = serde_json::to_vec(&plan).expect("a plan is plain data");
        let plan = tree::single(PLAN_PATH.trim_start_matches('/'), &json);
        let cmdline = translate::host_cmdline(&self.engine, variant);
        let boot = Boot {
            kernel: &self.kernel.image,
            archives: &[&self.host_archive, &plan],
            cmdline: &cmdline,
            pcpus: self.scenario.host.pcpus,
            memory_mib: self.scenario.host.memory_mib,
            directory,
        };
        let start = self.engine.prepare(&boot)?;
        let limit = self.options.wall_limit.unwrap_or(
            WALL_FIXED
                + Duration::from_secs(self.scenario.host.time_limit_s.into()) * WALL_PER_LIMIT,
        );
        let ended = watch::run(self.options.engine, &start, directory, limit, step);
        // Boot media are large and can be made again at any time; the logs are what is kept.
        for path in &start.scratch {
            let _ = fs::remove_file(path);
        }
        ended
    }

    fn result(
        &self,
        variants: &[&Variant],
        runs: Vec<Run>,
        begun: Instant,
    ) -> Result<RunResult, LabError> {
        let scenario = ScenarioInfo {
            name: self.scenario.name.clone(),
            title: self.scenario.title.clone(),
            question: self.scenario.question.clone(),
            digest: self.scenario.digest(),
            papers: self.scenario.papers.iter().map(paper).collect(),
        };
        let engine = EngineInfo {
            name: self.options.engine.name().to_owned(),
            version: self.engine_version.clone(),
            clock: self.options.engine.clock(),
            description: describe(self.options.engine).to_owned(),
        };
        let mut result = RunResult::new(scenario, engine, self.scenario.seed);
        result.config = self.config()?;
        result.variants = variants.iter().map(|variant| empty(variant)).collect();
        for (at, run) in runs.into_iter().enumerate() {
            result.config.extend(run.host);
            result.run.phases.extend(run.phases);
            result.variants[at % variants.len()]
                .repetitions
                .push(run.repetition);
        }
        result.run.started.clone_from(&self.options.started);
        result.run.command.clone_from(&self.options.command);
        result.run.tool = format!("steady {}", env!("CARGO_PKG_VERSION"));
        result.run.machine = machine();
        result.run.wall_ms = millis(begun.elapsed());
        result.seal();
        result.validate().map_err(unsound)?;
        Ok(result)
    }

    fn config(&self) -> Result<BTreeMap<String, String>, LabError> {
        let digest = |path: &Path| {
            fs::read(path)
                .map(|bytes| sha256_hex(&bytes))
                .map_err(|error| LabError::io("read", path, error))
        };
        let host = &self.scenario.host;
        Ok(BTreeMap::from([
            ("kernel.release".to_owned(), self.kernel.release.clone()),
            (
                "kernel.image_sha256".to_owned(),
                digest(&self.kernel.image)?,
            ),
            (
                "kernel.config_sha256".to_owned(),
                digest(&self.kernel.config)?,
            ),
            ("image_sha256".to_owned(), sha256_hex(&self.host_archive)),
            ("vmm".to_owned(), host.vmm.name().to_owned()),
            ("pcpus".to_owned(), host.pcpus.to_string()),
            ("memory_mib".to_owned(), host.memory_mib.to_string()),
            ("trace".to_owned(), self.options.trace.to_string()),
        ]))
    }
}

pub(crate) fn engine(
    home: &Home,
    kind: EngineKind,
    watcher: &dyn Watcher,
) -> Result<(Engine, String), LabError> {
    match kind {
        EngineKind::Qemu => {
            let missing = || LabError::Missing {
                program: "qemu-system-x86_64".into(),
                why: "the engine `qemu` runs in it",
                package: "qemu-system-x86",
            };
            let program = find_program("qemu-system-x86_64").ok_or_else(missing)?;
            let version = qemu_version(&program);
            // Measured when our programs are built.
            Ok((
                Engine::Qemu {
                    program,
                    tsc_khz: 0,
                },
                version,
            ))
        }
        EngineKind::Bochs => {
            let bochs = bochs::ensure(home, watcher)?;
            let kind = if bochs.compiled {
                "compiled"
            } else {
                "packaged"
            };
            let version = format!("{} ({kind})", bochs.version);
            Ok((Engine::Bochs(bochs), version))
        }
    }
}
