// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A trace of a host with one VM, written byte by byte as the format says.

/// Of two processors and 64 frames. A VM's vCPUs with VPIDs 1 and 2 execute on them. Its frames are
/// the host's, by an entry of 2 MiB in frame 12, below frames 10 and 11. Its tables are frames 1 to
/// 4; pages 0 to 7 are in frames 16 to 23.
pub struct Trace {
    pub bytes: Vec<u8>,
    last: [u64; 2],
}

const GUEST: [u64; 6] = [1, 0x1000, 1 << 31, 1 << 10, 1, 0xa01e];
/// Where the entries of pages 0 to 7 are.
pub const LEAVES: u64 = 0x4000;
/// An entry that maps nothing.
pub const GONE: u64 = 0;

impl Trace {
    pub fn new() -> Self {
        let mut trace = Self {
            bytes: b"SHTRACE1".to_vec(),
            last: [0; 2],
        };
        trace.numbers(&[2, 64]);
        for cpu in [0, 1] {
            trace.record(cpu, 8, &[u64::from(cpu) + 1, 0xa01e, 0, 0]);
        }
        trace.record(0, 9, &[]);
        for cpu in [0, 1] {
            let mut context = GUEST;
            context[4] += u64::from(cpu);
            trace.record(cpu, 1, &context);
        }
        for (frame, entry) in [(10, 0xb007), (11, 0xc007), (12, 0x87)] {
            trace.frame(frame, &[entry]);
        }
        for (frame, entry) in [(1, 0x2003), (2, 0x3003), (3, 0x4003)] {
            trace.frame(frame, &[entry]);
        }
        let leaves: Vec<u64> = (0..8).map(|page| (16 + page) << 12 | 3).collect();
        trace.frame(4, &leaves);
        // Tables are known by what was read through them.
        trace.load(0, 0, 16);
        trace
    }

    pub fn numbers(&mut self, numbers: &[u64]) {
        for &number in numbers {
            let mut rest = number;
            while rest >= 0x80 {
                self.bytes.push(u8::try_from(rest & 0x7f).unwrap() | 0x80);
                rest >>= 7;
            }
            self.bytes.push(u8::try_from(rest).unwrap());
        }
    }

    pub fn record(&mut self, cpu: u8, kind: u8, numbers: &[u64]) -> &mut Self {
        self.bytes.extend([3 | cpu << 3, kind, 1]);
        self.numbers(numbers);
        self
    }

    pub fn frame(&mut self, frame: u64, entries: &[u64]) {
        self.record(0, 2, &[frame]);
        let mut page = vec![0; 4096];
        for (at, entry) in entries.iter().enumerate() {
            page[at * 8..][..8].copy_from_slice(&entry.to_le_bytes());
        }
        self.bytes.extend(page);
    }

    /// A load of eight bytes, ten instructions after the processor's last.
    pub fn load(&mut self, cpu: u8, linear: u64, frame: u64) -> &mut Self {
        self.access(cpu, 0, linear, frame)
    }

    /// A store, likewise.
    #[allow(dead_code, reason = "not each file of tests has stores")]
    pub fn store(&mut self, cpu: u8, linear: u64, frame: u64) -> &mut Self {
        self.access(cpu, 1, linear, frame)
    }

    fn access(&mut self, cpu: u8, store: u8, linear: u64, frame: u64) -> &mut Self {
        let last = std::mem::replace(&mut self.last[usize::from(cpu)], linear);
        let delta = linear.wrapping_sub(last);
        self.bytes.push(4 | store | cpu << 3);
        self.numbers(&[
            10 << 3 | 3,
            delta << 1 ^ (delta >> 63).wrapping_neg(),
            frame,
        ]);
        self
    }

    pub fn write(&mut self, cpu: u8, place: u64, entry: u64) -> &mut Self {
        self.record(cpu, 3, &[place, 8]);
        self.bytes.extend(entry.to_le_bytes());
        self
    }

    pub fn invlpg(&mut self, cpu: u8, linear: u64) -> &mut Self {
        self.record(cpu, 4, &[15 | 1 << 8, 0, linear, 0x1000])
    }

    /// The trace with its last record.
    pub fn ended(&mut self) -> &[u8] {
        self.record(0, 10, &[]);
        &self.bytes
    }
}
