// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lines of a stream, through a window of bounded size.

use std::io::{self, Read};
use std::ops::Range;

/// Bytes read at once.
const WINDOW: usize = 256 << 10;
/// The longest line that is kept; the kernel prints at most 8 KB for an event.
const LINE_MAX: usize = 1 << 20;

/// One line, without its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line {
    /// At these bytes of [`Lines::bytes`].
    Whole(Range<usize>),
    /// The last one, which no line feed ends.
    Cut(Range<usize>),
    /// Longer than any event prints; it was stepped over.
    TooLong,
}

/// Reads lines.
pub(super) struct Lines {
    reader: Box<dyn Read + Send>,
    /// `at..len` of it is what was read and not yet given.
    buffer: Vec<u8>,
    at: usize,
    len: usize,
    number: u64,
    ended: bool,
    /// Inside a line that is too long.
    skipping: bool,
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl Lines {
    pub fn new(reader: Box<dyn Read + Send>) -> Self {
        Self {
            reader,
            buffer: Vec::new(),
            at: 0,
            len: 0,
            number: 0,
            ended: false,
            skipping: false,
        }
    }

    /// The number of the line given last; the first is 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        self.buffer.get(range).unwrap_or_default()
    }

    /// The next line; `None` at the end.
    pub fn next(&mut self) -> io::Result<Option<Line>> {
        let mut searched = 0;
        loop {
            let rest = &self.buffer[self.at..self.len];
            if let Some(found) = memchr::memchr(b'\n', &rest[searched..]) {
                let start = self.at;
                let mut end = start + searched + found;
                self.at = end + 1;
                self.number += 1;
                if std::mem::take(&mut self.skipping) {
                    return Ok(Some(Line::TooLong));
                }
                if end > start && self.buffer[end - 1] == b'\r' {
                    end -= 1;
                }
                return Ok(Some(Line::Whole(start..end)));
            }
            searched = rest.len();
            if self.ended {
                return Ok(self.last());
            }
            if searched > LINE_MAX || self.skipping {
                self.skipping = true;
                self.at = self.len;
                searched = 0;
            }
            self.fill()?;
        }
    }

    /// What stands behind the last line feed.
    fn last(&mut self) -> Option<Line> {
        let rest = self.at..self.len;
        if rest.is_empty() && !self.skipping {
            return None;
        }
        self.at = self.len;
        self.number += 1;
        Some(if std::mem::take(&mut self.skipping) {
            Line::TooLong
        } else {
            Line::Cut(rest)
        })
    }

    fn fill(&mut self) -> io::Result<()> {
        self.buffer.copy_within(self.at..self.len, 0);
        self.len -= self.at;
        self.at = 0;
        if self.buffer.len() < self.len + WINDOW / 2 {
            self.buffer.resize(self.len + WINDOW, 0);
        }
        let n = loop {
            match self.reader.read(&mut self.buffer[self.len..]) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        self.len += n;
        assert!(
            self.len <= self.buffer.len(),
            "a reader gives no more than there is room for"
        );
        assert!(self.at == 0, "what was given is out of the window");
        self.ended = n == 0;
        Ok(())
    }
}
