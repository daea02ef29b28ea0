// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the kernel says while a program runs (Documentation/ABI/testing/dev-kmsg, Linux 6.12).

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;

use steady_agent::complaint::complaint;

use crate::system::{Doing, Failure};

const PATH: &str = "/dev/kmsg";
/// Longest record, in bytes.
const RECORD_MAX: usize = 8 << 10;
/// Most records that are kept at once: a flood of them says no more than its beginning. Complaints
/// have as much room of their own.
const KEPT_MAX: usize = 40;
/// The kernel's `KERN_WARNING`; lower is more severe.
const WARNING: u32 = 4;

/// The records of the kernel's log, from where it was opened.
#[derive(Debug)]
pub struct KernelLog(File);

impl KernelLog {
    /// Opens the log behind what was said before.
    pub fn open() -> Result<Self, Failure> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(PATH)
            .doing(|| format!("open {PATH}"))?;
        let mut log = Self(file);
        log.warnings()?;
        Ok(log)
    }

    /// Text of the records of level `warning` and above since the last call.
    pub fn warnings(&mut self) -> Result<Vec<String>, Failure> {
        let mut found = Kept::default();
        let mut record = vec![0; RECORD_MAX];
        loop {
            let length = match self.0.read(&mut record) {
                Ok(length) => length,
                // Records were overwritten before they were read; the next ones are there.
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(found.texts),
                Err(error) => return Err(error).doing(|| format!("read {PATH}")),
            };
            let text = String::from_utf8_lossy(&record[..length]);
            if let Some(text) = warning(&text) {
                found.take(text);
            }
        }
    }
}

/// What is kept of the records, in their order.
#[derive(Debug, Default)]
struct Kept {
    texts: Vec<String>,
    complaints: usize,
}

impl Kept {
    fn take(&mut self, text: &str) {
        let complains = complaint(text).is_some();
        let others = self.texts.len() - self.complaints;
        let has = if complains { self.complaints } else { others };
        if has < KEPT_MAX {
            self.texts.push(text.to_owned());
            self.complaints += usize::from(complains);
        }
        assert!(self.texts.len() <= 2 * KEPT_MAX, "both kinds have a bound");
    }
}

/// The text of a record, if its level is `warning` or above: `LEVEL,NUMBER,TIME,FLAGS;TEXT`.
fn warning(record: &str) -> Option<&str> {
    let (head, text) = record.split_once(';')?;
    let level: u32 = head.split(',').next()?.parse().ok()?;
    // The upper bits are the facility.
    (level & 7 <= WARNING).then(|| text.lines().next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_kept_and_a_notice_is_not() {
        assert_eq!(
            warning("4,12,99,-;WARNING: CPU: 0\n SUBSYSTEM=x\n"),
            Some("WARNING: CPU: 0")
        );
        assert_eq!(
            warning("12,12,99,-;from user space\n"),
            Some("from user space")
        );
        assert_eq!(warning("5,13,99,-;a notice\n"), None);
        assert_eq!(warning("no record"), None);
    }

    #[test]
    fn a_complaint_is_kept_behind_a_flood_of_other_warnings() {
        let mut kept = Kept::default();
        for number in 0..KEPT_MAX + 9 {
            kept.take(&format!("kvm: warning {number}"));
        }
        kept.take("BUG: sleeping function called from invalid context");
        assert_eq!(kept.texts.len(), KEPT_MAX + 1);
        assert!(kept.texts[KEPT_MAX].starts_with("BUG: sleeping"));
    }
}
