// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One row of the table of events, and the fields that it reads.

use std::cell::{Cell, RefCell};

use steady_events::{ExitReason, Isa, Kind};
use steady_tracefile::{EventDef, FieldId, Record};

/// Fields of a row, at most.
pub const MOST_FIELDS: usize = 9;
/// Names of a field, at most.
pub const MOST_NAMES: usize = 4;

/// How one tracepoint becomes an event.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Name of the tracepoint.
    pub name: &'static str,
    /// Its system, if others have tracepoints of this name; a trace that does not name the system
    /// is believed.
    pub system: Option<&'static str>,
    /// Names of the fields that are read, at most [`MOST_FIELDS`]; where printed text calls one
    /// otherwise than the binary format does, both names with a `|` between them.
    pub fields: &'static [&'static str],
    /// Reads the record, its fields by their place in `fields`; `None` if it lacks one without
    /// which it means nothing.
    pub read: for<'r, 'a> fn(&Fields<'r, 'a>) -> Option<Kind<'a>>,
}

/// The identifiers of a row's fields in one trace.
pub(crate) type Ids = [[Option<FieldId>; MOST_NAMES]; MOST_FIELDS];

impl Row {
    /// Whether it reads this event of a trace.
    pub(crate) fn is_of(&self, event: &EventDef) -> bool {
        let own = |system| event.system.is_empty() || event.system == system;
        self.name == event.name && self.system.is_none_or(own)
    }

    pub(crate) fn ids(&self, event: &EventDef) -> Ids {
        assert!(
            self.fields.len() <= MOST_FIELDS,
            "{} reads too many fields",
            self.name
        );
        let mut ids = Ids::default();
        for (ids, names) in ids.iter_mut().zip(self.fields) {
            let count = names.split('|').count();
            assert!(count <= MOST_NAMES, "{names} has too many names");
            for (id, name) in ids.iter_mut().zip(names.split('|')) {
                *id = event.field(name);
            }
        }
        ids
    }
}

/// A record with the places of its row's fields.
#[derive(Debug)]
pub struct Fields<'r, 'a> {
    pub(crate) record: &'r Record<'a>,
    pub(crate) ids: &'r Ids,
    pub(crate) exits: &'r Exits,
}

/// Names of exits that no table has, at most; further ones share the last.
const MOST_EXIT_NAMES: usize = 256;
/// Known names that are kept with their reasons, so that the tables are searched once for each.
const RECENT: usize = 32;

/// What the exits of a trace have shown of those to come.
#[derive(Debug, Default)]
pub(crate) struct Exits {
    /// The ISA of exits whose records do not name it: that of the last one that did.
    pub isa: Cell<Option<Isa>>,
    /// Names that no table has.
    pub names: RefCell<Vec<String>>,
    /// Known names, on which ISA they were read, and what they are.
    recent: RefCell<Vec<Recent>>,
}

type Recent = (Box<[u8]>, Option<Isa>, ExitReason);

impl Exits {
    /// The reason of a printed name.
    pub fn named(&self, printed: &[u8]) -> ExitReason {
        let on = self.isa.get();
        let mut recent = self.recent.borrow_mut();
        let mut known = recent.iter();
        if let Some(&(.., reason)) = known.find(|of| of.1 == on && *of.0 == *printed) {
            self.isa.set(Some(reason.isa));
            return reason;
        }
        let name = String::from_utf8_lossy(printed);
        // Flags stand behind the name (`INVALID_STATE FAILED_VMENTRY`), and some names have blanks.
        let known = ExitReason::from_name(&name, on).or_else(|| {
            let first = name.split(' ').next()?;
            ExitReason::from_name(first, on)
        });
        if let Some(reason) = known {
            if recent.len() < RECENT {
                recent.push((printed.into(), on, reason));
            }
            assert!(recent.len() <= RECENT, "memory stays bounded");
            self.isa.set(Some(reason.isa));
            return reason;
        }
        let mut names = self.names.borrow_mut();
        let at = names.iter().position(|known| *known == name);
        let at = at.unwrap_or_else(|| {
            if names.len() < MOST_EXIT_NAMES {
                names.push(name.into_owned());
            }
            names.len() - 1
        });
        assert!(names.len() <= MOST_EXIT_NAMES, "memory stays bounded");
        let at = u32::try_from(at).unwrap_or(0);
        ExitReason::nameless(on.unwrap_or(Isa::Vmx), at)
    }
}

impl<'a> Fields<'_, 'a> {
    /// The event as the trace describes it.
    #[must_use]
    pub fn event(&self) -> &'a EventDef {
        self.record.event
    }

    /// A number.
    #[must_use]
    pub fn u64(&self, at: usize) -> Option<u64> {
        let mut ids = self.ids[at].iter().flatten();
        ids.find_map(|&id| self.record.u64(id))
    }

    /// A number of 32 bits.
    #[must_use]
    pub fn u32(&self, at: usize) -> Option<u32> {
        self.u64(at).and_then(|value| u32::try_from(value).ok())
    }

    /// A thread.
    #[must_use]
    pub fn tid(&self, at: usize) -> Option<i32> {
        let mut ids = self.ids[at].iter().flatten();
        let value = ids.find_map(|&id| self.record.i64(id))?;
        i32::try_from(value).ok()
    }

    /// A name, a word of text.
    #[must_use]
    pub fn str(&self, at: usize) -> Option<&'a [u8]> {
        let mut ids = self.ids[at].iter().flatten();
        ids.find_map(|&id| self.record.str(id))
    }

    /// The low byte, which is where an interrupt command keeps its vector.
    #[must_use]
    pub fn vector(&self, at: usize) -> Option<u8> {
        u8::try_from(self.u64(at)? & 0xff).ok()
    }

    /// A flag that is a number in binary traces and a word in text.
    #[must_use]
    pub fn flag(&self, at: usize) -> Option<bool> {
        match self.u64(at) {
            Some(value) => Some(value != 0),
            None => Some(matches!(self.str(at)?, b"true" | b"Y" | b"wait" | b"write")),
        }
    }
}
