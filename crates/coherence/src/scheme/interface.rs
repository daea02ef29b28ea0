// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a scheme is: its hooks, and what the rest of the simulator knows of it before it runs.

use super::rights::{Attempt, Decision, Effect};
use crate::Error;
use crate::config::{MachineConfig, Mode, Parameter};
use crate::layout::Key;
use crate::machine::{Look, View, Walk};
use crate::os::{Mapping, Remap};
use std::collections::BTreeMap;
use std::fmt::Debug;

/// How translations are kept coherent. A hook gets a [`View`]: all that it may see and do.
pub trait Scheme: Debug + Send {
    /// Serves an L2 TLB miss at cycle `now` for an access issued at `issued`.
    fn miss(&mut self, m: &mut View<'_>, core: usize, key: Key, now: u64, issued: u64) -> Walk {
        let _ = issued;
        m.walk(core, key, now).0
    }

    /// The page was in use before the run began; large structures in memory may know it.
    fn warm(&mut self, m: Look<'_>, mapping: &Mapping) {
        let _ = (m, mapping);
    }

    /// A store met a read-only translation and the page may be written now: what is cached of the
    /// page beyond the TLBs must not serve the retry.
    fn forget(&mut self, key: Key) {
        let _ = key;
    }

    /// A core has just set the dirty bit of `key` in its TLBs and in the page table, for a store at
    /// cycle `now`. What a scheme caches of the entry should learn it, or it serves a clean one
    /// again.
    fn dirtied(&mut self, m: &mut View<'_>, core: usize, key: Key, now: u64) {
        let _ = (m, core, key, now);
    }

    /// A core's TLBs have just been filled with `key`.
    fn filled(&mut self, m: &mut View<'_>, core: usize, key: Key) {
        let _ = (m, core, key);
    }

    /// The cycle from which an update that `core` asks for may take effect; `now` unless
    /// translations must first expire, or be swept.
    fn ready_at(&mut self, remap: &Remap, core: usize, now: u64) -> u64 {
        let _ = (remap, core);
        now
    }

    /// Whether other cores may keep what the update revokes up to their next sweep, where cores
    /// sweep at all ([`Scheme::period`]). Asked once, just before [`Scheme::revoke`].
    fn puts_off(&mut self, m: Look<'_>, remap: &Remap, core: usize, now: u64) -> bool {
        let _ = (m, remap, core, now);
        false
    }

    /// Cycles between two ticks of the scheduler, at each of which a core sweeps; all cores tick
    /// together, as Linux has it by default. `None` where no core sweeps.
    fn period(&self) -> Option<u64> {
        None
    }

    /// A core drops what it has put off; returns its cycles.
    fn sweep(&mut self, m: &mut View<'_>, core: usize, sweep: Sweep) -> u64 {
        let _ = (m, core, sweep);
        0
    }

    /// Makes an update visible to every core. The page tables have changed already; afterwards no
    /// core may use a revoked translation, but for updates that are put off. Returns the
    /// initiator's cycles.
    fn revoke(&mut self, m: &mut View<'_>, remap: &Remap, core: usize, now: u64) -> u64;

    /// Old translations may be used until the update's `ready_at` (they expire by themselves).
    fn expires(&self) -> bool {
        false
    }

    /// Somebody reads or writes one of the scheme's tables directly. Without such tables there is
    /// nothing at their addresses.
    fn attempt(&mut self, m: &mut View<'_>, core: usize, attempt: &Attempt, now: u64) -> Effect {
        let _ = (m, core, attempt, now);
        Effect::none(Decision::Refused)
    }

    /// Counters of the scheme's own, by name.
    fn counts(&self) -> BTreeMap<&'static str, u64> {
        BTreeMap::new()
    }

    /// Checks the scheme's invariants against the machine.
    ///
    /// # Errors
    /// What is broken, in words.
    fn check(&self, m: Look<'_>) -> Result<(), String> {
        let _ = m;
        Ok(())
    }
}

/// When a core sweeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sweep {
    /// At its scheduler's tick of this cycle.
    Tick(u64),
    /// As its thread leaves it.
    Switch,
}

/// Where a scheme can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runs {
    /// Natively and virtualized.
    Anywhere,
    /// In this mode only; the text says why, and what to do.
    Only(Mode, &'static str),
}

/// A scheme as the registry lists it: the one thing that its file gives away.
#[derive(Debug)]
pub struct Spec {
    /// Name, in results and on the command line.
    pub name: &'static str,
    /// What it does, in a line.
    pub help: &'static str,
    /// Where it can run (paper Table 1).
    pub runs: Runs,
    /// Its parameters, and those of what it is made of.
    pub parameters: &'static [&'static Parameter],
    /// What must hold between its parameters and the machine; each is in its range already.
    pub validate: fn(&MachineConfig) -> Result<(), Error>,
    /// Makes it for a machine that has been validated.
    pub make: fn(&MachineConfig) -> Box<dyn Scheme>,
}

impl PartialEq for Spec {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Spec {}

impl Spec {
    /// The validation of a scheme that has nothing to check.
    ///
    /// # Errors
    /// None.
    pub const fn any_machine(_: &MachineConfig) -> Result<(), Error> {
        Ok(())
    }

    /// Why the scheme cannot run in `mode`, if it cannot.
    #[must_use]
    pub fn refuses(&self, mode: Mode) -> Option<&'static str> {
        match self.runs {
            Runs::Only(only, why) if only != mode => Some(why),
            _ => None,
        }
    }

    /// Builds the scheme for a machine.
    ///
    /// # Errors
    /// [`Error::Scheme`] when the scheme cannot run in this mode; what its validation says.
    pub fn build(&self, config: &MachineConfig) -> Result<Box<dyn Scheme>, Error> {
        if let Some(why) = self.refuses(config.mode) {
            let scheme = self.name;
            return Err(Error::Scheme { scheme, why });
        }
        (self.validate)(config)?;
        Ok((self.make)(config))
    }
}
