// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lists of selftests: the kernel's, and one in the folder of each remedy.

use std::fs;

use steady_lab_artifacts::selftests::{Selftest, list};
use steady_lab_artifacts::{ArtifactError, Home};
use tempfile::TempDir;

/// The tests of a made-up project with these lists.
fn tests_of(lists: &[(&str, &str)]) -> Result<Vec<Selftest>, ArtifactError> {
    let place: TempDir = tempfile::tempdir().unwrap();
    for (folder, text) in lists {
        let folder = place.path().join("linux").join(folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("tests"), text).unwrap();
    }
    let home = Home {
        project: place.path().to_owned(),
        cache: place.path().join("cache"),
    };
    list(&home)
}

#[test]
fn the_tests_of_each_remedy_follow_the_kernels_and_are_our_own() {
    let tests = tests_of(&[
        ("selftests", "# kernel\nsteal_time 60\n"),
        ("two/selftests", "x86_64/two_test 7\n"),
        ("one/selftests", "\nx86_64/one_test 5 # why\n"),
    ])
    .unwrap();
    let seen: Vec<(&str, u32, bool)> = tests
        .iter()
        .map(|test| (test.name.as_str(), test.limit_s, test.own))
        .collect();
    let expected = [
        ("steal_time", 60, false),
        ("one_test", 5, true),
        ("two_test", 7, true),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn a_test_that_two_lists_name_is_refused() {
    let lists = [
        ("selftests", "x86_64/one_test 60\n"),
        ("one/selftests", "x86_64/one_test 5\n"),
    ];
    let said = tests_of(&lists).unwrap_err().to_string();
    assert!(said.contains("`one_test` is listed twice"), "{said}");
}

#[test]
fn a_line_that_is_no_test_is_told_with_its_list() {
    let lists = [
        ("selftests", ""),
        ("one/selftests", "# a remark\nx86_64/one_test soon\n"),
    ];
    let said = tests_of(&lists).unwrap_err().to_string();
    assert!(said.contains("linux/one/selftests/tests:2:"), "{said}");
}
