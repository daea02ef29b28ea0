// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The problems of one file: found by byte range, shown by line and column with the source line.

use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};

/// More problems than this are counted, not shown: no one reads on, and a hostile file may have
/// one for every byte.
const SHOWN: usize = 100;
/// A longer source line is not shown: it would hide the message.
const SHOWN_LINE_BYTES: usize = 2000;

/// How much a diagnostic says against a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The file is refused.
    Error,
    /// The file is read; its writer should know.
    Note,
}

/// One problem of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Whether the file is refused for it.
    pub severity: Severity,
    /// Line, counted from 1.
    pub line: usize,
    /// Column in characters, counted from 1; a tab is one character.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What was expected at this place, or how to fix it.
    pub label: String,
    /// More help, such as the list of right names.
    pub note: Option<String>,
    /// The bytes concerned, in the text without a byte order mark; within one line.
    span: Range<usize>,
}

/// Every problem of one file, or every note on one that is read, in the order of lines; at least
/// one.
///
/// `Display` shows all of it as plain text; [`Diagnostics::render`] does so in colour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostics {
    file: String,
    text: String,
    items: Vec<Diagnostic>,
}

/// A problem as found, before its place is worked out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub severity: Severity,
    pub span: Range<usize>,
    pub message: String,
    pub label: String,
    pub note: Option<String>,
}

impl Diagnostics {
    /// Places `problems`, of which there must be at least one, in `text`.
    pub(crate) fn new(file: &str, text: &str, mut problems: Vec<Problem>) -> Self {
        assert!(
            !problems.is_empty(),
            "diagnostics of a file without problems"
        );
        problems.sort_by_key(|problem| problem.span.start);
        let mut place = Place::default();
        let items = problems
            .into_iter()
            .map(|problem| {
                place.advance(text, problem.span.start);
                Diagnostic {
                    severity: problem.severity,
                    line: place.line,
                    column: place.column,
                    message: problem.message,
                    label: problem.label,
                    note: problem.note,
                    span: within_line(text, place.offset, problem.span.end),
                }
            })
            .collect();
        Self {
            file: printable(file),
            text: text.to_owned(),
            items,
        }
    }

    /// The name of the file, as it is shown.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The problems, in the order of lines.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.items.iter()
    }

    /// All problems as text for a terminal; the form is that of the Rust compiler's messages.
    ///
    /// The text is ASCII but for what it quotes of the file. At most 100 problems are shown; the
    /// last line counts all of them.
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        let renderer = if colour {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        let mut out = String::new();
        for item in self.items.iter().take(SHOWN) {
            out.push_str(&renderer.render(&[self.group(item)]));
            out.push_str("\n\n");
        }
        let count = self.items.len();
        let plural = if count == 1 { "" } else { "s" };
        let noted = self
            .items
            .iter()
            .all(|item| item.severity == Severity::Note);
        let what = if noted { "note" } else { "problem" };
        out.push_str(&format!("{count} {what}{plural} in {}", self.file));
        if count > SHOWN {
            out.push_str(&format!(", of which the first {SHOWN} are shown"));
        }
        out
    }

    fn group<'a>(&'a self, item: &'a Diagnostic) -> Group<'a> {
        let level = match item.severity {
            Severity::Error => Level::ERROR,
            Severity::Note => Level::NOTE,
        };
        let title = level.primary_title(&item.message);
        let start = self.text[..item.span.start]
            .rfind('\n')
            .map_or(0, |at| at + 1);
        let line = self.text[start..].split('\n').next().unwrap_or_default();
        let line = line.strip_suffix('\r').unwrap_or(line);
        let group = if line.len() > SHOWN_LINE_BYTES {
            let origin = Origin::path(&self.file)
                .line(item.line)
                .char_column(item.column);
            title
                .element(origin)
                .element(Level::HELP.message(&item.label))
        } else {
            let span = item.span.start - start..item.span.end - start;
            // The renderer neutralises the other control characters. This one is as many bytes.
            let line = line.replace(|c: char| ('\u{80}'..'\u{a0}').contains(&c), "\u{bf}");
            title.element(
                Snippet::source(line)
                    .line_start(item.line)
                    .path(&self.file)
                    .annotation(AnnotationKind::Primary.span(span).label(&item.label)),
            )
        };
        match &item.note {
            Some(note) => group.element(Level::NOTE.message(note)),
            None => group,
        }
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Diagnostics {}

/// A place in a text that only moves on, so that placing all problems reads the text once.
#[derive(Debug)]
struct Place {
    offset: usize,
    line: usize,
    column: usize,
}

impl Default for Place {
    fn default() -> Self {
        Self {
            offset: 0,
            line: 1,
            column: 1,
        }
    }
}

impl Place {
    fn advance(&mut self, text: &str, to: usize) {
        for (at, c) in text[self.offset..]
            .char_indices()
            .map(|(i, c)| (i + self.offset, c))
        {
            // A place inside a character or behind the end is that of the last character before.
            if at + c.len_utf8() > to {
                self.offset = at;
                return;
            }
            if c == '\n' {
                self.line += 1;
                self.column = 1;
            } else {
                self.column += 1;
            }
        }
        self.offset = text.len();
    }
}

/// The part of a range that lies on the line on which it starts, on character boundaries.
fn within_line(text: &str, start: usize, end: usize) -> Range<usize> {
    let mut line_end = text[start..]
        .find('\n')
        .map_or(text.len(), |length| start + length);
    if text[start..line_end].ends_with('\r') {
        line_end -= 1;
    }
    let mut end = end.clamp(start, line_end.max(start));
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    start..end
}

/// A word of the file for use inside a message: short, and without control characters.
pub(crate) fn quoted(word: &str) -> String {
    const CHARS: usize = 40;
    let mut short: String = word.chars().take(CHARS).collect();
    if short.len() < word.len() {
        short.push_str("...");
    }
    printable(&short)
}

/// `text` with what could move a terminal's cursor or turn its writing direction spelt out.
fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if steers_terminal(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

fn steers_terminal(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
