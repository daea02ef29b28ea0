// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Paper beside measured: one row for each number the paper states.

use crate::measured::Measured;

/// Where a measured number comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The run was fitted to the paper's number.
    Calibrated,
    /// It follows from the paper's parameters by arithmetic, or is an input of the workload.
    Input,
    /// Neither.
    Predicted,
}

/// What a number says of the paper's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The whole interval is within 15 % of the paper's value, or within its bound.
    Agrees,
    /// No part of it is.
    Off,
    /// A part of it is, or one seed gives no interval.
    Open,
}

/// What the paper says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    Value,
    AtMost,
    AtLeast,
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
    pub measured: Measured,
    /// What a closed form gives from the events counted and Table 2; none where there is none.
    pub closed_bp: Option<i64>,
    /// Calibrated, input or predicted.
    pub basis: Basis,
    /// Whether it agrees.
    pub verdict: Verdict,
    /// Where it does not agree: what it depends on, and how far it moves with that. This is said
    /// knowing the result; it is no prediction.
    pub explained_by: Option<String>,
}

impl Row {
    /// A row for a value.
    pub(crate) fn value(
        source: &'static str,
        what: &str,
        paper_bp: i64,
        measured: Measured,
    ) -> Self {
        Self::claim(Claim::Value, source, what, paper_bp, measured)
    }

    /// A row for an upper bound.
    pub(crate) fn at_most(
        source: &'static str,
        what: &str,
        paper_bp: i64,
        measured: Measured,
    ) -> Self {
        Self::claim(Claim::AtMost, source, what, paper_bp, measured)
    }

    /// A row for a lower bound.
    pub(crate) fn at_least(
        source: &'static str,
        what: &str,
        paper_bp: i64,
        measured: Measured,
    ) -> Self {
        Self::claim(Claim::AtLeast, source, what, paper_bp, measured)
    }

    fn claim(
        claim: Claim,
        source: &'static str,
        what: &str,
        paper_bp: i64,
        measured: Measured,
    ) -> Self {
        // Fifteen per cent of the paper's value, rounded down.
        let slack = paper_bp.abs() * 15 / 100;
        let (low, high) = match claim {
            Claim::Value => (paper_bp - slack, paper_bp + slack),
            Claim::AtMost => (i64::MIN, paper_bp),
            Claim::AtLeast => (paper_bp, i64::MAX),
        };
        let verdict = match measured.range() {
            Some((least, most)) if least >= low && most <= high => Verdict::Agrees,
            Some((least, most)) if most < low || least > high => Verdict::Off,
            _ => Verdict::Open,
        };
        Self {
            source,
            what: what.to_owned(),
            paper_bp,
            measured,
            closed_bp: None,
            basis: Basis::Predicted,
            verdict,
            explained_by: None,
        }
    }

    pub(crate) const fn basis(mut self, basis: Basis) -> Self {
        self.basis = basis;
        self
    }

    /// Adds what a closed form gives.
    pub(crate) const fn closed(mut self, bp: i64) -> Self {
        self.closed_bp = Some(bp);
        self
    }

    /// Adds what the number depends on, where it is off.
    pub(crate) fn unless_agrees(mut self, explanation: impl FnOnce() -> String) -> Self {
        if self.verdict != Verdict::Agrees {
            self.explained_by = Some(explanation());
        }
        self
    }
}

/// Basis points as a percentage with one decimal.
#[must_use]
pub(crate) fn percent(bp: i64) -> String {
    let tenths = (bp.abs() + 5) / 10;
    let sign = if bp < 0 && tenths > 0 { "-" } else { "" };
    format!("{sign}{}.{} %", tenths / 10, tenths % 10)
}

/// A number with its interval as text.
#[must_use]
pub(crate) fn with_interval(number: Measured) -> String {
    let half = number.interval_bp.map_or_else(String::new, |half| {
        let tenths = (half + 9) / 10;
        format!(" +-{}.{}", tenths / 10, tenths % 10)
    });
    let shown = percent(number.bp);
    format!("{}{half} %", shown.trim_end_matches(" %"))
}

#[cfg(test)]
mod tests {
    use super::{Measured, Row, Verdict, percent, with_interval};

    fn spread(bp: i64, half: i64) -> Measured {
        Measured {
            bp,
            interval_bp: Some(half),
        }
    }

    #[test]
    fn percentages_round_to_tenths_and_keep_their_sign() {
        assert_eq!(percent(3_574), "35.7 %");
        assert_eq!(percent(-46), "-0.5 %");
        assert_eq!(percent(-4), "0.0 %");
        // Half a width is rounded up.
        assert_eq!(with_interval(spread(3_574, 41)), "35.7 +-0.5 %");
    }

    #[test]
    fn a_number_agrees_only_with_its_whole_interval() {
        let verdict = |bp, half| Row::value("", "", 1_000, spread(bp, half)).verdict;
        assert_eq!(verdict(1_100, 50), Verdict::Agrees);
        assert_eq!(verdict(1_100, 51), Verdict::Open);
        assert_eq!(verdict(1_200, 49), Verdict::Off);
        assert_eq!(verdict(1_000, 900), Verdict::Open);
        let one = Measured {
            bp: 1_000,
            interval_bp: None,
        };
        assert_eq!(Row::value("", "", 1_000, one).verdict, Verdict::Open);
        assert_eq!(
            Row::at_most("", "", 100, spread(-50, 10)).verdict,
            Verdict::Agrees
        );
        assert_eq!(
            Row::at_least("", "", 100, spread(95, 10)).verdict,
            Verdict::Open
        );
    }
}
