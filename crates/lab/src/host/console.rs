// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the serial console of a host: the program's words between two lines of the init.
//!
//! The terminal's line ends (CR LF) become LF. Left out: which words are the program's and
//! which the kernel prints meanwhile.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use crate::error::LabError;

/// Stands alone in the line before the program's words.
const BEGINS: &[u8] = b"steady-host: begins\n";
/// Stands behind the program's last word, with the exit code and a line end behind it.
const ENDED: &[u8] = b"steady-host: ended with ";
/// How a panic of the kernel begins.
const PANIC: &str = "Kernel panic";

/// What the console said so far.
#[derive(Debug, Default)]
pub struct Console {
    /// Bytes of the file that were read.
    read: u64,
    /// Everything, without carriage returns.
    text: Vec<u8>,
    /// How much of it was handed on.
    handed: usize,
    began: bool,
    code: Option<u8>,
}

impl Console {
    /// Reads what has come since and returns the program's words among it. A file that is not there
    /// yet has said nothing.
    ///
    /// # Errors
    /// [`LabError::Artifact`].
    pub fn read(&mut self, path: &Path) -> Result<Vec<u8>, LabError> {
        let Ok(mut file) = File::open(path) else {
            return Ok(Vec::new());
        };
        let failed = |error| LabError::io("read", path, error);
        file.seek(SeekFrom::Start(self.read)).map_err(failed)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        self.read += bytes.len() as u64;
        Ok(self.take(&bytes))
    }

    fn take(&mut self, bytes: &[u8]) -> Vec<u8> {
        assert!(self.handed <= self.text.len(), "handed on what was read");
        self.text
            .extend(bytes.iter().filter(|&&byte| byte != b'\r'));
        if !self.began {
            let Some(at) = find(&self.text, BEGINS) else {
                return Vec::new();
            };
            self.began = true;
            self.handed = at + BEGINS.len();
        }
        if self.code.is_some() {
            return Vec::new();
        }
        let rest = &self.text[self.handed..];
        let mut ready = match find(rest, ENDED) {
            Some(at) => {
                self.code = code_of(&rest[at + ENDED.len()..]);
                at
            }
            // What may be the beginning of the last line waits for its rest.
            None => rest.len().saturating_sub(ENDED.len()),
        };
        ready = ready.min(rest.len());
        let words = rest[..ready].to_vec();
        self.handed += ready;
        words
    }

    /// The program's exit code, once it has ended.
    pub fn code(&self) -> Option<u8> {
        self.code
    }

    /// How far the host has come.
    pub fn step(&self) -> &'static str {
        if self.began { "the program" } else { "boot" }
    }

    /// The line of a panic.
    pub fn panic(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.text);
        let line = text.lines().find(|line| line.contains(PANIC));
        line.map(|line| line.trim().to_owned())
    }
}

/// The number of a whole line.
fn code_of(rest: &[u8]) -> Option<u8> {
    let end = find(rest, b"\n")?;
    std::str::from_utf8(&rest[..end]).ok()?.trim().parse().ok()
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|part| part == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"SeaBIOS\r\n[    1.0] booting\r\nsteady-host: begins\r\none\r\ntwo\
                          steady-host: ended with 7\r\n";

    fn heard(pieces: impl Iterator<Item = Vec<u8>>) -> (Vec<u8>, Option<u8>) {
        let mut console = Console::default();
        let words: Vec<u8> = pieces.flat_map(|piece| console.take(&piece)).collect();
        (words, console.code())
    }

    #[test]
    fn the_words_between_the_lines_come_with_the_exit_code() {
        let (words, code) = heard([TEXT.to_vec()].into_iter());
        assert_eq!(words, b"one\ntwo");
        assert_eq!(code, Some(7));
    }

    #[test]
    fn a_console_cut_anywhere_says_the_same() {
        for size in 1..TEXT.len() {
            let (words, code) = heard(TEXT.chunks(size).map(<[u8]>::to_vec));
            assert_eq!(
                (words.as_slice(), code),
                (&b"one\ntwo"[..], Some(7)),
                "{size}"
            );
        }
    }

    #[test]
    fn a_panic_during_boot_is_told_with_its_line() {
        let mut console = Console::default();
        console.take(b"[ 1.0] Kernel panic - not syncing: no init\r\n[ 1.1] more\r\n");
        assert_eq!(console.code(), None);
        assert_eq!(console.step(), "boot");
        let line = console.panic().unwrap();
        assert!(
            line.ends_with("Kernel panic - not syncing: no init"),
            "{line}"
        );
    }
}
