// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds small trace.dat files by the format's description, independently of the reader.

#![allow(clippy::cast_possible_truncation, reason = "traces of tests are small")]

use std::io::Write;

use super::build::{Words, formats};

/// One page of a ring buffer.
pub struct Page {
    time: u64,
    w: Words,
}

impl Page {
    pub fn new(big: bool, time: u64) -> Self {
        Self {
            time,
            w: Words::new(big),
        }
    }

    fn head(&mut self, kind: u32, delta: u32) -> &mut Self {
        let word = if self.w.big {
            kind << 27 | delta
        } else {
            kind | delta << 5
        };
        self.w.u32(word);
        self
    }

    pub fn event(mut self, delta: u32, data: &[u8]) -> Self {
        let words = (data.len() as u32).div_ceil(4);
        if words <= 28 {
            self.head(words, delta);
        } else {
            self.head(0, delta).w.u32(words * 4 + 4);
        }
        self.w.raw(data).pad_to(4);
        self
    }

    pub fn extend(mut self, delta: u64) -> Self {
        self.head(30, (delta & 0x7ff_ffff) as u32)
            .w
            .u32((delta >> 27) as u32);
        self
    }

    pub fn stamp(mut self, time: u64) -> Self {
        self.head(31, (time & 0x7ff_ffff) as u32)
            .w
            .u32((time >> 27) as u32);
        self
    }

    pub fn discarded(mut self, delta: u32, len: u32) -> Self {
        self.head(29, delta).w.u32(len);
        self.w.raw(&vec![0xaa; len as usize - 4]);
        self
    }

    /// The page's bytes; `missed` is what was lost before it: some number, or not known.
    pub fn finish(&self, size: usize, missed: Option<Option<u64>>) -> Vec<u8> {
        let flags = match missed {
            None => 0,
            Some(None) => 1 << 31,
            Some(Some(_)) => 3 << 30,
        };
        let mut page = Words::new(self.w.big);
        page.u64(self.time)
            .u64(self.w.len64() | flags)
            .raw(&self.w.bytes);
        if let Some(Some(count)) = missed {
            page.u64(count);
        }
        assert!(page.bytes.len() <= size);
        page.bytes.resize(size, 0);
        page.bytes
    }
}

/// A whole trace.dat.
pub struct Dat {
    pub big: bool,
    pub page_size: u32,
    /// Options by number.
    pub options: Vec<(u16, Vec<u8>)>,
    /// Instances: name, and each CPU's pages.
    pub instances: Vec<(String, Vec<Vec<u8>>)>,
}

impl Dat {
    /// A little-endian trace of one instance with pages of 4096 bytes.
    pub fn of(cpus: Vec<Vec<u8>>) -> Self {
        Self {
            big: false,
            page_size: 4096,
            options: Vec::new(),
            instances: vec![(String::new(), cpus)],
        }
    }

    fn start(&self, version: &[u8]) -> Words {
        let mut w = Words::new(self.big);
        w.raw(b"\x17\x08\x44tracing")
            .raw(version)
            .raw(&[0, u8::from(self.big), 8])
            .u32(self.page_size);
        w
    }

    /// Version 6.
    pub fn six(&self) -> Vec<u8> {
        let mut w = self.start(b"6");
        w.raw(&self.headers());
        w.u32(0).raw(&self.events());
        let symbols = b"ffffffff81000000 T start\n";
        w.u32(symbols.len() as u32).raw(symbols).u32(0);
        w.u64(13).raw(b"7 CPU 0/KVM:x");
        w.u32(self.instances[0].1.len() as u32).raw(b"options  \0");
        for (id, data) in &self.options {
            w.u16(*id).u32(data.len() as u32).raw(data);
        }
        let mut places = Vec::new();
        for (name, _) in &self.instances[1..] {
            w.u16(3).u32(8 + name.len() as u32 + 1);
            places.push(w.bytes.len());
            w.u64(0).raw(name.as_bytes()).raw(&[0]);
        }
        w.u16(0);
        for (index, (_, cpus)) in self.instances.iter().enumerate() {
            if index > 0 {
                let at = Words {
                    big: self.big,
                    ..Words::default()
                }
                .u64(w.len64())
                .bytes
                .clone();
                w.bytes[places[index - 1]..][..8].copy_from_slice(&at);
            }
            w.raw(b"flyrecord\0");
            let page = self.page_size as usize;
            let mut at = (w.bytes.len() + 16 * cpus.len()).next_multiple_of(page) as u64;
            for pages in cpus {
                w.u64(at).u64(pages.len() as u64);
                at += pages.len().next_multiple_of(page) as u64;
            }
            for pages in cpus {
                w.pad_to(page).raw(pages);
            }
        }
        w.bytes
    }

    /// Version 7, packed by "none", "zlib" or "zstd".
    pub fn seven(&self, packing: &str) -> Vec<u8> {
        let mut w = self.start(b"7");
        w.raw(packing.as_bytes()).raw(b"\x001\0");
        let first = w.bytes.len();
        w.u64(0);
        let mut sections = Vec::new();
        let mut events = Words::new(self.big);
        events.u32(0);
        let mut names = Words::new(self.big);
        names.u64(13).raw(b"7 CPU 0/KVM:x");
        for (id, data) in [
            (16, self.headers()),
            (17, events.bytes),
            (18, self.events()),
            (21, names.bytes),
        ] {
            sections.push((id, w.len64()));
            section(&mut w, id, &data, packing);
        }
        let mut options = Words::new(self.big);
        for (id, at) in sections {
            options.u16(id).u32(8).u64(at);
        }
        for (id, data) in &self.options {
            options.u16(*id).u32(data.len() as u32).raw(data);
        }
        for (name, cpus) in &self.instances {
            let at = w.len64();
            w.u16(3)
                .u16(u16::from(packing != "none"))
                .u32(0)
                .u64(0)
                .pad_to(self.page_size as usize);
            let mut option = Words::new(self.big);
            option
                .u64(at)
                .raw(name.as_bytes())
                .raw(b"\0local\0")
                .u32(self.page_size)
                .u32(cpus.len() as u32);
            for (cpu, pages) in cpus.iter().enumerate() {
                let start = w.len64();
                chunks(&mut w, pages, packing);
                option.u32(cpu as u32).u64(start).u64(w.len64() - start);
            }
            options
                .u16(3)
                .u32(option.bytes.len() as u32)
                .raw(&option.bytes);
        }
        options.u16(0).u32(8).u64(0);
        let at = Words {
            big: self.big,
            ..Words::default()
        }
        .u64(w.len64())
        .bytes
        .clone();
        w.bytes[first..first + 8].copy_from_slice(&at);
        section(&mut w, 0, &options.bytes, packing);
        w.bytes
    }

    pub fn headers(&self) -> Vec<u8> {
        let mut w = Words::new(self.big);
        let page = b"\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
            \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
            \tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n";
        w.raw(b"header_page\0").u64(page.len() as u64).raw(page);
        w.raw(b"header_event\0").u64(4).raw(b"type");
        w.bytes
    }

    pub fn events(&self) -> Vec<u8> {
        let mut w = Words::new(self.big);
        w.u32(1).raw(b"kvm\0").u32(2);
        for text in formats() {
            w.u64(text.len() as u64).raw(text.as_bytes());
        }
        w.bytes
    }
}

fn pack(data: &[u8], packing: &str) -> Vec<u8> {
    match packing {
        "zlib" => {
            let mut e = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
            e.write_all(data).unwrap();
            e.finish().unwrap()
        }
        "zstd" => zstd::stream::encode_all(data, 1).unwrap(),
        _ => data.to_vec(),
    }
}

fn section(w: &mut Words, id: u16, data: &[u8], packing: &str) {
    if packing == "none" {
        w.u16(id).u16(0).u32(0).u64(data.len() as u64).raw(data);
        return;
    }
    let packed = pack(data, packing);
    w.u16(id).u16(1).u32(0).u64(packed.len() as u64 + 8);
    w.u32(packed.len() as u32)
        .u32(data.len() as u32)
        .raw(&packed);
}

fn chunks(w: &mut Words, pages: &[u8], packing: &str) {
    if packing == "none" {
        w.raw(pages);
        return;
    }
    let parts: Vec<_> = pages.chunks(2 * 4096).collect();
    w.u32(parts.len() as u32);
    for part in parts {
        let packed = pack(part, packing);
        w.u32(packed.len() as u32)
            .u32(part.len() as u32)
            .raw(&packed);
    }
}
