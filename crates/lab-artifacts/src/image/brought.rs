// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program that a user brings, with its files: what of it goes into a guest's image, and the
//! digests by which a result says what was run.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use steady_guest_programs::image;

use super::tree::{Added, is_elf};
use crate::error::ArtifactError;

/// Where a guest has such programs, each in a folder of its own.
const FOLDER: &str = "/program";
/// Most files of one program; a slip, such as a whole disk, is refused before it is read.
const FILES_MAX: usize = 10_000;

/// A program that a user brings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Brought {
    /// What goes into the image.
    pub files: Vec<Added>,
    /// SHA-256 of the program and of its files, by their paths below [`FOLDER`].
    pub digests: BTreeMap<String, String>,
}

/// The folder in a guest of the program of this name: it is started there.
#[must_use]
pub fn folder(name: &str) -> String {
    format!("{FOLDER}/{name}")
}

/// Path in a guest of the program of this name, whose file is `path` here.
#[must_use]
pub fn command(name: &str, path: &Path) -> String {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    format!("{}/{file}", folder(name))
}

/// Finds the program `path` and its `files`, each `FROM` or `FROM:TO`, all relative to `base`.
///
/// # Errors
/// [`ArtifactError::Program`] with what is not there, or has no place in a guest.
pub fn gather(
    name: &str,
    path: &str,
    files: &[String],
    base: &Path,
) -> Result<Brought, ArtifactError> {
    let wrong = |what: String| ArtifactError::Program {
        program: name.to_owned(),
        what,
    };
    let program = base.join(path);
    if !program.is_file() {
        let (program, base) = (program.display(), shown(base));
        let what = format!(
            "{program} is not a file; a program's path is taken from {base} (the scenario's \
             folder, or that of --programs)"
        );
        return Err(wrong(what));
    }
    let beside = beside(name, files, base).map_err(wrong)?;
    let here: Vec<PathBuf> = beside.iter().map(|added| added.from.clone()).collect();
    let target = PathBuf::from(folder(name));
    let mut needed =
        image::brought(&program, &target, &here).map_err(|error| wrong(error.to_string()))?;
    for added in &beside {
        let at = Path::new("/").join(&added.to);
        let folder = at.parent().unwrap_or(Path::new("/"));
        if is_elf(&added.from)? {
            let found = image::brought(&added.from, folder, &here);
            needed.extend(found.map_err(|error| wrong(error.to_string()))?);
        }
    }
    let mut brought = Brought::default();
    let inside = |path: &Path| path.to_string_lossy().trim_start_matches('/').to_owned();
    let needed = needed.into_iter().map(|file| Added {
        from: file.host,
        to: inside(&file.image),
    });
    brought.files.extend(needed);
    let own = Added {
        to: inside(Path::new(&command(name, &program))),
        from: program,
    };
    for added in std::iter::once(own).chain(beside) {
        let bytes = fs::read(&added.from);
        let bytes = bytes.map_err(|error| ArtifactError::io("read", &added.from, error))?;
        let inside = added.to.trim_start_matches(&FOLDER[1..]);
        let inside = inside.trim_start_matches('/').to_owned();
        brought.digests.insert(inside, sha256(&bytes));
        if brought.files.iter().all(|known| known.to != added.to) {
            brought.files.push(added);
        }
    }
    Ok(brought)
}

/// The files that a scenario lists, a folder with all that is in it.
fn beside(name: &str, files: &[String], base: &Path) -> Result<Vec<Added>, String> {
    let mut found = Vec::new();
    for text in files {
        let (from, to) = text.split_once(':').unwrap_or((text, ""));
        let here = base.join(from);
        let to = match to {
            "" => Path::new(from)
                .file_name()
                .ok_or_else(|| format!("`{text}` names no file; expected FROM or FROM:TO"))?,
            to => to.as_ref(),
        };
        let at = Path::new(&folder(name)).join(to);
        let hidden = image::HIDDEN.iter().find(|hidden| at.starts_with(hidden));
        if let Some(hidden) = hidden {
            return Err(format!(
                "`{text}`: a guest has something of its own on {hidden}; expected another place, \
                 or one relative to {}, where the program is started",
                folder(name)
            ));
        }
        if at.components().any(|part| part.as_os_str() == "..") {
            return Err(format!(
                "`{text}`: `..` in a place of the guest; expected none"
            ));
        }
        add(&mut found, &here, &at).map_err(|what| format!("`{text}`: {what}"))?;
    }
    Ok(found)
}

fn add(found: &mut Vec<Added>, here: &Path, at: &Path) -> Result<(), String> {
    if here.is_dir() {
        let entries = fs::read_dir(here).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let mut entries = entries.map_err(|error| format!("{}: {error}", here.display()))?;
        entries.sort_by_key(fs::DirEntry::file_name);
        return entries
            .iter()
            .try_for_each(|entry| add(found, &entry.path(), &at.join(entry.file_name())));
    }
    if !here.is_file() {
        return Err(format!("{} is not a file or a folder", here.display()));
    }
    if found.len() >= FILES_MAX {
        return Err(format!(
            "more than {FILES_MAX} files; expected what the program needs"
        ));
    }
    found.push(Added {
        from: here.to_owned(),
        to: at.to_string_lossy().trim_start_matches('/').to_owned(),
    });
    Ok(())
}

fn shown(base: &Path) -> String {
    match base.as_os_str().is_empty() {
        true => ".".to_owned(),
        false => base.display().to_string(),
    }
}

fn sha256(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(bytes) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}
