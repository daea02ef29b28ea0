// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One run of one variant, and the second try where an engine may have lost the first.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use steady_measures::Warning;
use steady_scenario::Variant;

use crate::engine::{Failed, Fault, Info, Job, Outcome, Prepared};
use crate::error::Reason;
use crate::machine::Machine;
use crate::place::{FileError, replace};
use crate::watcher::Watcher;

/// What the runs of one race share.
#[derive(Clone, Copy)]
pub(crate) struct Common<'a> {
    pub info: &'a Info,
    pub engine: &'a dyn Prepared,
    pub machine: &'a dyn Machine,
    pub watcher: &'a dyn Watcher,
    /// Folder of the result under way.
    pub work: &'a Path,
    pub wall_limit: Duration,
}

impl Common<'_> {
    /// Runs repetition `index` of a variant, and once more if it was lost and the engine says that
    /// this may be its own doing.
    pub fn attempt(&self, variant: &Variant, index: u32, seed: u64) -> Result<Outcome, Reason> {
        let name = format!("{}-r{index}", variant.name);
        let directory = self.work.join(&name);
        make(&directory)?;
        let step = |text: &str| {
            self.watcher
                .detail(&format!("{} r{index}: {text}", variant.name));
        };
        let job = Job {
            variant,
            index,
            seed,
            directory: &directory,
            result_directory: self.work,
            wall_limit: self.wall_limit,
            stop: &|| self.machine.interrupted(),
        };
        let mut ended = self.engine.run(&job, &step);
        let mut retried = None;
        if let (
            Err(Failed::Run(Fault {
                lost: Some(lost), ..
            })),
            Some(why),
        ) = (&ended, self.info.retries_lost)
        {
            let lost = *lost;
            replace(&directory, &self.work.join(format!("{name}.lost")))?;
            make(&directory)?;
            let again = format!("{} r{index}: {lost}; once more", variant.name);
            self.watcher.say(&again);
            retried = Some(format!(
                "{lost} in the first try, whose logs are in {name}.lost; {why}"
            ));
            ended = self.engine.run(&job, &step);
        }
        let mut outcome = ended.map_err(|failed| reason(variant, directory.clone(), failed))?;
        outcome.repetition.index = index;
        outcome.repetition.seed = Some(seed);
        outcome
            .repetition
            .warnings
            .extend(retried.map(|text| Warning {
                code: "retried".to_owned(),
                text,
            }));
        Ok(outcome)
    }
}

fn make(directory: &Path) -> Result<(), FileError> {
    fs::create_dir_all(directory).map_err(|error| FileError::new("make", directory, error))
}

fn reason(variant: &Variant, logs: PathBuf, failed: Failed) -> Reason {
    match failed {
        Failed::Run(fault) => Reason::Run {
            variant: variant.name.clone(),
            fault,
            logs,
        },
        Failed::Around(trouble) => trouble.into(),
    }
}
