// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traces of other tools, built byte by byte from their documentation and not with the crate.

use std::io::Cursor;

use steady_memtrace::foreign::{Named, convert_to};
use steady_memtrace::{Reader, Record, TraceError};

/// One instruction of a ChampSim trace.
pub fn instruction(ip: u64, stores: [u64; 2], loads: [u64; 4]) -> Vec<u8> {
    let mut bytes = ip.to_le_bytes().to_vec();
    bytes.extend([1, 0, 6, 25, 6, 26, 0, 0]);
    for address in stores.into_iter().chain(loads) {
        bytes.extend(address.to_le_bytes());
    }
    bytes
}

/// One entry of a DynamoRIO trace: type, size or subtype, address or value.
pub fn entry(kind: u16, size: u16, value: u64) -> Vec<u8> {
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend(size.to_le_bytes());
    bytes.extend(value.to_le_bytes());
    bytes
}

/// The entries, one after the other.
pub fn entries(all: &[(u16, u16, u64)]) -> Vec<u8> {
    all.iter()
        .flat_map(|&(kind, size, value)| entry(kind, size, value))
        .collect()
}

/// A member of a zip archive, deflated or stored.
pub struct Member {
    pub name: &'static str,
    pub content: Vec<u8>,
    pub deflate: bool,
}

/// A zip archive (PKWARE's APPNOTE 6.3, sections 4.3.7, 4.3.12 and 4.3.16).
pub fn zip(members: &[Member]) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for member in members {
        let packed = if member.deflate {
            deflated(&member.content)
        } else {
            member.content.clone()
        };
        let mut fields = Vec::new();
        for half in [20u16, 0, if member.deflate { 8 } else { 0 }, 0, 0x21] {
            fields.extend(half.to_le_bytes());
        }
        let len = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap();
        for word in [
            crc32fast::hash(&member.content),
            len(&packed),
            len(&member.content),
        ] {
            fields.extend(word.to_le_bytes());
        }
        fields.extend(u16::try_from(member.name.len()).unwrap().to_le_bytes());
        fields.extend([0; 2]);
        directory.extend(b"PK\x01\x02\x14\x00");
        directory.extend(&fields);
        directory.extend([0; 10]);
        directory.extend(len(&file).to_le_bytes());
        directory.extend(member.name.as_bytes());
        file.extend(b"PK\x03\x04");
        file.extend(&fields);
        file.extend(member.name.as_bytes());
        file.extend(packed);
    }
    let count = u16::try_from(members.len()).unwrap();
    let start = u32::try_from(file.len()).unwrap();
    let size = u32::try_from(directory.len()).unwrap();
    file.extend(directory);
    file.extend(b"PK\x05\x06\0\0\0\0");
    file.extend(count.to_le_bytes());
    file.extend(count.to_le_bytes());
    file.extend(size.to_le_bytes());
    file.extend(start.to_le_bytes());
    file.extend([0; 2]);
    file
}

fn deflated(content: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut to = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
    to.write_all(content).unwrap();
    to.finish().unwrap()
}

pub fn gzip(content: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    to.write_all(content).unwrap();
    to.finish().unwrap()
}

pub fn xz(content: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut to = liblzma::write::XzEncoder::new(Vec::new(), 1);
    to.write_all(content).unwrap();
    to.finish().unwrap()
}

/// The files as one trace of ours, in bytes.
pub fn converted(files: &[&[u8]]) -> Result<Vec<u8>, TraceError> {
    let named = |(at, bytes): (usize, &&[u8])| Named {
        name: format!("file{at}"),
        bytes: Box::new(Cursor::new(bytes.to_vec())),
    };
    convert_to(
        files.iter().enumerate().map(named).collect(),
        Vec::new(),
        "out",
    )
}

/// The records of the files as one trace.
pub fn records(files: &[&[u8]]) -> Result<Vec<Record>, TraceError> {
    let bytes = converted(files)?;
    let mut reader = Reader::from_stream(bytes.as_slice(), "out")?;
    let (mut all, mut block) = (Vec::new(), Vec::new());
    while reader.next_block(&mut block)? {
        all.append(&mut block);
    }
    Ok(all)
}

pub fn access(thread: u16, vaddr: u64, size: u8, write: bool, instructions: u32) -> Record {
    Record::Access {
        thread,
        vaddr,
        size,
        write,
        instructions,
    }
}
