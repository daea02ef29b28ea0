// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a file to be diagnosed is: one of `steady record`, a trace, or tables and logs. A trace
//! comes first; another file is searched for tables if it is text.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::Context;
use steady_record::Incident;
use steady_tables::{ReadError, Tables, looks_like_text};
use steady_tracefile::Source;

/// What a file is.
pub enum Opened {
    /// A trace with its name.
    Trace(String, Box<dyn Source>),
    /// The same, and what was recorded with it.
    Incident(String, Box<dyn Source>, Box<Incident>),
    /// Tables and logs, which are read already.
    Tables(Tables),
}

/// Bytes of standard input by which it is decided whether it is a trace.
const HEAD: u64 = 1 << 20;

/// Opens a trace, or reads the tables of a file that has them in place of one.
pub fn open(path: &Path) -> anyhow::Result<Opened> {
    if path == Path::new("-") {
        return open_input(Box::new(io::stdin()));
    }
    if path.is_file()
        && let Some(incident) = Incident::open(path)?
    {
        let name = path.display().to_string();
        let source = steady_tracefile::open_stream(incident.trace()?, &name)?;
        return Ok(Opened::Incident(name, source, Box::new(incident)));
    }
    let failed = match steady_tracefile::open(path) {
        Ok(source) => return Ok(Opened::Trace(path.display().to_string(), source)),
        Err(failed) => failed,
    };
    let foreign = matches!(failed, steady_tracefile::Error::Foreign { .. });
    match read_tables(path) {
        Some(Ok(tables)) => Ok(Opened::Tables(tables)),
        Some(Err(neither)) if foreign => Err(neither.into()),
        _ => Err(failed.into()),
    }
}

/// Opens what comes from a pipe. Its first part decides: it cannot be read twice.
fn open_input(mut input: Box<dyn Read + Send>) -> anyhow::Result<Opened> {
    let name = "standard input".to_owned();
    let mut head = Vec::new();
    let cannot = || format!("{name}: cannot be read");
    let part = (&mut input).take(HEAD).read_to_end(&mut head);
    part.with_context(cannot)?;
    let text = !head.is_empty() && looks_like_text(&head[..head.len().min(4096)]);
    let foreign = text && {
        let tried = steady_tracefile::open_stream(Box::new(io::Cursor::new(head.clone())), &name);
        matches!(tried, Err(steady_tracefile::Error::Foreign { .. }))
    };
    let mut whole = io::Cursor::new(head).chain(input);
    if foreign {
        return Ok(Opened::Tables(steady_tables::read(&mut whole, &name)?));
    }
    let source = steady_tracefile::open_stream(Box::new(whole), &name)?;
    Ok(Opened::Trace(name, source))
}

/// The tables of a file, if it is text at all.
fn read_tables(path: &Path) -> Option<Result<Tables, ReadError>> {
    let mut file = File::open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut head = Vec::new();
    (&mut file).take(4096).read_to_end(&mut head).ok()?;
    if !looks_like_text(&head) {
        return None;
    }
    let mut whole = io::Cursor::new(head).chain(file);
    Some(steady_tables::read(&mut whole, &path.display().to_string()))
}

/// The tables of a file, if it has any.
pub fn of_file(path: &Path) -> Option<Tables> {
    read_tables(path)?.ok()
}
