// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes a large trace from a small one, for measuring: repeats its records, later each time.
//!
//! `cargo run --release -p steady-tracefile --example grow -- IN OUT COPIES`
//!
//! IN is a little-endian trace.dat of version 6 or a perf.data in file mode, not compressed.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};

/// How much later each copy is: more than the trace is long.
const LATER_NS: u64 = 20_000_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [from, to, copies] = args.as_slice() else {
        return Err("usage: grow IN OUT COPIES".into());
    };
    let data = std::fs::read(from)?;
    let copies = copies.parse()?;
    let mut out = BufWriter::with_capacity(1 << 20, File::create(to)?);
    if data.starts_with(b"PERFILE2") {
        perf(&data, &mut out, copies)?;
    } else if data.starts_with(b"\x17\x08\x44tracing6\0\0") {
        trace_dat(&data, &mut out, copies)?;
    } else {
        return Err("neither a perf.data nor a trace.dat of version 6".into());
    }
    out.flush()?;
    Ok(())
}

fn u64_at(data: &[u8], at: usize) -> u64 {
    data.get(at..)
        .and_then(|d| d.first_chunk::<8>())
        .map_or(0, |b| u64::from_le_bytes(*b))
}

fn find(data: &[u8], mark: &[u8], from: usize) -> Option<usize> {
    data[from..]
        .windows(mark.len())
        .position(|w| w == mark)
        .map(|at| from + at)
}

/// Each CPU's pages, with the time that begins each page moved.
fn trace_dat(
    data: &[u8],
    out: &mut (impl Write + Seek),
    copies: u64,
) -> Result<(), Box<dyn Error>> {
    let page = usize::try_from(u32::from_le_bytes(data[14..18].try_into()?))?;
    let options = find(data, b"options  \0", 0).ok_or("no options")?;
    let cpus = u32::from_le_bytes(data[options - 4..options].try_into()?);
    let table = find(data, b"flyrecord\0", options).ok_or("no records")? + 10;
    let head = table + usize::try_from(cpus)? * 16;
    out.write_all(&data[..head])?;
    let mut at = u64::try_from(head.next_multiple_of(page))?;
    let mut places = Vec::new();
    for cpu in 0..usize::try_from(cpus)? {
        let offset = usize::try_from(u64_at(data, table + cpu * 16))?;
        let size = usize::try_from(u64_at(data, table + cpu * 16 + 8))?;
        out.seek(SeekFrom::Start(at))?;
        for copy in 0..copies {
            for page in data[offset..offset + size].chunks(page) {
                out.write_all(&(u64_at(page, 0) + copy * LATER_NS).to_le_bytes())?;
                out.write_all(&page[8..])?;
            }
        }
        let size = u64::try_from(size)? * copies;
        places.push((at, size));
        at += size;
    }
    out.seek(SeekFrom::Start(u64::try_from(table)?))?;
    for (offset, size) in places {
        out.write_all(&offset.to_le_bytes())?;
        out.write_all(&size.to_le_bytes())?;
    }
    Ok(())
}

/// The records, with the time of each sample moved; features move behind them.
fn perf(data: &[u8], out: &mut (impl Write + Seek), copies: u64) -> Result<(), Box<dyn Error>> {
    let attrs = usize::try_from(u64_at(data, 24))?;
    let start = usize::try_from(u64_at(data, 40))?;
    let size = usize::try_from(u64_at(data, 48))?;
    let sample_type = u64_at(data, attrs + 24);
    // What stands before the time: identifier, instruction, thread.
    let before = (sample_type & (1 << 16 | 1 << 0 | 1 << 1)).count_ones();
    let time = 8 + 8 * usize::try_from(before)?;
    let grown = u64::try_from(size)? * copies;
    let moved = grown - u64::try_from(size)?;
    out.write_all(&data[..48])?;
    out.write_all(&grown.to_le_bytes())?;
    out.write_all(&data[56..start])?;
    for copy in 0..copies {
        let mut at = start;
        while at + 8 <= start + size {
            let len = usize::from(u16::from_le_bytes(data[at + 6..at + 8].try_into()?));
            let record = data
                .get(at..at + len)
                .filter(|r| r.len() >= 8)
                .ok_or("a record is cut off")?;
            if record[0] == 9 {
                out.write_all(&record[..time])?;
                out.write_all(&(u64_at(record, time) + copy * LATER_NS).to_le_bytes())?;
                out.write_all(&record[time + 8..])?;
            } else {
                out.write_all(record)?;
            }
            at += len;
        }
    }
    let features = (0..4)
        .map(|i| u64_at(data, 72 + 8 * i).count_ones())
        .sum::<u32>();
    let table = start + size;
    let end = table + 16 * usize::try_from(features)?;
    for entry in data[table..end].chunks(16) {
        out.write_all(&(u64_at(entry, 0) + moved).to_le_bytes())?;
        out.write_all(&entry[8..])?;
    }
    out.write_all(&data[end..])?;
    Ok(())
}
