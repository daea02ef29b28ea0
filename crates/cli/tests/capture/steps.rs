// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Are the counts those of a processor? The oracle steps through the same program on the machine
//! itself, by ptrace.

use std::process::Command;
use std::sync::atomic::AtomicBool;

use steady_memtrace::Record;
use steady_memtrace::capture;

use crate::support::{Bench, works};

#[test]
fn captured_counts_are_those_of_stepping_through_the_program() {
    let bench = Bench::new(include_str!("work.c"));
    let (source, stepper) = (bench.path("step.c"), bench.path("step"));
    std::fs::write(&source, include_str!("step.c")).unwrap();
    assert!(works(
        Command::new("cc").arg("-o").arg(&stepper).arg(&source)
    ));
    let output = Command::new(&stepper)
        .arg(bench.path("p"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    // Before the first marker runs the loader, which looks at the processor it is on.
    let stepped: Vec<u64> = text.lines().skip(1).map(|n| n.parse().unwrap()).collect();
    assert_eq!(stepped.len(), 4, "{text}");

    capture::run(&bench.options(&[]), &AtomicBool::new(false)).unwrap();
    let (mut captured, mut sum) = (Vec::new(), 0);
    for record in bench.records() {
        match record {
            Record::Access { instructions, .. } => sum += u64::from(instructions),
            Record::Marker { .. } => captured.push(std::mem::take(&mut sum)),
            Record::Map { .. } => {}
        }
    }
    assert_eq!(captured[1..], stepped);
}
