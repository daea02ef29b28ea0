// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a transcript says beside the measures: the hosts, and the wall time of the phases.

use std::collections::BTreeMap;
use std::time::Duration;

use steady_agent::event::Event;
use steady_measures::Phase;

use crate::engine::watch::Transcript;

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
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
