// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A picture of ratios with their intervals, as a file of its own that suits light and dark pages.

use steady_report::svg::intervals::{self, Interval};

use crate::table::Entry;

/// Width in tenths of a pixel.
const WIDTH: i64 = 8_000;
/// Rows of one picture at most.
const MOST_ROWS: usize = 14;

/// The style of the picture, for a light and a dark ground.
const STYLE: &str = "\
<style>
text{font:12px system-ui,sans-serif;fill:#1f2328}
.tick{font-size:11px;fill:#59636e}
.grid{stroke:#d1d9e0;stroke-width:1}
.axis{stroke:#59636e;stroke-width:1.5}
.range{stroke:#1f2328;stroke-width:2}
.s0{fill:#0969da}.s1{fill:#bc4c00}.s2{fill:#8250df}.s3{fill:#1a7f37}.s4{fill:#bf3989}
.s5{fill:#9a6700}.s6{fill:#57606a}.track{fill:#afb8c1}
@media (prefers-color-scheme:dark){
text{fill:#f0f6fc}.tick{fill:#9198a1}.grid{stroke:#3d444d}.axis{stroke:#9198a1}
.range{stroke:#f0f6fc}.s0{fill:#4493f8}.s1{fill:#db6d28}.s2{fill:#ab7df8}.s3{fill:#3fb950}
.s4{fill:#db61a2}.s5{fill:#d29922}.s6{fill:#8b949e}.track{fill:#656c76}}
</style>
";

/// The picture of these entries; `None` where none has an interval. More than fit on a page's
/// picture are left out from the end.
#[must_use]
pub fn draw(id: &str, title: &str, entries: &[Entry]) -> Option<String> {
    let mut variants: Vec<&str> = Vec::new();
    let mut rows = Vec::new();
    for entry in entries {
        let ends = entry
            .cell
            .ratio
            .map(|ratio| (ratio, ratio.low_ppm, ratio.high_ppm));
        let Some((ratio, Some(low), Some(high))) = ends else {
            continue;
        };
        let at = variants.iter().position(|&name| name == entry.variant);
        let series = at.unwrap_or_else(|| {
            variants.push(&entry.variant);
            variants.len() - 1
        });
        let old = entry.old.as_ref().map_or("", |_| " (old)");
        rows.push(Interval {
            label: format!("{} {}: {}{old}", entry.what, arrow(entry), entry.variant),
            ratio_ppm: ratio.ratio_ppm,
            ends_ppm: (low, high),
            text: format!("{} of {}", entry.ratio(), entry.base),
            series,
            shown: entry
                .verdict()
                .is_some_and(steady_measures::chance::Verdict::is_shown),
        });
    }
    rows.truncate(MOST_ROWS);
    let drawn = intervals::draw(id, title, &rows, WIDTH)?;
    let (tag, rest) = drawn.split_once(">\n")?;
    let tag = tag.replacen(
        "<svg ",
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"800\" ",
        1,
    );
    Some(format!("{tag}>\n{STYLE}{rest}"))
}

/// Which way is better, as a sign; empty where neither is.
pub(crate) fn arrow(entry: &Entry) -> &'static str {
    match entry.better {
        steady_measures::Better::Higher => "↑",
        steady_measures::Better::Lower => "↓",
        steady_measures::Better::Neutral => "",
    }
}
