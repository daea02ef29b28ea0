// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a simulation runs on: a generated workload, or a captured trace.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use steady_coherence::captured::Captured;
use steady_coherence::config::{MachineConfig, preset_names};
use steady_coherence::filler::Filler;
use steady_coherence::host;
use steady_coherence::record::{Copies, Record, Recorded, Resident, Source};
use steady_coherence::workload::{
    CALIBRATED_RATE, Generator, GeneratorOptions, TABLE_3, Workload, find,
};
use steady_coherence::{Error, Options, Registry};
use steady_memtrace::{Origin, Reader, TraceError};
use steady_race::Watcher;
use steady_race::for_shell;

use super::host::sha256;
use crate::arguments::coherence::Input as Given;
use crate::progress::Show;

/// Accesses of a workload that none are given for.
const ACCESSES: u64 = 4_000_000;
/// Longest machine file read, bytes.
const MACHINE_LIMIT: u64 = 1 << 20;

/// Records to simulate, with what a result says of them.
pub struct Input {
    /// The records.
    pub source: Box<dyn Source>,
    /// Name of the result and of its folder.
    pub name: String,
    /// Where the records come from, in a sentence for the report.
    pub origin: String,
    /// What is the same in every capture of one program.
    pub program: String,
    /// Accesses to simulate.
    pub accesses: u64,
    /// Options of the simulation.
    pub options: Options,
    /// The digest of a trace; what is generated follows from the options.
    pub digest: Option<String>,
}

/// Reads the machine: a preset's name or a file.
pub fn machine(given: &Path) -> anyhow::Result<MachineConfig> {
    let (text, origin) = machine_text(given)?;
    Ok(Registry::shipped().load(&text, &origin)?)
}

/// The text of a machine, and its name for errors.
pub fn machine_text(given: &Path) -> Result<(String, String), Error> {
    let known = preset_names();
    if let Some(preset) = known.iter().find(|name| given == Path::new(name)) {
        return Ok((format!("preset = \"{preset}\""), (*preset).to_owned()));
    }
    let origin = given.display().to_string();
    let text = read_limited(given).map_err(|error| {
        let names = known.join(", ");
        Error::Config(format!(
            "cannot read machine {origin}: {error}; expected a TOML file or one of: {names}"
        ))
    })?;
    Ok((text, origin))
}

/// A text file, unless it is larger than any machine.
fn read_limited(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let read = File::open(path)?
        .take(MACHINE_LIMIT + 1)
        .read_to_string(&mut text)?;
    if read as u64 > MACHINE_LIMIT {
        let what = format!("it is larger than {MACHINE_LIMIT} bytes, which no machine is");
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, what));
    }
    Ok(text)
}

/// Opens what was named.
pub fn open(arguments: &Given, machine: &MachineConfig) -> anyhow::Result<Input> {
    let name = arguments.source.to_string_lossy();
    let known = TABLE_3.iter().any(|workload| workload.name == name);
    if known {
        return Ok(generated(arguments, find(&name)?, machine)?);
    }
    if arguments.source.exists() || name.contains(['/', '.']) {
        return captured(arguments);
    }
    match find(&name) {
        Ok(workload) => Ok(generated(arguments, workload, machine)?),
        Err(error) => {
            Err(Error::Config(format!("{error} There is no trace of that name either.")).into())
        }
    }
}

fn options(arguments: &Given, accesses: u64) -> Options {
    Options {
        seed: arguments.seed,
        check: arguments.check,
        warmup: arguments.warmup.unwrap_or(accesses / 4),
        ..Options::default()
    }
}

fn generated(
    arguments: &Given,
    workload: Workload,
    machine: &MachineConfig,
) -> Result<Input, Error> {
    let accesses = arguments.accesses.unwrap_or(ACCESSES);
    let vms = arguments.vms.unwrap_or(1);
    let rate = arguments.rate.unwrap_or(CALIBRATED_RATE);
    let generator = Generator::new(
        workload,
        &GeneratorOptions {
            seed: arguments.seed,
            sweep_rate: rate,
            vms,
            accesses,
            dram_percent: machine.hybrid.dram_percent,
        },
    )?;
    Ok(Input {
        source: Box::new(generator),
        name: format!("tlb-{}", workload.name),
        program: workload.name.to_owned(),
        origin: format!(
            "Accesses generated in place of {}'s {}: {} threads, {} MiB, {vms} {}, {rate} pages \
             swept per 10^11 instructions and MiB.",
            workload.suite,
            workload.name,
            workload.threads,
            workload.footprint_mib,
            if vms == 1 { "VM" } else { "VMs" }
        ),
        accesses,
        options: Options {
            vms,
            threads_per_vm: workload.threads,
            ..options(arguments, accesses)
        },
        digest: None,
    })
}

/// The VMs of a recorded host.
fn host(arguments: &Given) -> anyhow::Result<Input> {
    let path = &arguments.source;
    for (given, option) in [
        (arguments.rate.is_some(), "--rate"),
        (arguments.vms.is_some(), "--vms"),
    ] {
        if given {
            return Err(Error::Config(format!(
                "{}: a trace of a host has its own VMs and updates; leave {option} out",
                path.display()
            ))
            .into());
        }
    }
    let source = host::open(path)?;
    let (vms, held) = (source.vms(), source.accesses());
    let accesses = arguments.accesses.map_or(held, |limit| limit.min(held));
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let plural = if vms == 1 { "" } else { "s" };
    Ok(Input {
        name: format!("tlb-{}", plain(&name)),
        program: format!("a host with {vms} VM{plural}"),
        origin: format!(
            "Accesses of {vms} VM{plural} of a recorded host, with {} updates that were made in \
             it.",
            source.updates().len()
        ),
        accesses,
        options: Options {
            vms,
            threads_per_vm: source.threads_per_vm(),
            ..options(arguments, accesses)
        },
        digest: Some(sha256(path)?),
        source: Box::new(source),
    })
}

fn captured(arguments: &Given) -> anyhow::Result<Input> {
    if host::is_host_trace(&arguments.source) {
        return host(arguments);
    }
    let path = &arguments.source;
    if arguments.rate.is_some() {
        return Err(Error::Config(format!(
            "{}: a trace has its own updates; leave --rate out",
            path.display()
        ))
        .into());
    }
    let reader: Reader<std::io::BufReader<File>> = Reader::open(path)?;
    let header = reader.header();
    let vms = arguments.vms.unwrap_or(1);
    let held = reader.totals().map_or(u64::MAX, |totals| totals.accesses());
    if held == 0 {
        let file = path.display().to_string();
        return Err(TraceError::NoAccesses { file }.into());
    }
    let held = held.saturating_mul(vms.into());
    let threads = reader.totals().map_or(0, |totals| totals.threads);
    let accesses = arguments.accesses.map_or(held, |limit| limit.min(held));
    let command = match header.command.as_slice() {
        [] => header.program.clone(),
        words => for_shell(words),
    };
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let origin = match header.origin {
        Origin::Generated => "of a program's making",
        Origin::Qemu => "of a real program",
        Origin::ChampSim => "of a ChampSim trace",
        Origin::DynamoRio => "of a DynamoRIO trace",
        Origin::Text => "of a text trace",
    };
    let copies = match vms {
        1 => String::new(),
        vms => format!(" in each of {vms} VMs"),
    };
    let threads_per_vm = u16::try_from(threads).unwrap_or(u16::MAX);
    let digest = reader.digest().map(|digest| digest.to_string());
    Ok(Input {
        name: format!("tlb-{}", plain(&name)),
        origin: format!("Accesses {origin}, {threads} threads{copies}: {command}"),
        program: format!("{threads} threads of {command}"),
        accesses,
        options: Options {
            vms,
            threads_per_vm: if vms == 1 { 0 } else { threads_per_vm },
            ..options(arguments, accesses)
        },
        digest,
        source: match vms {
            // Without a list of records, which copies need.
            1 => Box::new(Captured::new(reader)),
            _ => Box::new(Copies::new(Captured::new(reader), threads_per_vm, vms)?),
        },
    })
}

/// The name with what may trouble a folder's name or a shell replaced.
fn plain(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    name.chars()
        .map(|c| if fits(c) { c } else { '-' })
        .collect()
}

/// Shows how far a source has been read.
pub struct Shown<'a> {
    source: Box<dyn Source>,
    show: &'a Show,
    name: &'a str,
    read: u64,
    total: u64,
}

impl<'a> Shown<'a> {
    /// Shows `source`, of which `total` accesses will be read, under `name`.
    pub fn new(source: Box<dyn Source>, show: &'a Show, name: &'a str, total: u64) -> Self {
        Self {
            source,
            show,
            name,
            read: 0,
            total,
        }
    }
}

impl Shown<'_> {
    /// Shows that more accesses have been read.
    fn advance(&mut self, accesses: u64) {
        self.read += accesses;
        self.show
            .progress(self.name, self.read.min(self.total), self.total);
    }
}

impl Source for Shown<'_> {
    fn next_block(&mut self, out: &mut Vec<Record>) -> Result<bool, Error> {
        let before = out.len();
        let more = self.source.next_block(out)?;
        let accesses = out[before..]
            .iter()
            .filter(|record| matches!(record, Record::Access { .. }));
        self.advance(accesses.count() as u64);
        Ok(more)
    }

    fn fill(&mut self, block: &mut Filler) -> Result<bool, Error> {
        let before = block.left();
        let more = self.source.fill(block)?;
        self.advance(before - block.left());
        Ok(more)
    }

    fn residents(&self) -> Vec<Resident> {
        self.source.residents()
    }

    fn updates(&self) -> Arc<[Recorded]> {
        self.source.updates()
    }

    fn processors(&self) -> Option<Vec<Option<u16>>> {
        self.source.processors()
    }
}
