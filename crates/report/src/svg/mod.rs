// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Charts as SVG, to stand inside the page.
//!
//! A chart carries no colours and no font of its own: it names classes (`s0` to `s6` for variants,
//! `c0` to `c6` for parts of a whole) that the page's style sheet colours for light and dark.
//! Coordinates are whole tenths of a pixel. Every chart has a title and a description for readers
//! who do not see it.

pub mod bars;
pub mod cdf;
pub mod intervals;
mod scale;
pub mod stacked;
pub mod swept;

use std::fmt::Write;

/// How many colours there are for variants, and for parts; more share them in turn.
pub const COLOURS: usize = 7;

/// Tenths of a pixel.
pub type Tenths = i64;

/// Text in a form that can stand in HTML and SVG, between tags and in quoted attributes. Control
/// characters, which XML forbids, become the replacement character.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            _ if c.is_control() => safe.push('\u{fffd}'),
            _ => safe.push(c),
        }
    }
    safe
}

/// A drawing under way.
pub(crate) struct Canvas {
    body: String,
}

/// On which side of its point a text lies.
#[derive(Clone, Copy)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

impl Canvas {
    pub(crate) fn new() -> Self {
        Self {
            body: String::new(),
        }
    }

    /// A filled rectangle; a tip is shown where the pointer rests.
    pub(crate) fn rect(
        &mut self,
        class: &str,
        (x, y): (Tenths, Tenths),
        (w, h): (Tenths, Tenths),
        tip: &str,
    ) {
        let place = format!(
            r#"<rect class="{class}" x="{}" y="{}" width="{}" height="{}""#,
            px(x),
            px(y),
            px(w),
            px(h)
        );
        if tip.is_empty() {
            self.put(&format!("{place}/>"));
        } else {
            self.put(&format!("{place}><title>{}</title></rect>", escape(tip)));
        }
    }

    pub(crate) fn line(
        &mut self,
        class: &str,
        (x1, y1): (Tenths, Tenths),
        (x2, y2): (Tenths, Tenths),
    ) {
        self.put(&format!(
            r#"<line class="{class}" x1="{}" y1="{}" x2="{}" y2="{}"/>"#,
            px(x1),
            px(y1),
            px(x2),
            px(y2)
        ));
    }

    pub(crate) fn path(&mut self, class: &str, points: &[(Tenths, Tenths)]) {
        let mut data = String::new();
        for (at, &(x, y)) in points.iter().enumerate() {
            let verb = if at == 0 { 'M' } else { 'L' };
            write!(data, "{verb}{} {}", px(x), px(y)).expect("a String takes all");
        }
        self.put(&format!(r#"<path class="{class}" d="{data}"/>"#));
    }

    pub(crate) fn text(
        &mut self,
        class: &str,
        (x, y): (Tenths, Tenths),
        anchor: Anchor,
        text: &str,
    ) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.put(&format!(
            r#"<text class="{class}" x="{}" y="{}" text-anchor="{anchor}">{}</text>"#,
            px(x),
            px(y),
            escape(text)
        ));
    }

    /// A number that ends at a point, and a fainter one behind it.
    pub(crate) fn number(&mut self, (x, y): (Tenths, Tenths), value: &str, note: &str) {
        let note = if note.is_empty() {
            String::new()
        } else {
            format!(r#" <tspan class="note">{}</tspan>"#, escape(note))
        };
        self.put(&format!(
            r#"<text class="value" x="{}" y="{}" text-anchor="end">{}{note}</text>"#,
            px(x),
            px(y),
            escape(value)
        ));
    }

    /// The whole element. `id` must be unique on the page.
    pub(crate) fn finish(
        self,
        id: &str,
        (w, h): (Tenths, Tenths),
        title: &str,
        description: &str,
    ) -> String {
        let (id, title, description) = (escape(id), escape(title), escape(description));
        format!(
            "<svg class=\"chart\" viewBox=\"0 0 {} {}\" role=\"img\" \
             aria-labelledby=\"{id}-t {id}-d\">\n<title id=\"{id}-t\">{title}</title>\n\
             <desc id=\"{id}-d\">{description}</desc>\n{}</svg>\n",
            px(w),
            px(h),
            self.body
        )
    }

    fn put(&mut self, element: &str) {
        self.body.push_str(element);
        self.body.push('\n');
    }
}

/// Tenths as pixels: `12`, `12.5`, `-0.5`.
fn px(tenths: Tenths) -> String {
    let sign = if tenths < 0 { "-" } else { "" };
    let (whole, rest) = (tenths.unsigned_abs() / 10, tenths.unsigned_abs() % 10);
    if rest == 0 {
        format!("{sign}{whole}")
    } else {
        format!("{sign}{whole}.{rest}")
    }
}

/// About how wide a text of the charts' size is. Nothing is cut to it; it only shows whether a
/// label fits.
pub(crate) fn text_width(text: &str) -> Tenths {
    let wide = |c: char| if c.is_lowercase() || c == ' ' { 70 } else { 86 };
    text.chars().map(wide).sum()
}

/// `text` cut to about `room`, with an ellipsis where something is gone.
pub(crate) fn fitted(text: &str, room: Tenths) -> String {
    if text_width(text) <= room {
        return text.to_owned();
    }
    let mut cut = String::new();
    for c in text.chars() {
        if text_width(&cut) + 2 * text_width("…") > room {
            break;
        }
        cut.push(c);
    }
    cut + "…"
}

/// The class of a variant's or a part's colour.
pub(crate) fn colour(kind: char, at: usize) -> String {
    format!("{kind}{}", at % COLOURS)
}
