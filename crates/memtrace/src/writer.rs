// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes a trace from front to back, so that a pipe will do. A file is written aside and takes
//! its name only once it is whole.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;

use crate::encode::Encoder;
use crate::error::TraceError;
use crate::footer::{Digest, Footer, Totals, trailer_to_bytes};
use crate::header::Header;
use crate::layout::{CHUNK_MARK, INDEX_ENTRY_LEN, MAX_CHUNK_RECORDS};
use crate::record::{MAX_INSTRUCTIONS, Record};

/// Zstandard's level 3: higher ones cost more time than they save bytes on these columns.
const LEVEL: i32 = 3;

/// Writes records into any sink. Memory: one chunk, 16 bytes of index per chunk of 65,536 records.
pub struct Writer<W: Write> {
    sink: W,
    name: String,
    encoder: Encoder,
    compressor: zstd::bulk::Compressor<'static>,
    payload: Vec<u8>,
    stored: Vec<u8>,
    index: Vec<u8>,
    offset: u64,
    totals: Totals,
    content: Sha256,
}

impl<W: Write> std::fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = f.debug_struct("Writer");
        text.field("name", &self.name)
            .field("totals", &self.totals)
            .finish_non_exhaustive()
    }
}

impl<W: Write> Writer<W> {
    /// Starts a trace on `sink`; `name` stands for it in errors.
    ///
    /// # Errors
    /// [`TraceError::Unwritable`] for a header the format cannot hold, [`TraceError::Io`] when the
    /// sink refuses.
    pub fn new(sink: W, name: &str, header: &Header) -> Result<Self, TraceError> {
        let compressor = zstd::bulk::Compressor::new(LEVEL).map_err(io_error(name, "compress"))?;
        let mut writer = Self {
            sink,
            name: name.to_owned(),
            encoder: Encoder::default(),
            compressor,
            payload: Vec::new(),
            stored: Vec::new(),
            index: Vec::new(),
            offset: 0,
            totals: Totals::default(),
            content: Sha256::new(),
        };
        writer.put(&header.to_bytes(name)?)?;
        Ok(writer)
    }

    /// Appends one record.
    ///
    /// # Errors
    /// [`TraceError::Unwritable`] for an access of size 0 or more than [`MAX_INSTRUCTIONS`] after
    /// its thread's previous one, or a range that is empty or wraps; [`TraceError::Io`] when the
    /// sink refuses.
    pub fn push(&mut self, record: &Record) -> Result<(), TraceError> {
        self.validate(record)?;
        self.encoder.push(record);
        self.totals.count(record);
        if self.encoder.len() == MAX_CHUNK_RECORDS as usize {
            self.end_chunk()?;
        }
        Ok(())
    }

    /// Counts over what was pushed so far.
    #[must_use]
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// States that every access lies in a range mapped by the records before it, which
    /// [`crate::check`] will then verify.
    pub fn set_maps_complete(&mut self, complete: bool) {
        self.totals.maps_complete = complete;
    }

    /// States that the program was stopped before its end.
    pub fn set_stopped_early(&mut self, stopped: bool) {
        self.totals.stopped_early = stopped;
    }

    /// Writes the last chunk, the index and the trailer.
    ///
    /// # Errors
    /// [`TraceError::Io`] when the sink refuses.
    pub fn finish(mut self) -> Result<(W, Totals, Digest), TraceError> {
        self.end_chunk()?;
        let footer = Footer {
            totals: self.totals,
            digest: Digest(self.content.clone().finalize().into()),
        };
        let start = self.offset;
        let mut bytes = footer.to_bytes();
        bytes.append(&mut self.index);
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
        self.put(&bytes)?;
        self.put(&trailer_to_bytes(start, self.offset - start))?;
        self.sink.flush().map_err(io_error(&self.name, "write"))?;
        Ok((self.sink, footer.totals, footer.digest))
    }

    fn validate(&self, record: &Record) -> Result<(), TraceError> {
        let what = match *record {
            Record::Access { size: 0, vaddr, .. } => {
                format!("the access at {vaddr:#x} has size 0")
            }
            Record::Access {
                instructions,
                vaddr,
                thread,
                ..
            } if instructions > MAX_INSTRUCTIONS => format!(
                "record {}: thread {thread} comes to its access at {vaddr:#x} after \
                 {instructions} instructions without one, and at most {MAX_INSTRUCTIONS} can \
                 be counted. Record the part before or behind it",
                self.totals.records
            ),
            Record::Map { start, len, .. } if len == 0 || start.checked_add(len).is_none() => {
                format!("the range at {start:#x} of {len} bytes is empty or wraps")
            }
            _ => return Ok(()),
        };
        Err(TraceError::Unwritable {
            file: self.name.clone(),
            what,
        })
    }

    fn end_chunk(&mut self) -> Result<(), TraceError> {
        let records = u32::try_from(self.encoder.len()).unwrap_or(u32::MAX);
        if records == 0 {
            return Ok(());
        }
        self.payload.clear();
        self.encoder.take_payload(&mut self.payload);
        self.content.update(records.to_le_bytes());
        self.content.update(&self.payload);
        self.stored.clear();
        self.stored
            .reserve(zstd::zstd_safe::compress_bound(self.payload.len()));
        self.compressor
            .compress_to_buffer(&self.payload, &mut self.stored)
            .map_err(io_error(&self.name, "compress"))?;

        let mut head = CHUNK_MARK.to_vec();
        for word in [records, len32(&self.payload), len32(&self.stored)] {
            head.extend_from_slice(&word.to_le_bytes());
        }
        let mut sum = crc32fast::Hasher::new();
        sum.update(&head);
        sum.update(&self.stored);
        let sum = sum.finalize().to_le_bytes();
        head.extend_from_slice(&sum);

        self.index.extend_from_slice(&self.offset.to_le_bytes());
        self.index.extend_from_slice(&records.to_le_bytes());
        self.index.extend_from_slice(&sum);
        self.totals.chunks += 1;
        assert_eq!(
            self.index.len() as u64,
            self.totals.chunks * INDEX_ENTRY_LEN as u64,
            "one index entry per chunk"
        );
        self.put(&head)?;
        let stored = std::mem::take(&mut self.stored);
        self.put(&stored)?;
        self.stored = stored;
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        self.sink
            .write_all(bytes)
            .map_err(io_error(&self.name, "write"))?;
        self.offset += bytes.len() as u64;
        Ok(())
    }
}

fn len32(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("a chunk's columns are bounded")
}

pub(crate) fn io_error(file: &str, action: &'static str) -> impl FnOnce(io::Error) -> TraceError {
    let file = file.to_owned();
    move |error| TraceError::Io {
        file,
        action,
        error,
    }
}

/// A trace file that appears under its name only when it is whole: dropped before
/// [`FileWriter::finish`], it leaves nothing behind.
#[derive(Debug)]
pub struct FileWriter {
    writer: Writer<BufWriter<NamedTempFile>>,
    path: PathBuf,
}

impl FileWriter {
    /// Starts a trace that will be called `path`.
    ///
    /// # Errors
    /// As [`Writer::new`], and [`TraceError::Io`] when the folder cannot be written.
    pub fn create(path: &Path, header: &Header) -> Result<Self, TraceError> {
        let name = path.display().to_string();
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let aside = tempfile::Builder::new()
            .prefix(".memtrace-")
            .permissions(default_permissions())
            .tempfile_in(folder)
            .map_err(io_error(&name, "create"))?;
        let writer = Writer::new(BufWriter::new(aside), &name, header)?;
        Ok(Self {
            writer,
            path: path.to_owned(),
        })
    }

    /// The writer of the records.
    pub fn writer(&mut self) -> &mut Writer<impl Write + use<>> {
        &mut self.writer
    }

    /// Completes the file and gives it its name.
    ///
    /// # Errors
    /// [`TraceError::Io`] when the disk refuses; the file then keeps no name at all.
    pub fn finish(self) -> Result<(Totals, Digest), TraceError> {
        let name = self.writer.name.clone();
        let (buffered, totals, digest) = self.writer.finish()?;
        let aside = buffered
            .into_inner()
            .map_err(|error| io_error(&name, "write")(error.into_error()))?;
        aside
            .persist(&self.path)
            .map_err(|error| io_error(&name, "name")(error.error))?;
        Ok((totals, digest))
    }
}

/// What `creat` would give under the usual umask; a temporary file is otherwise private.
fn default_permissions() -> std::fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o644)
}
