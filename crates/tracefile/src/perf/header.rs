// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `perf.data` says beside its records: attributes, features, descriptions of events.
//!
//! Source: `tools/perf/Documentation/perf.data-file-format.txt`.

use super::attr::Attr;
use crate::about::About;
use crate::describe::Described;
use crate::error::{Fault, Place};
use crate::input::Input;
use crate::words::{Block, FileWords, Words};

/// Features that are read.
pub(super) mod feature {
    pub const TRACING_DATA: u64 = 1;
    pub const HOSTNAME: u64 = 3;
    pub const OSRELEASE: u64 = 4;
    pub const VERSION: u64 = 5;
    pub const ARCH: u64 = 6;
    pub const NRCPUS: u64 = 7;
    pub const CPUDESC: u64 = 8;
    pub const CMDLINE: u64 = 11;
}

/// Bytes of the file's header.
const HEADER_SIZE: u64 = 104;
/// The most that a feature's block is expected to have; descriptions of all events take a few MB.
pub(super) const FEATURE_MAX: u64 = 256 << 20;
/// The most attributes; each is one event on the command line of the recording.
const ATTRS_MAX: u64 = 1 << 16;

/// What a file says before its records.
#[derive(Debug)]
pub(super) struct FileHeader {
    pub attrs: Vec<(Attr, Vec<u64>)>,
    /// Where the records are, cut to what the file has.
    pub data: std::ops::Range<u64>,
    /// Bytes of records that the header promises beyond the file's end.
    pub missing: Option<u64>,
    /// True if the recording was not ended properly: sizes and features were never filled in.
    pub unfinished: bool,
}

/// Reads the header of a file that is not in pipe mode, and its features.
pub(super) fn read(
    input: &Input,
    about: &mut About,
    described: &mut Described,
    faults: &mut Vec<Fault>,
) -> Result<FileHeader, Fault> {
    let mut words = FileWords {
        input,
        at: 8,
        big: false,
    };
    let what = "the file's header";
    let size = words.u64(what)?;
    let attr_size = words.u64(what)?;
    let attrs = (words.u64(what)?, words.u64(what)?);
    let data = (words.u64(what)?, words.u64(what)?);
    words.block(16, what)?;
    let features = words.u64(what)?;
    if size < HEADER_SIZE {
        return Err(Fault::new(
            Place::Byte(8),
            format!("the header has {size} bytes; expected {HEADER_SIZE}"),
        ));
    }
    let attrs = read_attrs(input, attrs, attr_size)?;
    let unfinished = data.1 == 0;
    let end = if unfinished {
        input.len()
    } else {
        data.0.saturating_add(data.1)
    };
    let missing = end.checked_sub(input.len()).filter(|&n| n > 0);
    let start = data.0.min(input.len());
    if !unfinished && missing.is_none() {
        read_features(input, end, features, about, described, faults);
    }
    Ok(FileHeader {
        attrs,
        data: start..end.min(input.len()).max(start),
        missing,
        unfinished,
    })
}

/// The attributes, each with the numbers that its records carry.
fn read_attrs(
    input: &Input,
    (offset, size): (u64, u64),
    each: u64,
) -> Result<Vec<(Attr, Vec<u64>)>, Fault> {
    let count = size.checked_div(each).unwrap_or(0);
    if !(64..=4096).contains(&each) || count == 0 || count > ATTRS_MAX {
        let what = format!("{size} bytes of attributes of {each} bytes each make no sense");
        return Err(Fault::new(Place::Byte(16), what));
    }
    let mut attrs = Vec::new();
    for index in 0..count {
        let at = offset.saturating_add(index * each);
        let mut words = FileWords {
            input,
            at,
            big: false,
        };
        let block = words.block(each, "an attribute")?;
        let attr = Attr::parse(&mut Block::new(&block, at, false, false))?;
        let mut section = Block::new(&block[block.len() - 16..], at + each - 16, false, false);
        let (at, size) = (
            section.u64("an attribute's ids")?,
            section.u64("an attribute's ids")?,
        );
        let ids = FileWords {
            input,
            at,
            big: false,
        }
        .block(size, "the ids of an attribute")?;
        attrs.push((attr, numbers(&ids)));
    }
    Ok(attrs)
}

/// Numbers of 8 bytes.
pub(super) fn numbers(bytes: &[u8]) -> Vec<u64> {
    bytes
        .chunks_exact(8)
        .map(|b| u64::from_le_bytes(b.try_into().unwrap_or_default()))
        .collect()
}

/// Reads the features behind the records. Damage there costs what they say, not the records.
fn read_features(
    input: &Input,
    table: u64,
    features: u64,
    about: &mut About,
    described: &mut Described,
    faults: &mut Vec<Fault>,
) {
    let mut at = table;
    for number in (0..64).filter(|n| features & (1 << n) != 0) {
        let mut words = FileWords {
            input,
            at,
            big: false,
        };
        at += 16;
        let place = words
            .u64("the table of features")
            .and_then(|o| Ok((o, words.u64("the table of features")?)));
        let result = place.and_then(|(offset, size)| {
            let wanted = matches!(number, feature::TRACING_DATA..=feature::CMDLINE);
            if !wanted || number == 2 {
                return Ok(());
            }
            if size > FEATURE_MAX {
                return Err(Fault::new(
                    Place::Byte(offset),
                    format!("feature {number} has {size} bytes"),
                ));
            }
            let block = FileWords {
                input,
                at: offset,
                big: false,
            }
            .block(size, "a feature")?;
            take_feature(number, &block, offset, about, described)
        });
        if let Err(fault) = result {
            faults.push(fault);
        }
    }
}

/// Takes what one feature says.
pub(super) fn take_feature(
    number: u64,
    block: &[u8],
    origin: u64,
    about: &mut About,
    described: &mut Described,
) -> Result<(), Fault> {
    let mut words = Block::new(block, origin, false, false);
    match number {
        feature::TRACING_DATA => tracing_data(&mut words, about, described)?,
        feature::HOSTNAME => about.hostname = Some(string(&mut words)?),
        feature::OSRELEASE => about.release = Some(string(&mut words)?),
        feature::VERSION => about.tool = Some(format!("perf {}", string(&mut words)?)),
        feature::ARCH => about.uname = Some(string(&mut words)?),
        feature::CPUDESC => about.cpu_desc = Some(string(&mut words)?),
        feature::NRCPUS => {
            words.u32("the count of CPUs")?;
            about.cpus = words.u32("the count of CPUs")?;
        }
        feature::CMDLINE => {
            let count = words.u32("the command line")?;
            let mut args = Vec::new();
            for _ in 0..count.min(4096) {
                args.push(string(&mut words)?);
            }
            about.command = Some(args.join(" "));
        }
        _ => {}
    }
    Ok(())
}

/// A string behind the size of the room it has.
fn string(words: &mut Block<'_>) -> Result<String, Fault> {
    let room = words.u32("a text of the header")?;
    let bytes = words.block(u64::from(room), "a text of the header")?;
    let end = memchr::memchr(0, &bytes).unwrap_or(bytes.len());
    Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
}

/// The descriptions of events, in the form of an early trace.dat.
pub(super) fn tracing_data(
    words: &mut Block<'_>,
    about: &mut About,
    described: &mut Described,
) -> Result<(), Fault> {
    words.expect(crate::dat::MAGIC, "the descriptions of events")?;
    let version = words.cstr("the version of the descriptions")?;
    let place = words.place();
    if words.u8("the byte order")? != 0 {
        return Err(Fault::new(
            place,
            "descriptions of events in big-endian order",
        ));
    }
    words.u8("the size of a long")?;
    words.u32("the page size")?;
    described.headers(words)?;
    described.ftrace_events(words)?;
    described.event_systems(words)?;
    let symbols = Described::sized_text(words, "the kernel's symbols")?;
    about.kallsyms = (!symbols.is_empty()).then_some(symbols);
    Described::sized_text(words, "the texts of trace_printk")?;
    if version != "0.5" {
        described.cmdlines(words)?;
    }
    Ok(())
}
