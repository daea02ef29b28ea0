// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One file with all that a diagnosis needs: a zip archive of a trace, notes of the VMs, tables and
//! log lines, and what is known of the host ([format](../../../docs/formats/diagnosis.md)).
//!
//! Members are read by their fixed names and never written to a place that the archive names.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use steady_diagnose::VmNotes;
use steady_measures::WholeFile;
use steady_unpack::{Member, Packing, members};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use crate::error::RecordError;

/// The value of [`About::schema`].
pub const SCHEMA: &str = "steady.incident";
const ABOUT: &str = "about.json";
const NOTES: &str = "vms.json";
const TABLES: &str = "tables.txt";
const TRACE: &str = "trace.dat";
/// Bytes that a member other than the trace may unpack to.
const SMALL: u64 = 32 << 20;
/// Bytes that a trace may unpack to.
const LARGE: u64 = 4 << 30;
/// How many times its packed size a trace may unpack to; pages of an idle CPU are mostly zero.
const RATIO: u64 = 128;

/// What is known of a recording and its host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// [`SCHEMA`].
    pub schema: String,
    /// 1.
    pub version: u32,
    /// This program's version.
    pub steady: String,
    /// The kernel's release.
    pub kernel: String,
    /// How many CPUs are recorded.
    pub cpus: u32,
    /// When it was written, in seconds since 1970.
    pub unix_s: u64,
    /// The wait that it was written for; `None` if it was not waited for one.
    pub trigger: Option<String>,
    /// Whose wait that was, and how long; files of before have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited: Option<Waited>,
    /// Whether names were replaced.
    pub redacted: bool,
    /// Parameters of the host's KVM modules and of its scheduler, by their names.
    pub knobs: BTreeMap<String, String>,
    /// What this kernel does not have, and was not recorded.
    pub left_out: Vec<String>,
}

/// The wait of a vCPU that a file was written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waited {
    /// The vCPU's thread.
    pub tid: i32,
    /// How long at least, in nanoseconds.
    pub at_least_ns: u64,
}

/// The parts beside the trace.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    pub about: &'a About,
    pub notes: &'a VmNotes,
    pub tables: &'a str,
}

/// Writes the file, whole or not at all; `trace` writes the trace. Gives its size.
pub(crate) fn write(
    path: &Path,
    parts: &Parts<'_>,
    trace: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<u64, RecordError> {
    let written = || -> io::Result<()> {
        let mut zip = ZipWriter::new_stream(Failing {
            file: WholeFile::create(path)?,
            failed: false,
        });
        let packed = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            // The host has better to do than to pack well.
            .compression_level(Some(1))
            .large_file(true);
        zip.start_file(ABOUT, packed)?;
        serde_json::to_writer_pretty(&mut zip, parts.about)?;
        zip.start_file(NOTES, packed)?;
        serde_json::to_writer_pretty(&mut zip, parts.notes)?;
        zip.start_file(TABLES, packed)?;
        zip.write_all(parts.tables.as_bytes())?;
        zip.start_file(TRACE, packed)?;
        trace(&mut zip)?;
        zip.finish()?.into_inner().file.finish()
    };
    written().map_err(RecordError::io("write", path))?;
    let written = std::fs::metadata(path).map_err(RecordError::io("read", path))?;
    Ok(written.len())
}

/// A file that takes anything once it has failed: the archive's writer would finish it even then,
/// and complain on its own.
struct Failing {
    file: WholeFile,
    failed: bool,
}

impl Write for Failing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.failed {
            return Ok(bytes.len());
        }
        let written = self.file.write(bytes);
        self.failed = written.is_err();
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.failed {
            Ok(())
        } else {
            self.file.flush()
        }
    }
}

/// A file that was opened.
#[derive(Debug)]
pub struct Incident {
    /// What is known of it.
    pub about: About,
    /// The VMs.
    pub notes: VmNotes,
    /// Tables and log lines.
    pub tables: String,
    path: PathBuf,
    trace: Member,
}

impl Incident {
    /// Opens the file; `None` if it is another than ours.
    ///
    /// # Errors
    /// [`RecordError::Damaged`], [`RecordError::Io`].
    pub fn open(path: &Path) -> Result<Option<Self>, RecordError> {
        let mut file = File::open(path).map_err(RecordError::io("open", path))?;
        let is_file = file.metadata().is_ok_and(|meta| meta.is_file());
        let mut head = [0; 6];
        if !is_file
            || file.read_exact(&mut head).is_err()
            || Packing::of(&head) != Some(Packing::Zip)
        {
            return Ok(None);
        }
        // A damaged archive is not known to be ours.
        let Ok(members) = members(&file) else {
            return Ok(None);
        };
        let damaged = |what: String| RecordError::Damaged {
            path: path.to_owned(),
            what,
        };
        let find = |name: &str| members.iter().find(|member| member.name == name);
        let Some(about) = find(ABOUT) else {
            return Ok(None);
        };
        let need = |name: &str| {
            find(name).ok_or_else(|| damaged(format!("expected {name} in it; was it made whole?")))
        };
        let text = |member: &Member| -> Result<Vec<u8>, RecordError> {
            let mut bytes = Vec::new();
            let read = reader(path, member, SMALL).and_then(|mut it| it.read_to_end(&mut bytes));
            read.map_err(|error| damaged(format!("{} cannot be read: {error}", member.name)))?;
            Ok(bytes)
        };
        let about: About = match serde_json::from_slice(&text(about)?) {
            Ok(about) => about,
            Err(error) => return Err(damaged(format!("{ABOUT} is not as expected: {error}"))),
        };
        if about.schema != SCHEMA || about.version != 1 {
            return Err(damaged(format!(
                "`{}` version {}; expected `{SCHEMA}` version 1",
                about.schema, about.version
            )));
        }
        let notes = VmNotes::parse(&text(need(NOTES)?)?);
        Ok(Some(Self {
            about,
            notes: notes.map_err(|error| damaged(format!("{NOTES}: {error}")))?,
            tables: String::from_utf8_lossy(&text(need(TABLES)?)?).into_owned(),
            path: path.to_owned(),
            trace: need(TRACE)?.clone(),
        }))
    }

    /// The trace, which ends with an error where it unpacks to more than can be.
    ///
    /// # Errors
    /// [`RecordError::Io`].
    pub fn trace(&self) -> Result<Box<dyn Read + Send>, RecordError> {
        let most = self
            .trace
            .packed_len
            .saturating_mul(RATIO)
            .saturating_add(16 << 20)
            .min(LARGE);
        reader(&self.path, &self.trace, most).map_err(RecordError::io("read", &self.path))
    }
}

fn reader(path: &Path, member: &Member, most: u64) -> io::Result<Box<dyn Read + Send>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(member.start))?;
    let packed = file.take(member.packed_len);
    let inner: Box<dyn Read + Send> = match &member.deflated {
        Ok(true) => Box::new(flate2::read::DeflateDecoder::new(packed)),
        Ok(false) => Box::new(packed),
        Err(what) => return Err(io::Error::other(format!("it is {what}"))),
    };
    Ok(Box::new(Bounded { inner, left: most }))
}

/// Ends with an error behind a bound of bytes.
struct Bounded {
    inner: Box<dyn Read + Send>,
    left: u64,
}

impl Read for Bounded {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = self.inner.read(out)?;
        let took = u64::try_from(len).unwrap_or(u64::MAX);
        let Some(left) = self.left.checked_sub(took) else {
            return Err(io::Error::other(
                "it unpacks to more than a recording can have",
            ));
        };
        self.left = left;
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shelf::Shelf;

    fn about() -> About {
        About {
            schema: SCHEMA.to_owned(),
            version: 1,
            steady: "0".to_owned(),
            kernel: "6.12".to_owned(),
            cpus: 2,
            unix_s: 0,
            trigger: Some("t".to_owned()),
            waited: None,
            redacted: false,
            knobs: BTreeMap::new(),
            left_out: Vec::new(),
        }
    }

    fn written(path: &Path, about: &About, trace: &[u8]) -> u64 {
        let parts = Parts {
            about,
            notes: &VmNotes::new(Vec::new()),
            tables: "a:1\n",
        };
        write(path, &parts, |out| out.write_all(trace)).unwrap()
    }

    #[test]
    fn what_was_written_is_read_and_a_bomb_is_not_unpacked() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("i.zip");
        let trace: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        written(&path, &about(), &trace);
        let read = Incident::open(&path).unwrap().unwrap();
        let mut bytes = Vec::new();
        read.trace().unwrap().read_to_end(&mut bytes).unwrap();
        assert!(bytes == trace);
        assert_eq!((read.about, read.tables.as_str()), (about(), "a:1\n"));
        let size = written(&path, &about(), &vec![0; 64 << 20]);
        let bomb = Incident::open(&path).unwrap().unwrap().trace().unwrap();
        let error = io::copy(&mut { bomb }, &mut io::sink())
            .unwrap_err()
            .to_string();
        assert!(error.contains("unpacks to more"), "{size} bytes: {error}");
    }

    /// A file system of 4 MiB, as long as it lives; `None`, with the reason printed, where it
    /// cannot be mounted.
    struct SmallDisk(tempfile::TempDir);

    impl SmallDisk {
        fn mount() -> Option<Self> {
            let place = tempfile::tempdir().unwrap();
            let mut mount = std::process::Command::new("mount");
            mount.args(["-t", "tmpfs", "-o", "size=4m", "steady-test"]);
            let output = mount.arg(place.path()).output();
            if output.as_ref().is_ok_and(|output| output.status.success()) {
                return Some(Self(place));
            }
            println!("skipped: no small file system: {output:?}");
            None
        }
    }

    impl Drop for SmallDisk {
        fn drop(&mut self) {
            let mut umount = std::process::Command::new("umount");
            let _ = umount.arg(self.0.path()).status();
        }
    }

    #[test]
    fn a_disk_that_fills_while_an_incident_is_written_keeps_those_before() {
        let Some(disk) = SmallDisk::mount() else {
            return;
        };
        let shelf = Shelf::new(disk.0.path(), 2, u64::MAX).unwrap();
        // Bytes that do not pack.
        let mut state = 1_u32;
        let trace: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        })
        .take(6 << 20)
        .collect();
        for time in [1, 2, 3] {
            shelf.make_room(1 << 20).unwrap();
            written(&shelf.place(time), &about(), &trace[..1 << 20]);
        }
        let free = shelf.free();
        assert!(free < 3 << 20, "two are there: {free}");
        let parts = Parts {
            about: &about(),
            notes: &VmNotes::new(Vec::new()),
            tables: "",
        };
        let full = write(&shelf.place(4), &parts, |out| out.write_all(&trace));
        let error = full.unwrap_err();
        let why = std::error::Error::source(&error).unwrap().to_string();
        assert!(why.contains("No space left"), "{error}: {why}");
        let there = std::fs::read_dir(disk.0.path()).unwrap().flatten();
        let mut there: Vec<PathBuf> = there.map(|entry| entry.path()).collect();
        there.sort();
        assert_eq!(there, [shelf.place(2), shelf.place(3)], "and no part of it");
        assert_eq!(shelf.free(), free);
        for path in there {
            let mut bytes = Vec::new();
            let kept = Incident::open(&path).unwrap().unwrap();
            kept.trace().unwrap().read_to_end(&mut bytes).unwrap();
            assert!(bytes == trace[..1 << 20], "{}", path.display());
        }
    }

    #[test]
    fn other_files_are_not_ours_and_damage_is_named() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("i.zip");
        std::fs::write(&path, "PK\x03\x04 and no directory").unwrap();
        assert!(Incident::open(&path).unwrap().is_none());
        std::fs::write(&path, "text").unwrap();
        assert!(Incident::open(&path).unwrap().is_none());
        let newer = About {
            version: 2,
            ..about()
        };
        written(&path, &newer, b"");
        let error = Incident::open(&path).unwrap_err().to_string();
        assert!(
            error.contains("version 2; expected `steady.incident` version 1"),
            "{error}"
        );
        let full = Path::new("/dev/full");
        let parts = Parts {
            about: &about(),
            notes: &VmNotes::new(Vec::new()),
            tables: "",
        };
        assert!(write(full, &parts, |_| Ok(())).is_err());
    }
}
