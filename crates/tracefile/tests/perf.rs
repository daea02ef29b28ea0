// SPDX-License-Identifier: Apache-2.0 OR MIT
//! perf.data: what the fixtures do not show, in traces built by hand.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "helpers of tests"
)]

mod common;

use steady_tracefile::{Error, Format};

use common::build::tick;
use common::perf_file::Perf;
use common::{digest, drain, open_bytes};

fn samples(times: &[(u64, u32)]) -> Perf {
    times.iter().fold(Perf::default(), |p, (time, vcpu)| {
        p.sample(7, *time, 5, 0, &tick(false, 7, *vcpu, 0))
    })
}

fn vcpus(bytes: Vec<u8>) -> Vec<u64> {
    let mut source = open_bytes(bytes).unwrap();
    let mut out = Vec::new();
    while let Some(r) = source.next().unwrap() {
        out.push(r.u64_named("vcpu_id").unwrap());
    }
    out
}

#[test]
fn file_and_pipe_mode_give_the_same_samples() {
    let perf = samples(&[(10, 1), (20, 2)])
        .round()
        .sample(7, 30, 5, 1, &tick(false, 7, 3, 0));
    assert_eq!(vcpus(perf.file()), [1, 2, 3]);
    assert_eq!(vcpus(perf.pipe()), [1, 2, 3]);
    let file = open_bytes(perf.file()).unwrap();
    assert_eq!(file.about().format, Format::PerfData { pipe: false });
    assert_eq!(file.about().release.as_deref(), Some("6.12.1"));
}

#[test]
fn samples_of_several_buffers_come_in_the_order_of_time() {
    let perf = samples(&[(10, 1), (30, 3), (20, 2), (25, 4)]).round();
    let perf = Perf {
        records: [perf.records, samples(&[(28, 5), (40, 6)]).round().records].concat(),
    };
    let mut source = open_bytes(perf.pipe()).unwrap();
    let (_, loss) = drain(source.as_mut());
    assert_eq!(vcpus(perf.pipe()), [1, 2, 4, 5, 3, 6]);
    assert_eq!(loss.out_of_order, 0);
}

#[test]
fn compressed_records_may_be_split_anywhere() {
    let perf = samples(&[(10, 1), (20, 2), (30, 3)]);
    for part in 1..40 {
        assert_eq!(
            vcpus(perf.compressed(part).file()),
            [1, 2, 3],
            "parts of {part} bytes"
        );
        assert_eq!(
            vcpus(perf.compressed2(part).pipe()),
            [1, 2, 3],
            "parts of {part} bytes"
        );
    }
}

#[test]
fn threads_have_the_name_of_their_time_and_children_that_of_their_parent() {
    let tick = tick(false, 7, 1, 0);
    let perf = Perf::default()
        .comm(7, "early", 0)
        .sample(7, 10, 5, 0, &tick)
        .comm(7, "late", 20)
        .sample(7, 30, 5, 0, &tick)
        .fork(8, 7, 35)
        .sample(8, 40, 5, 0, &tick)
        .sample(9, 50, 5, 0, &tick)
        .sample(0, 60, 5, 0, &tick);
    let mut source = open_bytes(perf.file()).unwrap();
    let mut names = Vec::new();
    while let Some(r) = source.next().unwrap() {
        names.push(String::from_utf8(r.comm.to_vec()).unwrap());
    }
    assert_eq!(names, ["early", "late", "late", "<...>", "swapper"]);
}

#[test]
fn a_thread_past_its_exit_is_still_known() {
    let perf = Perf::default().sample(-1, 10, 5, 0, &tick(false, 4113, 1, 0));
    assert_eq!(
        open_bytes(perf.pipe())
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .pid,
        4113
    );
}

#[test]
fn lost_records_are_counted_once_though_perf_tells_twice() {
    let lost = |n: u64| [5_u64.to_le_bytes(), n.to_le_bytes()].concat();
    let perf = samples(&[(10, 1)])
        .side(2, &lost(4), 11, 1)
        .side(2, &lost(6), 12, 0)
        .side(13, &10_u64.to_le_bytes(), 13, 0);
    let (_, loss) = drain(open_bytes(perf.file()).unwrap().as_mut());
    assert_eq!(
        (loss.cpus[&1].lost, loss.cpus[&0].lost, loss.lost()),
        (4, 6, 10)
    );
}

#[test]
fn samples_of_counters_are_passed_over_and_counted() {
    let perf = samples(&[(10, 1)]).sample(7, 20, 6, 0, &[]);
    let (count, loss) = drain(open_bytes(perf.file()).unwrap().as_mut());
    assert_eq!((count, loss.other_records, loss.damage_count), (1, 1, 0));
}

#[test]
fn a_recording_that_was_killed_says_that_its_events_are_not_described() {
    let mut bytes = samples(&[(10, 1), (20, 2)]).file();
    // perf fills in the size of the records, and the features behind them, when it ends.
    bytes[48..56].fill(0);
    bytes[72..80].fill(0);
    bytes.truncate(bytes.len() - 900);
    let (count, loss) = drain(open_bytes(bytes).unwrap().as_mut());
    assert_eq!((count, loss.truncated.is_some()), (0, true));
    assert!(
        loss.damage
            .iter()
            .any(|d| d.what.contains("was perf killed?")),
        "{:?}",
        loss.damage
    );
}

/// Where the records of a trace in pipe mode end, its head included: a pipe that ends there is
/// whole as far as its bytes show.
fn ends_of_records(pipe: &[u8]) -> Vec<usize> {
    let mut ends = vec![16];
    while let Some(&at) = ends.last().filter(|&&at| at < pipe.len()) {
        let mut end =
            at + usize::from(u16::from_le_bytes(pipe[at + 6..at + 8].try_into().unwrap()));
        if pipe[at] == 66 {
            // The descriptions of the events stand behind their record.
            let size = u32::from_le_bytes(pipe[at + 8..at + 12].try_into().unwrap());
            end += (size as usize).next_multiple_of(8);
        }
        ends.push(end);
    }
    ends
}

#[test]
fn a_trace_cut_anywhere_gives_an_error_or_a_beginning_of_its_samples() {
    let perf = samples(&[(10, 1), (20, 2), (30, 3)]);
    let packed = perf.compressed(50).pipe();
    for (bytes, ends) in [
        (perf.pipe(), ends_of_records(&perf.pipe())),
        // The head of a file says how long it is.
        (perf.file(), Vec::new()),
        (packed.clone(), ends_of_records(&packed)),
    ] {
        let all = digest(open_bytes(bytes.clone()).unwrap().as_mut());
        for len in 8..bytes.len() {
            let Ok(mut source) = open_bytes(bytes[..len].to_vec()) else {
                continue;
            };
            let some = digest(source.as_mut());
            assert!(all.starts_with(&some), "cut to {len}");
            let loss = source.loss();
            assert!(
                loss.truncated.is_some() || loss.damage_count > 0 || ends.contains(&len),
                "cut to {len}: nothing is said of what is missing"
            );
        }
    }
}

#[test]
fn a_record_that_cannot_be_ends_the_trace_with_its_place() {
    let perf = samples(&[(10, 1)]);
    let mut bytes = perf.pipe();
    let at = bytes.len();
    bytes.extend([9, 0, 0, 0, 0, 0, 3, 0, 1, 2, 3, 4]);
    let (count, loss) = drain(open_bytes(bytes).unwrap().as_mut());
    assert_eq!(count, 1);
    assert_eq!(loss.damage[0].place.to_string(), format!("byte {at}"));
    assert_eq!(
        loss.damage[0].what,
        "a record says that it has 3 bytes; expected 8 or more"
    );
}

#[test]
fn a_trace_of_the_other_byte_order_is_refused_with_a_way_out() {
    let error = open_bytes(b"2ELIFREP\0\0\0\0\0\0\0\x68".to_vec())
        .err()
        .unwrap();
    assert!(
        matches!(error, Error::Unsupported { .. }) && error.to_string().contains("perf script")
    );
}

#[test]
fn memory_for_samples_without_rounds_is_bounded_and_nothing_is_lost() {
    // 60 MB wait for a round that never ends.
    let raw = [tick(false, 7, 1, 0), vec![0; 60_000]].concat();
    let perf = (0..1000_u64).fold(Perf::default(), |p, n| p.sample(7, n, 5, 0, &raw));
    let (count, loss) = drain(open_bytes(perf.pipe()).unwrap().as_mut());
    assert_eq!((count, loss.out_of_order), (1000, 0));
}
