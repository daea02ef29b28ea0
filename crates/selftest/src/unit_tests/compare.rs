// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the unit tests say of one kernel beside the other.
//!
//! A test is the same where outcome, failed checks and the kernel's complaints are. One that is not
//! is run a second time; a column is at fault where neither of its runs says what one of the stock
//! kernel's says.

use std::collections::BTreeSet;

use serde::Serialize;

use super::config::UnitTest;
use super::script::Cell;
use crate::report::alike;

/// One test under every setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The test.
    pub test: String,
    /// For each column the runs: one, and a second where the first ones differed.
    pub runs: Vec<Vec<Cell>>,
}

impl Row {
    /// Whether some column's runs say nothing that the first column's say.
    #[must_use]
    pub fn differs(&self) -> bool {
        (1..self.runs.len()).any(|column| self.column_differs(column))
    }

    fn column_differs(&self, column: usize) -> bool {
        let said = |column: usize| -> BTreeSet<Said<'_>> {
            self.runs[column].iter().map(Said::of).collect()
        };
        said(0).is_disjoint(&said(column))
    }
}

/// What of a run is compared.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Said<'a> {
    outcome: &'static str,
    failed: &'a [String],
    complaints: BTreeSet<String>,
}

impl<'a> Said<'a> {
    fn of(cell: &'a Cell) -> Self {
        Self {
            outcome: cell.outcome.name(),
            failed: &cell.failed,
            complaints: alike(&cell.complaints),
        }
    }
}

/// The table of the first runs. A test that a lost host kept from running has no run in a column.
pub fn rows(tests: &[UnitTest], columns: &[String], cells: &[Cell]) -> Vec<Row> {
    let runs = |test: &str| {
        let of = |column: &String| {
            let is = |cell: &&Cell| cell.test == test && cell.setting == *column;
            cells.iter().filter(is).cloned().collect()
        };
        columns.iter().map(of).collect()
    };
    tests
        .iter()
        .map(|test| Row {
            test: test.name.clone(),
            runs: runs(&test.name),
        })
        .collect()
}

/// Adds the second runs.
pub fn settle(rows: &mut [Row], columns: &[String], second: &[Cell]) {
    for cell in second {
        let column = columns.iter().position(|column| *column == cell.setting);
        let row = rows.iter_mut().find(|row| row.test == cell.test);
        if let (Some(column), Some(row)) = (column, row) {
            row.runs[column].push(cell.clone());
        }
    }
}

/// How a run ended, and the first complaint of the kernel.
fn words_of(cell: &Cell) -> String {
    let outcome = cell.outcome.name();
    match cell.complaints.first() {
        None => outcome.to_owned(),
        Some(first) => format!("{outcome} (the kernel complained: {first})"),
    }
}

/// What should not be.
pub fn faults(rows: &[Row], columns: &[String]) -> Vec<String> {
    let mut faults = Vec::new();
    for row in rows {
        assert_eq!(row.runs.len(), columns.len(), "a row has every column");
        for (at, column) in columns.iter().enumerate().skip(1) {
            if row.column_differs(at) {
                let words = |at: usize| {
                    let runs: Vec<String> = row.runs[at].iter().map(words_of).collect();
                    match runs.as_slice() {
                        [] => "not run".to_owned(),
                        runs => runs.join(", then "),
                    }
                };
                faults.push(format!(
                    "{}: {} on the stock kernel, {} with {column}",
                    row.test,
                    words(0),
                    words(at)
                ));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit_tests::config::parse;
    use crate::unit_tests::script::UnitOutcome;

    fn cell(setting: &str, outcome: UnitOutcome, failed: &[&str]) -> Cell {
        Cell {
            test: "a".to_owned(),
            setting: setting.to_owned(),
            outcome,
            cycles: None,
            failed: failed.iter().map(|&one| one.to_owned()).collect(),
            last_words: Vec::new(),
            complaints: Vec::new(),
        }
    }

    fn table(cells: &[Cell]) -> (Vec<Row>, Vec<String>) {
        let columns = vec!["stock".to_owned(), "off".to_owned()];
        let tests = parse("[a]\nfile = a.flat\n").unwrap();
        (rows(&tests, &columns, cells), columns)
    }

    #[test]
    fn the_same_failure_on_both_kernels_is_no_fault() {
        let fail = |setting| cell(setting, UnitOutcome::Fail, &["FAIL: x"]);
        let (rows, columns) = table(&[fail("stock"), fail("off")]);
        assert!(!rows[0].differs());
        assert!(faults(&rows, &columns).is_empty());
    }

    #[test]
    fn another_outcome_or_another_failed_check_is_a_fault() {
        for patched in [
            cell("off", UnitOutcome::Skip, &[]),
            cell("off", UnitOutcome::Fail, &["FAIL: y"]),
        ] {
            let stock = cell("stock", UnitOutcome::Fail, &["FAIL: x"]);
            let (rows, columns) = table(&[stock, patched]);
            assert_eq!(faults(&rows, &columns).len(), 1);
        }
    }

    #[test]
    fn a_complaint_that_the_stock_kernel_does_not_have_is_a_fault() {
        let complains = |setting, complaint: &str| Cell {
            complaints: vec![complaint.to_owned()],
            ..cell(setting, UnitOutcome::Pass, &[])
        };
        let (one, two) = (
            "BUG: sleeping function at x.c:1",
            "BUG: sleeping function at x.c:22",
        );
        let (rows, columns) = table(&[complains("stock", one), complains("off", two)]);
        assert!(faults(&rows, &columns).is_empty());
        let stock = cell("stock", UnitOutcome::Pass, &[]);
        let (rows, columns) = table(&[stock, complains("off", one)]);
        let said =
            format!("a: pass on the stock kernel, pass (the kernel complained: {one}) with off");
        assert_eq!(faults(&rows, &columns), [said]);
    }

    #[test]
    fn a_difference_that_a_second_run_does_not_show_is_none() {
        let pass = |setting| cell(setting, UnitOutcome::Pass, &[]);
        let skip = cell("off", UnitOutcome::Skip, &[]);
        let (mut rows, columns) = table(&[pass("stock"), skip.clone()]);
        assert!(rows[0].differs());
        settle(&mut rows, &columns, &[pass("stock"), pass("off")]);
        assert!(faults(&rows, &columns).is_empty());
        let (mut rows, columns) = table(&[pass("stock"), skip.clone()]);
        settle(&mut rows, &columns, &[pass("stock"), skip]);
        let said = faults(&rows, &columns);
        assert_eq!(
            said,
            ["a: pass, then pass on the stock kernel, skip, then skip with off"]
        );
    }

    #[test]
    fn a_test_that_did_not_run_on_one_kernel_is_a_fault() {
        let (rows, columns) = table(&[cell("stock", UnitOutcome::Pass, &[])]);
        assert_eq!(
            faults(&rows, &columns),
            ["a: pass on the stock kernel, not run with off"]
        );
    }
}
