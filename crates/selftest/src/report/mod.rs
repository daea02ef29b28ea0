// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the runs of one engine say together: each test's verdicts over the repetitions, and what
//! should not be.
//!
//! A patched kernel is compared with the stock one of the same configuration, in the same
//! repetition. A complaint is the same on both where its words are, numbers and offsets left out.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::Serialize;
use steady_lab_artifacts::kernel::{Build, Series};

use super::verdict::{Outcome, TestResult};

/// Version of the report's JSON. 2: repetitions, verdicts over them, complaints.
const SCHEMA_VERSION: u32 = 2;

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
    /// How often the suite was to run on each kernel.
    pub repetitions: u32,
    /// Why runs are missing, if some are; what is there counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
    /// One for each kernel and repetition.
    pub runs: Vec<KernelRun>,
    /// One for each test, in the order of the list.
    pub tests: Vec<Row>,
    /// What should not be, in one sentence each; empty if all is well.
    pub faults: Vec<String>,
}

/// What the tests did on one kernel in one boot.
#[derive(Debug, Serialize)]
pub struct KernelRun {
    /// `stock`, `patched`, and after a hyphen a configuration that is not the lab's.
    pub kernel: &'static str,
    /// The same for programs.
    #[serde(skip)]
    pub build: Build,
    /// Its release.
    pub release: String,
    /// From 0.
    pub repetition: u32,
    /// What the waits before the tests were drawn from.
    pub seed: u64,
    /// Folder of the run's logs.
    pub logs: PathBuf,
    /// How the host was lost, if it was: tests behind that one are not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
    /// What the kernel complained of before, between and after the tests.
    pub complaints: Vec<String>,
    /// One for each test that ended, in the order of the list.
    pub tests: Vec<TestResult>,
}

/// One test over all kernels and repetitions.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Whether it is this project's.
    pub own: bool,
    /// Whether it says different things on the same kernel.
    pub unsteady: bool,
    /// One for each kernel.
    pub kernels: Vec<Verdicts>,
}

/// One test on one kernel.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Verdicts {
    /// The kernel.
    pub kernel: &'static str,
    /// By repetition; `None` where it did not come to run.
    pub outcomes: Vec<Option<Outcome>>,
}

impl Verdicts {
    /// How many say what: `10 pass`, `9 pass, 1 fail`.
    #[must_use]
    pub fn words(&self) -> String {
        let said: Vec<Outcome> = self.outcomes.iter().copied().flatten().collect();
        let of = |wanted| said.iter().filter(|&&it| it == wanted).count();
        let words: Vec<String> = Outcome::ALL
            .into_iter()
            .map(|outcome| (of(outcome), outcome.name()))
            .filter(|&(count, _)| count > 0)
            .map(|(count, name)| format!("{count} {name}"))
            .collect();
        words.join(", ")
    }

    fn unsteady(&self) -> bool {
        let said: BTreeSet<Outcome> = self.outcomes.iter().copied().flatten().collect();
        said.len() > 1
    }
}

impl Report {
    /// The report of these runs of `names`.
    #[must_use]
    pub fn new(
        engine: (&'static str, String),
        repetitions: u32,
        names: &[(String, bool)],
        mut runs: Vec<KernelRun>,
        partial: Option<String>,
    ) -> Self {
        runs.sort_by_key(|run| (run.build, run.repetition));
        let tests = rows(names, &runs, repetitions);
        Self {
            schema: "steady.selftest",
            version: SCHEMA_VERSION,
            engine: engine.0,
            engine_version: engine.1,
            repetitions,
            partial,
            faults: faults(&runs, &tests, repetitions),
            runs,
            tests,
        }
    }

    /// The kernels, each once.
    #[must_use]
    pub fn kernels(&self) -> Vec<&'static str> {
        let mut names: Vec<&'static str> = self.runs.iter().map(|run| run.kernel).collect();
        names.dedup();
        names
    }
}

fn rows(names: &[(String, bool)], runs: &[KernelRun], repetitions: u32) -> Vec<Row> {
    let builds: BTreeSet<Build> = runs.iter().map(|run| run.build).collect();
    let row = |(name, own): &(String, bool)| {
        let verdicts = |&build: &Build| {
            let mut outcomes = vec![None; repetitions as usize];
            for run in runs.iter().filter(|run| run.build == build) {
                let test = run.tests.iter().find(|test| test.name == *name);
                outcomes[run.repetition as usize] = test.map(|test| test.outcome);
            }
            let kernel = build.name();
            Verdicts { kernel, outcomes }
        };
        let kernels: Vec<Verdicts> = builds.iter().map(verdicts).collect();
        Row {
            name: name.clone(),
            own: *own,
            unsteady: kernels.iter().any(Verdicts::unsteady),
            kernels,
        }
    };
    names.iter().map(row).collect()
}

/// Sentences with the number of repetitions in which they hold, in the order in which they came.
#[derive(Default)]
struct Tally(Vec<(String, u32)>);

impl Tally {
    fn add(&mut self, sentence: String) {
        match self.0.iter_mut().find(|(known, _)| *known == sentence) {
            Some((_, times)) => *times += 1,
            None => self.0.push((sentence, 1)),
        }
    }

    fn sentences(self, repetitions: u32) -> Vec<String> {
        let told = |(sentence, times)| match repetitions {
            1 => sentence,
            _ => format!("{sentence} ({times} of {repetitions} repetitions)"),
        };
        self.0.into_iter().map(told).collect()
    }
}

/// What should not be: a kernel's test that says another thing on the patched kernel than on the
/// stock one, or fails where only one of them was run; a complaint that the stock kernel does not
/// have; a test of ours that does not pass on the patched kernel, or does more than skip on the
/// stock one; a host that was lost; a test that is not the same each time.
fn faults(runs: &[KernelRun], rows: &[Row], repetitions: u32) -> Vec<String> {
    let mut found = Tally::default();
    for run in runs {
        let beside = |series| Build {
            series,
            ..run.build
        };
        let is = |other: &&KernelRun, series| other.build == beside(series);
        let stock = (run.build.series == Series::Patched)
            .then(|| {
                let mut same = runs.iter().filter(|it| it.repetition == run.repetition);
                same.find(|it| is(it, Series::Stock))
            })
            .flatten();
        let alone = [Series::Stock, Series::Patched]
            .into_iter()
            .any(|series| !runs.iter().any(|other| is(&other, series)));
        for test in &run.tests {
            let of_stock = stock.and_then(|stock| stock.named(&test.name));
            judge(run, test, of_stock, alone, &mut found);
        }
        let known = stock.map_or_else(BTreeSet::new, |stock| alike(&stock.complaints));
        for complaint in &run.complaints {
            let excused = run.build.series == Series::Stock && !alone;
            if !excused && !known.contains(&normal(complaint)) {
                found.add(format!("the {} kernel complained: {complaint}", run.kernel));
            }
        }
    }
    let mut faults = found.sentences(repetitions);
    for row in rows {
        for verdicts in row.kernels.iter().filter(|kernel| kernel.unsteady()) {
            faults.push(format!(
                "{}: unsteady on the {} kernel: {}",
                row.name,
                verdicts.kernel,
                verdicts.words()
            ));
        }
    }
    let lost = runs.iter().filter_map(|run| {
        let how = run.lost.as_ref()?;
        let (kernel, logs) = (run.kernel, run.logs.display());
        let number = run.repetition + 1;
        Some(format!(
            "the {kernel} kernel's run {number} of {repetitions} was lost: {how}\nlogs: {logs}"
        ))
    });
    faults.extend(lost);
    faults
}

impl KernelRun {
    /// The result of a test, if it came to run.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&TestResult> {
        self.tests.iter().find(|test| test.name == name)
    }
}

/// Whether one test's result is a fault; `stock` is the same test on the stock kernel beside it.
fn judge(
    run: &KernelRun,
    test: &TestResult,
    stock: Option<&TestResult>,
    alone: bool,
    found: &mut Tally,
) {
    let (name, outcome) = (&test.name, test.outcome.name());
    let wrong = match (test.own, run.build.series) {
        (true, Series::Stock) => test.outcome != Outcome::Skip,
        (true, Series::Patched) => test.outcome != Outcome::Pass,
        (false, _) => alone && test.outcome == Outcome::Fail,
    };
    if wrong {
        found.add(format!("{name}: {outcome} on the {} kernel", run.kernel));
        return;
    }
    let Some(stock) = stock.filter(|_| !test.own) else {
        return;
    };
    if stock.outcome != test.outcome {
        let of_stock = Build {
            series: Series::Stock,
            ..run.build
        };
        found.add(format!(
            "{name}: {} on the {} kernel, {outcome} on the {} kernel",
            stock.outcome.name(),
            of_stock.name(),
            run.kernel
        ));
        return;
    }
    let known = alike(&stock.complaints);
    for complaint in &test.complaints {
        if !known.contains(&normal(complaint)) {
            let kernel = run.kernel;
            found.add(format!(
                "{name}: the {kernel} kernel complained: {complaint}"
            ));
        }
    }
}

/// Complaints as they are compared.
pub(crate) fn alike(complaints: &[String]) -> BTreeSet<String> {
    complaints.iter().map(|text| normal(text)).collect()
}

/// A complaint without what is not the same in another boot or on another kernel: numbers, and what
/// stands behind a function's name.
fn normal(complaint: &str) -> String {
    let words = complaint.split('+').next().unwrap_or_default();
    let mut text = String::new();
    for letter in words.chars() {
        let number = letter.is_ascii_digit();
        if !(number && text.ends_with('#')) {
            text.push(if number { '#' } else { letter });
        }
    }
    text
}

#[cfg(test)]
mod tests;
