// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of a sweep: one measure of each variant over a key's values, as a ratio to a baseline,
//! drawn and as a table. It needs nothing beside it, as every page of this crate.

use askama::Template;

use crate::svg::swept::{self, Line};

/// A chart where there is room, and on a phone.
const WIDE: (i64, i64) = (7_200, 3_200);
const NARROW: (i64, i64) = (3_400, 3_000);

/// What the page says.
#[derive(Debug)]
pub struct Sweep<'a> {
    /// What was simulated.
    pub source: &'a str,
    /// The measure, as results name it.
    pub measure: &'a str,
    /// Which way it is better, in words; empty where neither is.
    pub better: &'a str,
    /// What ratios are to.
    pub baseline: &'a str,
    /// Seeds of each value.
    pub seeds: usize,
    /// The key across, and its values.
    pub key: &'a str,
    /// Its values in the order given.
    pub values: Vec<String>,
    /// A chart for each combination of the other keys.
    pub panels: Vec<Panel>,
}

/// One chart.
#[derive(Debug)]
pub struct Panel {
    /// The other keys with their values; empty if there are none.
    pub rest: String,
    /// A line for each variant but the baseline.
    pub lines: Vec<Line>,
    /// Why a value's ratios are not of what was asked, a sentence each.
    pub notes: Vec<String>,
}

#[derive(Template)]
#[template(path = "sweep.html")]
struct Page<'a> {
    title: String,
    sweep: &'a Sweep<'a>,
    panels: Vec<Drawn<'a>>,
}

struct Drawn<'a> {
    rest: &'a str,
    notes: &'a [String],
    pictures: Option<(String, String)>,
    rows: Vec<(String, &'a str, Vec<&'a str>)>,
}

impl<'a> Drawn<'a> {
    fn new(at: usize, title: &str, sweep: &'a Sweep<'_>, panel: &'a Panel) -> Self {
        let across = (sweep.key, sweep.values.as_slice());
        let draw =
            |kind, size| swept::draw(&format!("p{at}-{kind}"), title, across, &panel.lines, size);
        let row = |line: &'a Line| {
            let cell =
                |dot: &'a Option<swept::Dot>| dot.as_ref().map_or("no ratio", |dot| &dot.text);
            let colour = crate::svg::colour('s', line.series);
            (
                colour,
                line.label.as_str(),
                line.dots.iter().map(cell).collect(),
            )
        };
        Self {
            rest: &panel.rest,
            notes: &panel.notes,
            pictures: draw("w", WIDE).zip(draw("n", NARROW)),
            rows: panel.lines.iter().map(row).collect(),
        }
    }
}

/// The page of a sweep.
#[must_use]
pub fn page(sweep: &Sweep<'_>) -> String {
    let title = format!("{} over {}", sweep.measure, sweep.key);
    let panels = sweep.panels.iter().enumerate();
    let page = Page {
        panels: panels
            .map(|(at, panel)| Drawn::new(at, &title, sweep, panel))
            .collect(),
        title,
        sweep,
    };
    page.render().expect("rendering to memory cannot fail")
}
