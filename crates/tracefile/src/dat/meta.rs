// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Everything of a `trace.dat` but its records: the parts that both versions share.

use std::sync::Arc;

use super::pages::{CpuData, Packing};
use super::{v6, v7};
use crate::about::{About, Endian, Format};
use crate::describe::Described;
use crate::error::{Error, Fault, Place};
use crate::input::Input;
use crate::loss::Loss;
use crate::words::{FileWords, Words};

/// The largest page of a ring buffer that is accepted; `buffer_subbuf_size_kb` allows 128 pages.
pub(super) const PAGE_MAX: u32 = 16 << 20;
/// The most CPUs that are accepted.
pub(super) const CPUS_MAX: u32 = 1 << 16;

/// One instance's buffer.
#[derive(Debug)]
pub(super) struct Buffer {
    pub name: String,
    pub page_size: usize,
    pub cpus: Vec<CpuData>,
}

/// What the file says before its records.
#[derive(Debug)]
pub(super) struct Meta {
    pub about: About,
    pub loss: Loss,
    pub described: Described,
    pub buffers: Vec<Buffer>,
    /// Page size of the recorded machine.
    pub page_size: u32,
}

/// Reads all that stands before the records.
pub(super) fn read(input: &Arc<Input>) -> Result<Meta, Error> {
    let name = input.name();
    let mut words = FileWords {
        input,
        at: 0,
        big: false,
    };
    let (version, meta) = start(&mut words).map_err(|f| f.named(name))?;
    match version {
        6 => v6::read(&mut words, meta).map_err(|f| f.named(name)),
        7 => v7::read(&mut words, meta).map_err(|f| f.named(name)),
        _ => Err(Error::Unsupported {
            name: name.to_owned(),
            place: Place::Byte(10),
            what: format!(
                "trace.dat of version {version}; versions 6 and 7 are read, to which \
                 `trace-cmd convert` turns it"
            ),
        }),
    }
}

/// The first bytes: magic, version, byte order, sizes.
fn start(words: &mut FileWords<'_>) -> Result<(u32, Meta), Fault> {
    words.expect(super::MAGIC, "the start of a trace.dat")?;
    let place = words.place();
    let version = words.cstr("the file's version")?;
    let version = version.parse().map_err(|_| {
        Fault::new(
            place,
            format!(
                "the file's version is `{}`, no number",
                version.escape_default()
            ),
        )
    })?;
    let place = words.place();
    words.big = match words.u8("the byte order")? {
        0 => false,
        1 => true,
        other => {
            return Err(Fault::new(
                place,
                format!("the byte order is {other}, neither 0 nor 1"),
            ));
        }
    };
    let place = words.place();
    let long = words.u8("the size of a long")?;
    if long != 4 && long != 8 {
        return Err(Fault::new(
            place,
            format!("a long has {long} bytes, neither 4 nor 8"),
        ));
    }
    let page_size = page_size(words)?;
    let mut about = About::new(Format::TraceDat { version });
    about.endian = if words.big {
        Endian::Big
    } else {
        Endian::Little
    };
    let meta = Meta {
        about,
        loss: Loss::default(),
        described: Described::default(),
        buffers: Vec::new(),
        page_size,
    };
    Ok((version, meta))
}

/// A page size, checked: everything that follows is laid out by it.
pub(super) fn page_size(words: &mut impl Words) -> Result<u32, Fault> {
    let place = words.place();
    let size = words.u32("the page size")?;
    if !(512..=PAGE_MAX).contains(&size) {
        return Err(Fault::new(
            place,
            format!("a page has {size} bytes; expected 512 to {PAGE_MAX}"),
        ));
    }
    Ok(size)
}

impl Meta {
    /// Adds an instance, cutting the data of its CPUs to what the file holds.
    pub fn buffer(&mut self, input: &Input, name: String, page_size: u32, cpus: Vec<CpuData>) {
        for cpu in &cpus {
            let end = cpu.offset.saturating_add(cpu.size);
            if cpu.packing == Packing::None && end > input.len() {
                let missing = end - input.len().max(cpu.offset).min(end);
                self.loss.cut(Place::Byte(input.len()), Some(missing));
            }
        }
        let page_size = usize::try_from(page_size).unwrap_or(4096);
        self.buffers.push(Buffer {
            name,
            page_size,
            cpus,
        });
    }
}
