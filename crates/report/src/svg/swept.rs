// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ratios to a baseline over the values of a swept key: a line for each variant, with an upright
//! bar for the interval at each value.
//!
//! The values stand at equal distances in the order given, as they may be words. The scale of the
//! ratios is logarithmic. Bars of one value stand side by side, so that none hides another.

use super::scale::Log;
use super::{Anchor, Canvas, Tenths, colour, fitted, text_width};

/// Parts per million in one.
const MILLION: u64 = 1_000_000;

/// One variant's ratio at one value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dot {
    /// The ratio to the baseline, in parts per million.
    pub ratio_ppm: u64,
    /// The 95 % interval of that, where there is one.
    pub ends_ppm: Option<(u64, u64)>,
    /// In words.
    pub text: String,
}

/// One variant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Its name.
    pub label: String,
    /// Which of the variants' colours it has.
    pub series: usize,
    /// Its ratio at each value; `None` where it has none.
    pub dots: Vec<Option<Dot>>,
}

const LEFT: Tenths = 420;
const TOP: Tenths = 120;
const BOTTOM: Tenths = 420;
const TICKS_APART: Tenths = 240;
/// Between a line's end and its name, and between two names.
const NAME_OFF: Tenths = 80;
const NAMES_APART: Tenths = 150;
/// Width of a bar and side of a dot.
const BAR: Tenths = 20;
const DOT: Tenths = 60;
/// Of the room between two values, the share in percent that their bars take.
const SPREAD_PERCENT: Tenths = 40;

struct Plot {
    scale: Log,
    width: Tenths,
    floor: Tenths,
    slot: Tenths,
    lines: Tenths,
}

impl Plot {
    /// Where a ratio stands: higher is further up.
    fn y(&self, ppm: u64) -> Tenths {
        self.floor - self.scale.place(ppm)
    }

    /// The middle of a value's room.
    fn middle(&self, value: usize) -> Tenths {
        LEFT + self.slot * whole(value) + self.slot / 2
    }

    /// Where a line's bar of a value stands.
    fn x(&self, value: usize, line: usize) -> Tenths {
        let spread = self.slot * SPREAD_PERCENT / 100;
        let apart = if self.lines > 1 {
            spread * (2 * whole(line) - (self.lines - 1)) / (2 * (self.lines - 1))
        } else {
            0
        };
        self.middle(value) + apart
    }
}

fn whole(count: usize) -> Tenths {
    Tenths::try_from(count).expect("a page holds few")
}

/// Draws the lines over the values of `key`; `None` without any ratio.
#[must_use]
pub fn draw(
    id: &str,
    title: &str,
    (key, values): (&str, &[String]),
    lines: &[Line],
    (width, height): (Tenths, Tenths),
) -> Option<String> {
    let dots = || lines.iter().flat_map(|line| line.dots.iter().flatten());
    let ends = || dots().flat_map(|dot| [low(dot), high(dot)]);
    let (least, most) = (ends().min()?.min(MILLION), ends().max()?.max(MILLION));
    let names = lines.iter().map(|line| text_width(&line.label)).max()?;
    let right = (names + NAME_OFF).min(width / 3);
    let floor = height - BOTTOM;
    let plot = Plot {
        scale: Log::covering(least, most, floor - TOP),
        width: width - right,
        floor,
        slot: (width - right - LEFT) / whole(values.len()),
        lines: whole(lines.len()),
    };
    let mut canvas = Canvas::new();
    grid(&mut canvas, &plot, key, values);
    for (at, line) in lines.iter().enumerate() {
        assert!(
            line.dots.len() == values.len(),
            "a ratio or none for each value"
        );
        draw_line(&mut canvas, &plot, at, line, values);
    }
    write_names(&mut canvas, &plot, lines, right);
    let said: Vec<String> = lines.iter().map(|line| said(line, values)).collect();
    Some(canvas.finish(id, (width, height), title, &said.join("; ")))
}

fn low(dot: &Dot) -> u64 {
    dot.ends_ppm
        .map_or(dot.ratio_ppm, |ends| ends.0.min(dot.ratio_ppm))
}

fn high(dot: &Dot) -> u64 {
    dot.ends_ppm
        .map_or(dot.ratio_ppm, |ends| ends.1.max(dot.ratio_ppm))
}

fn grid(canvas: &mut Canvas, plot: &Plot, key: &str, values: &[String]) {
    for tick in plot.scale.ticks(TICKS_APART) {
        let y = plot.y(tick);
        let class = if tick == MILLION { "axis" } else { "grid" };
        canvas.line(class, (LEFT, y), (plot.width, y));
        let text = format!("× {}", super::intervals::plain(tick));
        canvas.text("tick", (LEFT - 60, y + 40), Anchor::End, &text);
    }
    for (at, value) in values.iter().enumerate() {
        let place = (plot.middle(at), plot.floor + 180);
        canvas.text("tick", place, Anchor::Middle, &fitted(value, plot.slot));
    }
    let middle = LEFT + (plot.width - LEFT) / 2;
    canvas.text("name", (middle, plot.floor + 350), Anchor::Middle, key);
}

fn draw_line(canvas: &mut Canvas, plot: &Plot, at: usize, line: &Line, values: &[String]) {
    let class = colour('s', line.series);
    // A line stops where a value has no ratio.
    let mut run = Vec::new();
    for (value, dot) in line.dots.iter().enumerate() {
        match dot {
            Some(dot) => run.push((plot.x(value, at), plot.y(dot.ratio_ppm))),
            None => end_run(canvas, &class, &mut run),
        }
    }
    end_run(canvas, &class, &mut run);
    for (value, dot) in line.dots.iter().enumerate() {
        let Some(dot) = dot else { continue };
        let tip = format!("{}, {}: {}", line.label, values[value], dot.text);
        let (x, top, bottom) = (plot.x(value, at), plot.y(high(dot)), plot.y(low(dot)));
        if dot.ends_ppm.is_some() {
            canvas.rect(
                &class,
                (x - BAR / 2, top),
                (BAR, (bottom - top).max(BAR)),
                &tip,
            );
        }
        let corner = (x - DOT / 2, plot.y(dot.ratio_ppm) - DOT / 2);
        canvas.rect(&class, corner, (DOT, DOT), &tip);
    }
}

fn end_run(canvas: &mut Canvas, class: &str, run: &mut Vec<(Tenths, Tenths)>) {
    if run.len() > 1 {
        canvas.path(&format!("curve {class}"), run);
    }
    run.clear();
}

/// Names at the right, each as near its line's end as the others let it.
fn write_names(canvas: &mut Canvas, plot: &Plot, lines: &[Line], room: Tenths) {
    let end = |line: &Line| {
        line.dots
            .iter()
            .rev()
            .flatten()
            .next()
            .map(|dot| plot.y(dot.ratio_ppm))
    };
    let mut names: Vec<(Tenths, &Line)> = lines
        .iter()
        .filter_map(|line| Some((end(line)?, line)))
        .collect();
    names.sort_by_key(|(y, _)| *y);
    // Down from the top, and then up from below where the last would leave the picture.
    let mut free = Tenths::MIN;
    for (y, _) in &mut names {
        *y = (*y).max(free);
        free = *y + NAMES_APART;
    }
    let mut free = plot.floor + BOTTOM - NAMES_APART;
    for (y, _) in names.iter_mut().rev() {
        *y = (*y).min(free);
        free = *y - NAMES_APART;
    }
    for (y, line) in names {
        let class = format!("label {}", colour('s', line.series));
        let text = fitted(&line.label, room - NAME_OFF);
        canvas.text(
            &class,
            (plot.width + NAME_OFF, y + 40),
            Anchor::Start,
            &text,
        );
    }
}

fn said(line: &Line, values: &[String]) -> String {
    let dots = line.dots.iter().zip(values);
    let words = dots.map(|(dot, value)| {
        let text = dot.as_ref().map_or("no ratio", |dot| dot.text.as_str());
        format!("{value} {text}")
    });
    format!("{}: {}", line.label, words.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dot(ratio_ppm: u64, ends_ppm: Option<(u64, u64)>) -> Option<Dot> {
        Some(Dot {
            ratio_ppm,
            ends_ppm,
            text: format!("×{ratio_ppm}"),
        })
    }

    fn line(label: &str, series: usize, dots: Vec<Option<Dot>>) -> Line {
        Line {
            label: label.to_owned(),
            series,
            dots,
        }
    }

    fn drawn(lines: &[Line]) -> Option<String> {
        let values = ["8".to_owned(), "64".to_owned()];
        draw("x", "t", ("core.count", &values), lines, (7_200, 3_200))
    }

    /// Twice as high is as far above the baseline as half is below it.
    #[test]
    fn ratios_stand_on_a_logarithmic_scale_with_the_baseline_on_it() {
        let two = dot(2 * MILLION, None);
        let half = dot(MILLION / 2, None);
        let text = drawn(&[line("attc", 1, vec![two, half])]).expect("two ratios");
        // TOP is 12 px and the floor at 278: the baseline is in the middle, at 145.
        assert!(
            text.contains("class=\"axis\" x1=\"42\" y1=\"145\""),
            "{text}"
        );
        let corners: Vec<&str> = text
            .lines()
            .filter(|line| line.contains("height=\"6\""))
            .collect();
        assert!(
            corners[0].contains("y=\"9\"") && corners[1].contains("y=\"275\""),
            "{text}"
        );
    }

    #[test]
    fn an_interval_is_a_bar_and_without_one_there_is_a_dot_alone() {
        let with = dot(MILLION, Some((MILLION / 2, 2 * MILLION)));
        let text = drawn(&[line("attc", 1, vec![with, dot(MILLION, None)])]).expect("two ratios");
        let bars = text.matches("width=\"2\"").count();
        assert_eq!(
            (bars, text.matches("width=\"6\"").count()),
            (1, 2),
            "{text}"
        );
        assert!(
            text.contains("width=\"2\" height=\"266\""),
            "it spans the scale: {text}"
        );
    }

    #[test]
    fn a_line_stops_where_there_is_no_ratio() {
        let whole = line("a", 1, vec![dot(MILLION, None), dot(MILLION, None)]);
        let torn = line("b", 2, vec![None, dot(MILLION, None)]);
        let text = drawn(&[whole, torn]).expect("three ratios");
        assert_eq!(text.matches("<path").count(), 1);
        assert!(text.contains("b: 8 no ratio, 64 ×1000000"));
        assert_eq!(drawn(&[line("b", 2, vec![None, None])]), None);
    }

    #[test]
    fn names_of_lines_that_end_alike_do_not_lie_on_one_another() {
        let lines: Vec<Line> = (0..14)
            .map(|at| line(&format!("scheme {at}"), at, vec![dot(MILLION, None); 2]))
            .collect();
        let text = drawn(&lines).expect("many ratios");
        let mut places: Vec<i64> = text
            .lines()
            .filter(|line| line.contains("class=\"label"))
            .map(|line| {
                let from = line.find(" y=\"").expect("a place") + 4;
                let digits = line[from..].split(['.', '"']).next().expect("digits");
                digits.parse().expect("a number")
            })
            .collect();
        places.sort_unstable();
        assert_eq!(places.len(), 14);
        assert!(
            places.windows(2).all(|pair| pair[1] - pair[0] >= 14),
            "{places:?}"
        );
        assert!(places.iter().all(|&y| (0..=320).contains(&y)), "{places:?}");
    }
}
