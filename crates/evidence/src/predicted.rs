// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a diagnosis predicted from a trace of one run, beside what races of the same scenario gave.
//!
//! A record of [`crate::counted`] has a `prediction` for each row of a claim. The race's ratio is
//! taken from the claim's own record, so it is today's on every page. Both are ratios of how far a
//! program comes: where less is better, the race's is turned round.

use serde::Deserialize;
use steady_measures::chance::{PairedRatio, Verdict};
use steady_measures::{Better, Cell};
use steady_report::humane;

use crate::error::Error;
use crate::house::House;
use crate::table;

/// One in parts per million.
const ONE_PPM: u64 = 1_000_000;

/// What was predicted of a row.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prediction {
    /// The claim that raced it.
    pub claim: String,
    /// Its row.
    pub row: String,
    /// The variant that does what was predicted.
    pub variant: String,
    /// How far the program comes against the base, in thousandths: at least.
    pub low_permille: u64,
    /// Most likely.
    pub likely_permille: u64,
    /// At most.
    pub high_permille: u64,
}

/// A prediction with what races gave.
#[derive(Debug, Clone, Copy)]
struct Beside {
    likely_ppm: u64,
    raced: PairedRatio,
    is_shown: bool,
}

impl Beside {
    fn of(prediction: &Prediction, better: Better, cell: &Cell) -> Option<Self> {
        let judged = cell.judgement?;
        let raced = match better {
            Better::Lower => turned(cell.ratio?)?,
            Better::Higher | Better::Neutral => cell.ratio?,
        };
        Some(Self {
            likely_ppm: prediction.likely_permille.saturating_mul(1000),
            raced,
            is_shown: matches!(judged.verdict, Verdict::Better | Verdict::Worse),
        })
    }

    /// How far it is from the race's ratio, in thousandths of that.
    fn off_permille(self) -> u64 {
        let ratio = self.raced.ratio_ppm.max(1);
        self.likely_ppm.abs_diff(ratio).saturating_mul(1000) / ratio
    }

    /// The same of what the race gained or lost, in thousandths of that.
    fn gain_off_permille(self) -> u64 {
        let gain = self.raced.ratio_ppm.abs_diff(ONE_PPM).max(1);
        let off = self.likely_ppm.abs_diff(self.raced.ratio_ppm);
        off.saturating_mul(1000) / gain
    }

    fn is_of_its_sign(self) -> bool {
        self.likely_ppm.cmp(&ONE_PPM) == self.raced.ratio_ppm.cmp(&ONE_PPM)
    }
}

/// The reciprocal of a ratio; `None` of a ratio of 0.
fn turned(ratio: PairedRatio) -> Option<PairedRatio> {
    let of = |ppm: u64| (ONE_PPM * ONE_PPM).checked_div(ppm);
    Some(PairedRatio {
        ratio_ppm: of(ratio.ratio_ppm)?,
        low_ppm: ratio.high_ppm.and_then(of),
        high_ppm: ratio.low_ppm.and_then(of),
    })
}

/// The middle of some numbers, the upper of two.
fn median(numbers: impl Iterator<Item = u64>) -> Option<u64> {
    let mut numbers: Vec<u64> = numbers.collect();
    numbers.sort_unstable();
    numbers.get(numbers.len() / 2).copied()
}

/// How near they are as a whole, in a sentence or two.
fn summary(all: &[Beside]) -> String {
    let percent = |permille: Option<u64>| {
        permille.map_or_else(
            || "–".to_owned(),
            |permille| format!("{} %", (permille + 5) / 10),
        )
    };
    let shown: Vec<&Beside> = all.iter().filter(|beside| beside.is_shown).collect();
    let right = shown.iter().filter(|beside| beside.is_of_its_sign());
    let of_gains = median(shown.iter().map(|beside| beside.gain_off_permille()));
    format!(
        "The median of how far a prediction is from the race's ratio: {}. Where a difference is \
         shown, the sign is right in {} of {}, and the median is {} of the gain itself.",
        percent(median(all.iter().map(|beside| beside.off_permille()))),
        right.count(),
        shown.len(),
        percent(of_gains),
    )
}

/// Predictions in a table of Markdown; `old` stands behind each if they are not of today's code.
///
/// # Errors
/// [`Error`] if a row is of no claim, or a range has its ends in the wrong order.
pub fn table(house: &House, all: &[Prediction], old: &str) -> Result<String, Error> {
    let mut text = "| measure | variant | raced [95 %] | shown | predicted (range) | off |\n\
                    |---|---|---|---|---|---|\n"
        .to_owned();
    let mut besides = Vec::new();
    for prediction in all {
        let claim = house.claim(&prediction.claim)?;
        let wrong = |text: String| Error::Record {
            path: house.root.join("evidence/results"),
            text: format!("`{}`, `{}`: {text}", prediction.claim, prediction.row),
        };
        let Prediction {
            low_permille: low,
            likely_permille: likely,
            high_permille: high,
            ..
        } = *prediction;
        if low > likely || likely > high {
            return Err(wrong(format!("{low} to {high} does not hold {likely}")));
        }
        let row = claim.row(&prediction.row);
        let row = row.ok_or_else(|| wrong("the claim has no such row".to_owned()))?;
        let entry = table::entry(house, claim, row, &prediction.variant, None);
        let entry = entry.ok_or_else(|| wrong("nothing of it is recorded".to_owned()))?;
        let beside = Beside::of(prediction, entry.better, &entry.cell)
            .ok_or_else(|| wrong("its record has no ratio".to_owned()))?;
        let [low, likely, high] = [low, likely, high].map(|of| humane::factor(of * 1000));
        text += &format!(
            "| {}, {} | `{}` | {} | {} | ×{likely} ({low} to {high}){old} | {} % |\n",
            claim.subject,
            row.what,
            prediction.variant,
            humane::ratio(beside.raced),
            entry.shown_and_old(),
            (beside.off_permille() + 5) / 10,
        );
        besides.push(beside);
    }
    Ok(format!(
        "{}\n\n{text}",
        crate::words::wrapped("", &summary(&besides))
    ))
}

#[cfg(test)]
mod tests {
    use steady_measures::chance::{Family, Judgement};

    use super::*;

    fn prediction(likely_permille: u64) -> Prediction {
        Prediction {
            claim: "c".to_owned(),
            row: "r".to_owned(),
            variant: "v".to_owned(),
            low_permille: likely_permille,
            likely_permille,
            high_permille: likely_permille,
        }
    }

    fn beside(likely_permille: u64, better: Better, ratio_ppm: u64, verdict: Verdict) -> Beside {
        let cell = Cell {
            median: 1,
            min: 1,
            max: 1,
            repetitions: 8,
            ratio: Some(PairedRatio {
                ratio_ppm,
                low_ppm: Some(ratio_ppm / 2),
                high_ppm: Some(ratio_ppm * 2),
            }),
            judgement: Some(Judgement {
                pairs: 8,
                family: Family::Answer,
                ratio: None,
                higher: true,
                probability_ppm: 0,
                verdict,
            }),
        };
        Beside::of(&prediction(likely_permille), better, &cell).unwrap()
    }

    #[test]
    fn a_time_that_halves_is_a_program_that_comes_twice_as_far() {
        let half = beside(1500, Better::Lower, 500_000, Verdict::Better);
        let PairedRatio {
            ratio_ppm,
            low_ppm,
            high_ppm,
        } = half.raced;
        assert_eq!(
            (ratio_ppm, low_ppm, high_ppm),
            (2_000_000, Some(1_000_000), Some(4_000_000))
        );
        // 0.5 of 2, and 0.5 of the 1 that was gained.
        assert_eq!((half.off_permille(), half.gain_off_permille()), (250, 500));
        assert!(half.is_of_its_sign());
    }

    #[test]
    fn the_summary_counts_signs_where_a_difference_is_shown_alone() {
        let all = [
            beside(1500, Better::Higher, 2_000_000, Verdict::Better),
            beside(1100, Better::Higher, 800_000, Verdict::Worse),
            beside(1200, Better::Higher, 1_000_000, Verdict::NoDifferenceShown),
        ];
        let said = summary(&all);
        assert!(said.contains("ratio: 25 %."), "{said}");
        assert!(said.contains("right in 1 of 2"), "{said}");
        // 0.5 of 1, and 0.3 of 0.2.
        assert!(said.contains("150 % of the gain"), "{said}");
    }
}
