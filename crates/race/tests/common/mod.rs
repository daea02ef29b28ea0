// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An engine whose every run does what a test says, on a machine that does what a test says.

#![allow(dead_code, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use steady_measures::{Better, Clock, Metric, RunResult, Unit};
use steady_race::{
    Engine, Failed, Fault, Info, Job, Machine, Options, Outcome, Prepared, Race, RaceError,
    Refusal, Silent, Trouble, Why, race_on,
};
use steady_scenario::{Scenario, Variant};

/// What one run does.
pub type Play = fn(&Mock, &Job<'_>) -> Result<(), Failed>;

/// The engine.
pub struct Mock {
    pub play: Play,
    /// The value of the only measure, `time`.
    pub value: fn(&Job<'_>) -> u64,
    pub retries_lost: Option<&'static str>,
    pub more_tries: u32,
    pub refuses: bool,
    pub beside: usize,
    pub machine: MockMachine,
    /// Runs begun.
    pub runs: AtomicUsize,
    /// Runs under way, and the most there ever were.
    pub under_way: AtomicUsize,
    pub most_under_way: AtomicUsize,
    /// Jobs as they were given: variant, repetition, seed.
    pub jobs: Mutex<Vec<(String, u32, u64)>>,
}

/// The machine.
#[derive(Default)]
pub struct MockMachine {
    pub interrupted: AtomicBool,
    /// Bytes that are not free of a very large disk.
    pub used: AtomicU64,
}

impl Machine for MockMachine {
    fn interrupted(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst)
    }

    fn free_bytes(&self, _path: &Path) -> Option<u64> {
        Some(u64::MAX - self.used.load(Ordering::SeqCst))
    }

    fn describe(&self) -> String {
        "a machine of a test".to_owned()
    }
}

impl Mock {
    pub fn new(play: Play) -> Self {
        Self {
            play,
            value: |job| job.seed * 10,
            retries_lost: Some("as mocks do"),
            more_tries: 1,
            refuses: false,
            beside: 1,
            machine: MockMachine::default(),
            runs: AtomicUsize::new(0),
            under_way: AtomicUsize::new(0),
            most_under_way: AtomicUsize::new(0),
            jobs: Mutex::new(Vec::new()),
        }
    }

    pub fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

impl Engine for Mock {
    fn info(&self) -> Info {
        Info {
            name: "mock",
            description: "does what a test says",
            clock: Clock::Simulated,
            retries_lost: self.retries_lost,
        }
    }

    fn check(&self, _: &Scenario, _: &[&Variant], _: &Options) -> Result<(), Refusal> {
        if self.refuses {
            return Err(Refusal {
                what: "48 pCPUs".to_owned(),
                limit: "the engine mock gives at most 8".to_owned(),
            });
        }
        Ok(())
    }

    fn prepare<'a>(
        &'a self,
        _: &'a Scenario,
        _: &[&'a Variant],
        _: &'a Options,
        _: &dyn steady_race::Watcher,
    ) -> Result<Box<dyn Prepared + 'a>, Trouble> {
        Ok(Box::new(Ready(self)))
    }
}

struct Ready<'a>(&'a Mock);

impl Prepared for Ready<'_> {
    fn version(&self) -> String {
        "1".to_owned()
    }

    fn beside(&self) -> usize {
        self.0.beside
    }

    fn config(&self) -> BTreeMap<String, String> {
        BTreeMap::from([("mock".to_owned(), "yes".to_owned())])
    }

    fn more_tries(&self, variant: &Variant) -> u32 {
        match variant.name.as_str() {
            "b" => self.0.more_tries,
            _ => 1,
        }
    }

    fn run(&self, job: &Job<'_>, step: &dyn Fn(&str)) -> Result<Outcome, Failed> {
        let mock = self.0;
        mock.runs.fetch_add(1, Ordering::SeqCst);
        let now = mock.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        mock.most_under_way.fetch_max(now, Ordering::SeqCst);
        let named = (job.variant.name.clone(), job.index, job.seed);
        mock.jobs.lock().unwrap().push(named);
        step("began");
        fs::write(job.directory.join("serial.log"), "words\n").unwrap();
        let played = (mock.play)(mock, job);
        mock.under_way.fetch_sub(1, Ordering::SeqCst);
        played?;
        let value = i64::try_from((mock.value)(job)).unwrap();
        let mut outcome = Outcome::default();
        outcome
            .repetition
            .metrics
            .push(Metric::new("time", Unit::Ns, Better::Lower, value));
        outcome
            .facts
            .insert(format!("fact.{}", job.variant.name), job.index.to_string());
        Ok(outcome)
    }
}

/// A run that ends well.
pub fn well(_: &Mock, _: &Job<'_>) -> Result<(), Failed> {
    Ok(())
}

/// A fault of a run, lost or not.
pub fn fault(words: &'static str, lost: Option<&'static str>) -> Failed {
    Fault {
        error: words.into(),
        lost,
    }
    .into()
}

/// Something around a run.
pub fn trouble(why: Why, words: &'static str) -> Failed {
    Trouble {
        why,
        error: words.into(),
    }
    .into()
}

/// The run of a variant's repetition, as folders name it.
pub fn is(job: &Job<'_>, name: &str) -> bool {
    job.directory.file_name().unwrap() == name
}

/// Two variants, `a` and `b`, two repetitions of each, seed 5.
pub fn scenario() -> Scenario {
    let text = "schema = 2\nname = \"test\"\ntitle = \"t\"\nquestion = \"q\"\nseed = 5\n\
        repetitions = 2\n[host]\npcpus = 2\nmemory_mib = 384\n[[vm]]\nname = \"guest\"\nvcpus = 2\n\
        memory_mib = 96\n[[vm.workload]]\nprogram = \"shootdown\"\n[[variant]]\nname = \"a\"\n\
        [[variant]]\nname = \"b\"\n";
    Scenario::parse(text, "test.toml").expect("a scenario")
}

/// A place for results.
pub struct Place(pub tempfile::TempDir);

impl Place {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn options(&self) -> Options {
        Options {
            out: self.0.path().to_owned(),
            ..Options::default()
        }
    }

    pub fn race(&self, mock: &Mock) -> Result<Race, RaceError> {
        race_on(&mock.machine, mock, &scenario(), &self.options(), &Silent)
    }

    pub fn fails(&self, mock: &Mock) -> RaceError {
        self.race(mock).expect_err("the race fails")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join("test").join(name)
    }

    pub fn result(&self, folder: &str) -> RunResult {
        RunResult::load(&self.path(folder).join("result.json")).expect("a sound result")
    }

    /// What stands beside each other in the scenario's folder, sorted.
    pub fn names(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.0.path().join("test")) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

/// How many runs of each variant a result has.
pub fn runs_of(result: &RunResult) -> Vec<(&str, usize)> {
    let variants = result.variants.iter();
    variants
        .map(|variant| (variant.name.as_str(), variant.repetitions.len()))
        .collect()
}
