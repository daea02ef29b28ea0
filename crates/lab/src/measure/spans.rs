// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When each measured workload of a traced run began and ended, in a file beside the trace.
//!
//! Times are of the host's `CLOCK_MONOTONIC`. The trace's clock is another; [`EVENT`] shows both.
//! Left out: workloads of background VMs, which have no window.

use std::path::Path;

use serde_json::{Value, json};
use steady_agent::event::Event;
use steady_measures::write_atomic;
use steady_scenario::Scenario;

use super::assemble::workload_name;
use crate::engine::watch::Transcript;
use crate::error::RunFault;

/// What is behind the trace's name in that of the file.
pub const BEHIND: &str = ".workloads";
/// What the file is.
pub const SCHEMA: &str = "steady.workloads";
/// Raised when a key goes or changes its meaning.
pub const VERSION: u32 = 1;
/// The tracepoint whose field `now` is the host's `CLOCK_MONOTONIC` for all but few timers
/// (`kernel/time/hrtimer.c`, Linux 6.12).
pub const EVENT: &str = "timer:hrtimer_expire_entry";

/// Writes the file beside the trace of that name.
///
/// # Errors
/// [`RunFault::Files`] if it cannot be written.
pub fn write(
    scenario: &Scenario,
    transcript: &Transcript,
    directory: &Path,
    trace: &str,
) -> Result<(), RunFault> {
    let spans = json!({
        "schema": SCHEMA,
        "version": VERSION,
        "workloads": spans(scenario, transcript),
    });
    let path = directory.join(format!("{trace}{BEHIND}"));
    let text = format!("{spans:#}\n");
    write_atomic(&path, text.as_bytes()).map_err(|error| RunFault::Files(error.to_string()))
}

fn spans(scenario: &Scenario, transcript: &Transcript) -> Vec<Value> {
    let events = || transcript.events.iter().map(|(_, event)| event);
    let begin_ns = |vm: &str, number: u32| {
        events().find_map(|event| match event {
            Event::Begin {
                vm: of,
                index,
                at_ns,
            } if of == vm && *index == number => Some(*at_ns),
            _ => None,
        })
    };
    let ends = events().filter_map(|event| match event {
        Event::End(end) => end.window.as_ref().map(|window| (end, window.length_ns)),
        _ => None,
    });
    ends.filter_map(|(end, length_ns)| {
        let vm = scenario.vms.iter().find(|vm| vm.name == end.vm)?;
        let from_ns = begin_ns(&end.vm, end.index)?;
        Some(json!({
            "vm": end.vm,
            "workload": workload_name(vm, end.index as usize),
            "from_ns": from_ns,
            "to_ns": from_ns + length_ns,
        }))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use steady_agent::channel::Output;
    use steady_agent::event::{Window, WorkloadEnd};

    use super::*;

    const SCENARIO: &str = r#"
schema = 2
name = "pair"
title = "A pair"
question = "How long?"
host = { pcpus = 2, memory_mib = 512 }
variant = [{ name = "stock" }]
[[vm]]
name = "one"
vcpus = 2
memory_mib = 96
workload = [{ program = "ticks" }, { program = "ticks" }]
[[vm]]
name = "beside"
vcpus = 2
memory_mib = 96
background = true
workload = [{ program = "spin" }]
"#;

    fn end(vm: &str, index: u32, length_ns: Option<u64>) -> Event {
        Event::End(Box::new(WorkloadEnd {
            vm: vm.to_owned(),
            index,
            output: Output::default(),
            window: length_ns.map(|length_ns| Window {
                length_ns,
                ..Window::default()
            }),
        }))
    }

    #[test]
    fn a_span_is_of_each_measured_workload_and_as_long_as_its_window() {
        let scenario = Scenario::parse(SCENARIO, "pair.toml").unwrap();
        let begin = |index, at_ns| Event::Begin {
            vm: "one".to_owned(),
            index,
            at_ns,
        };
        let events = [
            begin(0, 5_000),
            end("one", 0, Some(700)),
            begin(1, 9_000),
            end("one", 1, Some(40)),
            end("beside", 0, None),
        ];
        let transcript = Transcript {
            events: events.map(|event| (Duration::ZERO, event)).into(),
            ..Transcript::default()
        };
        let found = spans(&scenario, &transcript);
        let expected = json!([
            { "vm": "one", "workload": "ticks", "from_ns": 5_000, "to_ns": 5_700 },
            { "vm": "one", "workload": "ticks-2", "from_ns": 9_000, "to_ns": 9_040 },
        ]);
        assert_eq!(Value::from(found), expected);
    }
}
