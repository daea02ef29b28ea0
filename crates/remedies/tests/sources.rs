// SPDX-License-Identifier: Apache-2.0 OR MIT
//! No general code names a remedy: what others know of one is in the table.
//!
//! Exempt are the checker of Shoot4U with its command, the coherence simulator, its paper and its
//! command, whose schemes have names of their own, the list of papers, comments, and tests.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use std::fs;
use std::path::{Path, PathBuf};

use steady_remedies::Registry;

/// Folders and files below `crates/` that may.
const EXEMPT: [&str; 9] = [
    "remedies/",
    "shoot4u-check/",
    "coherence/",
    "attc-paper/",
    "cli/src/arguments/evidence.rs",
    "cli/src/arguments/shoot4u.rs",
    "cli/src/command/shoot4u.rs",
    "cli/src/arguments/coherence.rs",
    "cli/src/command/coherence/",
];

/// The registration of the checker's command.
const REGISTRATION: [&str; 5] = [
    "pub mod shoot4u;",
    "code_of::<steady_shoot4u_check::Error>,",
    "steady_shoot4u_check::Error,",
    "Shoot4u(shoot4u::Shoot4u),",
    "Command::Shoot4u(check) => command::shoot4u::shoot4u(&check),",
];

/// The estimate of the Paratick paper for a trace, which is a figure of that paper whoever is on.
const ESTIMATE: [&str; 3] = ["paratick_at_most", "paratick at most", "Paratick paper"];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The files of `folder` that are compiled into programs, below each crate's `src`.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            found.push(path);
        }
    }
}

/// The lines of `text` that name a remedy, each with its number.
fn naming(text: &str) -> Vec<(usize, String)> {
    let registry = Registry::default();
    let plain = |text: &str| text.to_lowercase().replace(['-', '_'], "");
    // The names of those without a kernel are words of general code too.
    let of_kernel = registry.all().filter(|remedy| remedy.is_of_kernel());
    let names: Vec<String> = of_kernel.map(|remedy| plain(remedy.name)).collect();
    let code = text.split("#[cfg(test)]\nmod tests {").next();
    let named = |(_, line): &(usize, &str)| {
        let line = line.split("//").next().unwrap_or_default().trim();
        let line = ESTIMATE
            .iter()
            .fold(line.to_owned(), |line, figure| line.replace(figure, ""));
        let ours = !REGISTRATION.contains(&line.as_str());
        ours && names.iter().any(|name| plain(&line).contains(name))
    };
    let lines = code.unwrap_or_default().lines().enumerate().filter(named);
    lines
        .map(|(at, line)| (at + 1, line.trim().to_owned()))
        .collect()
}

#[test]
fn no_general_code_names_a_remedy() {
    let crates = crates();
    let mut files = Vec::new();
    for entry in fs::read_dir(&crates).unwrap() {
        let src = entry.unwrap().path().join("src");
        if src.is_dir() {
            sources(&src, &mut files);
        }
    }
    assert!(files.len() > 100, "only {} files were found", files.len());
    let mut found = Vec::new();
    for file in files {
        let name = file
            .strip_prefix(&crates)
            .unwrap()
            .to_string_lossy()
            .into_owned();
        // `tests.rs`, or a file of a folder `tests`.
        let test = Path::new(&name).with_extension("");
        let test = test.iter().any(|part| part == "tests");
        if test || EXEMPT.iter().any(|exempt| name.starts_with(exempt)) {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        found.extend(
            naming(&text)
                .into_iter()
                .map(|(at, line)| format!("{name}:{at}: {line}")),
        );
    }
    assert!(
        found.is_empty(),
        "read crates/remedies instead of naming a remedy:\n{}",
        found.join("\n")
    );
}

#[test]
fn a_line_that_names_a_remedy_in_any_spelling_is_found() {
    for line in [
        "if remedy == \"shoot4u\" {",
        "Remedy::StrictBoost => 1,",
        "words.push(\"kvm.strict_boost=on\");",
        "mode = \"strict-boost\" // as it was",
    ] {
        assert_eq!(naming(line).len(), 1, "{line}");
    }
}

#[test]
fn comments_tests_and_the_registration_may_name_one() {
    for text in [
        "// as Shoot4U does",
        "    pub mod shoot4u;",
        "fn f() {}\n#[cfg(test)]\nmod tests { const A: &str = \"paratick\"; }",
        "paratick_at_most: load.paratick_at_most(),",
    ] {
        assert!(naming(text).is_empty(), "{text}");
    }
}
