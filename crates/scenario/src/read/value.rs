// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the readers of tables share: places in the text, the problems found so far, and how a
//! value and what was expected of it are worded.

use std::cell::RefCell;
use std::fmt::Display;
use std::ops::{Range, RangeInclusive};

use toml::Spanned;
use toml::de::{DeInteger, DeValue};

use crate::diagnostic::{Problem, Severity, quoted};

/// Bytes of the text.
pub(super) type Span = Range<usize>;
/// A value with the place where it is written, or of its table's header where it is a default.
pub(super) type Placed<T> = Spanned<T>;

/// Everything found wrong so far.
#[derive(Debug, Default)]
pub(super) struct Problems(RefCell<Vec<Problem>>);

impl Problems {
    pub fn add(&self, span: Span, message: impl Into<String>, label: impl Into<String>) {
        self.push(span, message.into(), label.into(), None);
    }

    pub fn push(&self, span: Span, message: String, label: String, note: Option<String>) {
        self.0.borrow_mut().push(Problem {
            severity: Severity::Error,
            span,
            message,
            label,
            note,
        });
    }

    /// Something that the writer should know of a file that is read.
    pub fn note(&self, span: Span, message: impl Into<String>, label: impl Into<String>) {
        self.0.borrow_mut().push(Problem {
            severity: Severity::Note,
            span,
            message: message.into(),
            label: label.into(),
            note: None,
        });
    }

    /// The errors, and the notes.
    pub fn into_parts(self) -> (Vec<Problem>, Vec<Problem>) {
        let all = self.0.into_inner().into_iter();
        all.partition(|problem| problem.severity == Severity::Error)
    }
}

/// What a string has to be.
#[derive(Debug)]
pub(super) struct Text {
    pub expected: &'static str,
    pub most_chars: usize,
    pub holds: fn(&str) -> bool,
}

impl Text {
    pub fn expected(&self) -> String {
        format!("{}, at most {} characters", self.expected, self.most_chars)
    }
}

pub(super) fn quoted_list(names: impl Iterator<Item = &'static str>) -> String {
    names
        .map(|name| format!("\"{name}\""))
        .collect::<Vec<_>>()
        .join(", ")
}

pub(super) fn expected_integer<T: Display + PartialEq>(range: &RangeInclusive<T>) -> String {
    if range.start() == range.end() {
        return format!("the integer {}", range.start());
    }
    format!("an integer from {} to {}", range.start(), range.end())
}

pub(super) fn type_name(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

/// An integer as it was written, but for underscores.
pub(super) fn written(integer: &DeInteger<'_>) -> String {
    let prefix = match integer.radix() {
        2 => "0b",
        8 => "0o",
        16 => "0x",
        _ => "",
    };
    format!("{prefix}{}", quoted(integer.as_str()))
}
