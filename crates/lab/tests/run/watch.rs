// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How does a run end, and what is said of it? The emulators are `cat`, `sh` and `sleep`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use steady_agent::event::{Event, FaultKind};
use steady_agent::frame::{Kind, encode};
use steady_lab::RunFault;
use steady_lab::engine::receive::Receiver;
use steady_lab::engine::watch::{self, Bounds, Failed, Transcript};
use steady_lab::engine::{EMULATOR_LOG, SERIAL, STREAM, Start};
use steady_lab_artifacts::process::find_program;

use super::{done, fault, file, frames, up};

/// Long enough for every run that ends, however busy the machine.
const NEVER: Duration = Duration::from_secs(600);

/// Bounds that end no run.
const FREE: Bounds<'static> = Bounds {
    limit: NEVER,
    of_cpu_time: false,
    silence: NEVER,
    stop: &|| false,
};

/// Runs `program` in place of an emulator; its output is the stream.
fn run(
    folder: &Path,
    program: &str,
    words: &[&str],
    bounds: Bounds<'_>,
) -> Result<Transcript, Failed> {
    let start = Start {
        program: find_program(program).unwrap(),
        arguments: words.iter().map(ToString::to_string).collect(),
        stdout: STREAM,
        stderr: EMULATOR_LOG,
        ends_with: &[0],
        scratch: Vec::<PathBuf>::new(),
    };
    watch::run(&start, folder, bounds, &|_| {})
}

/// Runs an emulator that sends `stream` and ends without an error.
fn sends(stream: &[u8]) -> Result<Transcript, Failed> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("frames"), stream).unwrap();
    run(folder.path(), "cat", &["frames"], FREE)
}

fn fault_of(ended: Result<Transcript, Failed>) -> RunFault {
    match ended.expect_err("it fails") {
        Failed::Run(fault) => fault,
        Failed::Lab(error) => panic!("{error}"),
    }
}

/// Takes a stream without any process.
fn taken(stream: &[u8]) -> (tempfile::TempDir, Result<Transcript, Failed>) {
    let folder = tempfile::tempdir().unwrap();
    let step = |_: &str| {};
    let mut receiver = Receiver::new(folder.path(), &step);
    let ended = receiver.take(stream);
    let transcript = receiver.transcript;
    (folder, ended.map(|()| transcript))
}

#[test]
fn a_host_that_is_done_has_its_events_in_order() {
    let transcript = sends(&frames(&[up(), done()])).unwrap();
    let events: Vec<&Event> = transcript.events.iter().map(|(_, event)| event).collect();
    assert_eq!(events, [&up(), &done()]);
}

#[test]
fn words_of_the_emulator_between_frames_are_passed_over() {
    let mut stream = b"========= Bochs ========\n".to_vec();
    stream.extend(frames(&[up()]));
    stream.extend(b"(0) Breakpoint\n");
    stream.extend(frames(&[done()]));
    assert_eq!(sends(&stream).unwrap().events.len(), 2);
}

#[test]
fn a_host_that_is_done_with_a_fault_has_failed_by_the_kind_it_told() {
    let found = fault_of(sends(&frames(&[
        up(),
        fault(FaultKind::GuestTripleFault),
        done(),
    ])));
    let RunFault::Inside {
        kind,
        what,
        file,
        tail,
    } = &found
    else {
        panic!("{found}");
    };
    assert_eq!(*kind, FaultKind::GuestTripleFault);
    assert_eq!(what, "VM a: triple fault: it went wrong");
    assert_eq!(file, "a.console.log");
    assert!(tail.ends_with("one\ntwo"), "{tail}");
    assert_eq!(found.lost(), Some("a guest triple-faulted"));
}

#[test]
fn a_vmm_that_the_host_killed_for_want_of_memory_is_told_with_the_way_out() {
    let stream = frames(&[fault(FaultKind::Vmm), done()]);
    let said = |serial: &str| {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("frames"), &stream).unwrap();
        fs::write(folder.path().join("words"), serial).unwrap();
        let emulator = format!("cat words >{SERIAL}; cat frames");
        fault_of(run(folder.path(), "sh", &["-c", &emulator], FREE)).to_string()
    };
    let killed =
        said("[    8.4] Out of memory: Killed process 63 (steady-vmm) total-vm:971152kB\n");
    assert!(killed.contains("raise memory_mib of [host]"), "{killed}");
    let other = said("[    8.4] kvm_amd: CPU 4 isn't AMD or Hygon\n");
    assert!(!other.contains("memory_mib"), "{other}");
}

#[test]
fn of_the_faults_only_a_triple_fault_may_be_the_emulators_loss() {
    for kind in [
        FaultKind::GuestPanic,
        FaultKind::GuestReset,
        FaultKind::GuestSilent,
        FaultKind::Vmm,
        FaultKind::Workload,
        FaultKind::Host,
    ] {
        let found = fault_of(sends(&frames(&[fault(kind), done()])));
        assert_eq!(found.lost(), None, "{found}");
    }
}

#[test]
fn a_truncated_stream_is_told_with_the_last_step_and_what_is_left_of_a_frame() {
    let mut stream = frames(&[up(), done()]);
    stream.truncate(stream.len() - 1);
    let found = fault_of(sends(&stream)).to_string();
    assert!(
        found.contains("ended before the host was done: exit status: 0; ")
            && found.contains(" bytes of an unfinished frame, last step: host up with 2 pCPUs"),
        "{found}"
    );
}

#[test]
fn a_damaged_frame_is_told_with_its_place() {
    let mut stream = frames(&[up(), done()]);
    let first = frames(&[up()]).len();
    stream[first + 13] ^= 1;
    let found = fault_of(sends(&stream)).to_string();
    assert!(
        found.contains(&format!("frame at byte {first}: checksum")),
        "{found}"
    );
}

#[test]
fn an_emulator_that_ends_by_itself_has_lost_its_host_and_one_that_fails_has_not() {
    let folder = tempfile::tempdir().unwrap();
    let end = |code| fault_of(run(folder.path(), "sh", &["-c", code], FREE));
    assert_eq!(end("exit 0").lost(), Some("the host triple-faulted"));
    let failed = end("exit 3");
    assert_eq!(failed.lost(), None);
    assert!(failed.to_string().contains("exit status: 3"), "{failed}");
}

#[test]
fn a_run_beyond_its_limit_is_ended_and_told_its_last_step() {
    let folder = tempfile::tempdir().unwrap();
    let bounds = Bounds {
        limit: Duration::ZERO,
        ..FREE
    };
    let found = fault_of(run(folder.path(), "sleep", &["600"], bounds)).to_string();
    assert!(
        found.contains("no end within 0ns, last step: the emulator was started"),
        "{found}"
    );
}

#[test]
fn a_host_that_gives_no_sign_of_life_while_its_emulator_works_has_stood_still() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("frames"), frames(&[up()])).unwrap();
    let bounds = Bounds {
        silence: Duration::from_millis(100),
        ..FREE
    };
    let works = "cat frames; while :; do :; done";
    let found = fault_of(run(folder.path(), "sh", &["-c", works], bounds));
    assert_eq!(found.lost(), Some("the host stood still"));
    assert!(
        found.to_string().contains("host up with 2 pCPUs"),
        "{found}"
    );
}

#[test]
fn a_host_whose_emulator_sleeps_for_ever_has_stood_still() {
    let folder = tempfile::tempdir().unwrap();
    let bounds = Bounds {
        silence: Duration::from_millis(50),
        ..FREE
    };
    let found = fault_of(run(folder.path(), "sleep", &["600"], bounds));
    assert_eq!(found.lost(), Some("the host stood still"));
}

#[test]
fn a_limit_of_cpu_time_is_not_reached_by_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let bounds = Bounds {
        limit: Duration::from_secs(1),
        of_cpu_time: true,
        ..FREE
    };
    // Waits beyond the limit and ends by itself; the stream is what is missing then.
    let found = fault_of(run(folder.path(), "sleep", &["1.5"], bounds));
    assert!(matches!(found, RunFault::EmulatorEnded { .. }), "{found}");
}

#[test]
fn a_limit_of_cpu_time_ends_an_emulator_that_works_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let bounds = Bounds {
        limit: Duration::from_millis(200),
        of_cpu_time: true,
        ..FREE
    };
    let works = "while :; do :; done";
    let found = fault_of(run(folder.path(), "sh", &["-c", works], bounds));
    let limit = Duration::from_millis(200);
    assert!(
        matches!(found, RunFault::TimeLimit { limit: told, .. } if told == limit),
        "{found}"
    );
}

#[test]
fn an_emulator_that_gets_no_cpu_time_is_ended_at_a_multiple_of_its_limit() {
    let folder = tempfile::tempdir().unwrap();
    let bounds = Bounds {
        limit: Duration::from_millis(50),
        of_cpu_time: true,
        ..FREE
    };
    let found = fault_of(run(folder.path(), "sleep", &["600"], bounds));
    let limit = Duration::from_millis(400);
    assert!(
        matches!(found, RunFault::TimeLimit { limit: told, .. } if told == limit),
        "{found}"
    );
}

#[test]
fn signs_of_life_are_no_part_of_the_transcript() {
    let sign = Event::Alive { at_ns: 5 };
    let transcript = sends(&frames(&[up(), sign, done()])).unwrap();
    assert_eq!(transcript.events.len(), 2);
}

#[test]
fn the_users_wish_ends_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let bounds = Bounds {
        stop: &|| true,
        ..FREE
    };
    let ended = run(folder.path(), "sleep", &["600"], bounds);
    assert!(matches!(
        ended,
        Err(Failed::Lab(steady_lab::LabError::Interrupted))
    ));
}

#[test]
fn a_panic_on_the_serial_line_ends_a_run_with_the_kernels_words() {
    let folder = tempfile::tempdir().unwrap();
    let panics = |words: &str| {
        let script =
            format!("echo '[ 1.0] Kernel panic - not syncing: {words}' > {SERIAL}; sleep 600");
        fault_of(run(folder.path(), "sh", &["-c", &script], FREE))
    };
    let found = panics("No working init found.");
    assert!(
        found
            .to_string()
            .contains("Kernel panic - not syncing: No working init found."),
        "{found}"
    );
    assert_eq!(found.lost(), None);
    let found = panics("Fatal exception in interrupt");
    assert_eq!(found.lost(), Some("the host panicked in an exception"));
}

#[test]
fn a_file_arrives_in_the_folder_of_the_run() {
    let mut stream = frames(&[file("trace.dat", 6)]);
    stream.extend(encode(Kind::File, b"abc"));
    stream.extend(encode(Kind::File, b"def"));
    stream.extend(frames(&[done()]));
    let (folder, taken) = taken(&stream);
    assert_eq!(taken.unwrap().files, ["trace.dat"]);
    assert_eq!(
        fs::read(folder.path().join("trace.dat")).unwrap(),
        b"abcdef"
    );
}

#[test]
fn a_file_that_ends_too_early_or_was_not_announced_is_a_damaged_stream() {
    let early = [
        frames(&[file("a", 2)]),
        encode(Kind::File, b"x"),
        frames(&[done()]),
    ]
    .concat();
    let found = fault_of(taken(&early).1).to_string();
    assert!(found.contains("a file ended 1 bytes too early"), "{found}");
    let more = [frames(&[file("a", 2)]), encode(Kind::File, b"xyz")].concat();
    for stream in [more, encode(Kind::File, b"x")] {
        let found = fault_of(taken(&stream).1).to_string();
        assert!(found.contains("that was not announced"), "{found}");
    }
}

#[test]
fn a_file_whose_name_leads_elsewhere_is_refused() {
    for name in ["../a", "/a", ".hidden", ""] {
        let found = fault_of(taken(&frames(&[file(name, 1)])).1).to_string();
        assert!(
            found.contains("a plain name was expected"),
            "{name}: {found}"
        );
    }
}
