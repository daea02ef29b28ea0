// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which of KVM's paravirtual features a guest is shown.
//!
//! KVM says what it offers in CPUID leaf 0x40000001 (EAX features, EDX hints); the guest uses what it
//! finds there. A choice turns single bits off, or insists that they are on. Names are those of
//! `arch/x86/include/uapi/asm/kvm_para.h` in Linux 6.12, in the form `--pv` takes.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Name and EAX bit of each feature that Linux 6.12 defines.
pub const FEATURES: [(&str, u8); 18] = [
    ("clocksource", 0),
    ("nop-io-delay", 1),
    ("mmu-op", 2),
    ("clocksource2", 3),
    ("async-pf", 4),
    ("steal-time", 5),
    ("pv-eoi", 6),
    ("unhalt", 7),
    ("tlb-flush", 9),
    ("async-pf-vmexit", 10),
    ("ipi", 11),
    ("poll-control", 12),
    ("sched-yield", 13),
    ("async-pf-int", 14),
    ("msi-ext-dest-id", 15),
    ("hc-map-gpa-range", 16),
    ("migration-control", 17),
    ("clocksource-stable", 24),
];
/// Name and EDX bit of each hint. Hints are the VMM's to give, so they are off unless asked for.
pub const HINTS: [(&str, u8); 1] = [("realtime", 0)];

/// What is wrong with a choice of features.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum Error {
    /// Not of the form NAME=on or NAME=off.
    #[error("`{0}` is not a choice; write NAME=on or NAME=off, as in tlb-flush=off")]
    Form(String),
    /// No feature of that name.
    #[error(
        "KVM has no paravirtual feature `{name}`{} All: {}",
        nearest.map_or(".".to_owned(), |near| format!("; did you mean `{near}`?")),
        names()
    )]
    Unknown {
        /// What was written.
        name: String,
        /// The name that was probably meant.
        nearest: Option<&'static str>,
    },
    /// No such bit.
    #[error("`{0}` is not a feature bit; write a number from 0 to 31, as in 18=on")]
    Bit(String),
    /// Wanted, but this host's KVM has no such feature.
    #[error(
        "the guest must have {0}, but this host's KVM does not offer it (it offers {offered}); \
         leave it out or run a kernel that has it", offered = describe(*.1)
    )]
    NotOffered(Bit, u32),
}

/// One bit of the leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bit {
    /// A feature: a bit of EAX.
    Feature(u8),
    /// A hint: a bit of EDX.
    Hint(u8),
}

impl fmt::Display for Bit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (table, bit): (&[(&str, u8)], u8) = match *self {
            Bit::Feature(bit) => (&FEATURES, bit),
            Bit::Hint(bit) => (&HINTS, bit),
        };
        match table.iter().find(|(_, known)| *known == bit) {
            Some((name, _)) => write!(out, "`{name}` (bit {bit})"),
            None => write!(out, "feature bit {bit}"),
        }
    }
}

/// One bit, and whether the guest sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// Which bit.
    pub bit: Bit,
    /// Whether the guest sees it.
    pub on: bool,
}

impl FromStr for Choice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (name, on) = parse_switch(text)?;
        let find = |table: &[(&str, u8)]| {
            table
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, bit)| *bit)
        };
        let bit = find(&FEATURES)
            .map(Bit::Feature)
            .or_else(|| find(&HINTS).map(Bit::Hint))
            .ok_or_else(|| Error::Unknown {
                name: name.to_owned(),
                nearest: steady_nearest::nearest(name, all_names()),
            })?;
        Ok(Choice { bit, on })
    }
}

/// A choice written by number, `N=on` or `N=off`, for features newer than [`FEATURES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumberedChoice(pub Choice);

impl FromStr for NumberedChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (number, on) = parse_switch(text)?;
        let bit = number.parse().ok().filter(|bit| *bit < 32);
        let bit = bit.ok_or_else(|| Error::Bit(number.to_owned()))?;
        Ok(NumberedChoice(Choice {
            bit: Bit::Feature(bit),
            on,
        }))
    }
}

/// Applies `choices`, in order, to what KVM offers in EAX and to the hints in EDX; returns both as the
/// guest will see them.
///
/// # Errors
/// [`Error::NotOffered`] when a feature must be on that KVM does not have.
pub fn apply(offered: u32, hints: u32, choices: &[Choice]) -> Result<(u32, u32), Error> {
    let (mut eax, mut edx) = (offered, hints);
    for choice in choices {
        let (word, mask) = match choice.bit {
            Bit::Feature(bit) if choice.on && offered & (1 << bit) == 0 => {
                return Err(Error::NotOffered(choice.bit, offered));
            }
            Bit::Feature(bit) => (&mut eax, 1u32 << bit),
            Bit::Hint(bit) => (&mut edx, 1u32 << bit),
        };
        *word = if choice.on {
            *word | mask
        } else {
            *word & !mask
        };
    }
    assert_eq!(eax & !offered, 0, "a guest sees no feature that KVM lacks");
    Ok((eax, edx))
}

fn parse_switch(text: &str) -> Result<(&str, bool), Error> {
    match text.split_once('=') {
        Some((name, "on")) if !name.is_empty() => Ok((name, true)),
        Some((name, "off")) if !name.is_empty() => Ok((name, false)),
        _ => Err(Error::Form(text.to_owned())),
    }
}

fn all_names() -> impl Iterator<Item = &'static str> {
    FEATURES.iter().chain(&HINTS).map(|(name, _)| *name)
}

fn names() -> String {
    all_names().collect::<Vec<_>>().join(", ")
}

fn describe(offered: u32) -> String {
    let on = FEATURES.iter().filter(|(_, bit)| offered & (1 << bit) != 0);
    on.map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}
