// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Races that do not come to their end: what is said, what is kept, and what stays.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
mod common;

use std::fs;
use std::sync::atomic::Ordering;

use steady_race::Why;

use common::{Mock, Place, fault, is, runs_of, trouble, well};

const LOST: Option<&str> = Some("a guest triple-faulted");

/// Whether this is the first try of a job: a second one finds the first one's folder put aside.
fn first_try(job: &steady_race::Job<'_>) -> bool {
    !job.directory.with_extension("lost").exists()
}

#[test]
fn a_run_that_is_lost_once_is_tried_again_with_a_warning() {
    let place = Place::new();
    let mock = Mock::new(|_, job| {
        if is(job, "b-r0") && first_try(job) {
            return Err(fault("VM guest: triple fault", LOST));
        }
        Ok(())
    });
    let race = place.race(&mock).unwrap();
    assert_eq!(mock.runs(), 5);
    let warnings = &race.result.variants[1].repetitions[0].warnings;
    assert_eq!(warnings.len(), 1);
    assert_eq!(warnings[0].code, "retried");
    assert_eq!(
        warnings[0].text,
        "a guest triple-faulted in the first try, whose logs are in b-r0.lost; as mocks do"
    );
    assert!(place.path("mock/b-r0.lost/serial.log").is_file());
    assert!(place.path("mock/b-r0/serial.log").is_file());
}

#[test]
fn a_run_that_is_lost_twice_is_a_failed_one() {
    let place = Place::new();
    let mock = Mock::new(|_, _| Err(fault("VM guest: triple fault", LOST)));
    let error = place.fails(&mock);
    assert_eq!((mock.runs(), error.exit_code()), (2, 5));
    assert!(place.path("mock.failed/a-r0.lost/serial.log").is_file());
    assert!(place.path("mock.failed/a-r0/serial.log").is_file());
}

#[test]
fn a_run_is_tried_as_often_as_its_engine_says_with_a_warning_for_each_that_was_lost() {
    let place = Place::new();
    let mut mock = Mock::new(|_, job| {
        if is(job, "b-r0") && !job.directory.with_extension("lost-3").exists() {
            return Err(fault("VM guest: triple fault", LOST));
        }
        Ok(())
    });
    mock.more_tries = 3;
    let race = place.race(&mock).unwrap();
    assert_eq!(mock.runs(), 7);
    let warnings = &race.result.variants[1].repetitions[0].warnings;
    let said = |warning: &steady_measures::Warning| warning.text.clone();
    let said: Vec<String> = warnings.iter().map(said).collect();
    let each = [("first", "lost"), ("second", "lost-2"), ("third", "lost-3")];
    assert_eq!(
        said,
        each.map(|(which, folder)| format!(
            "a guest triple-faulted in the {which} try, whose logs are in b-r0.{folder}; as mocks \
             do"
        ))
    );
    mock.play = |_, _| Err(fault("VM guest: triple fault", LOST));
    assert_eq!(Place::new().fails(&mock).exit_code(), 5);
    // The mock says it of the variant b alone, and a is the first.
    assert_eq!(mock.runs(), 7 + 2);
}

#[test]
fn an_engine_that_does_not_lose_runs_has_none_tried_again() {
    let mut mock = Mock::new(|_, _| Err(fault("VM guest: triple fault", LOST)));
    mock.retries_lost = None;
    assert_eq!(Place::new().fails(&mock).exit_code(), 5);
    assert_eq!(mock.runs(), 1);
}

#[test]
fn words_of_a_loss_in_a_fault_that_is_none_are_not_tried_again() {
    let mock = Mock::new(|_, _| Err(fault("VM guest: triple fault: it said", None)));
    Place::new().fails(&mock);
    assert_eq!(mock.runs(), 1);
}

#[test]
fn a_failed_race_is_kept_with_its_logs_and_no_run_begins_after_it() {
    let place = Place::new();
    let mock = Mock::new(|_, _| Err(fault("its kernel panicked", None)));
    let error = place.fails(&mock);
    let logs = place.path("mock.failed/a-r0");
    assert_eq!(
        error.to_string(),
        format!("variant a: its kernel panicked\nlogs: {}", logs.display())
    );
    assert_eq!((mock.runs(), error.exit_code()), (1, 5));
    assert_eq!(place.names(), ["mock.failed"]);
    assert!(logs.join("serial.log").is_file());
    assert!(!place.path("mock.failed/result.json").exists());
}

#[test]
fn one_failed_variant_does_not_lose_the_runs_that_were_whole() {
    let place = Place::new();
    let mock = Mock::new(|_, job| {
        if is(job, "b-r1") {
            return Err(fault("its kernel panicked\nlast words", None));
        }
        Ok(())
    });
    let error = place.fails(&mock);
    let kept = place.result("mock.failed");
    assert_eq!(runs_of(&kept), [("a", 2), ("b", 1)]);
    assert_eq!(
        kept.partial.as_deref(),
        Some("3 of 4 runs: variant b: its kernel panicked")
    );
    let last = error.to_string().lines().last().unwrap().to_owned();
    let path = place.path("mock.failed/result.json");
    assert_eq!(
        last,
        format!("3 of 4 runs were whole, and kept: {}", path.display())
    );
    assert_eq!(error.exit_code(), 5);
}

#[test]
fn a_variant_without_a_whole_run_is_not_in_what_is_kept() {
    let place = Place::new();
    let mock = Mock::new(|_, job| match job.variant.name.as_str() {
        "b" => Err(fault("its kernel panicked", None)),
        _ => Ok(()),
    });
    place.fails(&mock);
    assert_eq!(runs_of(&place.result("mock.failed")), [("a", 1)]);
}

#[test]
fn ctrl_c_in_a_run_keeps_the_runs_that_were_whole() {
    let place = Place::new();
    let mock = Mock::new(|mock, job| {
        if is(job, "a-r1") {
            mock.machine.interrupted.store(true, Ordering::SeqCst);
            assert!((job.stop)());
            return Err(steady_race::Trouble::interrupted().into());
        }
        Ok(())
    });
    let error = place.fails(&mock);
    assert_eq!((mock.runs(), error.exit_code()), (3, 130));
    let text = error.to_string();
    assert!(
        text.starts_with("interrupted; every emulator was ended\n2 of 4 runs were whole"),
        "{text}"
    );
    assert_eq!(runs_of(&place.result("mock.failed")), [("a", 1), ("b", 1)]);
    assert_eq!(place.names(), ["mock.failed"]);
}

#[test]
fn ctrl_c_between_runs_lets_none_begin() {
    let mock = Mock::new(|mock, _| {
        mock.machine.interrupted.store(true, Ordering::SeqCst);
        Ok(())
    });
    assert_eq!(Place::new().fails(&mock).exit_code(), 130);
    assert_eq!(mock.runs(), 1);
}

#[test]
fn ctrl_c_before_a_run_was_whole_leaves_nothing() {
    let place = Place::new();
    let mock = Mock::new(well);
    mock.machine.interrupted.store(true, Ordering::SeqCst);
    let error = place.fails(&mock);
    assert_eq!((mock.runs(), error.exit_code()), (0, 130));
    assert_eq!(place.names(), [""; 0]);
}

#[test]
fn an_earlier_result_stays_what_it_was_when_a_race_fails() {
    let place = Place::new();
    place.race(&Mock::new(well)).unwrap();
    let before = fs::read(place.path("mock/result.json")).unwrap();
    place.fails(&Mock::new(|_, _| Err(fault("its kernel panicked", None))));
    assert_eq!(fs::read(place.path("mock/result.json")).unwrap(), before);
    assert_eq!(place.names(), ["mock", "mock.failed"]);
}

#[test]
fn what_an_engine_refuses_is_told_before_anything_is_made() {
    let place = Place::new();
    let mut mock = Mock::new(well);
    mock.refuses = true;
    let error = place.fails(&mock);
    assert_eq!(
        error.to_string(),
        "scenario test: 48 pCPUs; the engine mock gives at most 8"
    );
    assert_eq!((mock.runs(), error.exit_code()), (0, 2));
    assert_eq!(fs::read_dir(place.0.path()).unwrap().count(), 0);
}

#[test]
fn an_unknown_variant_is_answered_with_the_nearest_one() {
    let (place, mock) = (Place::new(), Mock::new(well));
    let mut options = place.options();
    options.variants = vec!["c".to_owned()];
    let scenario = common::scenario();
    let machine = &mock.machine;
    let failed = steady_race::race_on(machine, &mock, &scenario, &options, &steady_race::Silent);
    let error = failed.expect_err("there is no c");
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains("with --variant"), "{error}");
}

#[test]
fn a_full_disk_is_told_before_a_run_begins() {
    let mock = Mock::new(well);
    mock.machine
        .used
        .store(u64::MAX - (4 << 20), Ordering::SeqCst);
    let error = Place::new().fails(&mock);
    assert_eq!((mock.runs(), error.exit_code()), (0, 1));
    let text = error.to_string();
    assert!(
        text.starts_with("only 4 MiB free at ") && text.contains("at least 256 are needed"),
        "{text}"
    );
}

#[test]
fn a_disk_that_fills_up_in_a_run_is_a_failed_run_of_which_the_rest_is_kept() {
    let place = Place::new();
    let mock = Mock::new(|_, job| {
        if is(job, "b-r0") {
            return Err(fault("cannot write: No space left on device", None));
        }
        Ok(())
    });
    let error = place.fails(&mock);
    assert_eq!(error.exit_code(), 5);
    assert_eq!(runs_of(&place.result("mock.failed")), [("a", 1)]);
}

#[test]
fn a_result_that_cannot_be_written_leaves_the_old_one_and_keeps_the_files_of_the_runs() {
    let place = Place::new();
    place.race(&Mock::new(well)).unwrap();
    let before = fs::read(place.path("mock/result.json")).unwrap();
    // A folder stands where the result goes: it is under way, and its rename fails.
    let mock = Mock::new(|_, job| {
        if is(job, "b-r1") {
            let result = job.result_directory.join("result.json");
            fs::create_dir_all(result.join("in the way")).unwrap();
        }
        Ok(())
    });
    let error = place.fails(&mock);
    assert_eq!(error.exit_code(), 1);
    let text = error.to_string();
    let files = format!("files of the runs: {}", place.path("mock.failed").display());
    assert!(
        text.contains("cannot write") && text.contains(&files),
        "{text}"
    );
    assert_eq!(fs::read(place.path("mock/result.json")).unwrap(), before);
    assert!(place.path("mock.failed/a-r0/serial.log").is_file());
}

#[test]
fn a_folder_that_cannot_take_its_place_leaves_the_old_result() {
    let place = Place::new();
    place.race(&Mock::new(well)).unwrap();
    let before = fs::read(place.path("mock/result.json")).unwrap();
    // The whole folder is gone when the last run ends: neither result nor rename can be.
    let mock = Mock::new(|_, job| {
        if is(job, "b-r1") {
            fs::remove_dir_all(job.result_directory).unwrap();
        }
        Ok(())
    });
    assert_eq!(place.fails(&mock).exit_code(), 1);
    assert_eq!(fs::read(place.path("mock/result.json")).unwrap(), before);
    assert_eq!(place.names(), ["mock"]);
}

#[test]
fn trouble_around_the_first_run_leaves_nothing_and_has_its_exit_code() {
    for (why, code) in [
        (Why::Machine, 1),
        (Why::Input, 2),
        (Why::Missing, 3),
        (Why::Build, 4),
    ] {
        let place = Place::new();
        let mock = Mock::new(match why {
            Why::Machine => |_, _| Err(trouble(Why::Machine, "words")),
            Why::Input => |_, _| Err(trouble(Why::Input, "words")),
            Why::Missing => |_, _| Err(trouble(Why::Missing, "words")),
            _ => |_, _| Err(trouble(Why::Build, "words")),
        });
        let error = place.fails(&mock);
        assert_eq!(
            (error.to_string().as_str(), error.exit_code()),
            ("words", code)
        );
        assert_eq!(place.names(), [""; 0]);
    }
}

#[test]
fn trouble_after_whole_runs_keeps_them() {
    let place = Place::new();
    let mock = Mock::new(|_, job| match job.index {
        0 => Ok(()),
        _ => Err(trouble(Why::Machine, "the machine went away")),
    });
    let error = place.fails(&mock);
    assert_eq!(error.exit_code(), 1);
    assert_eq!(error.kept.as_ref().unwrap().whole, 2);
    assert_eq!(runs_of(&place.result("mock.failed")), [("a", 1), ("b", 1)]);
}
