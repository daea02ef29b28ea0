// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One bar per variant, from zero, the value written above it.
//!
//! The scale is linear: the eye compares lengths, and a length that is not in proportion lies. A
//! thin line spans the least and the greatest of the repetitions.

use super::scale::Linear;
use super::{Anchor, Canvas, Tenths, colour, fitted, text_width};

/// One bar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bar {
    /// The variant's name.
    pub label: String,
    /// Length of the bar.
    pub value: u64,
    /// Least and greatest over the repetitions, if they differ.
    pub range: Option<(u64, u64)>,
    /// The value in words.
    pub text: String,
    /// Its ratio to the baseline, or nothing.
    pub note: String,
    /// Which of the variants' colours it has.
    pub series: usize,
}

const ROW: Tenths = 380;
const BASELINE: Tenths = 120;
const BAR_TOP: Tenths = 180;
const BAR_HEIGHT: Tenths = 110;

/// Draws bars, one below the other.
#[must_use]
pub fn draw(id: &str, title: &str, bars: &[Bar], width: Tenths) -> String {
    let most = bars
        .iter()
        .map(|bar| bar.range.map_or(bar.value, |(_, max)| max.max(bar.value)))
        .max();
    let scale = Linear::new(most.unwrap_or(0), width);
    let mut canvas = Canvas::new();
    let mut top = 0;
    for bar in bars {
        let room = width - text_width(&bar.text) - text_width(&bar.note) - 150;
        let label = fitted(&bar.label, room);
        canvas.text("name", (0, top + BASELINE), Anchor::Start, &label);
        canvas.number((width, top + BASELINE), &bar.text, &bar.note);
        let at = (0, top + BAR_TOP);
        canvas.rect("track", at, (width, BAR_HEIGHT), "");
        // Something that is not zero is seen, however small.
        let length = scale
            .place(bar.value)
            .max(if bar.value > 0 { 15 } else { 0 });
        let tip = said(bar);
        let fill = colour('s', bar.series);
        canvas.rect(&fill, at, (length, BAR_HEIGHT), &tip);
        if let Some((min, max)) = bar.range {
            let middle = top + BAR_TOP + BAR_HEIGHT / 2;
            let (from, to) = (scale.place(min), scale.place(max));
            canvas.line("range", (from, middle), (to, middle));
            for end in [from, to] {
                canvas.line("range", (end, middle - 30), (end, middle + 30));
            }
        }
        top += ROW;
    }
    let said: Vec<String> = bars.iter().map(said).collect();
    canvas.finish(id, (width, top), title, &said.join("; "))
}

fn said(bar: &Bar) -> String {
    format!("{} {} {}", bar.label, bar.text, bar.note)
        .trim_end()
        .to_owned()
}
