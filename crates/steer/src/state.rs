// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What was changed, in a file, so that it can be undone by another process.
//!
//! A line is written *before* the change that it stands for: a process that is killed in between
//! leaves a line too many, never one too few. What somebody else has changed since stays.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use serde::Serialize;
use serde::de::DeserializeOwned;
use steady_hostview::Host;

use crate::error::SteerError;

/// One thing that is other than before.
pub trait Change: Serialize + DeserializeOwned {
    /// What changes such things.
    type Hands: ?Sized;

    /// Whether both are of one thing.
    fn is_same(&self, other: &Self) -> bool;

    /// Takes over what was set last, and keeps what was before the first.
    fn follow(&mut self, later: Self);

    /// Sets it as it was before.
    fn back(&self, host: &Host, hands: &mut Self::Hands) -> End;
}

/// What became of a thing whose change was undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It is as before.
    Back,
    /// It is there no longer.
    Gone,
    /// Somebody else has changed it since.
    Theirs,
    /// The kernel refused.
    Refused,
}

/// What an undo did, by the number of things.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Undone {
    /// Are as before.
    pub back: usize,
    /// Are there no longer.
    pub gone: usize,
    /// Were changed by somebody else since.
    pub theirs: usize,
    /// The kernel refused to change.
    pub refused: usize,
}

/// The file, held by this process.
#[derive(Debug)]
pub struct State<C> {
    path: PathBuf,
    file: File,
    /// What it says, a line for each thing.
    lines: Vec<C>,
    /// Its length.
    bytes: u64,
}

/// Beyond that number of bytes for each line the file is written again with the last of each thing.
const BYTES_A_LINE: u64 = 4096;

impl<C: Change> State<C> {
    /// Takes the file, makes it if needed, and undoes what a killed process has left in it.
    ///
    /// # Errors
    /// [`SteerError::Held`], [`SteerError::State`].
    pub fn take(
        path: &Path,
        host: &Host,
        hands: &mut C::Hands,
    ) -> Result<(Self, Undone), SteerError> {
        let failed = |what| {
            move |error| SteerError::State {
                what,
                path: path.to_owned(),
                error,
            }
        };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed("make the folder of"))?;
        }
        let file = opened(path).map_err(failed("open"))?;
        if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
            return Err(failed("open")(io::Error::other("not a file")));
        }
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| SteerError::Held(path.to_owned()))?;
        let mut state = Self {
            path: path.to_owned(),
            file,
            lines: Vec::new(),
            bytes: 0,
        };
        let text = state.text()?;
        if text.lines().any(|line| !line.starts_with(['{', '['])) {
            let error = io::Error::other("it has something else than changes");
            return Err(failed("use")(error));
        }
        state.lines = changes(&text);
        let undone = state.undo(host, hands)?;
        Ok((state, undone))
    }

    /// What the file says, also if its name is gone.
    fn text(&self) -> Result<String, SteerError> {
        let length = self
            .file
            .metadata()
            .map_err(|error| self.failed("read", error))?;
        let mut bytes = vec![0; usize::try_from(length.len()).unwrap_or(0)];
        let read = self.file.read_exact_at(&mut bytes, 0);
        read.map_err(|error| self.failed("read", error))?;
        String::from_utf8(bytes).map_err(|_| self.failed("use", io::Error::other("it is not text")))
    }

    /// Sees that the file has its name still, and writes it again where somebody has removed it.
    ///
    /// # Errors
    /// [`SteerError::Held`] if another file is there now, [`SteerError::State`].
    pub fn stay(&mut self) -> Result<(), SteerError> {
        let own = self
            .file
            .metadata()
            .map_err(|error| self.failed("read", error))?;
        match fs::metadata(&self.path) {
            Ok(named) if (named.dev(), named.ino()) == (own.dev(), own.ino()) => Ok(()),
            Ok(_) => Err(SteerError::Held(self.path.clone())),
            Err(error) if error.kind() == ErrorKind::NotFound => self.rewrite(),
            Err(error) => Err(self.failed("read", error)),
        }
    }

    /// Notes a change that is about to be made.
    ///
    /// # Errors
    /// [`SteerError::State`]; the change must not be made then.
    pub fn note(&mut self, change: C) -> Result<(), SteerError> {
        let text = text_of(&change);
        remember(&mut self.lines, change);
        if self.bytes > BYTES_A_LINE * self.lines.len() as u64 {
            return self.rewrite();
        }
        let written = self.file.write_all(text.as_bytes());
        if let Err(error) = written {
            // What was written of the line would spoil the next one.
            let _ = self.file.set_len(self.bytes);
            return Err(self.failed("write", error));
        }
        self.bytes += text.len() as u64;
        Ok(())
    }

    /// Writes the file again beside itself, and puts it in its place, held.
    fn rewrite(&mut self) -> Result<(), SteerError> {
        let beside = self.path.with_extension("new");
        let text: String = self.lines.iter().map(text_of).collect();
        let write = || {
            if let Some(folder) = beside.parent() {
                fs::create_dir_all(folder)?;
            }
            let mut file = opened(&beside)?;
            flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            file.set_len(0)?;
            file.write_all(text.as_bytes())?;
            fs::rename(&beside, &self.path)?;
            Ok(file)
        };
        self.file = write().map_err(|error| self.failed("write", error))?;
        self.bytes = text.len() as u64;
        Ok(())
    }

    /// Sets everything in the file as it was before. What the kernel refuses stays in the file.
    ///
    /// # Errors
    /// [`SteerError::State`] if it cannot be read or emptied.
    pub fn undo(&mut self, host: &Host, hands: &mut C::Hands) -> Result<Undone, SteerError> {
        let mut undone = Undone::default();
        let mut refused = Vec::new();
        // The last first: a later change may rest on an earlier one.
        for change in std::mem::take(&mut self.lines).into_iter().rev() {
            let end = change.back(host, hands);
            undone.count(end);
            if end == End::Refused {
                refused.push(change);
            }
        }
        refused.reverse();
        self.lines = refused;
        if self.lines.is_empty() {
            self.forget()?;
        } else {
            // They stay for a process with the right to it.
            self.rewrite()?;
        }
        Ok(undone)
    }

    /// Whether nothing is changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Empties the file: nothing is changed any more.
    ///
    /// # Errors
    /// [`SteerError::State`].
    pub fn forget(&mut self) -> Result<(), SteerError> {
        self.file
            .set_len(0)
            .map_err(|error| self.failed("empty", error))?;
        (self.lines, self.bytes) = (Vec::new(), 0);
        Ok(())
    }

    fn failed(&self, what: &'static str, error: io::Error) -> SteerError {
        let path = self.path.clone();
        SteerError::State { what, path, error }
    }
}

fn text_of<C: Change>(change: &C) -> String {
    let text = serde_json::to_string(change).unwrap_or_else(|error| unreachable!("{error}"));
    text + "\n"
}

/// What is changed, each thing once. A line cut short has no change.
fn changes<C: Change>(text: &str) -> Vec<C> {
    let mut changes: Vec<C> = Vec::new();
    let lines = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    lines.for_each(|line| remember(&mut changes, line));
    changes
}

/// A file to append to, made if it is not there. A link is refused: it could lead to any file.
fn opened(path: &Path) -> io::Result<File> {
    let flags = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0);
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    options.custom_flags(flags).open(path)
}

fn remember<C: Change>(changes: &mut Vec<C>, change: C) {
    match changes.iter_mut().find(|known| known.is_same(&change)) {
        Some(known) => known.follow(change),
        None => changes.push(change),
    }
}

impl Undone {
    /// An error where something is not as before.
    ///
    /// # Errors
    /// [`SteerError::Refused`].
    pub fn whole(self, path: &Path) -> Result<Self, SteerError> {
        if self.refused > 0 {
            let (count, path) = (self.refused, path.to_owned());
            return Err(SteerError::Refused { count, path });
        }
        Ok(self)
    }

    fn count(&mut self, end: End) {
        *match end {
            End::Back => &mut self.back,
            End::Gone => &mut self.gone,
            End::Theirs => &mut self.theirs,
            End::Refused => &mut self.refused,
        } += 1;
    }

    /// In words; `things` is what is counted.
    #[must_use]
    pub fn words(&self, things: &str) -> String {
        let Self {
            back,
            gone,
            theirs,
            refused,
        } = self;
        let mut words = format!("{back} {things} as before");
        for (count, what) in [
            (gone, "there no longer"),
            (theirs, "changed by somebody else since, and left so"),
            (refused, "NOT as before: the kernel refused"),
        ] {
            if *count > 0 {
                words.push_str(&format!("; {count} {what}"));
            }
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    struct Thing(String, u64);

    impl Change for Thing {
        type Hands = Vec<Thing>;

        fn is_same(&self, other: &Self) -> bool {
            self.0 == other.0
        }

        fn follow(&mut self, later: Self) {
            self.1 = later.1;
        }

        fn back(&self, _: &Host, hands: &mut Vec<Self>) -> End {
            hands.push(self.clone());
            End::Back
        }
    }

    fn thing(name: &str, set: u64) -> Thing {
        Thing(name.to_owned(), set)
    }

    fn take(path: &Path) -> Result<(State<Thing>, Vec<Thing>), SteerError> {
        let mut hands = Vec::new();
        let (state, _) = State::take(path, &Host::default(), &mut hands)?;
        Ok((state, hands))
    }

    #[test]
    fn a_file_is_held_by_one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/state.jsonl");
        let (state, _) = take(&path).unwrap();
        assert!(matches!(take(&path), Err(SteerError::Held(_))));
        drop(state);
        assert!(take(&path).is_ok());
    }

    #[test]
    fn each_thing_is_undone_once_and_a_line_cut_short_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.jsonl");
        let (mut state, _) = take(&path).unwrap();
        for change in [thing("a", 1), thing("b", 2), thing("a", 3)] {
            state.note(change).unwrap();
        }
        state.file.write_all(b"[\"c\",").unwrap();
        drop(state);
        let (state, undone) = take(&path).unwrap();
        assert_eq!(undone, [thing("b", 2), thing("a", 3)]);
        assert!(state.is_empty());
        drop(state);
        assert!(take(&path).unwrap().1.is_empty());
    }

    #[test]
    fn a_file_stays_short_however_often_a_thing_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.jsonl");
        let (mut state, _) = take(&path).unwrap();
        for set in 0..2000 {
            state.note(thing("a", set)).unwrap();
            assert!(fs::metadata(&path).unwrap().len() <= 2 * BYTES_A_LINE);
        }
        // The file in its place is held as the first was.
        assert!(matches!(take(&path), Err(SteerError::Held(_))));
        drop(state);
        assert_eq!(take(&path).unwrap().1, [thing("a", 1999)]);
    }
}
