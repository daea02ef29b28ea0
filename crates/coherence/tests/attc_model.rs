// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does the model of ATTC hold, does it find what breaks it, and does the simulator agree? Needs
//! Spin, which setup/install installs.

mod trail;

use steady_coherence::oracle::Wrong;
use steady_coherence::scheme::ATTC;
use steady_coherence::{Fault, Spec};
use trail::literal::{
    CORRECTED, EVICTION, GUEST_TABLE, NESTED_TABLE, POINTER, PRECISE, TABLE_FRAME,
};
use trail::{Player, check, events};

/// Violations that the simulator's oracle sees in a trail.
fn violations(events: &[String], scheme: &'static Spec, fault: Option<Fault>) -> u64 {
    wrongs(events, scheme, fault).len() as u64
}

/// What is wrong with each use that the oracle objects to.
fn wrongs(events: &[String], scheme: &'static Spec, fault: Option<Fault>) -> Vec<Wrong> {
    let mut player = Player::of(events, scheme, fault);
    player.play(events);
    assert!(player.played >= 3, "{events:?}");
    player.wrongs()
}

/// `PointerLost` is `pointer-lost` to the model.
fn name_in_the_model(fault: Fault) -> String {
    let mut name = String::new();
    for letter in format!("{fault:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

#[test]
fn the_model_holds_by_the_corrected_rule_and_finds_each_planted_fault() {
    let (code, said, talk) = check(&[]);
    assert_eq!(code, Some(0), "{said}{talk}");
    let (code, faults, _) = check(&["--list"]);
    assert_eq!(code, Some(0));
    assert!(faults.lines().count() > 30, "{faults}");
    for fault in faults.lines() {
        let found = said
            .lines()
            .any(|line| line.starts_with(&format!("fault {fault} ")) && line.contains(" broken "));
        assert!(found, "{fault} was not tried:\n{said}");
    }
    for (proven, times) in [
        ("corrected, one page ", 1),
        ("corrected: updates end ", 1),
        ("corrected, walk caches: ", 4),
    ] {
        let holds = |line: &&str| line.starts_with(proven) && line.contains(" holds ");
        assert_eq!(
            said.lines().filter(holds).count(),
            times,
            "{proven}:\n{said}"
        );
    }
}

#[test]
fn an_unknown_fault_or_seed_is_refused() {
    let (code, _, talk) = check(&["--show", "no-such"]);
    assert_eq!(code, Some(2));
    assert!(talk.contains("no fault 'no-such'"), "{talk}");
    let (code, _, talk) = check(&["--walk", "-1"]);
    assert_eq!(code, Some(2));
    assert!(talk.contains("not '-1'"), "{talk}");
}

#[test]
fn by_the_paper_s_rule_the_model_s_trail_violates_the_oracle_and_by_the_corrected_it_does_not() {
    let readings = [
        (&POINTER, Wrong::Frame),
        (&EVICTION, Wrong::Frame),
        (&PRECISE, Wrong::Frame),
        // Where the old frame is another table by then, its core uses that one's pages besides.
        (&GUEST_TABLE, Wrong::Table),
        (&TABLE_FRAME, Wrong::Table),
        (&NESTED_TABLE, Wrong::Table),
    ];
    for (reading, wrong) in readings {
        let name = reading.name;
        let trail = events(&["--show", name]);
        let found = wrongs(&trail, reading, None);
        assert_eq!(found.first(), Some(&wrong), "{name}: {trail:?}");
        assert_eq!(violations(&trail, &CORRECTED, None), 0, "{name}: {trail:?}");
        assert_eq!(violations(&trail, &ATTC, None), 0, "{name}: {trail:?}");
    }
}

#[test]
fn the_simulator_s_planted_faults_violate_the_oracle_on_the_model_s_trails_of_the_same_names() {
    let faults = [
        Fault::PointerLost,
        Fault::SetMissed,
        Fault::VmIdIgnored,
        Fault::VictimSkipped,
        Fault::WalkCachesKept,
        Fault::NestedKept,
        Fault::HostWalksKept,
        Fault::TablePointerLost,
    ];
    for fault in faults {
        let trail = events(&["--show", &name_in_the_model(fault)]);
        assert!(violations(&trail, &ATTC, Some(fault)) > 0, "{trail:?}");
        assert_eq!(violations(&trail, &ATTC, None), 0, "{trail:?}");
    }
}

#[test]
fn random_runs_of_the_model_and_the_simulator_use_the_same_translations() {
    let mut compared = 0;
    for seed in 1..=24 {
        let run = events(&["--walk", &seed.to_string()]);
        let mut player = Player::of(&run, &ATTC, None);
        player.compares = true;
        player.play(&run);
        assert_eq!(player.wrongs(), [], "seed {seed}: {run:?}");
        compared += player.compared;
    }
    assert!(compared > 200, "{compared} accesses");
}
