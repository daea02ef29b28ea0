// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What frames that are read as tables are for: whose, at which level, for which pages.
//!
//! A page has a name within its owner, the host or a VM. Each third-level table, which maps 512
//! GiB, gets one of 512 slots when a walk first reads it, and gives it back when the entry that
//! leads to it goes. So processes are apart, and what they share, as the kernel's half, is one. The
//! name is the slot and the page's place in it, 36 bits in all. Pages of the EPT have the
//! guest's numbers.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::stream::Context;
use super::walk::Frames;

/// Pages of a slot, as a shift.
pub(super) const SLOT_SHIFT: u32 = 27;
const WITHIN: u64 = (1 << SLOT_SHIFT) - 1;
/// Slots of an owner: the entries of a root.
const SLOTS: usize = 512;
const PRESENT: u64 = 1;
const WRITABLE: u64 = 1 << 1;
const LARGE: u64 = 1 << 7;
const NO_EXECUTE: u64 = 1 << 63;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;
const EPT_RIGHTS: u64 = 7;

/// What a write did to an entry that maps a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// The page was not mapped and is now.
    New,
    /// It is not mapped any more, or not present.
    Gone,
    /// It is in another frame.
    Moved,
    /// It lost a right.
    Fewer,
    /// It got a right and lost none.
    More,
}

impl Change {
    /// All, in the order of counts.
    pub const ALL: [Self; 5] = [Self::New, Self::Gone, Self::Moved, Self::Fewer, Self::More];

    /// Whether a translation cached before may not be used any more.
    #[must_use]
    pub const fn revokes(self) -> bool {
        matches!(self, Self::Gone | Self::Moved | Self::Fewer)
    }

    /// Of an entry from `old` to `new`; `None` where no page, or nothing of it, has changed.
    fn of(old: u64, new: u64, ept: bool) -> Option<Self> {
        let present = |entry: u64| entry & if ept { EPT_RIGHTS } else { PRESENT } != 0;
        // As bits that are rights.
        let rights = |entry: u64| match ept {
            true => entry & EPT_RIGHTS,
            false => entry & WRITABLE | (!entry & NO_EXECUTE) >> 61,
        };
        match (present(old), present(new)) {
            (false, false) => None,
            (false, true) => Some(Self::New),
            (true, false) => Some(Self::Gone),
            _ if (old ^ new) & ADDRESS != 0 => Some(Self::Moved),
            _ if rights(old) & !rights(new) != 0 => Some(Self::Fewer),
            _ if rights(new) & !rights(old) != 0 => Some(Self::More),
            _ => None,
        }
    }
}

/// One entry that maps pages has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// 0 the host, others VMs.
    pub owner: u16,
    /// Of the host's EPT for the VM; the page is the guest's frame then.
    pub ept: bool,
    /// 1 for 4 KiB, 2 for 2 MiB, 3 for 1 GiB.
    pub level: u8,
    /// The first page that it maps.
    pub page: u64,
    /// What happened.
    pub change: Change,
    /// The names of the pages that were seen there, if the change revokes.
    pub names: Vec<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Role {
    owner: u16,
    ept: bool,
    level: u8,
    base: u64,
}

/// Which third-level tables of an owner have slots.
#[derive(Debug, Default)]
struct Slots {
    of_table: HashMap<u64, u64>,
    free: Vec<u64>,
    given: u64,
    /// Those of the kernel's half.
    upper: HashSet<u64>,
}

/// The roles of all frames.
#[derive(Debug, Default)]
pub(super) struct Roles {
    of_frame: HashMap<u64, Role>,
    slots: BTreeMap<u16, Slots>,
    /// Pages whose tables have their roles.
    seen: HashSet<(u16, u64)>,
    /// Pages by the guest's frame that they had at first sight.
    behind: HashMap<(u16, u64), Vec<u64>>,
    /// Tables that went, by owner and whether of the EPT.
    pub freed: BTreeMap<(u16, bool), u64>,
    /// A slot was asked for that an owner does not have.
    pub crowded: Option<u16>,
}

fn child(entry: u64) -> u64 {
    (entry & ADDRESS) >> 12
}

impl Roles {
    /// The page of an address, by the table that its first two entries lead to; `None` where that
    /// is not known.
    pub fn page(
        &mut self,
        frames: &Frames,
        owner: u16,
        context: &Context,
        linear: u64,
    ) -> Option<u64> {
        let root = frames.backing(context.eptp, child(context.cr3), None)?;
        let index = usize::try_from(linear >> 39 & 0x1ff).unwrap_or(0);
        let entry = frames.entries(root)?[index];
        if entry & PRESENT == 0 {
            return None;
        }
        let table = frames.backing(context.eptp, child(entry), None)?;
        let slot = self.slot(owner, table, index >= 256)?;
        debug_assert!(slot < SLOTS as u64, "a name has 36 bits");
        Some(slot << SLOT_SHIFT | linear >> 12 & WITHIN)
    }

    fn slot(&mut self, owner: u16, table: u64, upper: bool) -> Option<u64> {
        let slots = self.slots.entry(owner).or_default();
        if let Some(&slot) = slots.of_table.get(&table) {
            return Some(slot);
        }
        let slot = match slots.free.pop() {
            Some(slot) => slot,
            None if slots.given < SLOTS as u64 => {
                slots.given += 1;
                slots.given - 1
            }
            None => {
                self.crowded = Some(owner);
                return None;
            }
        };
        slots.of_table.insert(table, slot);
        if upper {
            slots.upper.insert(slot);
        } else {
            slots.upper.remove(&slot);
        }
        Some(slot)
    }

    /// An access of this page: its tables have their roles from now on.
    pub fn accessed(
        &mut self,
        frames: &Frames,
        (owner, page): (u16, u64),
        context: &Context,
        linear: u64,
    ) {
        if !self.seen.insert((owner, page)) {
            return;
        }
        let (steps, frame) = frames.path(context, linear);
        let role = |ept, level, base| Role {
            owner,
            ept,
            level,
            base,
        };
        for step in &steps {
            // What a table of this level maps, in pages.
            let covered = 1u64 << (9 * u32::from(step.level));
            let base = match step.level {
                4 => 0,
                _ => page & !(covered - 1),
            };
            self.of_frame
                .insert(step.frame, role(false, step.level, base));
        }
        if context.eptp == 0 {
            return;
        }
        let guests = steps.iter().filter(|step| step.level > 1);
        let tables = guests.map(|step| child(step.entry));
        let mut behind: Vec<u64> = tables.chain([child(context.cr3)]).collect();
        if let Some(frame) = frame {
            behind.push(frame);
            self.behind.entry((owner, frame)).or_default().push(page);
        }
        let mut nested = Vec::new();
        for gpn in behind {
            nested.clear();
            let _ = frames.backing(context.eptp, gpn, Some(&mut nested));
            for step in &nested {
                let covered = 1u64 << (9 * u32::from(step.level));
                let base = match step.level {
                    4 => 0,
                    _ => gpn & !(covered - 1),
                };
                self.of_frame
                    .insert(step.frame, role(true, step.level, base));
            }
        }
    }

    /// Whether a frame is a root, or a table of the EPT above its pages.
    pub fn is_root(&self, frame: u64) -> bool {
        self.of_frame
            .get(&frame)
            .is_some_and(|role| role.level == 4)
    }

    /// An entry has changed: which page's, if a table's role says so. `eptp` is that of an owner.
    pub fn wrote(
        &mut self,
        frames: &Frames,
        (frame, index): (u64, usize),
        (old, new): (u64, u64),
        eptp: impl Fn(u16) -> u64,
        out: &mut Vec<Leaf>,
    ) {
        let Some(&role) = self.of_frame.get(&frame) else {
            return;
        };
        assert!(index < 512 && (1..=4).contains(&role.level), "a table's");
        let covered = 1u64 << (9 * u32::from(role.level - 1));
        let page = role.base + index as u64 * covered;
        let is_page = |entry: u64| role.level == 1 || (role.level < 4 && entry & LARGE != 0);
        let bits = if role.ept { EPT_RIGHTS } else { PRESENT };
        let led = old & bits != 0 && !is_page(old);
        let gone = new & bits == 0 || is_page(new) || (old ^ new) & ADDRESS != 0;
        if led {
            if gone {
                let eptp = if role.ept { 0 } else { eptp(role.owner) };
                if let Some(table) = frames.backing(eptp, child(old), None) {
                    self.free(
                        frames,
                        table,
                        (role.owner, role.ept, role.level - 1),
                        eptp,
                        out,
                    );
                }
            }
            return;
        }
        let pages = |entry: u64| if is_page(entry) { entry } else { 0 };
        let Some(change) = Change::of(pages(old), pages(new), role.ept) else {
            return;
        };
        let names = match change.revokes() {
            true => self.unsee(role.owner, role.ept, page..page + covered),
            false => Vec::new(),
        };
        out.push(Leaf {
            owner: role.owner,
            ept: role.ept,
            level: role.level,
            page,
            change,
            names,
        });
    }

    /// These pages are not translated as they were: their tables get their roles again. Returns the
    /// pages' names; those of the EPT have the names of the pages that had these frames.
    fn unsee(&mut self, owner: u16, ept: bool, pages: std::ops::Range<u64>) -> Vec<u64> {
        let names: Vec<u64> = match ept {
            false => pages.collect(),
            true => pages
                .flat_map(|gpn| self.behind.remove(&(owner, gpn)).unwrap_or_default())
                .collect(),
        };
        for &page in &names {
            self.seen.remove(&(owner, page));
        }
        names
    }

    /// Whether a page is one of the kernel's half, which is in every space of its owner.
    pub fn is_kernels(&self, owner: u16, page: u64) -> bool {
        let slots = self.slots.get(&owner);
        slots.is_some_and(|slots| slots.upper.contains(&(page >> SLOT_SHIFT)))
    }

    /// A table is not read any more, nor are those below it; what they still map is gone.
    fn free(
        &mut self,
        frames: &Frames,
        table: u64,
        (owner, ept, level): (u16, bool, u8),
        eptp: u64,
        out: &mut Vec<Leaf>,
    ) {
        let is_its = |role: &&Role| (role.owner, role.ept, role.level) == (owner, ept, level);
        let Some(role) = self.of_frame.get(&table).filter(is_its).copied() else {
            return;
        };
        assert!((1..=3).contains(&level), "an entry led to it");
        self.of_frame.remove(&table);
        *self.freed.entry((owner, ept)).or_default() += 1;
        let entries = frames.entries(table).copied().unwrap_or([0; 512]);
        for (index, entry) in entries.into_iter().enumerate() {
            let bits = if ept { EPT_RIGHTS } else { PRESENT };
            if entry & bits == 0 {
                continue;
            }
            if level > 1 && entry & LARGE == 0 {
                if let Some(below) = frames.backing(eptp, child(entry), None) {
                    self.free(frames, below, (owner, ept, level - 1), eptp, out);
                }
                continue;
            }
            let covered = 1u64 << (9 * u32::from(level - 1));
            let page = role.base + index as u64 * covered;
            let names = self.unsee(owner, ept, page..page + covered);
            out.push(Leaf {
                owner,
                ept,
                level,
                page,
                change: Change::Gone,
                names,
            });
        }
        if level == 3
            && !ept
            && let Some(slots) = self.slots.get_mut(&owner)
            && let Some(slot) = slots.of_table.remove(&table)
        {
            slots.free.push(slot);
        }
    }
}
