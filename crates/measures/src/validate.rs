// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What must hold in a result beyond the shape of its JSON.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use sha2::{Digest, Sha256};

use crate::error::Invalid;
use crate::result::{Artifact, Repetition, RunResult, SCHEMA, VERSION};

/// Whether `name` can name a metric: segments of ASCII letters, digits, `_` and `-`, joined by
/// single dots, at most 128 bytes, the first beginning with a lower-case letter. By custom a
/// segment is lower-case, unless it is a name that processor manuals or KVM write otherwise.
///
/// # Errors
/// If not; the text says what was expected.
pub fn check_metric_name(name: &str) -> Result<(), Invalid> {
    let segments_fit = name.split('.').all(|segment| {
        !segment.is_empty()
            && segment
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
    });
    if segments_fit && name.len() <= 128 && name.starts_with(|c: char| c.is_ascii_lowercase()) {
        return Ok(());
    }
    Err(Invalid::new(format!(
        "metric name {name:?}; expected letters, digits, '_' and '-' in segments joined by dots, \
         beginning with a lower-case letter, such as \"shootdown.latency.p99\""
    )))
}

/// SHA-256 of `bytes` in 64 lower-case hexadecimal digits.
#[must_use]
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl RunResult {
    /// Whether the result agrees with itself: schema and version, unique names and keys, ascending
    /// repetitions, artifacts inside the result's directory, and the digest of the measures.
    ///
    /// # Errors
    /// With the first contradiction found.
    pub fn validate(&self) -> Result<(), Invalid> {
        if self.schema != SCHEMA || self.version != VERSION {
            return Err(Invalid::new(format!(
                "schema {:?} version {}; expected {SCHEMA:?} version {VERSION}",
                self.schema, self.version
            )));
        }
        if self.variants.is_empty() {
            return Err(Invalid::new("no variants; expected at least one"));
        }
        let mut names = BTreeSet::new();
        for variant in &self.variants {
            if !names.insert(&variant.name) {
                return Err(Invalid::new(format!(
                    "two variants named {:?}; expected each name once",
                    variant.name
                )));
            }
            let mut previous = None;
            for repetition in &variant.repetitions {
                if previous.is_some_and(|before| repetition.index <= before) {
                    return Err(Invalid::new(format!(
                        "variant {:?}: repetition {} out of order; expected ascending indices",
                        variant.name, repetition.index
                    )));
                }
                previous = Some(repetition.index);
                check_repetition(repetition).map_err(|Invalid(text)| {
                    Invalid(format!(
                        "variant {:?}, repetition {}: {text}",
                        variant.name, repetition.index
                    ))
                })?;
            }
        }
        let digest = self.digest_of_measures();
        if self.measures_digest != digest {
            return Err(Invalid::new(format!(
                "measures_digest is {:?}, but the measures give {digest:?}; they were changed \
                 after the result was written, run the scenario again",
                self.measures_digest
            )));
        }
        Ok(())
    }
}

fn check_repetition(repetition: &Repetition) -> Result<(), Invalid> {
    let mut metrics = BTreeSet::new();
    for metric in &repetition.metrics {
        check_metric_name(&metric.name)?;
        check_scope(metric.vm.as_deref(), metric.workload.as_deref())?;
        if !metrics.insert((&metric.vm, &metric.workload, &metric.name)) {
            return Err(twice(
                "metric",
                metric.vm.as_deref(),
                metric.workload.as_deref(),
                &metric.name,
            ));
        }
    }
    let mut distributions = BTreeSet::new();
    for found in &repetition.distributions {
        check_metric_name(found.name())?;
        check_scope(found.vm(), found.workload())?;
        if !distributions.insert((found.vm(), found.workload(), found.name())) {
            return Err(twice(
                "distribution",
                found.vm(),
                found.workload(),
                found.name(),
            ));
        }
    }
    repetition.artifacts.iter().try_for_each(check_artifact)
}

fn twice(kind: &str, vm: Option<&str>, workload: Option<&str>, name: &str) -> Invalid {
    Invalid::new(format!(
        "{kind} {name:?} twice for VM {} and workload {}; expected once",
        vm.unwrap_or("(none)"),
        workload.unwrap_or("(none)")
    ))
}

fn check_scope(vm: Option<&str>, workload: Option<&str>) -> Result<(), Invalid> {
    let bad = |name: &str| name.is_empty() || name.chars().any(char::is_control);
    for name in [vm, workload].into_iter().flatten() {
        if bad(name) {
            return Err(Invalid::new(format!(
                "{name:?} names a VM or a workload; expected a name without control characters"
            )));
        }
    }
    Ok(())
}

fn check_artifact(artifact: &Artifact) -> Result<(), Invalid> {
    let path = Path::new(&artifact.path);
    let inside = path
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    if artifact.path.is_empty() || !inside {
        return Err(Invalid::new(format!(
            "artifact {:?} has path {:?}; expected a path inside the result's directory",
            artifact.name, artifact.path
        )));
    }
    let hexadecimal = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if artifact.sha256.len() != 64 || !artifact.sha256.bytes().all(hexadecimal) {
        return Err(Invalid::new(format!(
            "artifact {:?} has sha256 {:?}; expected 64 lower-case hexadecimal digits",
            artifact.name, artifact.sha256
        )));
    }
    Ok(())
}
