// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whole races: order, seeds, what runs beside what, and what a result says.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
mod common;

use std::sync::atomic::Ordering;
use std::time::Duration;

use steady_race::{Engines, Entry, Options, Silent, Trouble, race_on};

use common::{Mock, Place, fault, runs_of, scenario, well};

#[test]
fn a_race_has_every_repetition_of_every_variant_and_nothing_stands_beside_it() {
    let place = Place::new();
    let race = place.race(&Mock::new(well)).unwrap();
    assert_eq!(runs_of(&race.result), [("a", 2), ("b", 2)]);
    assert_eq!(race.directory, place.path("mock"));
    assert_eq!(place.names(), ["mock"]);
    assert_eq!(place.result("mock"), race.result);
    assert_eq!(race.result.partial, None);
}

#[test]
fn each_repetition_has_the_seed_of_the_scenario_plus_its_index() {
    let place = Place::new();
    let mock = Mock::new(well);
    let race = place.race(&mock).unwrap();
    let jobs = mock.jobs.lock().unwrap().clone();
    let job = |name: &str, index, seed| (name.to_owned(), index, seed);
    assert_eq!(
        jobs,
        [
            job("a", 0, 5),
            job("b", 0, 5),
            job("a", 1, 6),
            job("b", 1, 6)
        ]
    );
    let repetitions = &race.result.variants[1].repetitions;
    let seeds: Vec<_> = repetitions
        .iter()
        .map(|each| (each.index, each.seed))
        .collect();
    assert_eq!(seeds, [(0, Some(5)), (1, Some(6))]);
}

#[test]
fn a_result_holds_what_engine_and_runs_say_of_their_surroundings() {
    let race = Place::new().race(&Mock::new(well)).unwrap();
    assert_eq!(race.result.config["mock"], "yes");
    assert_eq!(race.result.config["fact.b"], "1");
    assert_eq!(race.result.engine.name, "mock");
    assert_eq!(race.result.run.machine, "a machine of a test");
}

#[test]
fn one_run_at_once_and_four_beside_each_other_give_the_same_bytes() {
    let bytes = |beside: usize| {
        let mut mock = Mock::new(|mock, job| {
            // The later a job begins, the earlier it ends.
            while mock.beside > 1 && mock.runs() < 4 {
                std::thread::yield_now();
            }
            if mock.beside > 1 && job.variant.name == "a" {
                std::thread::sleep(Duration::from_millis(5));
            }
            Ok(())
        });
        mock.beside = beside;
        let mut result = Place::new().race(&mock).unwrap().result;
        assert_eq!(mock.most_under_way.load(Ordering::SeqCst), beside);
        result.run.wall_ms = 0;
        result.to_json()
    };
    assert_eq!(bytes(1), bytes(4));
}

#[test]
fn only_the_variants_asked_for_are_raced() {
    let (place, mock) = (Place::new(), Mock::new(well));
    let options = Options {
        variants: vec!["b".to_owned()],
        ..place.options()
    };
    let race = race_on(&mock.machine, &mock, &scenario(), &options, &Silent).unwrap();
    assert_eq!(runs_of(&race.result), [("b", 2)]);
}

#[test]
fn a_later_race_takes_the_place_of_an_earlier_one() {
    let place = Place::new();
    place.race(&Mock::new(well)).unwrap();
    std::fs::write(place.path("mock/old"), "").unwrap();
    place.race(&Mock::new(well)).unwrap();
    assert!(!place.path("mock/old").exists());
    assert_eq!(place.names(), ["mock"]);
}

#[test]
fn the_wall_limit_is_the_users_or_follows_from_the_scenarios() {
    let scenario = scenario();
    let by_scenario = Options::default().wall_limit(&scenario);
    let limit_s = u64::from(scenario.host.time_limit_s);
    assert_eq!(by_scenario, Duration::from_secs(90 + 4 * limit_s));
    let options = Options {
        wall_limit: Some(Duration::from_secs(1)),
        ..Options::default()
    };
    assert_eq!(options.wall_limit(&scenario), Duration::from_secs(1));
}

#[test]
fn a_run_is_told_its_wall_limit_and_a_run_beyond_it_is_a_failed_one() {
    let (place, mock) = (
        Place::new(),
        Mock::new(|_, job| {
            assert_eq!(job.wall_limit, Duration::from_secs(1));
            Err(fault("no end within 1s, last step: began", None))
        }),
    );
    let options = Options {
        wall_limit: Some(Duration::from_secs(1)),
        ..place.options()
    };
    let failed = race_on(&mock.machine, &mock, &scenario(), &options, &Silent);
    let error = failed.expect_err("beyond its limit");
    assert_eq!(error.exit_code(), 5);
    assert!(error.to_string().contains("no end within 1s"), "{error}");
}

#[test]
fn a_list_of_engines_answers_a_wrong_name_with_the_nearest_and_only_if_one_is_near() {
    let never = || Err(Trouble::interrupted());
    let entry = |name| Entry {
        name,
        help: "",
        make: never,
    };
    let list: &'static [Entry] = Box::leak(Box::new([entry("qemu"), entry("bochs")]));
    let engines = Engines(list);
    assert_eq!(engines.find("bochs").unwrap().name, "bochs");
    let said = |name| engines.find(name).unwrap_err().to_string();
    assert_eq!(said("boch"), "no engine `boch`; did you mean `bochs`?");
    assert_eq!(
        said("hardware"),
        "no engine `hardware`; there are: qemu, bochs"
    );
}
