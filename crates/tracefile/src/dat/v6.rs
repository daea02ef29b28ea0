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
    buffer(words, &mut meta, String::new(), cpus, &mut instances)?;
    for (offset, name) in instances {
        let mut at = FileWords {
            input: words.input,
            at: offset,
            big: words.big,
        };
        buffer(&mut at, &mut meta, name, cpus, &mut Vec::new())?;
    }
    Ok(meta)
}

/// Options up to the one that ends them. Gives the count of CPUs if they have it; adds the places
/// of further instances.
fn options(
    words: &mut FileWords<'_>,
    meta: &mut Meta,
    instances: &mut Vec<(u64, String)>,
) -> Result<Option<u32>, Fault> {
    let mut cpus = None;
    loop {
        let option = words.u16("an option")?;
        if option == id::DONE {
            return Ok(cpus);
        }
        let size = words.u32("an option's size")?;
        let origin = words.at;
        let data = words.block(u64::from(size), "an option")?;
        let mut block = Block::new(&data, origin, false, words.big);
        if option == id::BUFFER {
            let offset = block.u64("the place of an instance")?;
            instances.push((offset, block.cstr("an instance's name")?));
            continue;
        }
        if option == id::CPUCOUNT {
            cpus = Block::new(&data, origin, false, words.big)
                .u32("the count of CPUs")
                .ok();
        }
        // What an option says about the host is not worth the records.
        if let Err(fault) = options::take(meta, option, &data, &mut block) {
            meta.loss.damaged(fault);
        }
    }
}

/// The options of an instance, if it has some, and the places of its CPUs' data.
fn buffer(
    words: &mut FileWords<'_>,
    meta: &mut Meta,
    name: String,
    cpus: u32,
    instances: &mut Vec<(u64, String)>,
) -> Result<(), Fault> {
    let mut count = cpus;
    let mut place = words.place();
    let mut part = words.block(10, "the mark of the records")?;
    if part == b"options  \0" {
        let told = options(words, meta, instances)?;
        // Those of the whole file say what the machine had, which its head did already.
        if !name.is_empty() {
            count = told.unwrap_or(cpus).min(CPUS_MAX);
        }
        place = words.place();
        part = words.block(10, "the mark of the records")?;
    }
    match part.as_slice() {
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
    for cpu in 0..count {
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
