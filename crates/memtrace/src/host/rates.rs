// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How often a host and its guests change their tables in a trace, and how many vCPUs invalidate.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;

use super::batches::{Actor, Update};
use super::roles::Change;
use super::stream::{Event, HostTraceError, Stream};
use super::tracker::{Tracker, What};

/// Updates of one owner's tables by one agent.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Updates {
    /// All that revoke something.
    pub all: u64,
    /// Pages that they revoke, of any size.
    pub pages: u64,
    /// Most pages of one.
    pub most_pages: u64,
    /// Those that no invalidation was seen of.
    pub silent: u64,
    /// Those that only their initiator invalidated.
    pub private: u64,
    /// Shootdowns: others invalidated.
    pub shootdowns: u64,
    /// Pages that these revoke.
    pub shot_pages: u64,
    /// Who invalidated by themselves, of all shootdowns.
    pub victims: u64,
    /// vCPUs that the host did it for.
    pub victims_by_host: u64,
    /// Shootdowns by their number of victims of both kinds.
    pub by_victims: BTreeMap<u64, u64>,
    /// Updates by pages, up to 1, 2, 4, 8, ...: the key is the upper end.
    pub by_pages: BTreeMap<u64, u64>,
}

/// The rates of the host, or of a VM.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Owner {
    /// VPIDs of a VM that is seen in the trace.
    pub vpids: Vec<u16>,
    /// Accesses, and stores among them.
    pub accesses: [u64; 2],
    /// Instructions between its accesses.
    pub instructions: u64,
    /// Different pages accessed.
    pub pages: u64,
    /// Changes of its own tables' entries that map pages, by level: new, gone, moved, fewer rights,
    /// more rights.
    pub changes: BTreeMap<u8, [u64; 5]>,
    /// The same of the EPT for it.
    pub ept_changes: BTreeMap<u8, [u64; 5]>,
    /// Table pages freed: its own, the EPT's for it.
    pub freed: [u64; 2],
    /// Of its own tables.
    pub updates: Updates,
    /// Of the EPT for it.
    pub ept_updates: Updates,
    /// INVVPID for it: of an address, of more.
    pub invvpid: [u64; 2],
}

/// The rates of a trace.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Rates {
    /// Processors.
    pub cpus: usize,
    /// Ticks of the clock in the window.
    pub ticks: u64,
    /// By owner: 0 the host, others VMs in the order of their first entry.
    pub owners: BTreeMap<u16, Owner>,
    /// Processors on which each vCPU accessed memory, by VPID.
    pub ran: BTreeMap<u16, BTreeSet<usize>>,
    /// Accesses of contexts that are not followed.
    pub unknown: u64,
    /// All updates, by when they were.
    pub updates: Vec<Update>,
}

impl Updates {
    fn add(&mut self, update: &Update) {
        let pages = update.entries;
        assert!(
            !update.told.contains(&update.by),
            "nothing is its own victim"
        );
        let victims = update.told.union(&update.told_by_host).count() as u64;
        self.all += 1;
        self.pages += pages;
        self.most_pages = self.most_pages.max(pages);
        *self.by_pages.entry(pages.next_power_of_two()).or_default() += 1;
        if victims > 0 {
            self.shootdowns += 1;
            self.shot_pages += pages;
            self.victims += update.told.len() as u64;
            self.victims_by_host += update.told_by_host.len() as u64;
            *self.by_victims.entry(victims).or_default() += 1;
        } else if update.invalidated {
            self.private += 1;
        } else {
            self.silent += 1;
        }
    }
}

impl Rates {
    /// Reads a trace to its end.
    ///
    /// # Errors
    /// [`HostTraceError`] for a trace that is cut off or damaged, or one with more address spaces
    /// at once than there are names.
    pub fn read(input: impl BufRead) -> Result<Self, HostTraceError> {
        let mut stream = Stream::new(input)?;
        let mut tracker = Tracker::new(stream.cpus(), stream.frames());
        let mut rates = Self {
            cpus: stream.cpus(),
            ..Self::default()
        };
        let mut seen = std::collections::HashSet::new();
        while let Some((cpu, event)) = stream.event()? {
            let what = tracker.event(cpu, &event);
            if let Some(owner) = tracker.crowded() {
                return Err(HostTraceError::Crowded { owner });
            }
            match (event, what) {
                (
                    Event::Access {
                        write,
                        instructions,
                        ..
                    },
                    What::Access(owner, by, page),
                ) => {
                    let its = rates.owners.entry(owner).or_default();
                    its.accesses[0] += 1;
                    its.accesses[1] += u64::from(write);
                    its.instructions += instructions;
                    its.pages += u64::from(seen.insert((owner, page)));
                    if let Actor::Vcpu(vpid) = by {
                        rates.ran.entry(vpid).or_default().insert(cpu);
                    }
                }
                (Event::Access { .. }, _) => rates.unknown += 1,
                (Event::Open, _) => rates.ticks = stream.clock(),
                _ => {}
            }
        }
        rates.ticks = stream.clock().saturating_sub(rates.ticks);
        rates.sum(tracker);
        Ok(rates)
    }

    fn sum(&mut self, tracker: Tracker) {
        for (&vpid, &owner) in tracker.vms() {
            let its = self.owners.entry(owner).or_default();
            its.vpids.push(vpid);
        }
        for (&(owner, ept, level, change), &count) in &tracker.changes {
            let its = self.owners.entry(owner).or_default();
            let changes = match ept {
                true => &mut its.ept_changes,
                false => &mut its.changes,
            };
            let kind = Change::ALL.iter().position(|&kind| kind == change);
            changes.entry(level).or_default()[kind.unwrap_or(0)] += count;
        }
        for (&(owner, ept), &count) in tracker.freed() {
            self.owners.entry(owner).or_default().freed[usize::from(ept)] += count;
        }
        for (&owner, &counts) in &tracker.invvpid {
            self.owners.entry(owner).or_default().invvpid = counts;
        }
        self.updates = tracker.finish();
        for update in &self.updates {
            let its = self.owners.entry(update.owner).or_default();
            match update.ept {
                true => its.ept_updates.add(update),
                false => its.updates.add(update),
            }
        }
    }
}
