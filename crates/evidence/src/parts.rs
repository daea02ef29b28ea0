// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parts of the kernel series: remedies of which nothing runs while they are off, and the rest.
//!
//! A record of another kernel than today's is not old where the two differ in such remedies alone,
//! and its variants have them off. `evidence/kernels.toml` has the parts of kernels that records
//! are of, also of ports to other versions.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use steady_remedies::Registry;

use crate::error::{Error, Problem};
use crate::house::Keys;
use crate::keys;

/// Schema of the table of kernels.
const SCHEMA: u32 = 1;
/// The table of kernels, below the project's root.
pub(crate) const TABLE: &str = "evidence/kernels.toml";
/// All else.
const REST: &str = "rest";

/// The key of each part, by its name.
pub type Parts = BTreeMap<String, String>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    schema: u32,
    #[serde(default)]
    kernel: Vec<Entry>,
}

/// A kernel that records are of.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// Its key, as records have it.
    key: String,
    parts: Parts,
}

/// The parts of the kernel series below `root`.
///
/// # Errors
/// [`Error::File`].
pub fn of_tree(root: &Path) -> Result<Parts, Error> {
    of_files(root, keys::made_of(root, &[])?)
}

/// The same of each port, by the version of Linux that it is to.
///
/// # Errors
/// [`Error::File`].
pub fn of_ports(root: &Path) -> Result<BTreeMap<String, Parts>, Error> {
    let of = |version: String| {
        let more = keys::more_of_port(&version);
        let files = keys::made_of(root, &more.each_ref().map(String::as_str))?;
        Ok((version, of_files(root, files)?))
    };
    keys::versions(root)?.into_iter().map(of).collect()
}

fn of_files(root: &Path, files: Vec<PathBuf>) -> Result<Parts, Error> {
    let linux = root.join("linux");
    let mut owners: BTreeMap<PathBuf, &str> = BTreeMap::new();
    let in_hooks = |path: &&PathBuf| {
        path.parent()
            .is_some_and(|folder| folder.ends_with("hooks"))
    };
    for hook in files.iter().filter(in_hooks) {
        let Some(part) = part_of(hook) else {
            continue;
        };
        let text = fs::read_to_string(hook).map_err(|error| Error::file("read", hook, error))?;
        owners.insert(hook.clone(), part);
        let head = text.lines().take_while(|line| *line != "---");
        for new in head.filter_map(|line| line.strip_prefix("New: ")) {
            owners.insert(linux.join("new").join(new), part);
        }
    }
    let mut of_parts: BTreeMap<&str, Vec<PathBuf>> = BTreeMap::new();
    for file in files {
        let part = owners.get(&file).copied().unwrap_or(REST);
        of_parts.entry(part).or_default().push(file);
    }
    let keys = of_parts.into_iter().map(|(part, files)| {
        let key = keys::digest(&linux, files)?;
        Ok((part.to_owned(), key))
    });
    keys.collect()
}

/// The remedies of which nothing runs while they are off.
pub(crate) fn apart() -> Vec<&'static str> {
    let registry = Registry::default();
    let still = registry.shipped().filter(|remedy| remedy.is_still_when_off);
    still.map(|remedy| remedy.name).collect()
}

/// The part that a hook is of, by its name: `NUMBER-REMEDY-WHAT.patch`.
fn part_of(hook: &Path) -> Option<&'static str> {
    let name = hook.file_name()?.to_str()?;
    let (_, name) = name.split_once('-')?;
    let is_of = |part: &&str| {
        let rest = name.strip_prefix(*part);
        rest.is_some_and(|rest| rest.starts_with('-'))
    };
    apart().into_iter().find(is_of)
}

/// The parts of the kernels in the table below `root`, by their keys; empty without one.
///
/// # Errors
/// [`Error::File`] and [`Error::Syntax`].
pub(crate) fn of_records(root: &Path) -> Result<BTreeMap<String, Parts>, Error> {
    let path = root.join(TABLE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(Error::file("read", &path, error)),
    };
    let wrong = |text: String| Error::Syntax {
        path: path.clone(),
        text,
    };
    let table: Table = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    if table.schema != SCHEMA {
        let text = format!("schema is {}, expected {SCHEMA}", table.schema);
        return Err(wrong(text));
    }
    let entries = table.kernel.into_iter().map(|one| (one.key, one.parts));
    Ok(entries.collect())
}

/// The remedies in which two kernels differ, where that is all; `None` where it is not.
pub(crate) fn differ_in(one: &Parts, other: &Parts) -> Option<Vec<&'static str>> {
    let differs = |part: &str| one.get(part) != other.get(part);
    let names = one.keys().chain(other.keys());
    let mut known = names.filter(|name| differs(name));
    let apart = apart();
    let remedies = apart.iter().copied().filter(|name| differs(name));
    let remedies = remedies.collect();
    known
        .all(|name| apart.contains(&name.as_str()))
        .then_some(remedies)
}

/// What is wrong with the entries of today's kernels.
pub(crate) fn check(kernels: &BTreeMap<String, Parts>, today: &Keys) -> Vec<Problem> {
    let ports = today.ports.iter().filter_map(|(version, key)| {
        let parts = today.port_parts.get(version)?;
        Some((key, parts))
    });
    let all = std::iter::once((&today.kernel, &today.parts)).chain(ports);
    let wrong = all.filter_map(|(key, expected)| {
        let parts = kernels.get(key).filter(|parts| *parts != expected)?;
        Some(Problem::new(
            TABLE.to_owned(),
            format!(
                "kernel `{key}` is today's, and its parts are {parts:?}; expected {expected:?}"
            ),
        ))
    });
    wrong.collect()
}
