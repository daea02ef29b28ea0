// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When the workloads of a traced run began and ended, by the clock of its trace.
//!
//! The lab notes their times of `CLOCK_MONOTONIC` beside the trace. The two clocks go alike on
//! machines with a constant TSC, and differ in when they began. Left out: a clock that is adjusted.

use std::fmt;
use std::path::Path;

use anyhow::{Context, bail};
use serde::Deserialize;
use steady_lab::measure::spans::{BEHIND, EVENT, SCHEMA, VERSION};

use crate::command::diagnose::beside;

/// When a workload ran, in nanoseconds after the begin of its trace.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Span {
    /// Name of its VM.
    pub vm: String,
    /// Its name in results.
    pub workload: String,
    /// Its begin.
    pub from_ns: u64,
    /// Its end.
    pub to_ns: u64,
}

impl Span {
    /// Whether it is called so: by the workload's name, or the VM's, a dot and the workload's.
    fn is(&self, name: &str) -> bool {
        self.workload == name || self.full_name() == name
    }

    /// The name that no other workload has.
    fn full_name(&self) -> String {
        format!("{}.{}", self.vm, self.workload)
    }
}

/// No workload has the name, or more than one has.
#[derive(Debug)]
pub struct NoWorkload {
    trace: String,
    wanted: String,
    /// Full names of those that have it.
    found: Vec<String>,
    /// Full names of all.
    known: Vec<String>,
}

impl std::error::Error for NoWorkload {}

impl fmt::Display for NoWorkload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trace, wanted, .. } = self;
        if !self.found.is_empty() {
            let names = self.found.join(", ");
            return write!(
                f,
                "{trace}: more than one VM ran `{wanted}`; give one of {names}"
            );
        }
        write!(f, "{trace} was not recorded while `{wanted}` ran; ")?;
        if self.known.is_empty() {
            return f.write_str("no workload is noted beside it, as `steady run --trace` does");
        }
        write!(f, "its workloads: {}", self.known.join(", "))
    }
}

/// When a workload of this name ran, by the trace's clock.
///
/// # Errors
/// As [`of_trace`]; [`NoWorkload`] if none or more than one of this name is noted.
pub fn named(trace: &Path, wanted: &str) -> anyhow::Result<Span> {
    let spans = of_trace(trace)?;
    let found: Vec<&Span> = spans.iter().filter(|span| span.is(wanted)).collect();
    if let [one] = found[..] {
        return Ok(one.clone());
    }
    let error = NoWorkload {
        trace: trace.display().to_string(),
        wanted: wanted.to_owned(),
        found: found.into_iter().map(Span::full_name).collect(),
        known: spans.iter().map(Span::full_name).collect(),
    };
    Err(error.into())
}

#[derive(Debug, Deserialize)]
struct Noted {
    schema: String,
    version: u32,
    workloads: Vec<Span>,
}

/// The spans that were noted beside a trace; none where the file is not there.
///
/// # Errors
/// If the file or the trace cannot be read, or the trace does not show both clocks.
pub fn of_trace(path: &Path) -> anyhow::Result<Vec<Span>> {
    let file = beside(path, BEHIND);
    let text = match std::fs::read(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| file.display().to_string()),
    };
    let noted: Noted = serde_json::from_slice(&text).with_context(|| file.display().to_string())?;
    if noted.schema != SCHEMA || noted.version != VERSION {
        let (schema, version) = (noted.schema, noted.version);
        let file = file.display();
        bail!(
            "{file}: `{schema}` version {version}; expected `{SCHEMA}` version {VERSION}, as this \
             steady writes it: race again, or use the steady that wrote it"
        );
    }
    let began_ns = begin_ns(path)?;
    let moved = noted.workloads.into_iter().map(|span| Span {
        from_ns: span.from_ns.saturating_sub(began_ns),
        to_ns: span.to_ns.saturating_sub(began_ns),
        ..span
    });
    Ok(moved.collect())
}

/// `CLOCK_MONOTONIC` at the first event of a trace, in nanoseconds.
fn begin_ns(path: &Path) -> anyhow::Result<u64> {
    let mut source = steady_tracefile::open(path)?;
    let (_, name) = EVENT.split_once(':').context("an event has a system")?;
    let mut first_ns = None;
    let mut ahead_ns = Vec::new();
    while let Some(record) = source.next()? {
        first_ns.get_or_insert(record.time_ns);
        if record.event.name == name
            && let Some(now_ns) = record.i64_named("now")
        {
            ahead_ns.push(i128::from(record.time_ns) - i128::from(now_ns));
        }
    }
    // Few timers are of another clock, so that the middle one is of this.
    ahead_ns.sort_unstable();
    let ahead_ns = *ahead_ns.get(ahead_ns.len() / 2).with_context(|| {
        format!(
            "{} has no {EVENT}, so its clock is not known",
            path.display()
        )
    })?;
    let begin_ns = i128::from(first_ns.unwrap_or(0)) - ahead_ns;
    u64::try_from(begin_ns).context("the trace began before its host")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Begins at 7 s of its clock, when the host's was 6.7 s; one timer is of the day's time.
    const TRACE: &str = "\
# tracer: nop
     vcpu-70    [000] d..1.     7.000000: kvm_entry: vcpu 0, rip 0xffffffff81000000
      <idle>-0  [000] d.h1.     7.001000: hrtimer_expire_entry: hrtimer=0000000000000001 \
        function=tick_nohz_handler now=6701000000
      <idle>-0  [000] d.h1.     7.002000: hrtimer_expire_entry: hrtimer=0000000000000002 \
        function=hrtimer_wakeup now=1800000000000000000
      <idle>-0  [000] d.h1.     7.005000: hrtimer_expire_entry: hrtimer=0000000000000001 \
        function=tick_nohz_handler now=6705000000
";

    const NOTED: &str = r#"{"schema": "steady.workloads", "version": 1, "workloads": [
        {"vm": "first", "workload": "hackbench", "from_ns": 6800000000, "to_ns": 6900000000}]}"#;

    /// A trace and what is noted beside it, in a folder.
    fn kept(trace: &str, noted: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.txt");
        std::fs::write(&path, trace).unwrap();
        std::fs::write(beside(&path, BEHIND), noted).unwrap();
        (folder, path)
    }

    #[test]
    fn a_workload_is_found_in_the_clock_of_its_trace() {
        let (_folder, path) = kept(TRACE, NOTED);
        let spans = of_trace(&path).unwrap();
        let expected = Span {
            vm: "first".to_owned(),
            workload: "hackbench".to_owned(),
            from_ns: 100_000_000,
            to_ns: 200_000_000,
        };
        assert_eq!(spans, [expected]);
    }

    #[test]
    fn a_trace_without_the_other_clock_is_refused() {
        let only = TRACE.lines().take(2).collect::<Vec<_>>().join("\n");
        let (_folder, path) = kept(&only, NOTED);
        let error = of_trace(&path).unwrap_err().to_string();
        assert!(error.contains("hrtimer_expire_entry"), "{error}");
    }

    #[test]
    fn notes_of_another_version_are_refused() {
        let newer = NOTED.replace("\"version\": 1", "\"version\": 2");
        let (_folder, path) = kept(TRACE, &newer);
        let error = of_trace(&path).unwrap_err().to_string();
        assert!(
            error.contains("expected `steady.workloads` version 1"),
            "{error}"
        );
    }

    #[test]
    fn a_name_that_two_vms_have_needs_the_vms() {
        let own = NOTED.find("        {").unwrap();
        let second = NOTED[own..].replace("first", "second");
        let two = NOTED.replace("}]}", "},\n") + &second;
        let (_folder, path) = kept(TRACE, &two);
        let error = named(&path, "hackbench").unwrap_err().to_string();
        assert!(
            error.ends_with("one of first.hackbench, second.hackbench"),
            "{error}"
        );
        assert_eq!(named(&path, "second.hackbench").unwrap().vm, "second");
    }
}
