// SPDX-License-Identifier: Apache-2.0 OR MIT
//! stress-ng with `--metrics-brief` or `--metrics`: for each stressor `stress-ng.NAME.operations`
//! (bogo operations) and `stress-ng.NAME.throughput` (of real time); with one stressor alone also
//! `throughput`.
//!
//! The rows of its table are log lines, on standard error up to some version and on standard output
//! after it, and their tag changed from `info` to `metrc`; only the columns are relied on.

use steady_measures::{Unit, names};

use super::{Draft, PER_S_TO_PER_KS};
use crate::error::ParseError;
use crate::output::Output;

/// Columns that every version prints: name, operations, three times, two rates.
const COLUMNS_MIN: usize = 7;
/// The column of operations, and that of operations per second of real time.
const OPERATIONS: usize = 1;
const RATE: usize = 5;

pub(super) fn parse(draft: &mut Draft, output: &Output<'_>) -> Result<(), ParseError> {
    draft.line(output, HEAD, |line| {
        row(line).filter(|row| row.starts_with("stressor "))
    })?;
    let rows = output
        .lines()
        .filter_map(|line| Some((line, row(line)?)))
        // Down from the head; the second line of the head has the units.
        .skip_while(|(_, row)| !row.starts_with("stressor "))
        .skip(1)
        .filter(|(_, row)| !row.starts_with('('))
        .map_while(|(line, row)| {
            let columns: Vec<&str> = row.split_whitespace().collect();
            let numbers = columns
                .iter()
                .skip(1)
                .all(|word| word.starts_with(|c: char| c.is_ascii_digit()));
            (columns.len() >= COLUMNS_MIN && numbers).then_some((line, columns))
        });
    let mut rates = Vec::new();
    for (line, columns) in rows {
        let name = columns[0];
        let operations = draft.number(line, columns[OPERATIONS], 0)?;
        let rate = draft.number(line, columns[RATE], PER_S_TO_PER_KS)?;
        draft.neutral(
            &format!("stress-ng.{name}.operations"),
            Unit::Count,
            operations,
        )?;
        draft.higher(
            &format!("stress-ng.{name}.throughput"),
            Unit::OpsPerKs,
            rate,
        )?;
        rates.push(rate);
    }
    match rates[..] {
        // A head without rows: no stressor did anything.
        [] => draft.line(output, ROW, |_| None::<()>).map(|_| ()),
        [rate] => draft.higher(names::THROUGHPUT, Unit::OpsPerKs, rate),
        _ => Ok(()),
    }
}

const HEAD: &str = "stress-ng: metrc: [7] stressor  bogo ops real time  usr time  sys time …";
const ROW: &str = "stress-ng: metrc: [7] tlb-shootdown  21  0.01  0.00  0.02  2186.05  1335.79";

/// What follows the tag and the process number of a log line.
fn row(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("stress-ng:")?;
    Some(rest.split_once(']')?.1.trim_start())
}
