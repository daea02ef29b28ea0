// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two observers of one host: did both see the same?
//!
//! The second one begins later, may end sooner, has other names for vCPUs and another clock. The
//! pair of vCPUs whose VM exits and written MSRs agree longest says when it began: behind one exit
//! of ours and before another. Order is the same for both, so that holds for all other vCPUs. It
//! ended where all vCPUs can have been seen for the last time. Between these each of our exits must
//! be one of theirs, and what lies between two of them must be the same, in the same order.
//!
//! Left out: times. So where a vCPU does the same again and again, one event more or less just when
//! the other began or ended is not found.

use std::collections::{BTreeMap, BTreeSet};

use super::overlap::overlap;
use super::sequences::{Exit, Seen, Sequences, Vcpu};

/// Exits and written MSRs in which a pair must agree to say when the second observer began.
const FEWEST: usize = 100;

/// By each VPID of ours, their vCPU and the first of our exits that it can have seen.
type Pairs = BTreeMap<u64, (u64, usize)>;

/// Why two observers cannot be compared.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "no vCPU says when the kernel's trace began: the best agrees in {agreed} VM exits and written \
     MSRs, and at another place in {second}; expected {FEWEST} or more, and at other places at \
     most half. Record a later time, or more of it"
)]
pub struct NotAligned {
    /// In how many marks the best pair agrees.
    pub agreed: usize,
    /// In how many it agrees elsewhere.
    pub second: usize,
}

/// Both observers' events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// Each of [`Seen::ALL`].
    pub kinds: Vec<Beside>,
    /// vCPUs that both know.
    pub vcpus: usize,
    /// Our vCPUs with exits since the other began, which it does not know.
    pub ours_alone: Vec<u64>,
    /// Its vCPUs that we do not know.
    pub theirs_alone: Vec<u64>,
    /// Our exits since the other ended, if it ended sooner.
    pub ours_later: u64,
}

impl Comparison {
    /// Whether both saw the same of these kinds.
    #[must_use]
    pub fn agrees(&self, compared: &[Seen]) -> bool {
        let mut kinds = self
            .kinds
            .iter()
            .filter(|kind| compared.contains(&kind.seen));
        self.ours_alone.is_empty()
            && self.theirs_alone.is_empty()
            && kinds.all(|kind| kind.differences.is_empty())
    }
}

/// One kind as both saw it, of all vCPUs, in the time that both saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beside {
    /// Which.
    pub seen: Seen,
    /// Events of the first observer.
    pub ours: u64,
    /// Events of the second one.
    pub theirs: u64,
    /// Events in which both agree, before they first differ.
    pub agreed: u64,
    /// Of each vCPU that differs: where, and both values there.
    pub differences: Vec<Difference>,
}

/// Where two sequences differ first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The vCPU by its VPID.
    pub vpid: u64,
    /// How many events agree before.
    pub at: usize,
    /// The first observer's value; `None` if it saw nothing more.
    pub ours: Option<u128>,
    /// The second one's.
    pub theirs: Option<u128>,
}

impl Sequences {
    /// These beside those of an observer who began later.
    ///
    /// # Errors
    /// [`NotAligned`] if no vCPU says when it began.
    pub fn beside(&self, theirs: &Self) -> Result<Comparison, NotAligned> {
        let (pairs, since) = self.pairs(theirs)?;
        let ended = self.ended(theirs, &pairs);
        let mut kinds = Seen::ALL.map(Beside::of).to_vec();
        let mut ours_later = 0;
        for (&vpid, &(vcpu, from)) in &pairs {
            let (ours, theirs) = (&self.vcpus[&vpid], &theirs.vcpus[&vcpu]);
            let end = ours.behind(ended).max(from);
            ours_later += (ours.exits.len() - end) as u64;
            let values = |exits: &[Exit]| exits.iter().map(|exit| exit.value).collect::<Vec<_>>();
            let mine = values(&ours.exits[from..end]);
            let other = values(&theirs.exits[..mine.len().min(theirs.exits.len())]);
            let agreed = kinds[0].add(vpid, &mine, &other);
            for kind in &mut kinds[1..] {
                let mine = ours.between(kind.seen, from, agreed);
                kind.add(vpid, &mine, &theirs.between(kind.seen, 0, agreed));
            }
        }
        let known: BTreeSet<u64> = pairs.values().map(|&(vcpu, _)| vcpu).collect();
        let later = |its: &Vcpu| its.exits.last().is_some_and(|exit| exit.order >= since);
        let ours = self.vcpus.iter().filter(|(_, its)| later(its));
        let theirs = theirs.vcpus.iter().filter(|(_, its)| !its.exits.is_empty());
        Ok(Comparison {
            kinds,
            vcpus: pairs.len(),
            ours_alone: ours
                .map(|(&vpid, _)| vpid)
                .filter(|vpid| !pairs.contains_key(vpid))
                .collect(),
            theirs_alone: theirs
                .map(|(&vcpu, _)| vcpu)
                .filter(|vcpu| !known.contains(vcpu))
                .collect(),
            ours_later,
        })
    }

    /// The order of our first exit that the other cannot have seen, as it had ended: of all vCPUs
    /// the last that it saw came before. There is none where it only missed some.
    fn ended(&self, theirs: &Self, pairs: &Pairs) -> u64 {
        let (mut seen, mut next) = (0, u64::MAX);
        for (vpid, &(vcpu, from)) in pairs {
            let (ours, theirs) = (&self.vcpus[vpid].exits[from..], &theirs.vcpus[&vcpu].exits);
            let both = ours.iter().zip(theirs);
            let agreed = both
                .take_while(|(our, their)| our.value == their.value)
                .count();
            if let Some(last) = ours[..agreed].last() {
                seen = seen.max(last.order);
            }
            if agreed == theirs.len() {
                next = next.min(ours.get(agreed).map_or(u64::MAX, |exit| exit.order));
            }
        }
        match seen < next {
            true => next,
            false => u64::MAX,
        }
    }

    /// The pairs, and the order of the first exit of ours behind their beginning.
    fn pairs(&self, theirs: &Self) -> Result<(Pairs, u64), NotAligned> {
        let mut pairs = BTreeMap::new();
        let first = self.anchor(theirs)?;
        let mut began = self.vcpus[&first.0].around(first.2);
        let mut next = Some(first);
        while let Some((vpid, vcpu, from)) = next {
            let [after, until] = self.vcpus[&vpid].around(from);
            began = [began[0].max(after), began[1].min(until)];
            pairs.insert(vpid, (vcpu, from));
            let free = |vcpu: &u64| pairs.values().all(|(known, _)| known != vcpu);
            let mut best: Option<(usize, u64, u64, usize)> = None;
            for (&vcpu, its) in theirs.vcpus.iter().filter(|(vcpu, _)| free(vcpu)) {
                let ours = self.vcpus.iter();
                for (&vpid, ours) in ours.filter(|(vpid, _)| !pairs.contains_key(vpid)) {
                    for from in ours.begun(began) {
                        let agreed = ours.agreed(from, its);
                        if best.is_none_or(|(most, ..)| agreed > most) {
                            best = Some((agreed, vpid, vcpu, from));
                        }
                    }
                }
            }
            next = best.map(|(_, vpid, vcpu, from)| (vpid, vcpu, from));
        }
        Ok((pairs, began[1]))
    }

    /// The pair of vCPUs that agrees longest, and the first of our exits that they share.
    fn anchor(&self, theirs: &Self) -> Result<(u64, u64, usize), NotAligned> {
        let mut best = (NotAligned::default(), (0, 0, 0));
        for (&vcpu, its) in &theirs.vcpus {
            let Some(first) = its.exits.first() else {
                continue;
            };
            for (&vpid, ours) in &self.vcpus {
                let [(mark, agreed), (_, second)] = overlap(&ours.marks, &its.marks[first.mark..]);
                let exit = ours.exits.partition_point(|exit| exit.mark < mark);
                if agreed > best.0.agreed {
                    best = (NotAligned { agreed, second }, (vpid, vcpu, exit));
                }
            }
        }
        let (found, pair) = best;
        match found.agreed >= FEWEST && found.second <= found.agreed / 2 {
            true => Ok(pair),
            false => Err(found),
        }
    }
}

impl Vcpu {
    /// The orders between which one began whose first exit is this one: after the one, and not
    /// after the other.
    fn around(&self, from: usize) -> [u64; 2] {
        let order = |at: usize| self.exits.get(at).map(|exit| exit.order);
        let before = from.checked_sub(1).and_then(order);
        [before.unwrap_or(0), order(from).unwrap_or(u64::MAX)]
    }

    /// What can be the first exit that one saw who began between these orders.
    fn begun(&self, [after, until]: [u64; 2]) -> std::ops::RangeInclusive<usize> {
        self.behind(after + 1)..=self.behind(until)
    }

    /// How many of its exits come before this order.
    fn behind(&self, order: u64) -> usize {
        self.exits.partition_point(|exit| exit.order < order)
    }

    /// In how many marks it agrees from an exit on.
    fn agreed(&self, from: usize, theirs: &Self) -> usize {
        let (Some(our), Some(their)) = (self.exits.get(from), theirs.exits.first()) else {
            return 0;
        };
        let pairs = self.marks[our.mark..]
            .iter()
            .zip(&theirs.marks[their.mark..]);
        pairs.take_while(|(our, their)| our == their).count()
    }

    /// What was seen between its exit of this number and the last of `exits` further ones.
    fn between(&self, seen: Seen, from: usize, exits: usize) -> Vec<u128> {
        let within = from + 1..from + exits;
        let its = self.others.get(&seen).into_iter().flatten();
        its.filter(|(before, _)| within.contains(before))
            .map(|&(_, value)| value)
            .collect()
    }
}

impl Beside {
    fn of(seen: Seen) -> Self {
        Self {
            seen,
            ours: 0,
            theirs: 0,
            agreed: 0,
            differences: Vec::new(),
        }
    }

    /// Compares a vCPU's; in how many both agree before they differ.
    fn add(&mut self, vpid: u64, ours: &[u128], theirs: &[u128]) -> usize {
        let pairs = ours.iter().zip(theirs);
        let at = pairs.take_while(|(our, their)| our == their).count();
        self.ours += ours.len() as u64;
        self.theirs += theirs.len() as u64;
        self.agreed += at as u64;
        if at < ours.len().max(theirs.len()) {
            self.differences.push(Difference {
                vpid,
                at,
                ours: ours.get(at).copied(),
                theirs: theirs.get(at).copied(),
            });
        }
        at
    }
}
