// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `[variant.switches]` and `[setting.switches]`, and puts the two together.

use super::keys;
use super::table::Reader;
use super::value::{Placed, Problems};
use crate::limits::{HALT_POLL_NS, PLE_WINDOW_NS};
use crate::model::Switches;
use crate::words::Dedicated;

/// The switches that a table has; `None` where it has none.
#[derive(Debug, Clone, Default)]
pub(super) struct Written {
    ple: Option<Placed<bool>>,
    ple_window_ns: Option<Placed<u32>>,
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
    let ple_window_ns = Reader::optional(table.integer("ple_window_ns", PLE_WINDOW_NS));
    let apicv = Reader::optional(table.boolean("apicv"));
    let dedicated = Reader::optional(table.word("dedicated"));
    let halt_poll_ns = Reader::optional(table.integer("halt_poll_ns", HALT_POLL_NS));
    let written = Written {
        ple: ple?,
        ple_window_ns: ple_window_ns?,
        apicv: apicv?,
        dedicated: dedicated?,
        halt_poll_ns: halt_poll_ns?,
    };
    check_window(&written, &written, table.problems);
    Some(written)
}

/// Reports a window of pause-loop exiting where that is off.
fn check_window(of: &Written, ple: &Written, problems: &Problems) {
    let off = ple.ple.as_ref().is_some_and(|ple| !*ple.get_ref());
    if let Some(window) = of.ple_window_ns.as_ref().filter(|_| off) {
        let message = "`ple_window_ns` has no effect with `ple = false`";
        problems.add(window.span(), message, "remove one of the two");
    }
}

impl Written {
    /// A variant's switches with those of `setting`. A key that both have is reported.
    pub fn with(&self, setting: &str, other: &Self, problems: &Problems) -> Self {
        check_window(self, other, problems);
        check_window(other, self, problems);
        let both = Both { setting, problems };
        Self {
            ple: both.one("ple", &self.ple, &other.ple),
            ple_window_ns: both.one("ple_window_ns", &self.ple_window_ns, &other.ple_window_ns),
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
            ple_window_ns: value(&self.ple_window_ns),
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
