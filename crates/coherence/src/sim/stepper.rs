// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One simulation, stepped by hand: for tests that decide themselves what happens next.
//!
//! Accesses and updates take the simulator's own way through machine, scheme and oracle. Left out:
//! the data of an access, threads and their turns, and migrations that pages would earn.

use super::{Sim, translate};
use crate::block::Call;
use crate::layout::Key;
use crate::mmu::TlbEntry;
use crate::os::{Mapping, TablePage};
use crate::record::{MapKind, Prot};

/// A simulation whose steps the caller chooses. Each core keeps its clock.
#[derive(Debug)]
pub struct Stepper(Sim);

impl Stepper {
    /// Steps a simulation that has been fed nothing; where it checks accesses, so do the steps.
    #[must_use]
    pub fn new(sim: Sim) -> Self {
        assert!(sim.threads.is_empty(), "a trace would step it too");
        Self(sim)
    }

    /// The simulation, to look at.
    #[must_use]
    pub const fn sim(&self) -> &Sim {
        &self.0
    }

    /// Where the page is, if it is mapped.
    #[must_use]
    pub fn mapping(&self, key: Key) -> Option<Mapping> {
        self.0.machine.os.peek(key)
    }

    /// One access by a core; returns the translation that it used.
    pub fn access(&mut self, core: usize, key: Key, write: bool) -> TlbEntry {
        let now = self.0.cores[core].front.drain();
        if now >= self.0.due(core) {
            self.0.run_due(core, now);
        }
        let (machine, scheme) = (&mut self.0.machine, self.0.scheme.as_mut());
        let (entry, cycles) = translate(machine, scheme, core, key, write, now);
        self.0.check_access(core, key, &entry, write, now);
        self.0.machine.counts.accesses += 1;
        self.0.stall(core, cycles);
        entry
    }

    /// The guest changes the mapping of one page, from `core`.
    pub fn remap(&mut self, core: usize, key: Key, prot: Prot, kind: MapKind) {
        let call = Call {
            start: key.first_vpn() << 12,
            len: key.small_pages() << 12,
            prot,
            kind,
        };
        self.0.call(core, key.vm(), &call);
    }

    /// Other translations take the place of one in a core's TLBs.
    pub fn displace(&mut self, core: usize, key: Key) {
        self.0.machine.mmu[core].invalidate(key);
    }

    /// Moves a table page; see [`Sim::move_table`].
    pub fn move_table(&mut self, core: usize, which: TablePage, key: Key, level: usize) -> bool {
        self.0.move_table(core, which, key, level)
    }

    /// Moves the page in the NVM frame `spn` to DRAM, from `core`; frames in use nowhere stay.
    pub fn migrate(&mut self, core: usize, spn: u64) {
        self.0.migrate(core, spn);
    }
}

#[cfg(test)]
mod tests {
    use super::{Sim, Stepper};
    use crate::config::{MachineConfig, Start};
    use crate::layout::Key;
    use crate::machine::Fault;
    use crate::record::{MapKind, Prot};
    use crate::scheme::ATTC;
    use crate::sim::Options;

    const KEY: Key = Key::small(0, 0x12345);

    fn stepper(fault: Option<Fault>) -> Stepper {
        let mut config = MachineConfig::default();
        config.core.count = 2;
        config.hybrid.enabled = true;
        config.hybrid.start = Start::Nvm;
        let options = Options {
            check: true,
            ..Options::default()
        };
        let mut sim = Sim::new(&config, &ATTC, &options).expect("a possible machine");
        if let Some(fault) = fault {
            sim.plant(fault);
        }
        Stepper::new(sim)
    }

    fn violations(steps: &Stepper) -> u64 {
        steps.sim().oracle().expect("it is on").violations
    }

    #[test]
    fn each_step_is_checked_and_an_update_reaches_the_other_core_unless_it_is_skipped() {
        for (fault, found) in [(None, 0), (Some(Fault::VictimSkipped), 1)] {
            let mut steps = stepper(fault);
            let old = steps.access(1, KEY, false).spn;
            steps.migrate(0, old);
            let new = steps.mapping(KEY).expect("it is mapped").spn;
            assert_ne!(old, new);
            let used = steps.access(1, KEY, false).spn;
            assert_eq!(used == old, fault.is_some());
            assert_eq!(
                (violations(&steps), steps.sim().counts().checked),
                (found, 2)
            );
        }
    }

    #[test]
    fn a_remapped_page_gets_another_frame_at_its_next_access_and_its_core_has_waited() {
        let mut steps = stepper(None);
        let old = steps.access(1, KEY, true).spn;
        let rights = Prot {
            read: true,
            write: true,
            exec: false,
        };
        steps.remap(0, KEY, rights, MapKind::Mmap);
        assert_eq!(steps.mapping(KEY), None);
        let other = steps.access(0, Key::small(0, 1), false).spn;
        let new = steps.access(1, KEY, true).spn;
        assert_eq!(other, old, "its frame is given out again");
        assert_ne!(new, old);
        assert!(steps.sim().counts().initiator_cycles > 0);
        assert_eq!(violations(&steps), 0);
    }
}
