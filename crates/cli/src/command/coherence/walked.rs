// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A trace of a host whose accesses are walked again through its recorded tables, in words and as
//! JSON: for `steady coherence capture --host`, which wrote it, and for `steady coherence check`.

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};
use steady_memtrace::host::Counts;

use super::host::sha256;

/// Exit code where an access does not agree with the tables.
pub const FAULT: u8 = 5;

/// What was found of a trace of a host whose accesses were walked again.
#[derive(Debug)]
pub struct Walked {
    sha256: String,
    counts: Counts,
}

impl Walked {
    /// Reads a trace and walks its accesses through its tables.
    ///
    /// # Errors
    /// If it cannot be read, or is cut off or damaged.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::of(file, path).with_context(|| path.display().to_string())
    }

    /// The same of a file that is open.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn of(file: impl Read, path: &Path) -> anyhow::Result<Self> {
        let counts = Counts::read(BufReader::with_capacity(1 << 20, file))?;
        let sha256 = sha256(path)?;
        Ok(Self { sha256, counts })
    }

    /// It in words.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn print(&self, out: &mut impl Write, path: &Path) -> anyhow::Result<()> {
        let counts = &self.counts;
        let [begin, end] = counts.window;
        writeln!(out, "{}: SHA-256 {}", path.display(), self.sha256)?;
        writeln!(
            out,
            "  {} processors, {} ticks, {} instructions between accesses",
            counts.cpus,
            end.saturating_sub(begin),
            counts.instructions
        )?;
        for (vpid, [all, stores]) in &counts.accesses {
            let whose = match vpid {
                0 => "of the host".to_owned(),
                vpid => format!("of VPID {vpid}"),
            };
            writeln!(out, "  {all} accesses {whose}, {stores} of them stores")?;
        }
        writeln!(
            out,
            "  {} frames read as tables, {} of their entries changed",
            counts.tables, counts.updates
        )?;
        for (name, [all, within]) in &counts.events {
            writeln!(
                out,
                "  {name}: {within} in the window, {all} from the start"
            )?;
        }
        writeln!(
            out,
            "  walked again: {} agree, {} are stale, {} are in modes that are not walked, {} do \
             not agree",
            counts.agreed, counts.stale, counts.not_walked, counts.mismatches
        )?;
        for mismatch in &counts.first_mismatches {
            writeln!(out, "    {mismatch}")?;
        }
        Ok(())
    }

    /// It in the keys of docs/formats/memtrace.md.
    pub fn json(&self, path: &Path) -> Value {
        let counts = &self.counts;
        json!({
            "path": path.display().to_string(),
            "sha256": self.sha256,
            "cpus": counts.cpus,
            "window": counts.window,
            "accesses": counts.accesses,
            "instructions": counts.instructions,
            "tables": counts.tables,
            "updates": counts.updates,
            "events": counts.events,
            "agreed": counts.agreed,
            "stale": counts.stale,
            "not_walked": counts.not_walked,
            "mismatches": counts.mismatches,
            "first_mismatches": counts.first_mismatches,
        })
    }

    /// Whether some access was walked, and every one that was agrees.
    pub fn agrees(&self) -> bool {
        let counts = &self.counts;
        counts.mismatches == 0 && counts.agreed + counts.stale > 0
    }
}
