// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady doctor`: which commands would work on this machine, and one command that fixes what is
//! missing. It walks the lists that the commands themselves refuse by; what they need is not known
//! here.

use std::cell::OnceCell;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use serde_json::json;
use steady_guest_programs::PROGRAMS;
use steady_hostview::Host;
use steady_lab::engine::{EngineKind, KINDS};
use steady_lab::host::HostKernel;
use steady_lab::{host, race};
use steady_lab_artifacts::kernel::package::{Package, RELEASES};
use steady_lab_artifacts::kernel::port::PORTS;
use steady_lab_artifacts::kernel::{Build, Choice, Flavor, Series};
use steady_lab_artifacts::need::artifacts::{self, Extras};
use steady_lab_artifacts::need::{Fix, Need, State, emulators, fix_of, of, once};
use steady_lab_artifacts::{ArtifactError, Home};
use steady_record::{RecordError, ready};

use crate::arguments::Doctor;
use crate::command::{build, record};

/// Version of the JSON that `--json` prints.
const SCHEMA_VERSION: u32 = 2;
/// Exit code if a command would not work, and if one is not known.
const LACKS: u8 = 3;
const INPUT: u8 = 2;

/// Finds out needs that depend on no tree, and those that do.
type Bare = fn() -> Vec<Need>;
type OfTree = Box<dyn Fn(&Home) -> Vec<Need>>;

/// Finds out what a command needs; of what needs no tree, whether there is one or not.
enum Ask {
    Bare(Bare),
    Tree(OfTree),
    /// What a race needs beyond what every race does.
    Race(Box<dyn Fn() -> Vec<Need>>),
}

/// A command that is known, and how to find out what it needs.
struct Known {
    words: String,
    needs: Ask,
}

/// A command and what it needs.
struct Asked {
    words: String,
    needs: Vec<Need>,
    /// How many of these, the first, are not what every race needs.
    own: usize,
}

impl Asked {
    fn new(words: String, own: Vec<Need>, of_every_race: &[Need]) -> Self {
        let own = once(own);
        Self {
            words,
            own: own.len(),
            needs: once(own.into_iter().chain(of_every_race.iter().cloned())),
        }
    }

    fn lacks(&self) -> Vec<Need> {
        let lacks = self.needs.iter().filter(|need| !need.lets_go_on());
        lacks.cloned().collect()
    }

    /// Whether it is one of another kind of machine, so that nothing must be fixed.
    fn is_elsewhere(&self) -> bool {
        let lacks = self.lacks();
        lacks.iter().any(|need| need.state == State::Elsewhere)
    }
}

/// Examines the machine; exit code 3 if a command would not work.
pub fn doctor(arguments: &Doctor) -> anyhow::Result<ExitCode> {
    let home = match Home::find() {
        Err(error @ ArtifactError::NoProject { .. }) => Err(artifacts::no_tree(&error)),
        found => Ok(found?),
    };
    let known = commands();
    let named = &arguments.commands;
    let unknown = |name: &&String| !known.iter().any(|one| begins(&one.words, name));
    if let Some(name) = named.iter().find(unknown) {
        let names: Vec<&str> = known.iter().map(|one| one.words.as_str()).collect();
        talk!(
            "steady: doctor knows no command `{name}`; expected one of, or the first words of: {}",
            names.join("; ")
        );
        return Ok(ExitCode::from(INPUT));
    }
    let is_asked =
        |one: &Known| named.is_empty() || named.iter().any(|name| begins(&one.words, name));
    let all = asked(&home, known.into_iter().filter(is_asked));
    // A machine of another kind lacks nothing, unless just that was asked for.
    let counts = |one: &&Asked| !named.is_empty() || !one.is_elsewhere();
    let lacks = once(all.iter().filter(counts).flat_map(Asked::lacks));
    if arguments.json {
        print_json(&all, &lacks)?;
    } else {
        print(&all, &lacks)?;
    }
    Ok(ExitCode::from(if lacks.is_empty() { 0 } else { LACKS }))
}

/// What these commands need in this tree, or without one.
fn asked(home: &Result<Home, Need>, known: impl Iterator<Item = Known>) -> Vec<Asked> {
    // As `steady run` without an engine.
    let usual = OnceCell::new();
    let kernel = Choice::default();
    let of_every_race = |home| usual.get_or_init(|| race::engine_needs(home, KINDS[0], &kernel));
    let needs = |one: Known| match (one.needs, home) {
        (Ask::Bare(needs), _) => Asked::new(one.words, needs(), &[]),
        (_, Err(no_tree)) => Asked::new(one.words, vec![no_tree.clone()], &[]),
        (Ask::Tree(needs), Ok(home)) => Asked::new(one.words, needs(home), &[]),
        (Ask::Race(needs), Ok(home)) => Asked::new(one.words, needs(), of_every_race(home)),
    };
    known.map(needs).collect()
}

/// Whether a command is meant by its first words.
fn begins(words: &str, named: &str) -> bool {
    let rest = words.strip_prefix(named);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

/// Commands that need no tree, and what they need.
const ANYWHERE: [(&str, Bare); 4] = [
    ("diagnose", Vec::new),
    ("coherence compare", Vec::new),
    ("diagnose TRACE.zst", || {
        artifacts::temporary().into_iter().collect()
    }),
    ("cache list", || artifacts::cache().into_iter().collect()),
];

/// Every command that needs something, and some that need nothing.
fn commands() -> Vec<Known> {
    let mut all = Vec::new();
    let mut add = |words: &str, needs: Ask| {
        let words = words.to_owned();
        all.push(Known { words, needs });
    };
    for (words, needs) in ANYWHERE.into_iter().chain(RECORDING) {
        add(words, Ask::Bare(needs));
    }
    for kind in KINDS {
        let words = |command| format!("{command} --engine {}", kind.name());
        add(
            &words("run"),
            Ask::Tree(Box::new(move |home| {
                race::engine_needs(home, kind, &Choice::default())
            })),
        );
        let kernel = HostKernel::Patched(Choice::default());
        add(
            &words("host"),
            Ask::Tree(Box::new(move |home| host::needs(home, kind, &kernel))),
        );
        add(
            &words("selftest"),
            Ask::Tree(Box::new(move |home| selftests(home, kind))),
        );
    }
    let packaged = RELEASES
        .iter()
        .map(|one| (one.name, Choice::Packaged(Package::Debian(one))));
    let ported = PORTS
        .iter()
        .map(|port| (port.version, Choice::Ported(port)));
    for (name, kernel) in packaged.chain(ported) {
        let needs = move |home: &Home| race::engine_needs(home, KINDS[0], &kernel);
        add(&format!("run --kernel {name}"), Ask::Tree(Box::new(needs)));
    }
    for (words, extras) in extras() {
        add(
            words,
            Ask::Race(Box::new(move || artifacts::extras(&extras))),
        );
    }
    for program in PROGRAMS.iter().filter(|program| program.package.is_some()) {
        let words = format!("run, program = \"{}\"", program.name);
        add(&words, Ask::Race(Box::new(|| artifacts::workload(program))));
    }
    for (artifact, needs) in build::NEEDS {
        let named = artifact.to_possible_value();
        let name = named.as_ref().map_or("", PossibleValue::get_name);
        let words = format!("build {name}");
        add(
            &words,
            Ask::Tree(Box::new(move |home| needs(home, &[Flavor::Lab]))),
        );
    }
    add("coherence capture", Ask::Tree(Box::new(emulators::capture)));
    add(
        "linux/deb",
        Ask::Tree(Box::new(|_| of(&["deb", "deb-config", "source"]))),
    );
    all
}

fn selftests(home: &Home, kind: EngineKind) -> Vec<Need> {
    let kernels = [Series::Stock, Series::Patched].map(|series| Build {
        series,
        flavor: Flavor::Lab,
    });
    steady_selftest::needs(home, kind, &kernels)
}

/// What some races need beyond their engine.
fn extras() -> [(&'static str, Extras); 4] {
    let none = Extras::default;
    [
        (
            "run --trace",
            Extras {
                trace: true,
                ..none()
            },
        ),
        (
            "run, disk_mib",
            Extras {
                disk: true,
                ..none()
            },
        ),
        (
            "run, vmm = \"qemu\"",
            Extras {
                vmm_qemu: true,
                ..none()
            },
        ),
        (
            "run, bpf",
            Extras {
                bpf: true,
                bpf_build: true,
                ..none()
            },
        ),
    ]
}

/// The ways to record, and what they need.
const RECORDING: [(&str, Bare); 3] = [
    ("record", || vec![recording(false, false)]),
    ("record --until", || vec![recording(false, true)]),
    ("record --guest", || vec![recording(true, false)]),
];

/// What recording this host, or this guest, needs.
fn recording(guest: bool, waits: bool) -> Need {
    let (name, why) = ("tracing", "what happens is recorded through tracefs");
    let tracefs = Path::new(record::TRACING);
    let error = match ready(tracefs, &Host::default().proc, guest, waits) {
        Ok(_) => return Need::met(name, why, record::TRACING),
        Err(error) => error,
    };
    let (state, fix) = match &error {
        RecordError::NoTracefs(place) => {
            let place = place.display();
            let mount = format!("mount -t tracefs tracefs {place}");
            (State::Missing, Fix::AsRoot(mount))
        }
        RecordError::ReadOnly(place) => {
            let remount = format!("mount -o remount,rw {}", place.display());
            (State::Missing, Fix::AsRoot(remount))
        }
        RecordError::Locked(_) => {
            let elsewhere = "record outside of the container, and without a lockdown".to_owned();
            (State::Missing, Fix::Do(elsewhere))
        }
        RecordError::NoRights(_) => (State::Missing, Fix::Do("record as root".to_owned())),
        RecordError::NoWaits(_) => {
            let count = "sysctl kernel.task_delayacct=1".to_owned();
            (State::Missing, Fix::AsRoot(count))
        }
        _ if !guest && !can_virtualize() => {
            let elsewhere = "record on a host that runs guests of KVM".to_owned();
            (State::Elsewhere, Fix::Do(elsewhere))
        }
        RecordError::NoEvents if !guest => (
            State::Missing,
            Fix::AsRoot("modprobe -a kvm_intel kvm_amd".to_owned()),
        ),
        _ => {
            let other = "boot a kernel with tracepoints of TLB flushes (CONFIG_TRACING)".to_owned();
            (State::Elsewhere, Fix::Do(other))
        }
    };
    Need::unmet(name, why, state, format!("cannot be used: {error}"), fix)
}

/// Whether this machine's processors run guests.
fn can_virtualize() -> bool {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut flags = text.split_whitespace();
    flags.any(|flag| matches!(flag, "vmx" | "svm"))
}

fn print(all: &[Asked], lacks: &[Need]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    for one in all {
        // What every race needs is said once, of `run` itself.
        let own = &one.needs[..one.own];
        let lacking = own.iter().filter(|need| !need.lets_go_on());
        let mut lacking: Vec<&str> = lacking.map(|need| need.name.as_str()).collect();
        if one.needs[one.own..].iter().any(|need| !need.lets_go_on()) {
            lacking.push("what run itself lacks");
        }
        let slow = own.iter().filter(|need| need.state == State::Slow);
        let slow: Vec<String> = slow
            .map(|need| format!("{} {}", need.name, need.found))
            .collect();
        let verdict = if one.is_elsewhere() {
            format!("not here: {}", one.lacks()[0].found)
        } else if !lacking.is_empty() {
            format!("NO: lacks {}", lacking.join(", "))
        } else if !slow.is_empty() {
            format!("yes, but {}", slow.join("; "))
        } else {
            "yes".to_owned()
        };
        writeln!(out, "{:31} {verdict}", one.words)?;
    }
    if lacks.is_empty() {
        writeln!(out, "\nnothing is missing")?;
        return Ok(());
    }
    writeln!(out, "\nmissing:")?;
    for need in lacks {
        writeln!(out, "  {} {}: {}", need.name, need.found, need.why)?;
    }
    writeln!(out, "fix: {}", fix_of(lacks))?;
    Ok(())
}

fn print_json(all: &[Asked], lacks: &[Need]) -> anyhow::Result<()> {
    let commands: Vec<serde_json::Value> = all
        .iter()
        .map(|one| {
            json!({
                "command": one.words,
                "works": one.lacks().is_empty(),
                "needs": one.needs,
            })
        })
        .collect();
    let value = json!({
        "schema": "steady.doctor",
        "version": SCHEMA_VERSION,
        "commands": commands,
        "lacks": lacks.iter().map(|need| &need.name).collect::<Vec<_>>(),
        "fix": (!lacks.is_empty()).then(|| fix_of(lacks)),
    });
    writeln!(std::io::stdout().lock(), "{value:#}")?;
    Ok(())
}
