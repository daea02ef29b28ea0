// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `trace.dat` version 6: everything in one fixed order.

use super::meta::{CPUS_MAX, Meta};
use super::options::{self, id};
use super::pages::{CpuData, Packing};
use crate::describe::Described;
use crate::error::Fault;
use crate::words::{Block, FileWords, Words};

/// Reads the file from behind the page size on.
pub(super) fn read(words: &mut FileWords<'_>, mut meta: Meta) -> Result<Meta, Fault> {
    let described = &mut meta.described;
    described.headers(words)?;
    described.ftrace_events(words)?;
    described.event_systems(words)?;
    let symbols = Described::sized_text(words, "the kernel's symbols")?;
    meta.about.kallsyms = (!symbols.is_empty()).then_some(symbols);
    Described::sized_text(words, "the texts of trace_printk")?;
    described.cmdlines(words)?;
    let place = words.place();
    let cpus = words.u32("the count of CPUs")?;
    if cpus > CPUS_MAX {
        return Err(Fault::new(
            place,
            format!("{cpus} CPUs; expected at most {CPUS_MAX}"),
        ));
    }
    meta.about.cpus = cpus;

    let mut instances = Vec::new();
    let mut place = words.place();
    let mut part = words.block(10, "the options")?;
    if part == b"options  \0" {
        instances = options(words, &mut meta)?;
        place = words.place();
        part = words.block(10, "the mark of the records")?;
    }
    buffer(words, &mut meta, String::new(), &part, place)?;
    for (offset, name) in instances {
        let mut at = FileWords {
            input: words.input,
            at: offset,
            big: words.big,
        };
        let place = at.place();
        let part = at.block(10, "the mark of an instance's records")?;
        buffer(&mut at, &mut meta, name, &part, place)?;
    }
    Ok(meta)
}

/// Options up to the one that ends them; gives the places and names of instances.
fn options(words: &mut FileWords<'_>, meta: &mut Meta) -> Result<Vec<(u64, String)>, Fault> {
    let mut instances = Vec::new();
    loop {
        let option = words.u16("an option")?;
        if option == id::DONE {
            return Ok(instances);
        }
        let size = words.u32("an option's size")?;
        let origin = words.at;
        let data = words.block(u64::from(size), "an option")?;
        let mut block = Block::new(&data, origin, false, words.big);
        if option == id::BUFFER {
            let offset = block.u64("the place of an instance")?;
            instances.push((offset, block.cstr("an instance's name")?));
        } else {
            options::take(meta, option, &data, &mut block)?;
        }
    }
}

/// The places of all CPUs' data.
fn buffer(
    words: &mut FileWords<'_>,
    meta: &mut Meta,
    name: String,
    part: &[u8],
    place: crate::error::Place,
) -> Result<(), Fault> {
    match part {
        b"flyrecord\0" => {}
        b"latency  \0" => {
            return Err(Fault::new(
                place,
                "the trace holds the text of a latency tracer, not records; save what \
                 `trace-cmd report` prints and read that",
            ));
        }
        _ => {
            let found = part.escape_ascii();
            return Err(Fault::new(
                place,
                format!("expected the mark of the records, found `{found}`"),
            ));
        }
    }
    let mut cpus = Vec::new();
    for cpu in 0..meta.about.cpus {
        let offset = words.u64("the place of a CPU's data")?;
        let size = words.u64("the size of a CPU's data")?;
        if size > 0 {
            cpus.push(CpuData {
                cpu,
                offset,
                size,
                packing: Packing::None,
            });
        }
    }
    let page_size = meta.page_size;
    meta.buffer(words.input, name, page_size, cpus);
    Ok(())
}
