// SPDX-License-Identifier: Apache-2.0 OR MIT
//! KVM's binary statistics: what `KVM_GET_STATS_FD` gives, read and decoded.
//!
//! The format is self-describing (`Documentation/virt/kvm/api.rst`, 4.133; `struct
//! kvm_stats_header` and `struct kvm_stats_desc` in `include/uapi/linux/kvm.h`): a header, an id
//! string, descriptors with names, then the data, an array of 64-bit numbers for each descriptor.
//! Names are kept as the kernel writes them, so a patched kernel's own statistics appear unasked.
//! Units and bucket sizes are left out.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use kvm_bindings::{KVM_STATS_TYPE_LINEAR_HIST, KVM_STATS_TYPE_LOG_HIST, KVM_STATS_TYPE_MASK};
use serde::Serialize;
use thiserror::Error;

const HEADER_SIZE: usize = 24;
const DESCRIPTOR_SIZE: usize = 16;
/// More than any kernel has; bounds what a broken header can make us read.
const FILE_SIZE_MAX: usize = 1 << 20;

/// The value of one statistic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A counter, an instant value or a peak.
    Number(u64),
    /// A histogram, or any statistic of several numbers.
    Numbers(Vec<u64>),
}

/// All statistics of a VM or a vCPU by name.
pub type Stats = BTreeMap<String, Value>;

/// Why statistics could not be decoded.
#[derive(Debug, Error)]
pub enum Error {
    /// The descriptor could not be read.
    #[error("cannot read KVM's statistics")]
    Read(#[source] io::Error),
    /// The file ends early.
    #[error(
        "KVM's statistics end at byte {size}, before {what} at bytes {start} to {end}; the \
         kernel's format is not the known one"
    )]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// Where it begins.
        start: usize,
        /// Where it ends (exclusive).
        end: usize,
        /// Where the file ends.
        size: usize,
    },
    /// A name that is not text.
    #[error("statistic {0} of KVM has a name that is not zero-terminated text")]
    Name(usize),
}

/// Reads and decodes all statistics behind a descriptor that `KVM_GET_STATS_FD` gave.
///
/// # Errors
/// When reading fails or the content is not in the documented format.
pub fn read(file: &File) -> Result<Stats, Error> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 16 << 10];
    while bytes.len() < FILE_SIZE_MAX {
        match file.read_at(&mut chunk, bytes.len() as u64) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::Read(error)),
        }
    }
    parse(&bytes)
}

/// Decodes the content of a statistics file.
///
/// # Errors
/// When a part that the header or a descriptor announces lies beyond the end, or a name is not text.
pub fn parse(bytes: &[u8]) -> Result<Stats, Error> {
    let header = slice(bytes, "the header", 0, HEADER_SIZE)?;
    let word = |index: usize| as_index(u32_at(header, 4 * index));
    let (name_size, count) = (word(1), word(2));
    let (descriptors, data) = (word(4), word(5));
    let stride = DESCRIPTOR_SIZE.saturating_add(name_size);
    let mut stats = Stats::new();
    for index in 0..count {
        let start = descriptors.saturating_add(stride.saturating_mul(index));
        let descriptor = slice(bytes, "a descriptor", start, stride)?;
        let name = name_of(&descriptor[DESCRIPTOR_SIZE..]).ok_or(Error::Name(index))?;
        let kind = u32_at(descriptor, 0) & KVM_STATS_TYPE_MASK;
        let size = usize::from(u16::from_le_bytes([descriptor[6], descriptor[7]]));
        let offset = data.saturating_add(as_index(u32_at(descriptor, 8)));
        let values: Vec<u64> = slice(bytes, "a value", offset, size * 8)?
            .chunks_exact(8)
            .map(|chunk| u64::from_le_bytes(chunk.try_into().expect("eight bytes")))
            .collect();
        let histogram = matches!(kind, KVM_STATS_TYPE_LINEAR_HIST | KVM_STATS_TYPE_LOG_HIST);
        let value = match values.as_slice() {
            [number] if !histogram => Value::Number(*number),
            _ => Value::Numbers(values),
        };
        stats.insert(name.to_owned(), value);
    }
    Ok(stats)
}

fn slice<'a>(
    bytes: &'a [u8],
    what: &'static str,
    start: usize,
    size: usize,
) -> Result<&'a [u8], Error> {
    let end = start.saturating_add(size);
    let truncated = Error::Truncated {
        what,
        start,
        end,
        size: bytes.len(),
    };
    bytes.get(start..end).ok_or(truncated)
}

fn name_of(bytes: &[u8]) -> Option<&str> {
    std::ffi::CStr::from_bytes_until_nul(bytes)
        .ok()?
        .to_str()
        .ok()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn as_index(value: u32) -> usize {
    usize::try_from(value).expect("x86-64 has 64-bit indices")
}
