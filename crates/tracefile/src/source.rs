// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opening a trace of any format, recognised by its first bytes.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::about::About;
use crate::dat::DatSource;
use crate::error::Error;
use crate::input::Input;
use crate::loss::Loss;
use crate::record::Record;

/// How many bytes are looked at to recognise a trace.
const HEAD: usize = 64;

/// An open trace that gives its records one after the other.
pub trait Source: Send {
    /// What the trace says about itself. In text traces it grows as records are read.
    fn about(&self) -> &About;

    /// The next record in the order of time over all CPUs; `None` at the end.
    ///
    /// # Errors
    /// If the operating system cannot read the file. Damage in the trace is no error here: it is
    /// stepped over and noted in [`Self::loss`].
    fn next(&mut self) -> Result<Option<Record<'_>>, Error>;

    /// What is missing from the trace; final once [`Self::next`] has given `None`.
    fn loss(&self) -> &Loss;
}

/// Opens the trace at `path`, whatever its format and name.
///
/// # Errors
/// If the file cannot be read, is empty, is no trace, or is damaged before its first record.
pub fn open(path: &Path) -> Result<Box<dyn Source>, Error> {
    let name = path.display().to_string();
    let io = |source| Error::Io {
        name: name.clone(),
        source,
    };
    let file = File::open(path).map_err(io)?;
    let meta = file.metadata().map_err(io)?;
    if meta.is_dir() {
        return Err(Error::Foreign {
            name,
            what: "it is a folder".into(),
        });
    }
    if !meta.is_file() {
        return open_stream(Box::new(file), &name);
    }
    let input = Input::new(file, &name).map_err(io)?;
    let mut head = [0; HEAD];
    let len = usize::try_from(input.len()).unwrap_or(HEAD).min(HEAD);
    input.read_exact_at(&mut head[..len], 0).map_err(io)?;
    match recognise(&head[..len]) {
        Kind::Empty => Err(Error::Empty { name }),
        Kind::TraceDat => Ok(Box::new(DatSource::open(input)?)),
        Kind::Foreign(what) => Err(Error::Foreign { name, what }),
    }
}

/// Opens a trace that comes from a pipe. `name` is what errors call it.
///
/// A `trace.dat`, and a `perf.data` that was not written in pipe mode, have parts that lie far
/// apart: they are first copied to an unnamed file in the folder for temporary files.
///
/// # Errors
/// As [`open`]; also if there is no room for the copy.
pub fn open_stream(mut reader: Box<dyn Read + Send>, name: &str) -> Result<Box<dyn Source>, Error> {
    let io = |source| Error::Io {
        name: name.to_owned(),
        source,
    };
    let mut head = Vec::with_capacity(HEAD);
    reader
        .by_ref()
        .take(64)
        .read_to_end(&mut head)
        .map_err(io)?;
    let kind = recognise(&head);
    let whole = io::Cursor::new(head).chain(reader);
    match kind {
        Kind::Empty => Err(Error::Empty {
            name: name.to_owned(),
        }),
        Kind::TraceDat => {
            let input = Input::spool(whole, name).map_err(io)?;
            Ok(Box::new(DatSource::open(input)?))
        }
        Kind::Foreign(what) => Err(Error::Foreign {
            name: name.to_owned(),
            what,
        }),
    }
}

/// What the first bytes say.
enum Kind {
    Empty,
    TraceDat,
    Foreign(String),
}

fn recognise(head: &[u8]) -> Kind {
    if head.is_empty() {
        return Kind::Empty;
    }
    if head.starts_with(crate::dat::MAGIC) {
        return Kind::TraceDat;
    }
    Kind::Foreign(format!(
        "it begins with `{}`",
        head[..head.len().min(16)].escape_ascii()
    ))
}
