// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is recorded: the tracepoints that this kernel has and the functions that can be probed.

use std::fs;
use std::path::Path;

use steady_events::probe::{EVENTS, GUEST_EVENTS, PROBES, Probe};

use crate::error::RecordError;
use crate::instance::{Events, usable};

/// What will be recorded, and what this kernel does not have.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What is asked for.
    pub events: Events,
    /// What is not there, in words.
    pub left_out: Vec<String>,
}

impl Plan {
    /// Of a host, or of a `guest`'s shootdowns. Where tracefs cannot be read all is asked for.
    ///
    /// # Errors
    /// [`RecordError::NoEvents`].
    pub fn new(tracefs: &Path, guest: bool) -> Result<Self, RecordError> {
        let readable = fs::read_dir(tracefs.join("events")).is_ok();
        let wanted: &[&str] = if guest { &GUEST_EVENTS } else { &EVENTS };
        let has = |event: &&str| {
            !readable
                || tracefs
                    .join("events")
                    .join(event.replace(':', "/"))
                    .is_dir()
        };
        let (there, missing): (Vec<&str>, Vec<&str>) =
            wanted.iter().copied().partition(|event| has(event));
        let mut left_out: Vec<String> = missing
            .iter()
            .map(|event| format!("{event}: this kernel has no such tracepoint"))
            .collect();
        let own = if guest { "tlb:" } else { "kvm:" };
        if !there.iter().any(|event| event.starts_with(own)) {
            return Err(RecordError::NoEvents);
        }
        let probes = if guest {
            Vec::new()
        } else {
            probes(tracefs, readable, &mut left_out)
        };
        if !readable {
            left_out.push(
                "unknown: tracefs cannot be read here, so every event is asked for (run as root)"
                    .to_owned(),
            );
        }
        let tracepoints = there.into_iter().map(str::to_owned).collect();
        Ok(Self {
            events: Events {
                tracepoints,
                probes,
            },
            left_out,
        })
    }
}

/// Whether a host, or a guest, can be recorded here: what [`crate::Recorder`] asks for, without
/// touching it. `waits`: whether vCPUs' waits are watched.
///
/// # Errors
/// [`RecordError::NoTracefs`], [`RecordError::NoRights`], [`RecordError::ReadOnly`],
/// [`RecordError::Locked`], [`RecordError::NoEvents`], [`RecordError::NoWaits`].
pub fn ready(tracefs: &Path, proc: &Path, guest: bool, waits: bool) -> Result<Plan, RecordError> {
    usable(tracefs)?;
    let plan = Plan::new(tracefs, guest)?;
    // This thread has run, so its counts are zero only where nothing is counted.
    let own = proc.join("self/schedstat");
    let counted = fs::read_to_string(&own);
    let zero = |text: &str| text.split_whitespace().all(|number| number == "0");
    if waits && counted.is_ok_and(|text| zero(&text)) {
        return Err(RecordError::NoWaits(own));
    }
    Ok(plan)
}

/// The probes that this kernel can set.
fn probes(tracefs: &Path, readable: bool, left_out: &mut Vec<String>) -> Vec<&'static Probe> {
    if readable && !tracefs.join("kprobe_events").exists() {
        left_out.push(
            "which vCPU KVM boosts: this kernel has no kprobes (CONFIG_KPROBE_EVENTS), and no \
             tracepoint there"
                .to_owned(),
        );
        return Vec::new();
    }
    let functions = fs::read_to_string(tracefs.join("available_filter_functions"));
    let has = |function: &str| match &functions {
        Ok(text) => text
            .lines()
            .any(|line| line.split_whitespace().next() == Some(function)),
        Err(_) => true,
    };
    let (probes, without): (Vec<&'static Probe>, Vec<&'static Probe>) =
        PROBES.iter().partition(|probe| has(probe.function));
    left_out.extend(without.iter().map(|probe| {
        format!(
            "{}: this kernel has no such function to probe",
            probe.function
        )
    }));
    probes
}
