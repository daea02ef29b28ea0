// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Walks of recorded tables, by the architecture (SDM volume 3, 5.5 and 30.3): four levels of the
//! host's or a guest's, and four of the EPT for each of these. Left out: five levels, 32-bit
//! tables, and rights.

use super::stream::Context;

const PRESENT: u64 = 1;
/// Read, write, execute: one of them makes an EPT entry present.
const EPT_RIGHTS: u64 = 7;
const LARGE: u64 = 1 << 7;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;
/// CR0.PG, CR4.PAE and CR4.LA57 in [`Context::cr0_cr4`], EFER.LMA.
const PAGING: u64 = 1 << 31;
const LA57: u64 = 1 << (32 + 12);
const LONG_MODE: u64 = 1 << 10;

/// Frames that were read as tables, with their contents.
#[derive(Debug)]
pub struct Frames(Vec<Option<Box<[u64; 512]>>>);

/// What a walk came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Walk {
    /// The frame of the page.
    Frame(u64),
    /// An entry is not present.
    Absent,
    /// A table was not recorded.
    Unknown,
    /// The processor was in a mode that is not walked.
    Mode,
}

/// An entry that a walk reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// 4 for the root, 1 for the table whose entries are all pages.
    pub level: u8,
    /// The host's frame of the table.
    pub frame: u64,
    /// Of 512.
    pub index: usize,
    /// What it says.
    pub entry: u64,
}

impl Frames {
    /// For a host with this many frames.
    #[must_use]
    pub fn new(frames: u64) -> Self {
        Self((0..frames).map(|_| None).collect())
    }

    /// Whether the frame is known.
    #[must_use]
    pub fn knows(&self, frame: u64) -> bool {
        self.slot(frame).is_some()
    }

    fn slot(&self, frame: u64) -> Option<&[u64; 512]> {
        self.0.get(usize::try_from(frame).ok()?)?.as_deref()
    }

    /// A frame's contents, 4096 bytes.
    pub fn set(&mut self, frame: u64, bytes: &[u8]) {
        debug_assert_eq!(bytes.len(), 4096, "a whole frame");
        let mut entries = Box::new([0; 512]);
        for (entry, eight) in entries.iter_mut().zip(bytes.chunks_exact(8)) {
            *entry = u64::from_le_bytes(eight.try_into().unwrap_or([0; 8]));
        }
        if let Some(slot) = usize::try_from(frame)
            .ok()
            .and_then(|at| self.0.get_mut(at))
        {
            *slot = Some(entries);
        }
    }

    /// A write; how many entries it changed in address or low rights, 0 for a frame not known.
    pub fn write(&mut self, place: u64, bytes: &[u8]) -> u64 {
        debug_assert!(
            (place & 0xfff) + bytes.len() as u64 <= 4096,
            "within a frame"
        );
        let frame = usize::try_from(place >> 12).unwrap_or(usize::MAX);
        let Some(Some(entries)) = self.0.get_mut(frame) else {
            return 0;
        };
        let mut changed = 0;
        let mut last = None;
        for (at, &byte) in (place & 0xfff..4096).zip(bytes) {
            let index = usize::try_from(at / 8).unwrap_or(0);
            let shift = at % 8 * 8;
            let old = entries[index];
            entries[index] = old & !(0xff << shift) | u64::from(byte) << shift;
            let differs = (old ^ entries[index]) & (ADDRESS | EPT_RIGHTS) != 0;
            if differs && last != Some(index) {
                changed += 1;
                last = Some(index);
            }
        }
        changed
    }

    /// The frame of the host that a linear address has in a context.
    #[must_use]
    pub fn walk(&self, context: &Context, linear: u64) -> Walk {
        if context.cr0_cr4 & PAGING == 0
            || context.efer & LONG_MODE == 0
            || context.cr0_cr4 & LA57 != 0
        {
            return Walk::Mode;
        }
        let host = |physical: u64| match context.eptp {
            0 => Walk::Frame(physical >> 12),
            eptp => self.levels(eptp, physical, EPT_RIGHTS, Walk::Frame),
        };
        let guest = self.levels(context.cr3, linear, PRESENT, |frame| host(frame << 12));
        match guest {
            Walk::Frame(frame) => host(frame << 12),
            other => other,
        }
    }

    /// The entries of the guest's or the host's own tables that a walk reads, root first, and the
    /// frame of the page as these tables have it. It ends early, without a frame, where an entry is
    /// not present or a table is not known.
    #[must_use]
    pub fn path(&self, context: &Context, linear: u64) -> (Vec<Step>, Option<u64>) {
        let mut steps = Vec::new();
        if context.cr0_cr4 & PAGING == 0
            || context.efer & LONG_MODE == 0
            || context.cr0_cr4 & LA57 != 0
        {
            return (steps, None);
        }
        let frame = self.steps(
            context.cr3,
            linear,
            PRESENT,
            |frame| self.backing(context.eptp, frame, None),
            &mut steps,
        );
        (steps, frame)
    }

    /// The host's frame behind a guest's; the same where there is no EPT. What the EPT's walk reads
    /// goes to `steps`.
    #[must_use]
    pub fn backing(&self, eptp: u64, frame: u64, steps: Option<&mut Vec<Step>>) -> Option<u64> {
        if eptp == 0 {
            return Some(frame);
        }
        let mut unused = Vec::new();
        let steps = steps.unwrap_or(&mut unused);
        self.steps(eptp, frame << 12, EPT_RIGHTS, Some, steps)
    }

    fn steps(
        &self,
        root: u64,
        address: u64,
        present: u64,
        place: impl Fn(u64) -> Option<u64>,
        steps: &mut Vec<Step>,
    ) -> Option<u64> {
        let mut table = root & ADDRESS;
        for level in (1..=4u8).rev() {
            let frame = place(table >> 12)?;
            let shift = 12 + 9 * u32::from(level - 1);
            let index = usize::try_from(address >> shift & 0x1ff).unwrap_or(0);
            let entry = self.slot(frame)?[index];
            steps.push(Step {
                level,
                frame,
                index,
                entry,
            });
            if entry & present == 0 {
                return None;
            }
            if level == 1 || (level < 4 && entry & LARGE != 0) {
                let within = (1u64 << shift) - 1;
                return Some((entry & ADDRESS & !within | address & within) >> 12);
            }
            table = entry & ADDRESS;
        }
        None
    }

    /// The 512 entries of a frame that is known.
    #[must_use]
    pub fn entries(&self, frame: u64) -> Option<&[u64; 512]> {
        self.slot(frame)
    }

    /// Four levels from a root on; `place` says in which frame of the host a table is.
    fn levels(&self, root: u64, address: u64, present: u64, place: impl Fn(u64) -> Walk) -> Walk {
        let mut table = root & ADDRESS;
        for level in (0..4u32).rev() {
            let frame = match place(table >> 12) {
                Walk::Frame(frame) => frame,
                other => return other,
            };
            let Some(entries) = self.slot(frame) else {
                return Walk::Unknown;
            };
            let shift = 12 + 9 * level;
            let entry = entries[usize::try_from(address >> shift & 0x1ff).unwrap_or(0)];
            if entry & present == 0 {
                return Walk::Absent;
            }
            if level == 0 || (level < 3 && entry & LARGE != 0) {
                let within = (1u64 << shift) - 1;
                return Walk::Frame((entry & ADDRESS & !within | address & within) >> 12);
            }
            table = entry & ADDRESS;
        }
        Walk::Absent
    }
}
