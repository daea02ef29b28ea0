// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results as one page of HTML that needs nothing beside it: no script, font or image from
//! elsewhere.
//!
//! The page is made in two steps: this module and its children turn results into strings and
//! charts, and the template `page.html` puts them in place. Every string from a result passes the
//! template's escaping, or [`crate::svg::escape`] inside a chart.

mod charts;
pub mod swept;
mod tables;

use askama::Template;
use steady_measures::{Comparison, Error, RunResult, VariantResult};

use crate::{answer, humane, kernel, pick};
use charts::{Latency, Section};
use tables::{Group, Measures};

/// The results as a page, in the order given. Those of one scenario belong on one page.
///
/// # Errors
/// If a result has no variants, or distributions of one name that cannot be merged.
pub fn page(results: &[RunResult]) -> Result<String, Error> {
    let runs = results
        .iter()
        .enumerate()
        .map(|(at, result)| Run::new(at, result))
        .collect::<Result<Vec<_>, _>>()?;
    let first = results.first().map(|result| &result.scenario);
    let page = Page {
        title: first.map_or("Steady", |scenario| &scenario.title),
        name: first.map_or("", |scenario| &scenario.name),
        question: first.map_or("", |scenario| &scenario.question),
        runs,
    };
    Ok(page.render().expect("rendering to memory cannot fail"))
}

/// What every page begins with: its title and the style sheet that all share. It ends within the
/// element `style`, so that a page can add rules of its own and closes it and the head.
#[must_use]
pub fn head(title: &str) -> String {
    let head = Head { title };
    head.render().expect("rendering to memory cannot fail")
}

#[derive(Template)]
#[template(path = "head.html")]
struct Head<'a> {
    title: &'a str,
}

#[derive(Template)]
#[template(path = "page.html")]
struct Page<'a> {
    title: &'a str,
    name: &'a str,
    question: &'a str,
    runs: Vec<Run<'a>>,
}

/// Everything that the page says of one result.
struct Run<'a> {
    id: String,
    result: &'a RunResult,
    /// The scenario's title, where the page's heading is that of another scenario.
    heading: String,
    answer: Vec<answer::Line>,
    conditions: Vec<String>,
    picture: Option<(String, String)>,
    facts: Vec<(String, String)>,
    variants: Vec<Variant<'a>>,
    baseline: &'a str,
    note: String,
    warnings: Vec<String>,
    verdict: Vec<Group>,
    latencies: Vec<Latency>,
    sections: Vec<Section>,
    several_repetitions: bool,
    all: Measures,
    config: Vec<(String, String)>,
    artifacts: Vec<(String, String, String)>,
    phases: Vec<(String, String)>,
}

struct Variant<'a> {
    name: &'a str,
    title: &'a str,
    colour: String,
    remedies: String,
    baseline: bool,
}

impl<'a> Run<'a> {
    fn new(at: usize, result: &'a RunResult) -> Result<Self, Error> {
        let comparison = Comparison::new(result, None)?;
        let id = format!("r{at}");
        let engine = &result.engine;
        let heading = format!("{} on {}", result.scenario.name, engine.name);
        let variants = result.variants.iter().enumerate();
        let several_repetitions = result.variants.iter().any(|v| v.repetitions.len() > 1);
        Ok(Self {
            heading,
            answer: answer::lines(result, &comparison),
            conditions: answer::conditions(result),
            picture: charts::answer(&id, result, &comparison),
            facts: facts(result),
            variants: variants
                .map(|(at, variant)| Variant::new(at, variant, comparison.baseline))
                .collect(),
            baseline: &result.variants[comparison.baseline].name,
            note: note(several_repetitions),
            several_repetitions,
            warnings: warnings(result),
            verdict: tables::verdict(&comparison),
            latencies: charts::latencies(&id, result)?,
            sections: charts::sections(&id, result, &comparison),
            all: tables::everything(&comparison),
            config: config(result),
            artifacts: artifacts(result),
            phases: phases(result),
            id,
            result,
        })
    }
}

impl<'a> Variant<'a> {
    fn new(at: usize, variant: &'a VariantResult, baseline: usize) -> Self {
        let remedies = if variant.remedies.is_empty() {
            "none".to_owned()
        } else {
            variant.remedies.join(", ")
        };
        Self {
            name: &variant.name,
            title: &variant.title,
            colour: crate::svg::colour('s', at),
            remedies,
            baseline: at == baseline,
        }
    }
}

/// What a reader wants to know before any number.
fn facts(result: &RunResult) -> Vec<(String, String)> {
    let engine = &result.engine;
    let mut facts = vec![
        (
            "Engine".to_owned(),
            format!("{} {}", engine.name, engine.version),
        ),
        ("Clock".to_owned(), humane::clock(engine.clock)),
    ];
    let releases = kernel::releases(&result.config);
    if !releases.is_empty() {
        facts.push(("Kernel".to_owned(), releases.join(", ")));
    }
    let known = [("vmm", "VMM"), ("pcpus", "pCPUs")];
    for (key, words) in known {
        if let Some(value) = result.config.get(key) {
            facts.push((words.to_owned(), value.clone()));
        }
    }
    facts.push(("Seed".to_owned(), result.seed.to_string()));
    let most = result.variants.iter().map(|v| v.repetitions.len()).max();
    facts.push(("Repetitions".to_owned(), most.unwrap_or(0).to_string()));
    if !result.run.started.is_empty() {
        facts.push(("Started".to_owned(), result.run.started.clone()));
    }
    facts
}

/// How to read the numbers.
fn note(several_repetitions: bool) -> String {
    let medians = if several_repetitions {
        "Values are medians over the repetitions. "
    } else {
        ""
    };
    format!("{medians}↓ lower is better, ↑ higher is better.")
}

fn warnings(result: &RunResult) -> Vec<String> {
    let partial = result.partial.iter();
    let mut found: Vec<String> = partial
        .map(|partial| format!("this race did not end: {partial}"))
        .collect();
    found.extend(answer::no_verdict(result));
    for variant in &result.variants {
        for repetition in &variant.repetitions {
            for warning in &repetition.warnings {
                found.push(format!(
                    "{}, repetition {}: {} ({})",
                    variant.name, repetition.index, warning.text, warning.code
                ));
            }
        }
    }
    found
}

fn config(result: &RunResult) -> Vec<(String, String)> {
    let mut rows = vec![
        ("scenario digest".to_owned(), result.scenario.digest.clone()),
        ("measures digest".to_owned(), result.measures_digest.clone()),
    ];
    let pairs = result.config.iter();
    rows.extend(pairs.map(|(key, value)| (key.clone(), value.clone())));
    for (words, value) in [("tool", &result.run.tool), ("machine", &result.run.machine)] {
        rows.push((words.to_owned(), value.clone()));
    }
    rows.retain(|(_, value)| !value.is_empty());
    rows
}

fn artifacts(result: &RunResult) -> Vec<(String, String, String)> {
    let repetitions = result.variants.iter().flat_map(|v| &v.repetitions);
    repetitions
        .flat_map(|repetition| &repetition.artifacts)
        .map(|artifact| {
            let size = humane::positive(steady_measures::Unit::Bytes, artifact.bytes);
            (artifact.path.clone(), size, artifact.sha256.clone())
        })
        .collect()
}

/// Wall time by phase, one line per repetition.
fn phases(result: &RunResult) -> Vec<(String, String)> {
    let mut lines: Vec<(String, String)> = Vec::new();
    for phase in &result.run.phases {
        let of = format!("{}, repetition {}", phase.variant, phase.repetition);
        let spent = format!("{} {}", phase.phase, humane::milliseconds(phase.wall_ms));
        match lines.last_mut() {
            Some((last, text)) if *last == of => {
                text.push_str(" · ");
                text.push_str(&spent);
            }
            _ => lines.push((of, spent)),
        }
    }
    if result.run.wall_ms > 0 {
        let whole = humane::milliseconds(result.run.wall_ms);
        lines.push(("whole run".to_owned(), whole));
    }
    lines
}

/// The direction mark behind a row's words.
fn words(row: &steady_measures::Row) -> String {
    let label = pick::label(&row.key.name);
    match row.better {
        steady_measures::Better::Higher => label + " ↑",
        steady_measures::Better::Lower => label + " ↓",
        steady_measures::Better::Neutral => label,
    }
}
