// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Damaged and hostile traces: whatever the bytes, a reader ends with records, a loss or an error.
//!
//! The suite runs some thousand cases. A million for each reader:
//! `cargo test --release -p steady-tracefile --test hostile -- --ignored`

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "helpers of tests"
)]

mod common;

use proptest::prelude::*;
use steady_tracefile::{Error, Record};

use common::build::{self, Words, named, tick};
use common::dat_file::{Dat, Page};
use common::open_bytes;
use common::perf_file::Perf;

/// Opens a trace and reads all fields of all its records.
fn exercise(bytes: Vec<u8>) {
    let len = bytes.len();
    let mut source = match open_bytes(bytes) {
        Ok(source) => source,
        Err(Error::Io { source, .. }) => panic!("damage is not an error of the system's: {source}"),
        Err(error) => {
            assert!(error.to_string().starts_with("trace: "), "{error}");
            return;
        }
    };
    let mut records = 0_usize;
    while let Ok(Some(record)) = source.next() {
        read_all(&record);
        records += 1;
        assert!(
            records <= 64 * len + 1000,
            "more records than bytes can hold"
        );
    }
    let loss = source.loss();
    assert!(loss.damage.len() <= 16 && loss.unknown_events.len() <= 1024);
    assert!(loss.damage_count >= loss.damage.len() as u64);
    let _ = (
        loss.lost(),
        loss.is_none(),
        source.about().event("", "tick"),
    );
}

fn read_all(r: &Record<'_>) {
    assert!(r.comm.len() <= 4096 || r.text().is_some());
    let fields = r.event.fields.iter().map(|f| f.name.as_str());
    for name in fields.chain([
        "vcpu_id",
        "exit_reason",
        "info2",
        "prev_comm",
        "next_pid",
        "comm",
    ]) {
        let Some(id) = r.event.field(name) else {
            continue;
        };
        let _ = (r.u64(id), r.i64(id), r.str(id), r.bytes(id));
    }
}

fn pages(big: bool) -> Vec<u8> {
    let first = Page::new(big, 1 << 60)
        .event(1, &tick(big, 7, 1, -1))
        .extend(1 << 40)
        .event(2, &named(big, 7, "first", "second"))
        .discarded(3, 12)
        .stamp(5)
        .event(4, &named(big, 8, &"x".repeat(150), ""));
    let second = Page::new(big, (1 << 60) + 100).event(1, &tick(big, 9, 2, 5));
    [
        first.finish(512, Some(Some(3))),
        second.finish(512, Some(None)),
    ]
    .concat()
}

fn dat(big: bool) -> Dat {
    let mut dat = Dat {
        big,
        page_size: 512,
        ..Dat::of(vec![pages(big), pages(big)])
    };
    dat.instances.push(("inner".into(), vec![pages(big)]));
    let mut guest = Words::new(big);
    guest.raw(b"guest\0").u64(1).u32(1).u32(0).u32(7);
    let mut shift = Words::new(big);
    shift.u64(1).u32(0).u32(1).u32(1).u64(2).u64(3).u64(4);
    let mut tsc = Words::new(big);
    tsc.u32(3).u32(1).u64(0);
    let mut cpus = Words::new(big);
    cpus.u32(2);
    dat.options = vec![
        (1, b"0x1f\0".to_vec()),
        (2, b"CPU: 0\noverrun: 3\ndropped events: 1\n\0".to_vec()),
        (4, b"[local] global\0".to_vec()),
        (8, cpus.bytes),
        (12, shift.bytes),
        (13, guest.bytes),
        (14, tsc.bytes),
    ];
    dat
}

fn perf() -> Perf {
    Perf::default()
        .comm(7, "CPU 0/KVM", 0)
        .sample(7, 10, 5, 0, &tick(false, 7, 1, 0))
        .fork(8, 7, 15)
        .sample(8, 12, 5, 1, &named(false, 8, "first", "second"))
        .side(2, &[4; 16], 20, 1)
        .side(13, &[4; 8], 20, 1)
        .round()
        .sample(8, 22, 6, 1, &[])
        .record(80, b"\x04\0\0\0\0\0\0\0\x04\0\0\0abc\0")
        .sample(8, 21, 5, 1, &tick(false, 8, 2, 0))
        .round()
}

const FTRACE: &str = "# tracer: nop\n# entries-in-buffer/entries-written: 6/9   #P:2\n
       CPU 0/KVM-49      [000] d..2.     5.428440: kvm_exit: vcpu 0 reason HLT rip 0x401b98 info1 0x0 info2 0x1 intr_info 0x0 error_code 0x0
       CPU 0/KVM-49    [000]     5.428440178: kvm_exit:             reason UNKNOWN (96) rip 0x401b98 info 0 1f
       CPU 0/KVM-49      (     40) [000] .....     5.428455: kvm_entry: vcpu 0, rip 0x401b98[immediate exit]
       trace-cmd-55    [000]     5.428427858: sched_switch:         trace-cmd:55 [120] S ==> CPU 0/KVM:49 [120]
       trace-cmd-55      [000] d..2.     5.428427: sched_switch: prev_comm=a ==> b prev_pid=55 prev_prio=120 prev_state=S ==> next_comm=CPU 0/KVM next_pid=49 next_prio=120
CPU:1 [LOST 12 EVENTS]\nCPU:1 [EVENTS DROPPED]
       rcu_sched-15    [001]     5.5: sched_wakeup:         rcu_sched:15 [120] success=1 CPU:001
       rcu_sched-15    [001]     5.6: kvm_msr:              msr_write 6e0 = 0x28f400ab\n";

const PERF_SCRIPT: &str = "            perf 24374 [000] 17175.236180:               sched:sched_stat_runtime: comm=perf pid=24374 runtime=148010 [ns]
             :-1    -1 [001] 18838.440043056:    1  sched:sched_switch: prev_comm=x prev_pid=4113 prev_prio=130 prev_state=X ==> next_comm=y next_pid=4131 next_prio=130
\tffffffff8112 schedule+0x1 ([kernel.kallsyms])\n
         swapper     0/0     [000] 17182.415751: PERF_RECORD_LOST lost 12
         swapper     0/0     [000] 17182.415751:   kvm:kvm_pio: pio_write at 0x70 size 1 count 1 val 0x8f \n";

/// Lines of the other layouts, and of mail.
const OTHERS: [&str; 5] = [
    "cpus=2
CPU 1/KV-50      1d..2.     5.985317183: (+12760) kvm_exit: reason HLT rip 0x401b98 info 0 0
CPU 0/KV-49      0-0x1     5.988294123: kvm_entry:             vcpu_id=0 rip=0x401b98\n",
    "     0.000 migration/0/18 sched:sched_wakeup(comm: \"perf\", pid: 13 (perf), target_cpu: 1)
     3.354 CPU 0/KVM/66 sched:sched_switch(prev_comm: \"a\", b: \"\", prev_pid: 6, next_comm: \"q\")
     3.355 CPU 0/KVM/66 kvm:kvm_exit(exit_reason: 12, guest_rip: -2130706432, isa: 1)\n",
    "            perf 12947 19882.792726761:  sched:sched_wakeup: comm=mi pid=18 target_cpu=0
 12/947 [000] 19882.792731158:  sched:sched_switch: prev_comm=p prev_pid=1 ==> next_comm=m/0\n",
    "> >        CPU 0/KVM-49      [000] d..2.     5.428440: kvm_exit: vcpu 0
> > reason HLT rip 0x401b98 info1 0x0
> >        CPU 0/KVM-49      [000] d..2.     5.428441: kvm_entry: vcpu 0,
> > rip 0x401b98\n",
    "       CPU 0/KVM-49      [000] d..2.     5.4284: kvm_exit: TRAP: HSR_EC: 0x0001 (WFx), PC: 0xf
       CPU 0/KVM-49      [000] d..2.     5.428440: kvm_wfx_arm64: guest executed wfe at: 0x0
       CPU 0/KVM-49      [000] d..2.     5.428440: kvm_exit: SEPC:0x1, SCAUSE:0x8000000000000005\n",
];

/// A stream of numbers that is the same everywhere (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

/// Values that checks of lengths get wrong.
const EDGES: [u64; 12] = [
    0,
    1,
    7,
    8,
    0x7f,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 40,
    i64::MAX as u64,
    u64::MAX,
];

/// Damages a trace in one to six places.
fn damage(bytes: &mut Vec<u8>, numbers: &mut Numbers) {
    for _ in 0..=numbers.below(6) {
        let at = numbers.below(bytes.len() + 1);
        let rest = bytes.len() - at;
        match numbers.below(9) {
            0 | 1 if rest > 0 => bytes[at] ^= 1 << numbers.below(8),
            2 if rest > 0 => bytes[at] = numbers.next() as u8,
            3 | 4 => {
                let value = EDGES[numbers.below(EDGES.len())].to_le_bytes();
                let len = [1, 2, 4, 8][numbers.below(4)].min(rest);
                bytes[at..at + len].copy_from_slice(&value[..len]);
            }
            5 => bytes.truncate(at),
            6 => {
                let len = numbers.below(64).min(rest);
                bytes.drain(at..at + len);
            }
            7 => {
                let len = numbers.below(256).min(rest);
                let part = bytes[at..at + len].to_vec();
                let to = numbers.below(bytes.len() + 1);
                bytes.splice(to..to, part);
            }
            _ => {
                let part: Vec<u8> = (0..numbers.below(16))
                    .map(|_| numbers.next() as u8)
                    .collect();
                bytes.splice(at..at, part);
            }
        }
    }
}

/// Runs `cases` damaged traces; `finish` makes the file from damaged bytes.
fn cases(bases: &[Vec<u8>], finish: impl Fn(Vec<u8>) -> Vec<u8>, seed: u64, cases: u64) {
    let mut numbers = Numbers(seed);
    for case in 0..cases {
        let mut bytes = bases[case as usize % bases.len()].clone();
        damage(&mut bytes, &mut numbers);
        exercise(finish(bytes));
    }
}

fn trace_dat(seed: u64, count: u64) {
    let bases = [
        dat(false).six(),
        dat(true).six(),
        dat(false).seven("none"),
        dat(true).seven("none"),
        dat(false).seven("zstd"),
    ];
    cases(&bases, |b| b, seed, count);
}

fn perf_data(seed: u64, count: u64) {
    cases(
        &[perf().file(), perf().pipe(), perf().compressed(60).pipe()],
        |b| b,
        seed,
        count / 2,
    );
    // Damage inside compressed records.
    let records = [perf().records];
    cases(
        &records,
        |records| Perf { records }.compressed(60).pipe(),
        seed,
        count - count / 2,
    );
}

fn ftrace_text(seed: u64, count: u64) {
    cases(&[FTRACE.into()], |b| b, seed, count);
}

fn perf_script(seed: u64, count: u64) {
    cases(&[PERF_SCRIPT.into()], |b| b, seed, count);
}

fn other_layouts(seed: u64, count: u64) {
    cases(
        &OTHERS.map(|text| text.as_bytes().to_vec()),
        |b| b,
        seed,
        count,
    );
}

fn perfetto(seed: u64, count: u64) {
    let packed = common::fixture_bytes("bochs-intel.pftrace.gz");
    let mut whole = Vec::new();
    let mut decoder = flate2::read::MultiGzDecoder::new(packed.as_slice());
    std::io::Read::read_to_end(&mut decoder, &mut whole).unwrap();
    // Its first packets, so that damage is not lost in a long trace; and one of them at its end.
    cases(
        &[whole[..9_000].to_vec(), whole[..30_000].to_vec()],
        |b| b,
        seed,
        count,
    );
}

fn packed(seed: u64, count: u64) {
    let gzip = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, bytes).unwrap();
        encoder.finish().unwrap()
    };
    let bases = [
        zstd::encode_all(FTRACE.as_bytes(), 1).unwrap(),
        zstd::encode_all(dat(false).six().as_slice(), 1).unwrap(),
        gzip(PERF_SCRIPT.as_bytes()),
        gzip(&perf().pipe()),
        {
            let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
            std::io::Write::write_all(&mut xz, FTRACE.as_bytes()).unwrap();
            xz.finish().unwrap()
        },
        {
            let fast = bzip2::Compression::fast();
            let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), fast);
            std::io::Write::write_all(&mut bzip2, FTRACE.as_bytes()).unwrap();
            bzip2.finish().unwrap()
        },
        build::zip_of(&[("trace.txt", FTRACE.as_bytes())]),
    ];
    cases(&bases, |b| b, seed, count);
}

#[test]
fn what_the_cases_start_from_is_whole() {
    let all: [(Vec<u8>, u64); 8] = [
        (dat(false).six(), 12),
        (dat(true).six(), 12),
        (dat(false).seven("none"), 12),
        (dat(true).seven("zstd"), 12),
        (perf().file(), 3),
        (perf().compressed(60).pipe(), 3),
        (FTRACE.into(), 7),
        (PERF_SCRIPT.into(), 3),
    ];
    for (index, (bytes, records)) in all.into_iter().enumerate() {
        let (count, loss) = common::drain(open_bytes(bytes).unwrap().as_mut());
        assert_eq!((count, loss.damage_count), (records, 0), "{index}");
    }
}

/// For each reader a test of some thousand cases, and one of a million.
macro_rules! damaged {
    ($($reader:ident: $few:ident $seed:literal $cases:literal, $many:ident $other:literal;)*) => {$(
        #[test]
        fn $few() {
            $reader($seed, $cases);
        }

        #[test]
        #[ignore = "takes minutes"]
        fn $many() {
            $reader($other, 1_000_000);
        }
    )*};
}

damaged! {
    trace_dat: damaged_trace_dat_never_panics 1 10_000, a_million_damaged_trace_dats 11;
    perf_data: damaged_perf_data_never_panics 2 10_000, a_million_damaged_perf_data_files 12;
    ftrace_text: damaged_ftrace_text_never_panics 3 10_000, a_million_damaged_ftrace_texts 13;
    perf_script: damaged_perf_script_never_panics 4 10_000, a_million_damaged_perf_scripts 14;
    other_layouts: damaged_lines_of_other_layouts_never_panic 6 10_000,
        a_million_damaged_lines_of_other_layouts 15;
    perfetto: damaged_perfetto_traces_never_panic 7 2_000, a_million_damaged_perfetto_traces 16;
}

#[test]
fn damaged_packed_traces_never_panic() {
    packed(5, 5_000);
}

proptest! {
    #[test]
    fn any_bytes_behind_any_magic_end_well(
        magic in prop::sample::select(vec![
            b"\x17\x08\x44tracing6\0\0\x08\0\x02\0\0header_page\0".to_vec(),
            b"\x17\x08\x44tracing7\0\0\x08\0\x02\0\0none\x001\0".to_vec(),
            b"PERFILE2\x10\0\0\0\0\0\0\0".to_vec(),
            b"PERFILE2\x68\0\0\0\0\0\0\0".to_vec(),
            b"# tracer: nop\n".to_vec(),
            b"\x1f\x8b\x08".to_vec(),
            b"\x28\xb5\x2f\xfd".to_vec(),
            b"\xfd7zXZ\0".to_vec(),
            b"BZh91A".to_vec(),
            b"PK\x03\x04".to_vec(),
            b"\x0a\x04\x50\x01\x68\x01\x0a\x40\x0a\x3e".to_vec(),
            b"\x0a\x40\x0a\x3e\x08\x01\x22\x3a".to_vec(),
            Vec::new(),
        ]),
        rest in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        exercise([magic, rest].concat());
    }

    #[test]
    fn any_printed_line_ends_well(
        event in prop::sample::select(vec![
            "kvm_exit", "kvm_entry", "sched_switch", "sched_wakeup", "kvm_msr", "kvm_halt_poll_ns", "other",
        ]),
        body in "[ -~]{0,120}",
    ) {
        exercise(format!("            bash-1 [000] 1.000001: {event}: {body}\n").into_bytes());
        exercise(format!("            bash 1 [000] 1.000001: x:{event}: {body}\n").into_bytes());
    }
}
