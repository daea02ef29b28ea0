// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One run of one variant, and further tries where an engine may have lost the first.

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
    /// Runs repetition `index` of a variant, and again if it was lost and the engine says that
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
        let mut retried = Vec::new();
        let ended = loop {
            let ended = self.engine.run(&job, &step);
            let (Some(lost), Some(why)) = (lost(&ended), self.info.retries_lost) else {
                break ended;
            };
            if retried.len() >= self.engine.more_tries(variant) as usize {
                break ended;
            }
            let aside = match retried.len() {
                0 => format!("{name}.lost"),
                before => format!("{name}.lost-{}", before + 1),
            };
            replace(&directory, &self.work.join(&aside))?;
            make(&directory)?;
            let again = format!("{} r{index}: {lost}; once more", variant.name);
            self.watcher.say(&again);
            let which = TRIES[retried.len().min(TRIES.len() - 1)];
            let text = format!("{lost} in the {which} try, whose logs are in {aside}; {why}");
            retried.push(Warning {
                code: "retried".to_owned(),
                text,
            });
        };
        let mut outcome = ended.map_err(|failed| reason(variant, directory.clone(), failed))?;
        outcome.repetition.index = index;
        outcome.repetition.seed = Some(seed);
        outcome.repetition.warnings.extend(retried);
        Ok(outcome)
    }
}

/// How a warning calls a try.
const TRIES: [&str; 4] = ["first", "second", "third", "next"];

/// What was lost, if the run ended by that.
fn lost(ended: &Result<Outcome, Failed>) -> Option<&'static str> {
    match ended {
        Err(Failed::Run(Fault { lost, .. })) => *lost,
        _ => None,
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
