// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady record`: says what it will cost, and records into one file, or whenever a vCPU waits; or
//! prints the commands that record the same without it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use steady_events::probe::GROUP;
use steady_hostview::Host;
use steady_race::for_shell;
use steady_record::{Condition, Options, PROBED, Plan, Recorder, Shelf, fits, ready};

use crate::arguments::record::{Record, Tool};

/// Where tracefs is.
pub const TRACING: &str = "/sys/kernel/tracing";
const MIB: u64 = 1 << 20;
/// How long it is recorded if nothing else is said, in seconds.
const SECONDS: u64 = 10;

/// Records, or prints how.
pub fn record(arguments: &Record) -> anyhow::Result<ExitCode> {
    let tracefs = Path::new(TRACING);
    if arguments.dry_run {
        let plan = Plan::new(tracefs, arguments.guest)?;
        left_out(&plan.left_out);
        return print(arguments, &plan);
    }
    let host = Host::default();
    let plan = ready(
        tracefs,
        &host.proc,
        arguments.guest,
        arguments.until.is_some(),
    )?;
    let most = arguments.max_mib * MIB;
    let default = match arguments.until {
        Some(_) => "steady-incidents",
        None => "steady-incident.zip",
    };
    let out = arguments
        .out
        .clone()
        .unwrap_or_else(|| PathBuf::from(default));
    if arguments.until.is_none() {
        fits(&out, most)?;
    }
    let seconds = match arguments.until {
        Some(_) => arguments.seconds,
        None => Some(arguments.seconds.unwrap_or(SECONDS)),
    };
    let options = Options {
        tracefs: TRACING.into(),
        host,
        buffer_kib: arguments.buffer_kib,
        vm: arguments.vm.clone(),
        redact: arguments.redact,
        time: seconds.map(Duration::from_secs),
    };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("watch for signals")?;
    }
    let mut recorder = Recorder::new(&options, plan)?;
    left_out(recorder.left_out());
    if recorder.notes().vms.is_empty() && !arguments.guest {
        talk!(
            "steady: no guest runs here (no process has a VM of KVM): unless one starts, there is \
             nothing to say"
        );
    }
    match arguments.until {
        Some(condition) => until(arguments, condition, &mut recorder, &out, &stop),
        None => once(seconds.unwrap_or(SECONDS), most, &mut recorder, &out, &stop),
    }
}

fn left_out(what: &[String]) {
    for what in what {
        talk!("steady: left out: {what}");
    }
}

fn once(
    seconds: u64,
    most: u64,
    recorder: &mut Recorder<'_>,
    out: &Path,
    stop: &AtomicBool,
) -> anyhow::Result<ExitCode> {
    let expected = recorder.estimate.bytes.saturating_mul(seconds);
    talk!(
        "steady: {seconds} s: about {} MiB of trace, at most {}, twice that on disk while it is \
         packed; {} MiB of memory; {}",
        expected / MIB,
        most / MIB,
        recorder.ring_bytes() / MIB,
        recorder.estimate
    );
    let (size, full) = recorder.once(out, most, stop)?;
    if full {
        talk!(
            "steady: stopped early: the trace has reached {} MiB (--max-mib)",
            most / MIB
        );
    }
    talk!(
        "steady: {} VMs, {} KiB; now: steady diagnose {}",
        recorder.notes().vms.len(),
        size / 1024,
        out.display()
    );
    Ok(ExitCode::SUCCESS)
}

fn until(
    arguments: &Record,
    condition: Condition,
    recorder: &mut Recorder<'_>,
    out: &Path,
    stop: &AtomicBool,
) -> anyhow::Result<ExitCode> {
    let most = arguments.max_mib * MIB;
    let shelf = Shelf::new(out, usize::from(arguments.keep), most)?;
    recorder.probe_looks(condition)?;
    let ring = recorder.ring_bytes();
    talk!(
        "steady: keeps about the last {} s in {} MiB of memory; at most {} incidents and {} MiB in \
         {}; {}",
        recorder.estimate.lasts(ring),
        ring / MIB,
        shelf.keep,
        most / MIB,
        out.display(),
        recorder.estimate
    );
    let mut say = |what: &str| talk!("steady: {what}");
    let found = recorder.until(condition, &shelf, stop, &mut say)?;
    talk!(
        "steady: {found} incidents; now: steady diagnose {}/incident-*.zip",
        out.display()
    );
    Ok(ExitCode::SUCCESS)
}

/// The commands that record the same without this program.
fn print(arguments: &Record, plan: &Plan) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout();
    for probe in &plan.events.probes {
        writeln!(out, "echo '{probe}' >> {TRACING}/kprobe_events")?;
    }
    writeln!(out, "{}", for_shell(&command(arguments, plan)))?;
    for probe in plan.events.probes.iter().rev() {
        writeln!(
            out,
            "echo '-:{GROUP}/{}' >> {TRACING}/kprobe_events",
            probe.event
        )?;
    }
    talk!(
        "steady: {} ms of a probe would say what it costs; without --dry-run it is run first",
        PROBED.as_millis()
    );
    Ok(ExitCode::SUCCESS)
}

fn tool(arguments: &Record) -> Tool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has = |name: &str| std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    arguments
        .tool
        .unwrap_or(match (has("trace-cmd"), has("perf")) {
            (false, true) => Tool::Perf,
            _ => Tool::TraceCmd,
        })
}

fn command(arguments: &Record, plan: &Plan) -> Vec<String> {
    let out = arguments
        .out
        .clone()
        .unwrap_or_else(|| "steady-trace.dat".into());
    let out = out.display().to_string();
    let seconds = arguments.seconds.unwrap_or(SECONDS).to_string();
    let kib = arguments.buffer_kib;
    let (begin, group): (Vec<String>, String) = match tool(arguments) {
        Tool::TraceCmd => {
            let words = [
                "trace-cmd",
                "record",
                "-q",
                "-o",
                &out,
                "-b",
                &kib.to_string(),
            ];
            (words.map(str::to_owned).into(), GROUP.to_owned())
        }
        // A power of two of pages, as perf wants it.
        Tool::Perf => {
            let pages = (kib / 4).next_power_of_two().to_string();
            let words = ["perf", "record", "-a", "-o", &out, "-m", &pages];
            (words.map(str::to_owned).into(), format!("{GROUP}:*"))
        }
    };
    let mut words = begin;
    let probes = !plan.events.probes.is_empty();
    for event in plan
        .events
        .tracepoints
        .iter()
        .chain(probes.then_some(&group))
    {
        words.extend(["-e".to_owned(), event.clone()]);
    }
    words.extend(["sleep".to_owned(), seconds]);
    words
}
