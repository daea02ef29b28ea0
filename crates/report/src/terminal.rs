// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results as a table of text.
//!
//! One block per result: what was run, a table with a column per variant, what to be wary of.
//! Where the variants do not fit the width side by side, the table continues below.

use std::fmt::Write;

use steady_measures::{Better, Cell, Comparison, Error, Row, RunResult};

use crate::{answer, humane, kernel, pick};

/// How the table is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Columns to fill at most. One variant is shown even where it does not fit.
    pub width: usize,
    /// Whether to colour with ANSI sequences.
    pub colour: bool,
    /// Whether to show every metric, with the range over repetitions.
    pub verbose: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            width: 100,
            colour: false,
            verbose: false,
        }
    }
}

const GAP: &str = "   ";

/// The results as text that ends with a newline.
///
/// # Errors
/// If a result has no variants; one that was loaded always has.
pub fn table(results: &[RunResult], options: &Options) -> Result<String, Error> {
    let mut text = String::new();
    let mut previous = None;
    for result in results {
        if !text.is_empty() {
            text.push('\n');
        }
        let page = Page {
            result,
            comparison: Comparison::new(result, None)?,
            options,
        };
        if previous != Some(&result.scenario) {
            page.scenario(&mut text);
        }
        previous = Some(&result.scenario);
        page.answer(&mut text);
        page.engine(&mut text);
        page.metrics(&mut text);
        page.legend(&mut text);
        page.warnings(&mut text);
    }
    Ok(text)
}

struct Page<'a> {
    result: &'a RunResult,
    comparison: Comparison,
    options: &'a Options,
}

#[derive(Clone, Copy)]
enum Tone {
    Strong,
    Faint,
    Good,
    Bad,
    Plain,
}

impl Page<'_> {
    fn scenario(&self, text: &mut String) {
        let scenario = &self.result.scenario;
        let title = format!("{}: {}", clean(&scenario.name), clean(&scenario.title));
        line(text, &self.paint(Tone::Strong, &title));
        for row in wrapped(&clean(&scenario.question), " ", self.options.width) {
            line(text, &row);
        }
        text.push('\n');
    }

    fn engine(&self, text: &mut String) {
        let engine = &self.result.engine;
        let mut facts = vec![format!(
            "{} {}",
            clean(&engine.name),
            clean(&engine.version)
        )];
        let config = |key: &str| self.result.config.get(key).map(|value| clean(value));
        let releases = kernel::releases(&self.result.config);
        facts.extend(
            releases
                .iter()
                .map(|release| format!("Linux {}", clean(release))),
        );
        facts.extend(config("vmm").map(|vmm| format!("VMM {vmm}")));
        facts.extend(config("pcpus").map(|pcpus| match pcpus.as_str() {
            "1" => "1 pCPU".to_owned(),
            more => format!("{more} pCPUs"),
        }));
        facts.push(format!("seed {}", self.result.seed));
        facts.push(humane::clock(engine.clock));
        if let Some(digest) = config("coherence.config_sha256") {
            let digest: String = digest.chars().take(12).collect();
            facts.push(format!("configuration {digest}"));
        }
        let digest: String = self.result.measures_digest.chars().take(12).collect();
        facts.push(format!("measures {}", clean(&digest)));
        for (at, row) in wrapped(&facts.join(" · "), " · ", self.options.width)
            .iter()
            .enumerate()
        {
            let tone = if at == 0 { Tone::Strong } else { Tone::Plain };
            line(text, &self.paint(tone, row));
        }
    }

    /// What the race says, a line for each workload and variant.
    fn answer(&self, text: &mut String) {
        let lines = answer::lines(self.result, &self.comparison);
        for one in lines {
            for (at, row) in wrapped(&clean(&one.text), " ", self.options.width - 2)
                .iter()
                .enumerate()
            {
                let tone = match one.shown {
                    Some(true) => Tone::Good,
                    Some(false) => Tone::Bad,
                    None => Tone::Plain,
                };
                let indent = if at == 0 { "" } else { "  " };
                line(text, &format!("{indent}{}", self.paint(tone, row)));
            }
        }
        for condition in answer::conditions(self.result) {
            for row in wrapped(&clean(&condition), " ", self.options.width) {
                line(text, &self.paint(Tone::Faint, &row));
            }
        }
    }

    fn metrics(&self, text: &mut String) {
        let groups = if self.options.verbose {
            pick::all(&self.comparison)
        } else {
            pick::few(&self.comparison)
        };
        let names: Vec<String> = self
            .result
            .variants
            .iter()
            .map(|v| clean(&v.name))
            .collect();
        let rows: Vec<&Row> = groups.iter().flat_map(|group| group.rows.clone()).collect();
        let labels = rows.iter().map(|row| length(&self.label(row)) + 2);
        let titles = groups.iter().map(|group| length(&clean(&group.title)));
        let first = labels.chain(titles).max().unwrap_or(0);
        let widths: Vec<(usize, usize)> = (0..names.len())
            .map(|at| self.column(&rows, at, length(&names[at])))
            .collect();
        for columns in self.pages(first, &widths) {
            let mut head = " ".repeat(first);
            for &at in &columns {
                let (value, ratio) = widths[at];
                let name = format!("{:>value$}{:ratio$}", names[at], "");
                write!(head, "{GAP}{}", self.paint(Tone::Strong, &name)).expect(INFALLIBLE);
            }
            text.push('\n');
            line(text, &head);
            for group in &groups {
                line(text, &self.paint(Tone::Strong, &clean(&group.title)));
                for row in &group.rows {
                    let mut out = format!("  {:width$}", self.label(row), width = first - 2);
                    for &at in &columns {
                        out.push_str(GAP);
                        out.push_str(&self.cell(row, at, widths[at]));
                    }
                    line(text, &out);
                }
            }
        }
    }

    /// Widths of a variant's values and of its ratios with the space before them.
    fn column(&self, rows: &[&Row], at: usize, name: usize) -> (usize, usize) {
        let cells = rows.iter().filter_map(|row| Some((row, row.cells[at]?)));
        let (mut value, mut ratio) = (1, 0);
        for (row, cell) in cells {
            value = value.max(length(&self.value(row, cell)));
            ratio = ratio.max(length(&self.ratio(cell, at)));
        }
        (value.max(name), ratio)
    }

    /// The variants of each stretch of the table.
    fn pages(&self, first: usize, widths: &[(usize, usize)]) -> Vec<Vec<usize>> {
        let mut pages: Vec<Vec<usize>> = Vec::new();
        let mut used = usize::MAX;
        for (at, &(value, ratio)) in widths.iter().enumerate() {
            let wide = GAP.len() + value + ratio;
            match pages.last_mut() {
                Some(page) if used + wide <= self.options.width => {
                    page.push(at);
                    used += wide;
                }
                _ => {
                    pages.push(vec![at]);
                    used = first + wide;
                }
            }
        }
        pages
    }

    fn label(&self, row: &Row) -> String {
        let name = &row.key.name;
        let words = if self.options.verbose {
            clean(name)
        } else {
            clean(&pick::label(name))
        };
        match row.better {
            Better::Higher => words + " ↑",
            Better::Lower => words + " ↓",
            Better::Neutral => words,
        }
    }

    fn value(&self, row: &Row, cell: Cell) -> String {
        let middle = humane::quantity(row.unit, cell.median);
        if !self.options.verbose || cell.min == cell.max {
            return middle;
        }
        let (min, max) = (
            humane::quantity(row.unit, cell.min),
            humane::quantity(row.unit, cell.max),
        );
        format!("{middle} ({min} to {max})")
    }

    fn ratio(&self, cell: Cell, at: usize) -> String {
        let Some(ratio) = cell.ratio.filter(|_| at != self.comparison.baseline) else {
            return String::new();
        };
        let shown = match pick::judged(cell) {
            Some(_) => "*",
            None => "",
        };
        // The sentences above the table have the intervals; the long table has them all.
        match self.options.verbose {
            true => format!(" {}{shown}", humane::ratio(ratio)),
            false => format!(" ×{}{shown}", humane::factor(ratio.ratio_ppm)),
        }
    }

    /// Whether any difference is shown not to be chance.
    fn shows(&self) -> bool {
        let mut cells = self.comparison.rows.iter().flat_map(|row| &row.cells);
        cells.any(|cell| cell.and_then(pick::judged).is_some())
    }

    fn cell(&self, row: &Row, at: usize, (value, ratio): (usize, usize)) -> String {
        let Some(cell) = row.cells[at] else {
            return format!("{:>value$}{:ratio$}", "–", "");
        };
        let number = format!("{:>value$}", self.value(row, cell));
        let ratio = format!("{:ratio$}", self.ratio(cell, at));
        number + &self.paint(tone(cell), &ratio)
    }

    fn legend(&self, text: &mut String) {
        let baseline = clean(&self.result.variants[self.comparison.baseline].name);
        let mut words = Vec::new();
        if self.result.variants.len() > 1 {
            words.push(format!(
                "× is the ratio to {baseline}, the geometric mean over runs with the same seed."
            ));
        }
        if self.shows() {
            words.push("* is shown to be more than chance.".to_owned());
            if self.options.verbose {
                words.push("In brackets: its 95 % interval.".to_owned());
            }
        }
        words.push(answer::runs(self.result));
        words.push("↓ lower is better, ↑ higher is better.".to_owned());
        if !self.options.verbose {
            words.push("--verbose shows every measure.".to_owned());
        }
        text.push('\n');
        for row in wrapped(&words.join(" "), " ", self.options.width) {
            line(text, &self.paint(Tone::Faint, &row));
        }
    }

    fn warnings(&self, text: &mut String) {
        if let Some(reason) = answer::no_verdict(self.result) {
            let note = format!("warning: {}", clean(&reason));
            for row in wrapped(&note, " ", self.options.width) {
                line(text, &self.paint(Tone::Bad, &row));
            }
        }
        if let Some(partial) = &self.result.partial {
            let note = format!("warning: this race did not end: {}", clean(partial));
            for row in wrapped(&note, " ", self.options.width) {
                line(text, &self.paint(Tone::Bad, &row));
            }
        }
        for variant in &self.result.variants {
            for repetition in &variant.repetitions {
                for warning in &repetition.warnings {
                    let note = format!(
                        "warning: {}, repetition {}: {} ({})",
                        clean(&variant.name),
                        repetition.index,
                        clean(&warning.text),
                        clean(&warning.code)
                    );
                    for row in wrapped(&note, " ", self.options.width) {
                        line(text, &self.paint(Tone::Bad, &row));
                    }
                }
            }
        }
    }

    fn paint(&self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Strong => "1",
            Tone::Faint => "2",
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Plain => return text.to_owned(),
        };
        if self.options.colour && !text.trim().is_empty() {
            let ink = text.trim_end();
            format!("\x1b[{code}m{ink}\x1b[0m{}", &text[ink.len()..])
        } else {
            text.to_owned()
        }
    }
}

const INFALLIBLE: &str = "writing to a String cannot fail";

fn tone(cell: Cell) -> Tone {
    match pick::judged(cell) {
        Some(true) => Tone::Good,
        Some(false) => Tone::Bad,
        None => Tone::Plain,
    }
}

/// Appends a line without trailing spaces.
fn line(text: &mut String, row: &str) {
    text.push_str(row.trim_end());
    text.push('\n');
}

/// Columns that a text takes; none of our texts has characters of double width.
fn length(text: &str) -> usize {
    text.chars().count()
}

/// Control characters replaced, so that a name from a file cannot command the terminal.
fn clean(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

/// Broken at separators into rows of at most `width` columns, where that is possible.
fn wrapped(text: &str, separator: &str, width: usize) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    for part in text.split(separator) {
        match rows.last_mut() {
            Some(row) if length(row) + length(separator) + length(part) <= width => {
                row.push_str(separator);
                row.push_str(part);
            }
            _ => rows.push(part.to_owned()),
        }
    }
    rows
}
