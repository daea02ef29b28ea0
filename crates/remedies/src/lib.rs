// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The remedies: what each is called and what it needs. All other rooms read this table.
//!
//! A remedy of the kernel is a folder in `linux/` and one entry here; one that needs no kernel is a
//! module of `steer` and an entry. `docs/ARCHITECTURE.md` says how to add one.
//! Its name is the same in the scenario, the simulator's module and the report.
//!
//! Left out: how a remedy works. That is in its folder, and in the simulator's module of its name.

#![forbid(unsafe_code)]

mod table;

use std::fmt;

/// A remedy's way to work, besides off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mode {
    /// The word in a scenario, and the value of the kernel's parameter.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
}

/// A cost of vCPU scheduling that a remedy may be the answer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stall {
    /// A vCPU waits for an answer of one that does not run.
    CallWait,
    /// Exits for the guest's own ticks.
    Tick,
    /// A boost goes to a vCPU that cannot end the wait.
    BoostTarget,
    /// The host's scheduler does not run the vCPU that was boosted.
    BoostOutcome,
}

/// What the program that runs a VM must do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VmmDuty {
    /// Nothing: the guest does not know of it.
    Nothing,
    /// Show the guest [`Remedy::feature_bit`], which a stock VMM does not know.
    ShowFeatureBit,
}

/// What carries a remedy out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// The host's kernel, and those of guests that are shown its feature bit.
    Kernel,
    /// A program of the host, on any kernel: `steady-steer` with the words of the mode, in the
    /// order of [`Remedy::modes`].
    Host(&'static [&'static [&'static str]]),
    /// The same in guests.
    Guest(&'static [&'static [&'static str]]),
}

/// A remedy.
#[derive(Debug, PartialEq, Eq)]
pub struct Remedy {
    /// The name in scenarios and reports: lower-case letters, digits and hyphens.
    pub name: &'static str,
    /// One line for readers.
    pub title: &'static str,
    /// What carries it out.
    pub means: Means,
    /// The host kernel's parameter, `MODULE.PARAMETER`, whose values are the modes and
    /// [`Self::off`]; empty where the kernel does not carry it out.
    pub parameter: &'static str,
    /// The parameter's value that switches the remedy off.
    pub off: &'static str,
    /// The modes, at least one.
    pub modes: &'static [Mode],
    /// The mode of a scenario that names none; one of [`Self::modes`].
    pub default_mode: &'static str,
    /// Bit of EAX in CPUID leaf 0x40000001 that offers it to a guest, 0 to 31; `None`: it has no
    /// guest part, or none that is numbered yet.
    pub feature_bit: Option<u32>,
    /// The kernel's trace system with its events.
    pub trace_system: Option<&'static str>,
    /// Word of the guest kernel's command line that makes a guest do without.
    pub guest_off: Option<&'static str>,
    /// What the VMM must do.
    pub vmm: VmmDuty,
    /// Whether this kernel series has it.
    pub shipped: bool,
    /// Whether none of its code runs while it is off, in hosts and guests, but for jumps over it. A
    /// race that has it off is of the same mechanisms whatever it brings. Its runs are not the same
    /// to the byte: instructions lie elsewhere, and few are more.
    pub is_still_when_off: bool,
    /// Its folder in `linux/`.
    pub folder: &'static str,
    /// What it is the answer to.
    pub answers: &'static [Stall],
}

impl Remedy {
    /// The mode of this name.
    #[must_use]
    pub fn mode(&self, name: &str) -> Option<&'static Mode> {
        self.modes.iter().find(|mode| mode.name == name)
    }

    /// Whether a kernel carries it out.
    #[must_use]
    pub fn is_of_kernel(&self) -> bool {
        self.means == Means::Kernel
    }

    /// The words of `steady-steer` in a mode, where that program carries it out.
    #[must_use]
    pub fn words(&self, mode: &str) -> Option<&'static [&'static str]> {
        let (Means::Host(words) | Means::Guest(words)) = self.means else {
            return None;
        };
        assert_eq!(
            words.len(),
            self.modes.len(),
            "{self} has words for each mode"
        );
        let at = self.modes.iter().position(|known| known.name == mode)?;
        Some(words[at])
    }

    /// Whether it can be had by some VMs of a host and not by others.
    #[must_use]
    pub fn is_by_vm(&self) -> bool {
        !self.is_of_kernel() || self.feature_bit.is_some()
    }
}

/// A remedy is shown as its name.
impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

/// A remedy is written as its name.
impl serde::Serialize for Remedy {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name)
    }
}

/// A list of remedies, in the order in which they are named and switched.
#[derive(Debug, Clone)]
pub struct Registry(Vec<&'static Remedy>);

impl Default for Registry {
    /// Every remedy of this project.
    fn default() -> Self {
        Self(table::ALL.iter().collect())
    }
}

impl Registry {
    /// The same with one more, as a test adds it.
    ///
    /// # Panics
    /// If a remedy of that name or parameter is there already, or its default mode is not one of
    /// its modes.
    #[must_use]
    pub fn with(mut self, extra: &'static Remedy) -> Self {
        let of_kernel = extra.is_of_kernel();
        let clash = |known: &Remedy| {
            known.name == extra.name || of_kernel && known.parameter == extra.parameter
        };
        assert!(!self.all().any(clash), "{extra} is there already");
        assert!(
            extra.mode(extra.default_mode).is_some(),
            "{extra} lacks its default mode"
        );
        self.0.push(extra);
        self
    }

    /// Every remedy.
    pub fn all(&self) -> impl Iterator<Item = &'static Remedy> + Clone + '_ {
        self.0.iter().copied()
    }

    /// Those that the kernel series has.
    pub fn shipped(&self) -> impl Iterator<Item = &'static Remedy> + Clone + '_ {
        let of_kernel = |remedy: &&Remedy| remedy.shipped && remedy.is_of_kernel();
        self.all().filter(of_kernel)
    }

    /// The remedy of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&'static Remedy> {
        self.all().find(|remedy| remedy.name == name)
    }
}

/// The remedy that answers `stall` first.
///
/// # Panics
/// If none does: the table has one for every stall, and a test says so.
#[must_use]
pub fn answer(stall: Stall) -> &'static Remedy {
    let answers = |remedy: &&Remedy| remedy.answers.contains(&stall);
    let found = table::ALL.iter().find(answers);
    found.unwrap_or_else(|| unreachable!("no remedy answers {stall:?}"))
}
