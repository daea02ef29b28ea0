// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where records come from. What a record is, the trace format says.

use std::sync::Arc;

use crate::Error;
use crate::filler::Filler;
use crate::os::Agent;

pub use steady_memtrace::{MapKind, Prot, Record, Run, Sink};

/// Pages that exist before the first record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resident {
    /// The address space (VM) they belong to, from 0.
    pub vm: u16,
    /// First byte; a multiple of 4 KiB.
    pub start: u64,
    /// Number of 4 KiB pages.
    pub pages: u64,
    /// The number of first pages that are in NVM in a steady start, the rest in DRAM.
    pub cold_pages: u64,
}

/// An update that a recorded guest or host made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// The VM, from 0.
    pub vm: u16,
    /// Whose table changed.
    pub agent: Agent,
    /// Numbers of the 4 KiB pages revoked, sorted.
    pub pages: Vec<u64>,
    /// Of these, those that stay mapped with fewer rights.
    pub fewer: Vec<u64>,
    /// Other vCPUs that invalidated; 0 where the initiator alone did.
    pub victims: u64,
}

/// A stream of records, read as blocks so that memory does not grow with its length.
pub trait Source: Send {
    /// Appends the next block to `out`. False: nothing was appended and the stream has ended.
    ///
    /// # Errors
    /// [`Error::Source`] for damaged or unreadable input.
    fn next_block(&mut self, out: &mut Vec<Record>) -> Result<bool, Error>;

    /// Gives the next block to `block`: the same records, without a list of them where the source
    /// can do so. False: there was none.
    ///
    /// # Errors
    /// As [`Source::next_block`].
    fn fill(&mut self, block: &mut Filler) -> Result<bool, Error> {
        block.take_list(|out| self.next_block(out))
    }

    /// Pages present before the first record; a captured trace has none.
    fn residents(&self) -> Vec<Resident> {
        Vec::new()
    }

    /// Updates that were recorded; where there are any, a marker's number is that of one of them.
    fn updates(&self) -> Arc<[Recorded]> {
        Arc::default()
    }

    /// Of a recording, the processor that each thread was alone on, from the first thread on:
    /// absent for one that was on several, empty where it is not known. `None` where nothing was
    /// recorded.
    fn processors(&self) -> Option<Vec<Option<u16>>> {
        None
    }
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn next_block(&mut self, out: &mut Vec<Record>) -> Result<bool, Error> {
        (**self).next_block(out)
    }

    fn fill(&mut self, block: &mut Filler) -> Result<bool, Error> {
        (**self).fill(block)
    }

    fn residents(&self) -> Vec<Resident> {
        (**self).residents()
    }

    fn updates(&self) -> Arc<[Recorded]> {
        (**self).updates()
    }

    fn processors(&self) -> Option<Vec<Option<u16>>> {
        (**self).processors()
    }
}

/// Records held in memory, for tests and short traces.
#[derive(Debug, Clone)]
pub struct Memory {
    records: Vec<Record>,
    next: usize,
    block: usize,
}

impl Memory {
    /// A source that hands out `records` in blocks of `block` (at least 1).
    #[must_use]
    pub fn new(records: Vec<Record>, block: usize) -> Self {
        Self {
            records,
            next: 0,
            block: block.max(1),
        }
    }
}

impl Source for Memory {
    fn next_block(&mut self, out: &mut Vec<Record>) -> Result<bool, Error> {
        let end = (self.next + self.block).min(self.records.len());
        out.extend_from_slice(&self.records[self.next..end]);
        let some = end > self.next;
        self.next = end;
        Ok(some)
    }
}

/// One stream for several VMs: each VM's threads do what the source's do, in an address space of
/// their own.
#[derive(Debug)]
pub struct Copies<S> {
    source: S,
    vms: u16,
    threads: u16,
}

impl<S: Source> Copies<S> {
    /// A copy of `source`, which has `threads` threads, for each of `vms` VMs. VM `v` has the
    /// threads from `v * threads` on.
    ///
    /// # Errors
    /// [`Error::Config`] where the threads of all VMs are more than a trace can have.
    pub fn new(source: S, threads: u16, vms: u16) -> Result<Self, Error> {
        let most = u16::MAX / threads.max(1);
        if !(1..=most).contains(&vms) {
            let text = format!("{vms} VMs of {threads} threads: expected 1 to {most} VMs");
            return Err(Error::Config(text));
        }
        Ok(Self {
            source,
            vms,
            threads,
        })
    }
}

impl<S: Source> Source for Copies<S> {
    fn next_block(&mut self, out: &mut Vec<Record>) -> Result<bool, Error> {
        let from = out.len();
        let more = self.source.next_block(out)?;
        let end = out.len();
        for vm in 1..self.vms {
            for at in from..end {
                let mut copy = out[at];
                match &mut copy {
                    Record::Access { thread, .. }
                    | Record::Map { thread, .. }
                    | Record::Marker { thread, .. } => *thread += vm * self.threads,
                }
                out.push(copy);
            }
        }
        Ok(more)
    }

    fn residents(&self) -> Vec<Resident> {
        let own = self.source.residents();
        let copies = (0..self.vms)
            .flat_map(|vm| own.iter().map(move |resident| Resident { vm, ..*resident }));
        copies.collect()
    }

    /// Copies are on no processor, but their threads were recorded.
    fn processors(&self) -> Option<Vec<Option<u16>>> {
        self.source.processors().map(|_| Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::{Copies, Memory, Record, Source};

    #[test]
    fn every_vm_does_the_same_with_threads_of_its_own() {
        let access = |thread, vaddr| Record::Access {
            thread,
            vaddr,
            size: 8,
            write: false,
            instructions: 1,
        };
        let own = vec![access(0, 16), access(1, 32), access(0, 48)];
        let mut copies = Copies::new(Memory::new(own, 2), 2, 2).expect("few VMs");
        let mut all = Vec::new();
        while copies.next_block(&mut all).expect("it is in memory") {}
        let first = [access(0, 16), access(1, 32), access(2, 16), access(3, 32)];
        assert_eq!(all, [&first[..], &[access(0, 48), access(2, 48)]].concat());
        let many = Copies::new(Memory::new(Vec::new(), 1), 700, 100).map(|_| ());
        let said = many.expect_err("70000 threads are too many").to_string();
        assert!(said.contains("expected 1 to 93 VMs"), "{said}");
    }

    /// A source of recorded threads, on a processor each.
    struct Recorded(Memory);

    impl Source for Recorded {
        fn next_block(&mut self, out: &mut Vec<Record>) -> Result<bool, crate::Error> {
            self.0.next_block(out)
        }

        fn processors(&self) -> Option<Vec<Option<u16>>> {
            Some(vec![Some(0)])
        }
    }

    #[test]
    fn copies_of_recorded_threads_have_cores_of_their_own_and_of_others_have_none() {
        let empty = || Memory::new(Vec::new(), 1);
        let recorded: Box<dyn Source> = Box::new(Recorded(empty()));
        assert_eq!(recorded.processors(), Some(vec![Some(0)]));
        let copies = Copies::new(recorded, 1, 2).expect("few VMs");
        assert_eq!(copies.processors(), Some(Vec::new()));
        let copies = Copies::new(empty(), 1, 2).expect("few VMs");
        assert_eq!(copies.processors(), None);
    }
}
