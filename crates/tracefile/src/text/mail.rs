// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Text that came by mail: quoted with `> `, and its long lines broken.
//!
//! Whether it did is decided on its first bytes; a trace that did not is passed on as it is. Lines
//! are joined where one does not begin as a record does and follows one that does.

use std::io::{self, BufRead, BufReader, Read};

use super::head::{self, Style};
use super::{is_frame, is_loss, is_remark};

/// Bytes by which it is decided.
const SAMPLE: usize = 64 << 10;
/// Mail breaks lines no later than this.
const LONGEST_BROKEN: usize = 110;
/// Pieces of a record but the first, at most, on the average.
const PIECES_MAX: usize = 6;
/// The longest record that is put together again; more is left in pieces.
const LONGEST_WHOLE: usize = 16 << 10;

/// The text with its lines whole.
pub(super) fn whole(mut reader: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    let mut sample = Vec::new();
    (&mut reader)
        .take(u64::try_from(SAMPLE).unwrap_or(u64::MAX))
        .read_to_end(&mut sample)?;
    let damage = Damage::of(&sample);
    let text = io::Cursor::new(sample).chain(reader);
    if damage == Damage::default() {
        return Ok(Box::new(text));
    }
    Ok(Box::new(Mended {
        lines: BufReader::with_capacity(SAMPLE, Box::new(text)),
        damage,
        record: Vec::new(),
        line: Vec::new(),
        out: Vec::new(),
        given: 0,
    }))
}

/// What mail did to a text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Damage {
    quoted: bool,
    broken: bool,
}

impl Damage {
    fn of(sample: &[u8]) -> Self {
        // The last line of the sample may be cut.
        let lines: Vec<&[u8]> = sample.split(|b| *b == b'\n').collect();
        let lines = &lines[..lines.len() - usize::from(lines.len() > 1)];
        let full = lines.iter().filter(|line| !line.trim_ascii().is_empty());
        let quoted = full
            .clone()
            .filter(|line| unquoted(line).len() < line.len());
        let quoted = quoted.count() * 2 > full.clone().count();
        let plain = |line: &[u8]| -> Vec<u8> {
            let line = if quoted { unquoted(line) } else { line };
            line.trim_ascii_end().to_vec()
        };
        let plain: Vec<Vec<u8>> = full.map(|line| plain(line)).collect();
        Self {
            quoted,
            broken: is_broken(&plain),
        }
    }
}

/// Whether joining lines makes records of them.
fn is_broken(lines: &[Vec<u8>]) -> bool {
    if lines.iter().any(|line| line.len() > LONGEST_BROKEN) {
        return false;
    }
    let longest = lines.iter().map(Vec::len).max().unwrap_or(0);
    let mut joined: Vec<Vec<u8>> = Vec::new();
    // A line is broken where its next word does not fit; blanks that were lost there hide it.
    let (mut joins, mut fitting, mut before_len) = (0_usize, 0_usize, 0);
    for line in lines {
        match joined.last_mut() {
            Some(before) if continues(line) => {
                let word = line.trim_ascii_start().split(|b| *b == b' ').next();
                joins += 1;
                fitting += usize::from(before_len + 1 + word.map_or(0, <[u8]>::len) < longest);
                join(before, line);
            }
            _ => joined.push(line.clone()),
        }
        before_len = line.len();
    }
    if joins > 0 && fitting * 3 >= joins * 2 {
        return false;
    }
    let is_record = |line: &&Vec<u8>| {
        let style = [Style::Ftrace, Style::Perf].into_iter();
        style
            .clone()
            .any(|style| head::parse(line, style).is_some())
    };
    let odd = |lines: &[Vec<u8>]| {
        let odd = lines
            .iter()
            .filter(|line| !is_record(line) && continues(line));
        odd.count()
    };
    let (before, after) = (odd(lines), odd(&joined));
    let records = joined.iter().filter(is_record).count();
    // A log of another kind has no records at all, or few among many lines.
    if before > records * PIECES_MAX {
        return false;
    }
    before * 10 > records && after * 4 < before && records > 0
}

/// Whether a line goes on with the one before.
fn continues(line: &[u8]) -> bool {
    let text = line.trim_ascii();
    !(text.is_empty()
        || text.starts_with(b"#")
        || is_loss(text)
        || is_remark(text)
        || is_frame(line)
        || head::begins(line))
}

fn join(record: &mut Vec<u8>, line: &[u8]) {
    record.push(b' ');
    record.extend_from_slice(line.trim_ascii());
}

/// A line without its marks of quotation.
fn unquoted(line: &[u8]) -> &[u8] {
    let mut rest = line;
    while let Some(inner) = rest.trim_ascii_start().strip_prefix(b">") {
        rest = inner;
    }
    // One blank belongs to the mark, others to the text.
    if rest.len() < line.len() {
        rest = rest.strip_prefix(b" ").unwrap_or(rest);
    }
    rest
}

/// Gives the text as it was before it was mailed.
struct Mended {
    lines: BufReader<Box<dyn Read + Send>>,
    damage: Damage,
    /// The record that may go on.
    record: Vec<u8>,
    line: Vec<u8>,
    out: Vec<u8>,
    given: usize,
}

impl Mended {
    /// Makes `out` the next whole line; false at the end.
    fn next(&mut self) -> io::Result<bool> {
        self.out.clear();
        self.given = 0;
        while self.out.is_empty() {
            self.line.clear();
            let limit = u64::try_from(LONGEST_WHOLE).unwrap_or(u64::MAX);
            let read = (&mut self.lines)
                .take(limit)
                .read_until(b'\n', &mut self.line)?;
            let plain = if self.damage.quoted {
                unquoted(&self.line)
            } else {
                &self.line
            };
            let goes_on = self.damage.broken && read > 0 && continues(plain);
            if goes_on && !self.record.is_empty() && self.record.len() < LONGEST_WHOLE {
                join(&mut self.record, plain);
                continue;
            }
            if !self.record.is_empty() {
                std::mem::swap(&mut self.out, &mut self.record);
                self.out.push(b'\n');
            }
            self.record.clear();
            self.record.extend_from_slice(plain.trim_ascii_end());
            if read == 0 {
                return Ok(!self.out.is_empty());
            }
        }
        Ok(true)
    }
}

impl Read for Mended {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.given == self.out.len() && !self.next()? {
            return Ok(0);
        }
        let rest = &self.out[self.given..];
        let len = rest.len().min(out.len());
        out[..len].copy_from_slice(&rest[..len]);
        self.given += len;
        Ok(len)
    }
}
