// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lines without what mail, pagers and terminals put around them, in bounded memory: UTF-16 becomes
//! UTF-8, colours and overprinted letters go, and so do marks of quotation.

use std::io::{self, Read};

/// Bytes of a line that are kept; the rest of it is dropped.
const LINE: usize = 4 << 10;
/// Words of a line that are looked at.
pub(crate) const WORDS: usize = 96;
/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;

/// How letters are written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Letters {
    Bytes,
    /// UTF-16, and whether the low byte comes first.
    Wide {
        low_first: bool,
    },
}

/// Reads lines of anything.
pub(crate) struct Lines<'r> {
    reader: &'r mut dyn Read,
    letters: Option<Letters>,
    chunk: Vec<u8>,
    at: usize,
    filled: usize,
    pub number: u64,
    /// Mail wrote it as quoted-printable: `=3D` for `=`, and `=` before the end of a broken line.
    quoted_printable: bool,
}

impl<'r> Lines<'r> {
    pub fn new(reader: &'r mut dyn Read) -> Self {
        Self {
            reader,
            letters: None,
            chunk: vec![0; CHUNK],
            at: 0,
            filled: 0,
            number: 0,
            quoted_printable: false,
        }
    }

    /// Fills the chunk if all of it was taken; false at the end.
    fn fill(&mut self) -> io::Result<bool> {
        while self.at == self.filled {
            self.filled = match self.reader.read(&mut self.chunk) {
                Ok(filled) => filled,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.at = 0;
            if self.filled == 0 {
                return Ok(false);
            }
            if self.letters.is_none() {
                self.recognise();
            }
        }
        Ok(true)
    }

    fn byte(&mut self) -> io::Result<Option<u8>> {
        if !self.fill()? {
            return Ok(None);
        }
        self.at += 1;
        Ok(Some(self.chunk[self.at - 1]))
    }

    /// Adds plain bytes up to the end of the line, or of the chunk, to a line.
    fn run(&mut self, bytes: &mut Vec<u8>) -> io::Result<bool> {
        if !self.fill()? {
            return Ok(false);
        }
        if self.letters == Some(Letters::Bytes) {
            let rest = &self.chunk[self.at..self.filled];
            let run = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            let room = LINE.saturating_sub(bytes.len());
            bytes.extend_from_slice(&rest[..run.min(room)]);
            self.at += run;
            return Ok(run > 0);
        }
        Ok(false)
    }

    fn recognise(&mut self) {
        let head = &self.chunk[..self.filled];
        let (letters, skip) = match head {
            [0xff, 0xfe, ..] => (Letters::Wide { low_first: true }, 2),
            [0xfe, 0xff, ..] => (Letters::Wide { low_first: false }, 2),
            [0xef, 0xbb, 0xbf, ..] => (Letters::Bytes, 3),
            [low, 0, next, 0, ..] if *low != 0 && *next != 0 => {
                (Letters::Wide { low_first: true }, 0)
            }
            _ => (Letters::Bytes, 0),
        };
        self.letters = Some(letters);
        self.at = skip;
    }

    /// The next letter as a byte; letters beyond ASCII in UTF-16 become `?`, as no table has any
    /// that matters.
    fn letter(&mut self) -> io::Result<Option<u8>> {
        let Some(first) = self.byte()? else {
            return Ok(None);
        };
        let Some(Letters::Wide { low_first }) = self.letters else {
            return Ok(Some(first));
        };
        let second = self.byte()?.unwrap_or(0);
        let (low, high) = if low_first {
            (first, second)
        } else {
            (second, first)
        };
        Ok(Some(if high == 0 && low.is_ascii() {
            low
        } else {
            b'?'
        }))
    }

    /// Puts the next line into `line`, cleaned; false at the end.
    pub fn next(&mut self, line: &mut String) -> io::Result<bool> {
        let mut bytes = Vec::with_capacity(256);
        let mut any = false;
        loop {
            any |= self.run(&mut bytes)?;
            let Some(byte) = self.letter()? else {
                break;
            };
            any = true;
            if byte == b'\n' {
                let broken = bytes.trim_ascii_end().ends_with(b"=");
                if !(self.quoted_printable && broken) {
                    break;
                }
                bytes.truncate(bytes.trim_ascii_end().len() - 1);
                continue;
            }
            if bytes.len() < LINE {
                bytes.push(byte);
            }
        }
        self.number = self.number.saturating_add(u64::from(any));
        line.clear();
        let marked = |mark: &[u8]| memchr::memmem::find(&bytes, mark).is_some();
        self.quoted_printable |= marked(b"=3D") || marked(b"quoted-printable");
        if self.quoted_printable {
            bytes = unquoted(&bytes);
        }
        clean(&bytes, line);
        Ok(any)
    }
}

impl std::fmt::Debug for Lines<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

/// Writes a line without terminal sequences, overprinted letters and marks of quotation.
fn clean(bytes: &[u8], out: &mut String) {
    let text = String::from_utf8_lossy(bytes);
    // Most lines of a log have nothing to clean.
    if bytes
        .iter()
        .all(|byte| matches!(byte, b' '..=b'=' | b'?'..=b'~'))
    {
        out.push_str(text.trim_end());
        return;
    }
    let mut letters = text.trim_end().chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\u{1b}' => skip_sequence(&mut letters),
            '\u{8}' => {
                out.pop();
            }
            // What stood in the line before is overwritten.
            '\r' => out.clear(),
            '\t' => out.push('\t'),
            '\u{a0}' | '\u{2007}' | '\u{202f}' => out.push(' '),
            '\u{feff}' => {}
            letter if letter.is_control() => {}
            letter => out.push(letter),
        }
    }
    while let Some(inner) = out.trim_start().strip_prefix('>') {
        let inner = inner.strip_prefix(' ').unwrap_or(inner).to_owned();
        *out = inner;
    }
}

/// Each `=XX` as the byte that it stands for.
fn unquoted(bytes: &[u8]) -> Vec<u8> {
    let hex = |at: usize| {
        bytes
            .get(at)
            .and_then(|byte| char::from(*byte).to_digit(16))
    };
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(&byte) = bytes.get(at) {
        let code = hex(at + 1).zip(hex(at + 2)).filter(|_| byte == b'=');
        let code = code.and_then(|(high, low)| u8::try_from(high * 16 + low).ok());
        out.push(code.unwrap_or(byte));
        at += if code.is_some() { 3 } else { 1 };
    }
    out
}

/// Skips what follows an escape: `[1;31m`, `(B`, `]0;title` up to the bell, or one letter.
fn skip_sequence(letters: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match letters.next() {
        Some('[') => {
            while letters
                .next()
                .is_some_and(|letter| !('@'..='~').contains(&letter))
            {}
        }
        Some(']') => while letters.next().is_some_and(|letter| letter != '\u{7}') {},
        Some('(' | ')') => {
            letters.next();
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(mut bytes: &[u8]) -> Vec<String> {
        let mut lines = Lines::new(&mut bytes);
        let (mut all, mut line) = (Vec::new(), String::new());
        while lines.next(&mut line).unwrap() {
            all.push(line.clone());
        }
        all
    }

    #[test]
    fn colours_overprinting_and_quotation_go() {
        assert_eq!(lines(b"\x1b[1;31mHLT\x1b[0m 3\r\n"), ["HLT 3"]);
        assert_eq!(lines(b"H\x08HL\x08LT\x08T 1\n"), ["HLT 1"]);
        assert_eq!(lines(b"> > a\n>b\n"), ["a", "b"]);
        assert_eq!(lines(b"\x1b]0;title\x07x\x1b(B\n"), ["x"]);
    }

    #[test]
    fn utf16_becomes_utf8_with_and_without_its_mark() {
        let wide =
            |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
        let marked = [&[0xff, 0xfe][..], &wide("a b\nc")].concat();
        assert_eq!(lines(&marked), ["a b", "c"]);
        assert_eq!(lines(&wide("HLT 3\n")), ["HLT 3"]);
        let big: Vec<u8> = "xy\n".encode_utf16().flat_map(u16::to_be_bytes).collect();
        assert_eq!(lines(&[&[0xfe, 0xff][..], &big].concat()), ["xy"]);
    }

    #[test]
    fn quoted_printable_mail_is_made_whole() {
        let mail = b"Content-Transfer-Encoding: quoted-printable\nvcpu.0.time=3D5\na b=\n c\n";
        assert_eq!(lines(mail)[1..], ["vcpu.0.time=5", "a b c"]);
        assert_eq!(lines(b"a=20\n"), ["a=20"]);
    }

    #[test]
    fn a_line_without_an_end_is_cut() {
        let long = vec![b'a'; 3 * LINE];
        let all = lines(&long);
        assert_eq!((all.len(), all[0].len()), (1, LINE));
    }
}
