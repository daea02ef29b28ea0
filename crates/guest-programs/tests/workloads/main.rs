// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Do the C programs of `workloads/` do and say what their first comment promises?

#[path = "../common/mod.rs"]
mod common;
mod dedup;
mod indexer;
mod make_input;
mod shootdown;
mod ticks;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use steady_measures::{Histogram, WorkloadReport};

const PROGRAMS: [&str; 12] = [
    "shootdown",
    "pagecache",
    "indexer",
    "pingpong",
    "spin",
    "staleness",
    "ticks",
    "hotplug",
    "frames",
    "dedup",
    "hostload",
    "make-input",
];

/// The words of a command line.
fn words(text: &str) -> Vec<&str> {
    text.split(' ').collect()
}

fn command(name: &str, args: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command
        .arg("60")
        .arg(common::own_program(name))
        .args(args)
        .stdin(Stdio::null());
    command
}

fn output(name: &str, args: &[&str]) -> Output {
    command(name, args).output().expect("timeout runs")
}

fn run(name: &str, args: &[&str]) -> WorkloadReport {
    let output = output(name, args);
    assert!(
        output.status.success(),
        "{name} {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    line(name, &output)
}

/// The one line on standard output.
fn line(name: &str, output: &Output) -> WorkloadReport {
    let text = std::str::from_utf8(&output.stdout).expect("UTF-8");
    assert_eq!(text.matches('\n').count(), 1, "{text:?}");
    WorkloadReport::from_line(name, text).expect("a sound report")
}

fn values(report: &WorkloadReport) -> BTreeMap<&str, i64> {
    report
        .metrics
        .iter()
        .map(|metric| (metric.name.as_str(), metric.value))
        .collect()
}

/// Exit code 2 and one line that has these words.
fn refused(name: &str, args: &[&str], words: &[&str]) {
    let output = output(name, args);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{name} {args:?}: {text}");
    assert!(
        output.stdout.is_empty(),
        "{name} {args:?} printed to standard output"
    );
    assert_eq!(text.lines().count(), 1, "{text}");
    for word in words.iter().chain(&[name]) {
        assert!(
            text.contains(word),
            "{name} {args:?}: {text:?} lacks {word:?}"
        );
    }
}

fn cpus() -> usize {
    std::thread::available_parallelism()
        .expect("a number of CPUs")
        .get()
}

fn needs_two_cpus() {
    assert!(
        cpus() >= 2,
        "this test needs 2 CPUs; this machine offers {}",
        cpus()
    );
}

#[test]
fn a_histogram_holds_every_operation() {
    needs_two_cpus();
    let small = words("--operations 123 --local-operations 45 --pause-us 5");
    let shootdown = run("shootdown", &small);
    let counts: Vec<u64> = shootdown
        .distributions
        .iter()
        .map(|found| found.count())
        .collect();
    assert_eq!(counts, [123, 45]);
    assert_eq!(values(&shootdown)["shootdown.operations"], 123);
    let pingpong = run("pingpong", &["--operations", "77", "--pairs", "3"]);
    assert_eq!(pingpong.distributions[0].count(), 3 * 77);
    // A number of records that the threads cannot share evenly.
    let pagecache = run("pagecache", &["--records", "101", "--threads", "4"]);
    assert_eq!(pagecache.distributions[0].count(), 101);
}

#[test]
fn a_ball_that_is_held_is_back_no_sooner() {
    let args = ["--operations", "50", "--hold-us", "300"];
    let held = values(&run("pingpong", &args))["pingpong.round_trip.p50"];
    // The histogram's buckets are by a sixteenth.
    assert!(held >= 300_000 * 15 / 16, "{held} ns");
}

#[test]
fn printed_statistics_are_those_of_the_printed_histogram() {
    let report = run("pagecache", &["--records", "300"]);
    let values = values(&report);
    for metric in report.distributions[0].summary().expect("it fits") {
        // The count has another name in the line.
        let printed = values.get(metric.name.as_str());
        assert!(
            metric.name.ends_with(".count") || printed == Some(&metric.value),
            "{metric:?}"
        );
    }
}

#[test]
fn histograms_have_the_layout_of_the_recorder_in_rust() {
    let report = run("pagecache", &["--records", "300"]);
    for bucket in report.distributions[0].buckets() {
        let mut recorder = Histogram::new();
        recorder.record(bucket.0);
        recorder.record(bucket.1);
        let distribution = recorder
            .distribution("test", steady_measures::Unit::Ns)
            .expect("it fits");
        let [same] = distribution.buckets() else {
            panic!("{bucket:?} spans two buckets of the recorder");
        };
        assert_eq!((same.0, same.1), (bucket.0, bucket.1));
    }
}

#[test]
fn the_time_stamp_counter_runs_at_the_rate_of_the_clock() {
    needs_two_cpus();
    // Pauses end by the chosen clock, and the whole is timed by the monotonic one. The seed makes
    // the pauses the same; they are long, so that other programs' time slices weigh little.
    let time_ns = |clock: &str| {
        let args = "--operations 4 --warmup 0 --local-operations 0 --pause-us 150000 --clock";
        let words = [words(args), vec![clock]].concat();
        values(&run("shootdown", &words))["shootdown.time"]
    };
    // A busy machine adds to each of the two, so the least that was seen is distinguished; a wrong
    // rate is wrong every time.
    let mut least = [i64::MAX; 2];
    for _ in 0..8 {
        least = [
            least[0].min(time_ns("monotonic")),
            least[1].min(time_ns("tsc")),
        ];
        let [monotonic, tsc] = least;
        if tsc * 10 > monotonic * 7 && monotonic * 10 > tsc * 7 {
            return;
        }
    }
    panic!("the same pauses took {least:?} ns at least by the clock and by the counter");
}

#[test]
fn bad_options_are_refused_in_one_clear_line() {
    let too_many = cpus().to_string();
    refused(
        "shootdown",
        &["--targets", "0"],
        &["--targets", "'0'", "from 1 to"],
    );
    refused(
        "shootdown",
        &["--targets", &too_many],
        &["--targets", "at most"],
    );
    refused(
        "shootdown",
        &["--method", "mremap"],
        &["'mremap'", "mprotect, madvise, munmap"],
    );
    refused("pagecache", &["--records=1e3"], &["--records", "'1e3'"]);
    refused("pagecache", &["--directory="], &["--directory", "empty"]);
    refused("pingpong", &["--pairs", "-1"], &["--pairs", "'-1'"]);
    refused("spin", &["--threads"], &["--threads", "missing"]);
    // It takes no CPU of this machine away.
    refused("hotplug", &["--rounds", "1"], &["--cpu", "not 0"]);
    refused("make-input", &["--kind", "zip"], &["'zip'", "text, image"]);
    for name in PROGRAMS {
        refused(
            name,
            &["--no-such-option"],
            &["'--no-such-option'", "--help"],
        );
        refused(name, &["stray"], &["'stray'", "--help"]);
    }
}

#[test]
fn one_cpu_is_too_few_for_programs_of_two_sides() {
    for name in ["shootdown", "pingpong"] {
        let output = Command::new("taskset")
            .args(["-c", "0"])
            .arg(common::own_program(name))
            .output()
            .expect("taskset runs: apt-get install util-linux");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains("needs 2 CPUs"), "{text}");
    }
}

#[test]
fn staleness_finds_nothing_on_a_sound_machine_and_says_how_much_it_saw() {
    for kind in ["protect", "unmap", "move", "remap", "discard"] {
        let args = ["--operations", "40", "--kind", kind, "--revokers", "2"];
        let report = run("staleness", &args);
        let values = values(&report);
        assert_eq!(values["staleness.violations"], 0, "{kind}");
        assert_eq!(values[format!("staleness.{kind}").as_str()], 40);
        assert!(values["staleness.live"] > 0, "{kind}: no writer wrote");
    }
}

#[test]
fn staleness_sees_a_planted_violation_of_every_kind() {
    for kind in ["protect", "unmap", "move", "remap", "discard"] {
        let args = ["--operations", "40", "--kind", kind, "--plant", "yes"];
        let output = output("staleness", &args);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{kind}: {text}");
        assert!(text.contains("violation: "), "{kind}: {text}");
        let report = line("staleness", &output);
        assert!(values(&report)["staleness.violations"] > 0, "{kind}");
    }
}

/// Frame numbers are shown to root alone.
fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

#[test]
fn frames_accounts_for_every_page_that_it_looked_at() {
    if !is_root() {
        let output = output("frames", &["--region-mib", "1", "--lives", "1"]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("as root"), "{text}");
        return;
    }
    let report = run("frames", &["--region-mib", "2", "--lives", "6"]);
    let values = values(&report);
    for when in ["fresh", "worked"] {
        let value = |what: &str| values[format!("frames.{when}.{what}").as_str()];
        let runs = |order: u32| value(&format!("of_{}", 1 << order));
        assert_eq!(value("pages"), 512);
        assert_eq!((0..10).map(runs).sum::<i64>(), value("runs"));
        let least: i64 = (0..10).map(|order| runs(order) << order).sum();
        assert!(least <= 512, "runs of as many pages do not fit: {values:?}");
        // Eight neighbours need one line of entries, or up to one each.
        assert!((64..=512).contains(&value("lines")), "{values:?}");
    }
}

#[test]
fn help_has_every_option_and_an_example_that_works() {
    for name in PROGRAMS {
        let output = output(name, &["--help"]);
        assert!(output.status.success(), "{name}");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        let example = text.split_once("Example:\n").expect("an example").1;
        let example: Vec<&str> = example
            .lines()
            .next()
            .expect("a line")
            .split_whitespace()
            .collect();
        assert_eq!(example[0], name);
        for option in example.iter().filter(|word| word.starts_with("--")) {
            assert!(
                text.contains(&format!("  {option} ")),
                "{name} --help lacks {option}"
            );
        }
        // Two are about files, which the example only names; one takes a CPU of whoever runs it.
        let not_here = ["make-input", "dedup", "hotplug"];
        if !not_here.contains(&name) && (name != "frames" || is_root()) {
            run(name, &example[1..]);
        }
    }
}

#[test]
fn a_time_limit_ends_each_program_and_is_reported() {
    needs_two_cpus();
    let endless: [(&str, &[&str]); 8] = [
        ("shootdown", &["--operations", "100000000"]),
        ("indexer", &["--files", "3000", "--file-kib", "64"]),
        ("pagecache", &["--records", "1000000000"]),
        (
            "pingpong",
            &["--operations", "100000000", "--method", "futex"],
        ),
        (
            "pingpong",
            &["--operations", "100000000", "--method", "pipe"],
        ),
        (
            "pingpong",
            &["--operations", "100000000", "--method", "eventfd"],
        ),
        ("spin", &[]),
        ("staleness", &["--operations", "100000000"]),
    ];
    for (name, args) in endless {
        let start = Instant::now();
        let mut all = args.to_vec();
        // Threads that are not ready to start within the limit are an error, not its end.
        all.extend(["--time-limit-ms", "500"]);
        let report = run(name, &all);
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "{name} took {:?}",
            start.elapsed()
        );
        assert_eq!(values(&report)["timed_out"], 1, "{name} {args:?}");
    }
    let in_time = run("spin", &["--seconds", "1"]);
    assert_eq!(
        values(&in_time)["timed_out"],
        0,
        "--seconds does not limit time"
    );
}

/// State and user time in ticks of 10 ms, all threads together, of a process that was not waited
/// for.
fn state_and_ticks(process: u32) -> (char, u64) {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("it runs");
    // Behind the name, which ends with a parenthesis: the state is the 1st field, user time the
    // 12th.
    let fields = stat.rsplit_once(')').expect("a name").1;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let state = fields[0].chars().next().expect("a letter");
    (state, fields[11].parse().expect("a number"))
}

/// Waits until `wanted` says yes to a process's state and ticks; the ticks then.
fn wait_until(process: u32, what: &str, wanted: impl Fn(char, u64) -> bool) -> u64 {
    let limit = Instant::now() + Duration::from_secs(30);
    while Instant::now() < limit {
        let (state, ticks) = state_and_ticks(process);
        if wanted(state, ticks) {
            return ticks;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{what} did not come within 30 s");
}

#[test]
fn spin_stops_within_a_second_of_its_cpu_time_after_a_signal_and_prints_its_line() {
    let second = 100 * u64::try_from(cpus()).expect("a small number");
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        // The limit ends it should this test fail before it sends the signal.
        let child: Child = Command::new(common::own_program("spin"))
            .args(["--time-limit-ms", "60000"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("spin starts");
        // Every thread is well under way then.
        let sent = wait_until(child.id(), "a tenth of a second of work", |_, ticks| {
            ticks >= 10
        });
        let process = Pid::from_raw(i32::try_from(child.id()).expect("a process number"));
        kill(process, signal).expect("it runs");
        let ended = wait_until(child.id(), "the end after a signal", |state, _| {
            state == 'Z'
        });
        let output = child.wait_with_output().expect("spin ends");
        // Its own time, not the clock's: other programs may hold it up.
        assert!(ended - sent < second, "{signal}: {} ticks", ended - sent);
        assert!(output.status.success(), "{signal}: {}", output.status);
        let report = line("spin", &output);
        let values = values(&report);
        assert!(
            values["spin.operations"] > 0 && values["timed_out"] == 0,
            "{values:?}"
        );
    }
}

#[test]
fn pagecache_faults_pages_of_the_file_and_of_the_copy() {
    let faults = |memory: &str| {
        let args = [
            "--records",
            "200",
            "--threads",
            "1",
            "--chunk-kib",
            "64",
            "--memory",
            memory,
        ];
        values(&run("pagecache", &args))["pagecache.minor_faults"]
    };
    // The copy alone has 16 pages, each touched for the first time in every record.
    assert!(faults("mmap") >= 200 * 16);
    // Mapping the chunk adds at least one fault a record (the kernel maps pages around it).
    assert!(faults("file") >= 200 * 17);
    assert!(faults("heap") < 200 * 16, "the heap is reused");
}

#[test]
fn a_full_standard_output_is_an_error() {
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .expect("/dev/full");
    let status = command("pagecache", &["--records", "1"])
        .stdout(full)
        .status()
        .expect("it runs");
    assert_eq!(status.code(), Some(1));
}

#[test]
fn two_builds_give_the_same_bytes() {
    let built = common::own_directory();
    let again = tempfile::tempdir().expect("a directory");
    let status = Command::new("make")
        .args([
            "-s",
            "-C",
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads"),
        ])
        .arg(format!("OUT={}", again.path().join("elsewhere").display()))
        .status()
        .expect("make runs");
    assert!(status.success());
    for name in PROGRAMS {
        let read = |path: std::path::PathBuf| fs::read(path).expect(name);
        assert!(
            read(built.join(name)) == read(again.path().join("elsewhere").join(name)),
            "{name}"
        );
    }
}
