// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does each program, run as the table says on this machine, give the report that it should?

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use steady_guest_programs::{Exit, OWN_DIRECTORY, Output, Program, Setting, find};
use steady_measures::{Unit, WorkloadReport};

/// A command of the image, on the machine that runs the tests.
fn host_command(argv: &[String]) -> Command {
    let own = |name: &str| common::own_directory().join(name);
    let program = match argv[0]
        .strip_prefix(OWN_DIRECTORY)
        .map(|name| name.trim_start_matches('/'))
    {
        Some(name) if own(name).exists() => own(name),
        _ => {
            common::require(&argv[0]);
            Path::new(&argv[0]).to_owned()
        }
    };
    // The limit is far above what any of them takes; a hang must not hold the tests up.
    let mut command = Command::new("timeout");
    command
        .arg("60")
        .arg(program)
        .args(&argv[1..])
        .stdin(Stdio::null());
    command
}

/// Prepares, runs and reads one program with `args` on `cpus` CPUs.
fn run(name: &str, args: &[&str], cpus: u32) -> WorkloadReport {
    let scratch = tempfile::tempdir().expect("a directory");
    run_in(name, args, cpus, scratch.path())
}

/// The same, with its files in a folder of the caller's.
fn run_in(name: &str, args: &[&str], cpus: u32, scratch: &Path) -> WorkloadReport {
    let args: Vec<String> = args.iter().map(|&word| word.to_owned()).collect();
    let setting = Setting {
        args: &args,
        cpus,
        seed: 1,
        scratch: scratch.to_str().expect("a UTF-8 path"),
    };
    let program: &Program = find(name).expect("a known program");
    for argv in program.prepare(&setting).expect("sound arguments") {
        let status = host_command(&argv).status().expect("it starts");
        assert!(status.success(), "{argv:?}: {status}");
    }
    let argv = program.command(&setting).expect("sound arguments");
    let start = Instant::now();
    let output = host_command(&argv)
        .envs(program.environment(&setting))
        .current_dir(scratch)
        .output()
        .expect("it starts");
    let wall_ns = u64::try_from(start.elapsed().as_nanos()).expect("a short run");
    let report = program.parse(&Output {
        stdout: &String::from_utf8_lossy(&output.stdout),
        stderr: &String::from_utf8_lossy(&output.stderr),
        wall_ns,
        exit: Exit::Code(output.status.code().expect("an exit code")),
    });
    let report = report.unwrap_or_else(|error| panic!("{argv:?}: {error}"));
    // Whatever a parser makes must be a sound report by the schema's own rules.
    assert_eq!(
        WorkloadReport::from_line("test", &report.to_line()).expect("sound"),
        report
    );
    report
}

fn values(report: &WorkloadReport) -> BTreeMap<&str, (Unit, i64)> {
    report
        .metrics
        .iter()
        .map(|metric| (metric.name.as_str(), (metric.unit, metric.value)))
        .collect()
}

/// The run has these measures, each above zero and in this unit, and `time`.
fn has(report: &WorkloadReport, wanted: &[(&str, Unit)]) {
    let values = values(report);
    for &(name, unit) in wanted.iter().chain(&[("time", Unit::Ns)]) {
        let Some(&(found, value)) = values.get(name) else {
            panic!("{name} is not among {:?}", values.keys());
        };
        assert_eq!(found, unit, "{name}");
        assert!(value > 0, "{name} is {value}");
    }
}

#[test]
fn stress_ng_with_its_defaults_reports_bogo_operations() {
    has(
        &run("stress-ng", &[], 1),
        &[
            ("stress-ng.tlb-shootdown.operations", Unit::Count),
            ("stress-ng.tlb-shootdown.throughput", Unit::OpsPerKs),
            ("throughput", Unit::OpsPerKs),
        ],
    );
}

#[test]
fn stress_ng_with_two_stressors_reports_each() {
    let args = [
        "--futex",
        "1",
        "--futex-ops",
        "500",
        "--mmap",
        "1",
        "--mmap-ops",
        "5",
        "--mmap-bytes",
        "1m",
    ];
    let report = run("stress-ng", &args, 2);
    has(
        &report,
        &[
            ("stress-ng.futex.throughput", Unit::OpsPerKs),
            ("stress-ng.mmap.throughput", Unit::OpsPerKs),
        ],
    );
    assert!(
        !values(&report).contains_key("throughput"),
        "bogo operations of two kinds do not add up"
    );
}

/// Ends the server of a folder, however the test ends.
struct Server<'a>(&'a Path);

impl Drop for Server<'_> {
    fn drop(&mut self) {
        if let Ok(pid) = std::fs::read_to_string(self.0.join("mariadb/pid")) {
            let _ = Command::new("kill").args(["-9", pid.trim()]).status();
        }
    }
}

#[test]
fn mariadb_answers_as_many_transactions_as_asked_for_and_is_started_again() {
    let scratch = tempfile::tempdir().expect("a directory");
    let _server = Server(scratch.path());
    for events in ["40", "20"] {
        let events_word = format!("--events={events}");
        let args = [
            "oltp_read_write",
            "--table-size=100",
            "--time=0",
            &events_word,
        ];
        let report = run_in("mariadb", &args, 2, scratch.path());
        has(
            &report,
            &[
                ("throughput", Unit::OpsPerKs),
                ("sysbench.latency.p95", Unit::Ns),
            ],
        );
        let done = values(&report)["sysbench.events"].1;
        assert_eq!(done.to_string(), events);
    }
}

#[test]
fn jemalloc_runs_the_threads_of_one_stressor() {
    let args = [
        "--malloc",
        "1",
        "--malloc-pthreads",
        "2",
        "--malloc-ops",
        "3000",
    ];
    has(
        &run("jemalloc", &args, 2),
        &[("stress-ng.malloc.throughput", Unit::OpsPerKs)],
    );
}

#[test]
fn hackbench_reports_its_time() {
    has(&run("hackbench", &[], 2), &[("hackbench.time", Unit::Ns)]);
}

#[test]
fn sysbench_cpu_reports_events_and_latency() {
    // Larger than the default, which is over before sysbench's clock has moved.
    let args = [
        "cpu",
        "--cpu-max-prime=5000",
        "--time=0",
        "--events=300",
        "--threads=2",
        "run",
    ];
    let report = run("sysbench", &args, 2);
    has(
        &report,
        &[
            ("sysbench.time", Unit::Ns),
            ("throughput", Unit::OpsPerKs),
            ("sysbench.latency.mean", Unit::Ns),
            ("sysbench.latency.p95", Unit::Ns),
        ],
    );
    assert_eq!(values(&report)["sysbench.events"], (Unit::Count, 300));
}

#[test]
fn sysbench_threads_and_mutex_and_memory_are_read_too() {
    // Each yield gives a whole time slice away on a busy machine; 1,000 an event are the default.
    let threads = [
        "threads",
        "--time=0",
        "--events=20",
        "--thread-yields=10",
        "run",
    ];
    has(
        &run("sysbench", &threads, 2),
        &[
            ("sysbench.events", Unit::Count),
            ("throughput", Unit::OpsPerKs),
        ],
    );
    let mutex = [
        "mutex",
        "--mutex-num=4",
        "--mutex-locks=2000",
        "--time=0",
        "run",
    ];
    has(
        &run("sysbench", &mutex, 2),
        &[("sysbench.events", Unit::Count)],
    );
    let memory = [
        "memory",
        "--memory-total-size=64M",
        "--memory-block-size=4K",
        "run",
    ];
    has(
        &run("sysbench", &memory, 2),
        &[
            ("sysbench.bandwidth", Unit::BytesPerSecond),
            ("throughput", Unit::OpsPerKs),
        ],
    );
}

#[test]
fn sysbench_defaults_are_read_though_they_are_short_here() {
    assert_eq!(
        values(&run("sysbench", &[], 2))["sysbench.events"],
        (Unit::Count, 200)
    );
}

#[test]
fn pbzip2_reports_the_bandwidth_of_its_generated_input() {
    let report = run("pbzip2", &["input-kib=300"], 2);
    has(
        &report,
        &[
            ("pbzip2.time", Unit::Ns),
            ("pbzip2.bandwidth", Unit::BytesPerSecond),
        ],
    );
    assert_eq!(values(&report)["pbzip2.input"], (Unit::Bytes, 300 * 1024));
}

#[test]
fn dbench_reports_bandwidth_and_worst_latency() {
    has(
        &run("dbench", &[], 2),
        &[
            ("dbench.bandwidth", Unit::BytesPerSecond),
            ("dbench.latency.max", Unit::Ns),
            ("dbench.operations", Unit::Count),
        ],
    );
}

#[test]
fn fio_reports_both_directions() {
    has(
        &run("fio", &[], 2),
        &[
            ("fio.read.throughput", Unit::OpsPerKs),
            ("fio.read.latency.p99", Unit::Ns),
            ("fio.write.bandwidth", Unit::BytesPerSecond),
            ("throughput", Unit::OpsPerKs),
        ],
    );
}

#[test]
fn fio_with_two_jobs_reports_each_by_its_name() {
    let args = [
        "--name=first",
        "--rw=read",
        "--size=256k",
        "--ioengine=psync",
        "--name=second",
        "--new_group",
        "--rw=write",
        "--size=256k",
        "--ioengine=psync",
    ];
    has(
        &run("fio", &args, 2),
        &[
            ("fio.first.read.throughput", Unit::OpsPerKs),
            ("fio.second.write.throughput", Unit::OpsPerKs),
        ],
    );
}

#[test]
fn vips_filters_the_generated_image() {
    has(&run("vips", &["input-pixels=64"], 2), &[]);
    has(&run("vips", &["resize", "0.5"], 2), &[]);
}

#[test]
fn our_own_programs_report_with_small_sizes() {
    let shootdown = [
        "--operations",
        "50",
        "--local-operations",
        "10",
        "--pause-us",
        "10",
    ];
    has(
        &run("shootdown", &shootdown, 2),
        &[
            ("shootdown.latency.p99", Unit::Ns),
            ("shootdown.time", Unit::Ns),
        ],
    );
    has(
        &run("pagecache", &["--records", "50"], 2),
        &[("throughput", Unit::OpsPerKs)],
    );
    has(
        &run("indexer", &["--files", "8"], 2),
        &[
            ("throughput", Unit::OpsPerKs),
            ("indexer.file.p99", Unit::Ns),
        ],
    );
    has(
        &run("pingpong", &["--operations", "50"], 2),
        &[("pingpong.round_trip.mean", Unit::Ns)],
    );
    has(
        &run("spin", &["--seconds", "1"], 2),
        &[("spin.operations", Unit::Count)],
    );
    has(
        &run("dedup", &["input-kib=256"], 2),
        &[
            ("throughput", Unit::OpsPerKs),
            ("dedup.release.p99", Unit::Ns),
        ],
    );
}
