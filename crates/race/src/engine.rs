// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an engine is: it refuses what it cannot honour, builds what is missing, and runs.
//!
//! An engine knows nothing of order, retries, folders beside its own, or results: it is given one
//! job at a time and returns the measures or the fault. Several jobs may run beside each other, so
//! both traits are called from several threads.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::time::Duration;

use steady_measures::{Clock, Phase, Repetition};
use steady_scenario::{Scenario, Variant};
use thiserror::Error as ErrorText;

use crate::options::Options;
use crate::watcher::Watcher;

/// What is known of an engine before anything of it is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Info {
    /// Its name in commands, results and folders.
    pub name: &'static str,
    /// One line for a reader who does not know it.
    pub description: &'static str,
    /// What its nanoseconds are made of.
    pub clock: Clock,
    /// Why a run that was lost ([`Fault::lost`]) is tried again, as a half sentence for the
    /// warning; `None`: a lost run is a failed one.
    pub retries_lost: Option<&'static str>,
}

/// An engine.
pub trait Engine: Sync {
    /// What it is.
    fn info(&self) -> Info;

    /// Refuses what it cannot honour: an engine never ignores a part of a scenario. It builds and
    /// writes nothing.
    ///
    /// # Errors
    /// [`Refusal`] with the first thing that it cannot.
    fn check(
        &self,
        scenario: &Scenario,
        variants: &[&Variant],
        options: &Options,
    ) -> Result<(), Refusal>;

    /// Builds what is missing for these variants.
    ///
    /// # Errors
    /// [`Trouble`], the first one.
    fn prepare<'a>(
        &'a self,
        scenario: &'a Scenario,
        variants: &[&'a Variant],
        options: &'a Options,
        watcher: &dyn Watcher,
    ) -> Result<Box<dyn Prepared + 'a>, Trouble>;
}

/// An engine that is ready to run the variants it was prepared for.
pub trait Prepared: Sync {
    /// Version of the simulator or emulator.
    fn version(&self) -> String;

    /// How many jobs may run beside each other; at least 1.
    fn beside(&self) -> usize;

    /// What else the measures depend on, for the result's configuration.
    fn config(&self) -> BTreeMap<String, String>;

    /// Variables of the environment, each `NAME=value` as a shell takes it, with which a repetition
    /// of the race runs on the same emulator.
    fn environment(&self) -> Vec<String> {
        Vec::new()
    }

    /// How often a lost run of a variant is tried again, where the engine says that this may be
    /// its own doing.
    fn more_tries(&self, _variant: &Variant) -> u32 {
        1
    }

    /// Runs one job and reports its steps to `step`, one short line each.
    ///
    /// # Errors
    /// [`Failed`] with the first thing that went wrong.
    fn run(&self, job: &Job<'_>, step: &dyn Fn(&str)) -> Result<Outcome, Failed>;
}

/// One run of one variant.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    /// The variant.
    pub variant: &'a Variant,
    /// Which repetition, from 0.
    pub index: u32,
    /// Seed of every random stream of this run, see [`crate::seed_of`].
    pub seed: u64,
    /// Folder for the run's files; it is there and empty.
    pub directory: &'a Path,
    /// Folder of the result, above `directory`; artifacts are named relative to it.
    pub result_directory: &'a Path,
    /// Bound on the run by the wall clock; the engine ends it there with a [`Fault`].
    pub wall_limit: Duration,
    /// Whether the user has asked to stop; the run then ends with [`Trouble::interrupted`].
    pub stop: &'a (dyn Fn() -> bool + Sync),
}

impl std::fmt::Debug for Job<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job")
            .field("variant", &self.variant.name)
            .field("index", &self.index)
            .field("seed", &self.seed)
            .field("directory", &self.directory)
            .field("wall_limit", &self.wall_limit)
            .finish_non_exhaustive()
    }
}

/// What a run brought.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// The measures; `index` and `seed` are the race's to fill in.
    pub repetition: Repetition,
    /// Wall time of its phases.
    pub phases: Vec<Phase>,
    /// What the run found out about its surroundings, for the result's configuration.
    pub facts: BTreeMap<String, String>,
}

/// What an engine cannot honour.
#[derive(Debug, Clone, PartialEq, Eq, ErrorText)]
#[error("{what}; {limit}")]
pub struct Refusal {
    /// What the scenario asks for.
    pub what: String,
    /// What the engine gives, and how to fix it.
    pub limit: String,
}

/// Why a run brought no measures.
#[derive(Debug)]
pub enum Failed {
    /// The run itself: its folder is kept.
    Run(Fault),
    /// The machinery around it.
    Around(Trouble),
}

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Self {
        Self::Run(fault)
    }
}

impl From<Trouble> for Failed {
    fn from(trouble: Trouble) -> Self {
        Self::Around(trouble)
    }
}

/// What happened to a run.
#[derive(Debug, ErrorText)]
#[error("{error}")]
pub struct Fault {
    /// Its words: what, which log has more, how to fix it.
    pub error: Box<dyn Error + Send + Sync>,
    /// What was lost, as a half sentence such as `a guest triple-faulted`, where the engine itself
    /// may have lost it and another try may bring it; see [`Info::retries_lost`].
    pub lost: Option<&'static str>,
}

/// Something around the runs that stops a race.
#[derive(Debug, ErrorText)]
#[error("{error}")]
pub struct Trouble {
    /// Whose concern it is.
    pub why: Why,
    /// Its words: what, where, how to fix it.
    pub error: Box<dyn Error + Send + Sync>,
}

/// What must act on a [`Trouble`], and so the command's exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The scenario asks for what cannot be.
    Input,
    /// Something is not installed.
    Missing,
    /// A build failed.
    Build,
    /// A file could not be read or written, or the machine has no room.
    Machine,
    /// The user asked to stop.
    Interrupted,
}

impl Trouble {
    /// The user asked to stop.
    #[must_use]
    pub fn interrupted() -> Self {
        Self {
            why: Why::Interrupted,
            error: "interrupted; every emulator was ended".into(),
        }
    }
}
