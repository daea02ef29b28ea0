// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recorded host as a source: the accesses of its VMs, and the updates that were made in it.
//!
//! Each vCPU is a thread. A page has the name that the trace's tables give it, so what two
//! processes of a guest share is one page. The tables' updates are found when the trace is opened,
//! which reads it once; a marker in the thread of its initiator says where each is.
//!
//! A vCPU that was on one processor alone stays there.
//!
//! Left out: accesses of the host itself, when which vCPU ran on which processor, the frames'
//! numbers, 2 MiB pages, what two pages with one frame share, flushes by a guest's switches of
//! address spaces, and updates that give rights or map what was not mapped.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use std::path::Path;
use std::sync::Arc;

use steady_memtrace::host::{Actor, Event, MAGIC, Owner, Rates, Stream, Tracker, What};

use crate::Error;
use crate::num::{low16, low32};
use crate::os::Agent;
use crate::record::{Record, Recorded, Source};

/// Events of a block.
const BLOCK: u64 = 1 << 16;
/// Most bytes that a record of an access says.
const MOST_BYTES: u64 = 255;
/// Most instructions before it.
const MOST_INSTRUCTIONS: u64 = 1 << 31;

/// Where an update is in a trace.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// Number of the event that it is made after.
    at: u64,
    thread: u16,
}

/// A trace of a host that is being read.
#[derive(Debug)]
pub struct Host<R> {
    stream: Stream<R>,
    tracker: Tracker,
    vms: u16,
    threads_per_vm: u16,
    accesses: u64,
    /// Thread of each vCPU, by VPID.
    threads: BTreeMap<u16, u16>,
    /// The processor that each thread was alone on.
    processors: Vec<Option<u16>>,
    places: Vec<Place>,
    next: usize,
    updates: Arc<[Recorded]>,
}

/// Opens a trace of a host, and reads it once.
///
/// # Errors
/// [`Error::Source`] when it cannot be read, is damaged, or has no access of a VM.
pub fn open(path: &Path) -> Result<Host<BufReader<File>>, Error> {
    let said =
        |error: &dyn std::fmt::Display| Error::Source(format!("{}: {error}", path.display()));
    let file = File::open(path).map_err(|error| said(&error))?;
    Host::new(BufReader::with_capacity(1 << 20, file)).map_err(|error| said(&error))
}

impl<R: BufRead + Seek> Host<R> {
    /// Of an input that is read twice.
    ///
    /// # Errors
    /// As [`open`].
    pub fn new(mut input: R) -> Result<Self, Error> {
        let wrong = |error: &dyn std::fmt::Display| Error::Source(error.to_string());
        let rates = Rates::read(&mut input).map_err(|error| wrong(&error))?;
        input.rewind().map_err(|error| wrong(&error))?;
        let stream = Stream::new(input).map_err(|error| wrong(&error))?;
        let seen = |its: &&Owner| its.accesses[0] > 0;
        let vms: Vec<_> = rates
            .owners
            .iter()
            .filter(|(owner, its)| **owner > 0 && seen(its))
            .collect();
        if vms.is_empty() {
            return Err(Error::Source(
                "no VM accessed memory; record a later window, or more accesses".to_owned(),
            ));
        }
        let per = vms
            .iter()
            .map(|(_, its)| its.vpids.len())
            .max()
            .unwrap_or(0);
        let mut threads = BTreeMap::new();
        for (vm, (_, its)) in vms.iter().enumerate() {
            for (number, &vpid) in its.vpids.iter().enumerate() {
                threads.insert(vpid, low16((vm * per + number) as u64));
            }
        }
        let processors = alone_on(&rates, &threads, vms.len() * per);
        let (mut places, mut updates) = (Vec::new(), Vec::new());
        for update in &rates.updates {
            let Some(vm) = vms.iter().position(|(owner, _)| **owner == update.owner) else {
                continue;
            };
            let thread = match update.by {
                Actor::Vcpu(vpid) => threads.get(&vpid).copied(),
                Actor::Processor(_) => None,
            };
            places.push(Place {
                at: update.at,
                // The host's are in a thread of the VM: it is the VM's time that they take.
                thread: thread.unwrap_or(low16((vm * per) as u64)),
            });
            updates.push(Recorded {
                vm: low16(vm as u64),
                agent: if update.ept {
                    Agent::Host
                } else {
                    Agent::Guest
                },
                pages: update.pages.clone(),
                fewer: update.fewer.clone(),
                victims: update.told.union(&update.told_by_host).count() as u64,
            });
        }
        assert!(places.is_sorted_by_key(|place| place.at), "in their order");
        Ok(Self {
            tracker: Tracker::new(stream.cpus(), stream.frames()),
            stream,
            vms: low16(vms.len() as u64),
            threads_per_vm: low16(per as u64),
            accesses: vms.iter().map(|(_, its)| its.accesses[0]).sum(),
            threads,
            processors,
            places,
            next: 0,
            updates: updates.into(),
        })
    }
}

/// The processor that each of `count` threads was alone on.
fn alone_on(rates: &Rates, threads: &BTreeMap<u16, u16>, count: usize) -> Vec<Option<u16>> {
    let mut processors = vec![None; count];
    for (vpid, &thread) in threads {
        let mut ran = rates.ran.get(vpid).into_iter().flatten();
        processors[usize::from(thread)] = match (ran.next(), ran.next()) {
            (Some(&one), None) => Some(low16(one as u64)),
            _ => None,
        };
    }
    processors
}

impl<R> Host<R> {
    /// VMs with accesses.
    #[must_use]
    pub const fn vms(&self) -> u16 {
        self.vms
    }

    /// The most vCPUs of one: thread `t` is of VM `t / threads_per_vm`.
    #[must_use]
    pub const fn threads_per_vm(&self) -> u16 {
        self.threads_per_vm
    }

    /// Accesses of all VMs.
    #[must_use]
    pub const fn accesses(&self) -> u64 {
        self.accesses
    }

    /// Markers of updates that have been made when this number of events were seen.
    fn made(&mut self, out: &mut Vec<Record>) {
        while let Some(place) = self.places.get(self.next)
            && place.at <= self.tracker.events()
        {
            out.push(Record::Marker {
                thread: place.thread,
                id: low32(self.next as u64),
            });
            self.next += 1;
        }
    }
}

impl<R: BufRead + Send> Source for Host<R> {
    fn next_block(&mut self, out: &mut Vec<Record>) -> Result<bool, Error> {
        let before = out.len();
        // A long part without accesses of a VM is not the end.
        while out.len() == before {
            for _ in 0..BLOCK {
                let event = self.stream.event();
                let Some((cpu, event)) = event.map_err(|error| Error::Source(error.to_string()))?
                else {
                    return Ok(out.len() > before);
                };
                let what = self.tracker.event(cpu, &event);
                if let (
                    Event::Access {
                        linear,
                        bytes,
                        write,
                        instructions,
                        ..
                    },
                    What::Access(_, Actor::Vcpu(vpid), page),
                ) = (event, what)
                    && let Some(&thread) = self.threads.get(&vpid)
                {
                    out.push(Record::Access {
                        thread,
                        vaddr: page << 12 | linear & 0xfff,
                        size: u8::try_from(bytes.min(MOST_BYTES)).unwrap_or(u8::MAX),
                        write,
                        instructions: low32(instructions.min(MOST_INSTRUCTIONS)),
                    });
                }
                self.made(out);
            }
        }
        Ok(true)
    }

    fn updates(&self) -> Arc<[Recorded]> {
        Arc::clone(&self.updates)
    }

    fn processors(&self) -> Option<Vec<Option<u16>>> {
        Some(self.processors.clone())
    }
}

/// Whether a file begins as a trace of a host does.
#[must_use]
pub fn is_host_trace(path: &Path) -> bool {
    let mut begin = [0; 8];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut begin));
    read.is_ok() && &begin == MAGIC
}
