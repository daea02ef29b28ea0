// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recorded trace as a source of events.

use steady_events::{About, Cut, Event, EventSource, Loss, ReadError, probe};
use steady_tracefile::Source;

use crate::decoder::Decoder;

/// The events of a trace.
pub struct TraceEvents<'s> {
    source: &'s mut dyn Source,
    decoder: Decoder,
}

impl std::fmt::Debug for TraceEvents<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TraceEvents")
            .field("decoder", &self.decoder)
            .finish_non_exhaustive()
    }
}

impl<'s> TraceEvents<'s> {
    /// Of a trace from which nothing was read yet.
    pub fn new(source: &'s mut dyn Source) -> Self {
        Self::decoded(source, Decoder::default())
    }

    /// The same, decoded by a decoder that knows more.
    pub fn decoded(source: &'s mut dyn Source, decoder: Decoder) -> Self {
        Self { source, decoder }
    }
}

impl EventSource for TraceEvents<'_> {
    fn about(&self) -> About {
        let about = self.source.about();
        // Text describes no events ahead; there the probes are taken to be those of `steady
        // record`.
        let is_text = about.format.is_text();
        let described = about.event(probe::GROUP, "boost_return").is_some();
        About {
            format: about.format.to_string(),
            release: about.release.clone(),
            clock: about.clock.clone(),
            clock_is_ns: about.clock_is_ns,
            pcpus: Some(about.cpus).filter(|&cpus| cpus > 0),
            boost_returns: is_text || described,
            exit_names: self.decoder.exit_names(),
        }
    }

    #[inline]
    fn next(&mut self) -> Result<Option<Event<'_>>, ReadError> {
        match self.source.next() {
            Ok(Some(record)) => Ok(Some(self.decoder.event(&record))),
            Ok(None) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn loss(&self) -> Loss {
        let loss = self.source.loss();
        let damage = loss.damage.iter();
        let told = Loss {
            lost_events: loss.lost(),
            unknown_gaps: loss.cpus.values().map(|cpu| cpu.gaps_unknown).sum(),
            cut: loss.truncated.map(|cut| Cut {
                place: cut.place.to_string(),
                missing_bytes: cut.missing_bytes,
            }),
            undescribed: loss.unknown_events.values().sum(),
            other_records: loss.other_records,
            unread_lines: loss.unread_lines,
            unread: loss
                .unread
                .iter()
                .map(|damage| format!("{}: {}", damage.place, damage.what))
                .collect(),
            out_of_order: loss.out_of_order,
            damaged: loss.damage_count,
            damage: damage
                .map(|damage| format!("{}: {}", damage.place, damage.what))
                .collect(),
            unreadable: self.decoder.unreadable(),
        };
        told.check();
        told
    }
}
