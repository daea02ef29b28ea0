// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a result says of its surroundings: engine, variants, phases, hosts, machine.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use steady_agent::event::Event;
use steady_measures::{Phase, VariantResult};
use steady_scenario::{Variant, Word};

use crate::engine::EngineKind;
use crate::engine::watch::Transcript;

/// QEMU's own version, such as `7.2.22`.
pub fn qemu_version(program: &Path) -> String {
    let output = std::process::Command::new(program)
        .arg("--version")
        .output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    text.split_whitespace()
        .nth(3)
        .unwrap_or("unknown")
        .to_owned()
}

/// One line on an engine for a reader who does not know it.
pub fn describe(kind: EngineKind) -> &'static str {
    match kind {
        EngineKind::Qemu => {
            "real Linux/KVM on an emulated AMD host (QEMU TCG, SVM, no pause filter); its clock is the wall, so runs differ"
        }
        EngineKind::Bochs => {
            "real Linux/KVM on an emulated Intel host (Bochs, VMX with EPT, VPID and pause-loop exiting); its clock is instructions, so runs repeat exactly"
        }
    }
}

/// A variant without repetitions yet.
pub fn empty(variant: &Variant) -> VariantResult {
    let mut remedies: Vec<String> = variant
        .remedies
        .iter()
        .map(|on| on.remedy.name.to_owned())
        .collect();
    remedies.extend(
        variant
            .pv
            .iter()
            .filter(|&(_, on)| !on)
            .map(|(feature, _)| format!("pv.{}=off", feature.name())),
    );
    if !variant.switches.ple {
        remedies.push("ple=off".to_owned());
    }
    VariantResult {
        name: variant.name.clone(),
        title: variant
            .title
            .clone()
            .unwrap_or_else(|| variant.name.clone()),
        remedies,
        repetitions: Vec::new(),
    }
}

/// What the host and its guests said of themselves, for the result's configuration.
pub fn host_facts(transcript: &Transcript) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    for (_, event) in &transcript.events {
        match event {
            Event::Up {
                isa, clocksource, ..
            } => {
                facts.insert("host.isa".to_owned(), isa.clone());
                facts.insert("host.clocksource".to_owned(), clocksource.clone());
            }
            Event::GuestUp {
                vm, clocksource, ..
            } => {
                facts.insert(format!("guest.{vm}.clocksource"), clocksource.clone());
            }
            _ => {}
        }
    }
    facts
}

/// Wall time of the phases of a run, from the moments at which its events were seen.
pub fn phases(variant: &str, repetition: u32, transcript: &Transcript) -> Vec<Phase> {
    let seen = |wanted: fn(&Event) -> bool| {
        transcript
            .events
            .iter()
            .rev()
            .find(|(_, event)| wanted(event))
            .map(|&(at, _)| at)
    };
    let marks = [
        ("boot", seen(|event| matches!(event, Event::Up { .. }))),
        (
            "guests-up",
            seen(|event| matches!(event, Event::GuestUp { .. })),
        ),
        (
            "workloads",
            seen(|event| matches!(event, Event::End(end) if end.window.is_some())),
        ),
        ("collect", Some(transcript.length)),
    ];
    let mut from = Duration::ZERO;
    let mut phases = Vec::new();
    for (phase, at) in marks {
        let Some(at) = at else { continue };
        phases.push(Phase {
            variant: variant.to_owned(),
            repetition,
            phase: phase.to_owned(),
            wall_ms: millis(at.saturating_sub(from)),
        });
        from = at;
    }
    phases
}

/// Whole milliseconds.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The machine that runs the emulators.
pub fn machine() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    format!(
        "{cpus} CPUs, {}",
        model.map_or("unknown processor", |(_, name)| name.trim())
    )
}

/// A row of a paper's table, as results have it.
pub fn paper(paper: &steady_scenario::Paper) -> steady_measures::Paper {
    let values = paper.variants.iter().zip(&paper.values);
    steady_measures::Paper {
        source: paper.source.clone(),
        vm: paper.vm.clone(),
        workload: paper.workload.clone(),
        measure: paper.measure.clone(),
        unit: paper.unit.clone(),
        base: paper.base.clone(),
        values: values
            .map(|(variant, &value)| steady_measures::PaperValue {
                variant: variant.clone(),
                value,
            })
            .collect(),
    }
}
