// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady record`: the commands that record what `steady diagnose` reads, and running them.
//!
//! What is asked for is what this kernel has: tracepoints that are missing and functions that
//! cannot be probed are left out and told.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail};
use steady_diagnose::VmNotes;
use steady_events::probe::{EVENTS, GROUP, GUEST_EVENTS, PROBES, Probe};
use steady_measures::write_atomic;

use crate::arguments::diagnose::{Record, Tool};
use crate::command::beside::{complaints, tables, tables_of};
use crate::command::shell::for_shell;
use crate::command::vms::vms;

const TRACING: &str = "/sys/kernel/tracing";

/// What will be done.
struct Plan {
    probes: Vec<&'static Probe>,
    /// The program and its words.
    command: Vec<String>,
    /// What this kernel does not have.
    left_out: Vec<String>,
}

/// Prints the commands; runs them unless told not to.
pub fn record(arguments: &Record) -> anyhow::Result<ExitCode> {
    let plan = plan(arguments)?;
    let mut out = std::io::stdout();
    for what in &plan.left_out {
        eprintln!("steady: left out: {what}");
    }
    for probe in &plan.probes {
        writeln!(out, "echo '{probe}' >> {TRACING}/kprobe_events")?;
    }
    writeln!(out, "{}", for_shell(&plan.command))?;
    for probe in plan.probes.iter().rev() {
        writeln!(
            out,
            "echo '-:{GROUP}/{}' >> {TRACING}/kprobe_events",
            probe.event
        )?;
    }
    if arguments.dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    let notes = vms(Path::new("/proc"), Path::new("/sys/fs/cgroup"));
    if notes.vms.is_empty() && !arguments.guest {
        eprintln!(
            "steady: no guest runs here (no process has a VM of KVM): unless one starts within {} \
             s, the trace will say nothing",
            arguments.seconds
        );
    }
    let host = || tables(Path::new("/proc"), Path::new("/sys/fs/cgroup"), &notes);
    let before = host();
    let set = Set::new(&plan.probes)?;
    let (program, words) = plan.command.split_first().context("the command is empty")?;
    let status = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("cannot run {program}"))?;
    drop(set);
    if !status.success() {
        bail!("{program} failed: {status}");
    }
    if !arguments.guest {
        note(&arguments.out, &notes)?;
        let text = before + &host() + &complaints();
        write_atomic(&tables_of(&arguments.out), text.as_bytes())?;
    }
    eprintln!("steady: now: steady diagnose {}", arguments.out.display());
    Ok(ExitCode::SUCCESS)
}

/// Writes what is known of the VMs beside the trace.
fn note(trace: &Path, notes: &VmNotes) -> anyhow::Result<()> {
    let path = beside(trace);
    let mut text = serde_json::to_vec_pretty(notes)?;
    text.push(b'\n');
    write_atomic(&path, &text)?;
    let named = notes.vms.iter().filter_map(|vm| vm.name.as_deref());
    let named: Vec<&str> = named.collect();
    eprintln!(
        "steady: {} VMs noted in {}{}{}",
        notes.vms.len(),
        path.display(),
        if named.is_empty() { "" } else { ": " },
        named.join(", ")
    );
    Ok(())
}

/// Where the notes of a trace are.
pub fn beside(trace: &Path) -> PathBuf {
    let mut name = trace.as_os_str().to_owned();
    name.push(".vms");
    PathBuf::from(name)
}

fn plan(arguments: &Record) -> anyhow::Result<Plan> {
    let readable = std::fs::read_dir(format!("{TRACING}/events")).is_ok();
    if !readable && !arguments.dry_run {
        bail!(
            "{TRACING} cannot be read: recording needs root, and tracefs mounted there \
             (mount -t tracefs tracefs {TRACING}); --dry-run prints the commands for elsewhere"
        );
    }
    let wanted: &[&str] = if arguments.guest {
        &GUEST_EVENTS
    } else {
        &EVENTS
    };
    let mut left_out = Vec::new();
    let mut events = Vec::new();
    for event in wanted {
        if !readable
            || Path::new(TRACING)
                .join("events")
                .join(event.replace(':', "/"))
                .is_dir()
        {
            events.push((*event).to_owned());
        } else {
            left_out.push(format!("{event}: this kernel has no such tracepoint"));
        }
    }
    let probes = if arguments.guest {
        Vec::new()
    } else {
        probes(readable, &mut left_out)
    };
    if events.is_empty() {
        bail!(
            "this kernel has none of the tracepoints; are the KVM modules loaded (modprobe kvm)?"
        );
    }
    if !readable {
        left_out.push("nothing: tracefs cannot be read here, so all is asked for".to_owned());
    }
    let command = command(arguments, tool(arguments)?, &events, !probes.is_empty());
    Ok(Plan {
        probes,
        command,
        left_out,
    })
}

/// The probes that this kernel can set.
fn probes(readable: bool, left_out: &mut Vec<String>) -> Vec<&'static Probe> {
    if readable && !Path::new(TRACING).join("kprobe_events").exists() {
        left_out.push(
            "whom KVM boosts: this kernel has no kprobes (CONFIG_KPROBE_EVENTS), and no tracepoint \
             there"
                .to_owned(),
        );
        return Vec::new();
    }
    let functions = std::fs::read_to_string(format!("{TRACING}/available_filter_functions"));
    let has = |function: &str| match &functions {
        Ok(text) => text
            .lines()
            .any(|line| line.split_whitespace().next() == Some(function)),
        Err(_) => true,
    };
    let (probes, without): (Vec<&'static Probe>, Vec<&'static Probe>) =
        PROBES.iter().partition(|probe| has(probe.function));
    for function in without.iter().map(|probe| probe.function) {
        left_out.push(format!(
            "{function}: this kernel has no such function to probe"
        ));
    }
    probes
}

fn tool(arguments: &Record) -> anyhow::Result<Tool> {
    if let Some(tool) = arguments.tool {
        return Ok(tool);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has = |name: &str| std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    match (has("trace-cmd"), has("perf")) {
        (true, true) if !ftrace_obeys() => Ok(Tool::Perf),
        (true, _) => Ok(Tool::TraceCmd),
        (false, true) => Ok(Tool::Perf),
        _ if arguments.dry_run => Ok(Tool::TraceCmd),
        _ => bail!("neither trace-cmd nor perf is installed (apt-get install trace-cmd)"),
    }
}

/// Whether trace-cmd can switch ftrace on, as it does at first: some machines forbid that, and perf
/// still records there. Writes the switch's own value back, so nothing changes.
fn ftrace_obeys() -> bool {
    let path = Path::new("/proc/sys/kernel/ftrace_enabled");
    match std::fs::read(path) {
        Ok(value) => {
            let file = std::fs::OpenOptions::new().write(true).open(path);
            file.and_then(|mut file| file.write_all(&value)).is_ok()
        }
        // Without a look at it, as in a dry run without privilege, it is taken to obey.
        Err(_) => true,
    }
}

fn command(arguments: &Record, tool: Tool, events: &[String], probes: bool) -> Vec<String> {
    let out = arguments.out.display().to_string();
    let seconds = arguments.seconds.to_string();
    let mut words: Vec<String> = match tool {
        Tool::TraceCmd => [
            "trace-cmd",
            "record",
            "-q",
            "-o",
            &out,
            "-b",
            &arguments.buffer_kib.to_string(),
        ]
        .map(str::to_owned)
        .into(),
        // A power of two of pages, as perf wants it.
        Tool::Perf => {
            let pages = (arguments.buffer_kib / 4).next_power_of_two();
            ["perf", "record", "-a", "-o", &out, "-m", &pages.to_string()]
                .map(str::to_owned)
                .into()
        }
    };
    let group = match tool {
        Tool::TraceCmd => GROUP.to_owned(),
        Tool::Perf => format!("{GROUP}:*"),
    };
    for event in events.iter().chain(probes.then_some(&group)) {
        words.extend(["-e".to_owned(), event.clone()]);
    }
    words.extend(["sleep".to_owned(), seconds]);
    words
}

/// Probes that are set, and taken away again when this goes.
struct Set(Vec<&'static Probe>);

impl Set {
    fn new(probes: &[&'static Probe]) -> anyhow::Result<Self> {
        let mut set = Self(Vec::new());
        for probe in probes {
            match write_line(&probe.to_string()) {
                Ok(()) => set.0.push(probe),
                // Of an earlier recording that was killed: the same probe.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => set.0.push(probe),
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot set the probe `{probe}`"));
                }
            }
        }
        Ok(set)
    }
}

impl Drop for Set {
    fn drop(&mut self) {
        for probe in self.0.iter().rev() {
            if let Err(error) = write_line(&format!("-:{GROUP}/{}", probe.event)) {
                eprintln!(
                    "steady: the probe {} could not be taken away: {error}",
                    probe.event
                );
            }
        }
    }
}

fn write_line(line: &str) -> std::io::Result<()> {
    let path = PathBuf::from(TRACING).join("kprobe_events");
    let mut file = std::fs::OpenOptions::new().append(true).open(path)?;
    file.write_all(format!("{line}\n").as_bytes())
}
