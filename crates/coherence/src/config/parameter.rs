// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parameters of schemes: declared beside the scheme, held by the machine, named `section.key`.
//!
//! A machine knows no scheme. It holds the value of each parameter that was declared to it, and a
//! scheme asks for one by its declaration, so a key that does not exist cannot be asked for.

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::validate::bad;
use crate::Error;

/// A parameter's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    /// A number, in the unit that the key ends with.
    Number(u32),
    /// Yes or no.
    Flag(bool),
    /// One of the words allowed.
    Word(&'static str),
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<&'static str> for Value {
    fn from(word: &'static str) -> Self {
        Self::Word(word)
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_u32(*number),
            Self::Flag(flag) => serializer.serialize_bool(*flag),
            Self::Word(word) => serializer.serialize_str(word),
        }
    }
}

/// The values that a parameter can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowed {
    /// Numbers from the first to the last.
    Range(u32, u32),
    /// `true` and `false`.
    Flag,
    /// These words.
    Words(&'static [&'static str]),
}

/// A parameter as a scheme declares it.
#[derive(Debug)]
pub struct Parameter {
    /// `section.key`; no two parameters have the same.
    pub key: &'static str,
    /// The value where a machine gives none.
    pub default: Value,
    /// What it can be.
    pub allowed: Allowed,
    /// What it is, with its source.
    pub help: &'static str,
}

impl Parameter {
    /// The part of the key before the dot.
    #[must_use]
    pub fn section(&self) -> &'static str {
        self.key.split_once('.').map_or("", |(section, _)| section)
    }

    /// The part of the key after the dot.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.key.split_once('.').map_or(self.key, |(_, name)| name)
    }

    /// Whether a value is of the kind, and in the range, that the parameter allows.
    fn takes(&self, value: Value) -> bool {
        match (self.allowed, value) {
            (Allowed::Range(low, high), Value::Number(number)) => (low..=high).contains(&number),
            (Allowed::Flag, Value::Flag(_)) => true,
            (Allowed::Words(words), Value::Word(word)) => words.contains(&word),
            _ => false,
        }
    }
}

/// The values of all parameters declared: sections by name, keys in the order declared.
#[derive(Debug, Clone, Default)]
pub struct Parameters {
    values: Vec<(&'static Parameter, Value)>,
}

impl PartialEq for Parameters {
    fn eq(&self, other: &Self) -> bool {
        let same = |(one, two): (&(&Parameter, Value), &(&Parameter, Value))| {
            one.0.key == two.0.key && one.1 == two.1
        };
        self.values.len() == other.values.len() && self.values.iter().zip(&other.values).all(same)
    }
}

impl Eq for Parameters {}

impl Parameters {
    /// The defaults of what was declared. Several schemes may declare one parameter.
    pub fn declared(all: impl IntoIterator<Item = &'static Parameter>) -> Self {
        let mut values: Vec<(&'static Parameter, Value)> = Vec::new();
        for parameter in all {
            assert!(
                parameter.takes(parameter.default),
                "{} allows its default",
                parameter.key
            );
            if values.iter().all(|(known, _)| known.key != parameter.key) {
                values.push((parameter, parameter.default));
            }
        }
        values.sort_by_key(|(parameter, _)| parameter.section());
        Self { values }
    }

    /// Every parameter declared.
    pub fn all(&self) -> impl Iterator<Item = &'static Parameter> {
        self.values.iter().map(|(parameter, _)| *parameter)
    }

    /// The value of a parameter; its default where it was not declared to this machine.
    #[must_use]
    pub fn get(&self, parameter: &Parameter) -> Value {
        let found = self
            .values
            .iter()
            .find(|(known, _)| known.key == parameter.key);
        found.map_or(parameter.default, |(_, value)| *value)
    }

    /// The value of a parameter that is a number.
    ///
    /// # Panics
    /// If it was declared as something else.
    #[must_use]
    pub fn number(&self, parameter: &Parameter) -> u32 {
        match self.get(parameter) {
            Value::Number(number) => number,
            other => panic!("`{}` is a number, not {other:?}", parameter.key),
        }
    }

    /// The value of a parameter that is a flag.
    ///
    /// # Panics
    /// If it was declared as something else.
    #[must_use]
    pub fn flag(&self, parameter: &Parameter) -> bool {
        match self.get(parameter) {
            Value::Flag(flag) => flag,
            other => panic!("`{}` is a flag, not {other:?}", parameter.key),
        }
    }

    /// The value of a parameter that is a word.
    ///
    /// # Panics
    /// If it was declared as something else.
    #[must_use]
    pub fn word(&self, parameter: &Parameter) -> &'static str {
        match self.get(parameter) {
            Value::Word(word) => word,
            other => panic!("`{}` is a word, not {other:?}", parameter.key),
        }
    }

    /// Gives a parameter a value of its kind. A number beyond its range is found by
    /// [`Parameters::validate`].
    pub fn set(&mut self, parameter: &'static Parameter, value: impl Into<Value>) {
        let value = value.into();
        let kinds = (parameter.default, value);
        assert!(
            matches!(kinds, (Value::Number(_), Value::Number(_)))
                || matches!(kinds, (Value::Flag(_), Value::Flag(_)))
                || parameter.takes(value),
            "`{}` cannot be {value:?}",
            parameter.key
        );
        match self
            .values
            .iter_mut()
            .find(|(known, _)| known.key == parameter.key)
        {
            Some((_, held)) => *held = value,
            None => self.values.push((parameter, value)),
        }
    }

    /// Checks that each number is in its range.
    ///
    /// # Errors
    /// [`Error::Config`] names the first that is not, and what would be possible.
    pub fn validate(&self) -> Result<(), Error> {
        for &(parameter, value) in &self.values {
            if let (Allowed::Range(low, high), Value::Number(number)) = (parameter.allowed, value)
                && !parameter.takes(value)
            {
                return Err(bad(
                    parameter.key,
                    number.into(),
                    &format!("{low} to {high}"),
                ));
            }
        }
        Ok(())
    }

    /// The names of the sections, each once.
    #[must_use]
    pub fn sections(&self) -> Vec<&'static str> {
        let mut names: Vec<&'static str> = self.all().map(Parameter::section).collect();
        names.dedup();
        names
    }

    /// The entries of a section.
    fn section(&self, name: &'static str) -> Section<'_> {
        Section { all: self, name }
    }

    /// Adds each section to a map.
    pub(super) fn serialize_into<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        for name in self.sections() {
            map.serialize_entry(name, &self.section(name))?;
        }
        Ok(())
    }
}

struct Section<'a> {
    all: &'a Parameters,
    name: &'static str,
}

impl Serialize for Section<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let own = |(parameter, _): &&(&'static Parameter, Value)| parameter.section() == self.name;
        let entries = self.all.values.iter().filter(own);
        serializer.collect_map(entries.map(|(parameter, value)| (parameter.name(), *value)))
    }
}

#[cfg(test)]
mod tests {
    use super::{Allowed, Parameter, Parameters, Value};

    static SPEED: Parameter = Parameter {
        key: "b.speed",
        default: Value::Number(3),
        allowed: Allowed::Range(1, 9),
        help: "How fast.",
    };
    static WAY: Parameter = Parameter {
        key: "a.way",
        default: Value::Word("short"),
        allowed: Allowed::Words(&["short", "long"]),
        help: "Which way.",
    };

    #[test]
    fn sections_are_written_by_name_and_a_parameter_declared_twice_once() {
        let declared = Parameters::declared([&SPEED, &WAY, &SPEED]);
        assert_eq!(declared.sections(), ["a", "b"]);
        assert_eq!(declared.all().count(), 2);
    }

    #[test]
    fn a_value_out_of_range_is_refused_by_its_key() {
        let mut held = Parameters::declared([&SPEED]);
        held.set(&SPEED, 10);
        let said = held.validate().expect_err("10 is above 9").to_string();
        assert_eq!(said, "`b.speed` is 10: expected 1 to 9");
    }

    #[test]
    fn what_a_machine_was_not_told_of_has_its_default() {
        let mut held = Parameters::default();
        assert_eq!((held.number(&SPEED), held.word(&WAY)), (3, "short"));
        held.set(&WAY, "long");
        assert_eq!(held.word(&WAY), "long");
    }
}
