// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady evidence seal`: seals the whole of records that an older program sealed over their
//! measures alone, and counted records without a seal. Measures stay as they are.
//!
//! It adds the kernel's `CONFIG_HZ`, by the configuration in the cache, where the record has the
//! digest of that configuration.

use std::fs;
use std::process::ExitCode;

use steady_evidence::{Counted, Record};
use steady_lab_artifacts::Home;
use steady_measures::{RunResult, sha256_hex, write_atomic};

/// Seals every record of the first version, and every counted one without a seal.
pub fn seal() -> anyhow::Result<ExitCode> {
    let home = Home::find()?;
    for entry in fs::read_dir(home.project.join("evidence/results"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "toml") {
            if let Some(sealed) = Counted::sealed(&fs::read_to_string(&path)?) {
                write_atomic(&path, sealed.as_bytes())?;
                eprintln!("sealed {}", path.display());
            }
            continue;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(race) = name.strip_suffix(".json.zst") else {
            continue;
        };
        let Some(mut record) = Record::read_first_version(&path, race)? else {
            continue;
        };
        match hz(&home, &record.result) {
            Some(hz) => drop(record.result.config.insert("kernel.hz".to_owned(), hz)),
            None if record.result.config.contains_key("kernel.key") => {
                eprintln!("{race}: the cache lacks its kernel, so `kernel.hz` is left out");
            }
            None => {}
        }
        record.write(&path)?;
        eprintln!("sealed {}", path.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// `CONFIG_HZ` of the kernel that a result names, if the cache still has it.
fn hz(home: &Home, result: &RunResult) -> Option<String> {
    let config = home
        .cache
        .join(result.config.get("kernel.key")?)
        .join("config");
    let text = fs::read_to_string(config).ok()?;
    let same = result.config.get("kernel.config_sha256") == Some(&sha256_hex(text.as_bytes()));
    let hz = text
        .lines()
        .find_map(|line| line.strip_prefix("CONFIG_HZ="));
    hz.filter(|_| same).map(str::to_owned)
}
