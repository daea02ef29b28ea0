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

#[cfg(test)]
mod tests {
    use super::*;

    /// What each VM of a scenario runs, as it is written behind `program =`, with more of the VM.
    fn scenario(folder: &Path, vms: &[(&str, &str)]) -> Scenario {
        for name in ["one.sh", "one.py", "two", "word"] {
            std::fs::write(folder.join(name), "#!/bin/sh\n").expect("a file");
        }
        let mut text =
            "schema = 2\nname = \"s\"\ntitle = \"t\"\nquestion = \"q\"\n[host]\npcpus = 2\n\
                        memory_mib = 512\n"
                .to_owned();
        for (at, (of_vm, workload)) in vms.iter().enumerate() {
            text += &format!(
                "[[vm]]\nname = \"vm-{at}\"\nvcpus = 1\nmemory_mib = 96\n{of_vm}\n\
                 [[vm.workload]]\nprogram = {workload}\n"
            );
        }
        text += "[[variant]]\nname = \"x\"\n";
        let mut scenario =
            Scenario::parse(&text, "s.toml").unwrap_or_else(|wrong| panic!("{wrong}"));
        folder.clone_into(&mut scenario.folder);
        scenario
    }

    #[test]
    fn files_without_a_place_of_their_own_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let own = |file: &str| format!("\"./one.sh\"\nfiles = [\"{file}\"]");
        for (first, second, said) in [
            (
                "word",
                "\"./one.py\"",
                "./one.sh and ./one.py have one name in results",
            ),
            (
                "one.py:/opt/x",
                "\"./two\"\nfiles = [\"word:/opt/x\"]",
                "have the place /opt/x of a guest; give one another",
            ),
            ("word:../x", "\"./two\"", "`..` in a place of the guest"),
            ("..", "\"./two\"", "`..` names no file"),
            (
                "/dev/null",
                "\"./two\"",
                "/dev/null is not a file or a folder",
            ),
        ] {
            let made = scenario(folder.path(), &[("", &own(first)), ("", second)]);
            let error = gather(&made).expect_err(said).to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn a_program_of_two_vms_is_there_once_and_is_run_as_each_says() {
        let folder = tempfile::tempdir().expect("a folder");
        let own = "\"./one.sh\"\nfiles = [\"word\"]\n";
        let measured =
            format!("{own}args = [\"x\"]\nenv = {{ MODE = \"fast\" }}\ntime_limit_s = 2");
        let waited_for = format!("{own}ready = \"up\"");
        let made = scenario(
            folder.path(),
            &[
                ("", &measured),
                ("background = true", &waited_for),
                ("", "\"shootdown\"\nenv = { MODE = \"slow\" }"),
            ],
        );
        let found = gather(&made).expect("all is there");
        for (to, key) in [
            ("program/one/one.sh", "program.one/one.sh"),
            ("program/one/word", "program.one/word"),
        ] {
            let count = found.files.iter().filter(|file| file.to == to).count();
            assert_eq!((count, found.config[key].len()), (1, 64), "{to}");
        }
        let plan = super::super::plan(&made, &made.variants[0], 1, false).expect("a plan");
        let [first, second, third] = [0, 1, 2].map(|at| plan.vms[at].workloads[0].clone());
        assert_eq!(first.argv, ["/program/one/one.sh", "x"]);
        assert_eq!((&*first.env["MODE"], &*third.env["MODE"]), ("fast", "slow"));
        assert_eq!(first.folder.as_deref(), Some("/program/one"));
        assert_eq!((first.ready, first.time_limit_ms), (None, 2000));
        let ready = second.ready.as_deref();
        assert_eq!((ready, second.time_limit_ms), (Some("up"), 60_000));
    }
}
