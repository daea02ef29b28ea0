// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records: the sealed measures of a claim, each repetition with its seed.
//!
//! A record is a result (`docs/formats/result.md`) reduced to the measures that the claim names,
//! packed with zstd: `evidence/results/CLAIM.json.zst`. It keeps the digest of the scenario, the
//! keys of kernel, emulator or simulator, and the tool's version. Left out: distributions, traces,
//! logs, and every other measure.

use std::fs;
use std::path::{Path, PathBuf};

use steady_measures::{Error as ResultError, Invalid, RunResult, write_atomic};

use crate::claim::{Claim, Row};
use crate::error::Error;
use crate::house::Keys;

/// zstd's level: records are written seldom and kept for ever.
const LEVEL: i32 = 19;

/// What was recorded of one claim.
#[derive(Debug, Clone)]
pub struct Record {
    /// The claim's word.
    pub id: String,
    /// The measures.
    pub result: RunResult,
}

impl Record {
    /// The key of `config` that has the kernel's key.
    pub const KERNEL: &'static str = "evidence.kernel";
    /// The key of `config` that has the emulator's key.
    pub const EMULATOR: &'static str = "evidence.emulator";
    /// The key of `config` that has the simulator's key.
    pub const SIMULATOR: &'static str = "evidence.simulator";

    /// Where the record of a claim is.
    #[must_use]
    pub fn path(root: &Path, id: &str) -> PathBuf {
        root.join("evidence/results").join(format!("{id}.json.zst"))
    }

    /// The record of a claim; `None` where there is none.
    ///
    /// # Errors
    /// [`Error`] if it cannot be read, was changed after it was sealed, or lacks what the claim
    /// names.
    pub fn load(root: &Path, claim: &Claim) -> Result<Option<Self>, Error> {
        let path = Self::path(root, &claim.id);
        let packed = match fs::read(&path) {
            Ok(packed) => packed,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::file("read", &path, error)),
        };
        let wrong = |text: String| Error::Record {
            path: path.clone(),
            text,
        };
        let bytes = zstd::decode_all(packed.as_slice())
            .map_err(|error| wrong(format!("not packed by zstd: {error}")))?;
        let result = RunResult::from_json(&path.display().to_string(), &bytes)
            .map_err(|error| wrong(chain(&error)))?;
        let lacking = claim.rows.iter().find(|row| !has(&result, row));
        if let Some(row) = lacking {
            return Err(wrong(format!(
                "it lacks the row `{}` of the claim; race it again: {}",
                row.id,
                claim.command()
            )));
        }
        Ok(Some(Self {
            id: claim.id.clone(),
            result,
        }))
    }

    /// A result of the claim's race, reduced to what the claim names and sealed.
    ///
    /// # Errors
    /// [`Invalid`] if a variant or a measure of the claim is not in it.
    pub fn reduced(mut result: RunResult, claim: &Claim, keys: &Keys) -> Result<Self, Invalid> {
        let mut variants = Vec::new();
        for name in claim.all_variants() {
            let found = result.variants.iter().find(|v| v.name == name);
            let Some(found) = found else {
                return Err(Invalid::new(format!("the race has no variant `{name}`")));
            };
            variants.push(found.clone());
        }
        for variant in &mut variants {
            for repetition in &mut variant.repetitions {
                repetition.distributions.clear();
                repetition.artifacts.clear();
                let named = |metric: &steady_measures::Metric| {
                    let mut rows = claim.rows.iter();
                    rows.any(|row| row.is_of(metric))
                };
                repetition.metrics.retain(named);
            }
        }
        result.variants = variants;
        result.run.phases.clear();
        let mut put = |key: &str, value: &str| result.config.insert(key.to_owned(), value.into());
        if claim.is_simulated() {
            put(Self::SIMULATOR, &keys.simulator);
        } else {
            put(Self::KERNEL, &keys.kernel);
            put(Self::EMULATOR, keys.emulator(&claim.engine));
        }
        result.seal();
        if let Some(row) = claim.rows.iter().find(|row| !has(&result, row)) {
            return Err(Invalid::new(format!(
                "no variant has the measure `{}` of row `{}`",
                row.measure, row.id
            )));
        }
        Ok(Self {
            id: claim.id.clone(),
            result,
        })
    }

    /// This record with the runs of `piece` added; the piece alone where the two are of different
    /// builds, which `Ok(Err(reason))` says.
    ///
    /// # Errors
    /// [`ResultError`] if they cannot be joined though they are of the same build.
    pub fn joined(self, piece: Self) -> Result<(Self, Option<String>), ResultError> {
        let changed = differing_config(&self.result, &piece.result);
        if let Some(key) = changed {
            return Ok((piece, Some(key)));
        }
        let id = piece.id.clone();
        let pieces = vec![
            ("the record".to_owned(), self.result),
            ("the new runs".to_owned(), piece.result),
        ];
        let mut result = RunResult::join(pieces)?;
        // The command repeats the whole, and so once.
        result.run.command = format!("steady evidence run {id}");
        result.seal();
        Ok((Self { id, result }, None))
    }

    /// Writes it in its place.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Record`].
    pub fn save(&self, root: &Path) -> Result<PathBuf, Error> {
        let path = Self::path(root, &self.id);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|error| Error::file("make", folder, error))?;
        }
        let packed = zstd::encode_all(self.result.to_json().as_slice(), LEVEL)
            .map_err(|error| Error::file("pack", &path, error))?;
        write_atomic(&path, &packed).map_err(|error| Error::Record {
            path: path.clone(),
            text: chain(&error),
        })?;
        Ok(path)
    }

    /// A key of its configuration; empty where it has none.
    #[must_use]
    pub fn key(&self, key: &str) -> &str {
        self.result.config.get(key).map_or("", String::as_str)
    }

    /// The seeds that every variant of the claim has.
    #[must_use]
    pub fn seeds(&self, claim: &Claim) -> Vec<u64> {
        let of = |name: &str| -> Vec<u64> {
            let found = self.result.variants.iter().find(|v| v.name == name);
            let runs = found.into_iter().flat_map(|v| &v.repetitions);
            runs.filter_map(|run| run.seed).collect()
        };
        let mut seeds = of(&claim.base);
        for name in &claim.variants {
            let others = of(name);
            seeds.retain(|seed| others.contains(seed));
        }
        seeds
    }
}

/// Whether any run has the row's metric.
fn has(result: &RunResult, row: &Row) -> bool {
    let runs = result.variants.iter().flat_map(|v| &v.repetitions);
    let mut metrics = runs.flat_map(|run| &run.metrics);
    metrics.any(|metric| row.is_of(metric))
}

/// The first key that two results do not share, if any; what follows from the scenario is left out.
fn differing_config(one: &RunResult, other: &RunResult) -> Option<String> {
    if one.scenario != other.scenario {
        return Some("the scenario".to_owned());
    }
    if one.engine != other.engine {
        return Some("the engine".to_owned());
    }
    let keys = one.config.keys().chain(other.config.keys());
    let mut changed = keys.filter(|key| one.config.get(*key) != other.config.get(*key));
    changed.next().cloned()
}

/// An error and its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}
