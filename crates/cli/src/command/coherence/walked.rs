// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A trace of a host whose accesses are walked again through its recorded tables, in words and as
//! JSON: for `steady coherence capture --host`, which wrote it, and for `steady coherence check`.

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::{Value, json};
use steady_memtrace::host::Counts;

use super::host::sha256;

/// Exit code where an access does not agree with the tables.
pub const FAULT: u8 = 5;

/// A trace of a host whose accesses were walked again.
#[derive(Debug)]
pub struct Walked {
    path: PathBuf,
    sha256: String,
    counts: Counts,
}

impl Walked {
    /// Reads a trace and walks its accesses through its tables.
    ///
    /// # Errors
    /// If it is cut off or damaged.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        let counts = Counts::read(BufReader::with_capacity(1 << 20, file))
            .with_context(|| path.display().to_string())?;
        Ok(Self {
            path: path.to_owned(),
            sha256: sha256(path)?,
            counts,
        })
    }

    /// What `steady coherence capture --host` prints of it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn print(&self, out: &mut impl Write) -> anyhow::Result<()> {
        print(out, &self.path, &self.counts, &self.sha256)
    }

    /// The same in the keys of docs/formats/memtrace.md.
    pub fn json(&self) -> Value {
        let counts = &self.counts;
        json!({
            "path": self.path.display().to_string(),
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

/// What was found of a trace.
pub fn print(
    out: &mut impl Write,
    output: &Path,
    counts: &Counts,
    digest: &str,
) -> anyhow::Result<()> {
    let [begin, end] = counts.window;
    writeln!(out, "{}: SHA-256 {digest}", output.display())?;
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
        "  walked again: {} agree, {} are stale, {} are in modes that are not walked, {} do not \
         agree",
        counts.agreed, counts.stale, counts.not_walked, counts.mismatches
    )?;
    for mismatch in &counts.first_mismatches {
        writeln!(out, "    {mismatch}")?;
    }
    Ok(())
}
