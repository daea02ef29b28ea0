// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From the runs of a race to its sealed result.

use std::time::{Duration, Instant};

use steady_measures::{EngineInfo, RunResult, ScenarioInfo, VariantResult};
use steady_scenario::{Chosen, Conditions, Kernel, Scenario, Variant, Word};

use crate::engine::{Info, Outcome, Prepared};
use crate::error::Reason;
use crate::machine::Machine;
use crate::options::Options;
use crate::schedule::Task;

/// What a result says beside its runs.
#[derive(Clone, Copy)]
pub(crate) struct Outline<'a> {
    pub scenario: &'a Scenario,
    pub variants: &'a [&'a Variant],
    pub options: &'a Options,
    pub info: &'a Info,
    pub engine: &'a dyn Prepared,
    pub machine: &'a dyn Machine,
    pub begun: Instant,
}

impl Outline<'_> {
    /// The sealed result of these runs. With `partial`, the reason why they are not all, variants
    /// without a run are left out. `until`: how near its intervals came to what was asked for.
    pub fn result(
        &self,
        runs: Vec<(Task, Outcome)>,
        partial: Option<String>,
        until: Option<String>,
    ) -> Result<RunResult, Reason> {
        let scenario = ScenarioInfo {
            name: self.scenario.name.clone(),
            title: self.scenario.title.clone(),
            question: self.scenario.question.clone(),
            digest: self.scenario.digest(),
        };
        let engine = EngineInfo {
            name: self.info.name.to_owned(),
            version: self.engine.version(),
            clock: self.info.clock,
            description: self.info.description.to_owned(),
        };
        let mut result = RunResult::new(scenario, engine, self.scenario.seed);
        result.config = self.engine.config();
        let conditions = self.variants.iter().map(|variant| {
            let key = format!("conditions.{}", variant.name);
            (key, Conditions::of(self.scenario, variant).to_string())
        });
        result.config.extend(conditions);
        result
            .config
            .extend(until.map(|said| ("until".to_owned(), said)));
        result.variants = self.variants.iter().map(|variant| empty(variant)).collect();
        for (task, outcome) in runs {
            result.config.extend(outcome.facts);
            result.run.phases.extend(outcome.phases);
            let repetitions = &mut result.variants[task.variant].repetitions;
            repetitions.push(outcome.repetition);
        }
        if partial.is_some() {
            result
                .variants
                .retain(|variant| !variant.repetitions.is_empty());
        }
        result.partial = partial;
        result.run.started.clone_from(&self.options.started);
        let mut words = self.engine.environment();
        words.push(self.options.command.clone());
        result.run.command = words.join(" ");
        result.run.tool = match &self.options.tool[..] {
            "" => format!("steady {}", env!("CARGO_PKG_VERSION")),
            tool => tool.to_owned(),
        };
        result.run.machine = self.machine.describe();
        result.run.wall_ms = millis(self.begun.elapsed());
        result.seal();
        let checked = result.validate();
        checked.map_err(|error| Reason::Unsound(error.to_string()))?;
        Ok(result)
    }
}

/// A variant without repetitions yet.
fn empty(variant: &Variant) -> VariantResult {
    let mut remedies: Vec<String> = variant.remedies.iter().map(remedy_words).collect();
    if variant.kernel != Kernel::Patched {
        remedies.push(format!("kernel={}", variant.kernel.name()));
    }
    remedies.extend(
        variant
            .pv
            .iter()
            .filter(|&(_, on)| !on)
            .map(|(feature, _)| format!("pv.{}=off", feature.name())),
    );
    if !variant.switches.ple {
        remedies.push("ple=off".to_owned());
    }
    if let Some(window_ns) = variant.switches.ple_window_ns {
        remedies.push(format!("ple_window_ns={window_ns}"));
    }
    if variant.switches.apicv {
        remedies.push("apicv=on".to_owned());
    }
    if let Some(how) = variant.switches.dedicated {
        remedies.push(format!("dedicated={how}"));
    }
    VariantResult {
        name: variant.name.clone(),
        title: variant
            .title
            .clone()
            .unwrap_or_else(|| variant.name.clone()),
        remedies,
        repetitions: Vec::new(),
    }
}

/// A remedy as results name it: with its mode where that is not the default one.
fn remedy_words(chosen: &Chosen) -> String {
    let name = chosen.remedy.name;
    match chosen.mode {
        Some(mode) if mode.name != chosen.remedy.default_mode => format!("{name}={}", mode.name),
        _ => name.to_owned(),
    }
}

/// Whole milliseconds.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
