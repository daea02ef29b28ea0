// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One table as it was read, and the trait of what reads one.

use steady_diagnose::{Finding, LossTable, TraceDiagnosis};

use crate::kind::Kind;

/// The side that a table is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Side {
    /// A host's.
    Host,
    /// A guest's.
    Guest,
    /// It does not show.
    #[default]
    Unknown,
}

impl Side {
    pub fn word(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Guest => "guest",
            Self::Unknown => "unknown",
        }
    }
}

/// What a table says that other files of the incident may be compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fact {
    /// vCPUs were ready and did not run, as seen from the host or as steal in the guest.
    Waits,
    /// That was measured, and there was hardly any.
    NoWaits,
    /// A cgroup reached its limit.
    Limit,
    /// None is set for any group that is in the table.
    NoLimit,
    /// The host had more to run than CPUs.
    HostFull,
    /// Tasks waited for I/O.
    IoWaits,
}

/// One table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    pub kind: Kind,
    pub side: Side,
    /// Rows that were read.
    pub rows: u64,
    /// Time that it covers, if it says so.
    pub span_ns: Option<u64>,
    pub findings: Vec<Finding>,
    pub facts: Vec<Fact>,
    /// Groups that its facts are about, by their paths; none if the table has no names.
    pub groups: Vec<String>,
}

impl Table {
    pub fn new(kind: Kind, side: Side, rows: u64) -> Self {
        Self {
            kind,
            side,
            rows,
            span_ns: None,
            findings: Vec::new(),
            facts: Vec::new(),
            groups: Vec::new(),
        }
    }

    /// What stands in a trace's place.
    pub fn into_trace(self, name: &str) -> (TraceDiagnosis, Vec<Finding>) {
        let trace = TraceDiagnosis {
            name: name.to_owned(),
            format: self.kind.words().to_owned(),
            release: None,
            clock: None,
            clock_is_ns: true,
            pcpus: None,
            zero_ns: 0,
            begin_ns: 0,
            span_ns: self.span_ns.unwrap_or(0),
            events: self.rows,
            loss: LossTable::default(),
            missing: Vec::new(),
            saw_host_irqs: false,
            saw_sleeps: false,
            only_vcpus: false,
            unfound: None,
            judged: Vec::new(),
            symbols: None,
            vms_by: "table".to_owned(),
            vcpus_by: "table".to_owned(),
            vms: Vec::new(),
            host: None,
            shootdowns: None,
            remedies: Vec::new(),
            counted: Vec::new(),
            table: Some(self.kind.note(self.side, self.rows)),
        };
        (trace, self.findings)
    }
}

/// A line without what mail, terminals and loggers put around it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line<'t> {
    /// From 1.
    pub number: u64,
    /// Without quotation marks and colours; blanks in front are kept.
    pub text: &'t str,
    /// Its words; at most [`crate::clean::WORDS`] of them.
    pub words: &'t [&'t str],
}

/// Reads tables of one kind from lines of anything.
pub(crate) trait Reader {
    /// Takes a line. Memory must stay bounded whatever the lines are.
    fn line(&mut self, line: &Line<'_>);

    /// The table, if the lines had one.
    fn finish(self: Box<Self>) -> Option<Table>;

    /// Whether lines beyond [`crate::read::TABLE_LINES`] matter to it, as in a log of days.
    fn is_endless(&self) -> bool {
        false
    }
}
