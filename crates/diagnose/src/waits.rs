// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The waits of one vCPU: how long they were, who ran meanwhile, and whether one shows what it was
//! for.
//!
//! Left out: what a limit's period is; any wait that a tick or a neighbour's turn may have ended
//! shows nothing of that.

use std::collections::{BTreeMap, BTreeSet};

use steady_events::vcpu_number;

use crate::names::{Names, Who};
use crate::preempt::longest;
use crate::spread::add;

/// Threads that one vCPU's waits are divided by; further ones go by their names.
pub const MOST_THREADS: usize = 128;
/// The longest waits of each vCPU that are kept.
const MOST_STALLS: usize = 16;
/// Ends of waits that are kept of each vCPU.
const MOST_REFILLS: usize = 1024;
/// A ready vCPU whose pCPU idles for longer is not waiting for the pCPU to wake.
pub const WAKING_NS: u64 = 1_000_000;
/// A limit keeps a vCPU waiting for less, in nanoseconds: two of the longest periods
/// (`max_cfs_quota_period`, Linux 6.12), since what was used beyond the quota is taken back.
const LONGEST_THROTTLE_NS: u64 = 2_000_000_000;

/// What a pCPU did in the place of a vCPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rival {
    /// It ran this thread, named as when it was switched out.
    Thread(Who),
    /// It ran one of the threads beyond the bound, whose names are not among those that are kept.
    Others,
    /// It served interrupts, or what they had deferred.
    Interrupts,
    /// It was idle, though the vCPU was on its queue and had been descheduled.
    Limit,
    /// It was idle and had to wake first.
    Waking,
    /// The trace does not show what it ran.
    Unknown,
}

impl Rival {
    /// Whether it is a thread of this id.
    #[must_use]
    pub(crate) fn is_thread(self, tid: i32) -> bool {
        matches!(self, Self::Thread(who) if who.tid == tid)
    }
}

/// One wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// When it began.
    pub begin_ns: u64,
    /// How long it was.
    pub length_ns: u64,
    /// The pCPU on whose queue it ended.
    pub cpu: u32,
    /// Who ran for most of it.
    pub rival: Rival,
    /// Whether that one ran for two thirds of it and more, and shows to be what it waited for, as
    /// in [`Waits::shown_ns`].
    pub shown: bool,
    /// Whether it began before the trace did: it was longer.
    pub from_begin: bool,
}

/// A wait that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// When it began.
    pub begin_ns: u64,
    /// How long it was.
    pub length_ns: u64,
    /// The pCPU on whose queue it ended.
    pub cpu: u32,
    /// Whether it began with a wake-up.
    pub woken: bool,
    /// Whether it began before the trace did: how is not known.
    pub from_begin: bool,
}

/// A wait that goes on.
#[derive(Debug, Clone)]
pub struct Open {
    pub begin_ns: u64,
    pub cpu: u32,
    pub woken: bool,
    /// Whether it began before the trace did.
    pub from_begin: bool,
    /// Up to when it is divided, and the pCPU's and the host's clocks then.
    pub upto_ns: u64,
    pub irq_ns: u64,
    pub idle_ns: u64,
    pub by: Vec<(Rival, u64)>,
    /// Whether a thread left the pCPU by itself, and one followed that had not run before.
    pub passed_over: bool,
    /// The thread that left it by itself at the wait's end.
    pub left: Option<i32>,
    /// The longest time in which no pCPU had a record, if it is long.
    pub quiet_ns: u64,
    /// The longest time in which its pCPU had no record, though a thread ran there that the
    /// scheduler would have taken off it.
    pub silent_ns: u64,
    /// What it adds to [`Waits::assumed_ns`], [`Waits::elsewhere_idle_ns`] and
    /// [`Waits::doubted_ns`].
    pub assumed_ns: u64,
    pub elsewhere_idle_ns: u64,
    pub doubted_ns: u64,
    /// Up to when losses of other pCPUs are in it.
    pub doubted_upto_ns: u64,
}

/// The waits of one vCPU.
#[derive(Debug, Default)]
pub struct Waits {
    /// All of them, in nanoseconds.
    pub total_ns: u64,
    /// Of that, after it was switched out ready.
    pub descheduled_ns: u64,
    /// Of that, after it was woken.
    pub woken_ns: u64,
    /// By who ran.
    pub by: BTreeMap<Rival, u64>,
    /// Of that, by threads that no record shows up to the wait's end: others may have followed. And
    /// waits whose begin no record shows.
    pub assumed_ns: u64,
    /// In losses, after it was seen waiting: it may have gone on waiting.
    pub unknown_ns: u64,
    /// The longest of these that a loss cut off: begin, length, pCPU.
    pub worst_lost: Option<(u64, u64, u32)>,
    /// For how long it was seen running.
    pub ran_ns: u64,
    /// While its own pCPU was busy and another was idle.
    pub elsewhere_idle_ns: u64,
    /// Of all waits, while another pCPU lost events: it may have run there and come back.
    pub doubted_ns: u64,
    /// The weakest priority that its thread had, if the trace shows it.
    pub prio: Option<u8>,
    /// pCPUs that it ran on; the first few.
    pub ran_on: BTreeSet<u32>,
    /// The longest waits, longest first.
    pub worst: Vec<Stall>,
    /// Of all waits, those that show what they were for: the thread that ran for most of one left
    /// the pCPU by itself, and the vCPU came next; or they are longer than any limit's. A host that
    /// recorded nothing for most of one may have stood still.
    pub shown_ns: u64,
    /// Of all waits, those in which its pCPU had no record for so long that events may be lost, and
    /// the longest such time.
    pub silent_ns: u64,
    pub longest_silent_ns: u64,
    /// Of all waits, those in which its own pCPU was idle for a millisecond and more.
    pub idled_ns: u64,
    /// How many these are.
    pub idled: u64,
    /// When the first of these ended, and for how long it had been seen running then.
    pub refills: Vec<(u64, u64)>,
    pub open: Option<Open>,
    /// The wait that began before the trace did, if it shows to be one when the trace is over.
    pub from_begin: Option<Open>,
    pub unknown_since_ns: Option<u64>,
    /// Since when a loss hides what it does, and on which pCPU it was then.
    pub lost_since: Option<(u64, u32, Rival)>,
    /// What [`Self::unknown_ns`] has of losses, by who ran until then.
    pub lost_after: BTreeMap<Rival, u64>,
    pub ran_since_ns: Option<u64>,
}

/// What a rival counts as beyond the bound: a thread goes with one of the same name, as the
/// processes of a build do. One that may be a vCPU stays apart.
pub fn beyond(names: &Names, rival: Rival, mut known: impl Iterator<Item = Rival>) -> Rival {
    let Rival::Thread(who) = rival else {
        return rival;
    };
    let (name, _) = names.get(who);
    if vcpu_number(name.as_bytes()).is_some() {
        return Rival::Unknown;
    }
    let same = known.find(|known| match known {
        Rival::Thread(other) => names.get(*other).0 == name,
        _ => false,
    });
    same.unwrap_or(Rival::Others)
}

impl Open {
    /// A wait that begins, with the clocks of its pCPU's interrupts and of the host's idle time.
    pub fn new(cpu: u32, now_ns: u64, irq_ns: u64, idle_ns: u64) -> Self {
        Self {
            begin_ns: now_ns,
            cpu,
            woken: false,
            from_begin: false,
            upto_ns: now_ns,
            irq_ns,
            idle_ns,
            by: Vec::new(),
            passed_over: false,
            left: None,
            quiet_ns: 0,
            silent_ns: 0,
            assumed_ns: 0,
            elsewhere_idle_ns: 0,
            doubted_ns: 0,
            doubted_upto_ns: now_ns,
        }
    }
}

impl Waits {
    /// A record shows what it does.
    pub fn known(&mut self, now_ns: u64) {
        if let Some(since_ns) = self.unknown_since_ns.take() {
            add(&mut self.unknown_ns, now_ns.saturating_sub(since_ns));
        }
        if let Some((since_ns, cpu, rival)) = self.lost_since.take() {
            let length_ns = now_ns.saturating_sub(since_ns);
            if self.lost_after.len() < MOST_THREADS || self.lost_after.contains_key(&rival) {
                add(self.lost_after.entry(rival).or_default(), length_ns);
            }
            longest(&mut self.worst_lost, (since_ns, length_ns, cpu));
        }
    }

    pub fn stops(&mut self, now_ns: u64) {
        if let Some(since_ns) = self.ran_since_ns.take() {
            add(&mut self.ran_ns, now_ns.saturating_sub(since_ns));
        }
    }

    /// A wait in which its pCPU was idle ends.
    fn idled(&mut self, end_ns: u64, length_ns: u64, from_begin: bool) {
        add(&mut self.idled_ns, length_ns);
        self.idled += 1;
        // What began before the trace is only known when it is over.
        if self.refills.len() < MOST_REFILLS && !from_begin {
            self.refills.push((end_ns, self.ran_ns));
        }
    }

    /// A wait ends in whose longest part its pCPU had no record.
    fn silent(&mut self, silent_ns: u64, length_ns: u64) {
        assert!(silent_ns <= length_ns, "a part of the wait");
        if silent_ns > length_ns / 2 {
            add(&mut self.silent_ns, length_ns);
            self.longest_silent_ns = self.longest_silent_ns.max(silent_ns);
        }
    }

    pub fn close(&mut self, open: Open, names: &Names) -> Ended {
        let length_ns = open.upto_ns.saturating_sub(open.begin_ns);
        assert!(open.assumed_ns <= length_ns, "a part of the wait");
        add(&mut self.assumed_ns, open.assumed_ns);
        add(&mut self.elsewhere_idle_ns, open.elsewhere_idle_ns);
        add(&mut self.doubted_ns, open.doubted_ns.min(length_ns));
        let mut most = (Rival::Unknown, 0);
        let threads = open.by.iter();
        let threads = threads.filter(|(of, _)| matches!(of, Rival::Thread(_)));
        let of_most = threads.max_by_key(|(_, ns)| *ns).map(|(rival, _)| *rival);
        let left = |tid| of_most.is_some_and(|rival| rival.is_thread(tid));
        let by_itself = !open.passed_over && open.left.is_some_and(left);
        let unseen_ns = open.quiet_ns.max(open.doubted_ns).max(open.silent_ns);
        self.silent(open.silent_ns, length_ns);
        let shown = unseen_ns <= length_ns / 2 && (by_itself || length_ns > LONGEST_THROTTLE_NS);
        assert!(
            !shown || of_most.is_some() || length_ns > LONGEST_THROTTLE_NS,
            "by a thread"
        );
        for (rival, ns) in open.by {
            let rival = match rival {
                Rival::Limit if open.woken && ns < WAKING_NS => Rival::Waking,
                other => other,
            };
            if ns > most.1 {
                most = (rival, ns);
            }
            if rival == Rival::Limit && ns >= WAKING_NS {
                self.idled(open.upto_ns, length_ns, open.from_begin);
            }
            let known = self.by.contains_key(&rival);
            let into = if known || self.by.len() < MOST_THREADS {
                rival
            } else {
                beyond(names, rival, self.by.keys().copied())
            };
            add(self.by.entry(into).or_default(), ns);
        }
        add(&mut self.total_ns, length_ns);
        if shown {
            add(&mut self.shown_ns, length_ns);
        }
        let kind = match open.woken {
            true => &mut self.woken_ns,
            false => &mut self.descheduled_ns,
        };
        add(kind, length_ns);
        let stall = Stall {
            begin_ns: open.begin_ns,
            length_ns,
            cpu: open.cpu,
            rival: most.0,
            shown: shown && most.1 >= length_ns / 3 * 2,
            from_begin: open.from_begin,
        };
        let at = self
            .worst
            .partition_point(|known| known.length_ns >= length_ns);
        if at < MOST_STALLS && length_ns > 0 {
            self.worst.insert(at, stall);
            self.worst.truncate(MOST_STALLS);
        }
        assert!(self.worst.len() <= MOST_STALLS, "memory stays bounded");
        Ended {
            begin_ns: open.begin_ns,
            length_ns,
            cpu: open.cpu,
            woken: open.woken,
            from_begin: open.from_begin,
        }
    }
}
