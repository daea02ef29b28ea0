// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a number of the paper is: how it follows from the results of one seed, and under which
//! conditions.
//!
//! Each is of a machine, whose conditions its claim is compared with. Left out: which numbers there
//! are, which is of the tables of [`Of`].

use std::collections::BTreeMap;

use steady_coherence::compare::Job;
use steady_coherence::config::{MachineConfig, Mode};

use crate::closed;
use crate::measured::{Measured, Seeds};
use crate::runs::{ACCESSES, WorkloadResults, mean};
use crate::shares::named;

/// Conditions by their words.
pub(crate) type Words = BTreeMap<String, String>;
/// Numbers, each by the word of its measure.
pub(crate) type Table = [(&'static str, Of)];

/// One number, basis points (1/100 %).
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Number {
    /// The measure, as rows of claims name it.
    pub measure: &'static str,
    /// Mean over seeds.
    pub measured: Measured,
    /// What a closed form gives from the events counted and Table 2; none where there is none.
    pub closed_bp: Option<i64>,
    /// Of each seed.
    pub by_seed: Vec<i64>,
    /// What it is a part or a multiple of.
    pub kind: Kind,
}

/// What a number is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// How much faster than the base.
    Gain,
    /// How many times the base (1x = 10,000).
    Times,
    /// A part of a whole.
    Share,
    /// A part of a whole of which chance gives half.
    Order,
    /// How many there are.
    Count,
}

/// How a number follows from the results of one seed.
#[derive(Clone, Copy)]
pub(crate) enum Of {
    /// Mean gain of one label over another.
    Gain(&'static str, &'static str),
    /// How much larger one such mean speed is than another: two labels each with its base.
    Over([&'static str; 2], [&'static str; 2]),
    /// The gain of one workload.
    One(&'static str, &'static str, &'static str),
    /// Something else of this label's runs, and its closed form from results and accesses before
    /// counting.
    Other(Kind, &'static str, Simulated, Option<Closed>),
    /// What follows by arithmetic from no run.
    Constant(Kind, i64),
}

type Simulated = fn(&[WorkloadResults], &str) -> i64;
type Closed = fn(&[WorkloadResults], u64) -> i64;

impl Of {
    const fn kind(self) -> Kind {
        match self {
            Self::Gain(..) | Self::One(..) | Self::Over(..) => Kind::Gain,
            Self::Other(kind, ..) | Self::Constant(kind, _) => kind,
        }
    }

    fn measured(self, all: &[WorkloadResults]) -> i64 {
        match self {
            Self::Gain(label, base) => mean(all, |w| w.gain(label, base)),
            Self::Over(above, below) => {
                let speed = |[label, base]: [&str; 2]| 10_000 + mean(all, |w| w.gain(label, base));
                let (above, below) = (speed(above), speed(below).max(1));
                (above * 10_000 + below / 2) / below - 10_000
            }
            Self::One(workload, label, base) => named(all, workload).gain(label, base),
            Self::Other(_, label, of, _) => of(all, label),
            Self::Constant(_, value) => value,
        }
    }

    fn closed(self, all: &[WorkloadResults], warmup: u64) -> Option<i64> {
        Some(match self {
            Self::Gain(label, base) => closed::gain(all, label, base),
            Self::One(workload, label, base) => closed::gain_of(named(all, workload), label, base),
            Self::Other(.., form) => form?(all, warmup),
            Self::Constant(..) | Self::Over(..) => return None,
        })
    }

    /// A label of each machine that it is of; a base's is the same.
    pub(crate) fn labels(self) -> Vec<&'static str> {
        match self {
            Self::Gain(label, _) | Self::One(_, label, _) | Self::Other(_, label, ..) => {
                vec![label]
            }
            Self::Over([one, _], [other, _]) => vec![one, other],
            Self::Constant(..) => Vec::new(),
        }
    }
}

/// The conditions of what is simulated on a machine, by their words.
pub(crate) fn conditions(machine: &MachineConfig) -> Words {
    let mode = match machine.mode {
        Mode::Native => "native",
        Mode::Virtualized => "virtualized",
    };
    let (memory, moved) = match (machine.hybrid.enabled, machine.mode) {
        (false, _) => ("DRAM", "none".to_owned()),
        (true, Mode::Native) => ("DRAM and NVM", "by the OS".to_owned()),
        (true, Mode::Virtualized) => {
            let percent = machine.hybrid.guest_percent;
            ("DRAM and NVM", format!("{percent} % by the guest"))
        }
    };
    [
        ("accesses", ACCESSES.to_owned()),
        ("cores", machine.core.count.to_string()),
        ("memory", memory.to_owned()),
        ("migrations", moved),
        ("mode", mode.to_owned()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

/// All measures of a table by their names, each with the conditions that it is simulated under, and
/// no conditions of what follows by arithmetic. What two machines do not share has both values.
pub(crate) fn measures(table: &Table, jobs: &[Job]) -> BTreeMap<String, Words> {
    let of = |label: &str| {
        let job = jobs.iter().find(|job| job.label == label);
        conditions(&job.expect("a number is of jobs that run").machine)
    };
    let measures = table.iter().map(|(name, number)| {
        let mut all = number.labels().into_iter().map(of);
        let mut found = all.next().unwrap_or_default();
        for (key, value) in all.flatten() {
            let known = found.entry(key).or_default();
            if *known != value {
                known.push_str(" beside ");
                known.push_str(&value);
            }
        }
        ((*name).to_owned(), found)
    });
    measures.collect()
}

/// The numbers of a table, of results by seed; with closed forms where `warmup` says how many
/// accesses came before counting.
pub(crate) fn of_table<'a>(
    table: impl IntoIterator<Item = &'a (&'static str, Of)>,
    seeds: &Seeds,
    warmup: Option<u64>,
) -> Vec<Number> {
    let number = |&(measure, of): &(&'static str, Of)| {
        let by_seed: Vec<i64> = seeds.iter().map(|all| of.measured(all)).collect();
        let closed = seeds.iter().map(|all| of.closed(all, warmup?));
        let closed: Option<Vec<i64>> = closed.collect();
        Number {
            measure,
            measured: Measured::of(&by_seed),
            closed_bp: closed.map(|values| Measured::of(&values).bp),
            by_seed,
            kind: of.kind(),
        }
    };
    table.into_iter().map(number).collect()
}
