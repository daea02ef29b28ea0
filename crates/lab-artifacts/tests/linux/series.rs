// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Our own series, without a kernel's sources: which patches Shoot4U consists of, and what of them
//! is not for upstream.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::bench::{files_of, real_linux};

/// The order in which the patches build: who is called comes before who calls, and the host offers
/// nothing before a vendor's module can do it.
const SHOOT4U: [&str; 8] = [
    "0001-shoot4u-abi.patch",
    "0002-shoot4u-host.patch",
    "0003-shoot4u-emulation.patch",
    "0004-shoot4u-vmx.patch",
    "0005-shoot4u-svm.patch",
    "0006-shoot4u-guest.patch",
    "0007-shoot4u-selftests.patch",
    FAULTS,
];
const RIVALS: &str = "0910-shoot4u-rivals.patch";
const FAULTS: &str = "0008-shoot4u-faults.patch";

fn hooks() -> BTreeMap<String, String> {
    files_of(&real_linux().join("hooks"))
        .into_iter()
        .map(|(name, bytes)| (name, String::from_utf8(bytes).unwrap()))
        .collect()
}

/// The values of a key in a hook's header.
fn header<'a>(hook: &'a str, key: &str) -> Vec<&'a str> {
    let head = hook.split("\n\n").next().unwrap();
    let lines = head.lines();
    lines
        .filter_map(|line| line.strip_prefix(key)?.strip_prefix(": "))
        .collect()
}

/// What a hook brings beside its diff: new files and selftests.
fn brought(hook: &str) -> String {
    let linux = real_linux();
    let mut text = String::new();
    for file in header(hook, "New") {
        text += &fs::read_to_string(linux.join("new").join(file)).unwrap();
    }
    for folder in header(hook, "Selftests") {
        for (name, bytes) in files_of(&linux.join(folder)) {
            assert!(!name.contains('/'), "{folder}/{name}: a folder in a folder");
            text += &String::from_utf8(bytes).unwrap();
        }
    }
    text
}

/// The lines of a diff that begin with one of `marks`, without it, by the file that they are in.
fn lines_of<'a>(hook: &'a str, marks: &[char]) -> BTreeSet<(&'a str, &'a str)> {
    let diff = hook.split_once("\n---\n").unwrap().1;
    let mut file = "";
    let mut found = BTreeSet::new();
    for line in diff.lines() {
        if let Some(name) = line.strip_prefix("+++ b/") {
            file = name;
        } else if !line.starts_with("--- a/") && line.starts_with(marks) {
            found.insert((file, &line[1..]));
        }
    }
    found
}

#[test]
fn shoot4u_is_these_patches_in_this_order() {
    let hooks = hooks();
    let first: Vec<&str> = hooks.keys().map(String::as_str).take(8).collect();
    assert_eq!(first, SHOOT4U);
    let elsewhere: Vec<_> = hooks
        .keys()
        .skip(8)
        .filter(|name| name.contains("shoot4u"))
        .collect();
    assert_eq!(elsewhere, [RIVALS]);
}

#[test]
fn each_patch_of_shoot4u_has_a_subject_and_a_body_that_fit_a_mail() {
    let hooks = hooks();
    for name in SHOOT4U {
        let hook = &hooks[name];
        let subject = header(hook, "Subject");
        assert_eq!(subject.len(), 1, "{name}");
        assert!(subject[0].len() <= 72, "{name}: {}", subject[0]);
        let body = hook.split_once("\n\n").unwrap().1;
        let body = body.split_once("\n---\n").unwrap().0;
        assert!(body.lines().count() >= 10, "{name} argues");
        for line in body.lines() {
            assert!(line.len() <= 72, "{name}: {line}");
        }
    }
}

#[test]
fn no_patch_of_shoot4u_but_the_last_names_a_planted_fault() {
    let hooks = hooks();
    for name in SHOOT4U.iter().filter(|name| **name != FAULTS) {
        let text = (hooks[*name].clone() + &brought(&hooks[*name])).to_lowercase();
        for word in ["shoot4u_fault", "planted", "kvm_shoot4u_has"] {
            assert!(!text.contains(word), "{name} has {word}");
        }
    }
}

#[test]
fn what_is_not_for_upstream_says_so_in_its_header_and_the_faults_in_their_words() {
    let hooks = hooks();
    let kept_back: Vec<&str> = hooks
        .iter()
        .filter(|(_, hook)| header(hook, "Upstream") == ["no"])
        .map(|(name, _)| name.as_str())
        .collect();
    let ours = [
        FAULTS,
        "0900-mark-left.patch",
        RIVALS,
        "0920-debooster-penalty.patch",
        "0921-debooster-faults.patch",
    ];
    assert_eq!(kept_back, ours);
    assert!(hooks[FAULTS].contains("NOT FOR UPSTREAM"));
}

/// `linux/verify` asks the same of a kernel: it applies the series without them.
#[test]
fn no_patch_behind_the_faults_leans_on_one_of_their_lines() {
    let hooks = hooks();
    let added = lines_of(&hooks[FAULTS], &['+']);
    let shown: BTreeSet<_> = added
        .iter()
        .filter(|(_, line)| line.to_lowercase().contains("fault"))
        .collect();
    assert!(shown.len() > 10, "{shown:?}");
    for (name, hook) in hooks.range(FAULTS.to_owned()..).skip(1) {
        let leant_on = lines_of(hook, &[' ', '-']);
        for line in &shown {
            assert!(!leant_on.contains(*line), "{name} has {line:?} around it");
        }
    }
}

#[test]
fn the_kernels_makefile_builds_each_listed_selftest() {
    let hook = &hooks()["0007-shoot4u-selftests.patch"];
    let makefile = "tools/testing/selftests/kvm/Makefile";
    let built: Vec<String> = lines_of(hook, &['+'])
        .into_iter()
        .map(|(file, line)| {
            assert_eq!(file, makefile);
            let test = line.strip_prefix("TEST_GEN_PROGS_x86_64 += ").unwrap();
            test.to_owned()
        })
        .collect();
    let folder = real_linux().join(header(hook, "Selftests")[0]);
    let list = fs::read_to_string(folder.join("tests")).unwrap();
    let mut listed: Vec<&str> = list
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    listed.sort_unstable();
    assert_eq!(built, listed);
}
