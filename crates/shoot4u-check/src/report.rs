// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the checker found.

use std::fmt;

use serde::Serialize;

use crate::doubt::Doubt;
use crate::event::{Stamped, VcpuId};
use crate::ranges::Ranges;

/// Violations kept with their story; further ones are counted.
pub(crate) const VIOLATIONS_KEPT: usize = 10;

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// In this trace no vCPU could use a translation that a completed call had revoked.
    Holds,
    /// A vCPU could.
    Violated,
    /// The trace is not enough to say.
    CannotSay,
}

/// How a revoked translation could be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Use {
    /// The vCPU entered guest mode after the call had returned.
    Entered,
    /// The vCPU was in guest mode when the call returned.
    Running,
}

/// One revoked translation that could be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// How.
    #[serde(rename = "use")]
    pub usage: Use,
    /// The vCPU that could use it.
    pub vcpu: VcpuId,
    /// The pCPU on which it is cached.
    pub pcpu: u32,
    /// The call that revoked it: the kernel's number, unique in its VM.
    pub call: u64,
    /// What was not invalidated.
    pub left: Ranges,
    /// True if page tables were freed, so that only a whole invalidation would have done.
    pub needs_whole: bool,
    /// The events that led there, in the order of the trace.
    pub chain: Vec<Stamped>,
}

/// How much was checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Events of Shoot4U, entries and exits.
    pub events: u64,
    /// Calls that began.
    pub calls: u64,
    /// Calls that returned.
    pub calls_done: u64,
    /// Calls that began before the trace; they are not checked.
    pub calls_cut: u64,
    /// Targets that the calls were to serve.
    pub targets: u64,
    /// Targets left to the caller; they are not checked.
    pub left: u64,
    /// Invalidations by calls.
    pub invalidations: u64,
    /// Of these, of a whole context.
    pub whole_invalidations: u64,
    /// Invalidations under a tag that is not the vCPU's: they count for nothing.
    pub wrong_tag: u64,
    /// Invalidations and flushes recorded on another pCPU than they name: they count for nothing.
    pub wrong_pcpu: u64,
    /// Invalidations whose tag was compared only with earlier invalidations, as KVM did not say it.
    pub tag_unsure: u64,
    /// Flushes by KVM.
    pub flushes: u64,
    /// VM entries that were checked.
    pub entries: u64,
    /// Pairs of vCPU and pCPU that were modelled.
    pub contexts: u64,
    /// Neighbours on one CPU with the same time stamp; their order is that of the buffer.
    pub ties: u64,
    /// The longest call, in nanoseconds.
    pub max_call_ns: u64,
    /// How long a revoked translation lay in a TLB after its call, unused, at most, in nanoseconds.
    pub max_stale_ns: u64,
}

/// The verdict and what it rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The answer.
    pub verdict: Verdict,
    /// How much was checked.
    pub counts: Counts,
    /// What is missing or odd.
    pub doubts: Vec<Doubt>,
    /// All violations, also those not kept.
    pub violations_total: u64,
    /// The first violations.
    pub violations: Vec<Violation>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let c = &self.counts;
        match self.verdict {
            Verdict::Holds => writeln!(f, "holds: no revoked translation could be used")?,
            Verdict::Violated => writeln!(
                f,
                "VIOLATED: {} times a revoked translation could be used",
                self.violations_total
            )?,
            Verdict::CannotSay => writeln!(f, "cannot say: the trace is not enough")?,
        }
        writeln!(
            f,
            "  {} calls ({} completed, {} begun before the trace), {} targets, {} left to callers",
            c.calls, c.calls_done, c.calls_cut, c.targets, c.left
        )?;
        writeln!(
            f,
            "  {} invalidations ({} whole, {} under a wrong tag, {} on a wrong pCPU), {} flushes \
             by KVM",
            c.invalidations, c.whole_invalidations, c.wrong_tag, c.wrong_pcpu, c.flushes
        )?;
        writeln!(
            f,
            "  {} VM entries checked, {} contexts of vCPU and pCPU, {} events",
            c.entries, c.contexts, c.events
        )?;
        writeln!(
            f,
            "  longest call {} ns; a revoked translation lay unused for {} ns at most",
            c.max_call_ns, c.max_stale_ns
        )?;
        if c.tag_unsure > 0 {
            writeln!(
                f,
                "  {} invalidations whose tag nothing but other invalidations confirms",
                c.tag_unsure
            )?;
        }
        if c.ties > 0 {
            writeln!(f, "  {} time stamps repeated on their CPU", c.ties)?;
        }
        for doubt in &self.doubts {
            writeln!(f, "  doubt: {doubt}")?;
        }
        let word = match self.verdict {
            Verdict::CannotSay => "suspect",
            _ => "violation",
        };
        for (i, violation) in self.violations.iter().enumerate() {
            writeln!(f, "{word} {}: {violation}", i + 1)?;
            for event in &violation.chain {
                writeln!(f, "    {event}")?;
            }
        }
        let kept = u64::try_from(self.violations.len()).unwrap_or(u64::MAX);
        if self.violations_total > kept {
            writeln!(f, "and {} more", self.violations_total - kept)?;
        }
        Ok(())
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.usage {
            Use::Entered => "entered guest mode",
            Use::Running => "was in guest mode",
        };
        write!(
            f,
            "{} {verb} on pCPU {} where call {}'s ",
            self.vcpu, self.pcpu, self.call
        )?;
        for (i, range) in self.left.as_slice().iter().enumerate() {
            write!(f, "{}{range}", if i > 0 { ", " } else { "" })?;
        }
        write!(f, " may be cached")?;
        if self.needs_whole {
            write!(
                f,
                " (page tables were freed: the whole context must be invalidated)"
            )?;
        }
        Ok(())
    }
}
