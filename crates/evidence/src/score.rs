// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The scoreboard of one screen: what each system claims, what is recorded, what was just measured.

use std::fmt::Write;

use serde::Serialize;
use steady_measures::{Comparison, RunResult};
use steady_report::humane;

use crate::also;
use crate::claim::{Claim, Row, System};
use crate::error::INFALLIBLE;
use crate::house::House;
use crate::table::{self, Entry};

/// Columns and rows of the screen that the scoreboard fits.
pub const SCREEN: (usize, usize) = (100, 24);

/// One system's lines.
#[derive(Debug, Clone, Serialize)]
pub struct Line {
    /// The system's name.
    pub title: String,
    /// What is claimed.
    pub says: String,
    /// What is recorded: ratio, interval and verdict, or that nothing is.
    pub recorded: String,
    /// What is recorded of other hosts that the line names, too.
    pub also: Vec<String>,
    /// What this machine just measured; absent where it did not.
    pub measured: Option<String>,
    /// The command that shows more.
    pub more: String,
}

/// The claim and the row of a system's line of the scoreboard, and the cell where it is recorded.
pub(crate) fn scored<'a>(
    house: &'a House,
    system: &System,
) -> Option<(&'a Claim, &'a Row, Option<Entry>)> {
    let score = system.score.as_ref()?;
    let claim = house.claim(&score.claim).ok()?;
    let row = claim.row(&score.row)?;
    let entry = table::entry(house, claim, row, &score.variant, None);
    Some((claim, row, entry))
}

/// The lines of all systems; `measured` has results of this machine's, of whatever scenarios.
#[must_use]
pub fn lines(house: &House, measured: &[RunResult]) -> Vec<Line> {
    let of = |system: &System| {
        let score = system.score.as_ref()?;
        let (found, entry) = match scored(house, system) {
            Some((claim, row, entry)) => (Some((claim, row)), entry),
            None => (None, None),
        };
        let recorded = entry.map(|entry| {
            let old = entry.old.as_ref().map_or("", |_| " (old)");
            match entry.cell.ratio {
                None => entry.value() + old,
                Some(_) => format!("{}, {}{old}", entry.ratio(), entry.shown()),
            }
        });
        Some(Line {
            title: system.title.clone(),
            says: score.says.clone(),
            recorded: recorded.unwrap_or_else(|| "not recorded".to_owned()),
            also: also::on_screen(house, score),
            measured: found.and_then(|(claim, row)| {
                let mut results = measured.iter();
                results.find_map(|result| now(result, claim, row, &score.variant))
            }),
            more: score.more.clone(),
        })
    };
    house.systems.iter().filter_map(of).collect()
}

/// What a result of this machine says of a claim's cell, in short; `None` where it is of another
/// scenario or engine.
#[must_use]
pub fn now(result: &RunResult, claim: &Claim, row: &Row, variant: &str) -> Option<String> {
    let same = std::path::Path::new(&claim.scenario)
        .file_stem()
        .is_some_and(|stem| *stem == *result.scenario.name);
    if !same || result.engine.name != claim.engine {
        return None;
    }
    let mut result = result.clone();
    claim.add_derived(&mut result);
    let comparison = Comparison::new(&result, Some(&claim.base)).ok()?;
    let at = result.variants.iter().position(|v| v.name == variant)?;
    let found = row.of(&comparison)?;
    let cell = found.cells[at]?;
    let runs = match cell.repetitions {
        1 => "1 run".to_owned(),
        more => format!("{more} runs"),
    };
    Some(match cell.ratio {
        Some(ratio) => format!("{} ({runs})", humane::ratio(ratio)),
        None => format!("{} ({runs})", humane::quantity(found.unit, cell.median)),
    })
}

/// The scoreboard as text, a newline at its end.
#[must_use]
pub fn text(lines: &[Line], page: &str) -> String {
    let mut text = String::new();
    let rule = "─".repeat(SCREEN.0);
    writeln!(
        text,
        "What Steady's systems give: ratio to the base, [95 % interval]"
    )
    .expect(INFALLIBLE);
    writeln!(text, "{rule}").expect(INFALLIBLE);
    for line in lines {
        let head = format!("{}: {}", line.title, line.says);
        writeln!(text, "{}", cut(&head, SCREEN.0)).expect(INFALLIBLE);
        let measured = line.measured.as_deref().unwrap_or("–");
        let recorded = format!("  recorded {:<48} here ", cut(&line.recorded, 48));
        let both = fitted(&recorded, measured);
        writeln!(text, "{}", cut(both.trim_end(), SCREEN.0)).expect(INFALLIBLE);
        if !line.also.is_empty() {
            let also = format!("  {}", line.also.join("; "));
            writeln!(text, "{}", cut(&also, SCREEN.0)).expect(INFALLIBLE);
        }
        writeln!(text, "{}", cut(&format!("  more: {}", line.more), SCREEN.0)).expect(INFALLIBLE);
    }
    writeln!(text, "{rule}").expect(INFALLIBLE);
    writeln!(
        text,
        "One run is not a claim; recorded intervals are over seeds. {page}"
    )
    .expect(INFALLIBLE);
    text
}

/// Both in one line; where they do not fit, the interval goes before the count of runs does.
fn fitted(recorded: &str, measured: &str) -> String {
    let wide = recorded.chars().count() + measured.chars().count() > SCREEN.0;
    let shorter = measured
        .split_once(" [")
        .zip(measured.rsplit_once(" ("))
        .filter(|_| wide)
        .map(|((ratio, _), (_, runs))| format!("{recorded}{ratio} ({runs}"));
    shorter.unwrap_or_else(|| format!("{recorded}{measured}"))
}

/// The text in at most `width` columns.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width - 1).collect();
    kept + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_keeps_how_many_runs_there_were() {
        let line = |measured: &str| Line {
            title: "T".to_owned(),
            says: "s".to_owned(),
            also: Vec::new(),
            recorded: "×0.0135 [0.0110 to 0.0200], differs (old)".to_owned(),
            measured: Some(measured.to_owned()),
            more: "m".to_owned(),
        };
        let long = line("×1,234,567 [<0.0001 to 100,234,567] (8 runs)");
        let short = line("×1.20 [1.10 to 1.30] (8 runs)");
        let text = text(&[long, short], "");
        assert!(text.lines().all(|line| line.chars().count() <= SCREEN.0));
        assert!(text.contains("here ×1,234,567 (8 runs)\n"), "{text}");
        assert!(
            text.contains("here ×1.20 [1.10 to 1.30] (8 runs)\n"),
            "{text}"
        );
    }
}
