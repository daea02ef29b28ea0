// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of remedies: whole, unambiguous, and as the kernel's sources have it.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use steady_remedies::{Means, Mode, Registry, Remedy, Stall, VmmDuty, answer};

fn linux() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../linux")
}

/// The text of every file below `folder`.
fn texts(folder: &Path, found: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            texts(&path, found);
        } else if let Ok(text) = fs::read_to_string(&path) {
            found.push_str(&text);
        }
    }
}

#[test]
fn names_parameters_and_feature_bits_are_each_of_one_remedy() {
    let registry = Registry::default();
    let count = registry.all().count();
    let names: BTreeSet<_> = registry.all().map(|remedy| remedy.name).collect();
    assert_eq!(names.len(), count);
    let of_kernel = registry.all().filter(|remedy| remedy.is_of_kernel());
    let parameters: BTreeSet<_> = of_kernel.clone().map(|remedy| remedy.parameter).collect();
    assert_eq!(parameters.len(), of_kernel.count());
    let bits: Vec<u32> = registry
        .all()
        .filter_map(|remedy| remedy.feature_bit)
        .collect();
    assert_eq!(bits.len(), bits.iter().collect::<BTreeSet<_>>().len());
    assert!(bits.iter().all(|bit| *bit < 32), "{bits:?}");
}

#[test]
fn every_remedy_is_whole() {
    for remedy in Registry::default().all() {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        assert!(remedy.name.bytes().all(plain), "{remedy}");
        assert!(
            !remedy.title.is_empty() && remedy.title.is_ascii(),
            "{remedy}"
        );
        let has_parameter = remedy.parameter.split_once('.').is_some();
        assert_eq!(has_parameter, remedy.is_of_kernel(), "{remedy}");
        for mode in remedy.modes {
            let has_words = remedy
                .words(mode.name)
                .is_some_and(|words| !words.is_empty());
            assert_eq!(has_words, !remedy.is_of_kernel(), "{remedy}: {}", mode.name);
        }
        assert!(remedy.mode(remedy.default_mode).is_some(), "{remedy}");
        assert!(
            remedy.mode(remedy.off).is_none(),
            "{remedy}: off must not be a mode"
        );
        let shows = remedy.vmm == VmmDuty::ShowFeatureBit;
        assert!(!shows || remedy.feature_bit.is_some(), "{remedy}");
    }
}

#[test]
fn every_stall_has_an_answer() {
    for stall in [
        Stall::CallWait,
        Stall::Tick,
        Stall::BoostTarget,
        Stall::BoostOutcome,
    ] {
        assert!(answer(stall).answers.contains(&stall));
    }
}

#[test]
fn what_is_said_of_a_shipped_remedy_is_in_the_kernels_sources() {
    let mut sources = String::new();
    texts(&linux(), &mut sources);
    for remedy in Registry::default().shipped() {
        let (_, parameter) = remedy.parameter.split_once('.').unwrap();
        let declared = ["module_param_cb(", "module_param(", "module_param_named("]
            .iter()
            .any(|kind| sources.contains(&format!("{kind}{parameter},")));
        assert!(declared, "{}", remedy.parameter);
        let words = remedy
            .modes
            .iter()
            .map(|mode| mode.name)
            .chain([remedy.off]);
        for word in words {
            assert!(sources.contains(&format!("\"{word}\"")), "{remedy}: {word}");
        }
        if let Some(system) = remedy.trace_system {
            assert!(
                sources.contains(&format!("TRACE_SYSTEM {system}\n")),
                "{system}"
            );
        }
        if let Some(word) = remedy.guest_off {
            assert!(
                sources.contains(&format!("early_param(\"{word}\"")),
                "{word}"
            );
        }
        if let Some(bit) = remedy.feature_bit {
            let define = format!("#define KVM_FEATURE_{}", remedy.name.to_uppercase());
            // It stands in a hook, whose added lines begin with a plus.
            let line = sources
                .lines()
                .find(|line| line.trim_start_matches('+').starts_with(&define));
            let number = line
                .and_then(|line| line.split_whitespace().last())
                .unwrap();
            assert_eq!(number, bit.to_string(), "{remedy}");
        }
    }
}

#[test]
fn a_registry_takes_one_more_and_keeps_the_order() {
    static EXTRA: Remedy = Remedy {
        name: "noop",
        title: "does nothing",
        means: Means::Kernel,
        parameter: "kvm.noop",
        off: "off",
        modes: &[Mode {
            name: "on",
            about: "nothing",
        }],
        default_mode: "on",
        feature_bit: None,
        trace_system: None,
        guest_off: None,
        vmm: VmmDuty::Nothing,
        shipped: true,
        is_still_when_off: false,
        folder: "noop",
        answers: &[],
    };
    let registry = Registry::default().with(&EXTRA);
    assert_eq!(registry.all().last(), Some(&EXTRA));
    assert_eq!(registry.find("noop"), Some(&EXTRA));
    assert_eq!(Registry::default().find("noop"), None);
    let twice = std::panic::catch_unwind(|| registry.with(&EXTRA));
    assert!(twice.is_err(), "a second of one name");
}
