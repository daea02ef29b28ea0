// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a machine from TOML: presets, overrides, and errors that say where and how to mend.

use super::MachineConfig;
use crate::Error;
use steady_nearest::nearest;

const PRESETS: [(&str, &str); 2] = [
    ("paper", include_str!("../../presets/paper.toml")),
    ("server", include_str!("../../presets/server.toml")),
];

/// The names of the presets.
#[must_use]
pub fn preset_names() -> Vec<&'static str> {
    PRESETS.iter().map(|(name, _)| *name).collect()
}

/// Reads a machine. `text` may be empty (the paper's machine); `origin` names it in errors.
///
/// # Errors
/// [`Error::Config`], one line that begins with origin, line and column: not TOML, an unknown key
/// or preset (with the nearest right one), a value of the wrong kind, or an impossible machine. A
/// value that the preset gives has no line.
pub fn load(text: &str, origin: &str) -> Result<MachineConfig, Error> {
    let at = |offset: Option<usize>, what: &str| {
        let place = offset.map_or_else(String::new, |offset| place(text, offset));
        Error::Config(format!("{origin}:{place} {what}"))
    };
    let fail = |e: &toml::de::Error| at(e.span().map(|span| span.start), &explain(e));
    // Read alone first: its errors carry the user's own lines.
    let own: MachineConfig = toml::from_str(text).map_err(|e| fail(&e))?;
    let Some((_, base)) = PRESETS.iter().find(|(name, _)| *name == own.preset) else {
        let names = preset_names();
        let what = format!(
            "no preset `{}`{} There are: {}",
            one_line(&own.preset),
            nearest(&own.preset, names.iter().copied())
                .map_or(".".to_owned(), |near| format!("; did you mean `{near}`?")),
            names.join(", ")
        );
        return Err(at(offset_of(text, "preset"), &what));
    };
    // The defaults come first, so that a partly given section keeps its own defaults.
    let internal = |e: &dyn std::fmt::Display| Error::Config(format!("{origin}: {e}"));
    let mut whole = toml::Table::try_from(MachineConfig::default()).map_err(|e| internal(&e))?;
    merge(&mut whole, base.parse().map_err(|e| fail(&e))?);
    let over: toml::Table = text.parse().map_err(|e| fail(&e))?;
    merge(&mut whole, over);
    let config: MachineConfig = whole.try_into().map_err(|e| fail(&e))?;
    config.validate().map_err(|e| {
        let what = e.to_string();
        // The message begins with the key.
        let key = what.split('`').nth(1).unwrap_or_default();
        at(offset_of(text, key), &what)
    })?;
    Ok(config)
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
    let root = toml::de::DeTable::parse(text).ok()?;
    let mut table = root.get_ref();
    let mut found = None;
    // A key such as `mmu.l2 sets` names what two keys make.
    for part in key.split(['.', ' ']) {
        let Some(value) = table.get(part) else {
            break;
        };
        found = Some(value.span().start);
        match value.get_ref() {
            toml::de::DeValue::Table(inner) => table = inner,
            _ => break,
        }
    }
    found
}

/// The TOML error in one line, with the nearest right name where a name was wrong.
fn explain(error: &toml::de::Error) -> String {
    let text = one_line(error.message());
    let names: Vec<&str> = error.message().split('`').skip(1).step_by(2).collect();
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
