// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records: the sealed measures of a claim, each repetition with its seed.
//!
//! A record is a result (`docs/formats/result.md`) reduced to the measures that the claim names,
//! under a seal of all that it says, packed with zstd: `evidence/results/CLAIM.json.zst`. It keeps
//! the digest of the scenario, the keys of kernel, emulator or simulator, and the tool's version.
//! Left out: distributions, traces, logs, and every other measure.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use steady_measures::{Error as ResultError, Invalid, RunResult, sha256_hex, write_atomic};

use crate::claim::{Claim, Row};
use crate::conditions;
use crate::error::Error;
use crate::house::Keys;
use crate::keys;

/// zstd's level: records are written seldom and kept for ever.
const LEVEL: i32 = 19;

/// The name of the format.
const RECORD_SCHEMA: &str = "steady.record";
/// Its version.
const RECORD_VERSION: u32 = 2;

/// What says which format a file has.
#[derive(Deserialize)]
struct Head {
    schema: String,
    version: u32,
}

/// A record as its file has it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sealed<R> {
    schema: String,
    version: u32,
    race: String,
    seal: String,
    result: R,
}

impl<R: Serialize> Sealed<R> {
    /// SHA-256 of the compact JSON of everything but the seal.
    fn digest(&self) -> String {
        let all = (&self.schema, self.version, &self.race, &self.result);
        sha256_hex(&serde_json::to_vec(&all).expect("a result has string keys"))
    }
}

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
    /// The key of `config` that has the key of the programs in host and guests.
    pub const PROGRAMS: &'static str = "evidence.programs";
    /// The key of `config` that has the simulator's key.
    pub const SIMULATOR: &'static str = "evidence.simulator";
    /// How the key of `config` begins that has the conditions of a simulated measure, behind it.
    pub const CONDITIONS: &'static str = "evidence.conditions.";

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
        if !path.exists() {
            return Ok(None);
        }
        let record = Self::read(&path)?;
        let lacking = claim.rows.iter().find(|row| !has(&record.result, row));
        let text = match lacking {
            _ if record.id != claim.id => format!("it is a record of the race `{}`", record.id),
            None => return Ok(Some(record)),
            Some(row) => format!("it lacks the row `{}` of the claim", row.id),
        };
        let text = format!("{text}; race it again: {}", claim.command());
        Err(Error::Record { path, text })
    }

    /// The record in a file.
    ///
    /// # Errors
    /// [`Error`] if it cannot be read, is of another version, or was changed after it was sealed.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let wrong = |text: String| Error::Record {
            path: path.to_owned(),
            text,
        };
        let bytes = unpacked(path)?;
        let syntax = |error: serde_json::Error| wrong(error.to_string());
        let head: Head = serde_json::from_slice(&bytes).map_err(syntax)?;
        if (head.schema.as_str(), head.version) != (RECORD_SCHEMA, RECORD_VERSION) {
            return Err(wrong(format!(
                "schema {:?} version {}; expected {RECORD_SCHEMA:?} version {RECORD_VERSION}; \
                 race it again",
                head.schema, head.version
            )));
        }
        let sealed: Sealed<RunResult> = serde_json::from_slice(&bytes).map_err(syntax)?;
        if sealed.digest() != sealed.seal {
            let text = "it was changed after it was sealed; race it again: steady evidence run";
            return Err(wrong(format!("{text} {}", sealed.race)));
        }
        sealed
            .result
            .validate()
            .map_err(|invalid| wrong(chain(&invalid)))?;
        let (id, result) = (sealed.race, sealed.result);
        Ok(Self { id, result })
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
            put(Self::SIMULATOR, keys.simulator(claim));
            for (name, line) in conditions::simulated_lines(keys, claim) {
                put(&format!("{}{name}", Self::CONDITIONS), &line);
            }
        } else {
            put(Self::KERNEL, keys.kernel_of(claim));
            put(Self::EMULATOR, &keys.emulator_of(claim));
            put(Self::PROGRAMS, &keys::line(&keys.programs));
            if claim.captured.is_some() {
                put(Self::SIMULATOR, keys.simulator(claim));
            }
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
    pub fn joined(mut self, piece: Self) -> Result<(Self, Option<String>), ResultError> {
        // What lies in the images decides; the key says what of the tree that was.
        const IMAGE: &str = "image_sha256";
        let (one, other) = (&mut self.result.config, &piece.result.config);
        if one.contains_key(IMAGE)
            && one.get(IMAGE) == other.get(IMAGE)
            && let Some(key) = other.get(Self::PROGRAMS)
        {
            one.insert(Self::PROGRAMS.to_owned(), key.clone());
        }
        let changed = differing_config(&self.result, &piece.result);
        if let Some(key) = changed {
            return Ok((piece, Some(key)));
        }
        let (id, command) = (piece.id.clone(), piece.result.run.command.clone());
        let pieces = vec![
            ("the record".to_owned(), self.result),
            ("the new runs".to_owned(), piece.result),
        ];
        let mut result = RunResult::join(pieces)?;
        // The command repeats the whole, and so once.
        result.run.command = command;
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
        self.write(&path)?;
        Ok(path)
    }

    /// Writes it to a file, sealed.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Record`].
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let mut sealed = Sealed {
            schema: RECORD_SCHEMA.to_owned(),
            version: RECORD_VERSION,
            race: self.id.clone(),
            seal: String::new(),
            result: &self.result,
        };
        sealed.seal = sealed.digest();
        let bytes = serde_json::to_vec_pretty(&sealed).expect("a result has string keys");
        let packed = zstd::encode_all(bytes.as_slice(), LEVEL)
            .map_err(|error| Error::file("pack", path, error))?;
        write_atomic(path, &packed).map_err(|error| Error::Record {
            path: path.to_owned(),
            text: chain(&error),
        })
    }

    /// A key of its configuration; empty where it has none.
    #[must_use]
    pub fn key(&self, key: &str) -> &str {
        self.result.config.get(key).map_or("", String::as_str)
    }

    /// The seeds that every variant of the claim has.
    #[must_use]
    pub fn seeds(&self, claim: &Claim) -> Vec<u64> {
        let mut seeds = self.seeds_of(&claim.base);
        seeds.retain(|&seed| self.lacking(claim, seed).is_empty());
        seeds
    }

    /// The variants of the claim that lack this seed.
    #[must_use]
    pub fn lacking(&self, claim: &Claim, seed: u64) -> Vec<String> {
        let names = claim.all_variants();
        let lacking = names.filter(|name| !self.seeds_of(name).contains(&seed));
        lacking.map(str::to_owned).collect()
    }

    fn seeds_of(&self, variant: &str) -> Vec<u64> {
        let found = self.result.variants.iter().find(|v| v.name == variant);
        let runs = found.into_iter().flat_map(|v| &v.repetitions);
        runs.filter_map(|run| run.seed).collect()
    }
}

/// The bytes that a file has packed.
fn unpacked(path: &Path) -> Result<Vec<u8>, Error> {
    let packed = fs::read(path).map_err(|error| Error::file("read", path, error))?;
    zstd::decode_all(packed.as_slice()).map_err(|error| Error::Record {
        path: path.to_owned(),
        text: format!("not packed by zstd: {error}"),
    })
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
    let mut changed = keys
        .filter(|key| !key.starts_with("conditions."))
        .filter(|key| one.config.get(*key) != other.config.get(*key));
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
