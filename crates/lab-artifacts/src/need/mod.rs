// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a command needs of this machine: what was found of it, and the command that fixes it.
//!
//! A command makes a list of [`Need`]s and lets [`require`] refuse it, before anything is built;
//! `steady doctor` makes the same list and shows it. Programs and files are rows of the table in
//! `setup/needs`; [`artifacts`] and [`emulators`] add what is built here. Left out: what only a run
//! can show, such as a download that breaks off.

pub mod artifacts;
pub mod emulators;
mod table;

use std::fmt::{self, Display, Formatter};

use serde::Serialize;

use crate::error::ArtifactError;

pub use table::{Row, of, rows};

/// How a need is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It is there.
    Ok,
    /// It works, but could be better or is built at first use.
    Slow,
    /// This machine cannot have it: it is of another kind.
    Elsewhere,
    /// It is missing.
    Missing,
}

/// What fixes a need that is not met.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fix {
    /// A Debian package, or several with blanks between them.
    Install(String),
    /// A command for a shell, by root.
    AsRoot(String),
    /// A command for a shell.
    Run(String),
    /// What a person must do, in words.
    Do(String),
}

impl Display for Fix {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Install(packages) => write!(f, "{}apt-get install {packages}", sudo()),
            Self::AsRoot(command) => write!(f, "{}{command}", sudo()),
            Self::Run(command) | Self::Do(command) => f.write_str(command),
        }
    }
}

impl Serialize for Fix {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// What stands before a command that only root may run.
fn sudo() -> &'static str {
    if nix::unistd::geteuid().is_root() {
        ""
    } else {
        "sudo "
    }
}

/// One thing that a command needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Need {
    /// What it is.
    pub name: String,
    /// What for: a sentence without its full stop.
    pub why: String,
    /// How it is met.
    pub state: State,
    /// What was found.
    pub found: String,
    /// What fixes it, where something could be better.
    pub fix: Option<Fix>,
}

impl Need {
    /// A need that is met.
    #[must_use]
    pub fn met(name: &str, why: &str, found: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            why: why.to_owned(),
            state: State::Ok,
            found: found.into(),
            fix: None,
        }
    }

    /// A need in another state, and what fixes it.
    #[must_use]
    pub fn unmet(name: &str, why: &str, state: State, found: impl Into<String>, fix: Fix) -> Self {
        assert!(state != State::Ok, "{name}: what is met has nothing to fix");
        Self {
            state,
            fix: Some(fix),
            ..Self::met(name, why, found)
        }
    }

    /// Whether a command can do with it as it is.
    #[must_use]
    pub fn lets_go_on(&self) -> bool {
        matches!(self.state, State::Ok | State::Slow)
    }
}

/// What lacks of a command's needs; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lacks(pub Vec<Need>);

impl Display for Lacks {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let [need] = &self.0[..] {
            write!(f, "{} {}: {}", need.name, need.found, need.why)?;
        } else {
            write!(f, "{} needs are not met:", self.0.len())?;
            for need in &self.0 {
                write!(f, "\n  {} {}: {}", need.name, need.found, need.why)?;
            }
            f.write_str("\n")?;
        }
        let separator = if self.0.len() == 1 { "; " } else { "" };
        write!(f, "{separator}fix: {}", fix_of(&self.0))
    }
}

/// Refuses what is not met.
///
/// # Errors
/// [`ArtifactError::Lacks`] with all that lacks, each once.
pub fn require(needs: Vec<Need>) -> Result<(), ArtifactError> {
    let lacks = once(needs.into_iter().filter(|need| !need.lets_go_on()));
    if lacks.is_empty() {
        return Ok(());
    }
    assert!(
        lacks.iter().all(|need| need.fix.is_some()),
        "each lack has a fix"
    );
    Err(ArtifactError::Lacks(Lacks(lacks)))
}

/// The needs without those that are the same as one before.
pub fn once(needs: impl IntoIterator<Item = Need>) -> Vec<Need> {
    let mut seen: Vec<Need> = Vec::new();
    for need in needs {
        if !seen.iter().any(|known| known.name == need.name) {
            seen.push(need);
        }
    }
    seen
}

/// One command that fixes exactly these, and what is left to a person behind it.
#[must_use]
pub fn fix_of(needs: &[Need]) -> String {
    let fixes = || needs.iter().filter_map(|need| need.fix.as_ref());
    let mut packages: Vec<&str> = fixes()
        .filter_map(|fix| match fix {
            Fix::Install(packages) => Some(packages.split_whitespace()),
            _ => None,
        })
        .flatten()
        .collect();
    packages.sort_unstable();
    packages.dedup();
    let mut commands = Vec::new();
    if !packages.is_empty() {
        commands.push(Fix::Install(packages.join(" ")).to_string());
    }
    let mut add = |fix: &Fix| {
        let words = fix.to_string();
        if !commands.contains(&words) {
            commands.push(words);
        }
    };
    fixes()
        .filter(|fix| matches!(fix, Fix::AsRoot(_) | Fix::Run(_)))
        .for_each(&mut add);
    let mut words = vec![commands.join(" && ")];
    words.retain(|command| !command.is_empty());
    for fix in fixes().filter(|fix| matches!(fix, Fix::Do(_))) {
        let text = fix.to_string();
        if !words.contains(&text) {
            words.push(text);
        }
    }
    words.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lacking(name: &str, fix: Fix) -> Need {
        Need::unmet(name, "it is asked for", State::Missing, "is not there", fix)
    }

    #[test]
    fn what_lacks_is_fixed_by_one_command_that_names_each_package_once() {
        let needs = [
            lacking("b", Fix::Install("two one".into())),
            lacking("room", Fix::Do("free 5 MiB at /x".into())),
            lacking("k", Fix::Run("steady cache prune kernel-1".into())),
            lacking("a", Fix::Install("one".into())),
        ];
        let wanted = "apt-get install one two && steady cache prune kernel-1; free 5 MiB at /x";
        assert_eq!(fix_of(&needs).trim_start_matches("sudo "), wanted);
    }

    #[test]
    fn only_what_is_missing_is_refused_and_each_thing_once() {
        let slow = Need::unmet("s", "w", State::Slow, "f", Fix::Run("x".into()));
        assert!(require(vec![Need::met("m", "w", "f"), slow]).is_ok());
        let lack = lacking("a", Fix::Install("p".into()));
        let error = require(vec![lack.clone(), lack]).unwrap_err();
        let said = error.to_string();
        assert!(
            said.starts_with("a is not there: it is asked for; fix: "),
            "{said}"
        );
    }
}
