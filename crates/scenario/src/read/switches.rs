// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `[variant.switches]` and `[setting.switches]`, and puts the two together.

use super::keys;
use super::table::Reader;
use super::value::{Placed, Problems};
use crate::limits::HALT_POLL_NS;
use crate::model::Switches;
use crate::words::Dedicated;

/// The switches that a table has; `None` where it has none.
#[derive(Debug, Clone, Default)]
pub(super) struct Written {
    ple: Option<Placed<bool>>,
    apicv: Option<Placed<bool>>,
    dedicated: Option<Placed<Dedicated>>,
    halt_poll_ns: Option<Placed<u32>>,
}

/// The switches of `table`, whose own name is `place`.
pub(super) fn switches(table: &Reader<'_>, place: &str) -> Option<Written> {
    match Reader::optional(table.table("switches", &keys::switches(place)))? {
        Some(switches) => read(switches.get_ref()),
        None => Some(Written::default()),
    }
}

fn read(table: &Reader<'_>) -> Option<Written> {
    let ple = Reader::optional(table.boolean("ple"));
    let apicv = Reader::optional(table.boolean("apicv"));
    let dedicated = Reader::optional(table.word("dedicated"));
    let halt_poll_ns = Reader::optional(table.integer("halt_poll_ns", HALT_POLL_NS));
    let written = Written {
        ple: ple?,
        apicv: apicv?,
        dedicated: dedicated?,
        halt_poll_ns: halt_poll_ns?,
    };
    Some(written)
}

impl Written {
    /// A variant's switches with those of `setting`. A key that both have is reported.
    pub fn with(&self, setting: &str, other: &Self, problems: &Problems) -> Self {
        let both = Both { setting, problems };
        Self {
            ple: both.one("ple", &self.ple, &other.ple),
            apicv: both.one("apicv", &self.apicv, &other.apicv),
            dedicated: both.one("dedicated", &self.dedicated, &other.dedicated),
            halt_poll_ns: both.one("halt_poll_ns", &self.halt_poll_ns, &other.halt_poll_ns),
        }
    }

    /// The switches, defaults filled in.
    pub fn resolved(&self) -> Switches {
        let default = Switches::default();
        Switches {
            ple: value(&self.ple).unwrap_or(default.ple),
            apicv: value(&self.apicv).unwrap_or(default.apicv),
            dedicated: value(&self.dedicated),
            halt_poll_ns: value(&self.halt_poll_ns),
        }
    }
}

fn value<T: Copy>(written: &Option<Placed<T>>) -> Option<T> {
    written.as_ref().map(|value| *value.get_ref())
}

/// Where the keys of two tables come together.
struct Both<'a> {
    setting: &'a str,
    problems: &'a Problems,
}

impl Both<'_> {
    /// The value of `key`, which at most one of the two may have.
    fn one<T: Clone>(
        &self,
        key: &str,
        variant: &Option<Placed<T>>,
        setting: &Option<Placed<T>>,
    ) -> Option<Placed<T>> {
        if let (Some(variant), Some(_)) = (variant, setting) {
            let message = format!("`{key}` is switched by setting `{}` as well", self.setting);
            let label = "remove one of the two, or leave the setting out of `settings`";
            self.problems.add(variant.span(), message, label);
        }
        variant.clone().or_else(|| setting.clone())
    }
}
