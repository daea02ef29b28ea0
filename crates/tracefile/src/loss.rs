// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is missing from a trace, as far as the trace says.

use std::collections::BTreeMap;

use crate::error::{Fault, Place};

/// How many descriptions of damage are kept; further ones are only counted.
const DAMAGE_KEPT: usize = 16;
/// How many unread lines are shown, and how many bytes of each.
const UNREAD_KEPT: usize = 3;
const UNREAD_SHOWN: usize = 120;
/// How many unknown event numbers are counted each; a damaged trace can hold 65536.
const UNKNOWN_KEPT: usize = 1024;

/// What one CPU lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuLoss {
    /// Events that the trace says were dropped between records.
    pub lost: u64,
    /// Places where events were dropped.
    pub gaps: u64,
    /// Of these, places where the trace does not say how many.
    pub gaps_unknown: u64,
    /// Events lost by the statistics of the whole recording: overwritten in ftrace's buffer
    /// (`overrun`), or perf's LOST_SAMPLES, which perf may all ascribe to one CPU.
    pub overrun: u64,
    /// Events that the kernel dropped for want of room (`dropped events`, `commit overrun`).
    pub dropped: u64,
}

/// The end of a trace that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truncation {
    /// Where the trace ends.
    pub place: Place,
    /// Bytes that its own description promises beyond; `None` if it does not say.
    pub missing_bytes: Option<u64>,
}

/// A damaged place that was stepped over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Where.
    pub place: Place,
    /// What was found there.
    pub what: String,
}

/// What is missing from a trace. Final once [`crate::Source::next`] has returned `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// By CPU; CPUs that lost nothing may be absent.
    pub cpus: BTreeMap<u32, CpuLoss>,
    /// Set if the trace was cut off.
    pub truncated: Option<Truncation>,
    /// Records of event numbers that the trace does not describe: how many by number.
    pub unknown_events: BTreeMap<u64, u64>,
    /// Records, or lines of text, that are not tracepoint events and were passed over: how many.
    pub other_records: u64,
    /// Lines of text that should be events or remarks and could not be read: how many.
    pub unread_lines: u64,
    /// The first of these lines, shortened, with escapes for what is not ASCII.
    pub unread: Vec<Damage>,
    /// Records that came after one with a later time stamp.
    pub out_of_order: u64,
    /// The first damaged places.
    pub damage: Vec<Damage>,
    /// All damaged places, also those not in `damage`.
    pub damage_count: u64,
}

/// Whether events were lost just before a record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Gap {
    /// None that the trace shows.
    #[default]
    None,
    /// Events of the record's CPU, since that CPU's record before.
    Cpu,
    /// Events of any CPU: the trace does not show of which.
    Any,
}

/// Losses whose place in the order of records is ahead: by CPU, `u32::MAX` for an unknown one.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    pending: Vec<u32>,
}

/// Losses that wait for their CPU's next record; beyond, they are taken for one of any CPU.
const GAPS_MAX: usize = 1024;

impl Gaps {
    /// Whether a loss of this CPU waits for its next record.
    pub fn waits(&self, cpu: u32) -> bool {
        self.pending.contains(&cpu)
    }

    /// Notes a loss before the next record of this CPU.
    pub fn note(&mut self, cpu: u32) {
        if self.pending.len() >= GAPS_MAX {
            self.pending.clear();
            self.pending.push(u32::MAX);
        } else if !self.waits(cpu) {
            self.pending.push(cpu);
        }
        assert!(self.pending.len() <= GAPS_MAX, "memory stays bounded");
    }

    /// Whether one stands before this record of a CPU.
    #[inline]
    pub fn before(&mut self, cpu: u32) -> Gap {
        if self.pending.is_empty() {
            return Gap::None;
        }
        let of = |wanted: u32| self.pending.iter().position(|&noted| noted == wanted);
        let (any, own) = (of(u32::MAX), of(cpu));
        let Some(at) = any.or(own) else {
            return Gap::None;
        };
        self.pending.swap_remove(at);
        if any.is_some() { Gap::Any } else { Gap::Cpu }
    }
}

impl Loss {
    /// All events that the trace says were lost, over its CPUs; the unknown gaps count nothing.
    /// Statistics of the whole recording count again what gaps between records count, so the
    /// larger of the two holds.
    #[must_use]
    pub fn lost(&self) -> u64 {
        let sum = |of: fn(&CpuLoss) -> u64| self.cpus.values().map(of).fold(0, u64::saturating_add);
        sum(|c| c.lost)
            .max(sum(|c| c.overrun))
            .saturating_add(sum(|c| c.dropped))
    }

    /// True if nothing is known to be missing or damaged.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.lost() == 0
            && self.cpus.values().all(|c| c.gaps == 0)
            && self.truncated.is_none()
            && self.unknown_events.is_empty()
            && self.unread_lines == 0
            && self.out_of_order == 0
            && self.damage_count == 0
    }

    pub(crate) fn gap(&mut self, cpu: u32, events: Option<u64>) {
        let loss = self.cpus.entry(cpu).or_default();
        loss.gaps = loss.gaps.saturating_add(1);
        match events {
            Some(n) => loss.lost = loss.lost.saturating_add(n),
            None => loss.gaps_unknown = loss.gaps_unknown.saturating_add(1),
        }
        assert!(
            loss.gaps_unknown <= loss.gaps,
            "a gap of unknown size is a gap"
        );
    }

    pub(crate) fn damaged(&mut self, fault: Fault) {
        self.damage_count = self.damage_count.saturating_add(1);
        if self.damage.len() < DAMAGE_KEPT {
            self.damage.push(Damage {
                place: fault.place,
                what: fault.what,
            });
        }
        let told = u64::try_from(self.damage.len()).unwrap_or(u64::MAX);
        assert!(
            told <= self.damage_count,
            "damage that is described was counted"
        );
    }

    /// Adds what another file of the same recording lost.
    pub(crate) fn add(&mut self, other: &Self) {
        for (&cpu, lost) in &other.cpus {
            let sum = self.cpus.entry(cpu).or_default();
            sum.lost = sum.lost.saturating_add(lost.lost);
            sum.gaps = sum.gaps.saturating_add(lost.gaps);
            sum.gaps_unknown = sum.gaps_unknown.saturating_add(lost.gaps_unknown);
            sum.overrun = sum.overrun.saturating_add(lost.overrun);
            sum.dropped = sum.dropped.saturating_add(lost.dropped);
        }
        if let Some(cut) = other.truncated {
            self.cut(cut.place, cut.missing_bytes);
        }
        for (&id, &count) in &other.unknown_events {
            let sum = self.unknown_events.entry(id).or_default();
            *sum = sum.saturating_add(count);
        }
        self.other_records = self.other_records.saturating_add(other.other_records);
        self.damage_count = self.damage_count.saturating_add(other.damage_count);
        let room = DAMAGE_KEPT.saturating_sub(self.damage.len());
        self.damage.extend(other.damage.iter().take(room).cloned());
    }

    /// Notes a line that cannot be read.
    pub(crate) fn unread_line(&mut self, place: Place, line: &[u8]) {
        self.unread_lines = self.unread_lines.saturating_add(1);
        if self.unread.len() < UNREAD_KEPT {
            let what = line[..line.len().min(UNREAD_SHOWN)]
                .escape_ascii()
                .to_string();
            self.unread.push(Damage { place, what });
        }
        let told = u64::try_from(self.unread.len()).unwrap_or(u64::MAX);
        assert!(
            told <= self.unread_lines,
            "a line that is shown was counted"
        );
    }

    pub(crate) fn unknown(&mut self, id: u64) {
        if let Some(count) = self.unknown_events.get_mut(&id) {
            *count = count.saturating_add(1);
        } else if self.unknown_events.len() < UNKNOWN_KEPT {
            self.unknown_events.insert(id, 1);
        } else {
            self.other_records = self.other_records.saturating_add(1);
        }
    }

    /// Notes a missing end; of several (one per CPU) the bytes add up and the first place stays.
    pub(crate) fn cut(&mut self, place: Place, missing: Option<u64>) {
        match &mut self.truncated {
            None => {
                self.truncated = Some(Truncation {
                    place,
                    missing_bytes: missing,
                })
            }
            Some(t) => {
                if let (Some(sum), Some(more)) = (t.missing_bytes.as_mut(), missing) {
                    *sum = sum.saturating_add(more);
                }
            }
        }
    }
}
