// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A made-up project with one system, one claim, one paper and one record, in a folder of its own.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use steady_evidence::{House, Keys, Record, page};
use steady_measures::{
    Better, Clock, EngineInfo, Metric, Repetition, RunResult, ScenarioInfo, Unit, VariantResult,
};
use steady_scenario::Scenario;

/// Where its claims are.
pub const CLAIMS_FILE: &str = "evidence/claims/shoot4u.toml";

pub const SCENARIO: &str = r#"
schema = 2
name = "pair"
title = "A pair"
question = "How much?"
host = { pcpus = 2, memory_mib = 512 }
variant = [{ name = "stock" }, { name = "shoot4u", shoot4u = {} }]
[[vm]]
name = "victim"
vcpus = 2
memory_mib = 96
pin = [0, 1]
workload = [{ program = "shootdown" }]
"#;

pub const CLAIMS: &str = r#"
schema = 1
system = "shoot4u"
title = "Shoot4U"
what = "It has the host invalidate."
answer = ["The tail is {ratio tail p99 shoot4u} with {seeds tail} seeds ({conditions tail})."]
[score]
place = 1
says = "tail of a shootdown"
claim = "tail"
row = "p99"
variant = "shoot4u"
more = "steady reproduce shoot4u"
[[claim]]
id = "tail"
subject = "Shootdowns"
basis = "measured"
scenario = "scenarios/pair.toml"
engine = "bochs"
base = "stock"
variants = ["shoot4u"]
seeds = 8
conditions = { ple = "on", pv = "all", placement = "pinned", vms = 1, vcpus = 2, pcpus = 2 }
[[claim.row]]
id = "p99"
vm = "victim"
workload = "shootdown"
measure = "shootdown.latency.p99"
what = "p99"
"#;

pub const PAPER: &str = r#"
schema = 1
paper = "shoot4u"
title = "Shoot4U"
venue = "VEE"
conditions = "twelve vCPUs"
[[item]]
id = "one"
place = "Table 1"
kind = "table"
what = "tail"
value = "1 us"
expect = "lower"
here = { claim = "tail", row = "p99", variant = "shoot4u" }
[[item]]
id = "two"
place = "Figure 1"
kind = "figure"
what = "hardware"
value = "a photograph"
not_here = "A photograph shows nothing that can be measured."
"#;

pub const GUIDE: &str = "\
# Guide

<!-- evidence: matrix tail -->
<!-- evidence: end -->
";

pub const README: &str = "\
# Steady

<!-- evidence: scoreboard -->
<!-- evidence: end -->
<!-- evidence: matrix tail -->
<!-- evidence: end -->
";
pub const INDEX: &str = "<!-- evidence: scoreboard -->\n<!-- evidence: end -->\n";

/// A project whose pages are rendered.
pub struct Project {
    folder: tempfile::TempDir,
}

impl Project {
    pub fn new() -> Self {
        let project = Self::bare();
        project.save_record(8);
        project.render();
        project
    }

    /// Without record and pages.
    pub fn bare() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let project = Self { folder };
        for name in [
            "scenarios",
            "evidence/claims",
            "evidence/papers",
            "docs/validation",
            "linux/new",
            "lab/bochs",
        ] {
            fs::create_dir_all(project.root().join(name)).unwrap();
        }
        project.write("scenarios/pair.toml", SCENARIO);
        project.write("evidence/claims/shoot4u.toml", CLAIMS);
        project.write("evidence/papers/shoot4u.toml", PAPER);
        project.write("README.md", README);
        project.write("docs/validation/README.md", INDEX);
        let long = "A line.\n".repeat(200);
        project.write("docs/GUIDE.md", &(GUIDE.to_owned() + &long));
        project.write("linux/new/shoot4u.c", "int x;\n");
        project.write("lab/bochs/0001.patch", "--- a\n");
        project
    }

    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.root().join(name), text).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.root().join(name)).unwrap()
    }

    /// A file with one text in place of another, which must be there.
    pub fn change(&self, name: &str, from: &str, to: &str) {
        let text = self.read(name);
        assert!(text.contains(from), "{name} has no {from}");
        self.write(name, &text.replacen(from, to, 1));
    }

    pub fn house(&self) -> House {
        let keys = Keys::of_tree(self.root(), BTreeMap::new()).unwrap();
        House::load(self.root(), keys).unwrap()
    }

    /// Records a number of seeds of the claim, by values that differ by seed.
    pub fn save_record(&self, seeds: u32) -> PathBuf {
        let house = self.house();
        let race = house.races().remove(0);
        let record = Record::reduced(self.result(seeds), &race, &house.keys).unwrap();
        record.save(self.root()).unwrap()
    }

    pub fn result(&self, seeds: u32) -> RunResult {
        let scenario = Scenario::load(self.root().join("scenarios/pair.toml")).unwrap();
        let info = ScenarioInfo {
            name: scenario.name.clone(),
            title: scenario.title.clone(),
            question: scenario.question.clone(),
            digest: scenario.digest(),
        };
        let engine = EngineInfo {
            name: "bochs".to_owned(),
            version: "3.0".to_owned(),
            clock: Clock::Instructions {
                per_second: 200_000_000,
            },
            description: "made up".to_owned(),
        };
        let mut result = RunResult::new(info, engine, 1);
        result.variants = vec![
            variant("stock", 1_000_000, seeds),
            variant("shoot4u", 50_000, seeds),
            variant("third", 100_000, seeds),
        ];
        let facts = [("kernel.hz", "250"), ("image_sha256", "c07b")];
        let facts = facts.map(|(key, value)| (key.to_owned(), value.to_owned()));
        result.config.extend(facts);
        result.seal();
        result
    }

    pub fn render(&self) {
        let house = self.house();
        let read = |name: &str| fs::read_to_string(self.root().join(name)).ok();
        for (name, text) in page::all(&house, &read).unwrap() {
            self.write(&name, &text);
        }
    }

    /// What a check finds, as text.
    pub fn problems(&self) -> Vec<String> {
        let found = steady_evidence::check(&self.house());
        found.iter().map(ToString::to_string).collect()
    }
}

/// Adds guest time of two kinds to each run: the first takes three parts of four without the
/// remedy, and one of four with it. Runs are apart by `step`.
pub fn add_guest_time(result: &mut RunResult, kinds: [&str; 2], step: i64) {
    for variant in &mut result.variants {
        let parts = match variant.name.as_str() {
            "stock" => [3, 1],
            _ => [1, 3],
        };
        for run in &mut variant.repetitions {
            let scale = 1_000_000 + i64::from(run.index) * step;
            let metrics = kinds.into_iter().zip(parts).map(|(name, part)| {
                let metric = Metric::new(name, Unit::Ns, Better::Lower, part * scale);
                metric.in_vm("victim").of_workload("shootdown")
            });
            run.metrics.extend(metrics);
        }
    }
    result.seal();
}

fn variant(name: &str, value: i64, seeds: u32) -> VariantResult {
    let run = |index: u32| {
        let value = value + i64::from(index) * value / 50;
        let metric = Metric::new("shootdown.latency.p99", Unit::Ns, Better::Lower, value);
        let other = Metric::new("exits.total", Unit::Count, Better::Lower, 7);
        Repetition {
            index,
            seed: Some(1 + u64::from(index)),
            metrics: vec![metric.in_vm("victim").of_workload("shootdown"), other],
            ..Repetition::default()
        }
    };
    VariantResult {
        name: name.to_owned(),
        title: name.to_owned(),
        remedies: Vec::new(),
        repetitions: (0..seeds).map(run).collect(),
    }
}
