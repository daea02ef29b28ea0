// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A stream of events with what is known of it: what an analysis takes in.
//!
//! A trace of a real host is one such source, once it is decoded; a simulator is another; a test
//! gives a list.

use std::marker::PhantomData;

use crate::event::Event;

/// Why a source cannot go on.
pub type ReadError = Box<dyn std::error::Error + Send + Sync>;

/// What a source says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// What it is, in a few words: `trace.dat version 6`.
    pub format: String,
    /// The kernel's release (`uname -r`), if it is known.
    pub release: Option<String>,
    /// The clock of its time stamps, as the kernel calls it, if it is known.
    pub clock: Option<String>,
    /// False if the clock counts something other than nanoseconds.
    pub clock_is_ns: bool,
    /// CPUs of the machine, if they are known.
    pub pcpus: Option<u32>,
    /// Whether each [`crate::Kind::BoostTry`] is answered by a [`crate::Kind::BoostReturn`].
    pub boost_returns: bool,
    /// Names of exits that no table has ([`crate::ExitReason::nameless`]), in the order in which
    /// they were seen.
    pub exit_names: Vec<String>,
}

impl About {
    /// A source of whole, complete events in nanoseconds, such as a simulator.
    #[must_use]
    pub fn complete(format: &str, pcpus: u32) -> Self {
        assert!(pcpus > 0, "a machine has a CPU");
        Self {
            format: format.to_owned(),
            release: None,
            clock: None,
            clock_is_ns: true,
            pcpus: Some(pcpus),
            boost_returns: true,
            exit_names: Vec::new(),
        }
    }
}

/// An end that is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// Where the source ends: a byte, a line.
    pub place: String,
    /// Bytes that should follow, if it is known how many.
    pub missing_bytes: Option<u64>,
}

/// What is missing from a source. Nothing, by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loss {
    /// Events that were dropped, as far as it is known how many.
    pub lost_events: u64,
    /// Places where events were dropped and it is not known how many.
    pub unknown_gaps: u64,
    /// Set if the source was cut off.
    pub cut: Option<Cut>,
    /// Records of events that the source does not describe.
    pub undescribed: u64,
    /// Records or lines that are not events.
    pub other_records: u64,
    /// Lines of text that could not be read.
    pub unread_lines: u64,
    /// The first of them: where and what.
    pub unread: Vec<String>,
    /// Events that came after later ones.
    pub out_of_order: u64,
    /// Damaged places.
    pub damaged: u64,
    /// The first of them: where and what.
    pub damage: Vec<String>,
    /// Records of known events that lack what they need.
    pub unreadable: u64,
}

impl Loss {
    /// Holds what must hold of any loss.
    ///
    /// # Panics
    /// If it does not: the source counts wrongly.
    pub fn check(&self) {
        let told = u64::try_from(self.damage.len()).unwrap_or(u64::MAX);
        assert!(
            told <= self.damaged,
            "more damage is reported than was counted"
        );
        assert!(
            u64::try_from(self.unread.len()).is_ok_and(|shown| shown <= self.unread_lines),
            "more unread lines are shown than were counted"
        );
        let cut = self.cut.as_ref();
        assert!(
            cut.is_none_or(|cut| !cut.place.is_empty()),
            "a cut has a place"
        );
    }
}

/// Gives the events of a host one after the other, in the order of time.
pub trait EventSource {
    /// What the source says about itself; final once [`Self::next`] has given `None`.
    fn about(&self) -> About;

    /// The next event; `None` at the end.
    ///
    /// # Errors
    /// If it cannot be read. What is damaged or missing is not an error, but in [`Self::loss`].
    fn next(&mut self) -> Result<Option<Event<'_>>, ReadError>;

    /// What is missing; final once [`Self::next`] has given `None`.
    fn loss(&self) -> Loss;
}

/// Events of any iterator as a source: of a simulator, or made by hand.
#[derive(Debug, Clone)]
pub struct Feed<'e, I> {
    about: About,
    loss: Loss,
    events: I,
    last_ns: u64,
    names: PhantomData<&'e ()>,
}

impl<'e, I: Iterator<Item = Event<'e>>> Feed<'e, I> {
    /// A source that loses nothing.
    pub fn new(about: About, events: impl IntoIterator<IntoIter = I>) -> Self {
        Self {
            about,
            loss: Loss::default(),
            events: events.into_iter(),
            last_ns: 0,
            names: PhantomData,
        }
    }

    /// The same, with this missing from it.
    #[must_use]
    pub fn with_loss(mut self, loss: Loss) -> Self {
        loss.check();
        self.loss = loss;
        self
    }
}

impl<'e, I: Iterator<Item = Event<'e>>> EventSource for Feed<'e, I> {
    fn about(&self) -> About {
        self.about.clone()
    }

    fn next(&mut self) -> Result<Option<Event<'_>>, ReadError> {
        let event = self.events.next();
        if let Some(event) = &event {
            // A simulator that goes back in time is wrong; analyses bear it, so it is reported.
            self.loss.out_of_order += u64::from(event.time_ns < self.last_ns);
            self.last_ns = self.last_ns.max(event.time_ns);
        }
        Ok(event)
    }

    fn loss(&self) -> Loss {
        self.loss.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Gap, Kind};

    fn at(time_ns: u64) -> Event<'static> {
        Event {
            time_ns,
            cpu: 0,
            tid: 1,
            comm: b"x",
            process: 0,
            gap: Gap::None,
            kind: Kind::HostTimer,
        }
    }

    #[test]
    fn a_feed_gives_its_events_and_tells_of_those_that_go_back_in_time() {
        let mut feed = Feed::new(About::complete("a list", 1), [at(5), at(4), at(6)]);
        let mut times = Vec::new();
        while let Some(event) = feed.next().unwrap() {
            times.push(event.time_ns);
        }
        assert_eq!(times, [5, 4, 6]);
        assert_eq!(feed.loss().out_of_order, 1);
    }

    #[test]
    #[should_panic(expected = "more damage is reported")]
    fn a_loss_that_tells_more_than_it_counts_is_refused() {
        let loss = Loss {
            damage: vec!["byte 7: torn".to_owned()],
            ..Loss::default()
        };
        let none: [Event<'static>; 0] = [];
        let _ = Feed::new(About::complete("a list", 1), none).with_loss(loss);
    }
}
