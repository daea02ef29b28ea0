// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `setup/sum-tests`: is a line passed on before the next one is there, and is the sum right?

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// A file without tests, one of which a test failed, and words that only look like a sum.
const REST: &str = "\
running 0 tests

test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out

test b::second ... FAILED
test result: of which none passed; none failed; none ignored; for want of numbers
test result: FAILED. 3 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out
test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out
last words";

#[test]
fn a_line_is_passed_on_as_it_comes_and_the_sum_has_all_files() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../setup/sum-tests");
    let mut child = Command::new(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let (send, first) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        send.send(line).unwrap();
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        rest
    });
    input.write_all(b"test a::first ... ok\n").unwrap();
    let line = first.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!(line, "test a::first ... ok\n");
    input.write_all(REST.as_bytes()).unwrap();
    drop(input);
    let rest = reader.join().unwrap();
    assert!(child.wait().unwrap().success());
    assert!(!rest.contains("running 0 tests"), "{rest}");
    let sum = "last words\n\nall tests: 7 passed, 1 failed, 2 ignored, in 2 files\n  b::second\n";
    assert!(rest.ends_with(sum), "{rest}");
}
