// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady evidence`: claims, their races, and the pages that are written from both.

mod captured;
pub mod diagnosed;
pub mod run;
mod seal;
mod simulated;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use steady_diagnose::Diagnosis;
use steady_evidence::{Claim, House, Keys, Record, check, page, score, todo};
use steady_lab_artifacts::Home;
use steady_measures::{RunResult, write_atomic};

use crate::arguments::evidence::{Add, Claims, Evidence, Score};

/// Exit code where evidence does not hold together.
const FAULT: u8 = 5;
/// Version of the JSON that `score --json` prints.
const SCORE_VERSION: u32 = 1;

/// Does what the subcommand says.
pub fn evidence(arguments: &Evidence) -> anyhow::Result<ExitCode> {
    match arguments {
        Evidence::Run(run) => run::run(run),
        Evidence::Render => render(),
        Evidence::Check => checked(),
        Evidence::Jobs(claims) => jobs(claims),
        Evidence::Add(pieces) => add(pieces),
        Evidence::Score(results) => scored(results),
        Evidence::Seal => seal::seal(),
    }
}

/// The evidence of the project that this command is called in.
pub fn house() -> anyhow::Result<House> {
    let home = Home::find()?;
    let keys = Keys::of_tree(&home.project, simulated::all(&home.cache)?)?;
    Ok(House::load(&home.project, keys)?)
}

/// The races of these names, which are of races, systems or claims; all races if none is named.
pub fn chosen(house: &House, names: &[String]) -> anyhow::Result<Vec<Claim>> {
    let races = house.races();
    if names.is_empty() {
        return Ok(races);
    }
    let mut wanted: Vec<String> = Vec::new();
    for name in names {
        // A race goes before the system of that name: what `jobs` prints is one race.
        let system = house.systems.iter().find(|system| &system.system == name);
        match system {
            _ if races.iter().any(|race| &race.id == name) => wanted.push(name.clone()),
            Some(system) => wanted.extend(system.claims.iter().map(|claim| claim.race().into())),
            None => wanted.push(house.claim(name)?.race().to_owned()),
        }
    }
    Ok(races
        .into_iter()
        .filter(|race| wanted.contains(&race.id))
        .collect())
}

fn render() -> anyhow::Result<ExitCode> {
    let house = house()?;
    let read = |name: &str| std::fs::read_to_string(house.root.join(name)).ok();
    let (files, problems) = match page::all(&house, &read) {
        Ok(files) => (files, Vec::new()),
        Err(problems) => (BTreeMap::new(), problems),
    };
    for (name, text) in files {
        if read(&name).as_ref() != Some(&text) {
            write_atomic(&house.root.join(&name), text.as_bytes())?;
            talk!("wrote {name}");
        }
    }
    Ok(told(&problems))
}

fn checked() -> anyhow::Result<ExitCode> {
    let house = match house() {
        Ok(house) => house,
        Err(error) if of_evidence(&error) => {
            talk!("steady: {error}");
            return Ok(ExitCode::from(FAULT));
        }
        Err(error) => return Err(error),
    };
    let problems = check(&house);
    if problems.is_empty() {
        let records = house.records.len();
        talk!(
            "evidence holds: {} claims, {records} recorded",
            house.claims().count()
        );
    }
    Ok(told(&problems))
}

/// Whether a record or a claim does not hold, which is what `check` looks for.
fn of_evidence(error: &anyhow::Error) -> bool {
    use steady_evidence::Error;
    matches!(
        error.downcast_ref(),
        Some(Error::Record { .. } | Error::Unsound { .. } | Error::Syntax { .. })
    )
}

fn told(problems: &[steady_evidence::Problem]) -> ExitCode {
    for problem in problems {
        talk!("steady: {problem}");
    }
    ExitCode::from(if problems.is_empty() { 0 } else { FAULT })
}

fn jobs(arguments: &Claims) -> anyhow::Result<ExitCode> {
    let house = house()?;
    let claims = chosen(&house, &arguments.claims)?;
    let mut out = std::io::stdout().lock();
    let claims: Vec<&Claim> = claims.iter().collect();
    for piece in todo(&house, &claims, false) {
        let claim = claims.iter().find(|claim| claim.id == piece.claim);
        let claim = claim.context("a piece is of a claim")?;
        writeln!(
            out,
            "{3} --seed {1} --out out/evidence-{0}-{1} --piece {0}-{1}.json.zst   # {2}",
            piece.claim,
            piece.seed,
            piece.why.as_str(),
            claim.command()
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

fn add(arguments: &Add) -> anyhow::Result<ExitCode> {
    let mut house = house()?;
    let named = [arguments.claim.clone()];
    let Some(claim) = chosen(&house, &named)?.into_iter().next() else {
        bail!("`{}` has no race", arguments.claim);
    };
    for path in &arguments.pieces {
        let cannot = || format!("cannot add {}", path.display());
        let piece = Record::read(path)?;
        if piece.id != claim.id {
            bail!(
                "{} is of the race `{}`, expected `{}`",
                path.display(),
                piece.id,
                claim.id
            );
        }
        record(&mut house, &claim, piece).with_context(cannot)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Adds a piece to the record of its claim and writes that.
pub fn record(house: &mut House, claim: &Claim, piece: Record) -> anyhow::Result<PathBuf> {
    let before = house
        .records
        .iter()
        .position(|record| record.id == claim.id);
    let whole = match before.map(|at| house.records.remove(at)) {
        None => piece,
        Some(earlier) => {
            let seeds = earlier.seeds(claim);
            let again = piece.seeds(claim).iter().any(|seed| seeds.contains(seed));
            if again && house_is_of(&earlier, &piece) {
                bail!("a seed of it is recorded already");
            }
            let all = piece.result.variants.len() > claim.variants.len();
            let (whole, changed) = earlier.joined(piece)?;
            if let Some(key) = changed {
                // Some variants alone do not make a record of the race.
                if !all {
                    bail!(
                        "{key} has changed; race all again: {} --again",
                        claim.command()
                    );
                }
                talk!("{}: {key} has changed; the record begins again", claim.id);
            }
            whole
        }
    };
    let path = whole.save(&house.root)?;
    house.records.push(whole);
    Ok(path)
}

/// Whether both are of the same kernel, emulator and simulator.
fn house_is_of(one: &Record, other: &Record) -> bool {
    let keys = [Record::KERNEL, Record::EMULATOR, Record::SIMULATOR];
    keys.iter().all(|key| one.key(key) == other.key(key))
}

/// The first finding of a diagnosis in a few words.
fn first_finding(path: &Path) -> anyhow::Result<String> {
    let cannot = || format!("cannot read {}", path.display());
    let text = std::fs::read_to_string(path).with_context(cannot)?;
    let found: Diagnosis = serde_json::from_str(&text).with_context(cannot)?;
    let Some(first) = found.findings.first() else {
        return Ok("nothing found".to_owned());
    };
    Ok(format!(
        "{}: {}, {}.{} % lost",
        first.vm.as_deref().unwrap_or("host"),
        first.id.word(),
        first.lost_permille / 10,
        first.lost_permille % 10
    ))
}

fn scored(arguments: &Score) -> anyhow::Result<ExitCode> {
    let house = house()?;
    let results: Vec<RunResult> = arguments
        .results
        .iter()
        .map(|path| RunResult::load(path))
        .collect::<Result<_, _>>()?;
    let mut lines = score::lines(&house, &results);
    if let Some(path) = &arguments.diagnosis {
        let first = first_finding(path)?;
        let mut scored = house.systems.iter().filter(|system| system.score.is_some());
        let of_diagnosis = scored.position(|system| system.system == "diagnosis");
        if let Some(line) = of_diagnosis.and_then(|at| lines.get_mut(at)) {
            line.measured = Some(first);
        }
    }
    let mut out = std::io::stdout().lock();
    if arguments.json {
        let value = serde_json::json!({
            "schema": "steady.score",
            "version": SCORE_VERSION,
            "systems": lines,
        });
        writeln!(out, "{value:#}")?;
    } else {
        let page = "Pages: docs/validation/README.md";
        out.write_all(score::text(&lines, page).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_of_a_race_before_it_is_of_a_system() {
        let house = house().unwrap();
        let races = |name: &str| {
            let chosen = chosen(&house, &[name.to_owned()]).unwrap();
            chosen.into_iter().map(|race| race.id).collect::<Vec<_>>()
        };
        assert!(house.systems.iter().any(|system| system.system == "place"));
        assert_eq!(races("place"), ["place"]);
        assert_eq!(races("place-four"), ["place-shapes"]);
        assert!(races("boost").len() > 1);
    }
}
