// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Table pages: where they come from, how they move and are freed, and what is read in a frame that
//! one of them has left.
//!
//! A table page leaves its frame with the span that it maps, or because its guest or the host moves
//! it. Until the frame is a table page again it holds what it held: a walk that goes on there reads
//! old entries. What is read in a frame that has become another table page are that one's entries.

use super::{Agent, Cause, NONE, Os, Remap, Space};
use crate::config::Mode;
use crate::layout::{Key, LARGE_SHIFT};
use crate::radix::{ENTRIES, Gone, Node, Radix, Step, covered};

/// A page that holds a part of a page table, by who moves what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TablePage {
    /// The guest moves a page of its own table.
    Guest,
    /// The host moves the frame behind a page of the guest's table, of which it knows nothing.
    Behind,
    /// The host moves a page of the nested table.
    Host,
}

/// An entry that led to a table page that is elsewhere now, or freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableChange {
    /// The entry is the nested table's for a page of the guest's table: nested TLBs hold it. Else
    /// it stands above the leaves of the agent's own table: walk caches hold it.
    pub behind: bool,
    /// System-physical address of the entry.
    pub entry: u64,
    /// The system-physical frame that the table page has left.
    pub left: u64,
}

/// What an entry says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Says {
    Nothing,
    /// The table page in this frame, as the table's owner sees it.
    Table(u64),
    /// The page in this frame, as the table's owner sees it, and its bits.
    Page {
        frame: u64,
        writable: bool,
        dirty: bool,
    },
}

impl Os {
    /// Entries a walk of the guest (or native) table reads for `key`, root first.
    pub fn guest_path(&mut self, key: Key) -> ([Step; 4], usize) {
        let depth = if key.is_large() { 3 } else { 4 };
        let Space {
            guest,
            free_tables,
            next_guest_table,
            ..
        } = &mut self.spaces[usize::from(key.vm())];
        let (fresh, left) = (&mut self.frames, &mut self.left);
        let native = self.mode == Mode::Native;
        let path = guest.path(key.first_vpn(), depth, || {
            let (frame, backing) = free_tables.pop().unwrap_or_else(|| {
                *next_guest_table += 1;
                let backing = fresh.take();
                (if native { backing } else { *next_guest_table }, backing)
            });
            left.remove(&backing);
            (frame, backing)
        });
        (path, depth)
    }

    /// Entries a walk of the nested table reads for guest frame `gpn`, root first.
    pub fn host_path(&mut self, vm: u16, gpn: u64, large: bool) -> ([Step; 4], usize) {
        let depth = if large { 3 } else { 4 };
        let (fresh, left) = (&mut self.frames, &mut self.left);
        let host = &mut self.spaces[usize::from(vm)].host;
        let path = host.path(gpn, depth, || {
            let frame = fresh.take();
            left.remove(&frame);
            (frame, frame)
        });
        (path, depth)
    }

    /// The guest frees the table pages that map nothing but pages `first..end`.
    pub(super) fn free_tables(&mut self, vm: u16, first: u64, end: u64) -> Vec<TableChange> {
        let space = &mut self.spaces[usize::from(vm)];
        let freed = space.guest.free_within(first, end);
        let pairs = freed.iter().map(|gone| (gone.frame, gone.backing));
        space.free_tables.extend(pairs);
        let change = |gone: &Gone| TableChange {
            behind: false,
            entry: gone.entry,
            left: gone.backing,
        };
        freed.iter().map(change).collect()
    }

    /// Moves the table page that a walk for `key` reads at `level`; the root has level 0 and moves
    /// only behind its guest's back, as nothing caches what leads to it. `None` where there is no
    /// such page.
    pub fn move_table(&mut self, which: TablePage, key: Key, level: usize) -> Option<Remap> {
        let vm = key.vm();
        let mapping = self.peek(key)?;
        let (path, depth) = match which {
            TablePage::Host => self.host_path(vm, mapping.gpn, key.is_large()),
            _ => self.guest_path(key),
        };
        let native = self.mode == Mode::Native;
        let lowest = usize::from(which != TablePage::Behind);
        if !(lowest..depth).contains(&level) || (native && which != TablePage::Guest) {
            return None;
        }
        let old = path[level];
        let entry = match which {
            TablePage::Behind => {
                let (nested, leaf) = self.host_path(vm, old.frame, false);
                nested[leaf - 1].address
            }
            _ => path[level - 1].address,
        };
        let says = self.contents(old.backing())?;
        let to = self.frames.take();
        self.left.remove(&to);
        self.left.insert(old.backing(), says);
        let space = &mut self.spaces[usize::from(vm)];
        match which {
            TablePage::Guest => {
                space.next_guest_table += 1;
                let frame = if native { to } else { space.next_guest_table };
                space.free_tables.push((old.frame, old.backing()));
                space.guest.rehome(key.first_vpn(), level, (frame, to));
            }
            TablePage::Behind => space.guest.rehome(key.first_vpn(), level, (old.frame, to)),
            TablePage::Host => space.host.rehome(mapping.gpn, level, (to, to)),
        }
        if which != TablePage::Guest {
            self.frames.free.push(old.backing());
        }
        let behind = which == TablePage::Behind;
        let change = TableChange {
            behind,
            entry,
            left: old.backing(),
        };
        let host = which != TablePage::Guest;
        Some(Remap {
            vm,
            agent: if host { Agent::Host } else { Agent::Guest },
            cause: Cause::Migration,
            changes: Vec::new(),
            tables: vec![change],
            frees: false,
            victims: None,
        })
    }

    /// What the entry `index` of the table page that is or was in a system frame says.
    pub(crate) fn says(&self, frame: u64, index: usize) -> Says {
        let old = self.left.get(&frame).map(|says| says[index]);
        old.or_else(|| Some(self.contents(frame)?[index]))
            .unwrap_or(Says::Nothing)
    }

    /// What the table page in a system frame says, if there is one.
    fn contents(&self, frame: u64) -> Option<Vec<Says>> {
        (0..self.vms()).find_map(|vm| {
            let space = &self.spaces[usize::from(vm)];
            let guest = space.guest.in_frame(frame);
            let guest = guest.map(|node| self.guest_says(vm, node));
            guest.or_else(|| Some(self.host_says(vm, space.host.in_frame(frame)?)))
        })
    }

    fn guest_says(&self, vm: u16, node: &Node) -> Vec<Says> {
        let radix = &self.spaces[usize::from(vm)].guest;
        let leaf = |page: u64, level: usize| {
            let key = match level {
                2 => Key::large(vm, page >> LARGE_SHIFT),
                _ => Key::small(vm, page),
            };
            let mapping = self.peek(key)?;
            let native = self.mode == Mode::Native;
            Some(Says::Page {
                frame: if native { mapping.spn } else { mapping.gpn },
                writable: mapping.writable,
                dirty: mapping.dirty,
            })
        };
        entries(radix, node, leaf)
    }

    fn host_says(&self, vm: u16, node: &Node) -> Vec<Says> {
        let space = &self.spaces[usize::from(vm)];
        let (level, base) = node.place();
        let within = |gpn: u64| {
            let at = gpn.checked_sub(base)? / covered(level);
            (at < ENTRIES as u64).then_some(crate::num::ix(at))
        };
        let mut backs = vec![None; ENTRIES];
        let data = self
            .blocks
            .iter()
            .filter(|block| block.page != NONE && block.vm == vm && block.large == (level == 2));
        let data = data.map(|block| (block.gpn, block.spn));
        for (gpn, spn) in data.chain(space.guest.pages().filter(|_| level == 3)) {
            if let Some(at) = within(gpn) {
                backs[at] = Some(spn);
            }
        }
        let leaf = |page: u64, _: usize| {
            Some(Says::Page {
                frame: backs[within(page)?]?,
                writable: true,
                dirty: true,
            })
        };
        entries(&space.host, node, leaf)
    }
}

/// The entries of a table page; `leaf` says what maps a page at a level.
fn entries(radix: &Radix, node: &Node, leaf: impl Fn(u64, usize) -> Option<Says>) -> Vec<Says> {
    let (level, base) = node.place();
    let entry = |index: usize| match radix.child(node, index) {
        Some(table) => Says::Table(table),
        None if level < 2 => Says::Nothing,
        None => leaf(base + index as u64 * covered(level), level).unwrap_or(Says::Nothing),
    };
    (0..ENTRIES).map(entry).collect()
}

/// Frames for table pages.
#[derive(Debug, Clone, Default)]
pub(super) struct TableFrames {
    /// The one given out last.
    pub last: u64,
    /// Given back.
    pub free: Vec<u64>,
}

impl TableFrames {
    pub fn take(&mut self) -> u64 {
        self.free.pop().unwrap_or_else(|| {
            self.last += 1;
            self.last
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Says, TablePage};
    use crate::config::MachineConfig;
    use crate::layout::Key;
    use crate::os::Os;
    use crate::radix::index;

    const KEY: Key = Key::small(0, 0x1_2345);

    /// What the leaf table says of the key, in the frame that the table page is in.
    fn leaf(os: &mut Os) -> (u64, Says) {
        let (path, depth) = os.guest_path(KEY);
        let frame = path[depth - 1].backing();
        (frame, os.says(frame, index(KEY.page(), depth - 1)))
    }

    #[test]
    fn a_frame_that_a_table_has_left_says_what_it_said_until_it_is_a_table_again() {
        for which in [TablePage::Guest, TablePage::Behind] {
            let mut os = Os::new(&MachineConfig::default(), 1, 1);
            let gpn = os.resolve(KEY).gpn;
            let (old, said) = leaf(&mut os);
            assert!(matches!(said, Says::Page { frame, dirty: false, .. } if frame == gpn));
            let update = os.move_table(which, KEY, 3).expect("it is there");
            assert_eq!(update.tables[0].left, old);
            os.set_dirty(KEY);
            let (new, says) = leaf(&mut os);
            assert!(new != old && matches!(says, Says::Page { dirty: true, .. }));
            assert_eq!(os.says(old, index(KEY.page(), 3)), said, "{which:?}");
            // The next table page gets the frame.
            let far = Key::small(0, KEY.page() + 512);
            os.resolve(far);
            os.guest_path(far);
            assert_ne!(os.says(old, index(KEY.page(), 3)), said, "{which:?}");
        }
    }

    #[test]
    fn the_nested_table_s_old_page_leads_where_the_page_was() {
        let mut os = Os::new(&MachineConfig::default(), 1, 1);
        let mapping = os.resolve(KEY);
        os.guest_path(KEY);
        let (path, depth) = os.host_path(0, mapping.gpn, false);
        let old = path[depth - 1].backing();
        os.move_table(TablePage::Host, KEY, 3).expect("it is there");
        let plan = os.plan_migration(mapping.spn).expect("it is in NVM");
        os.describe_migration(&plan).expect("nothing has changed");
        os.apply_migration(&plan);
        let says = os.says(old, index(mapping.gpn, 3));
        assert!(matches!(says, Says::Page { frame, .. } if frame == mapping.spn));
        assert_ne!(os.resolve(KEY).spn, mapping.spn);
    }
}
