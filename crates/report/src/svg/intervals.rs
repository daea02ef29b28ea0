// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A line for each comparison: its ratio to the baseline, with its interval. The upright line is
//! the baseline; the label says which way is better.
//!
//! The scale is logarithmic, so that twice as good and half as good are as far from the line.

use super::scale::Log;
use super::{Anchor, Canvas, Tenths, colour, fitted, text_width};

/// Parts per million in one.
const MILLION: u64 = 1_000_000;

/// One comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interval {
    /// What is compared, and which variant.
    pub label: String,
    /// The ratio to the baseline, in parts per million.
    pub ratio_ppm: u64,
    /// The 95 % interval of that.
    pub ends_ppm: (u64, u64),
    /// In words.
    pub text: String,
    /// Which of the variants' colours it has.
    pub series: usize,
    /// Whether a difference was shown; else it is drawn faint.
    pub shown: bool,
}

const ROW: Tenths = 420;
const BASELINE: Tenths = 130;
const MIDDLE: Tenths = 270;
const BAR: Tenths = 70;
/// Below the last row: the axis.
const AXIS: Tenths = 260;
const TICKS_APART: Tenths = 500;

/// Draws the comparisons, one below the other; `None` without any.
#[must_use]
pub fn draw(id: &str, title: &str, rows: &[Interval], width: Tenths) -> Option<String> {
    let ends = || rows.iter().flat_map(|row| [row.ends_ppm.0, row.ends_ppm.1]);
    let (low, high) = (ends().min()?.min(MILLION), ends().max()?.max(MILLION));
    let scale = Log::covering(low, high, width);
    let mut canvas = Canvas::new();
    let bottom = ROW * i64::try_from(rows.len()).unwrap_or(0);
    for tick in scale.ticks(TICKS_APART) {
        let x = scale.place(tick);
        let class = if tick == MILLION { "axis" } else { "grid" };
        canvas.line(class, (x, 0), (x, bottom));
        let anchor = match x {
            0 => Anchor::Start,
            x if x == width => Anchor::End,
            _ => Anchor::Middle,
        };
        canvas.text(
            "tick",
            (x, bottom + 150),
            anchor,
            &format!("× {}", plain(tick)),
        );
    }
    for (at, row) in rows.iter().enumerate() {
        assert!(
            row.ends_ppm.0 <= row.ends_ppm.1,
            "an interval's ends are in order"
        );
        let top = ROW * i64::try_from(at).unwrap_or(0);
        let room = width - text_width(&row.text) - 150;
        let label = fitted(&row.label, room);
        canvas.text("name", (0, top + BASELINE), Anchor::Start, &label);
        canvas.number((width, top + BASELINE), &row.text, "");
        let fill = if row.shown {
            colour('s', row.series)
        } else {
            "track".to_owned()
        };
        let (from, to) = (scale.place(row.ends_ppm.0), scale.place(row.ends_ppm.1));
        let tip = said(row);
        let place = (from, top + MIDDLE - BAR / 2);
        canvas.rect(&fill, place, ((to - from).max(15), BAR), &tip);
        let middle = scale.place(row.ratio_ppm);
        canvas.line(
            "range",
            (middle, top + MIDDLE - BAR),
            (middle, top + MIDDLE + BAR),
        );
    }
    let words: Vec<String> = rows.iter().map(said).collect();
    Some(canvas.finish(id, (width, bottom + AXIS), title, &words.join("; ")))
}

fn said(row: &Interval) -> String {
    format!("{}: {}", row.label, row.text)
}

/// A round value of the scale as a factor: `0.005`, `1`, `200`.
pub(super) fn plain(ppm: u64) -> String {
    if ppm >= MILLION {
        return (ppm / MILLION).to_string();
    }
    let digits = format!("{ppm:06}");
    format!("0.{}", digits.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ratio_ppm: u64, ends_ppm: (u64, u64), shown: bool) -> Interval {
        Interval {
            label: "victim shootdown p99 ↓: shoot4u".to_owned(),
            ratio_ppm,
            ends_ppm,
            text: "×173".to_owned(),
            series: 2,
            shown,
        }
    }

    #[test]
    fn round_values_are_told_as_factors() {
        let told: Vec<String> = [5_000, 500_000, MILLION, 200 * MILLION].map(plain).into();
        assert_eq!(told, ["0.005", "0.5", "1", "200"]);
    }

    #[test]
    fn the_baseline_is_on_the_scale_though_no_interval_holds_it() {
        let far = row(173 * MILLION, (132 * MILLION, 225 * MILLION), true);
        let drawn = draw("x", "t", &[far], 3_400).expect("a row");
        assert!(drawn.contains("class=\"axis\" x1=\"0\""), "{drawn}");
        assert!(drawn.contains("class=\"s2\""));
    }

    #[test]
    fn what_was_not_shown_has_no_colour() {
        let drawn = draw(
            "x",
            "t",
            &[row(MILLION, (960_000, 1_060_000), false)],
            3_400,
        );
        let drawn = drawn.expect("a row");
        assert!(drawn.contains("class=\"track\"") && !drawn.contains("class=\"s2\""));
    }

    #[test]
    fn without_comparisons_there_is_no_picture() {
        assert_eq!(draw("x", "t", &[], 3_400), None);
    }
}
