// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Text traces: lines that the fixtures do not hold.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::io::Write;

use steady_tracefile::{Error, Format, Gap, Source};

use common::{drain, fixture_bytes, open_bytes};

fn text(lines: &str) -> Box<dyn Source> {
    open_bytes(lines.as_bytes().to_vec()).unwrap_or_else(|e| panic!("{e}"))
}

/// Name, thread, CPU and time of the first record.
fn head(line: &str) -> (String, i32, u32, u64) {
    let mut source = text(&format!("{line}\n"));
    let r = source.next().unwrap().unwrap();
    (
        String::from_utf8(r.comm.to_vec()).unwrap(),
        r.pid,
        r.cpu,
        r.time_ns,
    )
}

/// A field of the first record as text.
fn value(line: &str, field: &str) -> Option<String> {
    let mut source = text(&format!("{line}\n"));
    let r = source.next().unwrap().unwrap();
    r.str_named(field)
        .map(|v| String::from_utf8(v.to_vec()).unwrap())
}

fn number(line: &str, field: &str) -> Option<u64> {
    let mut source = text(&format!("{line}\n"));
    let r = source.next().unwrap().unwrap();
    r.u64_named(field)
}

#[test]
fn flags_are_read_as_letters_and_as_a_number() {
    for (flags, bits) in [
        ("[003]", 0),
        ("[003] dNh2.", 0x2d),
        ("[003]-0x2d", 0x2d),
        ("[003]-0x0", 0),
    ] {
        let line = format!("  a-42 {flags}  12.000345: sched_waking: comm=a pid=1\n");
        let mut source = text(&line);
        let r = source.next().unwrap().unwrap();
        assert_eq!((r.flags, r.cpu), (bits, 3), "{flags}");
    }
}

#[test]
fn names_of_tasks_may_hold_anything() {
    for name in [
        "a-1 [002] b",
        "kworker/0:1-ev",
        "x: y",
        "[001] 1.0: e:",
        "- -",
    ] {
        let ftrace =
            format!("{name:>16}-42      [003] d..2.  12.000345: sched_waking: comm=a pid=1");
        assert_eq!(
            head(&ftrace),
            (name.to_owned(), 42, 3, 12_000_345_000),
            "{name}"
        );
        let perf = format!(
            "{name:>16}    42 [003]    12.000345678:       sched:sched_waking: comm=a pid=1"
        );
        assert_eq!(
            head(&perf),
            (name.to_owned(), 42, 3, 12_000_345_678),
            "{name}"
        );
    }
}

#[test]
fn lines_whose_blanks_were_squeezed_are_read() {
    let expected = ("qemu kvm".to_owned(), 42, 3, 12_000_345_000);
    assert_eq!(
        head("qemu kvm-42 [003] 12.000345: kvm_entry: vcpu 0"),
        expected
    );
    assert_eq!(
        head("qemu kvm 42 [003] 12.000345: kvm:kvm_entry: vcpu 0"),
        expected
    );
    assert_eq!(
        head("qemu kvm 40/42 [003] 12.000345: 1 kvm:kvm_entry: vcpu 0"),
        expected
    );
    assert_eq!(
        head("\tqemu kvm\t42 [003] 12.000345:\tkvm:kvm_entry: vcpu 0"),
        expected
    );
}

#[test]
fn the_process_in_brackets_is_passed_over() {
    let line = "            bash-1977    (   1970) [000] .....  17284.993652: sys_close: x=1";
    assert_eq!(head(line), ("bash".to_owned(), 1977, 0, 17_284_993_652_000));
    let line = "            bash-1977    (-------) [000] .....  17284.993652: sys_close: x=1";
    assert_eq!(head(line).1, 1977);
}

#[test]
fn a_clock_without_a_point_is_no_time() {
    let mut source =
        text("            bash-1977    [000] .....   172849: sched_waking: comm=a pid=1\n");
    assert!(!source.about().clock_is_ns);
    assert_eq!(source.next().unwrap().unwrap().time_ns, 172_849);
}

#[test]
fn names_inside_fields_may_look_like_fields() {
    let line = |comm: &str| {
        format!(
            "            bash-1 [000] 1.000001: sched_switch: prev_comm={comm} prev_pid=7 prev_prio=120 prev_state=R+ ==> next_comm=CPU 0/KVM next_pid=9 next_prio=120"
        )
    };
    for comm in ["a prev_pid=1", "x ==> y", "k=v next_pid=3", "p[1]:2"] {
        assert_eq!(value(&line(comm), "prev_comm").as_deref(), Some(comm));
        assert_eq!(number(&line(comm), "prev_pid"), Some(7), "{comm}");
        assert_eq!(number(&line(comm), "next_pid"), Some(9), "{comm}");
        assert_eq!(
            value(&line(comm), "prev_state").as_deref(),
            Some("R+"),
            "{comm}"
        );
        assert_eq!(
            value(&line(comm), "next_comm").as_deref(),
            Some("CPU 0/KVM"),
            "{comm}"
        );
    }
}

#[test]
fn a_switch_in_the_short_form_is_read_whatever_the_names() {
    let line = |comm: &str| {
        format!(
            "            bash-1 [000] 1.000001: sched_switch:         {comm}:7 [120] S ==> CPU 0/KVM:9 [110]"
        )
    };
    for comm in ["bash", "a:1 [2]", "x ==> y", "b [1] S"] {
        assert_eq!(value(&line(comm), "prev_comm").as_deref(), Some(comm));
        assert_eq!(number(&line(comm), "prev_pid"), Some(7), "{comm}");
        assert_eq!(number(&line(comm), "next_prio"), Some(110), "{comm}");
        assert_eq!(
            value(&line(comm), "prev_state").as_deref(),
            Some("S"),
            "{comm}"
        );
    }
}

#[test]
fn exits_of_old_kernels_and_odd_reasons_are_read() {
    let exit = |text: &str| format!("        qemu-kvm-1 [000] 1.000001: kvm_exit: {text}");
    let old = exit("reason EPT_VIOLATION rip 0xfff0 info 184 1f");
    assert_eq!(value(&old, "exit_reason").as_deref(), Some("EPT_VIOLATION"));
    assert_eq!(
        (number(&old, "info1"), number(&old, "info2")),
        (Some(0x184), Some(0x1f))
    );
    let failed = exit("vcpu 3 reason INVALID_STATE FAILED_VMENTRY rip 0x1 info1 0x0 info2 0x0");
    assert_eq!(
        value(&failed, "exit_reason").as_deref(),
        Some("INVALID_STATE FAILED_VMENTRY")
    );
    assert_eq!(
        (number(&failed, "vcpu_id"), number(&failed, "guest_rip")),
        (Some(3), Some(1))
    );
    let unknown = exit("reason UNKNOWN (96) rip 0x1 info 0 0");
    assert_eq!(number(&unknown, "exit_reason"), Some(96));
}

#[test]
fn entries_with_words_behind_the_address_are_read() {
    let line = "        qemu-kvm-1 [000] 1.000001: kvm_entry: vcpu 2, rip 0xffffffff81000000[immediate exit]";
    assert_eq!(
        (number(line, "vcpu_id"), number(line, "rip")),
        (Some(2), Some(0xffff_ffff_8100_0000))
    );
}

#[test]
fn numbers_are_told_from_names() {
    let line = "            bash-1 [000] 1.000001: e: a=12 b=0x1f c=-3 d=abc e=12abc f=99999999999999999999 g=5 [ns]";
    let mut source = text(&format!("{line}\n"));
    let r = source.next().unwrap().unwrap();
    let numbers = ["a", "b", "d", "e", "f", "g", "h"].map(|name| r.u64_named(name));
    assert_eq!(
        numbers,
        [Some(12), Some(31), None, None, None, Some(5), None]
    );
    assert_eq!(r.i64_named("c"), Some(-3));
    assert_eq!(r.text().map(|t| t.starts_with(b"a=12")), Some(true));
}

#[test]
fn lost_events_are_counted() {
    let lines = "# tracer: nop\n#\n# entries-in-buffer/entries-written: 2/9   #P:4\n#\n\
        CPU:1 [LOST 7 EVENTS]\n            bash-1       [001] .....     1.000001: e: a=1\n\
        CPU:2 [EVENTS DROPPED]\n            bash-1       [001] .....     1.000002: e: a=1\n";
    let mut source = text(lines);
    let (count, loss) = drain(source.as_mut());
    assert_eq!((count, source.about().cpus), (2, 4));
    assert_eq!(
        (loss.cpus[&1].lost, loss.cpus[&2].gaps_unknown, loss.lost()),
        (7, 1, 7)
    );
}

#[test]
fn call_chains_are_passed_over_and_counted() {
    let lines = "            perf  10 [000]     1.000001: sched:sched_waking: comm=a pid=1\n\
        \tffffffff8112 schedule+0x1 ([kernel.kallsyms])\n\tffffffff8113 do_idle+0x1 ([kernel.kallsyms])\n\n\
        \x20           perf  10 [000]     1.000002: sched:sched_waking: comm=a pid=1\n";
    let mut source = text(lines);
    let (count, loss) = drain(source.as_mut());
    assert_eq!(
        (count, loss.other_records, source.about().format),
        (2, 2, Format::PerfScript)
    );
    let event = source.about().event("sched", "sched_waking").unwrap();
    assert!(event.is_text && event.field("anything").is_some());
}

#[test]
fn a_last_line_without_an_end_is_not_trusted() {
    let lines =
        "            bash-1 [000] 1.000001: e: a=12\n            bash-1 [000] 1.000002: e: a=1";
    let (count, loss) = drain(text(lines).as_mut());
    assert_eq!(count, 1);
    assert_eq!(loss.truncated.unwrap().place.to_string(), "line 2");
}

#[test]
fn lines_that_end_as_on_windows_are_read() {
    assert_eq!(
        number("            bash-1 [000] 1.000001: e: a=12\r", "a"),
        Some(12)
    );
}

#[test]
fn a_line_without_end_costs_no_memory() {
    let mut bytes = b"            bash-1 [000] 1.000001: e: a=12\n".to_vec();
    bytes.resize(3 << 20, b'x');
    bytes.extend(b"\n            bash-1 [000] 1.000002: e: a=12\n");
    let (count, loss) = drain(open_bytes(bytes).unwrap().as_mut());
    assert_eq!(
        (count, loss.damage[0].place.to_string()),
        (2, "line 2".into())
    );
}

#[test]
fn a_trace_without_events_is_a_trace() {
    let (count, _) =
        drain(text("# tracer: nop\n#\n# entries-in-buffer/entries-written: 0/0   #P:2\n").as_mut());
    assert_eq!(count, 0);
}

#[test]
fn other_files_are_no_traces() {
    assert!(matches!(
        open_bytes(Vec::new()).err(),
        Some(Error::Empty { .. })
    ));
    for bytes in [
        b"hello\nworld\n".as_slice(),
        b"\x7fELF\x02\x01\x01\0\0\0\0",
        b"\x1f\x8b\x08 nothing",
        b"\n",
    ] {
        let error = open_bytes(bytes.to_vec()).err().expect("no trace");
        assert!(
            matches!(error, Error::Foreign { .. } | Error::Malformed { .. }),
            "{error:?}"
        );
    }
}

#[test]
fn packed_text_is_unpacked_and_twice_packed_is_refused() {
    let plain = b"            bash-1 [000] 1.000001: e: a=12\n".repeat(100);
    let zstd = zstd::stream::encode_all(plain.as_slice(), 1).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(&zstd).unwrap();
    assert_eq!(drain(open_bytes(zstd).unwrap().as_mut()).0, 100);
    assert!(matches!(
        open_bytes(gzip.finish().unwrap()).err(),
        Some(Error::Foreign { .. })
    ));
    let dat = zstd::stream::encode_all(fixture_bytes("bochs-intel-v6.dat").as_slice(), 1).unwrap();
    assert_eq!(drain(open_bytes(dat).unwrap().as_mut()).0, 2500);
}

#[test]
fn a_packed_trace_without_its_end_gives_what_unpacks_and_its_place() {
    let line = |at: u32| format!("            bash-1 [000] 1.{at:06}: other: at={at}\n");
    let text: String = (0..20_000).map(line).collect();
    let zstd = zstd::encode_all(text.as_bytes(), 3).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    for packed in [zstd, gzip.finish().unwrap()] {
        let (whole, loss) = drain(open_bytes(packed.clone()).unwrap().as_mut());
        assert_eq!((whole, loss.is_none()), (20_000, true));
        let cut = packed.len() * 3 / 4;
        let (part, loss) = drain(open_bytes(packed[..cut].to_vec()).unwrap().as_mut());
        assert!((1..20_000).contains(&part), "{part}");
        let place = loss.truncated.unwrap().place;
        assert_eq!(place.to_string(), format!("byte {cut}"));
        assert!(loss.damage[0].what.contains("does not unpack further"));
    }
}

#[test]
fn a_wall_clock_in_front_of_a_line_is_not_part_of_the_tasks_name() {
    let ftrace = "CPU 0/KVM-1001    [002] d..2. 100.000001: kvm_entry: vcpu 0, rip 0x0";
    let perf = "CPU 0/KVM  1001 [002] 100.000001: kvm:kvm_entry: vcpu 0, rip 0x0";
    let prof = "CPU 0/KVM  1001 d... [002] 100.000001: kvm:kvm_entry: vcpu 0, rip 0x0";
    for line in [ftrace, perf, prof] {
        for clock in [
            "2026-11-25 18:04:27.123456 ",
            "2026-11-25T18:04:27.123456+00:00 ",
            "[Wed Nov 25 18:04:27 2026] ",
            "Nov 25 18:04:27 host-7 kernel: ",
            "18:04:27 ",
        ] {
            let found = head(&format!("{clock}       {line}"));
            let expected = ("CPU 0/KVM".to_owned(), 1001, 2, 100_000_001_000);
            assert_eq!(found, expected, "{clock}{line}");
        }
    }
}

#[test]
fn the_process_of_a_thread_is_read_where_a_line_has_it() {
    for (line, process) in [
        (
            "  a-42  (   40) [003] d..2. 1.000000: sched_waking: comm=a pid=1",
            40,
        ),
        (
            "  a-42  (-------) [003] d..2. 1.000000: sched_waking: comm=a pid=1",
            0,
        ),
        (
            "a 40/42 [003] 1.000000: sched:sched_waking: comm=a pid=1",
            40,
        ),
        ("a 42 [003] 1.000000: sched:sched_waking: comm=a pid=1", 0),
    ] {
        let mut source = text(&format!("{line}\n"));
        let r = source.next().unwrap().unwrap();
        assert_eq!((r.pid, r.process), (42, process), "{line}");
    }
}

#[test]
fn a_loss_stands_before_the_next_record_of_its_cpu() {
    let line = |cpu: u32, us: u32| {
        format!("  a-42 [{cpu:03}] d..2. 1.{us:06}: sched_waking: comm=a pid=1\n")
    };
    let text_of = [
        line(0, 1),
        line(1, 2),
        "CPU:1 [LOST 9 EVENTS]\n".to_owned(),
        line(0, 3),
        line(1, 4),
        line(1, 5),
    ];
    let mut source = text(&text_of.concat());
    let mut gaps = Vec::new();
    while let Some(r) = source.next().unwrap() {
        gaps.push((r.cpu, r.gap));
    }
    let expected = [
        (0, Gap::None),
        (1, Gap::None),
        (0, Gap::None),
        (1, Gap::Cpu),
        (1, Gap::None),
    ];
    assert_eq!(gaps, expected);
}
