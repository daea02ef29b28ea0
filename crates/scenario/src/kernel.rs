// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel of a variant: the one with the remedies, the stock one, or another by its name.
//!
//! Left out: which names there are, and whether a path leads to a kernel. The engine that boots it
//! knows, and refuses what is not one.

use std::fmt;

use serde::{Serialize, Serializer};

/// The kernel of the emulated host and of its guests.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kernel {
    /// The distribution's, with this project's files and hooks; or what the user chose in its
    /// place.
    Patched,
    /// The distribution's as it is: no remedy is in it.
    Stock,
    /// Another: the name of one that the engine knows, or with a `/` a path from the scenario's
    /// folder.
    Named(String),
}

impl Kernel {
    /// Those that every scenario may name.
    pub const ALWAYS: [Self; 2] = [Self::Patched, Self::Stock];

    /// The kernel that is written so.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let mut always = Self::ALWAYS.into_iter();
        let found = always.find(|kernel| kernel.name() == text);
        found.unwrap_or_else(|| Self::Named(text.to_owned()))
    }

    /// How it is written.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Patched => "patched",
            Self::Stock => "stock",
            Self::Named(name) => name,
        }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Kernel {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_written_as_it_is_read() {
        for text in ["patched", "stock", "debian-12", "7.3", "../mine.deb"] {
            let kernel = Kernel::of(text);
            assert_eq!(kernel.name(), text);
            let is_named = matches!(kernel, Kernel::Named(_));
            assert_eq!(is_named, !["patched", "stock"].contains(&text), "{text}");
        }
    }
}
