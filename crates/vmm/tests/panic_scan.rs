// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finding the panic line in a console that arrives in pieces.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use proptest::prelude::*;
use steady_vmm::outcome::{Outcome, StopCause, judge};
use steady_vmm::panic_scan::{LINE_MAX, PanicScan};

const CONSOLE: &[u8] = b"[    1.0] booting\r\n[    2.0] Kernel panic - not syncing: Attempted to \
    kill init! exitcode=0x00000300\r\n[    2.1] Kernel Offset: disabled\r\n";
const PANIC: &str =
    "[    2.0] Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000300";

fn scan<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Option<String> {
    let mut scan = PanicScan::default();
    pieces.into_iter().for_each(|piece| scan.feed(piece));
    scan.finish()
}

#[test]
fn the_panic_line_is_found_wherever_the_console_is_cut_in_two() {
    for cut in 0..=CONSOLE.len() {
        let (one, two) = CONSOLE.split_at(cut);
        assert_eq!(scan([one, two]).as_deref(), Some(PANIC), "cut at {cut}");
    }
}

#[test]
fn the_panic_line_is_found_byte_by_byte() {
    assert_eq!(scan(CONSOLE.chunks(1)).as_deref(), Some(PANIC));
}

#[test]
fn a_console_without_a_panic_has_none() {
    assert_eq!(
        scan([&b"all is well\nKernel panic - not sync\ning: split by a line end\n"[..]]),
        None
    );
}

#[test]
fn the_first_of_two_panics_is_kept() {
    let text = b"Kernel panic - not syncing: one\nKernel panic - not syncing: two\n";
    assert_eq!(
        scan([&text[..]]).as_deref(),
        Some("Kernel panic - not syncing: one")
    );
}

#[test]
fn a_panic_line_that_the_reset_cut_off_counts() {
    let text = b"x\nKernel panic - not syncing: Fat";
    assert_eq!(
        scan([&text[..]]).as_deref(),
        Some("Kernel panic - not syncing: Fat")
    );
}

#[test]
fn a_line_without_end_is_kept_only_up_to_the_limit() {
    let mut text = b"Kernel panic - not syncing: ".to_vec();
    text.resize(1 << 20, b'x');
    assert_eq!(scan([&text[..]]).map(|line| line.len()), Some(LINE_MAX));
}

#[test]
fn only_a_reset_with_a_panic_line_is_a_guest_panic() {
    let outcome = |cause, line| judge(&cause, line).0;
    assert_eq!(
        outcome(StopCause::KeyboardReset, Some(PANIC)),
        Outcome::GuestPanic
    );
    assert_eq!(outcome(StopCause::KeyboardReset, None), Outcome::GuestReset);
    assert_eq!(
        outcome(StopCause::TripleFault(1), Some(PANIC)),
        Outcome::TripleFault
    );
    assert_eq!(outcome(StopCause::StopPort, Some(PANIC)), Outcome::Clean);
    assert_eq!(
        outcome(StopCause::Signal("SIGTERM"), Some(PANIC)),
        Outcome::Killed
    );
}

#[test]
fn every_outcome_has_its_documented_exit_code() {
    let codes = [
        (Outcome::Clean, 0, "clean"),
        (Outcome::Error, 1, "error"),
        (Outcome::GuestPanic, 10, "guest-panic"),
        (Outcome::TripleFault, 11, "triple-fault"),
        (Outcome::GuestReset, 12, "guest-reset"),
        (Outcome::KvmError, 13, "kvm-error"),
        (Outcome::Killed, 14, "killed"),
    ];
    for (outcome, code, name) in codes {
        assert_eq!(
            (outcome.exit_code(), outcome.to_string().as_str()),
            (code, name)
        );
    }
}

proptest! {
    #[test]
    fn cuts_change_nothing(
        text in "(Kernel panic - not syncing|[a-z\n]{0,9}){0,12}",
        sizes in prop::collection::vec(1usize..9, 1..60),
    ) {
        let bytes = text.as_bytes();
        let mut pieces = Vec::new();
        let mut rest = bytes;
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, after) = rest.split_at(rest.len().min(*size));
            pieces.push(piece);
            rest = after;
        }
        prop_assert_eq!(scan(pieces), scan([bytes]));
    }
}
