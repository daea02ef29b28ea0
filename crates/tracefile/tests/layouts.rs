// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Layouts of text beyond the usual two, packings, folders, and Perfetto's traces: each against the
//! binary trace that the same records are in, or what the kernel's tools printed.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::io::Write;
use std::path::Path;

use steady_tracefile::{Error, Format, Source, open};

use common::build::zip_of;
use common::{Rules, compare, drain, fixture, fixture_bytes, fixture_source, open_bytes};

const EXACT: Rules = Rules {
    step_ns: 1,
    hexadecimal: &[],
    low_half: &[],
    forgets_ended: false,
};

fn unpacked(name: &str) -> Vec<u8> {
    let mut text = Vec::new();
    let packed = fixture_bytes(name);
    let mut decoder = flate2::read::MultiGzDecoder::new(packed.as_slice());
    std::io::Read::read_to_end(&mut decoder, &mut text).unwrap();
    text
}

/// Time, CPU, thread and event of each record, with one field where it is a number.
type Row = (u64, u32, i32, String, Option<u64>);

fn rows(source: &mut dyn Source, field: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    while let Some(r) = source.next().unwrap() {
        let value = r.u64_named(field);
        rows.push((r.time_ns, r.cpu, r.pid, r.event.name.clone(), value));
    }
    rows
}

#[test]
fn a_report_with_the_time_since_the_record_before_is_read() {
    let compared = compare(
        fixture_source("bochs-intel-v6.dat").as_mut(),
        fixture_source("bochs-intel-v6.ts-diff.txt.gz").as_mut(),
        &EXACT,
    );
    let count = |event: &str, field: &str| compared[&(event.to_owned(), field.to_owned())];
    assert_eq!(count("kvm_exit", "guest_rip"), 491);
    assert_eq!(count("sched_switch", "next_pid"), 68);
}

#[test]
fn the_latency_layout_is_read_but_for_the_end_of_names() {
    let mut text = fixture_source("bochs-intel-v6.latency.txt.gz");
    let found = rows(text.as_mut(), "guest_rip");
    let binary = rows(fixture_source("bochs-intel-v6.dat").as_mut(), "guest_rip");
    assert_eq!(found.len(), 2500);
    // The binary `kvm_entry` calls its address otherwise, so it is compared by exits.
    assert_eq!(found, binary);
    assert_eq!(text.loss().unread_lines, 0);
}

#[test]
fn perf_script_without_the_cpu_or_the_name_gives_what_it_still_has() {
    let all = rows(
        fixture_source("perf-file.script.txt.gz").as_mut(),
        "next_pid",
    );
    let mut no_cpu = fixture_source("perf-file.no-cpu.txt.gz");
    assert!(!no_cpu.about().has_cpus);
    let without: Vec<Row> = all
        .iter()
        .cloned()
        .map(|row| (row.0, u32::MAX, row.2, row.3, row.4))
        .collect();
    assert_eq!(rows(no_cpu.as_mut(), "next_pid"), without);
    let mut no_comm = fixture_source("perf-file.no-comm.txt.gz");
    assert_eq!(no_comm.next().unwrap().unwrap().comm, b"<...>");
    assert_eq!(
        rows(
            fixture_source("perf-file.no-comm.txt.gz").as_mut(),
            "next_pid"
        ),
        all
    );
}

#[test]
fn lines_without_a_thread_are_refused_with_the_command_that_prints_it() {
    for line in [
        "[000] 13110.714275: sched:sched_wakeup: comm=a pid=18 prio=0 target_cpu=000\n",
        "13110.714275: sched:sched_wakeup: comm=a pid=18 prio=0 target_cpu=000\n",
        "            perf [000] 13110.714275: sched:sched_wakeup: comm=a pid=18\n",
    ] {
        let error = open_bytes(line.as_bytes().to_vec())
            .err()
            .unwrap()
            .to_string();
        assert!(
            error.contains("perf script -F comm,tid,cpu,time"),
            "{line}: {error}"
        );
    }
    let graph = "# tracer: function_graph\n#\n# CPU  DURATION                  FUNCTION CALLS\n\
                 # |     |   |                     |   |   |   |\n 0)   0.1 us    |  f();\n";
    let error = open_bytes(graph.as_bytes().to_vec())
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("trace-cmd record -e kvm"), "{error}");
}

#[test]
fn perf_trace_is_read_with_the_fields_that_it_leaves_out() {
    let text = unpacked("perf-trace.txt.gz");
    let lines = String::from_utf8(text.clone()).unwrap();
    let mut source = open_bytes(text).unwrap();
    assert_eq!(source.about().format, Format::PerfTrace);
    let mut seen = 0;
    for line in lines.lines() {
        let r = source.next().unwrap().unwrap();
        let (time, rest) = line.trim_start().split_once(' ').unwrap();
        let micros: u64 = time.replace('.', "").parse().unwrap();
        assert_eq!((r.time_ns, r.cpu), (micros * 1000, u32::MAX), "{line}");
        let (task, _) = rest.split_once(" sched:").unwrap();
        let (comm, tid) = task.rsplit_once('/').unwrap();
        assert_eq!(
            (r.comm, r.pid.to_string()),
            (comm.as_bytes(), tid.to_owned()),
            "{line}"
        );
        for field in ["prev_pid", "prev_state", "next_pid", "target_cpu"] {
            let own = if r.event.name == "sched_switch" {
                field != "target_cpu"
            } else {
                field == "target_cpu"
            };
            let printed = line.split_once(&format!("{field}: ")).map(|(_, rest)| {
                let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
                digits.parse::<u64>().unwrap()
            });
            let expected = own.then(|| printed.unwrap_or(0));
            assert_eq!(r.u64_named(field), expected, "{field}: {line}");
        }
        seen += 1;
    }
    assert_eq!((seen, source.next().unwrap().is_none()), (150, true));
}

#[test]
fn an_exit_in_perf_trace_has_its_reason_even_if_it_is_0() {
    let line = "     1.250 CPU 0/KVM/77 kvm:kvm_exit(guest_rip: -2130706432, isa: 1, info1: 2)\n";
    let mut source = open_bytes(line.as_bytes().to_vec()).unwrap();
    let r = source.next().unwrap().unwrap();
    assert_eq!(
        (r.comm, r.pid, r.time_ns),
        (b"CPU 0/KVM".as_slice(), 77, 1_250_000)
    );
    assert_eq!(r.u64_named("exit_reason"), Some(0));
    assert_eq!(r.u64_named("guest_rip"), Some(0xffff_ffff_8100_0000));
}

/// Breaks lines at blanks and quotes them, as mail does.
fn mailed(text: &str, width: usize, mark: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let mut rest = line;
        while rest.len() > width {
            let indent = rest.len() - rest.trim_start().len();
            let at = rest[..width]
                .rfind(' ')
                .filter(|at| *at > indent)
                .unwrap_or(width);
            out += &format!("{mark}{}\n", rest[..at].trim_end());
            rest = rest[at..].trim_start();
        }
        out += &format!("{mark}{rest}\n");
    }
    out
}

#[test]
fn text_that_was_quoted_and_broken_by_mail_is_made_whole() {
    let fixtures = [
        ("bochs-intel-v6.report.txt.gz", "guest_rip"),
        ("perf-file.script.txt.gz", "next_pid"),
    ];
    for (name, field) in fixtures {
        let text = String::from_utf8(unpacked(name)).unwrap();
        let expected = rows(fixture_source(name).as_mut(), field);
        for (width, mark) in [(76, ""), (72, "> "), (200, "> > "), (64, ">> ")] {
            let mut source = open_bytes(mailed(&text, width, mark).into_bytes()).unwrap();
            let found = rows(source.as_mut(), field);
            assert_eq!(found.len(), expected.len(), "{name} at {width} `{mark}`");
            assert!(found == expected, "{name} at {width} `{mark}`");
            assert_eq!(source.loss().unread_lines, 0, "{name} at {width} `{mark}`");
        }
    }
}

#[test]
fn what_is_not_a_line_of_the_trace_is_counted_and_shown() {
    let mut text = "            bash-1 [000] 1.000001: e: a=12\n".to_owned();
    text += &"Nov 22 07:00:00 host kernel: something else altogether\n".repeat(40);
    let mut source = open_bytes(text.into_bytes()).unwrap();
    let (count, loss) = drain(source.as_mut());
    assert_eq!((count, loss.unread_lines, loss.other_records), (1, 40, 0));
    assert_eq!(loss.unread.len(), 3);
    assert_eq!(loss.unread[0].place.to_string(), "line 2");
    assert!(loss.unread[0].what.starts_with("Nov 22") && !loss.is_none());
}

#[test]
fn xz_bzip2_and_zip_are_unpacked_and_a_cut_one_gives_what_unpacks() {
    let dat = fixture_bytes("bochs-intel-v6.dat");
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
    xz.write_all(&dat).unwrap();
    let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    bzip2.write_all(&dat).unwrap();
    let zip = zip_of(&[("trace.dat", &dat)]);
    for packed in [xz.finish().unwrap(), bzip2.finish().unwrap(), zip] {
        let (count, loss) = drain(open_bytes(packed).unwrap().as_mut());
        assert_eq!((count, loss.is_none()), (2500, true));
    }
    let text = unpacked("bochs-intel-v6.report.txt.gz");
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
    xz.write_all(&text).unwrap();
    let mut cut = xz.finish().unwrap();
    cut.truncate(cut.len() / 2);
    let (count, loss) = drain(open_bytes(cut).unwrap().as_mut());
    assert!(count < 2500 && loss.truncated.is_some(), "{count}");
}

#[test]
fn a_packing_that_is_not_read_is_refused_with_the_command_that_unpacks_it() {
    let mut tar = vec![0; 512];
    tar[257..262].copy_from_slice(b"ustar");
    let two = zip_of(&[("a", b"x"), ("b", b"y")]);
    for (bytes, cure) in [
        (b"\x04\x22\x4d\x18rest".to_vec(), "lz4 -d"),
        (b"7z\xbc\xaf\x27\x1crest".to_vec(), "7z x"),
        (tar, "tar xf"),
        (two, "2 files (a, b)"),
    ] {
        let error = open_bytes(bytes).err().unwrap();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains(cure), "{error}");
    }
}

#[test]
fn a_folder_of_perf_record_with_threads_is_as_perf_prints_it() {
    let mut folder = fixture_source("perf-threads.data");
    let compared = compare(
        folder.as_mut(),
        fixture_source("perf-threads.script.txt.gz").as_mut(),
        &EXACT,
    );
    assert!(compared[&("sched_switch".to_owned(), "next_pid".to_owned())] > 100);
    assert!(folder.loss().is_none(), "{:?}", folder.loss());
}

#[test]
fn another_folder_is_refused_with_what_was_expected() {
    let error = open(Path::new(env!("CARGO_MANIFEST_DIR"))).err().unwrap();
    assert!(
        error.to_string().contains("perf record --threads"),
        "{error}"
    );
}

#[test]
fn the_kernels_events_in_a_perfetto_trace_are_those_of_the_trace_it_was_made_from() {
    let mut perfetto = fixture_source("bochs-intel.pftrace.gz");
    assert_eq!(perfetto.about().release.as_deref(), Some("6.12.95"));
    assert_eq!(perfetto.about().cpus, 2);
    for field in [
        "exit_reason",
        "guest_rip",
        "next_pid",
        "prev_pid",
        "vcpu_id",
    ] {
        let mut source = fixture_source("bochs-intel.pftrace.gz");
        let found = rows(source.as_mut(), field);
        let mut binary = rows(fixture_source("bochs-intel-v6.dat").as_mut(), field);
        // The order of records of one time on two CPUs is each reader's own.
        let mut found_sorted = found.clone();
        found_sorted.sort();
        binary.sort();
        assert_eq!(found.len(), 2500);
        assert!(found_sorted == binary, "{field}");
        assert_eq!(source.loss().out_of_order, 0);
    }
    let mut names = 0;
    while let Some(r) = perfetto.next().unwrap() {
        names += u64::from(r.comm.starts_with(b"CPU "));
        if r.event.name == "sched_switch" {
            assert!(
                r.str_named("next_comm")
                    .is_some_and(|name| !name.is_empty())
            );
        }
    }
    assert!(names > 2000, "{names}");
}

#[test]
fn a_cut_perfetto_trace_gives_its_whole_packets() {
    let whole = unpacked("bochs-intel.pftrace.gz");
    let (count, loss) = drain(
        open_bytes(whole[..whole.len() / 2].to_vec())
            .unwrap()
            .as_mut(),
    );
    assert!((500..2000).contains(&count), "{count}");
    assert!(loss.truncated.is_some());
    assert!(fixture("bochs-intel.pftrace.gz").is_file());
}
