// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady diagnose`: what traces, tables and logs say about why guests stall.

use std::io::{self, BufWriter, IntoInnerError, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use steady_decode::TraceEvents;
use steady_diagnose::{
    Analysis, DiagnoseError, Diagnoser, Diagnosis, Effect, Slice, Sought, Symbols, VmNotes,
};
use steady_diagnosis_view::{Perfetto, Picture, PictureTable, csv, page, terminal};
use steady_events::Event;
use steady_measures::{WholeFile, write_atomic};
use steady_record::knobs;
use steady_tables::{Incident, ReadError, Tables};
use steady_tracefile::Source;

use crate::arguments::diagnose::Diagnose;
use crate::command::opened::{Opened, of_file, open};
use crate::command::{colour, is_dumb, spans, width};

/// Reads the traces and shows what they say.
pub fn diagnose(arguments: &Diagnose) -> anyhow::Result<ExitCode> {
    let symbols = match &arguments.symbols {
        Some(path) => Some((Symbols::load(path)?, path.display().to_string())),
        None => None,
    };
    let mut diagnoser = Diagnoser::new();
    diagnoser.symbols = symbols
        .as_ref()
        .map(|(symbols, file)| (symbols, file.clone()));
    diagnoser.tick_hz = arguments.guest_hz;
    let (from_ns, to_ns) = arguments.time.unwrap_or_default();
    diagnoser.slice = Slice {
        from_ns,
        to_ns,
        vms: arguments.vm.clone(),
        vcpus: arguments.vcpu.clone(),
    };
    let draw = || arguments.perfetto.as_deref().map(Drawing::new).transpose();
    let mut drawing = draw()?;
    let mut pictures = arguments.html.is_some().then(Vec::new);
    let mut failed = None;
    // Places on the command line of the traces that could be read.
    let mut read_at = Vec::new();
    let mut incident = Incident::default();
    let paths = [&arguments.traces, &arguments.before, &arguments.after];
    for (at, path) in paths.into_iter().flatten().enumerate() {
        let sliced = while_it_ran(path, arguments, &mut diagnoser.slice);
        let one = sliced.and_then(|()| one(path, &mut diagnoser, &mut drawing, &mut pictures));
        let read = match one {
            Ok(Some(_)) if !arguments.before.is_empty() => Err(not_a_trace(path)),
            Ok(Some(tables)) => {
                incident.add(tables);
                continue;
            }
            read => read.map(|_| ()),
        };
        if arguments.before.is_empty() && read.is_ok() {
            recorded_beside(path, &mut incident);
        }
        // One bad trace among several does not hide what the others say.
        if let Err(error) = read {
            if let Some(earlier) = failed.replace(error) {
                talk!("steady: {earlier:#}");
            }
            // What was drawn of it must not stand before the next one.
            if drawing.take().is_some() {
                drawing = draw()?;
            }
            continue;
        }
        read_at.push(at);
        if let Some(done) = drawing.take() {
            // Only the first trace is drawn: another one's clock may be another.
            done.finish()?;
        }
    }
    if let Err(none) = diagnoser.check_wanted() {
        if let Some(earlier) = failed {
            talk!("steady: {earlier:#}");
        }
        return Err(none.into());
    }
    let mut diagnosis = incident.beside(diagnoser.finish());
    diagnosis.comparison = compared(arguments, &diagnosis, &read_at);
    ended(arguments, &diagnosis, &pictures.unwrap_or_default(), failed)
}

/// Where a workload is asked for, leaves of this trace what is of the time when it ran.
fn while_it_ran(trace: &Path, arguments: &Diagnose, slice: &mut Slice) -> anyhow::Result<()> {
    let Some(name) = &arguments.workload else {
        return Ok(());
    };
    let span = spans::named(trace, name)?;
    (slice.from_ns, slice.to_ns) = (Some(span.from_ns), Some(span.to_ns));
    Ok(())
}

/// Adds the tables that `steady record` left beside a trace, if something is wrong in them. That
/// there are none is not a fault: others record too.
fn recorded_beside(trace: &Path, incident: &mut Incident) {
    if trace == Path::new("-") {
        return;
    }
    let within = match steady_record::Incident::open(trace) {
        Ok(Some(of)) => {
            let name = format!("{} (tables)", trace.display());
            steady_tables::read(&mut of.tables.as_bytes(), &name).ok()
        }
        _ => of_file(&beside(trace, ".tables")),
    };
    if let Some(tables) = within {
        incident.add(tables.with_findings());
    }
}

/// The file beside a trace whose name has this end too.
pub fn beside(trace: &Path, end: &str) -> PathBuf {
    let mut name = trace.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

fn not_a_trace(path: &Path) -> anyhow::Error {
    let name = path.display().to_string();
    ReadError::NotATrace { name }.into()
}

/// Shows what there is, and ends with the last fault if there was one.
fn ended(
    arguments: &Diagnose,
    diagnosis: &Diagnosis,
    pictures: &[PictureTable],
    failed: Option<anyhow::Error>,
) -> anyhow::Result<ExitCode> {
    let mostly_unread = unread(diagnosis);
    match failed {
        Some(error) if diagnosis.traces.is_empty() => Err(error),
        Some(error) => {
            show(arguments, diagnosis, pictures)?;
            Err(error)
        }
        None => {
            show(arguments, diagnosis, pictures)?;
            Ok(if mostly_unread {
                ExitCode::from(MOSTLY_UNREAD)
            } else {
                ExitCode::SUCCESS
            })
        }
    }
}

/// Before and after: of two groups if they were named, else of two traces of hosts.
fn compared(
    arguments: &Diagnose,
    diagnosis: &Diagnosis,
    read_at: &[usize],
) -> Option<steady_diagnose::Comparison> {
    let mut traces = diagnosis
        .traces
        .iter()
        .filter(|trace| trace.table.is_none());
    let hosts = traces.all(|trace| !trace.vms.is_empty());
    let first_after = match arguments.before.len() {
        0 if arguments.traces.len() == 2 && hosts => 1,
        0 => return None,
        before => before,
    };
    let (before, after): (Vec<usize>, Vec<usize>) =
        (0..read_at.len()).partition(|&at| read_at[at] < first_after);
    let both = !before.is_empty() && !after.is_empty();
    both.then(|| steady_diagnose::compare(diagnosis, &before, &after))
}

/// The exit code where more lines of a trace were not read than were.
const MOSTLY_UNREAD: u8 = 2;

/// Says of each trace, before all else, which share of its lines was not read; whether of any it
/// is the most.
fn unread(diagnosis: &Diagnosis) -> bool {
    let traces = diagnosis.traces.iter();
    for trace in traces.clone().filter(|trace| trace.loss.unread_lines > 0) {
        let loss = &trace.loss;
        talk!(
            "steady: {}: {} of {} lines could not be read ({}.{} %), the first: {}",
            trace.name,
            loss.unread_lines,
            loss.unread_lines.saturating_add(trace.events),
            loss.unread_permille / 10,
            loss.unread_permille % 10,
            loss.unread.first().map_or("–", String::as_str)
        );
    }
    let mut most = traces.filter(|trace| trace.loss.unread_permille > 500);
    let found = most.next().is_some();
    if found {
        talk!(
            "steady: most of it is not of the trace's format, so what follows says little; \
             expected the text of ftrace's trace file, trace-cmd report, perf script or perf trace"
        );
    }
    found
}

/// Reads a trace into the diagnoser, or gives the tables of a file that has them.
fn one(
    path: &Path,
    diagnoser: &mut Diagnoser<'_>,
    drawing: &mut Option<Drawing<'_>>,
    pictures: &mut Option<Vec<PictureTable>>,
) -> anyhow::Result<Option<Tables>> {
    let (name, mut source, with) = match open(path)? {
        Opened::Trace(name, source) => (name, source, None),
        Opened::Incident(name, source, with) => (name, source, Some(*with)),
        Opened::Tables(tables) => return Ok(Some(tables)),
    };
    let is_incident = with.is_some();
    // What was overwritten in one ring is cut off the others.
    diagnoser.whole = is_incident;
    diagnoser.sought = None;
    diagnoser.notes = match with {
        Some(with) => {
            if let Some(wait) = with.about.trigger {
                talk!("steady: {name}: written because {wait}");
                diagnoser.sought = with.about.waited.map(|waited| Sought {
                    wait,
                    tid: waited.tid,
                    length_ns: waited.at_least_ns,
                });
            }
            diagnoser.knobs = with.about.knobs;
            Some(with.notes)
        }
        None => notes(path),
    };
    if !is_incident && is_this_host(source.as_ref()) {
        diagnoser.knobs = knobs();
    }
    let mut picture = pictures.is_some().then(Picture::default);
    let mut watch = |event: &Event<'_>, effect: Effect, all: &Analysis| {
        if let Some(picture) = &mut picture {
            picture.event(event, effect, all);
        }
        match drawing {
            Some(drawing) => drawing.event(event, effect, all),
            None => Ok(()),
        }
    };
    let read = diagnoser.trace(&name, &mut TraceEvents::new(source.as_mut()), &mut watch);
    if let Err(error) = read {
        // A line or two of a table may look like events that say nothing.
        let nothing = matches!(error, DiagnoseError::NothingToSay { .. });
        let tables = nothing.then(|| of_file(path)).flatten();
        return tables.map(Some).ok_or_else(|| error.into());
    }
    // One for each trace that the diagnosis has.
    if let (Some(pictures), Some(picture)) = (pictures, picture) {
        pictures.push(picture.finish());
    }
    Ok(None)
}

/// A drawing that gets its name when it is whole.
struct Drawing<'p> {
    perfetto: Perfetto<BufWriter<WholeFile>>,
    path: &'p Path,
}

impl<'p> Drawing<'p> {
    fn new(path: &'p Path) -> anyhow::Result<Self> {
        let cannot = || format!("cannot write {}", path.display());
        let file = WholeFile::create(path).with_context(cannot)?;
        let perfetto = Perfetto::new(BufWriter::new(file)).with_context(cannot)?;
        Ok(Self { perfetto, path })
    }

    fn event(&mut self, event: &Event<'_>, effect: Effect, all: &Analysis) -> io::Result<()> {
        let named = |error: io::Error| {
            let text = format!("{}: {error}", self.path.display());
            io::Error::new(error.kind(), text)
        };
        self.perfetto.event(event, effect, all).map_err(named)
    }

    fn finish(self) -> anyhow::Result<()> {
        let written = self.perfetto.finish().and_then(|buffer| {
            let file = buffer.into_inner().map_err(IntoInnerError::into_error)?;
            file.finish()
        });
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// What `steady record` noted beside a trace. What cannot be read there is said, and the trace
/// speaks without it.
fn notes(trace: &Path) -> Option<VmNotes> {
    if trace == Path::new("-") {
        return None;
    }
    let path = beside(trace, ".vms");
    let text = std::fs::read(&path).ok()?;
    match VmNotes::parse(&text) {
        Ok(notes) => Some(notes),
        Err(error) => {
            talk!("steady: {}: {error}; its VMs are numbered", path.display());
            None
        }
    }
}

fn show(
    arguments: &Diagnose,
    diagnosis: &Diagnosis,
    pictures: &[PictureTable],
) -> anyhow::Result<ExitCode> {
    if let Some(path) = &arguments.html {
        write_atomic(path, page::page(diagnosis, pictures).as_bytes())?;
    }
    if let Some(folder) = &arguments.csv {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        for (name, text) in csv::tables(diagnosis) {
            write_atomic(&folder.join(name), text.as_bytes())?;
        }
    }
    // Standard output itself would be written to a line at a time.
    let mut out = BufWriter::new(std::io::stdout());
    if arguments.json {
        serde_json::to_writer_pretty(&mut out, diagnosis)?;
        writeln!(out)?;
    } else {
        let options = terminal::Options {
            colour: colour(),
            verbose: arguments.verbose,
            width: width(),
            plain: is_dumb(),
        };
        out.write_all(terminal::text(diagnosis, options).as_bytes())?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Whether the trace is of the kernel that runs here, so that its knobs can be looked up.
fn is_this_host(source: &dyn Source) -> bool {
    let here = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let there = source.about().release.as_deref();
    there == Some(here.trim()) && Path::new("/sys/module/kvm").is_dir()
}
