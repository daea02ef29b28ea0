// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Do recorded outputs give exactly the numbers that they show, and damaged ones an error?
//!
//! The files in `fixtures/` are what the programs of Debian 12 printed; the expected numbers were
//! read off them by eye.

use proptest::prelude::*;
use steady_guest_programs::{Exit, Output, PROGRAMS, ParseError, find};
use steady_measures::{Better, WorkloadReport};

const WALL_NS: u64 = 1_234_567_890;

/// Name of the program, its standard output and its standard error.
const RECORDED: &[(&str, &str, &str)] = &[
    ("shootdown", include_str!("fixtures/shootdown.stdout"), ""),
    ("stress-ng", "", include_str!("fixtures/stress-ng.stderr")),
    (
        "stress-ng",
        "",
        include_str!("fixtures/stress-ng-two.stderr"),
    ),
    ("hackbench", include_str!("fixtures/hackbench.stdout"), ""),
    ("sysbench", include_str!("fixtures/sysbench-cpu.stdout"), ""),
    (
        "sysbench",
        include_str!("fixtures/sysbench-memory.stdout"),
        "",
    ),
    (
        "sysbench",
        include_str!("fixtures/sysbench-threads.stdout"),
        "",
    ),
    ("pbzip2", "", include_str!("fixtures/pbzip2.stderr")),
    ("dbench", include_str!("fixtures/dbench.stdout"), ""),
    ("fio", include_str!("fixtures/fio.stdout"), ""),
    ("redis", include_str!("fixtures/redis.stdout"), ""),
    ("memcached", include_str!("fixtures/memcached.stdout"), ""),
    ("nginx", include_str!("fixtures/nginx.stdout"), ""),
];

fn parse(name: &str, stdout: &str, stderr: &str) -> Result<WorkloadReport, ParseError> {
    find(name).expect("a known program").parse(&Output {
        stdout,
        stderr,
        wall_ns: WALL_NS,
        exit: Exit::Code(0),
    })
}

/// `NAME VALUE` of each measure, in the order of the report, without `time`.
fn measures(report: &WorkloadReport) -> Vec<String> {
    let mut all: Vec<String> = report
        .metrics
        .iter()
        .map(|metric| format!("{} {} {}", metric.name, metric.value, metric.unit))
        .collect();
    assert_eq!(
        all.pop().as_deref(),
        Some("time 1234567890 ns"),
        "the wall clock comes last"
    );
    all
}

fn recorded(index: usize) -> Vec<String> {
    let (name, stdout, stderr) = RECORDED[index];
    measures(&parse(name, stdout, stderr).expect(name))
}

#[test]
fn our_own_line_keeps_its_measures_and_histograms() {
    let (name, stdout, stderr) = RECORDED[0];
    let report = parse(name, stdout, stderr).expect(name);
    assert!(measures(&report).contains(&"shootdown.latency.mean 10364 ns".to_owned()));
    assert_eq!(report.distributions[0].count(), 20);
}

#[test]
fn stress_ng_shows_bogo_operations_of_real_time() {
    assert_eq!(
        recorded(1),
        [
            "stress-ng.tlb-shootdown.operations 204 count",
            "stress-ng.tlb-shootdown.throughput 3178980 ops/ks",
            "throughput 3178980 ops/ks",
        ]
    );
    assert_eq!(
        recorded(2),
        [
            "stress-ng.futex.operations 500 count",
            "stress-ng.futex.throughput 9822820 ops/ks",
            "stress-ng.mmap.operations 5 count",
            "stress-ng.mmap.throughput 72210 ops/ks",
        ]
    );
}

#[test]
fn hackbench_shows_its_time() {
    assert_eq!(recorded(3), ["hackbench.time 54000000 ns"]);
}

#[test]
fn sysbench_cpu_shows_the_printed_rate() {
    assert_eq!(
        recorded(4),
        [
            "sysbench.events 300 count",
            "sysbench.time 24300000 ns",
            "throughput 12047570 ops/ks",
            "sysbench.latency.min 80000 ns",
            "sysbench.latency.mean 160000 ns",
            "sysbench.latency.max 4230000 ns",
            "sysbench.latency.p95 80000 ns",
        ]
    );
}

#[test]
fn sysbench_memory_shows_the_bandwidth_in_bytes() {
    let memory = recorded(5);
    assert!(
        memory.contains(&"throughput 3454154970 ops/ks".to_owned()),
        "{memory:?}"
    );
    // 13492.79 MiB/s × 2^20, rounded down.
    assert!(
        memory.contains(&"sysbench.bandwidth 14148215767 bytes/s".to_owned()),
        "{memory:?}"
    );
}

#[test]
fn sysbench_threads_shows_events_over_time() {
    let threads = recorded(6);
    // 20 events in 10.2 ms.
    assert!(
        threads.contains(&"throughput 1960784 ops/ks".to_owned()),
        "{threads:?}"
    );
}

#[test]
fn pbzip2_shows_input_bytes_per_second() {
    assert_eq!(
        recorded(7),
        [
            "pbzip2.input 524288 bytes",
            "pbzip2.time 33614000 ns",
            // 524288 bytes in 33.614 ms, rounded down.
            "pbzip2.bandwidth 15597310 bytes/s",
        ]
    );
}

#[test]
fn dbench_shows_bandwidth_worst_latency_and_the_sum_of_its_table() {
    assert_eq!(
        recorded(8),
        [
            "dbench.bandwidth 655068000 bytes/s",
            "dbench.latency.max 7611000 ns",
            "dbench.operations 290496 count",
        ]
    );
}

#[test]
fn fio_shows_both_directions_and_their_sum() {
    let fio = recorded(9);
    assert_eq!(
        &fio[..7],
        [
            // 496 operations in 25 ms.
            "fio.read.throughput 19840000 ops/ks",
            "fio.read.bandwidth 81264640 bytes/s",
            "fio.read.latency.min 40050 ns",
            "fio.read.latency.p50 42240 ns",
            "fio.read.latency.p90 48896 ns",
            "fio.read.latency.p99 79360 ns",
            "fio.read.latency.max 153724 ns",
        ]
    );
    assert!(
        fio.contains(&"fio.write.bandwidth 86507520 bytes/s".to_owned()),
        "{fio:?}"
    );
    assert_eq!(
        fio.last().map(String::as_str),
        Some("throughput 40960000 ops/ks")
    );
}

#[test]
fn fio_notes_before_the_report_are_passed_over() {
    let (name, stdout, _) = RECORDED[9];
    let noted = format!("note: both iodepth >= 1 and {{sync}} engine are selected\n{stdout}");
    assert_eq!(measures(&parse(name, &noted, "").expect(name)), recorded(9));
}

#[test]
fn stress_ng_is_read_from_standard_output_too() {
    // Later versions print there what this one prints to standard error.
    let (name, _, stderr) = RECORDED[1];
    assert_eq!(measures(&parse(name, stderr, "").expect(name)), recorded(1));
}

#[test]
fn time_is_better_lower_and_throughput_higher() {
    for (name, stdout, stderr) in RECORDED {
        for metric in parse(name, stdout, stderr).expect(name).metrics {
            match metric.name.as_str() {
                "time" => assert_eq!(metric.better, Better::Lower, "{name}"),
                "throughput" => assert_eq!(metric.better, Better::Higher, "{name}"),
                _ => {}
            }
        }
    }
}

#[test]
fn the_output_of_another_program_is_an_error_that_says_what_was_expected() {
    for (index, (name, ..)) in RECORDED.iter().enumerate() {
        for (other, stdout, stderr) in RECORDED.iter().filter(|(other, ..)| other != name) {
            let error = parse(name, stdout, stderr).expect_err(name).to_string();
            assert!(
                error.starts_with(name),
                "{name} given {other} ({index}): {error}"
            );
            assert!(
                error.contains("expected") || error.contains("printed no line like"),
                "{name} given {other}: {error}"
            );
        }
    }
}

#[test]
fn a_number_that_is_none_is_quoted_with_its_line() {
    let error = parse("hackbench", "Time: nan\n", "")
        .expect_err("no number")
        .to_string();
    assert!(
        error.contains("\"Time: nan\"") && error.contains("\"nan\""),
        "{error}"
    );
}

#[test]
fn a_number_at_a_cut_end_is_not_taken_for_whole() {
    let error = parse("hackbench", "Time: 12.0", "").expect_err("perhaps 12.054");
    assert!(matches!(error, ParseError::Missing { .. }), "{error}");
}

#[test]
fn a_failed_program_gives_its_exit_and_last_words_whatever_it_printed() {
    for program in PROGRAMS {
        for exit in [Exit::Code(1), Exit::Signal(9), Exit::TimeLimit] {
            let error = program
                .parse(&Output {
                    stdout: "Time: 0.1\n",
                    stderr: "one\nno space left\n\n",
                    wall_ns: 1,
                    exit,
                })
                .expect_err(program.name);
            let ParseError::Failed {
                exit: found, last, ..
            } = &error
            else {
                panic!("{error}");
            };
            assert_eq!(
                (*found, last.as_str()),
                (exit, "no space left"),
                "{}",
                program.name
            );
        }
    }
}

#[test]
fn the_line_of_another_program_of_ours_is_refused() {
    let (_, line, _) = RECORDED[0];
    let error = parse("pagecache", line, "")
        .expect_err("a line of shootdown")
        .to_string();
    assert!(error.contains("pagecache, not of \"shootdown\""), "{error}");
}

#[test]
fn two_result_lines_are_refused() {
    let (name, line, _) = RECORDED[0];
    let error = parse(name, &line.repeat(2), "")
        .expect_err("two lines")
        .to_string();
    assert!(error.contains("nothing after the result line"), "{error}");
}

#[test]
fn an_fio_job_that_failed_is_an_error() {
    let (name, stdout, _) = RECORDED[9];
    let failed = stdout.replace("\"error\" : 0", "\"error\" : 28");
    let error = parse(name, &failed, "").expect_err("error 28").to_string();
    assert!(error.contains("28") && error.contains("mixed"), "{error}");
}

#[test]
fn dbench_that_did_nothing_is_an_error() {
    let nothing = "Throughput 0 MB/sec  2 clients  2 procs  max_latency=0.000 ms\n";
    let error = parse("dbench", nothing, "").expect_err("no operations");
    assert!(matches!(error, ParseError::Missing { .. }), "{error}");
}

#[test]
fn an_own_line_cut_anywhere_is_an_error() {
    let (name, line, _) = RECORDED[0];
    for end in 0..line.trim_end().len() {
        assert!(
            parse(name, &line[..end], "").is_err(),
            "cut after {end} bytes"
        );
    }
}

/// A report, where there is one, must be sound by the schema's own rules.
fn sound_or_error(name: &str, stdout: &str, stderr: &str) {
    if let Ok(report) = parse(name, stdout, stderr) {
        let read = WorkloadReport::from_line(name, &report.to_line()).expect("a sound report");
        assert_eq!(read, report);
    }
}

#[test]
fn outputs_cut_after_any_character_give_a_sound_report_or_an_error() {
    for (name, stdout, stderr) in RECORDED {
        for end in (0..=stdout.len()).filter(|&end| stdout.is_char_boundary(end)) {
            sound_or_error(name, &stdout[..end], stderr);
        }
        for end in (0..=stderr.len()).filter(|&end| stderr.is_char_boundary(end)) {
            sound_or_error(name, stdout, &stderr[..end]);
        }
    }
}

proptest! {
    #[test]
    fn damaged_outputs_give_a_sound_report_or_an_error(
        which in 0..RECORDED.len(),
        place in any::<prop::sample::Index>(),
        length in 0_usize..40,
        patch in "[ -~\\n\u{e9}]{0,20}",
    ) {
        let (name, stdout, stderr) = RECORDED[which];
        let text = if stdout.is_empty() { stderr } else { stdout };
        let start = text.floor_char(place.index(text.len()));
        let end = text.floor_char((start + length).min(text.len()));
        let damaged = format!("{}{patch}{}", &text[..start], &text[end..]);
        if stdout.is_empty() {
            sound_or_error(name, "", &damaged);
        } else {
            sound_or_error(name, &damaged, "");
        }
    }

    #[test]
    fn arbitrary_text_never_panics(stdout in "\\PC{0,200}", stderr in ".{0,200}", wall_ns in any::<u64>(), code in -1..2) {
        for program in PROGRAMS {
            let exit = Exit::Code(code);
            let _ = program.parse(&Output { stdout: &stdout, stderr: &stderr, wall_ns, exit });
        }
    }
}

trait FloorChar {
    fn floor_char(&self, at: usize) -> usize;
}

impl FloorChar for str {
    /// The last boundary of a character at or before `at`.
    fn floor_char(&self, at: usize) -> usize {
        (0..=at)
            .rev()
            .find(|&at| self.is_char_boundary(at))
            .unwrap_or(0)
    }
}

#[test]
fn what_programs_printed_is_what_they_are_said_to_give() {
    for (name, stdout, stderr) in RECORDED {
        let program = find(name).expect("a known program");
        for metric in parse(name, stdout, stderr).expect("a report").metrics {
            assert!(program.gives(&metric.name), "{name}: {}", metric.name);
        }
        let other = format!("{name}.x.y");
        for wrong in ["thruput", "exits.total", "latency", &other] {
            assert!(!program.gives(wrong), "{name}: {wrong}");
        }
    }
}

/// The literal names in a C file's calls of a function.
fn named<'a>(source: &'a str, function: &str) -> Vec<&'a str> {
    let call = format!("{function}(\"");
    let calls = source.split(&call).skip(1);
    calls.filter_map(|rest| rest.split('"').next()).collect()
}

#[test]
fn our_programs_give_each_measure_that_their_source_reports() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
    let mut found = 0;
    for program in PROGRAMS.iter().filter(|program| program.package.is_none()) {
        let file = folder.join(format!("{}.c", program.name));
        let source = std::fs::read_to_string(file).expect("its source");
        let parts = |name: &str, parts: &[&str]| -> Vec<String> {
            parts.iter().map(|part| format!("{name}.{part}")).collect()
        };
        let mut names: Vec<String> = Vec::new();
        names.extend(
            named(&source, "report_metric")
                .into_iter()
                .map(str::to_owned),
        );
        for name in named(&source, "report_latency") {
            names.extend(parts(name, &["mean", "p99", "max", "count"]));
        }
        for name in named(&source, "report_work") {
            names.extend(parts(name, &["operations", "time"]));
            names.push("throughput".to_owned());
        }
        found += names.len();
        for name in names {
            assert!(program.gives(&name), "{}: {name}", program.name);
        }
    }
    assert!(found > 60, "only {found} measures are named in workloads/");
}
