// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decodes the records of one trace.
//!
//! Fields are found by name, once for each event of a trace.

use steady_events::{Event, Gap, Kind};
use steady_tracefile::{EventDef, Record};

use crate::fields::{Exits, Fields, Ids, Row};
use crate::{remedy, rows};

/// Decodes the records of one trace. What the trace says of itself must not change under it.
#[derive(Debug)]
pub struct Decoder {
    extra: &'static [Row],
    only: Option<&'static [&'static str]>,
    layouts: Vec<Option<Layout>>,
    exits: Exits,
    unreadable: u64,
}

/// How the records of one of the trace's events are read.
#[derive(Debug)]
struct Layout {
    event: String,
    row: Option<&'static Row>,
    ids: Ids,
}

impl Layout {
    fn of(event: &EventDef, extra: &'static [Row], only: Option<&[&str]>) -> Self {
        if only.is_some_and(|names| !names.contains(&event.name.as_str())) {
            return Self {
                event: event.name.clone(),
                row: None,
                ids: Ids::default(),
            };
        }
        let mut rows = extra.iter().chain(rows::KNOWN);
        let row = rows.find(|row| row.is_of(event));
        let row = row.or_else(|| remedy::row(event));
        Self {
            event: event.name.clone(),
            row,
            ids: row.map(|row| row.ids(event)).unwrap_or_default(),
        }
    }
}

impl Default for Decoder {
    fn default() -> Self {
        Self::with(&[])
    }
}

impl Decoder {
    /// A decoder that knows more events than those of Linux and of this project. Where `extra` and
    /// the table name the same tracepoint, `extra` holds.
    #[must_use]
    pub fn with(extra: &'static [Row]) -> Self {
        Self {
            extra,
            only: None,
            layouts: Vec::new(),
            exits: Exits::default(),
            unreadable: 0,
        }
    }

    /// A decoder for which all but these tracepoints are of no use: it does not read their fields.
    #[must_use]
    pub fn only(names: &'static [&'static str]) -> Self {
        Self {
            only: Some(names),
            ..Self::default()
        }
    }

    /// Records of events known by name that could not be read.
    #[must_use]
    pub fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// Names of exits that no table has, as [`steady_events::About::exit_names`] wants them.
    #[must_use]
    pub fn exit_names(&self) -> Vec<String> {
        self.exits.names.borrow().clone()
    }

    /// The event of a record. All records must come from one source.
    #[inline]
    pub fn event<'a>(&mut self, record: &Record<'a>) -> Event<'a> {
        let index = record.event.index;
        if index >= self.layouts.len() {
            self.layouts.resize_with(index + 1, || None);
        }
        let layout = self.layouts[index]
            .get_or_insert_with(|| Layout::of(record.event, self.extra, self.only));
        debug_assert_eq!(
            layout.event, record.event.name,
            "a source gives each of its events one number"
        );
        let kind = layout.row.map_or(Some(Kind::Other), |row| {
            (row.read)(&Fields {
                record,
                ids: &layout.ids,
                exits: &self.exits,
            })
        });
        self.unreadable += u64::from(kind.is_none());
        Event {
            time_ns: record.time_ns,
            cpu: record.cpu,
            tid: record.pid,
            comm: record.comm,
            process: record.process,
            gap: match record.gap {
                steady_tracefile::Gap::None => Gap::None,
                steady_tracefile::Gap::Cpu => Gap::Cpu,
                steady_tracefile::Gap::Any => Gap::Any,
            },
            kind: kind.unwrap_or(Kind::Other),
        }
    }
}
