// SPDX-License-Identifier: Apache-2.0 OR MIT
//! trace.dat: what the fixtures do not show, in traces built by hand.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "helpers of tests"
)]

#[path = "../common/mod.rs"]
mod common;
mod damage;

use steady_tracefile::{Endian, Format};

use common::build::{Words, named, tick};
use common::dat_file::{Dat, Page};
use common::{drain, open_bytes};

/// Times and vCPUs of all records of a trace of ticks.
fn ticks(bytes: Vec<u8>) -> Vec<(u64, u64)> {
    let mut source = open_bytes(bytes).unwrap();
    let mut out = Vec::new();
    while let Some(r) = source.next().unwrap() {
        out.push((r.time_ns, r.u64_named("vcpu_id").unwrap()));
    }
    out
}

fn page(time: u64, vcpus: &[u32]) -> Vec<u8> {
    let page = Page::new(false, time);
    vcpus
        .iter()
        .fold(page, |p, v| p.event(10, &tick(false, 7, *v, 0)))
        .finish(4096, None)
}

#[test]
fn records_of_several_cpus_come_in_the_order_of_time() {
    let dat = Dat::of(vec![page(100, &[1, 2]), page(105, &[3, 4])]);
    for bytes in [
        dat.six(),
        dat.seven("none"),
        dat.seven("zstd"),
        dat.seven("zlib"),
    ] {
        assert_eq!(ticks(bytes), [(110, 1), (115, 3), (120, 2), (125, 4)]);
    }
}

#[test]
fn equal_times_keep_the_order_of_the_cpus() {
    let dat = Dat::of(vec![page(100, &[1, 2]), page(100, &[3, 4])]);
    assert_eq!(ticks(dat.six()), [(110, 1), (110, 3), (120, 2), (120, 4)]);
}

#[test]
fn a_big_endian_trace_reads_like_its_little_endian_twin() {
    let of = |big| {
        let page = Page::new(big, 1000)
            .event(5, &tick(big, -1, 9, -2))
            .event(6, &named(big, 7, "ab", "cd"));
        Dat {
            big,
            ..Dat::of(vec![page.finish(4096, None)])
        }
    };
    for bytes in [of(true).six(), of(true).seven("zstd")] {
        let mut source = open_bytes(bytes).unwrap();
        assert_eq!(source.about().endian, Endian::Big);
        let r = source.next().unwrap().unwrap();
        assert_eq!((r.time_ns, r.pid, r.flags), (1005, -1, 9));
        assert_eq!(
            (r.u64_named("vcpu_id"), r.i64_named("delta")),
            (Some(9), Some(-2))
        );
        let r = source.next().unwrap().unwrap();
        assert_eq!(
            (r.time_ns, r.str_named("name")),
            (1011, Some(b"ab".as_slice()))
        );
        assert_eq!(r.i64_named("level"), Some(-7));
    }
}

#[test]
fn fields_of_every_kind_are_read_where_the_format_says() {
    let data = named(false, 7, "first", "second");
    let dat = Dat::of(vec![Page::new(false, 0).event(1, &data).finish(4096, None)]);
    let mut source = open_bytes(dat.six()).unwrap();
    let r = source.next().unwrap().unwrap();
    assert_eq!(r.str_named("name"), Some(b"first".as_slice()));
    assert_eq!(r.str_named("other"), Some(b"second".as_slice()));
    assert_eq!(r.str_named("comm"), Some(b"CPU 1/KVM".as_slice()));
    assert_eq!(
        (r.u64_named("code"), r.i64_named("level")),
        (Some(200), Some(-7))
    );
    let mask = r.event.field("mask").unwrap();
    assert_eq!(
        r.bytes(mask),
        Some(
            [1_u64.to_le_bytes(), 2_u64.to_le_bytes()]
                .concat()
                .as_slice()
        )
    );
    assert_eq!(
        (r.u64(mask), r.str(mask), r.u64_named("absent")),
        (None, None, None)
    );
    assert_eq!(r.comm, b"CPU 0/KVM:x");
    assert_eq!(
        (r.event.system.as_str(), r.event.name.as_str()),
        ("kvm", "named")
    );
}

#[test]
fn time_extensions_and_absolute_stamps_count() {
    let absolute = 3 << 40;
    let page = Page::new(false, (1 << 60) + 7)
        .extend(1 << 30)
        .event(1, &tick(false, 0, 1, 0))
        .stamp(absolute)
        .event(2, &tick(false, 0, 2, 0));
    // An absolute stamp has 59 bits; the highest are those of the page.
    let expected = [
        ((1 << 60) + 8 + (1 << 30), 1),
        ((1 << 60) + absolute + 2, 2),
    ];
    assert_eq!(
        ticks(Dat::of(vec![page.finish(4096, None)]).six()),
        expected
    );
}

#[test]
fn a_discarded_record_is_passed_over_and_its_time_counts() {
    let page = Page::new(false, 0)
        .event(1, &tick(false, 0, 1, 0))
        .discarded(4, 24)
        .event(1, &tick(false, 0, 2, 0));
    assert_eq!(
        ticks(Dat::of(vec![page.finish(4096, None)]).six()),
        [(1, 1), (6, 2)]
    );
}

#[test]
fn a_record_too_long_for_a_short_head_is_read() {
    let long = "x".repeat(400);
    let page = Page::new(false, 0)
        .event(1, &named(false, 1, &long, ""))
        .event(1, &tick(false, 0, 2, 0));
    let mut source = open_bytes(Dat::of(vec![page.finish(4096, None)]).six()).unwrap();
    assert_eq!(
        source
            .next()
            .unwrap()
            .unwrap()
            .str_named("name")
            .unwrap()
            .len(),
        400
    );
    assert_eq!(
        source.next().unwrap().unwrap().u64_named("vcpu_id"),
        Some(2)
    );
}

#[test]
fn missed_records_are_counted_by_cpu() {
    let with = |missed| {
        Page::new(false, 0)
            .event(1, &tick(false, 0, 1, 0))
            .finish(4096, missed)
    };
    let pages = [with(Some(Some(12))), with(Some(None)), with(None)].concat();
    let (count, loss) = drain(
        open_bytes(Dat::of(vec![page(0, &[]), pages]).six())
            .unwrap()
            .as_mut(),
    );
    let cpu = loss.cpus[&1];
    assert_eq!((count, cpu.lost, cpu.gaps, cpu.gaps_unknown), (3, 12, 2, 1));
    assert_eq!(loss.lost(), 12);
}

#[test]
fn overruns_of_the_statistics_are_not_counted_twice() {
    let stat = b"CPU: 0\nentries: 5\noverrun: 12\ncommit overrun: 0\ndropped events: 3\nread events: 9\n\0";
    let pages = Page::new(false, 0)
        .event(1, &tick(false, 0, 1, 0))
        .finish(4096, Some(Some(12)));
    let dat = Dat {
        options: vec![(2, stat.to_vec())],
        ..Dat::of(vec![pages])
    };
    let (_, loss) = drain(open_bytes(dat.seven("none")).unwrap().as_mut());
    assert_eq!((loss.cpus[&0].overrun, loss.lost()), (12, 15));
}

#[test]
fn large_pages_are_read() {
    let vcpus: Vec<u32> = (0..1500).collect();
    let page = vcpus.iter().fold(Page::new(false, 0), |p, v| {
        p.event(1, &tick(false, 0, *v, 0))
    });
    let dat = Dat {
        page_size: 65536,
        ..Dat::of(vec![page.finish(65536, None)])
    };
    assert_eq!(ticks(dat.six()).len(), 1500);
    assert_eq!(ticks(dat.seven("none")).len(), 1500);
}

#[test]
fn instances_are_merged_and_told_apart() {
    let mut dat = Dat::of(vec![page(100, &[1, 2])]);
    dat.instances.push(("guest".into(), vec![page(104, &[3])]));
    for bytes in [dat.six(), dat.seven("zstd")] {
        let mut source = open_bytes(bytes).unwrap();
        assert_eq!(source.about().instances, ["", "guest"]);
        let mut seen = Vec::new();
        while let Some(r) = source.next().unwrap() {
            seen.push((r.instance, r.u64_named("vcpu_id").unwrap()));
        }
        assert_eq!(seen, [(0, 1), (1, 3), (0, 2)]);
    }
}

#[test]
fn options_describe_the_host() {
    let mut guest = Words::new(false);
    guest
        .raw(b"victim\0")
        .u64(77)
        .u32(2)
        .u32(0)
        .u32(41)
        .u32(1)
        .u32(42);
    let mut shift = Words::new(false);
    shift
        .u64(99)
        .u32(0)
        .u32(1)
        .u32(1)
        .u64(5)
        .u64((-6_i64).cast_unsigned())
        .u64(1);
    let mut tsc = Words::new(false);
    tsc.u32(1 << 20).u32(21).u64(3);
    let options = vec![
        (4, b"local global [x86-tsc]\0".to_vec()),
        (5, b"Linux box 6.12.1 x86_64\0".to_vec()),
        (7, b"-5\0".to_vec()),
        (8, 2_u32.to_le_bytes().to_vec()),
        (11, 1234_u64.to_le_bytes().to_vec()),
        (12, shift.bytes),
        (13, guest.bytes),
        (14, tsc.bytes),
    ];
    let mut source = open_bytes(
        Dat {
            options,
            ..Dat::of(vec![page(1000, &[1])])
        }
        .six(),
    )
    .unwrap();
    let about = source.about();
    assert_eq!(about.format, Format::TraceDat { version: 6 });
    assert_eq!(
        (about.release.as_deref(), about.hostname.as_deref()),
        (Some("6.12.1"), Some("box"))
    );
    assert_eq!(
        (about.clock.as_deref(), about.cpus, about.trace_id),
        (Some("x86-tsc"), 2, Some(1234))
    );
    assert_eq!(
        (about.guests[0].name.as_str(), &about.guests[0].vcpus),
        ("victim", &vec![(0, 41), (1, 42)])
    );
    assert_eq!(about.time_shifts[0].cpus, [[(5, -6, 1)]]);
    assert!(about.clock_is_ns && about.kallsyms.as_ref().unwrap().ends_with(b"start\n"));
    // 1010 ticks at half a nanosecond, and 5 ns taken off.
    assert_eq!(source.next().unwrap().unwrap().time_ns, 500);
}

#[test]
fn a_clock_that_counts_no_time_is_told() {
    let options = vec![(4, b"local [counter]\0".to_vec())];
    let source = open_bytes(
        Dat {
            options,
            ..Dat::of(vec![page(0, &[1])])
        }
        .six(),
    )
    .unwrap();
    assert!(!source.about().clock_is_ns);
}

#[test]
fn unknown_events_are_counted_by_their_number() {
    let mut odd = tick(false, 0, 1, 0);
    odd[..2].copy_from_slice(&999_u16.to_le_bytes());
    let page = Page::new(false, 0)
        .event(1, &odd)
        .event(1, &tick(false, 0, 2, 0))
        .event(1, &odd);
    let mut source = open_bytes(Dat::of(vec![page.finish(4096, None)]).six()).unwrap();
    let (count, loss) = drain(source.as_mut());
    assert_eq!((count, loss.unknown_events[&999]), (1, 2));
}

#[test]
fn times_that_go_back_are_counted() {
    let pages = [page(500, &[1]), page(100, &[2])].concat();
    let (count, loss) = drain(open_bytes(Dat::of(vec![pages]).six()).unwrap().as_mut());
    assert_eq!((count, loss.out_of_order), (2, 1));
}
