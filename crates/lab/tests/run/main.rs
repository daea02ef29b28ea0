// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs without an emulator: what a host would send is made up, and sent as an emulator sends it.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod assemble;
mod watch;

use std::collections::BTreeMap;

use steady_agent::channel::Output;
use steady_agent::event::{Event, Fault, FaultKind, Window, WorkloadEnd};
use steady_agent::frame::{Kind, encode};

/// Events as frames.
fn frames(events: &[Event]) -> Vec<u8> {
    events
        .iter()
        .flat_map(|event| encode(Kind::Event, &serde_json::to_vec(event).unwrap()))
        .collect()
}

fn up() -> Event {
    Event::Up {
        release: "6.12.63".to_owned(),
        cpus: 2,
        uptime_ns: 1,
        clocksource: "tsc".to_owned(),
        isa: "vmx".to_owned(),
        parameters: BTreeMap::new(),
        unsettled: Vec::new(),
    }
}

fn done() -> Event {
    Event::Done { at_ns: 2 }
}

fn fault(kind: FaultKind) -> Event {
    Event::Fault(Fault {
        kind,
        vm: Some("a".to_owned()),
        text: "it went wrong".to_owned(),
        console_tail: "one\nkvm_intel: VMX not supported by CPU 0\ntwo\n".to_owned(),
    })
}

fn file(name: &str, bytes: u64) -> Event {
    Event::File {
        name: name.to_owned(),
        bytes,
    }
}

fn end(vm: &str, stdout: &str, window: Option<Window>) -> Event {
    Event::End(Box::new(WorkloadEnd {
        vm: vm.to_owned(),
        index: 0,
        output: output(stdout),
        window,
    }))
}

/// A workload's output; `stdout` as the recorded run of shootdown printed it, if it is empty.
fn output(stdout: &str) -> Output {
    const RECORDED: &str = include_str!("../../../guest-programs/tests/fixtures/shootdown.stdout");
    let stdout = if stdout.is_empty() { RECORDED } else { stdout };
    Output {
        exit_code: Some(0),
        wall_ns: 3_000_000,
        stdout: stdout.to_owned(),
        counters: BTreeMap::from([("irq.TLB".to_owned(), 7)]),
        ..Output::default()
    }
}
