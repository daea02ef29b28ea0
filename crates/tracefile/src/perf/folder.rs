// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The folder that `perf record --threads` writes: `data`, with the header and what perf made
//! itself, and `data.0`, `data.1`, … with the records of one CPU's buffer each.
//!
//! Records of one buffer are in the order of time but for those of nested interrupts, and no rounds
//! are marked (`tools/perf/builtin-record.c`, `record__mmap_read_evlist`).

use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::queue::Kind;
use super::records::Records;
use super::state::{Comms, State};
use super::{PerfSource, Section};
use crate::about::About;
use crate::error::Error;
use crate::input::Input;
use crate::loss::{Gaps, Loss};
use crate::merge::Merge;
use crate::record::{Payload, Record};
use crate::source::Source;

/// Records of one file that are brought in order at once.
const BATCH: usize = 4096;
/// Files of records that are opened; each is a CPU's.
const FILES_MAX: usize = 8192;

/// An open folder.
#[derive(Debug)]
pub(crate) struct FolderSource {
    /// The first is `data`.
    files: Vec<PerfSource>,
    merge: Merge,
    comms: Comms,
    latest: u64,
    /// Records that came after later ones, over all files.
    out_of_order: u64,
    ended: bool,
    gaps: Gaps,
    loss: OnceLock<Loss>,
}

impl FolderSource {
    /// Opens what perf made of a recording by several threads.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let main = folder.join("data");
        if !main.is_file() {
            return Err(Error::Foreign {
                name: folder.display().to_string(),
                what: "a folder without `data`, so none of perf record --threads; name the file \
                       in it"
                    .to_owned(),
            });
        }
        let first = PerfSource::open(input(&main)?)?;
        let mut files = vec![first];
        for at in 0..FILES_MAX {
            let path = folder.join(format!("data.{at}"));
            if !path.is_file() {
                break;
            }
            let state = files[0].state.beside();
            files.push(one(&path, state)?);
        }
        let mut source = Self {
            comms: std::mem::take(&mut files[0].state.comms),
            files,
            merge: Merge::default(),
            latest: 0,
            out_of_order: 0,
            ended: false,
            gaps: Gaps::default(),
            loss: OnceLock::new(),
        };
        for at in 0..source.files.len() {
            if let Some(time) = source.files[at].head()? {
                source.merge.add(time, at);
            }
        }
        Ok(source)
    }
}

fn input(path: &Path) -> Result<Input, Error> {
    let name = path.display().to_string();
    let opened = std::fs::File::open(path).and_then(|file| Input::new(file, &name));
    opened.map_err(|source| Error::Io { name, source })
}

/// A file of records alone.
fn one(path: &Path, state: State) -> Result<PerfSource, Error> {
    let input = input(path)?;
    let reader = Section {
        at: 0,
        end: input.len(),
        input: Arc::new(input),
    };
    Ok(PerfSource {
        name: path.display().to_string(),
        records: Records::new(Box::new(reader), 0),
        unpacker: None,
        ended: false,
        state,
    })
}

impl PerfSource {
    /// The time of the next record that is due, read if there is none.
    fn head(&mut self) -> Result<Option<u64>, Error> {
        while self.state.queue.next_time().is_none() {
            if self.ended && self.state.queue.len() == 0 {
                return Ok(None);
            }
            while !self.ended && self.state.queue.len() < BATCH {
                self.one()?;
            }
            self.state.queue.finish();
        }
        Ok(self.state.queue.next_time())
    }
}

impl Source for FolderSource {
    fn about(&self) -> &About {
        &self.files[0].state.about
    }

    fn next(&mut self) -> Result<Option<Record<'_>>, Error> {
        let (at, item, event) = loop {
            let head = match self.merge.current() {
                Some(at) => self.files[at].head()?,
                None => None,
            };
            let Some(at) = self.merge.pick(head) else {
                self.ended = true;
                return Ok(None);
            };
            let state = &mut self.files[at].state;
            let Some(item) = state.queue.pop() else {
                continue;
            };
            match item.kind {
                Kind::Sample(event) => break (at, item, event),
                Kind::Comm => self.comms.set(item.tid, state.queue.bytes(&item)),
                Kind::Fork(parent) => self.comms.inherit(item.tid, parent),
                Kind::Lost => self.gaps.note(item.cpu),
            }
        };
        self.out_of_order += u64::from(item.time < self.latest);
        self.latest = self.latest.max(item.time);
        let gap = self.gaps.before(item.cpu);
        let state = &self.files[at].state;
        let data = state.queue.bytes(&item);
        Ok(Some(Record {
            time_ns: item.time,
            cpu: item.cpu,
            pid: item.tid,
            comm: self.comms.name(item.tid),
            flags: state.table.flags(data),
            instance: 0,
            process: item.process,
            gap,
            event: &state.about.events[usize::try_from(event).unwrap_or(0)],
            payload: Payload::Binary { data, big: false },
        }))
    }

    fn loss(&self) -> &Loss {
        if !self.ended {
            return &self.files[0].state.loss;
        }
        self.loss.get_or_init(|| {
            let mut all = Loss::default();
            for file in &self.files {
                all.add(&file.state.loss);
            }
            all.out_of_order = self.out_of_order;
            all
        })
    }
}
