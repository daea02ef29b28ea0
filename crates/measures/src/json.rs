// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reading with errors that name the place, and writing that always gives the same bytes.

use std::io::{self, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::ser::Formatter;

use crate::error::Error;

/// What every document of ours says first.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    schema: String,
    #[serde(default)]
    version: u64,
}

/// Parses a document of `schema`, at most of `newest` version.
///
/// The head is read first and leniently, so that a document of a newer version is named as such
/// and not taken for a damaged one.
pub(crate) fn parse<T: DeserializeOwned>(
    origin: &str,
    bytes: &[u8],
    schema: &'static str,
    newest: u32,
) -> Result<T, Error> {
    let head: Head =
        serde_json::from_slice(bytes).map_err(|error| syntax(origin, &error, String::new()))?;
    if head.schema != schema {
        return Err(Error::WrongSchema {
            origin: origin.to_owned(),
            found: head.schema,
            expected: schema,
        });
    }
    if head.version > u64::from(newest) {
        return Err(Error::NewerVersion {
            origin: origin.to_owned(),
            schema,
            found: head.version,
            newest,
        });
    }
    let mut from = serde_json::Deserializer::from_slice(bytes);
    serde_path_to_error::deserialize(&mut from).map_err(|error| {
        let key = error.path().to_string();
        syntax(origin, error.inner(), key)
    })
}

fn syntax(origin: &str, error: &serde_json::Error, key: String) -> Error {
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    let place = format!(" at line {line} column {column}");
    Error::Syntax {
        origin: origin.to_owned(),
        line,
        column,
        text: text.strip_suffix(&place).unwrap_or(&text).to_owned(),
        key,
    }
}

/// Keys in the order of the struct, no spaces, no newline: the bytes that digests are taken of.
pub(crate) fn compact<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("our types have string keys and no failing serializers")
}

/// The same document for a person or `diff`: the outer `expanded` levels a line per value, what
/// lies deeper on one line, a newline at the end.
pub(crate) fn laid_out<T: Serialize>(value: &T, expanded: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let layout = Layout {
        expanded,
        depth: 0,
        filled: false,
    };
    let mut to = serde_json::Serializer::with_formatter(&mut bytes, layout);
    value
        .serialize(&mut to)
        .expect("our types have string keys and no failing serializers");
    bytes.push(b'\n');
    bytes
}

struct Layout {
    expanded: usize,
    depth: usize,
    filled: bool,
}

impl Layout {
    fn open<W: ?Sized + Write>(&mut self, to: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.filled = false;
        to.write_all(bracket)
    }

    fn close<W: ?Sized + Write>(&mut self, to: &mut W, bracket: &[u8]) -> io::Result<()> {
        if self.filled && self.depth <= self.expanded {
            self.depth -= 1;
            self.new_line(to)?;
        } else {
            self.depth -= 1;
        }
        self.filled = true;
        to.write_all(bracket)
    }

    fn next<W: ?Sized + Write>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        let inline = self.depth > self.expanded;
        match (first, inline) {
            (true, true) => Ok(()),
            (false, true) => to.write_all(b", "),
            (_, false) => {
                if !first {
                    to.write_all(b",")?;
                }
                self.new_line(to)
            }
        }
    }

    fn new_line<W: ?Sized + Write>(&self, to: &mut W) -> io::Result<()> {
        to.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| to.write_all(b"  "))
    }
}

impl Formatter for Layout {
    fn begin_array<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.open(to, b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.close(to, b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        self.next(to, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, _to: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }

    fn begin_object<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.open(to, b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.close(to, b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        self.next(to, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        to.write_all(b": ")
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, _to: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }
}
