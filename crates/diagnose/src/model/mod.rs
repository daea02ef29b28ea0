// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The diagnosis: what `--json` prints, as `docs/formats/diagnosis.md` describes it.
//!
//! All numbers are integers. Times are nanoseconds of the trace's clock; shares are thousandths.

use serde::{Deserialize, Serialize};

use crate::compare::Comparison;
use crate::machine::Ground;
use crate::spread::Spread;

mod evidence;
mod finding;
mod host;
mod judged;
mod limit;
mod placement;
mod step;
mod vm;

pub use evidence::{Evidence, EvidenceId, Quantity, Value};
pub use finding::{
    Answer, CauseId, Check, CheckId, Confidence, Culprit, Finding, FindingId, Instance, Severity,
};
pub use host::{AsleepTable, HostTable, HostVm, ServerRow, StallRow};
pub use judged::{Judged, Judgement, Question};
pub use limit::{LimitTable, LimitedGroup};
pub use placement::{FoldTable, NotPredicted, PlacementTable, Predicted, Reach, SpareRow};
pub use step::{Assumption, Gain, Sharpener, Step, StepId};
pub use vm::*;

/// The value of [`Diagnosis::schema`].
pub const SCHEMA: &str = "steady.diagnosis";
/// The value of [`Diagnosis::version`]. It rises when a reader of the old one would misread.
pub const VERSION: u32 = 3;

/// What traces say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// [`SCHEMA`].
    pub schema: String,
    /// [`VERSION`].
    pub version: u32,
    /// Findings of all traces, worst first.
    pub findings: Vec<Finding>,
    /// Before and after, if that was asked.
    pub comparison: Option<Comparison>,
    /// The traces, in the order given.
    pub traces: Vec<TraceDiagnosis>,
}

impl Diagnosis {
    /// Takes a table or a log that was read elsewhere, with what was found in it. Its place among
    /// the traces is set here; [`Self::sort`] puts its findings in order.
    ///
    /// # Panics
    /// If it is not a table, or a finding has high confidence: a table never shows that much.
    pub fn add_table(&mut self, table: TraceDiagnosis, findings: Vec<Finding>) {
        assert!(table.table.is_some(), "{} is a trace", table.name);
        let trace = self.traces.len();
        for finding in findings {
            assert_ne!(finding.confidence, Confidence::High, "{finding:?}");
            self.findings.push(Finding { trace, ..finding });
        }
        self.traces.push(table);
    }

    /// Puts the findings in order: worst first, of equal ones that of a trace, which shows more.
    pub fn sort(&mut self) {
        let is_trace = |found: &Finding| {
            let trace = self.traces.get(found.trace);
            trace.is_none_or(|trace| trace.table.is_none())
        };
        let rank = |found: &Finding| {
            let share = found.lost_permille.min(1000);
            (found.severity, is_trace(found), share, found.lost_ns_per_s)
        };
        self.findings
            .sort_by(|a, b| rank(b).cmp(&rank(a)).then(a.id.cmp(&b.id)));
    }
}

impl LossTable {
    /// Whether its events are so far from the order of time that nothing of the trace is sure.
    #[must_use]
    pub fn is_unordered(&self) -> bool {
        self.late_permille >= crate::findings::LOSS_MATTERS
    }
}

/// What is missing from a trace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossTable {
    /// Events that the kernel or the tool dropped, as far as they say how many.
    pub lost_events: u64,
    /// Of all events, thousandths that were lost.
    pub lost_permille: u64,
    /// Gaps of which nothing says how many events they took.
    pub unknown_gaps: u64,
    /// How often the clock was set back; times count on from there.
    pub clock_set_back: u64,
    /// Where the trace ends before its time.
    pub truncated: Option<String>,
    /// Records of events that the trace does not describe.
    pub undescribed: u64,
    /// Records and lines that are not events, such as call chains.
    pub other_records: u64,
    /// Lines of text that could not be read.
    pub unread_lines: u64,
    /// Of the lines and events, thousandths that could not be read.
    pub unread_permille: u64,
    /// The first of these lines.
    pub unread: Vec<String>,
    /// Records that came after later ones.
    pub out_of_order: u64,
    /// Of all events, thousandths that came more than a millisecond after later ones.
    pub late_permille: u64,
    /// Damaged places.
    pub damaged: u64,
    /// The first of them.
    pub damage: Vec<String>,
    /// Records of known events that lacked what they need.
    pub unreadable: u64,
    /// Exits whose code no table has.
    pub unknown_exits: u64,
    /// Exits without an entry behind them: at the end of the trace, and around gaps.
    pub open_exits: u64,
}

/// The wait for which a recording was written, where none of its vCPU is found that is as long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unfound {
    /// What was waited for, in words.
    pub wait: String,
    /// The vCPU's thread.
    pub tid: i32,
    /// How long it waited at least.
    pub length_ns: u64,
    /// Its longest wait that is found.
    pub found_ns: u64,
}

/// Something that the trace does not have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// What.
    pub what: String,
    /// What cannot be concluded without it.
    pub so: String,
}

/// How symbols were matched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SymbolsTable {
    /// The file.
    pub file: String,
    /// What was subtracted from each guest RIP: KASLR.
    pub shift: u64,
    /// Exits in functions that wait or halt, with this shift.
    pub explained: u64,
    /// Exits looked at.
    pub of: u64,
}

/// What one trace says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceDiagnosis {
    /// Its file.
    pub name: String,
    /// How it is written down.
    pub format: String,
    /// The kernel's release.
    pub release: Option<String>,
    /// The clock of its time stamps.
    pub clock: Option<String>,
    /// False if that clock counts something other than nanoseconds: all times are in its own unit.
    pub clock_is_ns: bool,
    /// CPUs of the recorded machine, if they are known.
    pub pcpus: Option<u32>,
    /// Its first event, from which the times of `--time` and of [`Instance`] count.
    pub zero_ns: u64,
    /// The first event that was looked at.
    pub begin_ns: u64,
    /// From its first to its last event.
    pub span_ns: u64,
    /// Events.
    pub events: u64,
    /// What is missing.
    pub loss: LossTable,
    /// What was not recorded, and so what cannot be concluded.
    pub missing: Vec<Missing>,
    /// Whether the host's interrupts were recorded.
    pub saw_host_irqs: bool,
    /// Whether switches from threads that sleep are in it, which a filter may have left out.
    pub saw_sleeps: bool,
    /// Whether only switches of vCPUs are in it, as a filter leaves them: who ran instead is not
    /// known then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_vcpus: bool,
    /// The wait for which it was written, if that is not found in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfound: Option<Unfound>,
    /// Which questions the trace could answer, and which not; each of [`Question::ALL`] once.
    pub judged: Vec<Judgement>,
    /// How symbols were matched, if there were any.
    pub symbols: Option<SymbolsTable>,
    /// On which ground VMs were distinguished: `process`, `address` or `adjacency`.
    pub vms_by: String,
    /// How vCPUs were known: `kvm` by its events, `name` by the names of their threads.
    pub vcpus_by: String,
    /// The VMs, in the order in which they were seen.
    pub vms: Vec<VmTable>,
    /// What its vCPUs wanted and what its pCPUs had; `None` without events of the scheduler.
    pub host: Option<HostTable>,
    /// Shootdowns of the traced kernel itself.
    pub shootdowns: Option<ShootdownTable>,
    /// What remedies say of themselves, by name.
    pub remedies: Vec<RemedyTable>,
    /// Events that are only counted.
    pub counted: Vec<Count>,
    /// What it is, if it is not a trace but a table or a log; its numbers stand in findings.
    pub table: Option<TableNote>,
}

/// What a table or a log is, if it stands in a trace's place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableNote {
    /// The tool that prints it, in a word with hyphens.
    pub tool: String,
    /// Whose it is: `host`, `guest`, or `unknown`.
    pub side: String,
    /// Rows that were read.
    pub rows: u64,
    /// What such a table cannot show, a clause each.
    pub cannot_show: Vec<String>,
    /// The one command that would decide it.
    pub decide: String,
}

/// What one remedy did, by its own events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemedyTable {
    /// Its name, as in its trace system.
    pub remedy: String,
    /// Calls that began.
    pub calls: u64,
    /// Targets that calls dealt with.
    pub targets: u64,
    /// Calls that ended.
    pub done: u64,
    /// Targets that ended calls had left to their callers.
    pub left: u64,
    /// Other events of its.
    pub others: u64,
    /// From a call's begin to its end, where the trace has both.
    pub call_ns: Spread,
}

/// The word for a [`Ground`].
#[must_use]
pub fn ground_word(ground: Ground) -> &'static str {
    match ground {
        Ground::Address => "address",
        Ground::Adjacency => "adjacency",
        Ground::Process => "process",
    }
}
