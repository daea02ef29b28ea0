// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Follows a trace of a host: whose each access is, its changes of tables, its invalidations.

use std::collections::{BTreeMap, HashMap};

use super::batches::{Actor, Batches, Update};
use super::roles::{Change, Leaf, Roles};
use super::stream::{Context, Event};
use super::walk::Frames;

/// Of Bochs's `enum BX_Instr_TLBControl`.
const MOV_CR3: u64 = 11;
const MOV_CR4: u64 = 12;
const INVLPG: u64 = 15;
const INVEPT: u64 = 16;
const INVVPID: u64 = 17;
const INVPCID: u64 = 18;
/// In MOV to CR3: what the address space has in the TLB stays.
const NO_FLUSH: u64 = 1 << 63;
/// A root, without the half that is the kernel's own or the program's.
const ROOT: u64 = 0x000f_ffff_ffff_e000;

/// What an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// An access: its owner, its vCPU or processor, the page's name.
    Access(u16, Actor, u64),
    /// Of a context that has no page in known tables, or of no VM.
    Unknown,
    /// Anything else.
    Other,
}

#[derive(Debug, Default)]
struct Cpu {
    context: Context,
    /// Slots by entry of the root, of one context and one state of the tables.
    pages: HashMap<u64, u64>,
    of: (u64, Context),
}

/// The state of a host while its trace is read.
#[derive(Debug)]
pub struct Tracker {
    frames: Frames,
    roles: Roles,
    cpus: Vec<Cpu>,
    owners: BTreeMap<u64, u16>,
    vpids: BTreeMap<u16, u16>,
    eptps: BTreeMap<u16, u64>,
    /// The last context of each vCPU.
    contexts: BTreeMap<Actor, Context>,
    batches: Batches,
    events: u64,
    window: bool,
    generation: u64,
    leaves: Vec<Leaf>,
    /// Changes of entries that map pages: by owner, whether of the EPT, level and kind.
    pub changes: BTreeMap<(u16, bool, u8, Change), u64>,
    /// INVVPID for a VM's vCPUs in the window: of an address, of more.
    pub invvpid: BTreeMap<u16, [u64; 2]>,
}

impl Tracker {
    /// Of a host with this many processors and frames.
    #[must_use]
    pub fn new(cpus: usize, frames: u64) -> Self {
        Self {
            frames: Frames::new(frames),
            roles: Roles::default(),
            cpus: (0..cpus).map(|_| Cpu::default()).collect(),
            owners: BTreeMap::new(),
            vpids: BTreeMap::new(),
            eptps: BTreeMap::new(),
            contexts: BTreeMap::new(),
            batches: Batches::default(),
            events: 0,
            window: false,
            generation: 0,
            leaves: Vec::new(),
            changes: BTreeMap::new(),
            invvpid: BTreeMap::new(),
        }
    }

    /// The VM of each VPID, from 1.
    #[must_use]
    pub const fn vms(&self) -> &BTreeMap<u16, u16> {
        &self.vpids
    }

    /// Events seen.
    #[must_use]
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// Tables that were freed, by owner and whether of the EPT.
    #[must_use]
    pub const fn freed(&self) -> &BTreeMap<(u16, bool), u64> {
        &self.roles.freed
    }

    /// An owner that has more address spaces at once than names for them.
    #[must_use]
    pub const fn crowded(&self) -> Option<u16> {
        self.roles.crowded
    }

    /// Ends; all updates in the order of `at`.
    #[must_use]
    pub fn finish(self) -> Vec<Update> {
        self.batches.finish()
    }

    /// Takes the next event.
    pub fn event(&mut self, cpu: usize, event: &Event) -> What {
        self.events += 1;
        match event {
            Event::Access { linear, .. } => return self.access(cpu, *linear),
            Event::Context(context) => {
                self.cpus[cpu].context = *context;
                if let Some((owner, actor)) = self.who(cpu, context) {
                    self.contexts.insert(actor, *context);
                    if owner > 0 {
                        self.eptps.insert(owner, context.eptp);
                    }
                }
            }
            Event::Frame(frame, bytes) => {
                self.frames.set(*frame, bytes);
                self.generation += 1;
            }
            Event::Table(place, bytes) => self.table(cpu, *place, bytes),
            Event::Entry { vpid, eptp, .. } => {
                self.owner(*vpid, *eptp);
            }
            Event::Open => self.window = true,
            // Before it no change is known.
            Event::Control(what, guest, kind, operand) if self.window => {
                self.control(cpu, *what, *guest, *kind, *operand);
            }
            _ => {}
        }
        What::Other
    }

    fn owner(&mut self, vpid: u64, eptp: u64) -> Option<u16> {
        let vpid = u16::try_from(vpid).ok().filter(|&vpid| vpid > 0)?;
        let owner = match self.vpids.get(&vpid) {
            Some(&owner) => owner,
            None => {
                let next = 1 + self.vpids.values().max().copied().unwrap_or(0);
                let owner = self.owners.get(&eptp).copied().unwrap_or(next);
                self.vpids.insert(vpid, owner);
                owner
            }
        };
        self.owners.insert(eptp, owner);
        Some(owner)
    }

    fn who(&mut self, cpu: usize, context: &Context) -> Option<(u16, Actor)> {
        if !context.guest {
            return Some((0, processor(cpu)));
        }
        let owner = self.owner(context.vpid, context.eptp)?;
        Some((owner, Actor::Vcpu(u16::try_from(context.vpid).ok()?)))
    }

    fn access(&mut self, cpu: usize, linear: u64) -> What {
        let context = self.cpus[cpu].context;
        let Some((owner, actor)) = self.who(cpu, &context) else {
            return What::Unknown;
        };
        let Some(page) = self.page(cpu, owner, &context, linear) else {
            return What::Unknown;
        };
        self.roles
            .accessed(&self.frames, (owner, page), &context, linear);
        What::Access(owner, actor, page)
    }

    /// The page of an address in a context, most often by the slot of its last neighbour.
    fn page(&mut self, cpu: usize, owner: u16, context: &Context, linear: u64) -> Option<u64> {
        let its = &mut self.cpus[cpu];
        if its.of != (self.generation, *context) {
            its.of = (self.generation, *context);
            its.pages.clear();
        }
        let region = linear >> 39;
        let within = linear >> 12 & ((1 << super::roles::SLOT_SHIFT) - 1);
        if let Some(&first) = its.pages.get(&region) {
            return Some(first | within);
        }
        let page = self.roles.page(&self.frames, owner, context, linear)?;
        debug_assert_eq!(page & 0x7ff_ffff, within, "a slot's pages are in order");
        self.cpus[cpu].pages.insert(region, page & !within);
        Some(page)
    }

    fn table(&mut self, cpu: usize, place: u64, bytes: &[u8]) {
        let frame = place >> 12;
        let Some(before) = self.frames.entries(frame).copied() else {
            return;
        };
        self.frames.write(place, bytes);
        let first = usize::try_from((place & 0xfff) / 8).unwrap_or(0);
        let last = usize::try_from(((place & 0xfff) + bytes.len() as u64 - 1) / 8).unwrap_or(0);
        for (index, old) in before.into_iter().enumerate().take(last + 1).skip(first) {
            let new = self
                .frames
                .entries(frame)
                .map_or(old, |entries| entries[index]);
            if new == old {
                continue;
            }
            let mut leaves = std::mem::take(&mut self.leaves);
            let eptps = &self.eptps;
            let eptp = |owner: u16| eptps.get(&owner).copied().unwrap_or(0);
            self.roles
                .wrote(&self.frames, (frame, index), (old, new), eptp, &mut leaves);
            for leaf in leaves.drain(..) {
                self.changed(cpu, &leaf);
            }
            self.leaves = leaves;
        }
        if self.roles.is_root(frame) {
            self.generation += 1;
        }
    }

    fn changed(&mut self, cpu: usize, leaf: &Leaf) {
        let key = (leaf.owner, leaf.ept, leaf.level, leaf.change);
        *self.changes.entry(key).or_default() += 1;
        if leaf.ept && leaf.change != Change::New {
            self.generation += 1;
        }
        if !leaf.change.revokes() {
            return;
        }
        let context = self.cpus[cpu].context;
        let by = match self.who(cpu, &context) {
            // A guest writes its own tables; the host those of all.
            Some((owner, actor)) if owner == leaf.owner && !leaf.ept => actor,
            _ => processor(cpu),
        };
        let kernels = !leaf.ept && self.roles.is_kernels(leaf.owner, leaf.page);
        self.batches
            .change(leaf, by, self.events, (context.cr3 & ROOT, kernels));
    }

    fn control(&mut self, cpu: usize, what: u64, guest: bool, kind: u64, operand: [u64; 2]) {
        let context = self.cpus[cpu].context;
        match what {
            INVEPT => self.nested(cpu, (kind == 1).then_some(operand[0])),
            INVVPID => self.by_vpid(kind, operand),
            _ if guest != context.guest => {
                // No access since the world changed: the context is not known.
            }
            _ => {
                let Some((owner, actor)) = self.who(cpu, &context) else {
                    return;
                };
                let same = operand[0] & !NO_FLUSH == context.cr3;
                match (what, kind) {
                    (INVLPG, _) => {
                        let page = self.page(cpu, owner, &context, operand[0]);
                        self.one(owner, actor, page, false);
                    }
                    (INVPCID, 0) => {
                        let page = self.page(cpu, owner, &context, operand[1]);
                        self.one(owner, actor, page, false);
                    }
                    (INVPCID, 1) => self.all(owner, actor, Some(context.cr3 & ROOT), false),
                    (INVPCID | MOV_CR4, _) => self.all(owner, actor, None, false),
                    (MOV_CR3, _) if same && operand[0] & NO_FLUSH == 0 => {
                        self.all(owner, actor, Some(context.cr3 & ROOT), false);
                    }
                    _ => {}
                }
            }
        }
    }

    /// An actor loses one page.
    fn one(&mut self, owner: u16, actor: Actor, page: Option<u64>, by_host: bool) {
        if let Some(page) = page {
            self.batches
                .tell(owner, (actor, by_host), self.events, |batch| {
                    batch.has(page)
                });
        }
    }

    /// An actor loses an address space, or all of its owner's without a root.
    fn all(&mut self, owner: u16, actor: Actor, root: Option<u64>, by_host: bool) {
        self.batches
            .tell(owner, (actor, by_host), self.events, |batch| {
                root.is_none_or(|root| batch.is_of(root))
            });
    }

    fn by_vpid(&mut self, kind: u64, [vpid, linear]: [u64; 2]) {
        let vpid = u16::try_from(vpid & 0xffff).unwrap_or(0);
        let Some(&owner) = self.vpids.get(&vpid) else {
            return;
        };
        self.invvpid.entry(owner).or_default()[usize::from(kind != 0)] += 1;
        let actor = Actor::Vcpu(vpid);
        if kind != 0 {
            return self.all(owner, actor, None, true);
        }
        let Some(context) = self.contexts.get(&actor).copied() else {
            return;
        };
        let page = self.roles.page(&self.frames, owner, &context, linear);
        self.one(owner, actor, page, true);
    }

    /// A processor executed INVEPT, of one EPT or of all.
    fn nested(&mut self, cpu: usize, eptp: Option<u64>) {
        let owner = eptp.map(|eptp| self.owners.get(&eptp).copied());
        self.batches.nested(processor(cpu), owner, self.events);
    }
}

fn processor(cpu: usize) -> Actor {
    Actor::Processor(u16::try_from(cpu).unwrap_or(u16::MAX))
}
