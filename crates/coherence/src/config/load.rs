// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a machine from TOML: presets, overrides, and errors that say where and how to mend.

use super::MachineConfig;
use crate::Error;

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
/// [`Error::Config`]: not TOML, an unknown key (with the nearest right one), a value of the wrong
/// kind, an unknown preset, or an impossible machine.
pub fn load(text: &str, origin: &str) -> Result<MachineConfig, Error> {
    let fail = |e: &toml::de::Error| Error::Config(format!("{origin}: {}", explain(e)));
    // Read alone first: its errors carry the user's own lines.
    let own: MachineConfig = toml::from_str(text).map_err(|e| fail(&e))?;
    let Some((_, base)) = PRESETS.iter().find(|(name, _)| *name == own.preset) else {
        return Err(Error::Config(format!(
            "{origin}: no preset `{}`; there are: {}",
            own.preset,
            preset_names().join(", ")
        )));
    };
    // The defaults come first, so that a partly given section keeps its own defaults.
    let mut whole = toml::Table::try_from(MachineConfig::default())
        .map_err(|e| Error::Config(format!("{origin}: {e}")))?;
    merge(&mut whole, base.parse().map_err(|e| fail(&e))?);
    let over: toml::Table = text.parse().map_err(|e| fail(&e))?;
    merge(&mut whole, over);
    let config: MachineConfig = whole.try_into().map_err(|e| fail(&e))?;
    config
        .validate()
        .map_err(|e| Error::Config(format!("{origin}: {e}")))?;
    Ok(config)
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

/// The TOML error, with the nearest right name where a name was wrong.
fn explain(error: &toml::de::Error) -> String {
    let text = error.to_string();
    let text = text.trim_end();
    let names: Vec<&str> = error.message().split('`').skip(1).step_by(2).collect();
    let Some((wrong, right)) = names.split_first() else {
        return text.to_owned();
    };
    let nearest = right
        .iter()
        .max_by_key(|name| {
            // Millionths, so that the order does not hang on float comparison.
            let likeness = strsim::jaro_winkler(wrong, name);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "0.0 to 1.0; used in an error message only"
            )]
            let millionths = (likeness * 1_000_000.0) as u32;
            millionths
        })
        .filter(|_| error.message().starts_with("unknown"));
    nearest.map_or_else(
        || text.to_owned(),
        |name| format!("{text}\ndid you mean `{name}`?"),
    )
}
