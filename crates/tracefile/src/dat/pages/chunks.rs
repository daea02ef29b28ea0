// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where pages come from: the file itself, or chunks that are unpacked one after the other.

use std::io::Read;

use super::CpuStream;
use crate::error::{Error, Fault, Place};
use crate::loss::Loss;

/// The largest chunk that is unpacked; trace-cmd packs about ten pages into one.
const CHUNK_MAX: u64 = 16 << 20;

/// How a CPU's data are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::dat) enum Packing {
    None,
    Zlib,
    Zstd,
}

impl CpuStream {
    /// Reads the next pages; false if there are none.
    pub(super) fn fill(&mut self, loss: &mut Loss) -> Result<bool, Error> {
        self.next_page = 0;
        self.buffer.clear();
        if self.packing == Packing::None {
            let left = self.end.min(self.input.len()).saturating_sub(self.at);
            let take = usize::try_from(left).unwrap_or(usize::MAX).min(self.window);
            if take == 0 {
                return Ok(false);
            }
            self.read(take)?;
            return Ok(true);
        }
        match self.chunk() {
            Ok(more) => Ok(more),
            Err(ChunkFault::Io(error)) => Err(error),
            Err(ChunkFault::Cut) => {
                loss.cut(Place::Byte(self.input.len()), None);
                self.chunks = Some(0);
                self.buffer.clear();
                Ok(false)
            }
            Err(ChunkFault::Bad(what)) => {
                loss.damaged(Fault::new(
                    Place::Byte(self.origin),
                    format!("CPU {}: {what}", self.cpu),
                ));
                self.chunks = Some(0);
                self.buffer.clear();
                Ok(false)
            }
        }
    }

    /// Reads `len` bytes, which the file has, into the buffer.
    fn read(&mut self, len: usize) -> Result<(), Error> {
        self.buffer.resize(len, 0);
        self.origin = self.at;
        self.at += u64::try_from(len).unwrap_or(0);
        self.input
            .read_exact_at(&mut self.buffer, self.origin)
            .map_err(|source| Error::Io {
                name: self.input.name().to_owned(),
                source,
            })
    }

    /// A word of the chunks' headers.
    fn chunk_word(&mut self) -> Result<u32, ChunkFault> {
        if self.end.min(self.input.len()).saturating_sub(self.at) < 4 {
            return Err(ChunkFault::Cut);
        }
        self.read(4).map_err(ChunkFault::Io)?;
        let bytes = self.buffer.as_slice().try_into().unwrap_or_default();
        Ok(if self.big {
            u32::from_be_bytes(bytes)
        } else {
            u32::from_le_bytes(bytes)
        })
    }

    /// Unpacks the next chunk; false after the last.
    fn chunk(&mut self) -> Result<bool, ChunkFault> {
        let left = match self.chunks {
            Some(left) => left,
            None => self.chunk_word()?,
        };
        if left == 0 {
            self.buffer.clear();
            self.chunks = Some(0);
            return Ok(false);
        }
        self.chunks = Some(left - 1);
        let packed = u64::from(self.chunk_word()?);
        let unpacked = u64::from(self.chunk_word()?);
        if unpacked > CHUNK_MAX {
            return Err(ChunkFault::Bad(format!(
                "a chunk says that it unpacks to {unpacked} bytes; at most {CHUNK_MAX} are expected"
            )));
        }
        if packed > self.end.min(self.input.len()).saturating_sub(self.at) {
            return Err(ChunkFault::Cut);
        }
        self.read(usize::try_from(packed).unwrap_or(0))
            .map_err(ChunkFault::Io)?;
        let pages = unpack(&self.buffer, self.packing, unpacked).map_err(ChunkFault::Bad)?;
        self.buffer = pages;
        Ok(true)
    }
}

/// Why a chunk cannot be had.
enum ChunkFault {
    Cut,
    Bad(String),
    Io(Error),
}

/// Unpacks a block that should give `size` bytes; the memory grows only with what is really there.
pub(in crate::dat) fn unpack(
    packed: &[u8],
    packing: Packing,
    size: u64,
) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let fault = |e: std::io::Error| format!("compressed data do not unpack: {e}");
    // One byte more than promised shows that a promise is wrong.
    let limit = size.saturating_add(1);
    match packing {
        Packing::None => out.extend_from_slice(packed),
        Packing::Zlib => {
            flate2::read::ZlibDecoder::new(packed)
                .take(limit)
                .read_to_end(&mut out)
                .map_err(fault)?;
        }
        Packing::Zstd => {
            let decoder = zstd::stream::read::Decoder::with_buffer(packed).map_err(fault)?;
            decoder.take(limit).read_to_end(&mut out).map_err(fault)?;
        }
    }
    if u64::try_from(out.len()).unwrap_or(u64::MAX) == size {
        return Ok(out);
    }
    Err(format!(
        "compressed data unpack to other than the {size} bytes that they say"
    ))
}
