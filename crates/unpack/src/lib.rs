// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The packings that a file as a whole may have: gzip, zstd, xz, bzip2, and zip archives. They are
//! recognized by content; memory does not grow with the file.
//!
//! Left out: which members of an archive are wanted, and what is made of damaged data; that is for
//! the reader of the format within.

#![forbid(unsafe_code)]

mod archive;

use std::io::{self, Read};

use liblzma::stream::{CONCATENATED, Stream};

pub use archive::{Member, members};

/// Memory that unpacking xz may take, in bytes: four times what its highest level needs.
const XZ_MEMORY: u64 = 256 << 20;
/// How a file was packed as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// Gzip, of one member or several.
    Gzip,
    /// Zstandard.
    Zstd,
    /// xz.
    Xz,
    /// bzip2.
    Bzip2,
    /// A zip archive.
    Zip,
}

impl Packing {
    /// What the first bytes say; six are enough.
    #[must_use]
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

    /// Unpacks a stream. A zip archive is not one: see [`members`].
    ///
    /// # Errors
    /// If a decoder cannot be made, and for a zip archive.
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

/// The packing that is not read, and the command that unpacks it, as words that follow "it is";
/// `head` is the first bytes, 262 are enough.
#[must_use]
pub fn unread(head: &[u8]) -> Option<&'static str> {
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
            // With a dictionary of 8 MiB and no size, as xz writes it: its magic alone is short.
            b"\x5d\x00\x00\x80\x00\xff\xff\xff\xff\xff\xff\xff\xff",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_begins_with_the_letters_of_bzip2_is_text() {
        assert_eq!(Packing::of(b"BZh91AY&SY"), Some(Packing::Bzip2));
        assert_eq!(Packing::of(b"BZh-123 [001] 1.0: sched_switch:"), None);
    }

    #[test]
    fn an_unread_packing_is_named_with_the_command_for_it() {
        let lzma = b"\x5d\x00\x00\x80\x00\xff\xff\xff\xff\xff\xff\xff\xff\x00";
        assert!(unread(lzma).is_some_and(|text| text.contains("xz --format=lzma -d")));
        // An address whose low bytes look like it begins a trace of instructions.
        assert_eq!(
            unread(b"\x5d\x00\x00\x00\x55\x55\x00\x00\x00\x00\x00\x00\x00"),
            None
        );
    }
}
