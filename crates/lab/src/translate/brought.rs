// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs that a user brings: their files for the guests' image, their digests for the result,
//! and how a run of one is started.

use std::collections::BTreeMap;
use std::path::Path;

use steady_agent::plan::WorkloadPlan;
use steady_lab_artifacts::ArtifactError;
use steady_lab_artifacts::image::brought;
use steady_lab_artifacts::image::tree::Added;
use steady_scenario::{Brought, Runs, Scenario, Workload};

use crate::error::LabError;

/// What the programs of a scenario that a user brought come to.
#[derive(Debug, Default)]
pub struct Gathered {
    /// What goes into the guests' image.
    pub files: Vec<Added>,
    /// Digests, as `config` of a result has them.
    pub config: BTreeMap<String, String>,
}

/// Finds all of them.
///
/// # Errors
/// [`ArtifactError::Program`] naming what is not there or has no place, and two programs that
/// results could not distinguish.
pub fn gather(scenario: &Scenario) -> Result<Gathered, LabError> {
    let mut gathered = Gathered::default();
    let mut known: BTreeMap<&str, &str> = BTreeMap::new();
    for workload in scenario.vms.iter().flat_map(|vm| &vm.workloads) {
        let Runs::Brought(program) = &workload.program else {
            continue;
        };
        let name = workload.program.name();
        let other = *known.entry(name).or_insert(program.path());
        if other != program.path() {
            let what = format!(
                "{other} and {} have one name in results; rename one of the files",
                program.path()
            );
            return Err(wrong(name, what));
        }
        let folder = &scenario.folder;
        let found = brought::gather(name, program.path(), &workload.files, folder)?;
        for file in found.files {
            add(&mut gathered.files, file).map_err(|what| wrong(name, what))?;
        }
        let digests = found.digests.into_iter();
        let digests = digests.map(|(path, digest)| (format!("program.{path}"), digest));
        gathered.config.extend(digests);
    }
    Ok(gathered)
}

fn wrong(name: &str, what: String) -> LabError {
    let program = name.to_owned();
    ArtifactError::Program { program, what }.into()
}

/// Adds a file, unless another one must be in its place.
fn add(files: &mut Vec<Added>, file: Added) -> Result<(), String> {
    assert!(!file.to.starts_with('/'), "{} is from the root", file.to);
    match files.iter().find(|known| known.to == file.to) {
        None => files.push(file),
        Some(known) if known.from == file.from => {}
        Some(known) => {
            return Err(format!(
                "{} and {} have the place /{} of a guest; give one another: `FROM:TO`",
                known.from.display(),
                file.from.display(),
                file.to
            ));
        }
    }
    Ok(())
}

/// A run of such a program.
pub(super) fn run_of(workload: &Workload, program: &Brought, begin_delay_us: u32) -> WorkloadPlan {
    let name = workload.program.name();
    assert!(!name.is_empty(), "a program has a name");
    let command = brought::command(name, Path::new(program.path()));
    WorkloadPlan {
        program: name.to_owned(),
        begin_delay_us,
        argv: std::iter::once(command)
            .chain(workload.args.iter().cloned())
            .collect(),
        env: workload.env.clone(),
        time_limit_ms: super::program::limit_ms(workload),
        folder: Some(brought::folder(name)),
        ready: workload.ready.clone(),
        ..WorkloadPlan::default()
    }
}
