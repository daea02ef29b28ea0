// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Captures programs compiled here and checks the trace against what each says of itself. Needs a
//! C compiler and a qemu-x86_64 with plugins, which is built where the packaged one has none.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod places;
mod signals;
mod steps;
mod support;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use steady_memtrace::capture::{self, CaptureError, Ending, MARKER_STARTED, Options, Start};
use steady_memtrace::{MapKind, Record, check};

use support::{Bench, works};

/// Stores 1 to 1000 into a page of its own from a second thread, between two markers, then gives
/// the page back, and prints the page's address.
const PROGRAM: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
static volatile unsigned short *page;
static void *work(void *arg)
{
    syscall(0x53544459, 1L, 0L);
    syscall(0x53544459, 0L, 77L);
    for (int i = 0; i < 1000; i++)
        page[i] = (unsigned short)i;
    syscall(0x53544459, 0L, 78L);
    return arg;
}
int main(int argc, char **argv)
{
    pthread_t thread;
    page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_create(&thread, 0, work, 0);
    pthread_join(thread, 0);
    mprotect((void *)page, 4096, PROT_READ);
    munmap((void *)page, 4096);
    FILE *out = fopen(argv[1], "w");
    fprintf(out, "%lu", (unsigned long)page);
    fclose(out);
    for (volatile long spin = 0; argc > 2; spin++);
    return 7;
}
"#;

#[test]
fn a_captured_program_shows_its_stores_markers_and_mappings_in_order() {
    let bench = Bench::new(PROGRAM);
    let mut options = bench.options(&[]);
    options.start = Start::AtMarker;
    let summary = capture::run(&options, &AtomicBool::new(false)).unwrap();
    assert_eq!(
        (summary.ending, summary.unmapped_accesses),
        (Ending::Exited(7), 0)
    );
    let report = check(&options.output).unwrap();
    assert!(report.totals.maps_complete && !report.totals.stopped_early);
    assert_eq!(report.header.command.len(), 2);

    let page = bench.said()[0];
    let records = bench.records();
    let place = |wanted: &dyn Fn(&Record) -> bool| records.iter().position(wanted).unwrap();
    let marker =
        |wanted| place(&|record| matches!(record, Record::Marker { id, .. } if *id == wanted));
    let change = |wanted| {
        place(&|record| {
            matches!(record, Record::Map { start, kind, .. }
                    if *start == page && *kind == wanted)
        })
    };
    let mapped = change(MapKind::Mmap);
    let (begun, first, last) = (marker(MARKER_STARTED), marker(77), marker(78));
    assert!(mapped < begun && begun < first && first < last);
    assert!(last < change(MapKind::Mprotect));
    assert!(change(MapKind::Mprotect) < change(MapKind::Munmap));

    let stores: Vec<u64> = records[first..last]
        .iter()
        .filter_map(|record| match record {
            Record::Access {
                vaddr,
                write: true,
                size: 2,
                ..
            } => Some(vaddr - page),
            _ => None,
        })
        .collect();
    assert_eq!(stores, (0..1000).map(|i| i * 2).collect::<Vec<_>>());
    // The loop needs at least its store, an increment and a jump a turn.
    let instructions: u64 = records[first..last]
        .iter()
        .map(|record| match record {
            Record::Access { instructions, .. } => u64::from(*instructions),
            _ => 0,
        })
        .sum();
    assert!((3000..9000).contains(&instructions), "{instructions}");
}

#[test]
fn a_limit_on_accesses_is_met_exactly_and_ends_the_program() {
    let bench = Bench::new(PROGRAM);
    let mut options = bench.options(&["spin"]);
    options.max_accesses = Some(5000);
    let summary = capture::run(&options, &AtomicBool::new(false)).unwrap();
    assert_eq!(
        (summary.ending, summary.totals.accesses()),
        (Ending::AccessLimit, 5000)
    );
    assert!(check(&options.output).unwrap().totals.stopped_early);
}

#[test]
fn a_time_limit_ends_a_program_that_would_not() {
    let bench = Bench::new(PROGRAM);
    let mut options = bench.options(&["spin"]);
    options.start = Start::AfterInstructions(u64::MAX / 2);
    options.time_limit = Duration::from_millis(500);
    let began = Instant::now();
    let summary = capture::run(&options, &AtomicBool::new(false)).unwrap();
    assert_eq!(
        (summary.ending, summary.totals.accesses()),
        (Ending::TimeLimit, 0)
    );
    assert!(began.elapsed() < Duration::from_secs(20));
    check(&options.output).unwrap();
}

#[test]
fn a_request_to_stop_before_the_program_begins_is_told_as_such_and_leaves_no_trace() {
    let bench = Bench::new(PROGRAM);
    let options = bench.options(&[]);
    let ended = capture::run(&options, &AtomicBool::new(true));
    assert!(matches!(ended, Err(CaptureError::Interrupted)), "{ended:?}");
    assert!(!options.output.exists());
}

#[test]
fn what_is_missing_is_named_with_its_remedy() {
    let options = Options::new(
        vec![OsString::from("true")],
        PathBuf::from("unused.smt"),
        PathBuf::from("no/such/plugin.so"),
    );
    let message = |options: &Options| -> String {
        capture::run(options, &AtomicBool::new(false))
            .unwrap_err()
            .to_string()
    };
    let mut no_qemu = options.clone();
    no_qemu.qemu = PathBuf::from("no-such-qemu");
    assert!(message(&no_qemu).contains("steady build qemu-user"));
    let mut no_command = options.clone();
    no_command.command.clear();
    let error = capture::run(&no_command, &AtomicBool::new(false)).unwrap_err();
    assert!(matches!(error, CaptureError::NoCommand));
    let mut sh_as_qemu = options;
    sh_as_qemu.qemu = PathBuf::from("sh");
    assert!(message(&sh_as_qemu).contains("make -C plugins/qemu-memtrace"));
}

#[test]
fn a_script_is_refused_by_its_first_bytes() {
    let bench = Bench::new(PROGRAM);
    let script = bench.path("script");
    std::fs::write(&script, "#!/bin/sh\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, mode).unwrap();
    let mut options = bench.options(&[]);
    options.command = vec![script.into()];
    let message = capture::run(&options, &AtomicBool::new(false))
        .unwrap_err()
        .to_string();
    assert!(message.contains("not an x86-64 ELF program"), "{message}");
}

#[test]
fn a_program_that_closes_every_descriptor_is_told_from_one_that_replaces_itself() {
    let bench = Bench::new(PROGRAM);
    let run = |body: &str| {
        let source = bench.path("q.c");
        let text = format!("#include <unistd.h>\nint main(void) {{ {body} return 0; }}\n");
        std::fs::write(&source, text).unwrap();
        let program = bench.path("q");
        assert!(works(
            Command::new("cc").arg("-o").arg(&program).arg(&source)
        ));
        let mut options = bench.options(&[]);
        options.command = vec![program.into()];
        capture::run(&options, &AtomicBool::new(false))
    };
    let closes = run("for (int fd = 3; fd < 5000; fd++) close(fd);");
    assert!(
        matches!(closes, Err(CaptureError::StreamLost)),
        "{closes:?}"
    );
    assert!(!bench.path("out.smt").exists());
    let replaced = run("execl(\"/bin/true\", \"true\", (char *)0);").unwrap();
    assert_eq!(replaced.ending, Ending::Replaced);
    let tried = run("execl(\"/no/such\", \"true\", (char *)0);").unwrap();
    assert_eq!(tried.ending, Ending::Exited(0));
    let killed = run("*(volatile char *)0 = 1;").unwrap();
    assert_eq!(killed.ending, Ending::Killed(11));
}
