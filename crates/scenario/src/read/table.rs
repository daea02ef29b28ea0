// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the keys of one TOML table. A wrong key or value is noted and reading goes on, so that
//! one pass finds every problem.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;

use steady_nearest::nearest;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::keys::{PLACES, Place};
use super::value::{
    Placed, Problems, Span, Text, expected_integer, quoted_list, type_name, written,
};
use crate::diagnostic::quoted;
use crate::words::Word;

/// What a key was found to be.
#[derive(Debug)]
pub(super) struct Field<T> {
    key: &'static str,
    /// What the value has to be, for the message when the key is missing.
    expected: String,
    state: State<T>,
}

#[derive(Debug)]
enum State<T> {
    Absent,
    /// Present and wrong, which has been reported.
    Wrong,
    Found(Placed<T>),
}

/// The keys of one table.
#[derive(Debug, Clone)]
pub(super) struct Reader<'a> {
    table: &'a DeTable<'a>,
    /// Where the table begins: its header.
    pub span: Span,
    place: Place,
    /// The keys that unknown ones were probably meant to be: not missing, but misspelt.
    misspelt: Vec<&'static str>,
    pub problems: &'a Problems,
}

impl<'a> Reader<'a> {
    /// Opens a table and reports the keys that do not belong in it.
    pub fn open(table: &'a DeTable<'a>, span: Span, place: &Place, problems: &'a Problems) -> Self {
        let mut misspelt = Vec::new();
        for key in table.keys() {
            let name: &str = key.get_ref();
            if !place.keys.contains(&name) {
                misspelt.extend(report_unknown_key(name, key.span(), place, problems));
            }
        }
        Self {
            table,
            span,
            place: place.clone(),
            misspelt,
            problems,
        }
    }

    /// Whether the table may have `key`.
    pub fn knows(&self, key: &str) -> bool {
        self.place.keys.contains(&key)
    }

    /// The value of a required key; a missing one is reported.
    pub fn need<T>(&self, field: Field<T>) -> Option<Placed<T>> {
        match field.state {
            State::Found(value) => Some(value),
            State::Wrong => None,
            State::Absent if self.misspelt.contains(&field.key) => None,
            State::Absent => {
                let message = format!("missing key `{}` {}", field.key, self.place.within());
                let label = format!("add `{}`: {}", field.key, field.expected);
                self.problems.add(self.span.clone(), message, label);
                None
            }
        }
    }

    /// The value of a key, or its default where the key is absent.
    pub fn or<T>(&self, field: Field<T>, default: T) -> Option<Placed<T>> {
        match field.state {
            State::Found(value) => Some(value),
            State::Wrong => None,
            State::Absent => Some(Spanned::new(self.span.clone(), default)),
        }
    }

    /// The value of a key that may be absent: the outer `None` means that it is wrong.
    #[expect(clippy::option_option, reason = "wrong and absent are different")]
    pub fn optional<T>(field: Field<T>) -> Option<Option<Placed<T>>> {
        match field.state {
            State::Found(value) => Some(Some(value)),
            State::Wrong => None,
            State::Absent => Some(None),
        }
    }

    pub fn string(&self, key: &'static str, rule: &Text) -> Field<String> {
        let read = |value: &Spanned<DeValue<'a>>| self.text(key, value, rule);
        self.field(key, rule.expected(), read)
    }

    pub fn boolean(&self, key: &'static str) -> Field<bool> {
        let expected = "true or false".to_owned();
        self.field(key, expected.clone(), |value| match value.get_ref() {
            DeValue::Boolean(yes) => Some(*yes),
            other => {
                self.wrong_type(&format!("`{key}`"), value.span(), other, &expected);
                None
            }
        })
    }

    pub fn integer<T>(&self, key: &'static str, range: RangeInclusive<T>) -> Field<T>
    where
        T: Copy + Display + PartialEq + TryFrom<u64>,
        u64: From<T>,
    {
        let expected = expected_integer(&range);
        self.field(key, expected, |value| {
            self.number(&format!("`{key}`"), value, &range)
        })
    }

    pub fn word<W: Word>(&self, key: &'static str) -> Field<W> {
        let names = W::ALL.iter().map(|word| word.name());
        self.named_beside(key, [W::WHAT, W::BESIDE], W::from_name, names)
    }

    /// A string that names one of a closed set of things.
    pub fn named<T>(
        &self,
        key: &'static str,
        what: &str,
        find: impl FnOnce(&str) -> Option<T>,
        names: impl Iterator<Item = &'static str> + Clone,
    ) -> Field<T> {
        self.named_beside(key, [what, ""], find, names)
    }

    /// The same; `beside` says where other such things are named, and may be empty.
    fn named_beside<T>(
        &self,
        key: &'static str,
        [what, beside]: [&str; 2],
        find: impl FnOnce(&str) -> Option<T>,
        names: impl Iterator<Item = &'static str> + Clone,
    ) -> Field<T> {
        let expected = format!("one of {}", quoted_list(names.clone()));
        self.field(key, expected.clone(), |value| {
            let name = self.plain_string(&format!("`{key}`"), value, &expected)?;
            self.known([what, beside], name, value.span(), find, names)
        })
    }

    /// A list of different things out of a closed set.
    pub fn several<T: Copy + PartialEq>(
        &self,
        key: &'static str,
        what: &str,
        find: impl Fn(&str) -> Option<T>,
        names: impl Iterator<Item = &'static str> + Clone,
    ) -> Field<Vec<T>> {
        let any = quoted_list(names.clone());
        self.list(key, &format!("an array, any of {any}"), |list| {
            let mut found = Vec::new();
            for (i, value) in list.iter().enumerate() {
                let place = format!("`{key}[{i}]`");
                let name = self.plain_string(&place, value, &format!("one of {any}"));
                let known = |name| self.known([what, ""], name, value.span(), &find, names.clone());
                let one = name.and_then(known);
                if one.is_some() && found.contains(&one) {
                    let message = format!("{what} `{}` is listed twice", name.unwrap_or_default());
                    self.problems
                        .add(value.span(), message, "remove one of the two");
                }
                found.push(one);
            }
            found.into_iter().collect()
        })
    }

    /// An array whose elements `read` turns into the value.
    pub fn list<T>(
        &self,
        key: &'static str,
        expected: &str,
        read: impl FnOnce(&'a [Spanned<DeValue<'a>>]) -> Option<T>,
    ) -> Field<T> {
        self.field(key, expected.to_owned(), |value| match value.get_ref() {
            DeValue::Array(list) => read(list),
            other => {
                self.wrong_type(&format!("`{key}`"), value.span(), other, expected);
                None
            }
        })
    }

    /// An array of at most `most` strings that keep `rule`.
    pub fn texts(&self, key: &'static str, rule: &Text, most: usize) -> Field<Vec<String>> {
        self.list(key, "an array of strings", |list| {
            if list.len() > most {
                let message = format!("`{key}` has {} elements", list.len());
                let span = list.get(most).map_or(0..0, |element| element.span());
                let label = format!("expected at most {most}");
                self.problems.add(span, message, label);
                return None;
            }
            let text = |(i, value)| self.text(&format!("{key}[{i}]"), value, rule);
            // Collected before the verdict, so that every wrong element is reported.
            let texts: Vec<Option<String>> = list.iter().enumerate().map(text).collect();
            texts.into_iter().collect()
        })
    }

    /// A table of at most `most` strings that keep `rule`, by names that keep `name`.
    pub fn texts_by_name(
        &self,
        key: &'static str,
        [name, rule]: [&Text; 2],
        most: usize,
    ) -> Field<BTreeMap<String, String>> {
        let expected = format!("a table of at most {most} strings");
        self.field(key, expected.clone(), |value| {
            let found = value.get_ref();
            let Some(table) = found.as_table() else {
                self.wrong_type(&format!("`{key}`"), value.span(), found, &expected);
                return None;
            };
            if table.len() > most {
                let message = format!("`{key}` has {} keys", table.len());
                let spans = table.keys().map(Spanned::span);
                let span = spans.max_by_key(|span| span.start).unwrap_or(0..0);
                let label = format!("expected at most {most}");
                self.problems.add(span, message, label);
                return None;
            }
            let one = |(left, value): (&Spanned<DeString<'_>>, &Spanned<DeValue<'_>>)| {
                let left_value = Spanned::new(left.span(), DeValue::String(left.get_ref().clone()));
                let left = self.text(key, &left_value, name);
                let right = self.text(&format!("{key}.{}", left.as_deref()?), value, rule);
                Some((left?, right?))
            };
            let all: Vec<Option<(String, String)>> = table.iter().map(one).collect();
            all.into_iter().collect()
        })
    }

    /// A sub-table.
    pub fn table(&self, key: &'static str, place: &Place) -> Field<Reader<'a>> {
        let expected = format!("the table {}", place.header);
        self.field(key, expected.clone(), |value| {
            self.sub_table(&format!("`{key}`"), value, place, &expected)
        })
    }

    /// An array of sub-tables, 1 to `most` of them.
    pub fn tables(&self, key: &'static str, place: &Place, most: usize) -> Field<Vec<Reader<'a>>> {
        let expected = format!("1 to {most} tables {}", place.header);
        self.field(key, expected.clone(), |value| {
            let DeValue::Array(list) = value.get_ref() else {
                let what = format!("`{key}`");
                self.wrong_type(&what, value.span(), value.get_ref(), &expected);
                return None;
            };
            if list.is_empty() || list.len() > most {
                let message = format!("`{key}` has {} elements", list.len());
                self.problems
                    .add(value.span(), message, format!("expected {expected}"));
            }
            let open =
                |(i, element)| self.sub_table(&format!("`{key}[{i}]`"), element, place, &expected);
            list.iter().enumerate().take(most).map(open).collect()
        })
    }

    /// A table of sub-tables that the writer names, each with the place of its name.
    pub fn named_tables(
        &self,
        key: &'static str,
        expected: &str,
        place: impl Fn(&str) -> Place,
    ) -> Field<Vec<(Placed<String>, Reader<'a>)>> {
        self.field(key, expected.to_owned(), |value| {
            let DeValue::Table(table) = value.get_ref() else {
                let what = format!("`{key}`");
                self.wrong_type(&what, value.span(), value.get_ref(), expected);
                return None;
            };
            let open = |(name, value): (&Spanned<DeString<'_>>, &'a Spanned<DeValue<'a>>)| {
                let what = format!("`{key}.{}`", quoted(name.get_ref()));
                let place = place(&quoted(name.get_ref()));
                let table = self.sub_table(&what, value, &place, expected)?;
                let name = Spanned::new(name.span(), name.get_ref().to_string());
                Some((name, table))
            };
            let opened: Vec<_> = table.iter().map(open).collect();
            opened.into_iter().collect()
        })
    }

    fn sub_table(
        &self,
        what: &str,
        value: &'a Spanned<DeValue<'a>>,
        place: &Place,
        expected: &str,
    ) -> Option<Reader<'a>> {
        if let DeValue::Table(table) = value.get_ref() {
            return Some(Reader::open(table, value.span(), place, self.problems));
        }
        self.wrong_type(what, value.span(), value.get_ref(), expected);
        None
    }

    /// The text of a string value, if it keeps `rule`.
    pub fn text(&self, key: &str, value: &Spanned<DeValue<'_>>, rule: &Text) -> Option<String> {
        let text = self.plain_string(&format!("`{key}`"), value, &rule.expected())?;
        if (rule.holds)(text) && text.chars().count() <= rule.most_chars {
            return Some(text.to_owned());
        }
        let message = match text.chars().count() {
            0 => format!("`{key}` is empty"),
            n if n > rule.most_chars => format!("`{key}` has {n} characters"),
            _ => format!("`{key}` may not be \"{}\"", quoted(text)),
        };
        self.problems.add(
            value.span(),
            message,
            format!("expected {}", rule.expected()),
        );
        None
    }

    /// The value of an integer, if it lies in `range`.
    pub fn number<T>(
        &self,
        what: &str,
        value: &Spanned<DeValue<'_>>,
        range: &RangeInclusive<T>,
    ) -> Option<T>
    where
        T: Copy + Display + PartialEq + TryFrom<u64>,
        u64: From<T>,
    {
        let DeValue::Integer(digits) = value.get_ref() else {
            self.wrong_type(
                what,
                value.span(),
                value.get_ref(),
                &expected_integer(range),
            );
            return None;
        };
        let within = u64::from(*range.start())..=u64::from(*range.end());
        let number = u64::from_str_radix(digits.as_str(), digits.radix()).ok();
        let number = number.filter(|number| within.contains(number));
        if number.is_none() {
            let message = format!("{what} is {}, which is out of range", written(digits));
            let label = format!("expected {}", expected_integer(range));
            self.problems.add(value.span(), message, label);
        }
        number.and_then(|number| T::try_from(number).ok())
    }

    fn plain_string<'v>(
        &self,
        what: &str,
        value: &'v Spanned<DeValue<'_>>,
        expected: &str,
    ) -> Option<&'v str> {
        let text = value.get_ref().as_str();
        if text.is_none() {
            self.wrong_type(what, value.span(), value.get_ref(), expected);
        }
        text
    }

    /// Looks a name up, and reports an unknown one with the nearest.
    fn known<T>(
        &self,
        [what, beside]: [&str; 2],
        name: &str,
        span: Span,
        find: impl FnOnce(&str) -> Option<T>,
        names: impl Iterator<Item = &'static str> + Clone,
    ) -> Option<T> {
        let found = find(name);
        if found.is_none() {
            let list = names.clone().collect::<Vec<_>>().join(", ");
            let label = match nearest(name, names) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("not a {what}"),
            };
            let message = format!("unknown {what} `{}`", quoted(name));
            let beside = match beside {
                "" => String::new(),
                beside => format!("; {beside}"),
            };
            let note = format!("known: {list}{beside}");
            self.problems.push(span, message, label, Some(note));
        }
        found
    }

    fn field<T>(
        &self,
        key: &'static str,
        expected: String,
        read: impl FnOnce(&'a Spanned<DeValue<'a>>) -> Option<T>,
    ) -> Field<T> {
        // A key that is read but not listed would be reported as unknown.
        assert!(
            self.place.keys.contains(&key),
            "`{key}` is not a key of {}",
            self.place.header
        );
        let state = match self.table.get(key) {
            None => State::Absent,
            Some(value) => match read(value) {
                Some(found) => State::Found(Spanned::new(value.span(), found)),
                None => State::Wrong,
            },
        };
        Field {
            key,
            expected,
            state,
        }
    }

    fn wrong_type(&self, what: &str, span: Span, found: &DeValue<'_>, expected: &str) {
        let message = format!("{what} is {}", type_name(found));
        self.problems
            .add(span, message, format!("expected {expected}"));
    }
}

/// Reports a key that does not belong in `place`; returns the one that it was meant to be.
fn report_unknown_key(
    name: &str,
    span: Span,
    place: &Place,
    problems: &Problems,
) -> Option<&'static str> {
    let meant = nearest(name, place.keys.iter().copied());
    let elsewhere = PLACES.iter().filter(|other| other.keys.contains(&name));
    let elsewhere: Vec<&str> = elsewhere.map(|other| other.header.as_ref()).collect();
    let label = match meant {
        _ if (place.elsewhen)(name).is_some() => {
            (place.elsewhen)(name).unwrap_or_default().to_owned()
        }
        _ if !elsewhere.is_empty() => format!("this is a key of {}", elsewhere.join(" and ")),
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("not a key of {}", place.header),
    };
    let message = format!("unknown key `{}` {}", quoted(name), place.within());
    let note = format!("keys of {}: {}", place.header, place.keys.join(", "));
    problems.push(span, message, label, Some(note));
    meant.filter(|_| elsewhere.is_empty())
}
