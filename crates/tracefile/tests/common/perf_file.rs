// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds small perf.data files by the format's description, independently of the reader.

#![allow(clippy::cast_possible_truncation, reason = "traces of tests are small")]

use super::build::{TICK, Words};
use super::dat_file::Dat;

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

    /// A record with the trailer that has thread, time and CPU.
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

    /// The same in the newer form, which has the packed size and is padded.
    pub fn compressed2(&self, part: usize) -> Self {
        let packed = zstd::stream::encode_all(self.records.as_slice(), 1).unwrap();
        packed.chunks(part).fold(Self::default(), |perf, part| {
            let mut w = Words::new(false);
            w.u64(part.len() as u64).raw(part).pad_to(8);
            perf.record(83, &w.bytes)
        })
    }
}
