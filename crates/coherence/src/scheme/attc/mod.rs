// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ATTC: the addressable TLB as the point of coherence for guest and host updates.
//!
//! A guest's update writes the ATLB set of the page (paper Figure 5): the walker reads the set,
//! drops the entries of the writing VM, writes it back, and the write reaches every private TLB as
//! a message with the set's address. A host's update writes the inverse table at the old frame
//! (Figure 6): the walker follows its pointers, drops exactly the entries of that frame, and the
//! same messages follow. A TLB rebuilds from the set's address which of its own sets to inspect and
//! compares what the address says of the page; nothing is added to its entries.
//!
//! Messages go to every core: a TLB may hold a translation whose line its caches have lost. A
//! pointer outlives its ATLB entry for the same reason; it goes only with an update or by
//! replacement, and then the set is written as for an update. Natively there is no inverse table.
//!
//! What is beside the paper's rule, for walk caches and nested TLBs, is in `walks`.

mod attempt;
pub mod invtbl;
#[cfg(test)]
mod tests;
mod walks;

pub use invtbl::{Invtbl, Pointer};

use super::rights::{Actor, Attempt, Decision, Effect, Gate, Operation, Target};
use super::{Atlb, Runs, Scheme, Spec, atlb};
use crate::Error;
use crate::config::{Allowed, LONGEST_UPDATE, MachineConfig, Mode, Parameter, Value, bad, sets};
use crate::layout::Key;
use crate::machine::{Fault, Look, Message, View, Walk};
use crate::os::{Agent, Mapping, Remap};
use std::collections::BTreeMap;

/// Initiator cycles of a host update.
pub static HOST_UPDATE: Parameter = Parameter {
    key: "attc.host_update_cycles",
    default: Value::Number(500),
    allowed: Allowed::Range(0, LONGEST_UPDATE),
    help: "Initiator cycles of a host update of one page (section 3.3: 500); 0 simulates the \
           accesses.",
};
/// Initiator cycles of a guest update.
pub static GUEST_UPDATE: Parameter = Parameter {
    key: "attc.guest_update_cycles",
    default: Value::Number(0),
    allowed: Allowed::Range(0, LONGEST_UPDATE),
    help: "Initiator cycles of a guest update of one page; 0 simulates the accesses, as the \
           paper does.",
};
/// Bits that private TLBs compare.
pub static MATCH_BITS: Parameter = Parameter {
    key: "attc.match_bits",
    default: Value::Number(0),
    allowed: Allowed::Range(0, 64),
    help: "ATLB set-index bits a private TLB compares; 0 compares all. The paper's text has 18 in \
           section 2.2 and 14 in section 4.",
};
/// How everything is flushed.
pub static FLUSH: Parameter = Parameter {
    key: "attc.flush",
    default: Value::Word("stamp"),
    allowed: Allowed::Words(&["dma", "walker", "stamp"]),
    help: "How all translations of a VM are flushed (section 5): `dma` wipes the whole ATLB in the \
           background, other VMs' entries too; `walker` reads and rewrites each set; `stamp` makes \
           the VM's older entries invalid when they are met.",
};
/// When everything is flushed.
pub static FLUSH_CEILING: Parameter = Parameter {
    key: "attc.flush_ceiling_pages",
    default: Value::Number(512),
    allowed: Allowed::Range(0, u32::MAX),
    help: "Pages above which a range update becomes a whole flush.",
};

/// Addressable TLB as the point of coherence.
pub static ATTC: Spec = Spec {
    name: "attc",
    help: "addressable TLB as the point of coherence for guest and host",
    runs: Runs::Anywhere,
    parameters: &[
        &atlb::KIB,
        &atlb::WAYS,
        &atlb::LARGE_KIB,
        &invtbl::KIB,
        &invtbl::WAYS,
        &HOST_UPDATE,
        &GUEST_UPDATE,
        &MATCH_BITS,
        &atlb::WARM,
        &FLUSH,
        &FLUSH_CEILING,
    ],
    validate,
    make: |config| Box::new(Attc::new(config)),
};

fn validate(config: &MachineConfig) -> Result<(), Error> {
    atlb::validate(config)?;
    let number = |parameter| u64::from(config.schemes.number(parameter));
    let ways = config.schemes.number(&invtbl::WAYS);
    sets("attc.invtbl", number(&invtbl::KIB) * 256, ways)?;
    let index_bits = (number(&atlb::KIB) * 16).trailing_zeros();
    let bits = config.schemes.number(&MATCH_BITS);
    if bits > index_bits {
        let want = format!("0 to {index_bits}, the bits of the ATLB's set index");
        return Err(bad(MATCH_BITS.key, bits.into(), &want));
    }
    let low = atlb::vm_shift(config);
    if (1..14).contains(&bits) {
        let want = "0 (all) or at least 14: fewer bits do not give the L2 TLB's set";
        return Err(bad(MATCH_BITS.key, bits.into(), want));
    }
    let least = index_bits.min((number(&atlb::LARGE_KIB) * 16).trailing_zeros());
    let matched = if bits == 0 { least } else { least.min(bits) };
    if low > matched {
        let l2_sets = config.mmu.l2.entries / config.mmu.l2.ways;
        let want = format!(
            "at most {} sets for `attc`: its ATLBs' indices and `{}` give a TLB {matched} bits of \
             a page, and the set's index folds {low}",
            1 << (matched / 2),
            MATCH_BITS.key
        );
        return Err(bad("mmu.l2 sets", l2_sets.into(), &want));
    }
    Ok(())
}

/// A way to flush all translations of one VM (paper section 5, "TLB Flush Operations").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flush {
    Dma,
    Walker,
    Stamp,
}

/// ATTC.
#[derive(Debug)]
pub struct Attc {
    atlb: Atlb,
    /// None natively.
    invtbl: Option<Invtbl>,
    /// The gate that guests and hypervisor pass (Table 4).
    gate: Gate,
    /// Index bits that private TLBs compare, by page size.
    match_mask: [u64; 2],
    host_cycles: u64,
    guest_cycles: u64,
    flush: Flush,
    flush_ceiling: usize,
    /// Cycles for which one pass over both tables keeps DRAM busy.
    pass_cycles: u64,
    pointer_evictions: u64,
    whole_flushes: u64,
    bystanders: u64,
    most_pointers: u64,
    walk_lines_written: u64,
    walk_entries_dropped: u64,
}

impl Attc {
    /// ATTC with empty tables.
    #[must_use]
    pub fn new(config: &MachineConfig) -> Self {
        let number = |parameter| config.schemes.number(parameter);
        let mask = |sets: u64| match number(&MATCH_BITS) {
            0 => sets - 1,
            bits => (sets - 1) & ((1 << bits) - 1),
        };
        let atlb = Atlb::new(config);
        let sets = [false, true].map(|large| atlb.sets(large));
        let burst = u64::from(config.dram.burst_clocks) * u64::from(config.core.mhz) * 2
            / u64::from(config.dram.mts);
        Self {
            atlb,
            invtbl: (config.mode == Mode::Virtualized).then(|| Invtbl::new(config)),
            gate: Gate::default(),
            match_mask: sets.map(mask),
            host_cycles: number(&HOST_UPDATE).into(),
            guest_cycles: number(&GUEST_UPDATE).into(),
            flush: match config.schemes.word(&FLUSH) {
                "dma" => Flush::Dma,
                "walker" => Flush::Walker,
                _ => Flush::Stamp,
            },
            flush_ceiling: number(&FLUSH_CEILING) as usize,
            pass_cycles: (sets[0] + sets[1]) * burst / u64::from(config.dram.channels),
            pointer_evictions: 0,
            whole_flushes: 0,
            bystanders: 0,
            most_pointers: 0,
            walk_lines_written: 0,
            walk_entries_dropped: 0,
        }
    }

    /// Where the pointer for an ATLB entry leads.
    const fn set_of(&self, key: Key) -> Pointer {
        Pointer {
            set: self.atlb.index(key),
            large: key.is_large(),
        }
    }

    /// Stores the pointer that every ATLB entry needs, and every entry of a nested TLB.
    fn point(&mut self, m: &mut View<'_>, core: usize, pointer: Pointer, spn: u64, now: u64) {
        let Some(table) = self.invtbl.as_mut() else {
            return;
        };
        let line = table.line(spn, pointer.large);
        let evicted = table.insert(spn, pointer);
        m.write_line(core, line, now);
        if let Some((old_spn, old)) = evicted {
            self.pointer_evictions += 1;
            // The entries that the lost pointer stood for go with it, from ATLB and TLBs.
            if !m.look().has(Fault::EvictSilent) {
                self.write_set(m, core, old, |_, spn| spn == old_spn, &[], now);
            }
        }
    }

    /// Reads and rewrites an ATLB set without the doomed entries, and sends every private TLB a
    /// message. Returns the cycles of the two accesses.
    fn write_set(
        &mut self,
        m: &mut View<'_>,
        core: usize,
        pointer: Pointer,
        doomed: impl Fn(Key, u64) -> bool,
        revoked: &[Key],
        now: u64,
    ) -> u64 {
        let line = Atlb::line(pointer.set, pointer.large);
        let read = m.read_line(core, line, now);
        if let Some(vm) = self.walks_of(pointer) {
            self.walk_lines_written += 1;
            self.walk_entries_dropped += m.message_walks(vm);
            return read + m.write_line(core, line, now + read);
        }
        self.bystanders += self.atlb.clear_set(pointer.set, pointer.large, |key, spn| {
            doomed(key, spn) && !revoked.contains(&key)
        });
        self.atlb.clear_set(pointer.set, pointer.large, doomed);
        let write = m.write_line(core, line, now + read);
        // No update revokes what a displaced pointer stood for.
        if !(revoked.is_empty() && m.look().has(Fault::EvictUntold)) {
            self.tell_tlbs(m, pointer, revoked);
        }
        read + write
    }

    /// The coherence message: every TLB drops what its set address names.
    fn tell_tlbs(&self, m: &mut View<'_>, pointer: Pointer, revoked: &[Key]) {
        let mask = self.match_mask[usize::from(pointer.large)];
        m.message(&Message {
            // The low bits of the set's index are the page's, as many as a TLB's index folds.
            page_bits: pointer.set,
            large: pointer.large,
            names: |key: Key| (self.atlb.index(key) ^ pointer.set) & mask == 0,
            revoked,
        });
    }

    /// Figure 5: one write to the ATLB for each page, filtered by the writer's VM.
    fn guest_update(&mut self, m: &mut View<'_>, remap: &Remap, core: usize, now: u64) -> u64 {
        if remap.changes.len() > self.flush_ceiling {
            return self.flush_all(m, remap, core, now);
        }
        let revoked: Vec<Key> = remap.changes.iter().map(|change| change.key).collect();
        let mut cycles = 0;
        for change in &remap.changes {
            let decision = self
                .gate
                .attempt(Actor::GuestOs, Target::Atlb, Operation::Write);
            assert!(
                decision == Decision::Filtered,
                "the walker intercepts a guest's write"
            );
            let pointer = self.set_of(change.key);
            if m.look().has(Fault::WriteIfPresent) && self.atlb.get(change.key).is_none() {
                continue;
            }
            let vm = remap.vm;
            let own = move |key: Key, _| key.vm() == vm;
            cycles += self.write_set(m, core, pointer, own, &revoked, now + cycles);
        }
        let tables = u64::from(!remap.tables.is_empty());
        if tables > 0 {
            let line = self.walk_line(remap.vm);
            cycles += self.write_set(m, core, line, |_, _| false, &[], now + cycles);
        }
        match self.guest_cycles {
            0 => cycles,
            fixed => fixed * (remap.changes.len() as u64 + tables),
        }
    }

    /// Figure 6: the inverse table's pointers lead to the ATLB sets of each old frame.
    fn host_update(&mut self, m: &mut View<'_>, remap: &Remap, core: usize, now: u64) -> u64 {
        let revoked: Vec<Key> = remap.changes.iter().map(|change| change.key).collect();
        let mut frames: Vec<(u64, bool)> = remap
            .changes
            .iter()
            .map(|change| (change.old_spn, change.key.is_large()))
            .collect();
        let behind = remap.tables.iter().filter(|table| table.behind);
        frames.extend(behind.map(|table| (table.left, false)));
        frames.sort_unstable();
        frames.dedup();
        let mut cycles = 0;
        // Of its own table the host knows the VM.
        let own = u64::from(remap.tables.iter().any(|table| !table.behind));
        if own > 0 {
            let line = self.walk_line(remap.vm);
            cycles += self.write_set(m, core, line, |_, _| false, &[], now);
        }
        for &(spn, large) in &frames {
            let table = self
                .invtbl
                .as_mut()
                .expect("only a virtualized machine has host updates");
            self.gate
                .attempt(Actor::Hypervisor, Target::Invtbl, Operation::Write);
            let line = table.line(spn, large);
            let mut pointers = table.take(spn, large);
            if m.look().has(Fault::PointersKept) {
                for &pointer in &pointers {
                    table.insert(spn, pointer);
                }
            }
            if m.look().has(Fault::SynonymMissed) {
                pointers.truncate(1);
            }
            self.most_pointers = self.most_pointers.max(pointers.len() as u64);
            cycles += m.write_line(core, line, now + cycles);
            for pointer in pointers {
                let exact = move |_, held| held == spn;
                cycles += self.write_set(m, core, pointer, exact, &revoked, now + cycles);
            }
        }
        match self.host_cycles {
            0 => cycles,
            fixed => fixed * (frames.len() as u64 + own),
        }
    }

    /// Drops every translation of a VM in one of the paper's three ways.
    fn flush_all(&mut self, m: &mut View<'_>, remap: &Remap, core: usize, now: u64) -> u64 {
        self.whole_flushes += 1;
        let vm = remap.vm;
        let stamps = self.flush == Flush::Stamp && !m.look().has(Fault::StampKept);
        let how = if stamps && !self.atlb.restamp(vm) {
            // Every stamp has been used once: old entries must really go.
            Flush::Walker
        } else {
            self.flush
        };
        match how {
            Flush::Stamp => {}
            Flush::Walker => {
                self.atlb.remove_where(|key| key.vm() == vm);
                m.occupy_dram(now, 2 * self.pass_cycles);
            }
            Flush::Dma => {
                self.atlb.remove_where(|_| true);
                m.occupy_dram(now, self.pass_cycles);
            }
        }
        m.flush_vm(remap);
        m.broadcast(1);
        // One write starts it; the rest is in the background.
        let line = Atlb::line(0, false);
        m.write_line(core, line, now)
    }
}

impl Scheme for Attc {
    fn forget(&mut self, key: Key) {
        self.atlb.remove(key);
    }

    fn warm(&mut self, m: Look<'_>, mapping: &Mapping) {
        if !self.atlb.warms() {
            return;
        }
        let pointer = self.set_of(mapping.key);
        if let Some(table) = self.invtbl.as_mut() {
            if m.has(Fault::PointerLost) {
                // The planted fault: an entry without its pointer.
            } else if let Some((old_spn, old)) = table.insert(mapping.spn, pointer) {
                self.atlb
                    .clear_set(old.set, old.large, |_, spn| spn == old_spn);
            }
        }
        self.atlb.warm(mapping);
    }

    fn dirtied(&mut self, m: &mut View<'_>, core: usize, key: Key, now: u64) {
        self.atlb.dirtied(m, core, key, now);
    }

    fn miss(&mut self, m: &mut View<'_>, core: usize, key: Key, now: u64, _issued: u64) -> Walk {
        let served = self.atlb.serve(m, core, key, now);
        if served.inserted {
            let done = now + served.walk.cycles;
            for table in m.take_nested_filled() {
                self.point_table(m, core, key.vm(), table, done);
            }
            // The page's own comes last, or one of those might displace it before the TLB is
            // filled.
            if !m.look().has(Fault::PointerLost) {
                self.point(m, core, self.set_of(key), served.walk.entry.spn, done);
            }
        }
        served.walk
    }

    fn revoke(&mut self, m: &mut View<'_>, remap: &Remap, core: usize, now: u64) -> u64 {
        match remap.agent {
            Agent::Guest => self.guest_update(m, remap, core, now),
            Agent::Host => self.host_update(m, remap, core, now),
        }
    }

    fn attempt(&mut self, m: &mut View<'_>, core: usize, attempt: &Attempt, now: u64) -> Effect {
        self.answer(m, core, attempt, now)
    }

    fn counts(&self) -> BTreeMap<&'static str, u64> {
        // Where no table page changes there is nothing to say of them.
        let walks = [
            ("walk_entries_dropped", self.walk_entries_dropped),
            ("walk_lines_written", self.walk_lines_written),
        ];
        let mut counts = BTreeMap::from([
            ("atlb_bystanders_dropped", self.bystanders),
            ("attempts_allowed", self.gate.allowed),
            ("attempts_filtered", self.gate.filtered),
            ("attempts_refused", self.gate.refused),
            ("pointer_evictions", self.pointer_evictions),
            ("pointers_followed_at_most", self.most_pointers),
            ("whole_flushes", self.whole_flushes),
        ]);
        counts.extend(walks.into_iter().filter(|&(_, count)| count > 0));
        counts
    }

    fn check(&self, m: Look<'_>) -> Result<(), String> {
        let Some(table) = &self.invtbl else {
            return Ok(());
        };
        let missing = |what: &str, key: Key, spn: u64| {
            let vpn = key.first_vpn();
            format!(
                "{what} of VM {} page {vpn:#x} -> frame {spn:#x} has no pointer",
                key.vm()
            )
        };
        let points = |key: Key, spn: u64| table.points(spn, self.set_of(key));
        for (key, spn) in self.atlb.entries() {
            if !points(key, spn) {
                return Err(missing("the ATLB entry", key, spn));
            }
        }
        for (key, entry) in m.translations() {
            if !points(key, entry.spn) {
                return Err(missing("a TLB entry", key, entry.spn));
            }
        }
        self.check_behind(m, table)
    }
}
