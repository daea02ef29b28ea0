// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Scenarios that no one has written: whatever a valid one asks for, does its race end with a sound
//! result or one clear error, inside its limit?
//!
//! The race of dozens takes most of an hour, so it runs when asked for:
//! `cargo test -p steady --test generated -- --ignored`, with `STEADY_GENERATED=qemu,100,50` for
//! fifty scenarios from seed 100 in QEMU.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
mod generator;

use std::path::Path;
use std::time::{Duration, Instant};

use steady_measures::RunResult;
use steady_scenario::Scenario;

use generator::{TIME_LIMIT_S, scenario};

/// Exit code of a run that failed, with its reason printed.
const RUN_FAILED: i32 = 5;

#[test]
fn every_generated_scenario_is_valid() {
    for seed in 0..1000 {
        let text = scenario(seed);
        if let Err(error) = Scenario::parse(&text, "generated.toml") {
            panic!("seed {seed}: {error}\n{text}");
        }
    }
}

#[test]
fn a_seed_gives_its_scenario_again_and_another_seed_another() {
    assert_eq!(scenario(7), scenario(7));
    assert_ne!(scenario(7), scenario(8));
}

#[test]
#[ignore = "takes most of an hour"]
fn generated_scenarios_end_with_a_result_or_one_clear_error() {
    let asked = std::env::var("STEADY_GENERATED").unwrap_or_else(|_| "bochs,0,50".to_owned());
    let words: Vec<&str> = asked.split(',').collect();
    let [engine, first, count] = words[..] else {
        panic!("STEADY_GENERATED={asked}: expected ENGINE,SEED,COUNT");
    };
    let (first, count): (u64, u64) = (first.parse().unwrap(), count.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let (mut sound, mut reported) = (0, 0);
    for seed in first..first + count {
        match race(folder.path(), engine, seed) {
            Ok(()) => sound += 1,
            Err(error) => {
                reported += 1;
                eprintln!("seed {seed}: {error}");
            }
        }
    }
    eprintln!(
        "{engine}: {count} scenarios from seed {first}: {sound} sound, {reported} said why not"
    );
}

/// Races one; its error, which is one of a run and in few lines.
fn race(folder: &Path, engine: &str, seed: u64) -> Result<(), String> {
    let name = format!("generated-{seed}");
    let path = folder.join(format!("{name}.toml"));
    let text = scenario(seed);
    std::fs::write(&path, &text).unwrap();
    let begun = Instant::now();
    let output = assert_cmd::Command::cargo_bin("steady")
        .unwrap()
        .args(["run", "--engine", engine, "-o"])
        .arg(folder)
        .arg(&path)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // Two variants, each with the race's own bound, on a machine that does nothing else.
    let limit = Duration::from_secs(2 * (90 + 4 * TIME_LIMIT_S) + 60);
    assert!(
        begun.elapsed() <= limit,
        "seed {seed} took {:?}\n{text}",
        begun.elapsed()
    );
    if output.status.success() {
        let result = RunResult::load(&folder.join(&name).join(engine).join("result.json"));
        result.unwrap_or_else(|error| panic!("seed {seed}: {error}\n{text}"));
        return Ok(());
    }
    assert_eq!(
        output.status.code(),
        Some(RUN_FAILED),
        "seed {seed}: {said}\n{text}"
    );
    let error = said.split("steady: ").last().unwrap_or_default().to_owned();
    assert!(error.contains("logs: "), "seed {seed}: {said}\n{text}");
    Err(error)
}
