// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results for other programs and documents: every value as CSV (RFC 4180), and tables in Markdown.

use std::fmt::Write;

use steady_measures::{Better, Comparison, Error, RunResult};

use crate::{answer, humane, pick};

const INFALLIBLE: &str = "writing to a String cannot fail";
/// The columns of [`csv`].
const HEAD: &str = "file,scenario,engine,variant,repetition,seed,vm,workload,measure,unit,better,\
                    value";

/// Every value of every run, a line each under a line with the names of the columns. Each result
/// comes with what to call it.
#[must_use]
pub fn csv(results: &[(String, &RunResult)]) -> String {
    let mut text = format!("{HEAD}\n");
    for (file, result) in results {
        for variant in &result.variants {
            for run in &variant.repetitions {
                let seed = run.seed.map_or_else(String::new, |seed| seed.to_string());
                for metric in &run.metrics {
                    let words = [
                        file,
                        &result.scenario.name,
                        &result.engine.name,
                        &variant.name,
                        &run.index.to_string(),
                        &seed,
                        metric.vm.as_deref().unwrap_or_default(),
                        metric.workload.as_deref().unwrap_or_default(),
                        &metric.name,
                        metric.unit.as_str(),
                        better(metric.better),
                        &metric.value.to_string(),
                    ];
                    text.push_str(&words.map(field).join(","));
                    text.push('\n');
                }
            }
        }
    }
    text
}

fn better(better: Better) -> &'static str {
    match better {
        Better::Lower => "lower",
        Better::Higher => "higher",
        Better::Neutral => "neutral",
    }
}

/// A field, quoted where it must be.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// Tables in Markdown, of the measures that show most; a ratio in bold is shown to be more than
/// chance.
///
/// # Errors
/// If a result has no variants; one that was loaded always has.
pub fn markdown(results: &[RunResult]) -> Result<String, Error> {
    let mut text = String::new();
    for result in results {
        let comparison = Comparison::new(result, None)?;
        let names: Vec<String> = result.variants.iter().map(|v| cell(&v.name)).collect();
        if !text.is_empty() {
            text.push('\n');
        }
        let (scenario, engine) = (&result.scenario, &result.engine);
        writeln!(
            text,
            "### {} on {} {}\n",
            cell(&scenario.name),
            cell(&engine.name),
            cell(&engine.version)
        )
        .expect(INFALLIBLE);
        if let Some(reason) = answer::no_verdict(result) {
            writeln!(text, "Warning: {}.\n", cell(&reason)).expect(INFALLIBLE);
        }
        writeln!(text, "| measure | {} |", names.join(" | ")).expect(INFALLIBLE);
        writeln!(text, "|---|{}", "---|".repeat(names.len())).expect(INFALLIBLE);
        for group in pick::few(&comparison) {
            for row in &group.rows {
                let cells = row.cells.iter().enumerate().map(|(at, found)| {
                    let Some(found) = found else {
                        return "–".to_owned();
                    };
                    let value = humane::quantity(row.unit, found.median);
                    match found.ratio.filter(|_| at != comparison.baseline) {
                        None => value,
                        Some(ratio) => {
                            let mark = if pick::judged(*found).is_some() {
                                "**"
                            } else {
                                ""
                            };
                            format!("{value} {mark}{}{mark}", humane::ratio(ratio))
                        }
                    }
                });
                let cells: Vec<String> = cells.collect();
                let label = format!("{}: {}", group.title, pick::label(&row.key.name));
                writeln!(
                    text,
                    "| {}{} | {} |",
                    cell(&label),
                    arrow(row.better),
                    cells.join(" | ")
                )
                .expect(INFALLIBLE);
            }
        }
    }
    Ok(text)
}

fn arrow(better: Better) -> &'static str {
    match better {
        Better::Lower => " ↓",
        Better::Higher => " ↑",
        Better::Neutral => "",
    }
}

/// A text in a cell: no bar ends it and no character commands the terminal.
fn cell(text: &str) -> String {
    let plain = text
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c });
    plain.collect::<String>().replace('|', "\\|")
}

/// An item of a list, as text and as Markdown, without what commands the terminal.
#[must_use]
pub fn item(words: &str) -> String {
    format!("- {}\n", cell(words))
}
