// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The engines that a command offers: one list of names and constructors.
//!
//! To add an engine, add its room behind [`Engine`] and one [`Entry`] to the command's list.
//! Nothing else names engines.

use thiserror::Error;

use crate::engine::{Engine, Trouble};

/// One engine of the list.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Its name, that of its [`crate::Info`].
    pub name: &'static str,
    /// One line for the command's help.
    pub help: &'static str,
    /// Makes it; builds nothing.
    pub make: fn() -> Result<Box<dyn Engine>, Trouble>,
}

/// The list.
#[derive(Debug, Clone, Copy)]
pub struct Engines(pub &'static [Entry]);

/// A name that no engine has.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("no engine `{name}`; {}", hint(nearest.as_deref(), known))]
pub struct UnknownEngine {
    /// The name asked for.
    pub name: String,
    /// The one that was most likely meant, if one is near.
    pub nearest: Option<String>,
    /// All names.
    pub known: Vec<&'static str>,
}

impl Engines {
    /// The engine of this name.
    ///
    /// # Errors
    /// [`UnknownEngine`] with the nearest name, if one is near.
    pub fn find(&self, name: &str) -> Result<&'static Entry, UnknownEngine> {
        let names = || self.0.iter().map(|entry| entry.name);
        let found = self.0.iter().find(|entry| entry.name == name);
        found.ok_or_else(|| UnknownEngine {
            name: name.to_owned(),
            nearest: steady_nearest::nearest(name, names()).map(str::to_owned),
            known: names().collect(),
        })
    }
}

fn hint(nearest: Option<&str>, known: &[&str]) -> String {
    match nearest {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("there are: {}", known.join(", ")),
    }
}
