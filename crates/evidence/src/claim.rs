// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claims: what is said of a system, and the race that shows it.
//!
//! A file `evidence/claims/SYSTEM.toml` has the words of a system's page and its claims. A claim
//! names its scenario, engine, variants, base, seeds and measures, and the conditions under which
//! it holds; [`crate::check`] compares the conditions with the scenario. Left out: numbers, which
//! are in records alone.

use std::collections::BTreeMap;

use serde::Deserialize;
use steady_measures::{Metric, RunResult};

use crate::also::Also;
use crate::captured::Captured;
use crate::counted::Counted;
use crate::house::House;
pub use crate::row::Row;

/// Version of the format that is read.
pub const CLAIMS_SCHEMA: u32 = 1;

/// What one file of claims says.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// Always [`CLAIMS_SCHEMA`].
    pub schema: u32,
    /// The system's word, and the stem of the file and of its page.
    pub system: String,
    /// Its name on pages.
    pub title: String,
    /// What it does, in one sentence.
    pub what: String,
    /// The answer: at most three sentences with [placeholders](crate::words).
    pub answer: Vec<String>,
    /// Where it does not help, a sentence each.
    #[serde(default)]
    pub no_help: Vec<String>,
    /// Limitations of what was measured, a sentence each.
    #[serde(default)]
    pub limitations: Vec<String>,
    /// Commands that show more, beside those of the claims.
    #[serde(default)]
    pub commands: Vec<String>,
    /// Its line of the scoreboard; absent for a page without one.
    pub score: Option<Score>,
    /// What is counted and not raced.
    #[serde(default)]
    pub counted: Vec<Counted>,
    /// The claims, in the order of the page.
    #[serde(rename = "claim", default)]
    pub claims: Vec<Claim>,
}

/// A system's line of the scoreboard.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Score {
    /// Its place on the scoreboard, from 1; systems of one place are in the order of their words.
    pub place: u32,
    /// What is claimed, in words without numbers.
    pub says: String,
    /// The claim.
    pub claim: String,
    /// Its row.
    pub row: String,
    /// The variant.
    pub variant: String,
    /// How to see more: a command.
    pub more: String,
    /// Cells of other hosts that the line names, too.
    #[serde(default)]
    pub also: Vec<Also>,
    /// What is counted of the system, and named besides.
    pub counted: Option<ScoreCounted>,
}

/// What a line of the scoreboard says of what is counted.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoreCounted {
    /// What is counted, in words without numbers.
    pub says: String,
    /// Word of the counted claim, of the same system.
    pub id: String,
}

impl System {
    /// What its line of the scoreboard says of what is counted; none if nothing can be said.
    pub(crate) fn counted_line(&self, house: &House) -> Option<String> {
        let wanted = self.score.as_ref()?.counted.as_ref()?;
        let counted = self.counted.iter().find(|one| one.id == wanted.id)?;
        Some(format!("{}: {}", wanted.says, counted.line(house)?))
    }
}

/// How a claim's numbers came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// Measured, with no parameter fitted.
    Measured,
    /// A parameter was fitted to this number.
    Calibrated,
    /// The number went in.
    Input,
    /// An upper or lower bound.
    Bound,
}

impl Basis {
    /// The word of files and tables.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Calibrated => "calibrated",
            Self::Input => "input",
            Self::Bound => "bound",
        }
    }

    /// Whether it comes out because it went in, so that it cannot agree with a paper.
    #[must_use]
    pub fn shows_nothing(self) -> bool {
        matches!(self, Self::Calibrated | Self::Input)
    }
}

/// One claim: a race and the measures that are looked at.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Its word, unique over all files.
    pub id: String,
    /// The race whose record it shares with other claims; absent: its own, of its word. Claims of
    /// one race have its scenario, engine and seeds in common.
    pub race: Option<String>,
    /// What the rows are of, as the subject of a sentence.
    pub subject: String,
    /// How its numbers came to be, where a row does not say otherwise.
    pub basis: Basis,
    /// The scenario's file from the project's root, or for the engine `coherence` the paper's word.
    pub scenario: String,
    /// The engine that races it.
    pub engine: String,
    /// The kernel that hosts and guests boot, a port of `linux/ports` by its version; absent: the
    /// lab's.
    pub kernel: Option<String>,
    /// Whose programs the user brings to the race, where its scenario names some by a path.
    pub brought: Option<String>,
    /// Whether each run is traced and the trace diagnosed, for rows `diagnosis.…`.
    #[serde(default)]
    pub trace: bool,
    /// What of each run is recorded, for rows `captured.…`; absent: nothing.
    pub captured: Option<Captured>,
    /// The variant to which ratios refer.
    pub base: String,
    /// The other variants.
    pub variants: Vec<String>,
    /// The variants that the page shows; all if absent. Papers are compared with the others too.
    pub show: Option<Vec<String>>,
    /// The first seed.
    #[serde(default = "one")]
    pub first_seed: u64,
    /// Seeds of a whole record.
    pub seeds: u32,
    /// What holds of every variant, by [`CONDITION_KEYS`] or the simulator's keys; compared with
    /// the scenario or the simulator.
    pub conditions: BTreeMap<String, toml::Value>,
    /// What was changed with a result known, and similar choices.
    #[serde(default)]
    pub disclosed: Vec<String>,
    /// The measures.
    #[serde(rename = "row")]
    pub rows: Vec<Row>,
}

const fn one() -> u64 {
    1
}

/// Conditions that a race's claim must state.
pub const CONDITION_KEYS: [&str; 6] = ["ple", "pv", "placement", "vms", "vcpus", "pcpus"];

impl Claim {
    /// The engine's name of simulated claims, which race no scenario.
    pub const SIMULATED: &'static str = "coherence";

    /// The word of its race, and of its record.
    #[must_use]
    pub fn race(&self) -> &str {
        self.race.as_deref().unwrap_or(&self.id)
    }

    /// Whether both are shown by one race.
    pub(crate) fn same_race(&self, other: &Self) -> bool {
        let of = |claim: &Self| {
            let place = (claim.scenario.clone(), claim.engine.clone(), claim.trace);
            let seeds = (claim.first_seed, claim.seeds);
            let parts = (claim.kernel.clone(), claim.brought.clone());
            (place, parts, seeds, claim.captured.clone())
        };
        of(self) == of(other)
    }

    /// Takes the other's variants and rows in as well.
    pub(crate) fn merge(&mut self, other: &Self) {
        for name in other.all_variants() {
            if !self.all_variants().any(|known| known == name) {
                self.variants.push(name.to_owned());
            }
        }
        for row in &other.rows {
            if !self.rows.iter().any(|known| known.has_values_of(row)) {
                self.rows.push(row.clone());
            }
        }
    }

    /// Whether it comes from the simulator of TLB coherence.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        self.engine == Self::SIMULATED
    }

    /// All variants, the base first.
    pub fn all_variants(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.base.as_str()).chain(self.variants.iter().map(String::as_str))
    }

    /// The seeds of a whole record.
    #[must_use]
    pub fn all_seeds(&self) -> Vec<u64> {
        let count = u64::from(self.seeds);
        (0..count)
            .map(|at| self.first_seed.wrapping_add(at))
            .collect()
    }

    /// Adds to each run what its rows are that follow from several metrics.
    pub(crate) fn add_derived(&self, result: &mut RunResult) {
        let runs = result.variants.iter_mut();
        for run in runs.flat_map(|variant| &mut variant.repetitions) {
            let found: Vec<Metric> = self
                .rows
                .iter()
                .filter_map(|row| row.derived(run))
                .collect();
            run.metrics.extend(found);
        }
    }

    /// How a row's numbers came to be.
    #[must_use]
    pub fn basis_of(&self, row: &Row) -> Basis {
        row.basis.unwrap_or(self.basis)
    }

    /// The row of that word.
    #[must_use]
    pub fn row(&self, id: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.id == id)
    }

    /// The command that repeats the race.
    #[must_use]
    pub fn command(&self) -> String {
        let programs = self.brought.as_ref().map(|_| " --programs FOLDER");
        format!(
            "steady evidence run {}{}",
            self.race(),
            programs.unwrap_or_default()
        )
    }
}
