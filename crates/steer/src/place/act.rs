// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `place` did or would do, with its reason: a line for people, an object for programs.

use std::fmt;

use serde::Serialize;
use steady_hostview::Cpus;

use super::stacked::StackedShare;

/// One act.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Act {
    /// When, by the monotonic clock, in nanoseconds.
    pub at_ns: u64,
    /// The VM.
    pub vm: String,
    /// What and why.
    #[serde(flatten)]
    pub what: What,
}

/// A vCPU and its pCPUs.
type Sets = Vec<(u32, Cpus)>;

/// What and why. Shares are in thousandths of the time in which vCPUs wanted a pCPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "act", rename_all = "kebab-case")]
pub enum What {
    /// A dry run: the siblings would be parted.
    WouldPart {
        /// What was waited.
        share: u64,
        /// How often siblings were stacked.
        stacked: StackedShare,
        /// The pCPUs that the vCPUs would have.
        #[serde(serialize_with = "texts")]
        sets: Sets,
    },
    /// Its siblings are parted, as a trial.
    Part {
        /// What was waited.
        share: u64,
        /// The pCPUs of the vCPUs.
        #[serde(serialize_with = "texts")]
        sets: Sets,
    },
    /// The trial stays.
    Keep {
        /// What was waited before.
        before: u64,
        /// And since.
        since: u64,
    },
    /// Other vCPUs are busy: the pCPUs were split again.
    Split {
        /// Those that changed.
        #[serde(serialize_with = "texts")]
        sets: Sets,
    },
    /// Each vCPU is pinned to one pCPU, as was asked for.
    Pin {
        /// The pCPU of each vCPU.
        #[serde(serialize_with = "texts")]
        sets: Sets,
    },
    /// It does not wait less: given back.
    Withdraw {
        /// What was waited before.
        before: u64,
        /// And since.
        since: u64,
    },
    /// It has been calm, or one vCPU at most is busy: given back.
    GiveBack,
    /// It waits though its pCPUs are idle for a part of the time: given back.
    Room {
        /// That part.
        idle: u64,
    },
    /// More vCPUs are busy than it may use pCPUs: given back.
    TooWide,
}

fn texts<S: serde::Serializer>(sets: &Sets, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(
        sets.iter()
            .map(|(vcpu, cpus)| (vcpu.to_string(), cpus.to_string())),
    )
}

impl Act {
    pub(super) fn new(at_ns: u64, vm: &str, what: What) -> Self {
        let vm = vm.to_owned();
        Self { at_ns, vm, what }
    }
}

/// Thousandths as per cent.
fn percent(permille: u64) -> String {
    format!("{}.{} %", permille / 10, permille % 10)
}

fn list(sets: &Sets) -> String {
    let words = sets
        .iter()
        .map(|(vcpu, cpus)| format!("vCPU {vcpu} on {cpus}"));
    words.collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, tenths) = (self.at_ns / 1_000_000_000, self.at_ns / 100_000_000 % 10);
        write!(f, "[{seconds}.{tenths} s] {}: ", self.vm)?;
        match &self.what {
            What::WouldPart {
                share,
                stacked,
                sets,
            } => write!(
                f,
                "would part its vCPUs, which wait {} of the time they want a pCPU; two were on one \
                 pCPU while another had none of them in {} of {} looks; {}",
                percent(*share),
                percent(stacked.permille),
                stacked.looks,
                list(sets)
            ),
            What::Part { share, sets } => write!(
                f,
                "parts its vCPUs, which wait {} of the time they want a pCPU; {}",
                percent(*share),
                list(sets)
            ),
            What::Keep { before, since } => write!(
                f,
                "keeps its vCPUs parted: they wait {}, before {}",
                percent(*since),
                percent(*before)
            ),
            What::Pin { sets } => write!(f, "pins its vCPUs, as asked; {}", list(sets)),
            What::Split { sets } => write!(f, "other vCPUs are busy; {}", list(sets)),
            What::Withdraw { before, since } => write!(
                f,
                "gives its pCPUs back: parted it waits {}, before {}",
                percent(*since),
                percent(*before)
            ),
            What::GiveBack => write!(
                f,
                "gives its pCPUs back: its vCPUs do not wait for each other now"
            ),
            What::Room { idle } => {
                write!(
                    f,
                    "gives its pCPUs back: they are idle for {} of the time",
                    percent(*idle)
                )
            }
            What::TooWide => write!(f, "gives its pCPUs back: it has more busy vCPUs than pCPUs"),
        }
    }
}
