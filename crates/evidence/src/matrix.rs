// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A claim as a matrix of ratios, as the README has it.

use std::fmt::Write;

use steady_measures::chance;

use crate::conditions;
use crate::error::INFALLIBLE;
use crate::house::House;
use crate::plot;
use crate::table::{self, Entry};
use crate::words;

/// A claim as a table of its rows and variants, each cell a ratio that is bold where a difference
/// is shown; its conditions stand below.
///
/// # Errors
/// If the claim is not known.
pub(crate) fn matrix(house: &House, id: &str) -> Result<String, String> {
    let claim = house.claim(id).map_err(|error| error.to_string())?;
    let mut text = format!("| ratio to `{}` |", claim.base);
    let shown = claim.show.as_ref().unwrap_or(&claim.variants);
    for variant in shown {
        write!(text, " `{variant}` |").expect(INFALLIBLE);
    }
    text.push_str(&format!("\n|---|{}\n", "---|".repeat(shown.len())));
    let mut old: Vec<(String, String)> = Vec::new();
    for row in &claim.rows {
        let cells: Vec<Option<Entry>> = shown
            .iter()
            .map(|variant| table::entry(house, claim, row, variant, None))
            .collect();
        let arrow = cells.iter().flatten().next().map_or("", plot::arrow);
        write!(text, "| {} {arrow} |", row.what).expect(INFALLIBLE);
        for cell in cells {
            let Some(entry) = cell else {
                text.push_str(" – |");
                continue;
            };
            let mark = match entry.verdict() {
                Some(chance::Verdict::Better | chance::Verdict::Differs) => "**",
                Some(chance::Verdict::Worse) => "***",
                _ => "",
            };
            write!(text, " {mark}{}{mark} |", entry.ratio()).expect(INFALLIBLE);
            if let Some(key) = entry.old
                && !old.iter().any(|(variant, _)| *variant == entry.variant)
            {
                old.push((entry.variant, key));
            }
        }
        text.push('\n');
    }
    let conditions = conditions::line(house, claim);
    let rest = "| ".repeat(shown.len());
    writeln!(text, "| conditions: {conditions} {rest}|").expect(INFALLIBLE);
    let runs = house
        .record(claim)
        .map_or(0, |record| record.seeds(claim).len());
    let old = old.first().map_or_else(String::new, |(_, key)| {
        let names = old.iter().map(|(variant, _)| format!("`{variant}`"));
        format!(
            " **Old: {key} ({}).**",
            names.collect::<Vec<_>>().join(", ")
        )
    });
    let legend = format!(
        "{runs} runs of each. **Bold**: shown better; ***bold italic***: shown worse. Else no \
         difference is shown, as where the test over all rows disagrees.{old}"
    );
    writeln!(text, "\n{}", words::wrapped("", &legend)).expect(INFALLIBLE);
    Ok(text)
}
