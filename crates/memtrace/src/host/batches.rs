// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which changes of tables made one update, and which vCPUs invalidated for it.
//!
//! Guests do not say where an update begins and ends. The rules: changes that revoke, of one vCPU,
//! make one update until an invalidation of one of its pages; the next change is of another update.
//! A vCPU that invalidates a page of another one's last update, or all of its address space, is its
//! victim: by itself, in a handler, or by the host with INVVPID. Victims of a change of the EPT are
//! the processors that execute INVEPT. `docs/formats/hosttrace.md` has the rules' limits.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::roles::{Change, Leaf};

/// A VM's vCPU by its VPID, or a processor of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Actor {
    /// A processor.
    Processor(u16),
    /// A vCPU, by its VPID.
    Vcpu(u16),
}

/// Changes of tables that one actor makes at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// Number of the event before which the first invalidation of it was, or at which its last
    /// change was.
    pub at: u64,
    /// Whose translations: 0 the host's, others a VM's.
    pub owner: u16,
    /// The host changed the EPT; its own tables and a guest's else.
    pub ept: bool,
    /// Who did it.
    pub by: Actor,
    /// The names of its pages, sorted. Of the EPT, those that accesses have had there.
    pub pages: Vec<u64>,
    /// Entries changed, each of a page of any size.
    pub entries: u64,
    /// Of these, those that only lost rights.
    pub fewer: Vec<u64>,
    /// An invalidation of its own was seen.
    pub invalidated: bool,
    /// Who else invalidated by itself.
    pub told: BTreeSet<Actor>,
    /// vCPUs that the host did it for.
    pub told_by_host: BTreeSet<Actor>,
}

/// An update that may still get changes or victims.
#[derive(Debug)]
pub(super) struct Batch {
    update: Update,
    pages: HashSet<u64>,
    root: u64,
    kernels: bool,
    /// The event of its last change.
    changed: u64,
    closed: bool,
}

/// The last update of each actor, and all before.
#[derive(Debug, Default)]
pub(super) struct Batches {
    open: BTreeMap<(Actor, bool), Batch>,
    done: Vec<Update>,
}

impl Batch {
    /// Whether a page is of it.
    pub fn has(&self, page: u64) -> bool {
        self.pages.contains(&page)
    }

    /// Whether it is of the address space with this root alone.
    pub const fn is_of(&self, root: u64) -> bool {
        !self.kernels && self.root == root
    }

    fn close(&mut self, events: u64) {
        if !self.closed {
            self.closed = true;
            self.update.at = events;
        }
    }

    fn whole(self) -> Update {
        assert!(self.update.entries > 0, "something has changed");
        let mut update = self.update;
        update.pages = self.pages.into_iter().collect();
        update.pages.sort_unstable();
        update.fewer.sort_unstable();
        update
    }
}

impl Batches {
    /// All updates in the order of `at`.
    pub fn finish(mut self) -> Vec<Update> {
        let open = self.open.into_values();
        self.done.extend(open.map(Batch::whole));
        self.done
            .sort_by_key(|update| (update.at, update.by, update.ept));
        self.done
    }

    /// An entry that revokes was written by an actor, in the address space of a root or in the half
    /// that all spaces have; `at` is the number of the event.
    pub fn change(&mut self, leaf: &Leaf, by: Actor, at: u64, (root, kernels): (u64, bool)) {
        assert!(leaf.change.revokes(), "only what revokes is one");
        let key = (by, leaf.ept);
        let is_over = |open: &Batch| open.closed || open.update.owner != leaf.owner;
        if self.open.get(&key).is_some_and(is_over)
            && let Some(open) = self.open.remove(&key)
        {
            self.done.push(open.whole());
        }
        let open = self.open.entry(key).or_insert_with(|| Batch {
            update: Update {
                at,
                owner: leaf.owner,
                ept: leaf.ept,
                by,
                pages: Vec::new(),
                entries: 0,
                fewer: Vec::new(),
                invalidated: false,
                told: BTreeSet::new(),
                told_by_host: BTreeSet::new(),
            },
            pages: HashSet::new(),
            root,
            kernels,
            changed: at,
            closed: false,
        });
        (open.update.at, open.changed) = (at, at);
        open.kernels |= kernels;
        open.update.entries += 1;
        for &page in &leaf.names {
            if open.pages.insert(page) && leaf.change == Change::Fewer {
                open.update.fewer.push(page);
            }
        }
    }

    /// An actor invalidates what `is_it` says, or the host for it.
    pub fn tell(
        &mut self,
        owner: u16,
        (actor, by_host): (Actor, bool),
        events: u64,
        is_it: impl Fn(&Batch) -> bool,
    ) {
        let fits =
            |open: &&mut Batch| !open.update.ept && open.update.owner == owner && is_it(open);
        // An older one of the same pages was invalidated before.
        let latest = self.open.values_mut().filter(fits);
        let Some(open) = latest.max_by_key(|open| open.changed) else {
            return;
        };
        if open.update.by == actor {
            open.update.invalidated = true;
        } else if by_host {
            open.update.told_by_host.insert(actor);
        } else {
            open.update.told.insert(actor);
        }
        open.close(events);
    }

    /// A processor executed INVEPT for an owner's EPT that is known or not, or for all.
    pub fn nested(&mut self, actor: Actor, owner: Option<Option<u16>>, events: u64) {
        for open in self.open.values_mut() {
            let fits = owner.is_none_or(|owner| owner == Some(open.update.owner));
            if !open.update.ept || !fits {
                continue;
            }
            if open.update.by == actor {
                open.update.invalidated = true;
            } else {
                open.update.told.insert(actor);
            }
            open.close(events);
        }
    }
}
