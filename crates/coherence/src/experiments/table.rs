// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Paper beside measured: one row for each number the paper states.

/// Where a measured number comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The run was fitted to the paper's number.
    Calibrated,
    /// The paper's number is an input of the workload.
    Input,
    /// Neither.
    Predicted,
}

/// One number.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Row {
    /// Figure or section.
    pub source: &'static str,
    /// What it is.
    pub what: String,
    /// The paper's value, basis points (1/100 %).
    pub paper_bp: i64,
    /// Ours.
    pub measured_bp: i64,
    /// Calibrated, input or predicted.
    pub basis: Basis,
    /// Within 15 % of the paper's value (a bound, as "within 1 %", is met or not).
    pub agrees: bool,
    /// Where it does not agree: what it depends on, and how far it moves with that. This is said
    /// knowing the result; it is no prediction.
    pub explained_by: Option<String>,
}

impl Row {
    /// A row for a value.
    pub(super) fn value(source: &'static str, what: &str, paper_bp: i64, measured_bp: i64) -> Self {
        Self {
            source,
            what: what.to_owned(),
            paper_bp,
            measured_bp,
            basis: Basis::Predicted,
            agrees: measured_bp.abs_diff(paper_bp) * 100 <= paper_bp.unsigned_abs() * 15,
            explained_by: None,
        }
    }

    /// A row for an upper bound.
    pub(super) fn at_most(
        source: &'static str,
        what: &str,
        paper_bp: i64,
        measured_bp: i64,
    ) -> Self {
        Self {
            agrees: measured_bp <= paper_bp,
            ..Self::value(source, what, paper_bp, measured_bp)
        }
    }

    /// A row for a lower bound.
    pub(super) fn at_least(
        source: &'static str,
        what: &str,
        paper_bp: i64,
        measured_bp: i64,
    ) -> Self {
        Self {
            agrees: measured_bp >= paper_bp,
            ..Self::value(source, what, paper_bp, measured_bp)
        }
    }

    pub(super) fn basis(mut self, basis: Basis) -> Self {
        self.basis = basis;
        self
    }

    /// Adds what the number depends on, where it does not agree.
    pub(super) fn unless_agrees(mut self, explanation: impl FnOnce() -> String) -> Self {
        if !self.agrees {
            self.explained_by = Some(explanation());
        }
        self
    }
}

/// Basis points as a percentage with one decimal.
#[must_use]
pub(super) fn percent(bp: i64) -> String {
    let tenths = (bp.abs() + 5) / 10;
    let sign = if bp < 0 && tenths > 0 { "-" } else { "" };
    format!("{sign}{}.{} %", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::{Row, percent};

    #[test]
    fn percentages_round_to_tenths_and_keep_their_sign() {
        assert_eq!(percent(3_574), "35.7 %");
        assert_eq!(percent(-46), "-0.5 %");
        assert_eq!(percent(-4), "0.0 %");
    }

    #[test]
    fn agreement_is_fifteen_per_cent_of_the_paper_s_value() {
        assert!(Row::value("", "", 1_000, 1_150).agrees);
        assert!(!Row::value("", "", 1_000, 1_151).agrees);
        assert!(Row::at_most("", "", 100, -50).agrees);
    }
}
