// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A race from the scenario to the result in its place.
//!
//! Everything is made in a folder beside its place, `out/<scenario>/.<engine>-<process>`. A whole
//! race takes the place of `out/<scenario>/<engine>`; a failed one is kept, with its logs and the
//! runs that were whole, as `<engine>.failed`, and an earlier result stays what it was.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use steady_measures::RunResult;
use steady_scenario::{Scenario, Variant};

use crate::attempt::Common;
use crate::engine::Engine;
use crate::error::{Kept, RaceError, Reason};
use crate::machine::{Machine, ThisMachine};
use crate::options::Options;
use crate::place::{FileError, check_room, replace};
use crate::result::Outline;
use crate::schedule::{Ran, run_all};
use crate::until::Until;
use crate::watcher::Watcher;

/// Name of the result in its folder.
const RESULT: &str = "result.json";

/// A finished race.
#[derive(Debug)]
pub struct Race {
    /// The result.
    pub result: RunResult,
    /// Its folder, with `result.json` in it.
    pub directory: PathBuf,
}

/// Races the variants of a scenario on an engine, on this machine.
///
/// # Errors
/// [`RaceError`] with the first reason; it says where what was whole is kept.
pub fn race(
    engine: &dyn Engine,
    scenario: &Scenario,
    options: &Options,
    watcher: &dyn Watcher,
) -> Result<Race, RaceError> {
    race_on(&ThisMachine, engine, scenario, options, watcher)
}

/// As [`race`], on a machine of the caller's.
///
/// # Errors
/// As [`race`].
pub fn race_on(
    machine: &dyn Machine,
    engine: &dyn Engine,
    scenario: &Scenario,
    options: &Options,
    watcher: &dyn Watcher,
) -> Result<Race, RaceError> {
    let begun = Instant::now();
    let variants = variants(scenario, options)?;
    let checked = engine.check(scenario, &variants, options);
    checked.map_err(|refusal| Reason::Refused {
        scenario: scenario.name.clone(),
        refusal,
    })?;
    // Engines may run in folders of their own, where a relative path would mean another place.
    let out = std::path::absolute(&options.out)
        .map_err(|error| FileError::new("find", &options.out, error))?;
    let folder = out.join(&scenario.name);
    let new: Vec<&Path> = folder.ancestors().take_while(|at| !at.exists()).collect();
    make(&folder)?;
    let info = engine.info();
    let room = check_room(machine, &folder).map_err(Reason::from);
    let ready = room.and_then(|()| Ok(engine.prepare(scenario, &variants, options, watcher)?));
    // What is refused leaves no empty folders.
    let undo = |_: &Reason| new.iter().for_each(|folder| drop(fs::remove_dir(folder)));
    let prepared = ready.inspect_err(undo)?;
    let places = Places::of(&folder, info.name);
    make(&places.work)?;
    let common = Common {
        info: &info,
        engine: &*prepared,
        machine,
        watcher,
        work: &places.work,
        wall_limit: options.wall_limit(scenario),
    };
    let outline = Outline {
        scenario,
        variants: &variants,
        options,
        info: &info,
        engine: &*prepared,
        machine,
        begun,
    };
    // A kernel that had to be built first takes nothing of the time for repetitions.
    let ready = Instant::now();
    let mut ran = run_all(common, scenario, &variants, 0..scenario.repetitions);
    let until = options.until.as_ref();
    let said = match until.map(|until| go_on(until, outline, common, ready, &mut ran)) {
        None => Ok(None),
        Some(said) => said,
    };
    places.settle(outline, ran, said)
}

/// Further repetitions until the race has said enough; what the result will say of that.
fn go_on(
    until: &Until,
    outline: Outline<'_>,
    common: Common<'_>,
    ready: Instant,
    ran: &mut Ran,
) -> Result<Option<String>, Reason> {
    let asked = until.within_ppm;
    let asked = format!("within {}.{} %", asked / 10_000, asked / 1_000 % 10);
    let mut repetitions = outline.scenario.repetitions;
    loop {
        if ran.reason.is_some() {
            return Ok(None);
        }
        let result = outline.result(ran.whole.clone(), None, None)?;
        let widest = until.widest(&result)?;
        let over = until.budget.is_some_and(|budget| ready.elapsed() >= budget);
        let why = if until.is_met(&widest) {
            "reached"
        } else if repetitions >= until.most {
            "not reached with the most repetitions"
        } else if over {
            "not reached in the time"
        } else {
            let next = repetitions..repetitions + 1;
            ran.extend(run_all(common, outline.scenario, outline.variants, next));
            repetitions += 1;
            continue;
        };
        let said = format!("{asked}: {why}; the widest: {}", widest.words());
        common
            .watcher
            .say(&format!("{repetitions} repetitions; {said}"));
        return Ok(Some(said));
    }
}

fn variants<'a>(scenario: &'a Scenario, options: &Options) -> Result<Vec<&'a Variant>, Reason> {
    let selected = scenario.select(&options.variants);
    selected.map_err(|error| Reason::Variant {
        scenario: scenario.name.clone(),
        what: error.to_string(),
    })
}

fn make(folder: &Path) -> Result<(), FileError> {
    fs::create_dir_all(folder).map_err(|error| FileError::new("make", folder, error))
}

/// The folders of one race.
struct Places {
    /// Where it is made.
    work: PathBuf,
    /// Where it is put when it is whole.
    whole: PathBuf,
    /// Where it is put when it is not.
    failed: PathBuf,
}

impl Places {
    fn of(folder: &Path, engine: &str) -> Self {
        Self {
            work: folder.join(format!(".{engine}-{}", std::process::id())),
            whole: folder.join(engine),
            failed: folder.join(format!("{engine}.failed")),
        }
    }

    /// Writes the result and puts the folder in its place, whole or failed.
    fn settle(
        &self,
        outline: Outline<'_>,
        mut ran: Ran,
        said: Result<Option<String>, Reason>,
    ) -> Result<Race, RaceError> {
        let said = said.unwrap_or_else(|reason| {
            ran.reason = ran.reason.take().or(Some(reason));
            None
        });
        if ran.reason.is_some() {
            return Err(self.keep(outline, ran));
        }
        assert_eq!(ran.whole.len(), ran.tasks, "without a reason all are whole");
        let made = outline.result(ran.whole, None, said).and_then(|result| {
            self.save(&result)?;
            Ok(result)
        });
        match made {
            Ok(result) => {
                replace(&self.work, &self.whole)?;
                Ok(Race {
                    result,
                    directory: self.whole.clone(),
                })
            }
            // The runs are whole: their traces and logs are worth more than nothing.
            Err(reason) => {
                let files = self.fail();
                Err(Reason::Lost {
                    reason: Box::new(reason),
                    files: files.to_owned(),
                }
                .into())
            }
        }
    }

    /// Keeps what there is of a race that did not come to its end.
    fn keep(&self, outline: Outline<'_>, ran: Ran) -> RaceError {
        let reason = ran.reason.expect("the race did not come to its end");
        let (whole, runs) = (ran.whole.len(), ran.tasks);
        if whole == 0 && !matches!(reason, Reason::Run { .. }) {
            let _ = fs::remove_dir_all(&self.work);
            return reason.into();
        }
        let words = reason.to_string();
        let first = words.lines().next().unwrap_or_default();
        let partial = format!("{whole} of {runs} runs: {first}");
        let saved = whole > 0
            && outline
                .result(ran.whole, Some(partial), None)
                .and_then(|result| self.save(&result))
                .is_ok();
        let files = self.fail();
        RaceError {
            kept: saved.then(|| Kept {
                whole,
                runs,
                result: files.join(RESULT),
            }),
            reason: self.moved(reason, files),
        }
    }

    fn save(&self, result: &RunResult) -> Result<(), Reason> {
        let saved = result.save_atomic(&self.work.join(RESULT));
        saved.map_err(|error| {
            let cause = std::error::Error::source(&error);
            Reason::Unsound(cause.map_or(error.to_string(), |cause| format!("{error}: {cause}")))
        })
    }

    /// Puts the folder where failed races are kept; where that cannot be, it stays where it is.
    fn fail(&self) -> &Path {
        match replace(&self.work, &self.failed) {
            Ok(()) => &self.failed,
            Err(_) => &self.work,
        }
    }

    /// The reason with its logs where they are once the folder has moved.
    fn moved(&self, reason: Reason, files: &Path) -> Reason {
        match reason {
            Reason::Run {
                variant,
                fault,
                logs,
            } => Reason::Run {
                variant,
                fault,
                logs: logs
                    .strip_prefix(&self.work)
                    .map_or_else(|_| logs.clone(), |rest| files.join(rest)),
            },
            other => other,
        }
    }
}
