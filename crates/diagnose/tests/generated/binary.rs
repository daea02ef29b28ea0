// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The recording of a modelled host as `trace.dat` (version 6) and as `perf.data` (a pipe's), by
//! the formats' descriptions. Events have the fields that the kernel gives them.

use std::collections::BTreeMap;

use super::host::{Kept, Line, What};
use super::print::name;

/// Little-endian bytes.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn u16(&mut self, v: u16) -> &mut Self {
        self.raw(&v.to_le_bytes())
    }

    fn u32(&mut self, v: u32) -> &mut Self {
        self.raw(&v.to_le_bytes())
    }

    fn u64(&mut self, v: u64) -> &mut Self {
        self.raw(&v.to_le_bytes())
    }

    fn name(&mut self, name: &str) -> &mut Self {
        let mut bytes = [0; 16];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        self.raw(&bytes)
    }

    fn pad_to(&mut self, multiple: usize) -> &mut Self {
        self.0.resize(self.0.len().next_multiple_of(multiple), 0);
        self
    }

    fn sized(&mut self, text: &str) -> &mut Self {
        self.u64(len64(text.as_bytes())).raw(text.as_bytes())
    }
}

fn len64(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).expect("it is small")
}

fn len32(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("it is small")
}

/// System, tracepoint, and its fields behind the common ones: C declaration, size.
type Format = (&'static str, &'static str, &'static [(&'static str, u32)]);

/// Tracepoints; their numbers are 300 and on.
const FORMATS: [Format; 7] = [
    ("kvm", "kvm_entry", &[("unsigned int vcpu_id", 4)]),
    (
        "kvm",
        "kvm_exit",
        &[
            ("unsigned int exit_reason", 4),
            ("u32 isa", 4),
            ("unsigned long guest_rip", 8),
            ("unsigned int vcpu_id", 4),
            ("u32 intr_info", 4),
        ],
    ),
    (
        "sched",
        "sched_switch",
        &[
            ("char prev_comm[16]", 16),
            ("pid_t prev_pid", 4),
            ("int prev_prio", 4),
            ("long prev_state", 8),
            ("char next_comm[16]", 16),
            ("pid_t next_pid", 4),
            ("int next_prio", 4),
        ],
    ),
    (
        "sched",
        "sched_wakeup",
        &[
            ("char comm[16]", 16),
            ("pid_t pid", 4),
            ("int prio", 4),
            ("int target_cpu", 4),
        ],
    ),
    (
        "kvm",
        "kvm_page_fault",
        &[("u64 fault_address", 8), ("u64 error_code", 8)],
    ),
    (
        "kvm",
        "kvm_userspace_exit",
        &[("__u32 reason", 4), ("int errno", 4)],
    ),
    ("kvm", "kvm_pio", &[("unsigned int port", 4)]),
];

fn number(what: &What) -> u16 {
    let wanted = name(what);
    let mut known = FORMATS.iter();
    let at = known.position(|(system, event, _)| (*system, *event) == wanted);
    300 + u16::try_from(at.expect("it is listed")).expect("a few")
}

fn description(number: usize, (_, event, fields): &Format) -> String {
    let mut text = format!(
        "name: {event}\nID: {number}\nformat:\n\
         \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
         \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
         \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
         \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
    );
    let mut offset = 8;
    for (declared, size) in *fields {
        let signed = u8::from(
            ["int ", "long ", "pid_t "]
                .iter()
                .any(|t| declared.starts_with(t)),
        );
        text += &format!("\tfield:{declared};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n");
        offset += size;
    }
    text + "\nprint fmt: \"%d\", REC->common_pid\n"
}

/// The number of a state in `sched_switch`.
fn state(letters: &str) -> u64 {
    match letters {
        "S" => 1,
        "D" => 2,
        "I" => 0x80,
        _ => 0,
    }
}

/// A record as the kernel writes it.
fn record(line: &Line) -> Vec<u8> {
    let mut out = Bytes::default();
    let (tid, number) = (line.thread.tid.cast_unsigned(), number(&line.what));
    out.u16(number).raw(&[0, 0]).u32(tid);
    match &line.what {
        What::Entry { vcpu } => out.u32(*vcpu),
        What::Exit { vcpu, reason } => {
            out.u32(reason.0).u32(1).u64(0xffff_ffff_8100_0000);
            out.u32(*vcpu).u32(0)
        }
        What::Switch { state: letters, to } => {
            out.name(&line.thread.comm).u32(tid).u32(120);
            out.u64(state(letters));
            out.name(&to.comm).u32(to.tid.cast_unsigned()).u32(120)
        }
        What::Wake { who, on } => {
            out.name(&who.comm).u32(who.tid.cast_unsigned());
            out.u32(120).u32(*on)
        }
        What::Fault { address, code } => out.u64(*address).u64(*code),
        What::ToVmm { reason } => out.u32(reason.0).u32(0),
        What::Port { port } => out.u32(*port),
    };
    out.pad_to(4);
    out.0
}

/// What both formats begin their description with.
fn headers(out: &mut Bytes) {
    let page = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
        \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
        \tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n";
    out.raw(b"header_page\0").sized(page);
    out.raw(b"header_event\0").sized("type");
    // No events of ftrace's own; then those of two systems.
    out.u32(0).u32(2);
    for system in ["kvm", "sched"] {
        let formats = FORMATS.iter().enumerate();
        let formats = formats.filter(|(_, format)| format.0 == system);
        out.raw(system.as_bytes()).raw(&[0]);
        out.u32(u32::try_from(formats.clone().count()).expect("a few"));
        for (at, format) in formats {
            out.sized(&description(300 + at, format));
        }
    }
}

/// Threads by number, with process and name.
fn threads<'h>(kept: &'h [Kept<'_>]) -> BTreeMap<i32, (i32, &'h str)> {
    let mut found = BTreeMap::new();
    for Kept { line, .. } in kept {
        let seen = match &line.what {
            What::Switch { to: other, .. } | What::Wake { who: other, .. } => Some(other),
            _ => None,
        };
        for thread in seen.into_iter().chain([&line.thread]) {
            found.insert(thread.tid, (thread.process, thread.comm.as_str()));
        }
    }
    found
}

const PAGE: usize = 4096;

/// Pages of one CPU's ring buffer.
#[derive(Default)]
struct Pages {
    whole: Vec<u8>,
    page: Bytes,
    begun_ns: u64,
    last_ns: u64,
    missed: u64,
}

impl Pages {
    fn add(&mut self, kept: &Kept<'_>) {
        let (data, now_ns) = (record(kept.line), kept.line.ns);
        // A head of 4 bytes, perhaps one of 8 for a long time before it, and a count of what was
        // missed behind all.
        if self.page.0.len() + data.len() + 36 > PAGE || kept.lost_before > 0 {
            self.close();
        }
        if self.page.0.is_empty() {
            (self.begun_ns, self.last_ns, self.missed) = (now_ns, now_ns, kept.lost_before);
        }
        let mut delta = now_ns - self.last_ns;
        if delta >= 1 << 27 {
            let low = u32::try_from(delta & 0x7ff_ffff).expect("27 bits");
            let high = u32::try_from(delta >> 27).expect("less than ages");
            self.page.u32(30 | low << 5).u32(high);
            delta = 0;
        }
        let words = len32(&data) / 4;
        let delta = u32::try_from(delta).expect("27 bits");
        if words <= 28 {
            self.page.u32(words | delta << 5);
        } else {
            self.page.u32(delta << 5).u32(words * 4 + 4);
        }
        self.page.raw(&data);
        self.last_ns = now_ns;
    }

    fn close(&mut self) {
        let data = std::mem::take(&mut self.page).0;
        if data.is_empty() {
            return;
        }
        let flags = if self.missed > 0 { 3 << 30 } else { 0 };
        let mut page = Bytes::default();
        page.u64(self.begun_ns).u64(len64(&data) | flags).raw(&data);
        if self.missed > 0 {
            page.u64(self.missed);
        }
        page.pad_to(PAGE);
        self.whole.extend(page.0);
    }
}

/// `trace.dat`.
pub fn trace_dat(kept: &[Kept<'_>]) -> Vec<u8> {
    let mut cpus: BTreeMap<u32, Pages> = BTreeMap::new();
    for one in kept {
        cpus.entry(one.line.cpu).or_default().add(one);
    }
    let most = cpus.keys().max().map_or(1, |cpu| cpu + 1);
    let mut pages: Vec<Vec<u8>> = Vec::new();
    for cpu in 0..most {
        let mut of = cpus.remove(&cpu).unwrap_or_default();
        of.close();
        pages.push(of.whole);
    }
    let mut out = Bytes::default();
    out.raw(b"\x17\x08\x44tracing6\0").raw(&[0, 8]).u32(4096);
    headers(&mut out);
    // No symbols, no texts of trace_printk.
    out.u32(0).u32(0);
    let names = threads(kept).into_iter();
    let names: String = names
        .map(|(tid, (_, comm))| format!("{tid} {comm}\n"))
        .collect();
    out.sized(&names).u32(most).raw(b"options  \0").u16(0);
    out.raw(b"flyrecord\0");
    let mut at = (out.0.len() + 16 * pages.len()).next_multiple_of(PAGE);
    for of in &pages {
        out.u64(u64::try_from(at).expect("it is small"))
            .u64(len64(of));
        at += of.len();
    }
    out.pad_to(PAGE);
    for of in &pages {
        out.raw(of);
    }
    out.0
}

/// Who, when, which event, where, and what: as `perf record -a` asks for.
const SAMPLE_TYPE: u64 = 1 << 1 | 1 << 2 | 1 << 6 | 1 << 7 | 1 << 10;

fn perf_record(out: &mut Bytes, kind: u32, body: &Bytes) {
    let size = u16::try_from(body.0.len() + 8).expect("it is small");
    out.u32(kind).u16(0).u16(size).raw(&body.0);
}

/// `perf.data` of a pipe.
pub fn perf_data(kept: &[Kept<'_>]) -> Vec<u8> {
    let mut out = Bytes::default();
    out.raw(b"PERFILE2").u64(16);
    for at in 0..FORMATS.len() {
        let (number, mut attr) = (300 + u64::try_from(at).expect("a few"), Bytes::default());
        attr.u32(2)
            .u32(112)
            .u64(number)
            .u64(1)
            .u64(SAMPLE_TYPE)
            .u64(4)
            .u64(1 << 18);
        attr.0.resize(112, 0);
        attr.u64(number);
        perf_record(&mut out, 64, &attr);
    }
    let mut data = Bytes::default();
    data.raw(b"\x17\x08\x44tracing0.6\0").raw(&[0, 8]).u32(4096);
    headers(&mut data);
    data.u32(0).u32(0).u64(0);
    let (mut size, len) = (Bytes::default(), len32(&data.0));
    perf_record(&mut out, 66, size.u32(len));
    out.raw(&data.pad_to(8).0);
    let first_ns = kept.first().map_or(0, |one| one.line.ns);
    let trailer = |body: &mut Bytes, ns: u64, cpu: u32| {
        body.u64(0).u64(ns).u64(300).u32(cpu).u32(0);
    };
    for (tid, (process, comm)) in threads(kept) {
        let mut body = Bytes::default();
        body.u32(process.cast_unsigned()).u32(tid.cast_unsigned());
        body.raw(comm.as_bytes()).raw(&[0]).pad_to(8);
        trailer(&mut body, first_ns, 0);
        perf_record(&mut out, 3, &body);
    }
    for Kept { line, lost_before } in kept {
        let number = u64::from(number(&line.what));
        if *lost_before > 0 {
            let mut body = Bytes::default();
            body.u64(number).u64(*lost_before);
            trailer(&mut body, line.ns, line.cpu);
            perf_record(&mut out, 2, &body);
        }
        let (raw, mut body) = (record(line), Bytes::default());
        body.u32(line.thread.process.cast_unsigned())
            .u32(line.thread.tid.cast_unsigned());
        body.u64(line.ns).u64(number).u32(line.cpu).u32(0);
        body.u32(len32(&raw)).raw(&raw).pad_to(8);
        perf_record(&mut out, 9, &body);
    }
    out.0
}
