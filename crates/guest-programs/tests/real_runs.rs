// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does each program, run as the table says on this machine, give the report that it should?

mod common;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use steady_guest_programs::{Exit, OWN_DIRECTORY, Output, Program, Setting, find};
use steady_measures::WorkloadReport;

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

/// Prepares, runs and reads one program with the words of `args` on `cpus` CPUs.
fn run(name: &str, args: &str, cpus: u32) -> WorkloadReport {
    let scratch = tempfile::tempdir().expect("a directory");
    run_in(name, args, cpus, scratch.path())
}

/// The same, with its files in a folder of the caller's.
fn run_in(name: &str, args: &str, cpus: u32, scratch: &Path) -> WorkloadReport {
    let args: Vec<String> = args.split_whitespace().map(str::to_owned).collect();
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

/// A measure of the run: its value and its unit.
fn measure(report: &WorkloadReport, name: &str) -> Option<(i64, String)> {
    let found = report.metrics.iter().find(|metric| metric.name == name)?;
    Some((found.value, found.unit.to_string()))
}

/// The run has these measures (`NAME UNIT`, by commas), each above zero, and `time`.
fn has(report: &WorkloadReport, wanted: &str) {
    for wanted in wanted.split(", ").chain(["time ns"]) {
        let (name, unit) = wanted.split_once(' ').expect("a name and a unit");
        let Some((value, found)) = measure(report, name) else {
            panic!("{name} is not among {:?}", report.metrics);
        };
        assert_eq!(found, unit, "{name}");
        assert!(value > 0, "{name} is {value}");
    }
}

/// A test for each program with its arguments: on a number of CPUs it has these measures.
macro_rules! runs {
    ($($test:ident: $name:literal $args:literal on $cpus:literal has $wanted:expr;)*) => {$(
        #[test]
        fn $test() {
            has(&run($name, $args, $cpus), $wanted);
        }
    )*};
}

runs! {
    stress_ng_with_its_defaults: "stress-ng" "" on 1 has
        "stress-ng.tlb-shootdown.operations count, stress-ng.tlb-shootdown.throughput ops/ks, \
         throughput ops/ks";
    jemalloc_with_the_threads_of_one_stressor:
        "jemalloc" "--malloc 1 --malloc-pthreads 2 --malloc-ops 3000" on 2 has
        "stress-ng.malloc.throughput ops/ks";
    hackbench: "hackbench" "" on 2 has "hackbench.time ns";
    // Each yield gives a whole time slice away on a busy machine; 1,000 an event are the default.
    sysbench_threads: "sysbench" "threads --time=0 --events=20 --thread-yields=10 run" on 2 has
        "sysbench.events count, throughput ops/ks";
    sysbench_mutex: "sysbench" "mutex --mutex-num=4 --mutex-locks=2000 --time=0 run" on 2 has
        "sysbench.events count";
    sysbench_memory:
        "sysbench" "memory --memory-total-size=64M --memory-block-size=4K run" on 2 has
        "sysbench.bandwidth bytes/s, throughput ops/ks";
    dbench_with_its_worst_latency: "dbench" "" on 2 has
        "dbench.bandwidth bytes/s, dbench.latency.max ns, dbench.operations count";
    fio_in_both_directions: "fio" "" on 2 has
        "fio.read.throughput ops/ks, fio.read.latency.p99 ns, fio.write.bandwidth bytes/s, \
         throughput ops/ks";
    fio_with_two_jobs_by_their_names:
        "fio" "--name=first --rw=read --size=256k --ioengine=psync \
               --name=second --new_group --rw=write --size=256k --ioengine=psync" on 2 has
        "fio.first.read.throughput ops/ks, fio.second.write.throughput ops/ks";
    vips_filters_the_generated_image: "vips" "input-pixels=64" on 2 has "time ns";
    vips_resizes: "vips" "resize 0.5" on 2 has "time ns";
    shootdown: "shootdown" "--operations 50 --local-operations 10 --pause-us 10" on 2 has
        "shootdown.latency.p99 ns, shootdown.time ns";
    pagecache: "pagecache" "--records 50" on 2 has "throughput ops/ks";
    indexer: "indexer" "--files 8" on 2 has "throughput ops/ks, indexer.file.p99 ns";
    pingpong: "pingpong" "--operations 50" on 2 has "pingpong.round_trip.mean ns";
    spin: "spin" "--seconds 1" on 2 has "spin.operations count";
    dedup: "dedup" "input-kib=256" on 2 has "throughput ops/ks, dedup.release.p99 ns";
}

#[test]
fn stress_ng_with_two_stressors_reports_each() {
    let args = "--futex 1 --futex-ops 500 --mmap 1 --mmap-ops 5 --mmap-bytes 1m";
    let report = run("stress-ng", args, 2);
    has(
        &report,
        "stress-ng.futex.throughput ops/ks, stress-ng.mmap.throughput ops/ks",
    );
    assert!(
        measure(&report, "throughput").is_none(),
        "bogo operations of two kinds do not add up"
    );
}

/// Ends the server of a folder, however the test ends.
struct Server<'a>(&'a Path);

impl Drop for Server<'_> {
    fn drop(&mut self) {
        for name in ["mariadb", "redis", "memcached", "nginx"] {
            if let Ok(pid) = std::fs::read_to_string(self.0.join(name).join("pid")) {
                // The workers of nginx outlive a server that is killed.
                let signal = if name == "nginx" { "-TERM" } else { "-9" };
                let _ = Command::new("kill").args([signal, pid.trim()]).status();
            }
        }
    }
}

#[test]
fn mariadb_answers_as_many_transactions_as_asked_for_and_is_started_again() {
    let scratch = tempfile::tempdir().expect("a directory");
    let _server = Server(scratch.path());
    for events in [40, 20] {
        let args = format!("oltp_read_write --table-size=100 --time=0 --events={events}");
        let report = run_in("mariadb", &args, 2, scratch.path());
        has(&report, "throughput ops/ks, sysbench.latency.p95 ns");
        let done = measure(&report, "sysbench.events").expect("it is counted");
        assert_eq!(done.0, events);
    }
}

#[test]
fn redis_answers_requests_of_each_test_and_is_started_again() {
    let scratch = tempfile::tempdir().expect("a directory");
    let _server = Server(scratch.path());
    for args in ["-t set,get -n 300 -c 4", ""] {
        let report = run_in("redis", args, 2, scratch.path());
        has(
            &report,
            "redis.set.throughput ops/ks, redis.get.latency.p99 ns",
        );
    }
    let one = run_in("redis", "-t mset -n 300 -c 4", 2, scratch.path());
    has(&one, "throughput ops/ks, redis.mset.latency.max ns");
}

#[test]
fn memcached_and_nginx_answer_each_request_and_are_started_again() {
    for (name, runs, wanted) in [
        (
            "memcached",
            [("", 2 * 500), ("-t set -c 3 -e 100", 3 * 100)],
            "throughput ops/ks, memcached.time ns",
        ),
        (
            "nginx",
            [("", 1000), ("-n 70 -c 7", 70)],
            "throughput ops/ks, nginx.latency.min ns, nginx.latency.max ns",
        ),
    ] {
        let scratch = tempfile::tempdir().expect("a directory");
        let _server = Server(scratch.path());
        for (args, operations) in runs {
            let report = run_in(name, args, 2, scratch.path());
            has(&report, wanted);
            let done = measure(&report, &format!("{name}.operations"));
            assert_eq!(done.expect("it is counted").0, operations, "{name} {args}");
        }
    }
}

#[test]
fn counts_and_sizes_are_those_asked_for() {
    // Larger than sysbench's default, which is over before its clock has moved.
    let cpu = "cpu --cpu-max-prime=5000 --time=0 --events=300 --threads=2 run";
    let sysbench = run("sysbench", cpu, 2);
    has(
        &sysbench,
        "sysbench.time ns, throughput ops/ks, sysbench.latency.mean ns, sysbench.latency.p95 ns",
    );
    let pbzip2 = run("pbzip2", "input-kib=300", 2);
    has(&pbzip2, "pbzip2.time ns, pbzip2.bandwidth bytes/s");
    for (report, name, value, unit) in [
        (&sysbench, "sysbench.events", 300, "count"),
        (&run("sysbench", "", 2), "sysbench.events", 200, "count"),
        (&pbzip2, "pbzip2.input", 300 * 1024, "bytes"),
    ] {
        assert_eq!(measure(report, name), Some((value, unit.to_owned())));
    }
}
