// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One step of `fold`: reads what the guest got, judges, and keeps its programs on fewer CPUs or on
//! all of them.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use steady_hostview::{Cpus, Host, Topology};

use super::groups::{Groups, Written};
use super::judge::{Bounds, Judge, Verdict};
use super::share::Did;
use super::threads::Needs;
use crate::error::SteerError;
use crate::state::State;

/// Intervals after which groups that are new are folded too.
const AGAIN: u32 = 8;
/// The first kernel that keeps what a thread asked for over a change of its cpuset
/// (kernel/sched/core.c, `user_cpus_ptr`).
const KEEPS_MASKS: (u32, u32) = (6, 2);

/// What `fold` did or would do. Shares are in thousandths of what the guest wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Act {
    /// When, by the monotonic clock, in nanoseconds.
    pub at_ns: u64,
    /// What and why.
    #[serde(flatten)]
    pub what: What,
}

/// What and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "act", rename_all = "kebab-case")]
pub enum What {
    /// Its programs run on these CPUs.
    Run {
        /// The CPUs.
        cpus: String,
        /// What was stolen.
        stolen: u64,
        /// A dry run: they would.
        dry: bool,
    },
    /// The fold helps.
    Keep {
        /// What was stolen before.
        before: u64,
        /// And since.
        since: u64,
    },
    /// It does not: they run on all CPUs again.
    Unfold {
        /// What was stolen before.
        before: u64,
        /// And since.
        since: u64,
    },
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, tenths) = (self.at_ns / 1_000_000_000, self.at_ns / 100_000_000 % 10);
        let percent = |share: u64| format!("{}.{} %", share / 10, share % 10);
        write!(f, "[{seconds}.{tenths} s] ")?;
        match &self.what {
            What::Run { cpus, stolen, dry } => {
                let would = if *dry { "would run" } else { "run" };
                write!(
                    f,
                    "{} is stolen: programs {would} on CPUs {cpus}",
                    percent(*stolen)
                )
            }
            What::Keep { before, since } => {
                write!(
                    f,
                    "stays folded: {} is stolen, before {}",
                    percent(*since),
                    percent(*before)
                )
            }
            What::Unfold { before, since } => write!(
                f,
                "runs on all CPUs again: folded {} is stolen, before {}; others take what it \
                 leaves",
                percent(*since),
                percent(*before)
            ),
        }
    }
}

/// Folds a guest.
#[derive(Debug)]
pub struct Folder {
    host: Host,
    bounds: Bounds,
    all: Cpus,
    now: Cpus,
    judge: Judge,
    groups: Groups,
    /// Groups that were given CPUs here.
    set: Vec<PathBuf>,
    /// `None`: a dry run.
    state: Option<State<Written>>,
    keeps_masks: bool,
    needs: Needs,
    last: Option<(u64, Did)>,
    since_set: u32,
}

impl Folder {
    /// Begins; `state` is `None` for a dry run.
    ///
    /// # Errors
    /// [`SteerError::NoSteal`], [`SteerError::NoCpuset`], [`SteerError::State`].
    pub fn new(
        host: Host,
        bounds: Bounds,
        mut state: Option<State<Written>>,
    ) -> Result<Self, SteerError> {
        if Did::read(&host).is_none() {
            return Err(SteerError::NoSteal(host.proc.join("stat")));
        }
        let groups = Groups::prepare(&host, state.as_mut())?;
        let all = Topology::read(&host).online;
        let release = fs::read_to_string(host.proc.join("sys/kernel/osrelease"));
        Ok(Self {
            judge: Judge::new(bounds, count(&all)),
            bounds,
            now: all.clone(),
            all,
            groups,
            set: Vec::new(),
            state,
            keeps_masks: version(&release.unwrap_or_default()) >= KEEPS_MASKS,
            needs: Needs::default(),
            last: None,
            since_set: 0,
            host,
        })
    }

    /// The CPUs of the guest.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.all.len()
    }

    /// Reads, judges, and acts.
    ///
    /// # Errors
    /// [`SteerError`] if a change cannot be made or noted.
    pub fn step(&mut self, now_ns: u64) -> Result<Option<Act>, SteerError> {
        let Some(did) = Did::read(&self.host) else {
            return Ok(None);
        };
        let Some((then_ns, before)) = self.last.replace((now_ns, did)) else {
            return Ok(None);
        };
        self.follow_hotplug()?;
        let length_ns = now_ns.saturating_sub(then_ns);
        let verdict = self.judge.judge(now_ns, length_ns, did.since(&before));
        self.since_set += 1;
        let what = match verdict {
            Verdict::Leave if self.since_set >= AGAIN && self.now != self.all => {
                self.keep_on(self.now.clone())?;
                return Ok(None);
            }
            Verdict::Leave => return Ok(None),
            Verdict::Run(cpus, stolen) => {
                self.needs = Needs::read(&self.host, &self.now);
                let chosen = self.needs.choose(&self.all, cpus);
                let (cpus, dry) = (chosen.to_string(), self.state.is_none());
                if dry {
                    self.judge.decline(now_ns);
                } else {
                    self.keep_on(chosen)?;
                }
                What::Run { cpus, stolen, dry }
            }
            Verdict::Keep(before, since) => What::Keep { before, since },
            Verdict::Unfold(before, since) => {
                self.keep_on(self.all.clone())?;
                What::Unfold { before, since }
            }
        };
        Ok(Some(Act {
            at_ns: now_ns,
            what,
        }))
    }

    /// CPUs came or went: all begins again.
    fn follow_hotplug(&mut self) -> Result<(), SteerError> {
        let all = Topology::read(&self.host).online;
        if all != self.all && !all.is_empty() {
            self.keep_on(self.all.clone())?;
            self.judge = Judge::new(self.bounds, count(&all));
            (self.now, self.all) = (all.clone(), all);
        }
        Ok(())
    }

    fn keep_on(&mut self, cpus: Cpus) -> Result<(), SteerError> {
        self.since_set = 0;
        let Some(state) = &mut self.state else {
            return Ok(());
        };
        let (keeps, bound) = (self.keeps_masks, &self.needs.groups);
        let spared = |group: &Path| {
            let name = group.file_name().and_then(|name| name.to_str());
            !keeps && name.is_some_and(|name| bound.contains(name))
        };
        let some = Some(&cpus).filter(|cpus| **cpus != self.all);
        self.groups.keep_on(some, &spared, &mut self.set, state)?;
        self.now = cpus;
        Ok(())
    }

    /// Undoes everything, as at the end.
    ///
    /// # Errors
    /// [`SteerError::State`].
    pub fn finish(mut self) -> Result<crate::state::Undone, SteerError> {
        match &mut self.state {
            Some(state) => state.undo(&self.host, &mut ()),
            None => Ok(crate::state::Undone::default()),
        }
    }
}

fn count(cpus: &Cpus) -> u32 {
    u32::try_from(cpus.len()).unwrap_or(u32::MAX).max(1)
}

/// Major and minor of a kernel's release.
fn version(release: &str) -> (u32, u32) {
    let mut numbers = release
        .split(|byte: char| !byte.is_ascii_digit())
        .map(str::parse);
    let mut next = || numbers.next().and_then(Result::ok).unwrap_or(0);
    (next(), next())
}
