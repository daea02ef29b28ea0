// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does a race go on until its intervals are narrow, and no longer?

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
mod common;

use std::time::Duration;

use steady_measures::chance::FEWEST_RUNS;
use steady_race::{Options, Race, RaceError, Silent, Until, race_on};

use common::{Mock, Place, runs_of, scenario, well};

fn until(within_ppm: u64) -> Until {
    Until {
        within_ppm,
        measures: vec!["time".to_owned()],
        most: 12,
        budget: None,
    }
}

fn race(mock: &Mock, until: Until) -> Result<Race, RaceError> {
    let place = Place::new();
    let options = Options {
        until: Some(until),
        ..place.options()
    };
    race_on(&mock.machine, mock, &scenario(), &options, &Silent)
}

/// Variant `b` takes once as long and once three times as long as `a`.
fn scattered() -> Mock {
    Mock {
        value: |job| match (job.variant.name.as_str(), job.index % 2) {
            ("b", 1) => 300,
            _ => 100,
        },
        ..Mock::new(well)
    }
}

#[test]
fn equal_variants_need_no_more_runs_than_an_interval_does() {
    let result = race(&Mock::new(well), until(50_000)).unwrap().result;
    let runs = runs_of(&result);
    assert_eq!(runs[0].1, runs[1].1);
    assert!(runs[0].1 > 2 && runs[0].1 <= FEWEST_RUNS, "{runs:?}");
    let said = &result.config["until"];
    assert!(
        said.starts_with("within 5.0 %: reached; the widest: time of b"),
        "{said}"
    );
}

#[test]
fn runs_that_scatter_go_on_to_the_most_repetitions_and_the_result_says_so() {
    let result = race(&scattered(), until(50_000)).unwrap().result;
    assert_eq!(runs_of(&result), [("a", 12), ("b", 12)]);
    let said = &result.config["until"];
    assert!(
        said.contains("not reached with the most repetitions"),
        "{said}"
    );
}

#[test]
fn a_wide_interval_is_enough_where_a_wide_one_was_asked_for() {
    let narrow = runs_of(&race(&scattered(), until(50_000)).unwrap().result)[0].1;
    let wide = runs_of(&race(&scattered(), until(900_000)).unwrap().result)[0].1;
    assert!(wide < narrow, "{wide} {narrow}");
}

#[test]
fn no_repetition_begins_once_the_time_is_over() {
    let over = Until {
        budget: Some(Duration::ZERO),
        ..until(50_000)
    };
    let result = race(&scattered(), over).unwrap().result;
    assert_eq!(runs_of(&result), [("a", 2), ("b", 2)]);
    assert!(result.config["until"].contains("not reached in the time"));
}

#[test]
fn a_measure_that_nothing_measured_is_an_error_that_names_those_there_are() {
    let unknown = Until {
        measures: vec!["tiem".to_owned()],
        ..until(50_000)
    };
    let error = race(&Mock::new(well), unknown).unwrap_err().to_string();
    assert!(error.contains("`tiem`; they have: time"), "{error}");
}
