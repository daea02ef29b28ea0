// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What happened to vCPUs, in order, so that a trace of a host can be compared with what another
//! observer saw of the same run.
//!
//! The second observer begins and ends later. It has other names for vCPUs, and another clock. So
//! each of its vCPUs is the one of ours whose VM exits and written MSRs go on longest as its own
//! do. What lies between the first and the last VM exit that both have must be the same, in the
//! same order. Left out: times.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;

use super::counts::INVVPID;
use super::stream::{Event, HostTraceError, Stream};

/// `VMX` exit reasons with a detail.
const EXCEPTION: u64 = 0;
const INTERRUPT: u64 = 1;
const VMCALL: u64 = 18;
const RDMSR: u64 = 31;
const WRMSR: u64 = 32;
/// The type of INVVPID that names an address.
const OF_AN_ADDRESS: u64 = 0;
/// The x2APIC's register that sends interprocessor interrupts.
pub const X2APIC_ICR: u64 = 0x830;
/// The bit of interruption information that says that there is one.
const VALID: u64 = 1 << 31;
/// Its type, 0 for an external interrupt.
const TYPE: u64 = 7 << 8;

/// What can be seen by both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Seen {
    /// A VM exit: its reason, with [`exit`] the vector of an interrupt.
    Exit,
    /// A VM entry: the processor.
    Entry,
    /// A guest reads a register of its processor: which.
    MsrRead,
    /// A guest writes one: which in the high half, the low half of the value in the low one.
    MsrWrite,
    /// A guest sends interprocessor interrupts: the vector.
    Ipi,
    /// A hypercall: its number.
    Hypercall,
    /// An external interrupt that a VM entry injects: its vector.
    Injected,
    /// The host invalidates one of the vCPU's pages by INVVPID: its address.
    Invalidated,
}

impl Seen {
    /// All, in the order in which they are shown.
    pub const ALL: [Self; 8] = [
        Self::Exit,
        Self::Entry,
        Self::MsrRead,
        Self::MsrWrite,
        Self::Ipi,
        Self::Hypercall,
        Self::Injected,
        Self::Invalidated,
    ];
}

/// The value of a VM exit: of an interrupt, also its vector and type.
#[must_use]
pub fn exit(reason: u64, interruption: u64) -> u64 {
    match reason & 0xffff {
        reason @ (EXCEPTION | INTERRUPT) => reason | (interruption & 0xffff_ffff) << 16,
        reason => reason,
    }
}

/// What one observer saw.
#[derive(Debug, Default, Clone)]
pub struct Sequences(BTreeMap<u64, Vcpu>);

/// What one observer saw of one vCPU.
#[derive(Debug, Default, Clone)]
struct Vcpu {
    exits: Vec<u64>,
    /// Exits and written MSRs, by which it is known.
    marks: Vec<(Seen, u64)>,
    /// The others, each with the number of exits before it.
    others: BTreeMap<Seen, Vec<(usize, u64)>>,
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
    pub ours: Option<u64>,
    /// The second one's.
    pub theirs: Option<u64>,
}

impl Sequences {
    /// Reads those of a trace, from the host's start to the window's end.
    ///
    /// # Errors
    /// [`HostTraceError`] for a trace that is cut off or damaged.
    pub fn read(input: impl BufRead) -> Result<Self, HostTraceError> {
        let mut stream = Stream::new(input)?;
        let mut all = Self::default();
        while let Some((cpu, event)) = stream.event()? {
            match event {
                Event::Entry {
                    vpid, interruption, ..
                } => {
                    if interruption & (VALID | TYPE) == VALID {
                        all.saw(vpid, Seen::Injected, interruption & 0xff);
                    }
                    all.saw(vpid, Seen::Entry, cpu as u64);
                }
                Event::Exit {
                    reason,
                    vpid,
                    detail,
                } => all.left(vpid, reason, detail),
                Event::Control(INVVPID, false, OF_AN_ADDRESS, [vpid, address]) => {
                    all.saw(vpid & 0xffff, Seen::Invalidated, address);
                }
                _ => {}
            }
        }
        Ok(all)
    }

    /// A VM exit, as a trace has it.
    fn left(&mut self, vpid: u64, reason: u64, detail: u64) {
        self.saw(vpid, Seen::Exit, exit(reason, detail));
        let (register, value) = (detail & 0xffff_ffff, detail >> 32);
        match reason & 0xffff {
            VMCALL => self.saw(vpid, Seen::Hypercall, detail),
            RDMSR => self.saw(vpid, Seen::MsrRead, register),
            WRMSR => {
                self.saw(vpid, Seen::MsrWrite, register << 32 | value);
                if register == X2APIC_ICR {
                    self.saw(vpid, Seen::Ipi, value & 0xff);
                }
            }
            _ => {}
        }
    }

    /// Notes what happened to a vCPU.
    pub fn saw(&mut self, vcpu: u64, seen: Seen, value: u64) {
        let its = self.0.entry(vcpu).or_default();
        if matches!(seen, Seen::Exit | Seen::MsrWrite) {
            its.marks.push((seen, value));
        }
        match seen {
            Seen::Exit => its.exits.push(value),
            seen => its
                .others
                .entry(seen)
                .or_default()
                .push((its.exits.len(), value)),
        }
    }

    /// These beside those of another observer, each of [`Seen::ALL`].
    #[must_use]
    pub fn beside(&self, theirs: &Self) -> Vec<Beside> {
        let mut all = Seen::ALL.map(Beside::of);
        for (vcpu, (vpid, from)) in self.names(theirs) {
            let (ours, theirs) = (&self.0[&vpid], &theirs.0[&vcpu]);
            let ours_exits = &ours.exits[from..];
            let both = ours_exits.len().min(theirs.exits.len());
            all[0].add(vpid, &ours_exits[..both], &theirs.exits[..both]);
            let pairs = ours_exits.iter().zip(&theirs.exits);
            let agreed = pairs.take_while(|(our, their)| our == their).count();
            for kind in &mut all[1..] {
                let ours = ours.between(kind.seen, from, agreed);
                kind.add(vpid, &ours, &theirs.between(kind.seen, 0, agreed));
            }
        }
        all.to_vec()
    }

    /// Of each of their vCPUs our name, and how many of our exits came before theirs: the longest
    /// agreement first, and each name once.
    fn names(&self, theirs: &Self) -> BTreeMap<u64, (u64, usize)> {
        let mut pairs = Vec::new();
        for (&vcpu, its) in &theirs.0 {
            for (&vpid, ours) in &self.0 {
                let (from, agreed) = overlap(&ours.marks, &its.marks);
                let before = &ours.marks[..from];
                let before = before
                    .iter()
                    .filter(|(seen, _)| *seen == Seen::Exit)
                    .count();
                pairs.push((usize::MAX - agreed, vpid, vcpu, before));
            }
        }
        pairs.sort_unstable();
        let (mut names, mut taken) = (BTreeMap::new(), BTreeSet::new());
        for (_, vpid, vcpu, before) in pairs {
            if !names.contains_key(&vcpu) && taken.insert(vpid) {
                names.insert(vcpu, (vpid, before));
            }
        }
        names
    }
}

impl Vcpu {
    /// What was seen between its exit of this number and the last of `exits` further ones.
    fn between(&self, seen: Seen, from: usize, exits: usize) -> Vec<u64> {
        let within = from + 1..from + exits;
        let its = self.others.get(&seen).into_iter().flatten();
        its.filter(|(before, _)| within.contains(before))
            .map(|&(_, value)| value)
            .collect()
    }
}

/// From where on ours agrees with theirs longest, and for how long: by the Z algorithm, in time
/// that grows with both.
fn overlap<T: PartialEq + Copy>(ours: &[T], theirs: &[T]) -> (usize, usize) {
    let at = |index: usize| match index.checked_sub(theirs.len()) {
        None => theirs[index],
        Some(index) => ours[index],
    };
    if theirs.is_empty() {
        return (ours.len(), 0);
    }
    let all = theirs.len() + ours.len();
    // How long what begins at each index is what theirs begins with; of theirs itself it may go on
    // into ours.
    let mut lengths = vec![0; all];
    let (mut left, mut right) = (0, 0);
    let mut best = (ours.len(), 0);
    for index in 1..all {
        let mut length = match index < right {
            true => lengths[index - left].min(right - index),
            false => 0,
        };
        while index + length < all && at(length) == at(index + length) {
            length += 1;
        }
        lengths[index] = length;
        if index + length > right {
            (left, right) = (index, index + length);
        }
        let agreed = length.min(theirs.len());
        if index >= theirs.len() && agreed > best.1 {
            best = (index - theirs.len(), agreed);
        }
    }
    best
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

    fn add(&mut self, vpid: u64, ours: &[u64], theirs: &[u64]) {
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
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::overlap;

    proptest! {
        #[test]
        fn the_longest_overlap_is_that_of_a_search(
            ours in prop::collection::vec(0_u64..3, 0..24),
            theirs in prop::collection::vec(0_u64..3, 0..12),
        ) {
            let agreed = |from: usize| {
                let pairs = ours[from..].iter().zip(&theirs);
                pairs.take_while(|(our, their)| our == their).count()
            };
            let longest = (0..ours.len()).map(agreed).max().unwrap_or(0);
            let first = (0..ours.len()).find(|&from| longest > 0 && agreed(from) == longest);
            prop_assert_eq!(overlap(&ours, &theirs), (first.unwrap_or(ours.len()), longest));
        }
    }
}
