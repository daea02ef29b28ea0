// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady evidence seal`: seals counted records that have no seal yet. Records of races have
//! theirs from `run` and `add`.

use std::fs;
use std::process::ExitCode;

use steady_evidence::Counted;
use steady_lab_artifacts::Home;
use steady_measures::write_atomic;

/// Seals every counted record without a seal.
pub fn seal() -> anyhow::Result<ExitCode> {
    for entry in fs::read_dir(Home::find()?.project.join("evidence/results"))? {
        let path = entry?.path();
        if path.extension().is_none_or(|end| end != "toml") {
            continue;
        }
        if let Some(sealed) = Counted::sealed(&fs::read_to_string(&path)?) {
            write_atomic(&path, sealed.as_bytes())?;
            talk!("sealed {}", path.display());
        }
    }
    Ok(ExitCode::SUCCESS)
}
