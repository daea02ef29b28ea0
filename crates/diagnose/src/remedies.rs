// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What remedies did in a trace, and events that are only counted.
//!
//! A remedy is known here by its name alone, so one that was not known when this was written is
//! counted like the others.

use std::collections::{BTreeMap, HashMap};

use steady_events::{Event, Kind, RemedyEvent, RemedyStep};
use steady_measures::Histogram;

/// Remedies that are counted each; a trace of made-up systems must not fill the memory.
const MOST_REMEDIES: usize = 64;
/// Threads whose call is followed to its end.
const MOST_OPEN: usize = 4096;
/// Names that are counted apart.
const MOST_NAMES: usize = 256;

/// What one remedy did.
#[derive(Debug, Default)]
pub struct OfRemedy {
    /// Calls that began.
    pub calls: u64,
    /// Targets that calls dealt with.
    pub targets: u64,
    /// Calls that ended.
    pub done: u64,
    /// Targets that ended calls had left to their callers.
    pub left: u64,
    /// Other events.
    pub others: u64,
    /// From a call's begin to its end, in nanoseconds.
    pub call_ns: Histogram,
    /// By thread, the call that it is in, and since when.
    open: HashMap<i32, (u64, u64)>,
}

/// All remedies, and all that is only counted.
#[derive(Debug, Default)]
pub struct Remedies {
    /// By name.
    pub by_name: BTreeMap<String, OfRemedy>,
    /// Other names, and how often.
    pub counted: BTreeMap<&'static str, u64>,
}

impl Remedies {
    /// An event.
    pub fn event(&mut self, event: &Event<'_>) {
        match event.kind {
            Kind::Remedy(remedy) => self.remedy(event, remedy),
            Kind::Counted { name } => {
                let room = self.counted.len() < MOST_NAMES;
                if room || self.counted.contains_key(name) {
                    *self.counted.entry(name).or_default() += 1;
                }
                assert!(self.counted.len() <= MOST_NAMES, "the names stay bounded");
            }
            _ => {}
        }
    }

    fn remedy(&mut self, event: &Event<'_>, told: RemedyEvent<'_>) {
        let known = self.by_name.contains_key(told.remedy);
        if !known && self.by_name.len() >= MOST_REMEDIES {
            return;
        }
        if !known {
            self.by_name
                .insert(told.remedy.to_owned(), OfRemedy::default());
        }
        if let Some(of) = self.by_name.get_mut(told.remedy) {
            of.step(event, told);
        }
    }
}

impl OfRemedy {
    fn step(&mut self, event: &Event<'_>, told: RemedyEvent<'_>) {
        let (tid, now_ns) = (event.tid, event.time_ns);
        match told.step {
            RemedyStep::Begun { .. } => {
                self.calls += 1;
                if let Some(call) = told.call.filter(|_| self.open.len() < MOST_OPEN) {
                    self.open.insert(tid, (call, now_ns));
                }
            }
            RemedyStep::Target { .. } => self.targets += 1,
            RemedyStep::Done { left } => {
                self.done += 1;
                self.left = self.left.saturating_add(left.unwrap_or(0).into());
                let begun = self.open.remove(&tid);
                let own = begun.filter(|&(call, _)| Some(call) == told.call);
                if let Some(took_ns) = own.and_then(|(_, since)| now_ns.checked_sub(since)) {
                    self.call_ns.record(took_ns);
                }
            }
            RemedyStep::Other { .. } => self.others += 1,
        }
        assert!(self.open.len() <= MOST_OPEN, "calls under way stay bounded");
        assert!(
            self.call_ns.count() <= self.done,
            "each time is that of a call that ended"
        );
    }
}
