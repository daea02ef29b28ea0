// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Syntax errors, as many as can be distinguished, one for each line.
//!
//! The parser goes on after an error, but not in every respect: behind a line that it cannot
//! make out it checks no value. So the lines in error are blanked and the rest is parsed again.
//! An array that is never closed swallows what follows; errors behind its first are dropped.

use std::collections::BTreeMap;

use toml::de::{DeTable, Error};

use crate::diagnostic::{Problem, Severity};

/// Each round finds what the one before hid; files with more layers of errors are rare.
const ROUNDS: usize = 8;

/// The problems behind the `errors` that the parser found in `text`, in the order of lines.
pub(super) fn problems(text: &str, mut errors: Vec<Error>) -> Vec<Problem> {
    let starts = line_starts(text);
    let mut found: BTreeMap<usize, Problem> = BTreeMap::new();
    let mut rest = text.to_owned();
    let mut lost_header = false;
    for _ in 0..ROUNDS {
        errors.sort_by_key(start);
        let swallowed = errors.iter().any(|error| is_any(error, &SWALLOWED));
        let mut wrong = Vec::new();
        for error in &errors {
            let line = starts.partition_point(|&at| at <= start(error)) - 1;
            // Without its header a table's keys seem to be those of the table before.
            let echo = lost_header && error.message() == DUPLICATE;
            if !echo && !found.contains_key(&line) {
                found.insert(line, problem(error, swallowed));
                wrong.push(line);
            }
            if swallowed && is_any(error, &BRACKETS) {
                break;
            }
        }
        if swallowed || wrong.is_empty() {
            break;
        }
        for line in wrong {
            let end = starts.get(line + 1).copied().unwrap_or(text.len());
            let content = text[starts[line]..end].trim();
            if opens_more_lines(content) {
                return found.into_values().collect();
            }
            lost_header |= content.starts_with('[');
            let blank: String = text[starts[line]..end].bytes().map(blank).collect();
            rest.replace_range(starts[line]..end, &blank);
        }
        errors = DeTable::parse_recoverable(&rest).1;
    }
    found.into_values().collect()
}

const DUPLICATE: &str = "duplicate key";

/// What the parser says when a bracket was not closed where it should have been.
const SWALLOWED: [&str; 4] = [
    "unclosed array, ",
    "unclosed inline table",
    "unexpected `=` in array",
    "missing key for inline table",
];

/// What it says of anything between brackets.
const BRACKETS: [&str; 5] = [
    "array elements",
    "in array",
    "unclosed array, ",
    "inline table",
    "key-value pairs",
];

fn is_any(error: &Error, phrases: &[&str]) -> bool {
    phrases
        .iter()
        .any(|phrase| error.message().contains(phrase))
}

fn start(error: &Error) -> usize {
    error.span().unwrap_or_default().start
}

fn line_starts(text: &str) -> Vec<usize> {
    std::iter::once(0)
        .chain(text.match_indices('\n').map(|(at, _)| at + 1))
        .collect()
}

/// Whether blanking the line might turn the lines after it into something else.
fn opens_more_lines(line: &str) -> bool {
    line.contains("\"\"\"") || line.contains("'''") || line.ends_with(['[', '{', ','])
}

/// Keeps offsets: a blank for every byte but the line break.
fn blank(byte: u8) -> char {
    if byte == b'\n' { '\n' } else { ' ' }
}

fn problem(error: &Error, swallowed: bool) -> Problem {
    let (message, label) = match error.message().split_once(", expected ") {
        // The parser takes whatever it cannot make out for a string.
        Some((message @ "string values must be quoted", _)) => (
            message,
            "expected a number, true, false, or a string in quotes".to_owned(),
        ),
        Some((message, expected)) => (message, format!("expected {expected}")),
        None if error.message() == DUPLICATE => {
            (DUPLICATE, "defined above already; keep one".to_owned())
        }
        None => (error.message(), "not valid TOML".to_owned()),
    };
    let note = swallowed && is_any(error, &BRACKETS);
    let note = note.then(|| "a bracket that was opened before may not be closed".to_owned());
    let message = format!("TOML syntax: {message}");
    Problem {
        severity: Severity::Error,
        span: error.span().unwrap_or_default(),
        message,
        label,
        note,
    }
}
