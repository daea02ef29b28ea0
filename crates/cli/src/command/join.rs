// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady join`: the results of a race that was made in pieces, as one.

use std::path::Path;
use std::process::ExitCode;

use steady_measures::RunResult;

use crate::arguments::Join;

/// Writes the result of all runs, and says how many there are.
pub fn join(arguments: &Join) -> anyhow::Result<ExitCode> {
    let name = |path: &Path| path.display().to_string();
    let pieces = arguments
        .results
        .iter()
        .map(|path| Ok((name(path), RunResult::load(path)?)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let whole = RunResult::join(pieces)?;
    whole.save_atomic(&arguments.out)?;
    let runs: usize = whole.variants.iter().map(|v| v.repetitions.len()).sum();
    talk!(
        "{}: {runs} runs of {}, {} variants",
        name(&arguments.out),
        whole.scenario.name,
        whole.variants.len()
    );
    if let Some(partial) = &whole.partial {
        talk!("warning: {partial}");
    }
    Ok(ExitCode::SUCCESS)
}
