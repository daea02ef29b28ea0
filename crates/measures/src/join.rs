// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One result out of those of the pieces of a race.
//!
//! A race of hours is made in pieces, each with seeds of its own, and one that was interrupted goes
//! on with those that it lacks. What was measured on anything but the same is refused: scenario,
//! engine, kernel, image. Artifacts stay beside the pieces, and are left out.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Error, Invalid};
use crate::result::{RunResult, VariantResult};

/// What in `config` is of a piece alone: how near it came to what was asked of it.
const OF_A_PIECE: &str = "until";

impl RunResult {
    /// The result of all these, each with what to call it in errors. A run keeps its seed and gets
    /// the index that its seed has among all, so that runs of one seed are compared with each
    /// other. Variants are in the order in which they first appear. The result is partial where a
    /// variant lacks a seed that another has.
    ///
    /// # Errors
    /// [`Error::CannotJoin`]: there is none, they are not of the same, a run is in two of them, or
    /// one has no seed.
    pub fn join(mut pieces: Vec<(String, Self)>) -> Result<Self, Error> {
        let refused = |origin: &str, why| Error::CannotJoin {
            origin: origin.to_owned(),
            why,
        };
        let seeds: Vec<BTreeMap<u32, u64>> = pieces
            .iter()
            .map(|(origin, piece)| seeds(piece).map_err(|why| refused(origin, why)))
            .collect::<Result<_, _>>()?;
        let all: BTreeSet<u64> = seeds.iter().flat_map(BTreeMap::values).copied().collect();
        let indices: BTreeMap<u64, u32> = all.iter().copied().zip(0..).collect();
        for ((_, piece), seeds) in pieces.iter_mut().zip(&seeds) {
            number(piece, seeds, &indices);
        }
        let mut pieces = pieces.into_iter();
        let Some((first, mut whole)) = pieces.next() else {
            return Err(refused("nothing", Invalid::new("expected a result")));
        };
        for (origin, piece) in pieces {
            same(&first, &whole, &piece).map_err(|why| refused(&origin, why))?;
            add(&mut whole, piece).map_err(|why| refused(&origin, why))?;
        }
        for variant in &mut whole.variants {
            variant.repetitions.sort_by_key(|run| run.index);
        }
        whole.seed = all.first().copied().unwrap_or(whole.seed);
        whole.partial = whole.variants.iter().find_map(|v| lacks(v, &all));
        whole.seal();
        debug_assert_eq!(
            whole.validate(),
            Ok(()),
            "what is joined of sound results is sound"
        );
        Ok(whole)
    }
}

/// The seed of each repetition of a piece, by its index there.
fn seeds(piece: &RunResult) -> Result<BTreeMap<u32, u64>, Invalid> {
    let mut seeds = BTreeMap::new();
    for repetition in piece.variants.iter().flat_map(|v| &v.repetitions) {
        let seed = repetition.seed.ok_or_else(|| {
            Invalid::new(format!(
                "repetition {} has no seed: an older program wrote this; run it again",
                repetition.index
            ))
        })?;
        let before = seeds.insert(repetition.index, seed);
        if before.is_some_and(|before| before != seed) {
            return Err(Invalid::new(format!(
                "repetition {} has two seeds; expected one for all variants",
                repetition.index
            )));
        }
    }
    Ok(seeds)
}

/// That both were measured on the same.
fn same(first: &str, whole: &RunResult, piece: &RunResult) -> Result<(), Invalid> {
    let differs = |what: &str, found: &str, expected: &str| {
        Err(Invalid::new(format!(
            "{what} is {found}, expected {expected} as in {first}; results of two races can be \
             shown beside each other (steady report), but not joined"
        )))
    };
    if piece.scenario != whole.scenario {
        return differs(
            "the scenario",
            &format!("{} {}", piece.scenario.name, piece.scenario.digest),
            &format!("{} {}", whole.scenario.name, whole.scenario.digest),
        );
    }
    if piece.engine != whole.engine {
        return differs(
            "the engine",
            &format!("{} {}", piece.engine.name, piece.engine.version),
            &format!("{} {}", whole.engine.name, whole.engine.version),
        );
    }
    let keys: BTreeSet<&String> = piece.config.keys().chain(whole.config.keys()).collect();
    let value = |of: &RunResult, key: &str| {
        let value = of.config.get(key);
        value.map_or_else(|| "absent".to_owned(), Clone::clone)
    };
    // The conditions of a variant follow from the scenario, which is the same.
    for key in keys
        .into_iter()
        .filter(|key| !key.starts_with("conditions."))
    {
        let (found, expected) = (value(piece, key), value(whole, key));
        if found != expected {
            return differs(key, &found, &expected);
        }
    }
    Ok(())
}

/// Gives the runs and phases of a piece the index that their seed has among all.
fn number(piece: &mut RunResult, seeds: &BTreeMap<u32, u64>, indices: &BTreeMap<u64, u32>) {
    piece.config.remove(OF_A_PIECE);
    for run in piece.variants.iter_mut().flat_map(|v| &mut v.repetitions) {
        run.index = indices[&seeds[&run.index]];
        run.artifacts.clear();
    }
    // Phases of a run that was lost have none.
    piece.run.phases.retain_mut(|phase| {
        let seed = seeds.get(&phase.repetition);
        phase.repetition = seed.map_or(0, |seed| indices[seed]);
        seed.is_some()
    });
}

/// Adds the runs of `piece`.
fn add(whole: &mut RunResult, piece: RunResult) -> Result<(), Invalid> {
    whole.config.extend(piece.config);
    for variant in piece.variants {
        let there = whole.variants.iter_mut().find(|v| v.name == variant.name);
        let Some(there) = there else {
            whole.variants.push(variant);
            continue;
        };
        if (&there.title, &there.remedies) != (&variant.title, &variant.remedies) {
            return Err(Invalid::new(format!(
                "variant {} is another one, though the scenario is the same",
                variant.name
            )));
        }
        let known: BTreeSet<_> = there.repetitions.iter().map(|run| run.seed).collect();
        let twice = variant
            .repetitions
            .iter()
            .find(|run| known.contains(&run.seed));
        if let Some(seed) = twice.and_then(|run| run.seed) {
            return Err(Invalid::new(format!(
                "variant {} with seed {seed} is in a former one too; expected each run once, \
                 leave one of them out",
                variant.name
            )));
        }
        there.repetitions.extend(variant.repetitions);
    }
    let run = &mut whole.run;
    run.wall_ms = run.wall_ms.saturating_add(piece.run.wall_ms);
    run.started = run.started.clone().min(piece.run.started);
    run.command = format!("{} && {}", run.command, piece.run.command);
    if !run
        .machine
        .split("; ")
        .any(|machine| machine == piece.run.machine)
    {
        run.machine = format!("{}; {}", run.machine, piece.run.machine);
    }
    run.phases.extend(piece.run.phases);
    Ok(())
}

/// What a variant has not, if anything.
fn lacks(variant: &VariantResult, all: &BTreeSet<u64>) -> Option<String> {
    let has: BTreeSet<u64> = variant.repetitions.iter().filter_map(|r| r.seed).collect();
    let missing: Vec<String> = all.difference(&has).map(u64::to_string).collect();
    (!missing.is_empty()).then(|| {
        format!(
            "{} of {} seeds of {}, which lacks {}",
            has.len(),
            all.len(),
            variant.name,
            missing.join(", ")
        )
    })
}
