// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The coherence schemes, each a module behind one trait.

mod atlb;
pub mod attc;
mod didi;
mod ideal;
mod pom;
mod site;
mod software;
mod tagged;
#[cfg(test)]
mod tests;

pub use atlb::{Atlb, set_address, set_index};

use crate::Error;
use crate::config::{MachineConfig, Mode};
use crate::layout::Key;
use crate::machine::{Machine, Walk};
use crate::os::{Mapping, Remap};
use std::collections::BTreeMap;

/// How translations are kept coherent.
pub trait Scheme: core::fmt::Debug + Send {
    /// Serves an L2 TLB miss at cycle `now` for an access issued at `issued`.
    fn miss(&mut self, m: &mut Machine, core: usize, key: Key, now: u64, issued: u64) -> Walk {
        let _ = issued;
        m.walk(core, key, now).0
    }

    /// The page was in use before the run began; large structures in memory know it.
    fn warm(&mut self, m: &Machine, mapping: &Mapping) {
        let _ = (m, mapping);
    }

    /// A store met a read-only translation and the page may be written now: what is cached of the
    /// page beyond the TLBs must not serve the retry.
    fn forget(&mut self, key: Key) {
        let _ = key;
    }

    /// A core's TLBs have just been filled with `key`.
    fn filled(&mut self, m: &mut Machine, core: usize, key: Key) {
        let _ = (m, core, key);
    }

    /// The cycle from which the update may take effect; `now` unless translations must first expire.
    fn ready_at(&mut self, m: &Machine, remap: &Remap, now: u64) -> u64 {
        let _ = (m, remap);
        now
    }

    /// Makes an update visible to every core. The page tables have changed already; afterwards no
    /// core may use a revoked translation. Returns the initiator's cycles.
    fn revoke(&mut self, m: &mut Machine, remap: &Remap, core: usize, now: u64) -> u64;

    /// Old translations may be used until the update's `ready_at` (they expire by themselves).
    fn expires(&self) -> bool {
        false
    }

    /// Counters of the scheme's own, by name.
    fn counts(&self) -> BTreeMap<&'static str, u64> {
        BTreeMap::new()
    }

    /// Checks the scheme's invariants against the machine.
    ///
    /// # Errors
    /// What is broken, in words.
    fn check(&self, m: &Machine) -> Result<(), String> {
        let _ = m;
        Ok(())
    }
}

/// The schemes by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SchemeKind {
    /// IPIs to every vCPU, waiting for preempted ones.
    Ipi,
    /// The paper's baseline: IPIs, but preempted vCPUs flush when they run next.
    Kvmtlb,
    /// The host invalidates for the guest.
    Shoot4u,
    /// Addressable TLB, software coherence.
    PomTlb,
    /// Tagged TLBs in the coherence protocol; native only.
    Unitd,
    /// Shared TLB directory; native only.
    Didi,
    /// Entries that expire; native only.
    Site,
    /// Co-tags of one page table.
    Hatric,
    /// Addressable TLB as the point of coherence.
    Attc,
    /// Updates in zero time on the baseline machine.
    Ideal,
    /// Updates in zero time on a machine with ATTC's addressable TLB.
    IdealAtlb,
}

impl SchemeKind {
    /// Every scheme, in report order.
    pub const ALL: [Self; 11] = [
        Self::Ipi,
        Self::Kvmtlb,
        Self::Shoot4u,
        Self::PomTlb,
        Self::Unitd,
        Self::Didi,
        Self::Site,
        Self::Hatric,
        Self::Attc,
        Self::Ideal,
        Self::IdealAtlb,
    ];

    /// The name, as in reports and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ipi => "ipi",
            Self::Kvmtlb => "kvmtlb",
            Self::Shoot4u => "shoot4u",
            Self::PomTlb => "pom-tlb",
            Self::Unitd => "unitd",
            Self::Didi => "didi",
            Self::Site => "site",
            Self::Hatric => "hatric",
            Self::Attc => "attc",
            Self::Ideal => "ideal",
            Self::IdealAtlb => "ideal-atlb",
        }
    }

    /// The scheme of a name.
    ///
    /// # Errors
    /// [`Error::Config`] with the nearest name, or all where none is near.
    pub fn parse(name: &str) -> Result<Self, Error> {
        if let Some(kind) = Self::ALL.into_iter().find(|kind| kind.name() == name) {
            return Ok(kind);
        }
        let names = || Self::ALL.into_iter().map(Self::name);
        let hint = match steady_nearest::nearest(name, names()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are: {}", names().collect::<Vec<_>>().join(", ")),
        };
        Err(Error::Config(format!("no scheme `{name}`; {hint}")))
    }

    /// Why the scheme cannot run in `mode`, if it cannot (paper Table 1).
    #[must_use]
    pub const fn refuses(self, mode: Mode) -> Option<&'static str> {
        match (self, mode) {
            (Self::Unitd | Self::Didi | Self::Site, Mode::Virtualized) => {
                Some("handles native systems only; set `mode = \"native\"`")
            }
            (Self::Shoot4u, Mode::Native) => {
                Some("asks a hypervisor; set `mode = \"virtualized\"`")
            }
            _ => None,
        }
    }

    /// Builds the scheme for a machine.
    ///
    /// # Errors
    /// [`Error::Scheme`] when the scheme cannot run in this mode.
    pub fn build(self, config: &MachineConfig, vms: u16) -> Result<Box<dyn Scheme>, Error> {
        if let Some(why) = self.refuses(config.mode) {
            return Err(Error::Scheme {
                scheme: self.name(),
                why,
            });
        }
        Ok(match self {
            Self::Ipi => Box::new(software::Software::ipi()),
            Self::Kvmtlb => Box::new(software::Software::kvmtlb()),
            Self::Shoot4u => Box::new(software::Software::shoot4u()),
            Self::PomTlb => Box::new(pom::PomTlb::new(config)),
            Self::Unitd => Box::new(tagged::Tagged::unitd()),
            Self::Hatric => Box::new(tagged::Tagged::hatric(config)),
            Self::Didi => Box::new(didi::Didi::new(config)),
            Self::Site => Box::new(site::Site::new(config)),
            Self::Attc => Box::new(attc::Attc::new(config, vms)),
            Self::Ideal => Box::new(ideal::Ideal::plain()),
            Self::IdealAtlb => Box::new(ideal::Ideal::with_atlb(config)),
        })
    }
}
