// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The stream of events, decoded one after another. It is read once and never held whole.

use std::io::{self, BufRead};

/// What a trace of a host begins with.
pub const MAGIC: &[u8; 8] = b"SHTRACE1";
/// Slots of each processor's memory of the frames that its pages had.
const PAGES: usize = 4096;
/// Most processors: four bits of a tag.
const MOST_CPUS: u64 = 16;
/// Most frames, 16 GiB: the reader has a word for each before it reads on.
const MOST_FRAMES: u64 = 1 << 22;
/// Most bytes that one access or write has.
const MOST_BYTES: u64 = 4096;

/// Why a stream cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum HostTraceError {
    /// The operating system refused.
    #[error("cannot read the trace at byte {at}: {source}")]
    Io {
        /// Bytes read so far.
        at: u64,
        /// The system's reason.
        source: io::Error,
    },
    /// It ends before its last record.
    #[error(
        "the trace ends at byte {at} without its last record; expected the end of its window. \
         Did the host end before it made all the accesses that were asked for?"
    )]
    Truncated {
        /// Bytes read so far.
        at: u64,
    },
    /// More address spaces at once than its pages have names for.
    #[error(
        "owner {owner} of the trace (0: the host) has more than 512 third-level tables at once; \
         record fewer accesses, or a scenario with fewer processes"
    )]
    Crowded {
        /// The host, or a VM.
        owner: u16,
    },
    /// Bytes that no recorder writes.
    #[error("byte {at} of the trace: expected {expected}, found {found:#x}; record it again")]
    Damaged {
        /// Bytes read so far.
        at: u64,
        /// What can stand there.
        expected: &'static str,
        /// What stands there.
        found: u64,
    },
}

/// What decides how a processor translates addresses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Context {
    /// Whether it executes a guest.
    pub guest: bool,
    /// CR3.
    pub cr3: u64,
    /// CR0 in the low half, CR4 in the high one.
    pub cr0_cr4: u64,
    /// EFER.
    pub efer: u64,
    /// VPID of the guest, 0 for the host.
    pub vpid: u64,
    /// EPT pointer of the guest, 0 for the host.
    pub eptp: u64,
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A data access.
    Access {
        /// Linear address of its first byte.
        linear: u64,
        /// Frame that it reached, of the host's memory.
        frame: u64,
        /// Bytes, within one page.
        bytes: u64,
        /// Whether it stores; one that loads and stores at once does.
        write: bool,
        /// Instructions of this processor since its last recorded access; 0 for the first.
        instructions: u64,
    },
    /// The processor translates otherwise from here on.
    Context(Context),
    /// A frame was read as a table for the first time: this is in it.
    Frame(u64, Vec<u8>),
    /// A frame that was read as a table is written to, at this physical address.
    Table(u64, Vec<u8>),
    /// An instruction that invalidates: its kind in Bochs (`BX_INSTR_INVLPG`), whether a guest
    /// executes it, its type and its operand.
    Control(u64, bool, u64, [u64; 2]),
    /// A vector is delivered, to a guest or to the host.
    Interrupt(u64, bool),
    /// An interprocessor interrupt is sent: destination and command as the APIC has them.
    Ipi(u64, u64),
    /// A VM exit.
    Exit {
        /// Its reason, as VMX numbers it.
        reason: u64,
        /// The vCPU that exits.
        vpid: u64,
        /// Of an interrupt or exception its interruption information, of a hypercall its number, of
        /// RDMSR and WRMSR the register and, in the high half, EAX; 0 of others.
        detail: u64,
        /// Of WRMSR EDX; of others the exit's qualification.
        high: u64,
    },
    /// A VM entry.
    Entry {
        /// The vCPU that is entered.
        vpid: u64,
        /// Its EPT pointer.
        eptp: u64,
        /// What the entry injects, as VMX's interruption information.
        interruption: u64,
    },
    /// Accesses are recorded from here on.
    Open,
    /// The last record.
    Close,
}

#[derive(Debug)]
struct Cpu {
    begun: bool,
    linear: u64,
    slots: Vec<(u64, u64)>,
}

/// A stream that is being read.
#[derive(Debug)]
pub struct Stream<R> {
    input: R,
    at: u64,
    cpus: Vec<Cpu>,
    frames: u64,
    clock: u64,
    ended: bool,
}

impl<R: BufRead> Stream<R> {
    /// Begins to read.
    ///
    /// # Errors
    /// [`HostTraceError`] for what is not such a trace.
    pub fn new(input: R) -> Result<Self, HostTraceError> {
        let mut stream = Self {
            input,
            at: 0,
            cpus: Vec::new(),
            frames: 0,
            clock: 0,
            ended: false,
        };
        let mut magic = [0; MAGIC.len()];
        stream.fill(&mut magic)?;
        if &magic != MAGIC {
            let found = u64::from_le_bytes(magic);
            return Err(stream.damaged("the magic SHTRACE1", found));
        }
        let cpus = stream.number()?;
        if cpus == 0 || cpus > MOST_CPUS {
            return Err(stream.damaged("1 to 16 processors", cpus));
        }
        stream.frames = stream.number()?;
        if stream.frames == 0 || stream.frames > MOST_FRAMES {
            return Err(stream.damaged("1 to 2^22 frames", stream.frames));
        }
        for _ in 0..cpus {
            stream.cpus.push(Cpu {
                begun: false,
                linear: 0,
                slots: vec![(0, 0); PAGES],
            });
        }
        Ok(stream)
    }

    /// Processors of the host.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.cpus.len()
    }

    /// Frames of the host's memory.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Cycles of the emulated clock at the last record that has a time.
    #[must_use]
    pub fn clock(&self) -> u64 {
        self.clock
    }

    /// The next event and its processor; `None` behind [`Event::Close`].
    ///
    /// # Errors
    /// [`HostTraceError`].
    pub fn event(&mut self) -> Result<Option<(usize, Event)>, HostTraceError> {
        if self.ended {
            return Ok(None);
        }
        let tag = self.byte()?;
        let cpu = usize::from(tag >> 3);
        if cpu >= self.cpus.len() {
            return Err(self.damaged("a processor of this host", u64::from(tag >> 3)));
        }
        let event = match tag & 3 {
            3 => self.control()?,
            kind => self.access(cpu, kind != 0, tag & 4 == 0)?,
        };
        self.ended = event == Event::Close;
        Ok(Some((cpu, event)))
    }

    fn access(&mut self, cpu: usize, write: bool, known: bool) -> Result<Event, HostTraceError> {
        let packed = self.number()?;
        let bytes = match packed & 7 {
            7 => self.length()?,
            code => 1 << code,
        };
        let zigzag = self.number()?;
        let delta = (zigzag >> 1) ^ (zigzag & 1).wrapping_neg();
        let frame = if known { None } else { Some(self.number()?) };
        let its = &mut self.cpus[cpu];
        its.linear = its.linear.wrapping_add(delta);
        let instructions = if its.begun { packed >> 3 } else { 0 };
        its.begun = true;
        let page = its.linear >> 12;
        let index = usize::try_from(page % PAGES as u64).unwrap_or(0);
        let slot = &mut its.slots[index];
        if let Some(frame) = frame {
            *slot = (page, frame);
        }
        let (linear, (of, frame)) = (its.linear, *slot);
        if of != page {
            return Err(self.damaged("the frame of a page not seen before", page));
        }
        Ok(Event::Access {
            linear,
            frame,
            bytes,
            write,
            instructions,
        })
    }

    fn control(&mut self) -> Result<Event, HostTraceError> {
        let kind = self.byte()?;
        self.clock = self.clock.wrapping_add(self.number()?);
        Ok(match kind {
            1 => {
                let [guest, cr3, cr0_cr4, efer, vpid, eptp] = self.numbers()?;
                Event::Context(Context {
                    guest: guest != 0,
                    cr3,
                    cr0_cr4,
                    efer,
                    vpid,
                    eptp,
                })
            }
            2 => Event::Frame(self.number()?, self.bytes(MOST_BYTES)?),
            3 => {
                let place = self.number()?;
                let length = self.length()?;
                if (place & 0xfff) + length > MOST_BYTES {
                    return Err(self.damaged("a write within one frame", place));
                }
                Event::Table(place, self.bytes(length)?)
            }
            4 => {
                let [what, of, first, second] = self.numbers()?;
                Event::Control(what & 0xff, what >> 8 != 0, of, [first, second])
            }
            5 => {
                let [vector, guest, _, _] = self.numbers()?;
                Event::Interrupt(vector, guest != 0)
            }
            6 => {
                let [to, command, _, _] = self.numbers()?;
                Event::Ipi(to, command)
            }
            7 => {
                let [reason, high, vpid, detail] = self.numbers()?;
                Event::Exit {
                    reason,
                    vpid,
                    detail,
                    high,
                }
            }
            8 => {
                let [vpid, eptp, interruption, _] = self.numbers()?;
                Event::Entry {
                    vpid,
                    eptp,
                    interruption,
                }
            }
            9 => Event::Open,
            10 => Event::Close,
            other => return Err(self.damaged("a kind of record from 1 to 10", u64::from(other))),
        })
    }

    fn length(&mut self) -> Result<u64, HostTraceError> {
        let length = self.number()?;
        if length == 0 || length > MOST_BYTES {
            return Err(self.damaged("a length from 1 to 4096", length));
        }
        Ok(length)
    }

    fn numbers<const N: usize>(&mut self) -> Result<[u64; N], HostTraceError> {
        let mut all = [0; N];
        for one in &mut all {
            *one = self.number()?;
        }
        Ok(all)
    }

    fn number(&mut self) -> Result<u64, HostTraceError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                return Err(self.damaged("a number of 64 bits", u64::from(byte)));
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        Ok(value)
    }

    fn byte(&mut self) -> Result<u8, HostTraceError> {
        let at = self.at;
        let ready = self.input.fill_buf();
        let ready = ready.map_err(|source| HostTraceError::Io { at, source })?;
        let byte = *ready.first().ok_or(HostTraceError::Truncated { at })?;
        self.input.consume(1);
        self.at += 1;
        Ok(byte)
    }

    fn bytes(&mut self, length: u64) -> Result<Vec<u8>, HostTraceError> {
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), HostTraceError> {
        let at = self.at;
        self.input
            .read_exact(bytes)
            .map_err(|source| match source.kind() {
                io::ErrorKind::UnexpectedEof => HostTraceError::Truncated { at },
                _ => HostTraceError::Io { at, source },
            })?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn damaged(&self, expected: &'static str, found: u64) -> HostTraceError {
        let at = self.at;
        HostTraceError::Damaged {
            at,
            expected,
            found,
        }
    }
}
