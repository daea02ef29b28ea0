// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What happened in a trace of a host, and whether its accesses agree with its tables.
//!
//! Each access of the window is walked again through the tables as they are at that moment. A
//! processor may use an older translation until an instruction invalidates it. So an access also
//! agrees, as a stale one, with what an earlier walk of its page gave on its processor since that
//! one's last VM entry or exit, INVEPT or INVVPID, or INVLPG of the page. MOV to CR3 and INVPCID
//! spare global pages; they end nothing here, so what they should have dropped passes as stale.

use std::collections::{BTreeMap, HashMap};
use std::io::BufRead;

use super::stream::{Context, Event, HostTraceError, Stream};
use super::walk::{Frames, Walk};

/// `BX_INSTR_INVLPG` and what follows it, of Bochs's `enum BX_Instr_TLBControl`.
const INVLPG: u64 = 15;
const INVEPT: u64 = 16;
pub(super) const INVVPID: u64 = 17;
/// Mismatches that are kept, of all that are counted.
const KEPT: usize = 10;

/// Counts of a whole trace. What concerns accesses and tables is of its window, the rest from the
/// host's start to the window's end.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Counts {
    /// Processors.
    pub cpus: usize,
    /// Cycles of the clock at the window's start and end.
    pub window: [u64; 2],
    /// Accesses by VPID, 0 for the host: all, and stores among them.
    pub accesses: BTreeMap<u64, [u64; 2]>,
    /// Instructions between recorded accesses.
    pub instructions: u64,
    /// Frames read as tables.
    pub tables: u64,
    /// Entries of these that a write changed in their address or in their three lowest bits. A
    /// frame that was freed and holds data counts on.
    pub updates: u64,
    /// Events by name: from the host's start, and within the window.
    pub events: BTreeMap<String, [u64; 2]>,
    /// Accesses whose walk gave the recorded frame.
    pub agreed: u64,
    /// Accesses with a translation that was true, and that nothing had invalidated.
    pub stale: u64,
    /// Accesses in modes that are not walked.
    pub not_walked: u64,
    /// Accesses that no walk explains.
    pub mismatches: u64,
    /// The first of these, in words.
    pub first_mismatches: Vec<String>,
}

#[derive(Default)]
struct Cpu {
    context: Context,
    walked: HashMap<u64, u64>,
}

impl Counts {
    /// Reads a trace to its end.
    ///
    /// # Errors
    /// [`HostTraceError`] for a trace that is cut off or damaged.
    pub fn read(input: impl BufRead) -> Result<Self, HostTraceError> {
        let mut stream = Stream::new(input)?;
        let mut counts = Self {
            cpus: stream.cpus(),
            ..Self::default()
        };
        let mut frames = Frames::new(stream.frames());
        let mut cpus: Vec<Cpu> = (0..stream.cpus()).map(|_| Cpu::default()).collect();
        let mut open = false;
        while let Some((cpu, event)) = stream.event()? {
            if let Some(name) = name(&event) {
                let [all, within] = counts.events.entry(name).or_default();
                *all += 1;
                *within += u64::from(open);
            }
            forget(&mut cpus[cpu], &event);
            match event {
                Event::Access {
                    linear,
                    frame,
                    write,
                    instructions,
                    ..
                } => {
                    let its = &mut cpus[cpu];
                    let [all, stores] = counts.accesses.entry(its.context.vpid).or_default();
                    *all += 1;
                    *stores += u64::from(write);
                    counts.instructions += instructions;
                    counts.check(cpu, its, &frames, linear, frame);
                }
                Event::Context(context) => cpus[cpu].context = context,
                Event::Frame(frame, bytes) => {
                    counts.tables += u64::from(!frames.knows(frame));
                    frames.set(frame, &bytes);
                }
                Event::Table(place, bytes) => counts.updates += frames.write(place, &bytes),
                Event::Open => {
                    open = true;
                    counts.window[0] = stream.clock();
                }
                _ => {}
            }
        }
        counts.window[1] = stream.clock();
        Ok(counts)
    }

    fn check(&mut self, cpu: usize, its: &mut Cpu, frames: &Frames, linear: u64, frame: u64) {
        let page = linear >> 12;
        let found = frames.walk(&its.context, linear);
        match found {
            Walk::Frame(walked) if walked == frame => {
                self.agreed += 1;
                its.walked.insert(page, frame);
            }
            Walk::Mode => self.not_walked += 1,
            _ if its.walked.get(&page) == Some(&frame) => self.stale += 1,
            _ => {
                self.mismatches += 1;
                if self.first_mismatches.len() < KEPT {
                    self.first_mismatches.push(format!(
                        "CPU {cpu}, {linear:#x}: recorded frame {frame:#x}, walk {found:x?}, {:x?}",
                        its.context
                    ));
                }
            }
        }
    }

    /// Accesses of all.
    #[must_use]
    pub fn all_accesses(&self) -> u64 {
        self.accesses.values().map(|[all, _]| all).sum()
    }
}

/// Drops what an event invalidates.
fn forget(its: &mut Cpu, event: &Event) {
    match *event {
        Event::Entry { .. } | Event::Exit { .. } | Event::Control(INVEPT | INVVPID, ..) => {
            its.walked.clear();
        }
        Event::Control(INVLPG, _, _, [linear, _]) => {
            its.walked.remove(&(linear >> 12));
        }
        _ => {}
    }
}

/// What an event is counted under.
fn name(event: &Event) -> Option<String> {
    let of = |guest: bool| if guest { "guest" } else { "host" };
    Some(match *event {
        Event::Control(what, guest, kind, _) => {
            let what = match what {
                11 => "MOV to CR3",
                12 => "MOV to CR4",
                INVLPG => "INVLPG",
                INVEPT => "INVEPT",
                INVVPID => "INVVPID",
                18 => "INVPCID",
                _ => "other control",
            };
            match kind {
                0 if !what.ends_with("PID") => format!("{what}, {}", of(guest)),
                _ => format!("{what} type {kind}, {}", of(guest)),
            }
        }
        Event::Interrupt(vector, guest) => format!("interrupt {vector:#04x}, {}", of(guest)),
        Event::Ipi(_, command) => format!("IPI {:#04x}", command & 0xff),
        Event::Exit { reason, .. } => format!("VM exit {}", reason & 0xffff),
        Event::Entry { vpid, .. } => format!("VM entry, VPID {vpid}"),
        _ => return None,
    })
}
