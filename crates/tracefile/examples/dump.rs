// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints a trace: each record with its fields, then what is missing.
//!
//! `cargo run --release -p steady-tracefile --example dump -- [--count|--read] TRACE|-`
//!
//! `--count` counts records by event; `--read` also reads every field, as a measure of speed.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::Path;

use steady_tracefile::{FieldId, FieldKind, Record, Source, open, open_stream};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let path = args
        .iter()
        .rfind(|a| *a == "-" || !a.starts_with('-'))
        .ok_or("name a trace")?;
    let mut source = if path == "-" {
        open_stream(Box::new(std::io::stdin()), "standard input")?
    } else {
        open(Path::new(path))?
    };
    let mut out = BufWriter::new(std::io::stdout().lock());
    if args.iter().any(|a| a == "--count") {
        count(source.as_mut(), &mut out)?;
    } else if args.iter().any(|a| a == "--read") {
        read(source.as_mut(), &mut out)?;
    } else {
        dump(source.as_mut(), &mut out)?;
    }
    writeln!(std::io::stderr(), "{:#?}", source.loss())?;
    out.flush()?;
    Ok(())
}

/// Counts records by event.
fn count(source: &mut dyn Source, out: &mut impl Write) -> Result<(), Box<dyn std::error::Error>> {
    let mut counts: BTreeMap<usize, u64> = BTreeMap::new();
    let mut total = 0_u64;
    while let Some(record) = source.next()? {
        *counts.entry(record.event.index).or_default() += 1;
        total += 1;
    }
    for (index, count) in counts {
        let event = &source.about().events[index];
        writeln!(out, "{count:>10} {}:{}", event.system, event.name)?;
    }
    writeln!(out, "{total:>10} records")?;
    Ok(())
}

/// Reads every field of every record; in text, the fields that most events have.
fn read(source: &mut dyn Source, out: &mut impl Write) -> Result<(), Box<dyn std::error::Error>> {
    let mut ids: Vec<Vec<FieldId>> = Vec::new();
    let (mut total, mut sum) = (0_u64, 0_u64);
    while let Some(r) = source.next()? {
        while ids.len() <= r.event.index {
            ids.push(Vec::new());
        }
        let ids = &mut ids[r.event.index];
        if ids.is_empty() {
            let names = r.event.fields.iter().map(|f| f.name.as_str());
            let usual = ["vcpu_id", "prev_comm", "next_pid", "comm", "pid"].into_iter();
            ids.extend(names.chain(usual).filter_map(|name| r.event.field(name)));
        }
        total += 1;
        sum = sum.wrapping_add(r.comm.len() as u64);
        for id in &*ids {
            sum = match r.u64(*id) {
                Some(number) => sum.wrapping_add(number),
                None => sum.wrapping_add(r.str(*id).map_or(0, |text| text.len() as u64)),
            };
        }
    }
    writeln!(out, "{total:>10} records, sum {sum:x}")?;
    Ok(())
}

fn dump(source: &mut dyn Source, out: &mut impl Write) -> Result<(), Box<dyn std::error::Error>> {
    while let Some(r) = source.next()? {
        let (secs, nanos) = (r.time_ns / 1_000_000_000, r.time_ns % 1_000_000_000);
        let comm = r.comm.escape_ascii();
        write!(
            out,
            "{comm}-{} [{:03}] {secs}.{nanos:09}: {}:",
            r.pid, r.cpu, r.event.name
        )?;
        fields(&r, out)?;
        writeln!(out)?;
    }
    Ok(())
}

fn fields(r: &Record<'_>, out: &mut impl Write) -> std::io::Result<()> {
    for field in &r.event.fields {
        let Some(id) = r.event.field(&field.name) else {
            continue;
        };
        write!(out, " {}=", field.name)?;
        match (field.kind, r.str(id), r.u64(id)) {
            (_, Some(text), _) => write!(out, "{}", text.escape_ascii())?,
            (FieldKind::Int { signed: true }, ..) => write!(out, "{}", r.i64(id).unwrap_or(0))?,
            (_, _, Some(number)) => write!(out, "{number}")?,
            _ => write!(out, "{:02x?}", r.bytes(id).unwrap_or_default())?,
        }
    }
    Ok(())
}
