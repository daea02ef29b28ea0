// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `trace.dat` version 7: sections, found through chained options, each perhaps compressed.

use std::collections::BTreeSet;

use super::meta::{CPUS_MAX, Meta, page_size};
use super::options::{self, id};
use super::pages::{CpuData, Packing, unpack};
use crate::describe::Described;
use crate::error::{Fault, Place};
use crate::words::{Block, FileWords, Words};

/// The section's flag: it is compressed.
const COMPRESSED: u16 = 1;
/// The most that a section unpacks to; `/proc/kallsyms` of a large kernel has about 10 MB.
const SECTION_MAX: u64 = 256 << 20;
/// The most sections of options that are followed.
const CHAIN_MAX: usize = 4096;

/// One section, unpacked.
struct Section {
    data: Vec<u8>,
    origin: u64,
    packed: bool,
    big: bool,
}

impl Section {
    fn words(&self) -> Block<'_> {
        Block::new(&self.data, self.origin, self.packed, self.big)
    }
}

/// Reads the file from behind the page size on.
pub(super) fn read(words: &mut FileWords<'_>, mut meta: Meta) -> Result<Meta, Fault> {
    let place = words.place();
    let name = words.cstr("the name of the compression")?;
    words.cstr("the version of the compression")?;
    let packing = match name.as_str() {
        "none" => Packing::None,
        "zlib" => Packing::Zlib,
        "zstd" => Packing::Zstd,
        _ => {
            let name = name.escape_default();
            return Err(Fault::new(
                place,
                format!("compression `{name}`; expected zstd, zlib or none"),
            ));
        }
    };
    let mut next = words.u64("the place of the options")?;
    // Sections may stand in any order, and buffers need the descriptions: collect first.
    let mut sections = Vec::new();
    let mut buffers = Vec::new();
    let mut seen = BTreeSet::new();
    let mut behind = 0;
    while next != 0 {
        if !seen.insert(next) || seen.len() > CHAIN_MAX {
            let what = "the options point back to themselves";
            return Err(Fault::new(Place::Byte(next), what));
        }
        let step = section(words, next, id::DONE, packing).and_then(|section| {
            let end = words.at;
            Ok((
                options(&section, &mut meta, &mut sections, &mut buffers)?,
                end,
            ))
        });
        match step {
            Ok((place, end)) => (next, behind) = (place, end),
            // The records stand between the first options and those that say where they are.
            Err(fault) if seen.len() > 1 => {
                recover(words, behind, &mut meta, packing);
                if meta.buffers.is_empty() {
                    return Err(fault);
                }
                meta.loss.cut(fault.place, None);
                meta.loss.damaged(fault);
                break;
            }
            Err(fault) => return Err(fault),
        }
    }
    for (option, at) in sections {
        let section = section(words, at, option, packing)?;
        content(&section, option, &mut meta)?;
    }
    for data in buffers {
        buffer(words, &data, &mut meta, packing)?;
    }
    if meta.buffers.is_empty() {
        return Err(Fault::new(
            Place::Byte(words.input.len()),
            "no buffer of records; was the recording ended before it was written?",
        ));
    }
    Ok(meta)
}

/// Reads the section at `at`, which should have number `expected`.
fn section(
    words: &mut FileWords<'_>,
    at: u64,
    expected: u16,
    packing: Packing,
) -> Result<Section, Fault> {
    words.at = at;
    let number = words.u16("a section")?;
    if number != expected {
        return Err(Fault::new(
            Place::Byte(at),
            format!("expected section {expected}, found {number}"),
        ));
    }
    let flags = words.u16("a section's flags")?;
    words.u32("a section's name")?;
    let size = words.u64("a section's size")?;
    let big = words.big;
    if flags & COMPRESSED == 0 {
        let origin = words.at;
        // trace-cmd 3.1 gives sections of options a size of up to a few bytes more than they have.
        let size = size.min(words.left());
        return Ok(Section {
            data: words.block(size, "a section")?,
            origin,
            packed: false,
            big,
        });
    }
    let packed = words.u32("a section's compressed size")?;
    let unpacked = u64::from(words.u32("a section's size")?);
    if unpacked > SECTION_MAX {
        let what = format!("a section unpacks to {unpacked} bytes; expected at most {SECTION_MAX}");
        return Err(Fault::new(Place::Byte(at), what));
    }
    let block = words.block(u64::from(packed), "a compressed section")?;
    let data =
        unpack(&block, packing, unpacked).map_err(|what| Fault::new(Place::Byte(at), what))?;
    Ok(Section {
        data,
        origin: at,
        packed: true,
        big,
    })
}

/// Takes the options of one section; gives the place of the next, 0 after the last.
fn options(
    section: &Section,
    meta: &mut Meta,
    sections: &mut Vec<(u16, u64)>,
    buffers: &mut Vec<Section>,
) -> Result<u64, Fault> {
    let mut words = section.words();
    loop {
        let option = words.u16("an option")?;
        let size = words.u32("an option's size")?;
        let place = words.place();
        let data = words.block(u64::from(size), "an option")?;
        let (origin, packed) = match place {
            Place::Byte(at) => (at, false),
            _ => (section.origin, section.packed),
        };
        let mut block = Block::new(&data, origin, packed, section.big);
        match option {
            id::DONE => return block.u64("the place of the next options"),
            id::HEADER_INFO
            | id::FTRACE_EVENTS
            | id::EVENT_FORMATS
            | id::KALLSYMS
            | id::CMDLINES => {
                sections.push((option, block.u64("the place of a section")?));
            }
            id::BUFFER => buffers.push(Section {
                data,
                origin,
                packed,
                big: section.big,
            }),
            id::BUFFER_TEXT => {
                let what = "text of a latency tracer, which is not read";
                meta.loss.damaged(Fault::new(place, what));
            }
            _ => {
                // What an option says about the host is not worth the records.
                if let Err(fault) = options::take(meta, option, &data, &mut block) {
                    meta.loss.damaged(fault);
                }
            }
        }
    }
}

/// Takes a section of descriptions.
fn content(section: &Section, number: u16, meta: &mut Meta) -> Result<(), Fault> {
    let mut words = section.words();
    match number {
        id::HEADER_INFO => meta.described.headers(&mut words),
        id::FTRACE_EVENTS => meta.described.ftrace_events(&mut words),
        id::EVENT_FORMATS => meta.described.event_systems(&mut words),
        id::KALLSYMS => {
            let symbols = Described::sized_text(&mut words, "the kernel's symbols")?;
            meta.about.kallsyms = (!symbols.is_empty()).then_some(symbols);
            Ok(())
        }
        _ => meta.described.cmdlines(&mut words),
    }
}

/// Takes the option that says where an instance's data are.
fn buffer(
    file: &mut FileWords<'_>,
    option: &Section,
    meta: &mut Meta,
    packing: Packing,
) -> Result<(), Fault> {
    let mut words = option.words();
    let at = words.u64("the place of an instance")?;
    let name = words.cstr("an instance's name")?;
    let clock = words.cstr("an instance's clock")?;
    if name.is_empty() && !clock.is_empty() {
        meta.about.clock = Some(clock);
    }
    let page_size = page_size(&mut words)?;
    let place = words.place();
    let count = words.u32("the count of CPUs")?;
    if count > CPUS_MAX {
        return Err(Fault::new(
            place,
            format!("{count} CPUs; expected at most {CPUS_MAX}"),
        ));
    }
    file.at = at;
    file.u16("an instance's section")?;
    let packing = match file.u16("the flags of an instance's section")? {
        flags if flags & COMPRESSED != 0 => packing,
        _ => Packing::None,
    };
    let mut cpus = Vec::new();
    for _ in 0..count {
        let cpu = words.u32("a CPU's number")?;
        let offset = words.u64("the place of a CPU's data")?;
        let size = words.u64("the size of a CPU's data")?;
        if size > 0 {
            cpus.push(CpuData {
                cpu,
                offset,
                size,
                packing,
            });
        }
    }
    meta.about.cpus = meta.about.cpus.max(count);
    meta.buffer(file.input, name, page_size, cpus);
    Ok(())
}

/// Finds the packed records of the top instance in a file whose end is missing: the section at `at`
/// holds the CPUs' data one after the other, each from a new page on, with a list of its chunks.
fn recover(words: &mut FileWords<'_>, at: u64, meta: &mut Meta, packing: Packing) {
    words.at = at;
    let head = words
        .u16("a section")
        .and_then(|number| Ok((number, words.u16("a section's flags")?)));
    let Ok((id::BUFFER, flags)) = head else {
        return;
    };
    if flags & COMPRESSED == 0 {
        return;
    }
    let page = u64::from(meta.page_size);
    let mut offset = at.saturating_add(16).next_multiple_of(page);
    let mut cpus = Vec::new();
    for cpu in 0..meta.about.cpus.min(CPUS_MAX) {
        if offset >= words.input.len() {
            break;
        }
        cpus.push(CpuData {
            cpu,
            offset,
            size: 0,
            packing,
        });
        words.at = offset;
        let Ok(chunks) = words.u32("the count of chunks") else {
            break;
        };
        for _ in 0..chunks {
            let Ok(packed) = words.u32("a chunk's size") else {
                break;
            };
            words.at = words.at.saturating_add(4 + u64::from(packed));
        }
        offset = words.at.next_multiple_of(page);
    }
    let page_size = meta.page_size;
    if !cpus.is_empty() {
        meta.buffer(words.input, String::new(), page_size, cpus);
    }
}
