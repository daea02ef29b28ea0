// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the guest kernel's panic message in its console output.
//!
//! The first line with the marker is kept, cut to [`LINE_MAX`] bytes. Output comes in pieces of any
//! size, so a line is put together across them; memory stays bounded however long a line is.

/// What Linux prints first in `panic()` (`kernel/panic.c`).
pub const MARKER: &str = "Kernel panic - not syncing";
/// The most bytes of a line that are looked at and kept.
pub const LINE_MAX: usize = 1024;

/// Looks for the panic line in a stream of console bytes.
#[derive(Debug, Default)]
pub struct PanicScan {
    line: Vec<u8>,
    found: Option<String>,
}

impl PanicScan {
    /// Takes the next bytes of the console.
    pub fn feed(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if byte == b'\n' {
                self.end_line();
            } else if self.line.len() < LINE_MAX {
                self.line.push(byte);
            }
        }
        assert!(self.line.len() <= LINE_MAX);
    }

    /// Ends the stream and returns the panic line, if there was one. A last line without an end
    /// counts: the guest may reset before it has printed one.
    #[must_use]
    pub fn finish(mut self) -> Option<String> {
        self.end_line();
        self.found
    }

    fn end_line(&mut self) {
        if self.found.is_none() {
            let text = String::from_utf8_lossy(&self.line);
            if text.contains(MARKER) {
                self.found = Some(text.trim().to_owned());
            }
        }
        self.line.clear();
    }
}
