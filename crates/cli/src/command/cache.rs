// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady cache`: what is built and kept, whether it is as it was built, and what can go.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use steady_lab_artifacts::cache::shelf::{self, Entry};
use steady_lab_artifacts::cache::sums;
use steady_lab_artifacts::cache::wanted::{Use, Wanted};
use steady_lab_artifacts::need::{artifacts, require};
use steady_lab_artifacts::{ArtifactError, Home};

use crate::arguments::Cache;

/// Exit code if an entry is not as it was built.
const FAULT: u8 = 5;
const MIB: u64 = 1 << 20;

/// Lists, verifies or removes.
pub fn cache(arguments: &Cache) -> anyhow::Result<ExitCode> {
    require(artifacts::cache().into_iter().collect())?;
    let cache = &Home::find_cache()?;
    let entries = shelf::entries(cache)?;
    match arguments {
        Cache::List => list(cache, &entries),
        Cache::Verify { entries: names } => verify(&chosen(entries, names)?),
        Cache::Prune {
            entries: names,
            all,
            dry_run,
        } => {
            let goes: Vec<Entry> = if *all || !names.is_empty() {
                chosen(entries, names)?
            } else {
                let home = Home::find()?;
                let wanted = Wanted::of(&home);
                for trouble in wanted.troubles() {
                    talk!("steady: {trouble}; all of these stay");
                }
                let goes = |entry: &Entry| entry.is_ours() && wanted.uses(&entry.name) == Use::No;
                entries.into_iter().filter(goes).collect()
            };
            prune(cache, &goes, *dry_run)
        }
    }
}

/// The entries of these names; all if none is named.
fn chosen(entries: Vec<Entry>, names: &[String]) -> anyhow::Result<Vec<Entry>> {
    let unknown = |name: &&String| entries.iter().all(|one| one.name != **name);
    if let Some(name) = names.iter().find(unknown) {
        return Err(ArtifactError::NoEntry(name.clone()).into());
    }
    let is_chosen = |entry: &Entry| names.is_empty() || names.contains(&entry.name);
    Ok(entries.into_iter().filter(is_chosen).collect())
}

fn list(cache: &Path, entries: &[Entry]) -> anyhow::Result<ExitCode> {
    // Without a tree nothing is of it.
    let wanted = Home::find().ok().map(|home| Wanted::of(&home));
    for trouble in wanted.iter().flat_map(Wanted::troubles) {
        talk!("steady: {trouble}");
    }
    let mut out = std::io::stdout().lock();
    for entry in entries {
        let mut words = vec![match () {
            () if entry.is_left_over() => "left by a build",
            () if entry.is_release() => "a distribution's kernel",
            () if !entry.is_ours() => "of another program",
            () => match wanted.as_ref().map(|wanted| wanted.uses(&entry.name)) {
                Some(Use::Yes) => "of this tree",
                Some(Use::Unknown) => "perhaps of this tree",
                Some(Use::No) | None => "not of this tree",
            },
        }];
        words.extend(entry.in_use.then_some("in use"));
        words.extend((!entry.has_sums).then_some("no checksums"));
        let made = entry.made.map(humantime::format_rfc3339_seconds);
        let made = made.map_or_else(String::new, |made| made.to_string());
        let size = entry.bytes.div_ceil(MIB);
        writeln!(
            out,
            "{:34} {size:>6} MiB  {made}  {}",
            entry.name,
            words.join(", ")
        )?;
    }
    let all: u64 = entries.iter().map(|entry| entry.bytes).sum();
    let place = cache.display();
    writeln!(
        out,
        "{} entries, {} MiB, in {place}",
        entries.len(),
        all.div_ceil(MIB)
    )?;
    Ok(ExitCode::SUCCESS)
}

fn verify(entries: &[Entry]) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    let mut damaged = 0;
    for entry in entries.iter().filter(|entry| !entry.is_left_over()) {
        let found = match sums::compare(&entry.place) {
            Ok(()) => "as it was built".to_owned(),
            Err(_) if !entry.is_ours() && !entry.is_release() && !entry.has_sums => {
                "of another program".to_owned()
            }
            Err(error) => {
                damaged += 1;
                error.to_string()
            }
        };
        writeln!(out, "{:34} {found}", entry.name)?;
    }
    Ok(ExitCode::from(if damaged > 0 { FAULT } else { 0 }))
}

fn prune(cache: &Path, goes: &[Entry], dry_run: bool) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    let mut freed = 0;
    for entry in goes {
        let what = if entry.in_use || (!dry_run && !shelf::remove(cache, entry)?) {
            "stays: a process uses it"
        } else {
            freed += entry.bytes;
            if dry_run { "would go" } else { "removed" }
        };
        writeln!(out, "{:34} {what}", entry.name)?;
    }
    let would = if dry_run { "would free" } else { "freed" };
    writeln!(
        out,
        "{would} {} MiB in {}",
        freed.div_ceil(MIB),
        cache.display()
    )?;
    Ok(ExitCode::SUCCESS)
}
