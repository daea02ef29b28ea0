// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds small binary traces by the formats' descriptions, independently of the readers.

use std::io::Write;

/// Bytes in an order.
#[derive(Default, Clone)]
pub struct Words {
    pub bytes: Vec<u8>,
    pub big: bool,
}

impl Words {
    pub fn new(big: bool) -> Self {
        Self {
            bytes: Vec::new(),
            big,
        }
    }

    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    pub fn u16(&mut self, v: u16) -> &mut Self {
        self.raw(&if self.big {
            v.to_be_bytes()
        } else {
            v.to_le_bytes()
        })
    }

    pub fn u32(&mut self, v: u32) -> &mut Self {
        self.raw(&if self.big {
            v.to_be_bytes()
        } else {
            v.to_le_bytes()
        })
    }

    pub fn u64(&mut self, v: u64) -> &mut Self {
        self.raw(&if self.big {
            v.to_be_bytes()
        } else {
            v.to_le_bytes()
        })
    }

    pub fn pad_to(&mut self, multiple: usize) -> &mut Self {
        let len = self.bytes.len().next_multiple_of(multiple);
        self.bytes.resize(len, 0);
        self
    }

    fn len64(&self) -> u64 {
        self.bytes.len() as u64
    }
}

const COMMON: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;
";

/// The number of the event `tick`.
pub const TICK: u16 = 300;
/// The number of the event `named`.
pub const NAMED: u16 = 301;

/// Descriptions of the two events.
pub fn formats() -> [String; 2] {
    [
        format!(
            "name: tick\nID: {TICK}\nformat:\n{COMMON}\n\tfield:unsigned int vcpu_id;\toffset:8;\tsize:4;\tsigned:0;\n\
             \tfield:s64 delta;\toffset:16;\tsize:8;\tsigned:1;\n\nprint fmt: \"vcpu %u\", REC->vcpu_id\n"
        ),
        format!(
            "name: named\nID: {NAMED}\nformat:\n{COMMON}\n\tfield:__data_loc char[] name;\toffset:8;\tsize:4;\tsigned:1;\n\
             \tfield:__rel_loc char[] other;\toffset:12;\tsize:4;\tsigned:1;\n\
             \tfield:char comm[16];\toffset:16;\tsize:16;\tsigned:1;\n\
             \tfield:u8 code;\toffset:32;\tsize:1;\tsigned:0;\n\
             \tfield:short level;\toffset:34;\tsize:2;\tsigned:1;\n\
             \tfield:unsigned long mask[2];\toffset:40;\tsize:16;\tsigned:0;\n\nprint fmt: \"%s\", __get_str(name)\n"
        ),
    ]
}

/// A record of `tick`.
pub fn tick(big: bool, pid: i32, vcpu: u32, delta: i64) -> Vec<u8> {
    let mut w = Words::new(big);
    w.u16(TICK)
        .raw(&[0x09, 0])
        .u32(pid.cast_unsigned())
        .u32(vcpu)
        .u32(0)
        .u64(delta.cast_unsigned());
    w.bytes
}

/// A record of `named` whose strings follow its fixed part.
pub fn named(big: bool, pid: i32, name: &str, other: &str) -> Vec<u8> {
    let mut w = Words::new(big);
    let (name, other) = (format!("{name}\0"), format!("{other}\0"));
    let at = 56;
    w.u16(NAMED).raw(&[0, 0]).u32(pid.cast_unsigned());
    w.u32((name.len() as u32) << 16 | at);
    // Counted from the end of the field itself, which is at 16.
    w.u32((other.len() as u32) << 16 | (at + name.len() as u32 - 16));
    w.raw(b"CPU 1/KVM\0\0\0\0\0\0\0")
        .raw(&[200, 0])
        .u16((-7_i16).cast_unsigned())
        .u32(0)
        .u64(1)
        .u64(2);
    w.raw(name.as_bytes()).raw(other.as_bytes()).pad_to(4);
    w.bytes
}

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

    fn headers(&self) -> Vec<u8> {
        let mut w = Words::new(self.big);
        let page = b"\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
            \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
            \tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n";
        w.raw(b"header_page\0").u64(page.len() as u64).raw(page);
        w.raw(b"header_event\0").u64(4).raw(b"type");
        w.bytes
    }

    fn events(&self) -> Vec<u8> {
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

/// The records of a perf.data.
#[derive(Default)]
pub struct Perf {
    pub records: Vec<u8>,
}

/// TID, TIME, ID, CPU, RAW, as `perf record -a` asks for, and the trailer of other records.
const SAMPLE_TYPE: u64 = 1 << 1 | 1 << 2 | 1 << 6 | 1 << 7 | 1 << 10;

impl Perf {
    pub fn record(mut self, kind: u32, body: &[u8]) -> Self {
        let mut w = Words::new(false);
        w.u32(kind).u16(0).u16((body.len() + 8) as u16).raw(body);
        self.records.extend(w.bytes);
        self
    }

    pub fn sample(self, tid: i32, time: u64, id: u64, cpu: u32, raw: &[u8]) -> Self {
        let mut w = Words::new(false);
        w.u32(tid.cast_unsigned())
            .u32(tid.cast_unsigned())
            .u64(time)
            .u64(id)
            .u32(cpu)
            .u32(0);
        w.u32(raw.len() as u32).raw(raw).pad_to(8);
        self.record(9, &w.bytes)
    }

    /// A record with the trailer that tells thread, time and CPU.
    pub fn side(self, kind: u32, body: &[u8], time: u64, cpu: u32) -> Self {
        let mut w = Words::new(false);
        w.raw(body)
            .pad_to(8)
            .u64(0)
            .u64(time)
            .u64(5)
            .u32(cpu)
            .u32(0);
        self.record(kind, &w.bytes)
    }

    pub fn comm(self, tid: u32, name: &str, time: u64) -> Self {
        let mut w = Words::new(false);
        w.u32(tid).u32(tid).raw(name.as_bytes()).raw(&[0]);
        self.side(3, &w.bytes, time, 0)
    }

    pub fn fork(self, tid: u32, parent: u32, time: u64) -> Self {
        let mut w = Words::new(false);
        w.u32(tid).u32(parent).u32(tid).u32(parent).u64(time);
        self.side(7, &w.bytes, time, 0)
    }

    pub fn round(self) -> Self {
        self.record(68, &[])
    }

    fn attr(kind: u32, config: u64) -> Vec<u8> {
        let mut w = Words::new(false);
        w.u32(kind)
            .u32(112)
            .u64(config)
            .u64(1)
            .u64(SAMPLE_TYPE)
            .u64(4)
            .u64(1 << 18);
        w.bytes.resize(112, 0);
        w.bytes
    }

    /// Two attributes: tracepoints with id 5, a counter with id 6.
    fn attrs() -> [(Vec<u8>, u64); 2] {
        [(Self::attr(2, u64::from(TICK)), 5), (Self::attr(0, 0), 6)]
    }

    fn tracing_data() -> Vec<u8> {
        let dat = Dat::of(Vec::new());
        let mut w = Words::new(false);
        w.raw(b"\x17\x08\x44tracing0.6\0").raw(&[0, 8]).u32(4096);
        w.raw(&dat.headers())
            .u32(0)
            .raw(&dat.events())
            .u32(0)
            .u32(0)
            .u64(0);
        w.bytes
    }

    /// Pipe mode.
    pub fn pipe(&self) -> Vec<u8> {
        let mut w = Words::new(false);
        w.raw(b"PERFILE2").u64(16);
        let mut head = Self::default();
        for (attr, id) in Self::attrs() {
            head = head.record(64, &[attr, id.to_le_bytes().to_vec()].concat());
        }
        let data = Self::tracing_data();
        head = head.record(66, &(data.len() as u32).to_le_bytes());
        w.raw(&head.records).raw(&data);
        let unaligned = data.len() % 8;
        w.raw(&vec![0; (8 - unaligned) % 8]).raw(&self.records);
        w.bytes
    }

    /// File mode.
    pub fn file(&self) -> Vec<u8> {
        let attrs = Self::attrs();
        let (ids_at, attrs_at) = (104_u64, 104 + 16_u64);
        let data_at = attrs_at + 128 * attrs.len() as u64;
        let mut w = Words::new(false);
        w.raw(b"PERFILE2")
            .u64(104)
            .u64(128)
            .u64(attrs_at)
            .u64(128 * attrs.len() as u64);
        w.u64(data_at).u64(self.records.len() as u64).u64(0).u64(0);
        w.u64(1 << 1 | 1 << 4).u64(0).u64(0).u64(0);
        for (_, id) in &attrs {
            w.u64(*id);
        }
        for (index, (attr, _)) in attrs.iter().enumerate() {
            w.raw(attr).u64(ids_at + 8 * index as u64).u64(8);
        }
        w.raw(&self.records);
        let tracing = Self::tracing_data();
        let features = w.len64() + 32;
        w.u64(features)
            .u64(tracing.len() as u64)
            .u64(features + tracing.len() as u64)
            .u64(12);
        w.raw(&tracing).u32(8).raw(b"6.12.1\0\0");
        w.bytes
    }

    /// The same records inside compressed ones of at most `part` packed bytes.
    pub fn compressed(&self, part: usize) -> Self {
        let packed = zstd::stream::encode_all(self.records.as_slice(), 1).unwrap();
        packed
            .chunks(part)
            .fold(Self::default(), |perf, part| perf.record(81, part))
    }
}
