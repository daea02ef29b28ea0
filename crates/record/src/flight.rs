// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The flight recorder: the ring keeps the last seconds, which are written whenever a vCPU waits.
//!
//! Left out: how a wait is found (`watch.rs`), and how many incidents are kept (`shelf.rs`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::condition::Condition;
use crate::error::RecordError;
use crate::gather::{Pages, unix_s};
use crate::recorder::{BESIDE, MIB, Recorder, now_ns, threads};
use crate::shelf::Shelf;
use crate::tables;
use crate::watch::{Wait, Watch};

/// How often it is looked which VMs there are.
const RESCAN: Duration = Duration::from_secs(5);
/// How often the tables of before are renewed.
const TABLES: Duration = Duration::from_secs(20);
/// How long the end of a wait is waited for, so that the incident has all of it.
const END: Duration = Duration::from_secs(10);
/// How long what follows a wait is recorded.
const AFTER: Duration = Duration::from_millis(100);
/// Time between two incidents.
const PAUSE: Duration = Duration::from_secs(30);

impl Recorder<'_> {
    /// Keeps the last seconds, and writes them to the shelf whenever the condition holds. What an
    /// incident met that could not be written is said, and it goes on.
    ///
    /// # Errors
    /// [`RecordError`], of the ring; incidents that were written stay.
    pub fn until(
        &mut self,
        condition: Condition,
        shelf: &Shelf,
        stop: &AtomicBool,
        say: &mut dyn FnMut(&str),
    ) -> Result<u64, RecordError> {
        let begun = Instant::now();
        let mut watch = Watch::new(&self.options.host.proc, condition.wait_ns);
        watch.follow(&self.notes, self.only().map(|vm| vm.process), now_ns())?;
        let period = Duration::from_nanos(watch.period_ns());
        let at_first = tables::tables(&self.options.host, &self.notes);
        let mut latest = [at_first.clone(), at_first];
        let (mut scanned, mut tabled) = (begun, begun);
        let mut quiet_until = begun;
        let mut found = 0;
        self.ring.record(true)?;
        let over = |time: Option<Duration>| time.is_some_and(|time| begun.elapsed() >= time);
        while !over(self.options.time) && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(period);
            if scanned.elapsed() >= RESCAN {
                scanned = Instant::now();
                self.rescan(&mut watch)?;
            }
            if tabled.elapsed() >= TABLES {
                tabled = Instant::now();
                latest.swap(0, 1);
                latest[1] = tables::tables(&self.options.host, &self.notes);
            }
            let Some(wait) = watch.look(now_ns()) else {
                continue;
            };
            if Instant::now() < quiet_until {
                continue;
            }
            let wait = Self::to_its_end(wait, &mut watch, period, stop);
            match self.incident(shelf, &wait, &latest[0]) {
                Ok(said) => {
                    found += 1;
                    say(&said);
                }
                Err(error) => say(&format!("{wait}: {}", chain(&error))),
            }
            quiet_until = Instant::now() + PAUSE;
            self.ring.record(true)?;
        }
        Ok(found)
    }

    /// VMs that started are watched from now on, and their events pass.
    fn rescan(&mut self, watch: &mut Watch) -> Result<(), RecordError> {
        if !self.renew() && !watch.is_empty() {
            return Ok(());
        }
        let only = self.only().map(|vm| (vm.process, threads(vm)));
        if let Some((_, tids)) = &only
            && !self.ring.only(tids)
        {
            let what = "the filter by VM: too long for this kernel by now".to_owned();
            if !self.left_out.contains(&what) {
                self.left_out.push(what);
            }
        }
        watch.follow(&self.notes, only.map(|(process, _)| process), now_ns())
    }

    /// Waits for the end of a wait, and a little longer.
    fn to_its_end(mut wait: Wait, watch: &mut Watch, period: Duration, stop: &AtomicBool) -> Wait {
        let begun = Instant::now();
        while !wait.ended
            && watch.goes_on(wait.tid)
            && begun.elapsed() < END
            && !stop.load(Ordering::Relaxed)
        {
            std::thread::sleep(period);
            let _ = watch.look(now_ns());
        }
        let passed = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        if !wait.ended {
            wait.at_least_ns += passed;
        }
        std::thread::sleep(AFTER);
        wait
    }

    /// Writes what the ring holds; what to say of it.
    fn incident(
        &mut self,
        shelf: &Shelf,
        wait: &Wait,
        before: &str,
    ) -> Result<String, RecordError> {
        self.ring.record(false)?;
        self.renew();
        let bound = self.ring_bytes() + BESIDE;
        // The pages on their way, and the file.
        if shelf.free() < 2 * bound {
            // The ring must not hold two incidents.
            self.ring.clear()?;
            return Err(RecordError::Damaged {
                path: shelf.folder().to_owned(),
                what: format!(
                    "not written: {} MiB are free and up to {} needed; going on",
                    shelf.free() / MIB,
                    2 * bound / MIB
                ),
            });
        }
        let mut pages = Pages::new(&self.ring, shelf.folder())?;
        pages.take(&mut self.ring, u64::MAX, true)?;
        // It packs to less; only then is known how much less.
        let mut gone = shelf.make_room(pages.len().clamp(1, shelf.most))?;
        let path = shelf.place(unix_s());
        let size = self.write(&path, &mut pages, before, Some(wait))?;
        gone.extend(shelf.make_room(0)?);
        if gone.contains(&path) {
            return Err(RecordError::Damaged {
                path,
                what: format!(
                    "removed: {} KiB are more than --max-mib; going on",
                    size / 1024
                ),
            });
        }
        let gone = match gone.len() {
            0 => String::new(),
            count => format!("; {count} older removed"),
        };
        Ok(format!(
            "{wait}: {} ({} KiB){gone}",
            path.display(),
            size / 1024
        ))
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut said = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        said.push_str(&format!(": {inner}"));
        source = inner.source();
    }
    said
}
