// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What traces built by hand are made of: words, and two events with their records.

#![allow(clippy::cast_possible_truncation, reason = "traces of tests are small")]

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

    pub fn len64(&self) -> u64 {
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

/// A zip archive of files that are stored, by the specification (APPNOTE 4.3): local headers, the
/// directory, its end.
pub fn zip_of(files: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, data) in files {
        let mut crc = flate2::Crc::new();
        crc.update(data);
        let mut common = vec![20, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        common.extend(crc.sum().to_le_bytes());
        common.extend(u32::try_from(data.len()).unwrap().to_le_bytes().repeat(2));
        common.extend(u16::try_from(name.len()).unwrap().to_le_bytes());
        common.extend([0, 0]);
        let offset = u32::try_from(out.len()).unwrap();
        out.extend(b"PK\x03\x04");
        out.extend(&common);
        out.extend(name.as_bytes());
        out.extend(*data);
        directory.extend(b"PK\x01\x02\x14\0");
        directory.extend(&common);
        directory.extend([0; 10]);
        directory.extend(offset.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let count = u16::try_from(files.len()).unwrap().to_le_bytes();
    let (at, len) = (out.len(), directory.len());
    out.extend(directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend(count.repeat(2));
    out.extend(u32::try_from(len).unwrap().to_le_bytes());
    out.extend(u32::try_from(at).unwrap().to_le_bytes());
    out.extend([0, 0]);
    out
}
