// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The schemes that can be chosen, found by name, with the machines that know their parameters.

use super::{SHIPPED, Spec};
use crate::Error;
use crate::config::{self, MachineConfig, Parameters};
use crate::nearest::hint;

/// Schemes to choose from.
#[derive(Debug, Clone)]
pub struct Registry {
    all: Vec<&'static Spec>,
}

impl Registry {
    /// The schemes of this crate.
    #[must_use]
    pub fn shipped() -> Self {
        Self {
            all: SHIPPED.to_vec(),
        }
    }

    /// These schemes and more. No two have one name.
    #[must_use]
    pub fn with(mut self, more: &[&'static Spec]) -> Self {
        for &spec in more {
            let known = self.all.iter().any(|held| held.name == spec.name);
            assert!(!known, "two schemes have the name `{}`", spec.name);
            self.all.push(spec);
        }
        self
    }

    /// Every scheme, in the order of the list.
    #[must_use]
    pub fn all(&self) -> &[&'static Spec] {
        &self.all
    }

    /// The names, by commas.
    #[must_use]
    pub fn names(&self) -> String {
        let names: Vec<&str> = self.all.iter().map(|spec| spec.name).collect();
        names.join(", ")
    }

    /// The scheme of a name.
    ///
    /// # Errors
    /// [`Error::Config`] with the nearest name, or all where none is near.
    pub fn find(&self, name: &str) -> Result<&'static Spec, Error> {
        if let Some(spec) = self.all.iter().find(|spec| spec.name == name) {
            return Ok(spec);
        }
        let names: Vec<&str> = self.all.iter().map(|spec| spec.name).collect();
        let hint = hint(name, &names);
        Err(Error::Config(format!("no scheme `{name}`; {hint}")))
    }

    /// The paper's machine, with every parameter that a scheme declares.
    #[must_use]
    pub fn machine(&self) -> MachineConfig {
        let declared = self.all.iter().flat_map(|spec| spec.parameters);
        MachineConfig {
            schemes: Parameters::declared(declared.copied()),
            ..MachineConfig::without_schemes()
        }
    }

    /// Checks a machine, and the parameters of every scheme. What the hardware lacks for one
    /// scheme does not keep the others from it: [`Spec::build`] says so where that scheme runs.
    ///
    /// # Errors
    /// [`Error::Config`] names the first key that is impossible and what would be possible.
    pub fn validate(&self, machine: &MachineConfig) -> Result<(), Error> {
        machine.validate()?;
        let sections = machine.schemes.sections();
        let of_scheme = |error: &Error| {
            // The message begins with the key.
            let said = error.to_string();
            let key = said.split('`').nth(1).unwrap_or_default();
            key.split('.')
                .next()
                .is_none_or(|section| sections.contains(&section))
        };
        let wrong = self
            .all
            .iter()
            .filter_map(|spec| (spec.validate)(machine).err());
        wrong.filter(of_scheme).map(Err).next().unwrap_or(Ok(()))
    }

    /// Reads a machine file that may give every scheme's parameters; see [`config::load`].
    ///
    /// # Errors
    /// As [`config::load`].
    pub fn load(&self, text: &str, origin: &str) -> Result<MachineConfig, Error> {
        let declared = self.machine().schemes;
        config::load(text, origin, &declared, &|machine| self.validate(machine))
    }

    /// Reads a machine as [`Registry::load`] does, and then gives some keys other values.
    ///
    /// # Errors
    /// As [`config::load`]; what is wrong with a value is said without a line.
    pub fn load_with(
        &self,
        text: &str,
        origin: &str,
        keys: &[(String, String)],
    ) -> Result<MachineConfig, Error> {
        let machine = self.load(text, origin)?;
        if keys.is_empty() {
            return Ok(machine);
        }
        let words: Vec<String> = keys
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let origin = words.join(" ");
        self.load(&config::overlay(text, keys)?, &origin)
            .map_err(|error| {
                let said = error.to_string();
                let place = |c: char| c == ':' || c.is_ascii_digit();
                let what = said.strip_prefix(&origin).unwrap_or(&said);
                Error::Config(format!(
                    "{origin}: {}",
                    what.trim_start_matches(place).trim_start()
                ))
            })
    }
}

/// The paper's machine, as the shipped schemes know it.
impl Default for MachineConfig {
    fn default() -> Self {
        Registry::shipped().machine()
    }
}
