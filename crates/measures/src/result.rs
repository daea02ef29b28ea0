// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One scenario run by one engine: what was run, and what was measured.
//!
//! Everything that may differ between two runs of the same input is in [`RunInfo`]. The digest
//! covers what was measured: the variants with their metrics, distributions and warnings, without
//! the artifacts, because logs and traces name the time and the machine they were made on.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::clock::Clock;
use crate::distribution::Distribution;
use crate::error::{Error, Invalid};
use crate::json;
use crate::metric::Metric;
use crate::validate::{hex, sha256_hex};
use crate::write_atomic;

/// The name of the format.
pub const SCHEMA: &str = "steady.result";
/// The version of the format that is written, and the newest that is read.
pub const VERSION: u32 = 1;
/// No result is larger than this; a larger file is refused unread.
pub const MAX_RESULT_BYTES: u64 = 256 << 20;
/// Levels of a result file that get a line per value: down to one metric a line.
const EXPANDED_LEVELS: usize = 6;

/// One scenario run by one engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunResult {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// Always [`VERSION`] in a result made here.
    pub version: u32,
    /// What was asked.
    pub scenario: ScenarioInfo,
    /// What answered.
    pub engine: EngineInfo,
    /// What else the measures depend on: `kernel.release`, `kernel.config_sha256`,
    /// `image_sha256`, `vmm`, `pcpus` and others that the engine names.
    pub config: BTreeMap<String, String>,
    /// Seed of the scenario, from which each repetition has its own.
    pub seed: u64,
    /// Why runs are missing, if the race did not come to its end; absent in a whole result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
    /// The variants raced, the baseline first.
    pub variants: Vec<VariantResult>,
    /// SHA-256 of the measures in hexadecimal, see [`RunResult::digest_of_measures`].
    pub measures_digest: String,
    /// When, where and how long; not part of the measures.
    pub run: RunInfo,
}

/// Which scenario was run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "WrittenScenario")]
pub struct ScenarioInfo {
    /// Its name, as in its file.
    pub name: String,
    /// Its title, one line.
    pub title: String,
    /// The question it asks, one or two sentences.
    pub question: String,
    /// SHA-256 of the scenario in hexadecimal.
    pub digest: String,
}

/// [`ScenarioInfo`] as it may be written: results of older programs have figures of a paper, which
/// are skipped.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenScenario {
    name: String,
    title: String,
    question: String,
    digest: String,
    #[serde(default, rename = "papers")]
    _papers: IgnoredAny,
}

impl From<WrittenScenario> for ScenarioInfo {
    fn from(written: WrittenScenario) -> Self {
        Self {
            name: written.name,
            title: written.title,
            question: written.question,
            digest: written.digest,
        }
    }
}

/// Which engine ran it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineInfo {
    /// `sim`, `qemu`, `bochs` or `coherence`.
    pub name: String,
    /// Version of the simulator or emulator.
    pub version: String,
    /// What its nanoseconds are made of.
    pub clock: Clock,
    /// One line for a reader who does not know it.
    pub description: String,
}

/// One variant: the same machines and workloads with one set of remedies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VariantResult {
    /// Its name, unique in the result.
    pub name: String,
    /// Its title, one line.
    pub title: String,
    /// The remedies and switches that are on.
    pub remedies: Vec<String>,
    /// The repetitions, ascending by index.
    pub repetitions: Vec<Repetition>,
}

/// One repetition of one variant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Repetition {
    /// Which one, from 0.
    pub index: u32,
    /// Seed of its random streams; absent in results of older programs. Not in the digest, as it is
    /// not a measure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Numbers; each (VM, workload, name) once.
    pub metrics: Vec<Metric>,
    /// Histograms; each (VM, workload, name) once.
    pub distributions: Vec<Distribution>,
    /// What a reader should know before trusting the numbers.
    pub warnings: Vec<Warning>,
    /// Files kept beside the result.
    pub artifacts: Vec<Artifact>,
}

/// Something that makes the numbers worth less than they look.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Warning {
    /// A fixed word for programs, such as `events-lost`.
    pub code: String,
    /// One sentence for people.
    pub text: String,
}

/// A file kept beside the result: a trace, a console log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Artifact {
    /// What it is, such as `trace`.
    pub name: String,
    /// Where it is, relative to the directory of the result.
    pub path: String,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
    /// Length in bytes.
    pub bytes: u64,
}

/// When, where and how long. It alone may differ between two runs of the same input.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunInfo {
    /// Start of the run, UTC, as in RFC 3339.
    pub started: String,
    /// Name and version of the program that ran the scenario.
    pub tool: String,
    /// The machine that ran the engine: processor, CPUs, system.
    pub machine: String,
    /// The command that repeats the run.
    pub command: String,
    /// Wall time of the whole run in milliseconds.
    pub wall_ms: u64,
    /// Wall time by phase.
    pub phases: Vec<Phase>,
}

/// Wall time of one phase of one repetition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// The variant.
    pub variant: String,
    /// The index of the repetition.
    pub repetition: u32,
    /// `boot`, `guests-up`, `workloads`, `collect`, or what the engine names.
    pub phase: String,
    /// Wall time in milliseconds.
    pub wall_ms: u64,
}

impl RunResult {
    /// A result without variants yet. Add them, then [`RunResult::seal`] it.
    #[must_use]
    pub fn new(scenario: ScenarioInfo, engine: EngineInfo, seed: u64) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            version: VERSION,
            scenario,
            engine,
            config: BTreeMap::new(),
            seed,
            partial: None,
            variants: Vec::new(),
            measures_digest: String::new(),
            run: RunInfo::default(),
        }
    }

    /// SHA-256 over the compact JSON of `variants`, each repetition's `artifacts` and `seed` left
    /// out; `docs/formats/result.md` has the command that finds it by hand.
    #[must_use]
    pub fn digest_of_measures(&self) -> String {
        let measured: Vec<MeasuredVariant<'_>> = self.variants.iter().map(Into::into).collect();
        sha256_hex(&json::compact(&measured))
    }

    /// Leaves only these variants, in this order, so that the first of them is the baseline; a name
    /// that comes again counts once. The digest stays that of all that was measured.
    ///
    /// # Errors
    /// [`Error::NoSuchVariant`]; the result is then as it was.
    pub fn choose(&mut self, names: &[String]) -> Result<(), Error> {
        let mut chosen: Vec<VariantResult> = Vec::new();
        for name in names {
            if chosen.iter().any(|variant| variant.name == *name) {
                continue;
            }
            let found = self.variants.iter().find(|variant| variant.name == *name);
            chosen.push(found.cloned().ok_or_else(|| Error::NoSuchVariant {
                name: name.clone(),
                known: self.variants.iter().map(|v| v.name.clone()).collect(),
            })?);
        }
        assert!(chosen.len() <= names.len(), "a variant is chosen once");
        self.variants = chosen;
        Ok(())
    }

    /// Sets `measures_digest`. To be called once all measures are in.
    pub fn seal(&mut self) {
        self.measures_digest = self.digest_of_measures();
    }

    /// Reads and checks a result file.
    ///
    /// # Errors
    /// If it cannot be read, is not a result, is of a newer version or contradicts itself.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::Read {
            path: path.to_owned(),
            source,
        };
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(failed)?;
        let mut limited = file.take(MAX_RESULT_BYTES + 1);
        let read = limited.read_to_end(&mut bytes).map_err(failed)?;
        if u64::try_from(read).is_ok_and(|read| read > MAX_RESULT_BYTES) {
            return Err(Error::TooLarge {
                path: path.to_owned(),
                limit: MAX_RESULT_BYTES,
            });
        }
        Self::from_json(&path.display().to_string(), &bytes)
    }

    /// Parses and checks a result. `origin` stands for it in errors.
    ///
    /// # Errors
    /// If it is not a result, is of a newer version or contradicts itself.
    pub fn from_json(origin: &str, bytes: &[u8]) -> Result<Self, Error> {
        if !bytes.trim_ascii_start().starts_with(b"{") {
            let first: Vec<u8> = bytes.iter().take(8).copied().collect();
            return Err(Error::NotResult {
                origin: origin.to_owned(),
                found: match first[..] {
                    [] => "nothing".to_owned(),
                    _ => format!("`{}`", first.escape_ascii()),
                },
            });
        }
        let result: Self = json::parse(origin, bytes, SCHEMA, VERSION)?;
        result.validate().map_err(|invalid| Error::Invalid {
            origin: origin.to_owned(),
            invalid,
        })?;
        Ok(result)
    }

    /// The bytes of a result file: one metric a line, keys always in the same order, a newline at
    /// the end.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        json::laid_out(self, EXPANDED_LEVELS)
    }

    /// Writes the result to `path`, whole or not at all.
    ///
    /// # Errors
    /// If it contradicts itself (an unsealed one does), or cannot be written.
    pub fn save_atomic(&self, path: &Path) -> Result<(), Error> {
        self.validate().map_err(|invalid| Error::Invalid {
            origin: path.display().to_string(),
            invalid,
        })?;
        write_atomic(path, &self.to_json())
    }
}

impl VariantResult {
    /// The distributions of all repetitions, those of the same VM, workload and name merged, in the
    /// order in which they first appear.
    ///
    /// # Errors
    /// If two of them cannot be merged, see [`Distribution::merged`].
    pub fn pooled_distributions(&self) -> Result<Vec<Distribution>, Invalid> {
        let mut pooled: Vec<Distribution> = Vec::new();
        for found in self.repetitions.iter().flat_map(|r| &r.distributions) {
            let key = (found.vm(), found.workload(), found.name());
            match pooled
                .iter_mut()
                .find(|known| (known.vm(), known.workload(), known.name()) == key)
            {
                Some(known) => *known = known.merged(found)?,
                None => pooled.push(found.clone()),
            }
        }
        Ok(pooled)
    }
}

impl Artifact {
    /// Describes the file `path`, relative to `directory`, by reading it once.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn of_file(directory: &Path, path: &str, name: impl Into<String>) -> io::Result<Self> {
        let mut hasher = Sha256::new();
        let bytes = io::copy(&mut File::open(directory.join(path))?, &mut hasher)?;
        Ok(Self {
            name: name.into(),
            path: path.to_owned(),
            sha256: hex(&hasher.finalize()),
            bytes,
        })
    }
}

/// A variant as the digest sees it.
#[derive(Serialize)]
struct MeasuredVariant<'a> {
    name: &'a str,
    title: &'a str,
    remedies: &'a [String],
    repetitions: Vec<MeasuredRepetition<'a>>,
}

#[derive(Serialize)]
struct MeasuredRepetition<'a> {
    index: u32,
    metrics: &'a [Metric],
    distributions: &'a [Distribution],
    warnings: &'a [Warning],
}

impl<'a> From<&'a VariantResult> for MeasuredVariant<'a> {
    fn from(variant: &'a VariantResult) -> Self {
        let measured = |repetition: &'a Repetition| MeasuredRepetition {
            index: repetition.index,
            metrics: &repetition.metrics,
            distributions: &repetition.distributions,
            warnings: &repetition.warnings,
        };
        Self {
            name: &variant.name,
            title: &variant.title,
            remedies: &variant.remedies,
            repetitions: variant.repetitions.iter().map(measured).collect(),
        }
    }
}
