// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Text in another dress: UTF-16, as some editors save it, and quoted-printable, as mail carries
//! it (RFC 2045, section 6.7). It is decided on the first bytes; plain text passes as it is.

use std::io::{self, Read};

/// Bytes by which it is decided, and that are read at once.
const SAMPLE: usize = 64 << 10;
/// The longest line of quoted-printable text, with room for a return.
const LONGEST: usize = 78;
/// Lines that go on, from which on it is taken for quoted-printable.
const BROKEN: usize = 2;

/// How text is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dress {
    Utf16 { big: bool },
    QuotedPrintable,
}

impl Dress {
    fn of(sample: &[u8]) -> Option<Self> {
        match sample {
            [0xff, 0xfe, ..] => return Some(Self::Utf16 { big: false }),
            [0xfe, 0xff, ..] => return Some(Self::Utf16 { big: true }),
            _ => {}
        }
        let lines = || sample.split(|b| *b == b'\n');
        let broken = lines().filter(|line| line.trim_ascii_end().ends_with(b"="));
        if broken.count() < BROKEN || lines().any(|line| line.len() > LONGEST) {
            return None;
        }
        // There an equals sign stands for nothing else.
        let mut signs = memchr::memchr_iter(b'=', sample);
        let mine = |at: usize| match sample.get(at + 1..) {
            Some([b'\n', ..] | [b'\r', b'\n', ..] | [] | [_]) => true,
            Some(rest) => hex(rest).is_some(),
            None => true,
        };
        signs.all(mine).then_some(Self::QuotedPrintable)
    }
}

/// The byte of two hexadecimal digits, of which letters are upper case.
fn hex(text: &[u8]) -> Option<u8> {
    let digit = |b: &u8| match b {
        b'0'..=b'9' => Some(b - b'0'),
        b'A'..=b'F' => Some(b - b'A' + 10),
        _ => None,
    };
    let [high, low] = text.first_chunk::<2>()?;
    Some(digit(high)? << 4 | digit(low)?)
}

/// The text as plain bytes.
pub(super) fn plain(mut reader: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    let mut sample = Vec::new();
    (&mut reader)
        .take(u64::try_from(SAMPLE).unwrap_or(u64::MAX))
        .read_to_end(&mut sample)?;
    let dress = Dress::of(&sample);
    let text: Box<dyn Read + Send> = Box::new(io::Cursor::new(sample).chain(reader));
    let Some(dress) = dress else {
        return Ok(text);
    };
    Ok(Box::new(Undressed {
        reader: text,
        dress,
        raw: Vec::new(),
        out: Vec::new(),
        given: 0,
        ended: false,
    }))
}

/// Gives the text without its dress.
struct Undressed {
    reader: Box<dyn Read + Send>,
    dress: Dress,
    /// What was read and is not yet plain.
    raw: Vec<u8>,
    out: Vec<u8>,
    given: usize,
    ended: bool,
}

impl Undressed {
    fn fill(&mut self) -> io::Result<()> {
        self.out.clear();
        self.given = 0;
        while self.out.is_empty() && !self.ended {
            let mut block = [0; 8 << 10];
            let n = match self.reader.read(&mut block) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            self.ended = n == 0;
            self.raw.extend_from_slice(&block[..n]);
            match self.dress {
                Dress::Utf16 { big } => self.utf16(big),
                Dress::QuotedPrintable => self.quoted_printable(),
            }
        }
        Ok(())
    }

    fn utf16(&mut self, big: bool) {
        let whole = self.raw.len() & !1;
        let units = self.raw[..whole].chunks_exact(2).map(|pair| match big {
            true => u16::from_be_bytes([pair[0], pair[1]]),
            false => u16::from_le_bytes([pair[0], pair[1]]),
        });
        // A pair of units that is cut here gives two replacements: names of tasks are ASCII.
        let text = char::decode_utf16(units.filter(|&unit| unit != 0xfeff));
        let text: String = text
            .map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect();
        self.out.extend_from_slice(text.as_bytes());
        self.raw.drain(..whole);
    }

    fn quoted_printable(&mut self) {
        let mut at = 0;
        while let Some(&byte) = self.raw.get(at) {
            let rest = &self.raw[at + 1..];
            if byte != b'=' {
                self.out.push(byte);
                at += 1;
            } else if rest.len() < 2 && !self.ended {
                break;
            } else if let Some(byte) = hex(rest) {
                self.out.push(byte);
                at += 3;
            } else if rest.starts_with(b"\r\n") {
                at += 3;
            } else if rest.starts_with(b"\n") {
                at += 2;
            } else {
                self.out.push(byte);
                at += 1;
            }
        }
        self.raw.drain(..at);
    }
}

impl Read for Undressed {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.given == self.out.len() {
            self.fill()?;
        }
        let rest = &self.out[self.given..];
        let len = rest.len().min(out.len());
        out[..len].copy_from_slice(&rest[..len]);
        self.given += len;
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut reader = plain(Box::new(io::Cursor::new(text.to_vec()))).expect("it is memory");
        reader.read_to_end(&mut out).expect("it is memory");
        out
    }

    #[test]
    fn broken_lines_and_signs_of_mail_become_what_they_were() {
        let mailed = b"prev_comm=3DCPU 0/KV=\nM prev_pid=3D7 =\r\nnext\n";
        assert_eq!(read(mailed), b"prev_comm=CPU 0/KVM prev_pid=7 next\n");
    }

    #[test]
    fn text_with_plain_signs_is_not_touched() {
        let plain = b"prev_comm=x prev_pid=77 a=\nb=\nc\n";
        assert_eq!(read(plain), plain);
    }

    #[test]
    fn utf16_of_either_order_is_read() {
        let text = "CPU 0/KVM\n";
        let bytes = |order: fn(u16) -> [u8; 2]| -> Vec<u8> {
            let units = std::iter::once(0xfeff).chain(text.encode_utf16());
            units.flat_map(order).collect()
        };
        assert_eq!(read(&bytes(u16::to_le_bytes)), text.as_bytes());
        assert_eq!(read(&bytes(u16::to_be_bytes)), text.as_bytes());
    }
}
