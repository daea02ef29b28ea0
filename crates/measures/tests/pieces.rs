// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A race in pieces, joined: what the race in one go would have written, or a refusal.

mod common;

use steady_measures::{Error, RunResult};

use common::sample;

/// The part of the sample whose runs `keep` keeps, by variant and seed, numbered from 0.
fn piece(keep: impl Fn(&str, u64) -> bool) -> RunResult {
    let mut piece = sample();
    for variant in &mut piece.variants {
        let name = variant.name.clone();
        let kept = |seed: Option<u64>| keep(&name, seed.expect("the sample has seeds"));
        variant.repetitions.retain(|run| kept(run.seed));
    }
    piece.variants.retain(|v| !v.repetitions.is_empty());
    let runs = piece.variants.iter().flat_map(|v| &v.repetitions);
    let first = runs
        .filter_map(|run| run.seed)
        .min()
        .expect("a run is left");
    for run in piece.variants.iter_mut().flat_map(|v| &mut v.repetitions) {
        run.index = u32::try_from(run.seed.expect("a seed") - first).expect("few runs");
    }
    piece.run.phases.clear();
    piece.seal();
    piece
}

fn join(pieces: &[&RunResult]) -> Result<RunResult, Error> {
    let named = pieces.iter().zip(["a.json", "b.json", "c.json"]);
    RunResult::join(
        named
            .map(|(piece, name)| (name.to_owned(), (*piece).clone()))
            .collect(),
    )
}

fn refused(pieces: &[&RunResult]) -> String {
    join(pieces).expect_err("they do not fit").to_string()
}

#[test]
fn pieces_by_seed_give_the_measures_of_the_race_in_one_go_in_either_order() {
    let (first, second) = (piece(|_, seed| seed == 1), piece(|_, seed| seed == 2));
    for pieces in [[&first, &second], [&second, &first]] {
        let joined = join(&pieces).unwrap();
        assert_eq!(joined.measures_digest, sample().measures_digest);
        assert_eq!((joined.seed, joined.partial.as_deref()), (1, None));
        joined.validate().unwrap();
    }
}

#[test]
fn a_race_that_was_interrupted_is_made_whole_by_what_it_lacks() {
    let cut = piece(|variant, seed| (variant, seed) != ("kvm-pv", 2));
    let rest = piece(|variant, seed| (variant, seed) == ("kvm-pv", 2));
    let joined = join(&[&cut, &rest]).unwrap();
    assert_eq!(joined.measures_digest, sample().measures_digest);
    assert_eq!(joined.partial, None);
}

#[test]
fn a_seed_that_a_variant_lacks_makes_the_result_partial() {
    let cut = piece(|variant, seed| (variant, seed) != ("kvm-pv", 2));
    let partial = join(&[&cut]).unwrap().partial.expect("a run is missing");
    assert_eq!(partial, "1 of 2 seeds of kvm-pv, which lacks 2");
}

#[test]
fn runs_of_one_seed_keep_one_index_where_a_variant_has_fewer() {
    let only = piece(|variant, seed| variant == "ipi" || seed == 2);
    let joined = join(&[&only]).unwrap();
    let indices = |at: usize| -> Vec<u32> {
        joined.variants[at]
            .repetitions
            .iter()
            .map(|run| run.index)
            .collect()
    };
    assert_eq!((indices(0), indices(1)), (vec![0, 1], vec![1]));
}

#[test]
fn phases_keep_their_run_and_artifacts_are_left_out() {
    let (mut first, mut second) = (piece(|_, seed| seed == 1), piece(|_, seed| seed == 2));
    for (piece, wall_ms) in [(&mut first, 5), (&mut second, 6)] {
        let mut phase = sample().run.phases[0].clone();
        phase.wall_ms = wall_ms;
        piece.run.phases.push(phase);
    }
    let joined = join(&[&second, &first]).unwrap();
    let phases: Vec<(u32, u64)> = joined
        .run
        .phases
        .iter()
        .map(|phase| (phase.repetition, phase.wall_ms))
        .collect();
    assert_eq!(phases, [(1, 6), (0, 5)]);
    let mut runs = joined.variants.iter().flat_map(|v| &v.repetitions);
    assert!(runs.all(|run| run.artifacts.is_empty()));
    assert_eq!(joined.run.wall_ms, 2 * sample().run.wall_ms);
}

#[test]
fn a_run_that_is_in_two_pieces_is_refused_with_its_seed() {
    let said = refused(&[&sample(), &piece(|_, seed| seed == 2)]);
    assert!(
        said.starts_with("cannot join b.json: variant ipi with seed 2 "),
        "{said}"
    );
}

#[test]
fn another_scenario_engine_kernel_or_variant_is_refused_by_what_differs() {
    let second = || piece(|_, seed| seed == 2);
    let (mut scenario, mut engine, mut kernel, mut variant) =
        (second(), second(), second(), second());
    scenario.scenario.digest = "6".repeat(64);
    engine.engine.version = "3.1".to_owned();
    kernel
        .config
        .insert("image_sha256".to_owned(), "00".to_owned());
    variant.variants[1].remedies.clear();
    for (other, words) in [
        (scenario, "the scenario is two-vms 666"),
        (
            engine,
            "the engine is bochs 3.1, expected bochs 3.0 as in a.json",
        ),
        (kernel, "image_sha256 is 00, expected absent as in a.json"),
        (variant, "variant kvm-pv is another one"),
    ] {
        let said = refused(&[&piece(|_, seed| seed == 1), &other]);
        assert!(
            said.starts_with("cannot join b.json: ") && said.contains(words),
            "{said}"
        );
    }
}

#[test]
fn how_near_a_piece_came_to_what_was_asked_of_it_does_not_count() {
    let (mut first, second) = (piece(|_, seed| seed == 1), piece(|_, seed| seed == 2));
    first
        .config
        .insert("until".to_owned(), "5 %: reached".to_owned());
    assert!(
        !join(&[&first, &second])
            .unwrap()
            .config
            .contains_key("until")
    );
}

#[test]
fn a_result_without_seeds_and_no_result_are_refused() {
    let mut old = sample();
    old.variants[0].repetitions[0].seed = None;
    assert!(refused(&[&old]).contains("repetition 0 has no seed"));
    assert!(refused(&[]).contains("expected a result"));
}
