// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a recording will cost, from a short one of the same events on the same host.
//!
//! The events are counted. What one costs is measured by writing lines of an event's usual size
//! into the same ring, less the same system calls on `/dev/null`, times [`EVENT`]. Left out: caches
//! that the guests lose.

use std::fmt;
use std::io::Write;
use std::time::{Duration, Instant};

use crate::error::RecordError;
use crate::instance::Instance;

/// How long the probe takes.
pub const PROBED: Duration = Duration::from_millis(500);
/// Lines that one measurement writes, and how many measurements there are; the least counts.
const LINES: u32 = 500;
const ROUNDS: u32 = 5;
/// Bytes of a line: with its head as much as an event of the scheduler.
const LINE: [u8; 48] = [b'x'; 48];
/// What an event costs beside such a line, as a fraction: its fields are gathered first, and some
/// are probes. By instructions of two busy VMs in Bochs with and without it
/// (docs/notes/2026-11-25-diagnosis.md).
const EVENT: (u64, u64) = (8, 5);

/// What a recording costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// Events in a second.
    pub events: u64,
    /// Bytes of the ring in a second.
    pub bytes: u64,
    /// Nanoseconds for one event.
    pub event_ns: u64,
    /// Nanoseconds in a second for looking at vCPUs.
    pub look_ns: u64,
}

impl Estimate {
    /// Share of one CPU, in thousandths of a percent.
    #[must_use]
    pub fn cpu(&self) -> u64 {
        let ns = self
            .events
            .saturating_mul(self.event_ns)
            .saturating_add(self.look_ns);
        ns / 10_000
    }

    /// How long `bytes` of a ring last, in seconds.
    #[must_use]
    pub fn lasts(&self, bytes: u64) -> u64 {
        bytes / self.bytes.max(1)
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpu = self.cpu();
        write!(
            f,
            "about {}.{:02} % of one CPU ({} events a second, {} ns each, measured now",
            cpu / 1000,
            cpu % 1000 / 10,
            self.events,
            self.event_ns
        )?;
        if self.look_ns > 0 {
            write!(
                f,
                "; {} us a second for looking at vCPUs",
                self.look_ns / 1000
            )?;
        }
        f.write_str(")")
    }
}

/// Records for [`PROBED`]; the ring is empty and off afterwards, its events on.
///
/// # Errors
/// [`RecordError::Io`].
pub fn probe(ring: &Instance) -> Result<Estimate, RecordError> {
    let event_ns = event_ns(ring);
    ring.clear()?;
    ring.on()?;
    let begun = Instant::now();
    std::thread::sleep(PROBED);
    ring.record(false)?;
    let passed_ns = u64::try_from(begun.elapsed().as_nanos())
        .unwrap_or(u64::MAX)
        .max(1);
    let (kept, bytes) = (ring.stat("entries"), ring.stat("bytes"));
    let all = kept + ring.stat("overrun") + ring.stat("dropped events");
    ring.clear()?;
    let each = bytes / kept.max(1);
    let in_a_second = |count: u64| {
        u64::try_from(u128::from(count) * 1_000_000_000 / u128::from(passed_ns)).unwrap_or(u64::MAX)
    };
    Ok(Estimate {
        events: in_a_second(all),
        bytes: in_a_second(all.saturating_mul(each)),
        event_ns,
        look_ns: 0,
    })
}

/// Nanoseconds for one event.
fn event_ns(ring: &Instance) -> u64 {
    let time = |file: &mut dyn Write| {
        let begun = Instant::now();
        let whole = (0..LINES).all(|_| file.write_all(&LINE).is_ok());
        let ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        whole.then_some(ns / u64::from(LINES))
    };
    let least = |file: std::io::Result<std::fs::File>| {
        let mut file = file.ok()?;
        (0..ROUNDS).filter_map(|_| time(&mut file)).min()
    };
    // Lines pass only while the ring records.
    let on = ring.record(true);
    let line = least(ring.marker());
    let call = least(std::fs::OpenOptions::new().write(true).open("/dev/null"));
    let _ = on.and_then(|()| ring.record(false));
    match (line, call) {
        (Some(line), Some(call)) => (line.saturating_sub(call) * EVENT.0 / EVENT.1).max(1),
        // What tracepoints cost on machines of the 2010s.
        _ => 400,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_a_cpu_is_events_times_their_cost_and_the_looks() {
        let estimate = Estimate {
            events: 20_000,
            bytes: 1_000_000,
            event_ns: 500,
            look_ns: 2_500_000,
        };
        assert_eq!(estimate.cpu(), 1_250);
        assert!(
            estimate
                .to_string()
                .starts_with("about 1.25 % of one CPU (20000 events")
        );
        assert_eq!(estimate.lasts(64 << 20), 67);
    }
}
