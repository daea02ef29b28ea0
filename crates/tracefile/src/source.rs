// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opening a trace of any format, recognised by its first bytes.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use steady_unpack::{Member, Packing};

use crate::about::About;
use crate::dat::DatSource;
use crate::error::{Error, Place};
use crate::input::Input;
use crate::loss::Loss;
use crate::packed::{Counted, PackedSource, Progress, Unpacked};
use crate::perf::{FolderSource, PerfSource};
use crate::perfetto::PerfettoSource;
use crate::record::Record;
use crate::text::TextSource;

/// How many bytes are looked at to recognise a trace: the mark of a tar archive stands far behind.
const HEAD: usize = 512;
/// Files of an archive that an error names.
const NAMED: usize = 4;

/// An open trace that gives its records one after the other.
pub trait Source: Send {
    /// What the trace says about itself. In text traces it grows as records are read.
    fn about(&self) -> &About;

    /// The next record in the order of time over all CPUs; `None` at the end.
    ///
    /// # Errors
    /// If the operating system cannot read the file. Damage in the trace is not an error here: it
    /// is stepped over and noted in [`Self::loss`].
    fn next(&mut self) -> Result<Option<Record<'_>>, Error>;

    /// What is missing from the trace; final once [`Self::next`] has given `None`.
    fn loss(&self) -> &Loss;
}

/// Opens the trace at `path`, whatever its format and name. It may be packed by gzip, zstd, xz or
/// bzip2, or be the one file of a zip archive; a folder may be what `perf record --threads` wrote.
///
/// # Errors
/// If the file cannot be read, is empty, is not a trace, or is damaged before its first record.
pub fn open(path: &Path) -> Result<Box<dyn Source>, Error> {
    let name = path.display().to_string();
    let io = |source| Error::Io {
        name: name.clone(),
        source,
    };
    let file = File::open(path).map_err(io)?;
    let meta = file.metadata().map_err(io)?;
    if meta.is_dir() {
        return Ok(Box::new(FolderSource::open(path)?));
    }
    if !meta.is_file() {
        return open_stream(Box::new(file), &name);
    }
    let input = Input::new(file, &name).map_err(io)?;
    let mut head = [0; HEAD];
    let len = usize::try_from(input.len()).unwrap_or(HEAD).min(HEAD);
    input.read_exact_at(&mut head[..len], 0).map_err(io)?;
    match recognise(&head[..len]) {
        Kind::TraceDat => Ok(Box::new(DatSource::open(input)?)),
        Kind::Perf { .. } => Ok(Box::new(PerfSource::open(input)?)),
        Kind::Packed(Packing::Zip) => zipped(input.into_file(), &name),
        kind => stream(kind, Box::new(input.into_file()), &name),
    }
}

/// Opens a trace that comes from a pipe. `name` is what errors call it.
///
/// A `trace.dat`, and a `perf.data` that was not written in pipe mode, have parts that lie far
/// apart: they are first copied to an unnamed file in the folder for temporary files.
///
/// # Errors
/// As [`open`]; also if there is no room for the copy.
pub fn open_stream(reader: Box<dyn Read + Send>, name: &str) -> Result<Box<dyn Source>, Error> {
    let (kind, reader) = begin(reader, name)?;
    stream(kind, reader, name)
}

/// Looks at the first bytes of a stream; gives it back with them.
fn begin(
    mut reader: Box<dyn Read + Send>,
    name: &str,
) -> Result<(Kind, Box<dyn Read + Send>), Error> {
    let mut head = Vec::with_capacity(HEAD);
    (&mut reader)
        .take(HEAD as u64)
        .read_to_end(&mut head)
        .map_err(|source| Error::Io {
            name: name.to_owned(),
            source,
        })?;
    let kind = recognise(&head);
    Ok((kind, Box::new(io::Cursor::new(head).chain(reader))))
}

/// Opens a trace of a known kind that is read from its start to its end.
fn stream(
    kind: Kind,
    mut reader: Box<dyn Read + Send>,
    name: &str,
) -> Result<Box<dyn Source>, Error> {
    let io = |source| Error::Io {
        name: name.to_owned(),
        source,
    };
    match kind {
        Kind::Empty => Err(Error::Empty {
            name: name.to_owned(),
        }),
        Kind::BigPerf => Err(big_perf(name)),
        Kind::TraceDat => Ok(Box::new(DatSource::open(
            Input::spool(reader, name).map_err(io)?,
        )?)),
        Kind::Perf { pipe: true } => {
            io::copy(&mut reader.by_ref().take(16), &mut io::sink()).map_err(io)?;
            Ok(Box::new(PerfSource::pipe(reader, name)?))
        }
        Kind::Perf { pipe: false } => Ok(Box::new(PerfSource::open(
            Input::spool(reader, name).map_err(io)?,
        )?)),
        Kind::Packed(Packing::Zip) => {
            zipped(Input::spool(reader, name).map_err(io)?.into_file(), name)
        }
        Kind::Packed(packing) => unpacked(reader, |counted| packing.decoder(counted), name),
        Kind::Unread(what) => Err(Error::Unsupported {
            name: name.to_owned(),
            place: Place::Byte(0),
            what: what.to_owned(),
        }),
        Kind::Perfetto => Ok(Box::new(PerfettoSource::open(reader, name)?)),
        Kind::Text => Ok(Box::new(TextSource::open(reader, name)?)),
    }
}

/// Opens the one file of a zip archive.
fn zipped(mut archive: File, name: &str) -> Result<Box<dyn Source>, Error> {
    let (member, deflated) = only_member(&archive, name)?;
    let io = |source| Error::Io {
        name: name.to_owned(),
        source,
    };
    archive.seek(SeekFrom::Start(member.start)).map_err(io)?;
    let member = archive.take(member.packed_len);
    let decode = |counted: Counted<Box<dyn Read + Send>>| -> io::Result<Box<dyn Read + Send>> {
        Ok(if deflated {
            Box::new(flate2::read::DeflateDecoder::new(counted))
        } else {
            Box::new(counted)
        })
    };
    unpacked(Box::new(member), decode, name)
}

/// The one file in a zip archive, and whether it is deflated there.
fn only_member(archive: &File, name: &str) -> Result<(Member, bool), Error> {
    let place = Place::Byte(0);
    let unsupported = |what: String| Error::Unsupported {
        name: name.to_owned(),
        place,
        what,
    };
    let members = steady_unpack::members(archive).map_err(|error| Error::Malformed {
        name: name.to_owned(),
        place,
        what: format!("the directory of the zip archive cannot be read ({error}); is it whole?"),
    })?;
    let own = |of: &Member| !of.name.ends_with('/') && !of.name.starts_with("__MACOSX/");
    let mut own: Vec<Member> = members.into_iter().filter(own).collect();
    if own.len() != 1 {
        let some = own.iter().take(NAMED).map(|member| member.name.as_str());
        let some = some.collect::<Vec<_>>().join(", ");
        return Err(unsupported(format!(
            "a zip archive of {} files ({some}); expected one: unpack it and name the trace",
            own.len()
        )));
    }
    let only = own.remove(0);
    let deflated = only.deflated.clone();
    let deflated = deflated
        .map_err(|what| unsupported(format!("the archive's file is {what}: unpack it yourself")))?;
    Ok((only, deflated))
}

/// Opens what `decode` makes of packed bytes.
fn unpacked(
    reader: Box<dyn Read + Send>,
    decode: impl FnOnce(Counted<Box<dyn Read + Send>>) -> io::Result<Box<dyn Read + Send>>,
    name: &str,
) -> Result<Box<dyn Source>, Error> {
    let progress = Arc::<Progress>::default();
    let counted = Counted {
        reader,
        progress: Arc::clone(&progress),
    };
    let decoder = decode(counted).map_err(|source| Error::Io {
        name: name.to_owned(),
        source,
    })?;
    let unpacked = Unpacked {
        decoder,
        progress: Arc::clone(&progress),
    };
    PackedSource::open(inner(Box::new(unpacked), name), progress, name)
}

/// Opens what was packed as a whole. Packed twice it is not a trace.
fn inner(reader: Box<dyn Read + Send>, name: &str) -> Result<Box<dyn Source>, Error> {
    let (kind, reader) = begin(reader, name)?;
    match kind {
        Kind::Packed(_) => Err(Error::Foreign {
            name: name.to_owned(),
            what: "it is compressed twice".into(),
        }),
        kind => stream(kind, reader, name),
    }
}

/// What the first bytes say.
enum Kind {
    Empty,
    TraceDat,
    Perf {
        pipe: bool,
    },
    BigPerf,
    Packed(Packing),
    /// A packing that is not read, and what to do.
    Unread(&'static str),
    Perfetto,
    /// Text, or nothing that is known; its lines will show it.
    Text,
}

fn recognise(head: &[u8]) -> Kind {
    if head.is_empty() {
        return Kind::Empty;
    }
    if head.starts_with(crate::dat::MAGIC) {
        return Kind::TraceDat;
    }
    if head.starts_with(crate::perf::MAGIC) {
        return Kind::Perf {
            pipe: head.get(8..16) == Some(&16_u64.to_le_bytes()),
        };
    }
    if head.starts_with(crate::perf::MAGIC_BIG) {
        return Kind::BigPerf;
    }
    if let Some(packing) = Packing::of(head) {
        return Kind::Packed(packing);
    }
    if let Some(what) = steady_unpack::unread(head) {
        return Kind::Unread(what);
    }
    if crate::perfetto::is_trace(head) {
        return Kind::Perfetto;
    }
    Kind::Text
}

fn big_perf(name: &str) -> Error {
    Error::Unsupported {
        name: name.to_owned(),
        place: Place::Byte(0),
        what: "perf.data of a big-endian machine, which is not read; save what `perf script` \
               prints there and read that"
            .into(),
    }
}
