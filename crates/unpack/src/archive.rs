// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The directory of a zip archive: where its members lie and how they are packed.

use std::io::{Read, Seek};

use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

/// A member of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its path in the archive; that of a folder ends in `/`.
    pub name: String,
    /// Byte of the archive where its packed bytes begin.
    pub start: u64,
    /// How many they are.
    pub packed_len: u64,
    /// Checksum of the unpacked bytes.
    pub crc32: u32,
    /// Whether it is packed by deflate, or else stored as it is. As an error: why it cannot be
    /// read, as words that follow "it is".
    pub deflated: Result<bool, String>,
}

/// The members of an archive, in the order of its directory.
///
/// # Errors
/// In words, if the directory cannot be read.
pub fn members(archive: impl Read + Seek) -> Result<Vec<Member>, String> {
    let damaged = |error: ZipError| error.to_string();
    let mut archive = ZipArchive::new(archive).map_err(damaged)?;
    let mut members = Vec::new();
    for at in 0..archive.len() {
        let member = archive.by_index_raw(at).map_err(damaged)?;
        let deflated = match member.compression() {
            _ if member.encrypted() => Err("encrypted".to_owned()),
            CompressionMethod::Stored => Ok(false),
            CompressionMethod::Deflated => Ok(true),
            other => Err(format!("packed by {other}, expected deflate")),
        };
        members.push(Member {
            name: member.name().to_owned(),
            start: member.data_start(),
            packed_len: member.compressed_size(),
            crc32: member.crc32(),
            deflated,
        });
    }
    Ok(members)
}
