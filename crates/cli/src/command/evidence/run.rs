// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady evidence run`: races pieces of claims, one seed at a time, and records each when it is
//! whole. What was recorded before an interruption stays.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Instant, SystemTime};

use anyhow::{Context, anyhow, bail};
use steady_attc_paper::{Settings, simulate};
use steady_evidence::{Claim, House, Piece, Record, Why, todo};
use steady_measures::RunResult;
use steady_race::{Options, Watcher, race};
use steady_scenario::Scenario;

use super::{captured, chosen, diagnosed, house, record};
use crate::arguments::evidence::Run;
use crate::engines::ENGINES;
use crate::progress::Show;

/// Races what is missing or old.
pub fn run(arguments: &Run) -> anyhow::Result<ExitCode> {
    let begun = Instant::now();
    let mut house = house()?;
    let claims = chosen(&house, &arguments.claims.claims)?;
    let wanted: Vec<&Claim> = claims.iter().collect();
    let mut pieces = todo(
        &house,
        &wanted,
        arguments.again || arguments.piece.is_some(),
    );
    pieces.retain(|piece| arguments.seed.is_none_or(|seed| piece.seed == seed));
    // All seeds of the simulator come with its first piece.
    let mut simulated: Vec<String> = Vec::new();
    pieces.retain(|piece| {
        let of = claims.iter().find(|claim| claim.id == piece.claim);
        let seen = simulated.contains(&piece.claim);
        if of.is_some_and(Claim::is_simulated) {
            simulated.push(piece.claim.clone());
        }
        !seen
    });
    if let (Some(path), [_, second, ..]) = (&arguments.piece, &pieces[..]) {
        bail!(
            "--piece {} takes one piece, and these are {}, {} seed {} among them: name one race \
             and one --seed, as `steady evidence jobs` does",
            path.display(),
            pieces.len(),
            second.claim,
            second.seed
        );
    }
    let mut begun_again: Vec<String> = Vec::new();
    let show = Show::new();
    let all = pieces.len();
    for (at, piece) in pieces.into_iter().enumerate() {
        if arguments
            .budget
            .is_some_and(|budget| begun.elapsed() >= budget)
        {
            show.say(&format!("the time is over; {} pieces are left", all - at));
            break;
        }
        let claim = claims.iter().find(|claim| claim.id == piece.claim);
        let claim = claim.context("a piece is of a claim")?;
        show.say(&format!(
            "piece {} of {all}: {} seed {} ({})",
            at + 1,
            piece.claim,
            piece.seed,
            piece.why.as_str()
        ));
        let part = part(&house, claim, &piece);
        let found = measured(&house, &part, &piece, arguments, &show)?;
        if let Some(path) = &arguments.piece {
            found.write(path)?;
            continue;
        }
        let again = arguments.again && !begun_again.contains(&claim.id);
        if again || house.old(claim).is_some() || claim.is_simulated() {
            // What is raced again or is of an older kernel is not added to.
            house.records.retain(|record| record.id != claim.id);
            begun_again.push(claim.id.clone());
        }
        let path = record(&mut house, claim, found)?;
        show.say(&format!("recorded in {}", path.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// The claim with those variants alone that its record lacks of a piece's seed. The whole of it,
/// where the record has nothing of that seed or begins again.
fn part(house: &House, claim: &Claim, piece: &Piece) -> Claim {
    let mut part = claim.clone();
    let goes_on = piece.why == Why::Missing && house.old(claim).is_none();
    let record = house.record(claim).filter(|_| goes_on);
    if let Some([base, variants @ ..]) = record
        .map(|record| record.lacking(claim, piece.seed))
        .as_deref()
    {
        part.base.clone_from(base);
        part.variants = variants.to_vec();
    }
    part
}

/// Runs a piece and reduces it to what the claim names.
fn measured(
    house: &House,
    claim: &Claim,
    piece: &Piece,
    arguments: &Run,
    show: &Show,
) -> anyhow::Result<Record> {
    let result = if claim.is_simulated() {
        simulated(claim, show)?
    } else if let Some(wanted) = &claim.captured {
        captured::raced(house, claim, wanted, piece, &arguments.out, show)?
    } else {
        let programs = arguments.programs.as_deref();
        raced(house, claim, piece, &arguments.out, programs, show)?
    };
    let record = Record::reduced(result, claim, &house.keys);
    record.map_err(|invalid| anyhow!("claim `{}`: {invalid}", claim.id))
}

/// What the claim's word is of on the simulator, all seeds at once.
fn simulated(claim: &Claim, show: &Show) -> anyhow::Result<RunResult> {
    let settings = Settings {
        seed: claim.first_seed,
        seeds: claim.seeds,
        ..Settings::full()
    };
    let done = |at: usize, of: usize| show.progress(&claim.id, at as u64, of as u64);
    let says = (claim.command(), now());
    let found = simulate(&claim.scenario, &settings, (&says.0, &says.1), &done)?;
    show.done(&claim.id);
    Ok(found)
}

/// One seed of the variants that the claim names, once each.
pub fn raced(
    house: &House,
    claim: &Claim,
    piece: &Piece,
    out: &Path,
    programs: Option<&Path>,
    show: &Show,
) -> anyhow::Result<RunResult> {
    let mut scenario = Scenario::load(house.root.join(&claim.scenario))?;
    if let Some(folder) = programs {
        folder.clone_into(&mut scenario.folder);
    }
    scenario.seed = piece.seed;
    scenario.repetitions = 1;
    let engine = ENGINES.find(&claim.engine)?;
    let engine = (engine.make)()?;
    let options = Options {
        variants: claim.all_variants().map(str::to_owned).collect(),
        trace: claim.trace,
        kernel: claim.kernel.clone(),
        out: out.join(&claim.id),
        command: claim.command(),
        started: now(),
        ..Options::default()
    };
    let mut raced = race(&*engine, &scenario, &options, show)?;
    if claim.trace {
        diagnosed::add(&mut raced.result, &raced.directory)?;
        raced.result.seal();
    }
    Ok(raced.result)
}

fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}
