// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A trace that was packed as a whole, by gzip or zstd: what unpacks of a cut or damaged one
//! counts.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::about::About;
use crate::error::{Error, Fault, Place};
use crate::loss::Loss;
use crate::record::Record;
use crate::source::Source;

/// What the reader of packed bytes reports to the trace that is made of them.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Packed bytes read so far.
    read: AtomicU64,
    /// The operating system could not read on.
    refused: AtomicBool,
    /// Why nothing more unpacks.
    fault: OnceLock<String>,
}

impl Progress {
    fn fault(&self) -> Option<Fault> {
        let place = Place::Byte(self.read.load(Ordering::Relaxed));
        self.fault.get().map(|what| Fault::new(place, what.clone()))
    }
}

/// Counts packed bytes, and notes errors that are not the packing's.
pub(crate) struct Counted<R> {
    pub reader: R,
    pub progress: Arc<Progress>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(out);
        match &read {
            Ok(len) => {
                let len = u64::try_from(*len).unwrap_or(0);
                self.progress.read.fetch_add(len, Ordering::Relaxed);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => self.progress.refused.store(true, Ordering::Relaxed),
        }
        read
    }
}

/// Ends where nothing more unpacks.
pub(crate) struct Unpacked<D> {
    pub decoder: D,
    pub progress: Arc<Progress>,
}

impl<D: Read> Read for Unpacked<D> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.progress.fault.get().is_some() {
            return Ok(0);
        }
        match self.decoder.read(out) {
            Err(error)
                if error.kind() != io::ErrorKind::Interrupted
                    && !self.progress.refused.load(Ordering::Relaxed) =>
            {
                let what = format!("what is packed does not unpack further: {error}");
                // It is set here alone.
                let _ = self.progress.fault.set(what);
                Ok(0)
            }
            other => other,
        }
    }
}

/// A trace whose loss also says where its packing ended before its time.
pub(crate) struct PackedSource {
    inner: Box<dyn Source>,
    progress: Arc<Progress>,
    ended: bool,
    /// The loss with that, once the end was reached.
    loss: OnceLock<Loss>,
}

impl PackedSource {
    /// Puts the packing's fault in the place of what it led to, if the trace did not open.
    pub fn open(
        opened: Result<Box<dyn Source>, Error>,
        progress: Arc<Progress>,
        name: &str,
    ) -> Result<Box<dyn Source>, Error> {
        match (opened, progress.fault()) {
            (Ok(inner), _) => Ok(Box::new(Self {
                inner,
                progress,
                ended: false,
                loss: OnceLock::new(),
            })),
            (Err(_), Some(fault)) => Err(fault.named(name)),
            (Err(error), None) => Err(error),
        }
    }
}

impl Source for PackedSource {
    fn about(&self) -> &About {
        self.inner.about()
    }

    fn next(&mut self) -> Result<Option<Record<'_>>, Error> {
        match self.inner.next() {
            Ok(None) => {
                self.ended = true;
                Ok(None)
            }
            other => other,
        }
    }

    fn loss(&self) -> &Loss {
        match self.progress.fault() {
            Some(fault) if self.ended => self.loss.get_or_init(|| {
                let mut loss = self.inner.loss().clone();
                // The inner trace's own end is not where the file's is.
                loss.truncated = None;
                loss.cut(fault.place, None);
                loss.damaged(fault);
                loss
            }),
            _ => self.inner.loss(),
        }
    }
}
