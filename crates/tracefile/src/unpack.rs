// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The packings that a trace as a whole may have: gzip, zstd, xz, bzip2, and zip around one file.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Take};

use liblzma::stream::{CONCATENATED, Stream};
use zip::{CompressionMethod, ZipArchive};

use crate::error::{Error, Place};

/// Memory that unpacking xz may take, in bytes: four times what its highest level needs.
const XZ_MEMORY: u64 = 256 << 20;
/// Members of an archive that an error names.
const NAMED: usize = 4;

/// How a trace was packed as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    Gzip,
    Zstd,
    Xz,
    Bzip2,
    Zip,
}

impl Packing {
    /// What the first bytes say.
    pub fn of(head: &[u8]) -> Option<Self> {
        let magics: [(&[u8], Self); 6] = [
            (b"\x1f\x8b", Self::Gzip),
            (b"\x28\xb5\x2f\xfd", Self::Zstd),
            (b"\xfd7zXZ\0", Self::Xz),
            (b"BZh", Self::Bzip2),
            (b"PK\x03\x04", Self::Zip),
            (b"PK\x05\x06", Self::Zip),
        ];
        let found = magics.iter().find(|(magic, _)| head.starts_with(magic));
        let (_, packing) = found?;
        // Text may begin with these three letters; behind them is a level, and a block's mark.
        let text = *packing == Self::Bzip2 && head.get(4..6) != Some(b"1A");
        (!text).then_some(*packing)
    }

    /// Unpacks a stream. A zip archive is none: see [`member`].
    pub fn decoder(self, packed: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Self::Gzip => Box::new(flate2::read::MultiGzDecoder::new(packed)),
            Self::Zstd => Box::new(zstd::stream::read::Decoder::new(packed)?),
            Self::Xz => {
                let stream = Stream::new_stream_decoder(XZ_MEMORY, CONCATENATED)?;
                Box::new(liblzma::read::XzDecoder::new_stream(packed, stream))
            }
            Self::Bzip2 => Box::new(bzip2::read::MultiBzDecoder::new(packed)),
            Self::Zip => return Err(io::Error::other("an archive is read by its directory")),
        })
    }
}

/// The packing that is not read, and the command that unpacks it.
pub(crate) fn unread(head: &[u8]) -> Option<&'static str> {
    let magics: [(&[u8], &str); 5] = [
        (
            b"\x04\x22\x4d\x18",
            "packed by lz4, which is not read; unpack it: lz4 -d FILE",
        ),
        (
            b"7z\xbc\xaf\x27\x1c",
            "a 7z archive, which is not read; unpack it: 7z x FILE",
        ),
        (
            b"\x5d\x00\x00",
            "packed by lzma, which is not read; unpack it: xz --format=lzma -d FILE",
        ),
        (
            b"\xff\x06\0\0sNaPpY",
            "packed by snappy, which is not read; unpack it: snzip -d FILE",
        ),
        (
            b"LZIP",
            "packed by lzip, which is not read; unpack it: lzip -d FILE",
        ),
    ];
    if head.get(257..262) == Some(b"ustar") {
        return Some("a tar archive, which is not read; unpack it: tar xf FILE");
    }
    let found = magics.iter().find(|(magic, _)| head.starts_with(magic));
    found.map(|&(_, what)| what)
}

/// The one file in a zip archive, packed as it is there, and whether that is by deflate.
pub(crate) fn member(mut file: File, name: &str) -> Result<(Take<File>, bool), Error> {
    let unsupported = |what: String| Error::Unsupported {
        name: name.to_owned(),
        place: Place::Byte(0),
        what,
    };
    let damaged = |error: zip::result::ZipError| Error::Malformed {
        name: name.to_owned(),
        place: Place::Byte(0),
        what: format!("the directory of the zip archive cannot be read ({error}); is it whole?"),
    };
    let mut archive = ZipArchive::new(&mut file).map_err(damaged)?;
    let own = |name: &&str| !name.ends_with('/') && !name.starts_with("__MACOSX/");
    let names: Vec<String> = archive
        .file_names()
        .filter(own)
        .map(str::to_owned)
        .collect();
    let [only] = names.as_slice() else {
        let some = names.iter().take(NAMED).map(String::as_str);
        let some = some.collect::<Vec<_>>().join(", ");
        return Err(unsupported(format!(
            "a zip archive of {} files ({some}); expected one: unpack it and name the trace",
            names.len()
        )));
    };
    let index = archive.index_for_name(only).unwrap_or(0);
    let entry = archive.by_index_raw(index).map_err(damaged)?;
    let (start, len) = (entry.data_start(), entry.compressed_size());
    let deflated = match entry.compression() {
        CompressionMethod::Stored if !entry.encrypted() => false,
        // Compiled without decompressors, the library knows the methods by number.
        #[expect(deprecated, reason = "names no method that needs its features")]
        CompressionMethod::Unsupported(8) if !entry.encrypted() => true,
        other => {
            return Err(unsupported(format!(
                "the archive's file is encrypted, or packed by {other}; expected deflate: unpack it"
            )));
        }
    };
    drop(entry);
    drop(archive);
    let io = |source| Error::Io {
        name: name.to_owned(),
        source,
    };
    file.seek(SeekFrom::Start(start)).map_err(io)?;
    Ok((file.take(len), deflated))
}
