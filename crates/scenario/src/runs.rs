// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a workload runs: a program of the table, or one that the user brings, a file beside
//! the scenario.

use serde::Serialize;

use crate::limits::NAME_CHARS;
use crate::program::Program;

/// What a workload runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Runs {
    /// A program of the table.
    Known(&'static Program),
    /// A program that the user brings.
    Brought(Brought),
}

/// A program that the user brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Brought {
    path: String,
    name: String,
}

impl Brought {
    /// The program at a path as it is written in a scenario, relative to it; `None` if that names
    /// no file. A name of the table has no slash, a path has one.
    pub(crate) fn at(path: &str) -> Option<Self> {
        let file = path.rsplit('/').next()?;
        let stem = file.split('.').find(|part| !part.is_empty())?;
        let plain = |c: char| match c.to_ascii_lowercase() {
            c if c.is_ascii_lowercase() || c.is_ascii_digit() => c,
            _ => '-',
        };
        let name: String = stem.chars().map(plain).take(NAME_CHARS).collect();
        let name = name.trim_matches('-').to_owned();
        assert!(!name.contains('/'), "{name} is of one file");
        (!name.is_empty()).then(|| Self {
            path: path.to_owned(),
            name,
        })
    }

    /// Its path as the scenario has it, relative to the scenario's folder unless it begins with a
    /// slash.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl Runs {
    /// The name in results: that of the table, or the file's without what follows a dot, in
    /// lower-case letters, digits and hyphens.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Known(program) => program.name,
            Self::Brought(brought) => &brought.name,
        }
    }

    /// The program of the table, if it is one.
    #[must_use]
    pub fn known(&self) -> Option<&'static Program> {
        match self {
            Self::Known(program) => Some(program),
            Self::Brought(_) => None,
        }
    }
}

/// As it is written: a name, or a path.
impl Serialize for Runs {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(match self {
            Self::Known(program) => program.name,
            Self::Brought(brought) => &brought.path,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_named_after_its_file() {
        for (path, name) in [
            ("./mine", Some("mine")),
            ("../a/My_Load.v2.py", Some("my-load")),
            ("/opt/x/.hidden", Some("hidden")),
            ("./", None),
            ("./..", None),
            ("./__", None),
            (&format!("./{}", "x".repeat(65)), Some(&"x".repeat(64))),
        ] {
            let found = Brought::at(path).map(Runs::Brought);
            assert_eq!(found.as_ref().map(Runs::name), name, "{path}");
        }
    }
}
