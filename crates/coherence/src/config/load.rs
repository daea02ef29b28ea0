// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a machine from TOML: presets, overrides, and errors that say where and how to fix.

use serde::Deserialize as _;
use steady_nearest::nearest;
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use super::{Allowed, MachineConfig, Parameter, Parameters, Value};
use crate::Error;
use crate::nearest::hint;

const PRESETS: [(&str, &str); 5] = [
    ("paper", include_str!("../../presets/paper.toml")),
    ("server", include_str!("../../presets/server.toml")),
    (
        "sapphire-rapids",
        include_str!("../../presets/sapphire-rapids.toml"),
    ),
    (
        "granite-rapids",
        include_str!("../../presets/granite-rapids.toml"),
    ),
    ("zen5", include_str!("../../presets/zen5.toml")),
];

/// The names of the presets.
#[must_use]
pub fn preset_names() -> Vec<&'static str> {
    PRESETS.iter().map(|(name, _)| *name).collect()
}

/// A check that a machine can be.
pub type Check<'a> = &'a dyn Fn(&MachineConfig) -> Result<(), Error>;

/// Reads a machine. `text` may be empty (the paper's machine); `origin` names it in errors.
/// `declared` holds the parameters that it may give beside the machine's own keys; `check` has the
/// last word.
///
/// # Errors
/// [`Error::Config`], one line that begins with origin, line and column: not TOML, an unknown key
/// or preset (with the nearest right one), a value of the wrong kind, or an impossible machine. A
/// value that the preset gives has no line.
pub fn load(
    text: &str,
    origin: &str,
    declared: &Parameters,
    check: Check<'_>,
) -> Result<MachineConfig, Error> {
    let at = |offset: Option<usize>, what: &str| {
        let place = offset.map_or_else(String::new, |offset| place(text, offset));
        Error::Config(format!("{origin}:{place} {what}"))
    };
    // Read alone first: its errors carry the user's own lines.
    let own = Layer::read(text, declared).map_err(|wrong| at(wrong.offset, &wrong.what))?;
    let name = &own.read.preset;
    let Some((_, base)) = PRESETS.iter().find(|(known, _)| known == name) else {
        let names = preset_names();
        let what = format!("no preset `{}`; {}", one_line(name), hint(name, &names));
        return Err(at(offset_of(text, "preset"), &what));
    };
    let base = Layer::read(base, declared).map_err(|wrong| at(None, &wrong.what))?;
    // The defaults come first, so that a partly given section keeps its own defaults.
    let internal = |e: &dyn std::fmt::Display| Error::Config(format!("{origin}: {e}"));
    let bare = MachineConfig::without_schemes();
    let mut whole = toml::Table::try_from(&bare).map_err(|e| internal(&e))?;
    merge(&mut whole, base.hardware);
    merge(&mut whole, own.hardware);
    let mut config: MachineConfig = whole.try_into().map_err(|e| internal(&e))?;
    config.schemes = declared.clone();
    for (parameter, value) in base.schemes.into_iter().chain(own.schemes) {
        config.schemes.set(parameter, value);
    }
    check(&config).map_err(|e| {
        let what = e.to_string();
        // The message begins with the key.
        let key = what.split('`').nth(1).unwrap_or_default();
        at(offset_of(text, key), &what)
    })?;
    Ok(config)
}

/// The text of a machine in which some keys have other values. A key is `section.key`; its value
/// is read as TOML, and as a word where it is not.
///
/// # Errors
/// [`Error::Config`] for a text that is not TOML, and a key below one that is not a section.
pub fn overlay(text: &str, keys: &[(String, String)]) -> Result<String, Error> {
    let wrong = |what: &dyn std::fmt::Display| Error::Config(one_line(&what.to_string()));
    let mut whole: toml::Table = text.parse().map_err(|e| wrong(&e))?;
    for (key, value) in keys {
        let read = format!("value = {value}").parse::<toml::Table>().ok();
        let value = read
            .filter(|read| read.len() == 1)
            .and_then(|mut read| read.remove("value"))
            .unwrap_or_else(|| toml::Value::String(value.clone()));
        let mut table = &mut whole;
        let mut parts = key.split('.').peekable();
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                table.insert(part.to_owned(), value);
                break;
            }
            let inner = table
                .entry(part)
                .or_insert_with(|| toml::Table::new().into());
            let section = format!("`{key}`: `{part}` is not a section");
            table = inner.as_table_mut().ok_or_else(|| wrong(&section))?;
        }
    }
    toml::to_string(&whole).map_err(|e| wrong(&e))
}

/// What is wrong with a text, and where.
struct Wrong {
    offset: Option<usize>,
    what: String,
}

impl From<toml::de::Error> for Wrong {
    fn from(error: toml::de::Error) -> Self {
        Self {
            offset: error.span().map(|span| span.start),
            what: explain(error.message()),
        }
    }
}

/// What one text gives.
struct Layer {
    /// The machine's own keys as they were read, and as a table.
    read: MachineConfig,
    hardware: toml::Table,
    schemes: Vec<(&'static Parameter, Value)>,
}

impl Layer {
    fn read(text: &str, declared: &Parameters) -> Result<Self, Wrong> {
        let mut document = DeTable::parse(text)?;
        let mut hardware: toml::Table = text.parse()?;
        let mut schemes = Vec::new();
        for section in declared.sections() {
            hardware.remove(section);
            if let Some(given) = document.get_mut().remove(section) {
                read_section(section, &given, declared, &mut schemes)?;
            }
        }
        Ok(Self {
            read: MachineConfig::deserialize(toml::de::Deserializer::from(document))?,
            hardware,
            schemes,
        })
    }
}

/// Reads the values that a file gives to the parameters of one section.
fn read_section(
    section: &'static str,
    given: &Spanned<DeValue<'_>>,
    declared: &Parameters,
    out: &mut Vec<(&'static Parameter, Value)>,
) -> Result<(), Wrong> {
    let wrong = |span: std::ops::Range<usize>, what: String| Wrong {
        offset: Some(span.start),
        what: explain(&what),
    };
    let DeValue::Table(table) = given.get_ref() else {
        return Err(wrong(
            given.span(),
            format!("`{section}` is a section: expected keys"),
        ));
    };
    for (key, value) in table {
        let own = || declared.all().filter(|one| one.section() == section);
        let Some(parameter) = own().find(|one| one.name() == key.get_ref().as_ref()) else {
            let names: Vec<String> = own().map(|one| format!("`{}`", one.name())).collect();
            let (key, names) = (one_line(key.get_ref()), names.join(", "));
            let what = format!("unknown field `{key}`, expected one of {names}");
            return Err(wrong(table_key_span(table, &key, value), what));
        };
        let read = value_of(parameter, value.get_ref())
            .map_err(|expected| wrong(value.span(), format!("`{}`: {expected}", parameter.key)))?;
        out.push((parameter, read));
    }
    Ok(())
}

/// Where a key of a table stands; where its value stands, if that is not known.
fn table_key_span(
    table: &DeTable<'_>,
    key: &str,
    value: &Spanned<DeValue<'_>>,
) -> std::ops::Range<usize> {
    let known = table.keys().find(|known| one_line(known.get_ref()) == key);
    known.map_or_else(|| value.span(), Spanned::span)
}

/// The value for a parameter, or what was expected in its place. Whether a number is in its range
/// is for the machine's check to say.
fn value_of(parameter: &Parameter, given: &DeValue<'_>) -> Result<Value, String> {
    let number = |digits: &DeInteger<'_>| u32::from_str_radix(digits.as_str(), digits.radix());
    match (parameter.allowed, given) {
        (Allowed::Range(low, high), DeValue::Integer(digits)) => number(digits)
            .map(Value::Number)
            .map_err(|_| format!("expected {low} to {high}")),
        (Allowed::Flag, DeValue::Boolean(flag)) => Ok(Value::Flag(*flag)),
        (Allowed::Words(words), DeValue::String(word)) => {
            let known = words.iter().find(|known| **known == word.as_ref());
            known.map(|known| Value::Word(known)).ok_or_else(|| {
                let all = words.join(", ");
                match nearest(word, words.iter().copied()) {
                    Some(near) => format!("expected one of {all}; did you mean `{near}`?"),
                    None => format!("expected one of {all}"),
                }
            })
        }
        (Allowed::Range(low, high), _) => Err(format!("expected a number from {low} to {high}")),
        (Allowed::Flag, _) => Err("expected true or false".to_owned()),
        (Allowed::Words(words), _) => Err(format!("expected one of {}", words.join(", "))),
    }
}

impl MachineConfig {
    /// Every key with its value, as a machine file.
    ///
    /// # Panics
    /// Never: numbers, words and sections have a TOML form.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a machine has a TOML form")
    }
}

fn merge(base: &mut toml::Table, over: toml::Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(toml::Value::Table(inner)), toml::Value::Table(changes)) => merge(inner, changes),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

/// ` LINE:COLUMN:` of a byte, both from 1, columns in characters.
fn place(text: &str, offset: usize) -> String {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    format!("{line}:{}:", before[start..].chars().count() + 1)
}

/// Where the value of a dotted key stands, or of the longest part of it that stands there.
fn offset_of(text: &str, key: &str) -> Option<usize> {
    let root = DeTable::parse(text).ok()?;
    let mut table = root.get_ref();
    let mut found = None;
    // A key such as `mmu.l2 sets` names what two keys make.
    for part in key.split(['.', ' ']) {
        let Some(value) = table.get(part) else {
            break;
        };
        found = Some(value.span().start);
        match value.get_ref() {
            DeValue::Table(inner) => table = inner,
            _ => break,
        }
    }
    found
}

/// What is wrong in one line, with the nearest right name where a name was wrong.
fn explain(message: &str) -> String {
    let text = one_line(message);
    let names: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let near = names
        .split_first()
        .filter(|_| text.starts_with("unknown"))
        .and_then(|(wrong, right)| nearest(wrong, right.iter().copied()));
    near.map_or_else(
        || text.clone(),
        |name| format!("{text}; did you mean `{name}`?"),
    )
}

fn one_line(text: &str) -> String {
    let shown = |c: char| if c.is_control() { ' ' } else { c };
    text.trim().chars().map(shown).collect()
}
