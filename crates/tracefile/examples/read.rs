// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a trace, as a measure of speed: `bench/tracefile` calls it. Then it says what is missing.
//!
//! `cargo run --release -p steady-tracefile --example read -- --count|--read TRACE`
//!
//! `--count` counts records by event; `--read` also reads every field.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::Path;

use steady_tracefile::{FieldId, Source, open};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [how, path] = args.as_slice() else {
        return Err("usage: read --count|--read TRACE".into());
    };
    let mut source = open(Path::new(path))?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    match how.as_str() {
        "--count" => count(source.as_mut(), &mut out)?,
        "--read" => read(source.as_mut(), &mut out)?,
        _ => return Err(format!("{how}: expected --count or --read").into()),
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
