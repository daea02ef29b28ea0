// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An engine that does nothing: the least that a room behind the trait has to say.

use std::collections::BTreeMap;

use steady_measures::Clock;
use steady_race::{
    Engine, Failed, Info, Job, Options, Outcome, Prepared, Refusal, Trouble, Watcher,
};
use steady_scenario::{Scenario, Variant};

/// The engine.
struct Nothing;

/// Makes it.
#[expect(clippy::unnecessary_wraps, reason = "an entry's constructor may fail")]
pub fn engine() -> Result<Box<dyn Engine>, Trouble> {
    Ok(Box::new(Nothing))
}

impl Engine for Nothing {
    fn info(&self) -> Info {
        Info {
            name: "nothing",
            description: "does nothing, in no time",
            clock: Clock::Simulated,
            retries_lost: None,
        }
    }

    fn check(&self, _: &Scenario, _: &[&Variant], options: &Options) -> Result<(), Refusal> {
        if options.trace {
            return Err(Refusal {
                what: "a trace".to_owned(),
                limit: "the engine nothing has none; leave out --trace".to_owned(),
            });
        }
        Ok(())
    }

    fn prepare<'a>(
        &'a self,
        _: &'a Scenario,
        _: &[&'a Variant],
        _: &'a Options,
        _: &dyn Watcher,
    ) -> Result<Box<dyn Prepared + 'a>, Trouble> {
        Ok(Box::new(Self))
    }
}

impl Prepared for Nothing {
    fn version(&self) -> String {
        "0".to_owned()
    }

    fn beside(&self) -> usize {
        1
    }

    fn config(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    fn run(&self, _: &Job<'_>, _: &dyn Fn(&str)) -> Result<Outcome, Failed> {
        Ok(Outcome::default())
    }
}
