// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which share of all values lies below each value: one line per variant, logarithmic in x.
//!
//! Within a bucket the line rises evenly, for nothing more is known there.

use steady_measures::{Bucket, Distribution, Unit};

use super::scale::{Linear, Log};
use super::{Anchor, Canvas, Tenths, colour, text_width};
use crate::humane;

/// One line.
#[derive(Debug, Clone, Copy)]
pub struct Curve<'a> {
    /// The variant's name.
    pub label: &'a str,
    /// Its values.
    pub values: &'a Distribution,
    /// Which of the variants' colours it has.
    pub series: usize,
}

const LEFT: Tenths = 420;
const RIGHT: Tenths = 120;
const TOP: Tenths = 80;
const BOTTOM: Tenths = 260;
/// Shares that are marked, in millionths.
const MARKED_PPM: [u32; 6] = [0, 250_000, 500_000, 750_000, 900_000, 1_000_000];
/// Where a line's name may stand, in millionths, the best first.
const NAME_PPM: [u32; 9] = [
    500_000, 400_000, 600_000, 300_000, 700_000, 200_000, 800_000, 120_000, 880_000,
];
/// Half the height that a name takes, and its distance from its line.
const NAME_HALF: Tenths = 80;
const NAME_OFF: Tenths = 60;
const WHOLE_PPM: u64 = 1_000_000;

struct Plot {
    x: Log,
    y: Linear,
    width: Tenths,
    height: Tenths,
}

impl Plot {
    fn at(&self, value: u64, ppm: u64) -> (Tenths, Tenths) {
        let floor = self.height - BOTTOM;
        (LEFT + self.x.place(value), floor - self.y.place(ppm))
    }

    /// The share that stands at a height; the inverse of the second of [`Plot::at`].
    fn share_at(&self, y: Tenths) -> u32 {
        let floor = self.height - BOTTOM;
        let above = (floor - y).clamp(0, floor - TOP);
        u32::try_from(above * 1_000_000 / (floor - TOP)).expect("a share is at most the whole")
    }
}

/// Draws the lines over one another. Curves without values are left out; without any there is
/// nothing to draw and the answer is `None`.
#[must_use]
pub fn draw(
    id: &str,
    title: &str,
    curves: &[Curve<'_>],
    (width, height): (i64, i64),
) -> Option<String> {
    let filled: Vec<Curve<'_>> = curves
        .iter()
        .copied()
        .filter(|curve| curve.values.count() > 0)
        .collect();
    let min = filled.iter().filter_map(|curve| curve.values.min()).min()?;
    let max = filled.iter().filter_map(|curve| curve.values.max()).max()?;
    let plot = Plot {
        x: Log::covering(min, max, width - LEFT - RIGHT),
        y: Linear::new(WHOLE_PPM, height - TOP - BOTTOM),
        width,
        height,
    };
    let mut canvas = Canvas::new();
    grid(&mut canvas, &plot, filled[0].values.unit());
    for curve in &filled {
        let class = format!("curve {}", colour('s', curve.series));
        canvas.path(&class, &points(&plot, curve.values));
    }
    names(&mut canvas, &plot, &filled);
    let said: Vec<String> = filled.iter().map(said).collect();
    Some(canvas.finish(id, (width, height), title, &said.join("; ")))
}

fn grid(canvas: &mut Canvas, plot: &Plot, unit: Unit) {
    let (left, right) = (LEFT, plot.width - RIGHT);
    for ppm in MARKED_PPM {
        let (_, y) = plot.at(0, u64::from(ppm));
        let class = if ppm == 0 { "axis" } else { "grid" };
        canvas.line(class, (left, y), (right, y));
        let share = format!("{} %", ppm / 10_000);
        canvas.text("tick", (left - 60, y + 40), Anchor::End, &share);
    }
    let floor = plot.height - BOTTOM;
    for value in plot.x.ticks(480) {
        let (x, _) = plot.at(value, 0);
        canvas.line("grid", (x, TOP), (x, floor + 40));
        let text = round_value(unit, value);
        // The last label would leave the picture if it stood in the middle of its line.
        let (x, anchor) = if x + text_width(&text) / 2 > plot.width {
            (plot.width, Anchor::End)
        } else {
            (x, Anchor::Middle)
        };
        canvas.text("tick", (x, floor + 180), anchor, &text);
    }
}

/// `10 µs` in place of `10.0 µs`: ticks stand at round values.
fn round_value(unit: Unit, value: u64) -> String {
    let text = humane::positive(unit, value);
    text.replacen(".00", "", 1).replacen(".0", "", 1)
}

fn points(plot: &Plot, values: &Distribution) -> Vec<(Tenths, Tenths)> {
    let ends = values.min().zip(values.max());
    let (min, max) = ends.expect("a curve has values");
    let mut points = vec![plot.at(min, 0)];
    let mut below = 0_u64;
    for &Bucket(low, high, count) in values.buckets() {
        points.push(plot.at(low.max(min), share(below, values.count())));
        below += count;
        points.push(plot.at(high.min(max), share(below, values.count())));
    }
    points.dedup();
    debug_assert!(points.is_sorted_by(|a, b| a.0 <= b.0 && a.1 >= b.1));
    points
}

/// `part` of `whole` in millionths, rounded down.
fn share(part: u64, whole: u64) -> u64 {
    let ppm = u128::from(part) * u128::from(WHOLE_PPM) / u128::from(whole);
    u64::try_from(ppm).expect("a part is at most the whole")
}

/// The area that a name takes, or the stretch of a line.
#[derive(Clone, Copy)]
struct Area {
    left: Tenths,
    right: Tenths,
    top: Tenths,
    bottom: Tenths,
}

impl Area {
    fn meets(&self, other: &Self) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }
}

/// Writes each name beside its own line, where it lies on no other line and on no other name.
/// Names for which there is no such place are listed in the lower right corner, where lines that
/// only rise seldom are.
fn names(canvas: &mut Canvas, plot: &Plot, curves: &[Curve<'_>]) {
    let mut taken: Vec<Area> = Vec::new();
    let mut listed = 0;
    for (at, curve) in curves.iter().enumerate() {
        let places: Vec<(Area, Anchor)> = NAME_PPM
            .iter()
            .flat_map(|&ppm| [Anchor::Start, Anchor::End].map(|side| (ppm, side)))
            .map(|(ppm, side)| (beside(plot, curve, ppm, side), side))
            .collect();
        let free = places.iter().find(|(area, _)| {
            let others = curves.iter().enumerate().filter(|&(other, _)| other != at);
            area.left >= LEFT
                && area.right <= plot.width
                && !taken.iter().any(|name| name.meets(area))
                && !others
                    .map(|(_, other)| stretch(plot, other, area))
                    .any(|line| line.meets(area))
        });
        let &(area, side) = free.unwrap_or(&(corner(plot, curve, listed), Anchor::End));
        if free.is_none() {
            listed += 1;
        }
        taken.push(area);
        let x = match side {
            Anchor::End => area.right,
            _ => area.left,
        };
        let class = format!("label {}", colour('s', curve.series));
        let y = area.top + NAME_HALF + 40;
        canvas.text(&class, (x, y), side, curve.label);
    }
}

/// Where a name lies to the right (`Start`) or left (`End`) of its line, around a share.
fn beside(plot: &Plot, curve: &Curve<'_>, ppm: u32, side: Anchor) -> Area {
    let (_, y) = plot.at(0, u64::from(ppm));
    let wide = text_width(curve.label);
    let mut area = Area {
        left: 0,
        right: 0,
        top: y - NAME_HALF,
        bottom: y + NAME_HALF,
    };
    let line = stretch(plot, curve, &area);
    (area.left, area.right) = match side {
        Anchor::End => (line.left - NAME_OFF - wide, line.left - NAME_OFF),
        _ => (line.right + NAME_OFF, line.right + NAME_OFF + wide),
    };
    area
}

/// Where the name stands that is the `listed`th in the corner.
fn corner(plot: &Plot, curve: &Curve<'_>, listed: Tenths) -> Area {
    let bottom = plot.height - BOTTOM - 40 - listed * 2 * NAME_HALF;
    let right = plot.width - RIGHT - 60;
    Area {
        left: right - text_width(curve.label),
        right,
        top: bottom - 2 * NAME_HALF,
        bottom,
    }
}

/// The part of a line that lies at the height of `area`.
fn stretch(plot: &Plot, curve: &Curve<'_>, area: &Area) -> Area {
    let x = |y: Tenths| {
        let ppm = plot.share_at(y);
        let value = curve.values.quantile(ppm).expect("a curve has values");
        plot.at(value, 0).0
    };
    Area {
        left: x(area.bottom),
        right: x(area.top),
        ..*area
    }
}

fn said(curve: &Curve<'_>) -> String {
    let unit = curve.values.unit();
    let at = |ppm| {
        let value = curve.values.quantile(ppm);
        humane::positive(unit, value.expect("a curve has values"))
    };
    format!(
        "{}: half of all values up to {}, 99 % up to {}, all up to {}",
        curve.label,
        at(500_000),
        at(990_000),
        at(1_000_000)
    )
}
