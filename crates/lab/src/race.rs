// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lab's engines, as races know engines: real kernels on a host that QEMU or Bochs emulates.

use std::collections::BTreeMap;

use steady_agent::plan::PLAN_PATH;
use steady_lab_artifacts::image::{scx, tree};
use steady_lab_artifacts::kernel::{Choice, Kernel};
use steady_lab_artifacts::need::artifacts::{self, Extras};
use steady_lab_artifacts::need::{self, Need};
use steady_lab_artifacts::{ArtifactError, Home, programs};
use steady_race::{Info, Job, Options, Outcome, Prepared, Refusal, Trouble, Watcher};
use steady_scenario::{Scenario, Variant, Vm, Word};

use crate::describe::{host_facts, phases};
use crate::engine::watch::{self, Bounds, Failed, Transcript};
use crate::engine::{Boot, Engine, EngineKind, MOST_TRIES, Processor};
use crate::error::{LabError, RunFault};
use crate::kernels::{self, Booted};
use crate::measure::assemble;
use crate::translate;
use crate::wanted::{self, KernelId, Wanted};

/// An engine of the lab, before anything of it is built.
#[derive(Debug)]
pub struct Lab {
    home: Home,
    kind: EngineKind,
}

impl Lab {
    /// The engine `kind`, with what it needs under `home`.
    #[must_use]
    pub fn new(home: Home, kind: EngineKind) -> Self {
        Self { home, kind }
    }

    /// The engine `kind` of the tree that this program is run in, for a list of engines.
    ///
    /// # Errors
    /// [`ArtifactError::NoProject`].
    pub fn open(kind: EngineKind) -> Result<Box<dyn steady_race::Engine>, Trouble> {
        Ok(Box::new(Self::new(Home::find()?, kind)))
    }
}

impl steady_race::Engine for Lab {
    fn info(&self) -> Info {
        self.kind.info()
    }

    fn check(
        &self,
        scenario: &Scenario,
        variants: &[&Variant],
        options: &Options,
    ) -> Result<(), Refusal> {
        let checked = translate::check(scenario, self.kind, variants)
            .and_then(|()| wanted::check(scenario, variants, options));
        checked.map_err(|error| match error {
            LabError::Beyond { what, limit, .. } => Refusal { what, limit },
            LabError::Artifact(error) => Refusal {
                what: "the kernel that `--kernel` names".to_owned(),
                limit: error.to_string(),
            },
            other => Refusal {
                what: other.to_string(),
                limit: format!("the engine {} cannot run it", self.kind.name()),
            },
        })
    }

    fn prepare<'a>(
        &'a self,
        scenario: &'a Scenario,
        variants: &[&'a Variant],
        options: &'a Options,
        watcher: &dyn Watcher,
    ) -> Result<Box<dyn Prepared + 'a>, Trouble> {
        let hosts = Hosts::ready(self, scenario, variants, options, watcher)?;
        Ok(Box::new(hosts))
    }
}

/// What every race on an engine, with a kernel, needs of this machine.
#[must_use]
pub fn engine_needs(home: &Home, kind: EngineKind, kernel: &Choice) -> Vec<Need> {
    let mut needs = kind.needs(home);
    needs.extend(artifacts::temporary());
    needs.extend(artifacts::chosen_kernel(home, kernel));
    needs.extend(artifacts::own_programs(home));
    needs
}

/// What a race needs of this machine.
fn needs(
    lab: &Lab,
    scenario: &Scenario,
    kernels: &[Wanted<'_>],
    trace: bool,
) -> Result<Vec<Need>, LabError> {
    let home = &lab.home;
    let mut needs = lab.kind.needs(home);
    needs.extend(artifacts::temporary());
    assert!(!needs.is_empty(), "an emulator is a need");
    assert!(!kernels.is_empty(), "a race boots kernels");
    needs.extend(kernels.iter().flat_map(|wanted| wanted.needs(home)));
    needs.extend(artifacts::own_programs(home));
    let host = translate::host_needs(scenario, trace)?;
    let mut programs = translate::programs(scenario)?;
    programs.extend(host.programs);
    let bpf = translate::scx::paths(scenario);
    needs.extend(artifacts::extras(&Extras {
        bpf: !bpf.is_empty(),
        bpf_build: bpf.iter().any(|path| scx::is_source(path)),
        trace: host.trace,
        disk: host.disk,
        vmm_qemu: host.qemu,
        shell: false,
        programs,
    }));
    Ok(needs)
}

/// Everything that the runs of one race share.
struct Hosts<'a> {
    scenario: &'a Scenario,
    options: &'a Options,
    engine: Engine,
    kernels: BTreeMap<KernelId, Booted>,
    config: BTreeMap<String, String>,
}

impl<'a> Hosts<'a> {
    fn ready(
        lab: &Lab,
        scenario: &'a Scenario,
        variants: &[&Variant],
        options: &'a Options,
        watcher: &dyn Watcher,
    ) -> Result<Self, LabError> {
        let home = &lab.home;
        let wanted = translate::programs(scenario)?;
        let brought = translate::brought::gather(scenario)?;
        for variant in variants {
            // Arguments that a program does not take are refused before minutes of building.
            translate::plan(scenario, variant, scenario.seed, options.trace)?;
        }
        let all = wanted::kernels(scenario, variants, options)?;
        need::require(needs(lab, scenario, &all, options.trace)?)?;
        let mut engine = lab.kind.find(home, watcher)?;
        let found: Result<Vec<Kernel>, LabError> = all
            .iter()
            .map(|one| kernels::ensure(home, &one.choice, one.id.series(), watcher))
            .collect();
        let found = found?;
        for (one, kernel) in all.iter().zip(&found) {
            one.check_remedies(scenario, kernel)?;
        }
        let ours = programs::ensure(home, watcher)?;
        engine.calibrate(&ours.agent)?;
        let steer = translate::steer::in_guests(scenario);
        let guest = tree::guest(&ours, &wanted, &brought.files, steer)?;
        let mut needs = translate::host_needs(scenario, options.trace)?;
        let scratch = tempfile::tempdir()
            .map_err(|error| LabError::io("make a folder in", &std::env::temp_dir(), error))?;
        let bpf = translate::scx::paths(scenario);
        let bpf = scx::gather(&bpf, &scenario.folder, scratch.path())?;
        needs.schedulers = bpf.objects;
        let host = &scenario.host;
        let mut config = BTreeMap::from([
            ("vmm".to_owned(), host.vmm.name().to_owned()),
            ("pcpus".to_owned(), host.pcpus.to_string()),
            ("trace".to_owned(), options.trace.to_string()),
        ]);
        config.extend(wanted::config(scenario, &all));
        config.extend(brought.config);
        let digests = bpf.digests.into_iter();
        config.extend(digests.map(|(name, digest)| (format!("scheduler.{name}"), digest)));
        let mut kernels = BTreeMap::new();
        for (one, kernel) in all.into_iter().zip(found) {
            translate::scx::check(scenario, &one.variants, &kernel)?;
            let series = one.id.series();
            let others = kernels::ensure_others(home, series, &one.flavors, watcher)?;
            let booted = Booted::new(one.choice, kernel, others, &ours, &guest, &needs)?;
            translate::check_memory(scenario, guest.len(), booted.archive.len())?;
            config.extend(booted.config(&one.id)?);
            kernels.insert(one.id, booted);
        }
        assert!(!kernels.is_empty(), "each variant boots a kernel");
        Ok(Self {
            scenario,
            options,
            engine,
            kernels,
            config,
        })
    }

    /// The kernel of a variant's host.
    fn booted(&self, variant: &Variant) -> &Booted {
        let id = KernelId::of(variant);
        let found = self.kernels.get(&id);
        found.expect("each variant's kernel is there")
    }

    fn emulate(
        &self,
        job: &Job<'_>,
        booted: &Booted,
        step: &dyn Fn(&str),
    ) -> Result<Transcript, Failed> {
        let mut plan = translate::plan(self.scenario, job.variant, job.seed, self.options.trace)?;
        if booted.checks_itself {
            translate::for_kernel_that_checks(&mut plan);
        }
        if wanted::is_packaged(&booted.choice) {
            translate::packaged::enlarge(&mut plan);
        }
        let json = serde_json::to_vec(&plan).expect("a plan is plain data");
        let plan = tree::single(PLAN_PATH.trim_start_matches('/'), &json);
        let cmdline = translate::host_cmdline(&self.engine, job.variant, booted);
        let boot = Boot {
            kernel: &booted.kernel.image,
            archives: &[&booted.archive, &plan],
            cmdline: &cmdline,
            pcpus: self.scenario.host.pcpus,
            smt: self.scenario.host.smt,
            processor: match job.variant.switches.apicv {
                true => Processor::Apicv,
                false => Processor::Usual,
            },
            constant_tsc: booted.kernel.is_preempt_rt()?,
            memory_mib: wanted::memory_mib(self.scenario, &booted.choice),
            directory: job.directory,
            terminal: None,
        };
        let start = self.engine.prepare(&boot)?;
        let ours = self.options.wall_limit.is_none();
        let slower = booted.checks_itself && ours;
        let bounds = Bounds {
            limit: job.wall_limit * if slower { translate::SLOWER } else { 1 },
            of_cpu_time: ours && !self.engine.kind().wall_clock(),
            silence: self.engine.kind().silence(),
            stop: job.stop,
        };
        let ended = watch::run(&start, job.directory, bounds, step);
        // Boot media are large and can be made again at any time; the logs are what is kept.
        for path in &start.scratch {
            let _ = std::fs::remove_file(path);
        }
        ended
    }

    fn measured(&self, job: &Job<'_>, step: &dyn Fn(&str)) -> Result<Outcome, Failed> {
        let booted = self.booted(job.variant);
        let transcript = self.emulate(job, booted, step)?;
        let of_vm = |vm: &Vm| (vm.name.clone(), booted.symbols_of(translate::flavor_of(vm)));
        let symbols = self.scenario.vms_of(job.variant).map(of_vm).collect();
        let context = assemble::Context {
            scenario: self.scenario,
            symbols: &symbols,
            wall_clock: self.engine.kind().wall_clock(),
            result_directory: job.result_directory,
            run_directory: job.directory,
        };
        Ok(Outcome {
            repetition: assemble::repetition(context, job.index, &transcript)?,
            phases: phases(&job.variant.name, job.index, &transcript),
            facts: host_facts(&transcript),
        })
    }
}

impl Prepared for Hosts<'_> {
    fn version(&self) -> String {
        self.engine.version()
    }

    fn beside(&self) -> usize {
        self.engine.beside()
    }

    fn config(&self) -> BTreeMap<String, String> {
        self.config.clone()
    }

    fn environment(&self) -> Vec<String> {
        self.engine.environment().into_iter().collect()
    }

    /// The kernel of a release is not what is tried here, so that no fault of ours hides in it.
    fn more_tries(&self, variant: &Variant) -> u32 {
        if wanted::is_release(&self.booted(variant).choice) {
            MOST_TRIES
        } else {
            self.engine.more_tries()
        }
    }

    fn run(&self, job: &Job<'_>, step: &dyn Fn(&str)) -> Result<Outcome, steady_race::Failed> {
        self.measured(job, step)
            .map_err(|failed| of_race(job, failed))
    }
}

/// The race's words for a failed run.
fn of_race(job: &Job<'_>, failed: Failed) -> steady_race::Failed {
    match failed {
        Failed::Run(fault) => steady_race::Failed::Run(fault.into()),
        // A folder that cannot be written is the run's own misfortune: keep what there is.
        Failed::Lab(LabError::Artifact(ArtifactError::Io {
            action,
            path,
            error,
        })) if path.starts_with(job.directory) => {
            let text = ArtifactError::io(action, &path, error).to_string();
            steady_race::Failed::Run(RunFault::Files(text).into())
        }
        Failed::Lab(error) => steady_race::Failed::Around(error.into()),
    }
}
