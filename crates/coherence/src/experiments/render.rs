// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reproduction as text: the numbers, paper beside measured, then every figure.

use super::table::percent;
use super::{Basis, Reproduction};

/// What the notes are, and what they are not.
const NOTES: &str = "\nNotes, and the tables of sensitivity below, say how far a number moves when one input moves that\n\
     the paper leaves open. The values tried were chosen knowing the results: they predict nothing.\n";

impl Reproduction {
    /// The tables as text.
    #[must_use]
    pub fn render(&self) -> String {
        use core::fmt::Write as _;
        let mut text = String::new();
        let s = &self.settings;
        let _ = writeln!(
            text,
            "ATTC: paper beside measured. Seed {}, {} accesses a run ({} before counting), rate {}.\n",
            s.seed, s.accesses, s.warmup, s.rate
        );
        let _ = writeln!(
            text,
            "{:<12} {:<72} {:>9} {:>9}  basis",
            "source", "number", "paper", "measured"
        );
        for row in &self.rows {
            let basis = match row.basis {
                Basis::Calibrated => "calibrated",
                Basis::Input => "input",
                Basis::Predicted => "predicted",
            };
            let mark = if row.agrees { "" } else { "  off" };
            let (paper, measured) = (percent(row.paper_bp), percent(row.measured_bp));
            let _ = writeln!(
                text,
                "{:<12} {:<72} {paper:>9} {measured:>9}  {basis}{mark}",
                row.source, row.what
            );
            if let Some(note) = &row.explained_by {
                let _ = writeln!(text, "{:<12}   note: {note}", "");
            }
        }
        if self.rows.iter().any(|row| row.explained_by.is_some()) {
            text.push_str(NOTES);
        }
        for figure in &self.figures {
            let _ = writeln!(text, "\n{}: {}", figure.name, figure.what);
            let _ = write!(text, "{:<14}", "workload");
            for column in &figure.columns {
                let _ = write!(text, "{column:>23}");
            }
            text.push('\n');
            for (workload, values) in &figure.lines {
                let _ = write!(text, "{workload:<14}");
                for (column, value) in figure.columns.iter().zip(values) {
                    let shown = if column.starts_with("per") {
                        value.to_string()
                    } else {
                        percent(*value)
                    };
                    let _ = write!(text, "{shown:>23}");
                }
                text.push('\n');
            }
        }
        text
    }
}
