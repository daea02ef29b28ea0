// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From a path to a scenario: everything that can be wrong with a file before its text is read.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use steady_nearest::nearest;
use steady_remedies::Registry;

use crate::diagnostic::Diagnostics;
use crate::limits::MAX_FILE_BYTES;
use crate::model::Scenario;
use crate::read;

/// Why a scenario file could not be loaded. Each message is complete: it needs no source chain.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// There is no such file.
    #[error("{}: no such scenario file{}", path.display(), hint(nearest.as_deref()))]
    NotFound {
        /// The path asked for.
        path: PathBuf,
        /// The scenario file beside it that was probably meant.
        nearest: Option<PathBuf>,
    },
    /// The path is a directory, a pipe or a device.
    #[error("{}: is {kind}; expected a scenario file", path.display())]
    NotAFile {
        /// The path asked for.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// The operating system refused to read the file.
    #[error("{}: cannot be read: {error}", path.display())]
    Unreadable {
        /// The path asked for.
        path: PathBuf,
        /// The operating system's reason.
        error: io::Error,
    },
    /// The file is larger than [`MAX_FILE_BYTES`].
    #[error("{}: larger than {MAX_FILE_BYTES} bytes; expected a scenario file, which is a few \
        hundred lines of TOML at most", path.display())]
    TooLarge {
        /// The path asked for.
        path: PathBuf,
    },
    /// The file is not UTF-8 text.
    #[error("{}:{line}:{column}: byte {offset} is not UTF-8 text{}; save the file as UTF-8",
        path.display(), if *utf16 { " (the file looks like UTF-16)" } else { "" })]
    NotUtf8 {
        /// The path asked for.
        path: PathBuf,
        /// Line of the first wrong byte, counted from 1.
        line: usize,
        /// Column of it in characters, counted from 1.
        column: usize,
        /// Offset of it in the file, counted from 0.
        offset: usize,
        /// Whether the file begins with a byte order mark of UTF-16.
        utf16: bool,
    },
    /// The text is not a scenario; every problem of it.
    #[error(transparent)]
    Invalid(#[from] Diagnostics),
}

fn hint(nearest: Option<&Path>) -> String {
    nearest
        .map(|path| format!("; did you mean {}?", path.display()))
        .unwrap_or_default()
}

/// A scenario, and what its writer should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Noted {
    /// The scenario.
    pub scenario: Scenario,
    /// Notes on the file, such as variants that are one machine.
    pub notes: Option<Diagnostics>,
}

impl Scenario {
    /// Reads the scenario file at `path`. Its `name` must be the file name without `.toml`.
    ///
    /// # Errors
    /// [`LoadError`], whose message names the file and, where there is one, the line.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        Ok(Self::load_noted(path)?.scenario)
    }

    /// The same, with the notes on the file.
    ///
    /// # Errors
    /// Those of [`Scenario::load`].
    pub fn load_noted(path: impl AsRef<Path>) -> Result<Noted, LoadError> {
        let path = path.as_ref();
        let text = text_of(path, &bytes_of(path)?)?;
        let stem = path.file_stem().map(|stem| stem.to_string_lossy());
        let file = path.display().to_string();
        let mut noted = read::scenario(&text, &file, stem.as_deref(), &Registry::default())?;
        noted.scenario.folder = path.parent().map(Path::to_owned).unwrap_or_default();
        Ok(noted)
    }

    /// Reads a scenario from `text`; `display_name` stands for the file in messages, and is not
    /// compared with the scenario's name.
    ///
    /// # Errors
    /// [`Diagnostics`], every problem of the text.
    pub fn parse(text: &str, display_name: &str) -> Result<Self, Diagnostics> {
        Ok(Self::parse_noted(text, display_name, &Registry::default())?.scenario)
    }

    /// The same with other remedies than this project's, and with the notes on the text.
    ///
    /// # Errors
    /// Those of [`Scenario::parse`].
    pub fn parse_noted(
        text: &str,
        display_name: &str,
        registry: &Registry,
    ) -> Result<Noted, Diagnostics> {
        read::scenario(text, display_name, None, registry)
    }
}

fn bytes_of(path: &Path) -> Result<Vec<u8>, LoadError> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => LoadError::NotFound {
            path: path.to_owned(),
            nearest: nearest_file(path),
        },
        _ => LoadError::Unreadable {
            path: path.to_owned(),
            error,
        },
    };
    // Asked before opening, which would wait for a writer if this is a pipe.
    let kind = std::fs::metadata(path).map_err(failed)?.file_type();
    if !kind.is_file() {
        let kind = if kind.is_dir() {
            "a directory"
        } else {
            "not a regular file"
        };
        return Err(LoadError::NotAFile {
            path: path.to_owned(),
            kind,
        });
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > MAX_FILE_BYTES) {
        return Err(LoadError::TooLarge {
            path: path.to_owned(),
        });
    }
    Ok(bytes)
}

fn text_of(path: &Path, bytes: &[u8]) -> Result<String, LoadError> {
    let error = match std::str::from_utf8(bytes) {
        Ok(text) => return Ok(text.to_owned()),
        Err(error) => error,
    };
    let offset = error.valid_up_to();
    let before = String::from_utf8_lossy(&bytes[..offset]);
    Err(LoadError::NotUtf8 {
        path: path.to_owned(),
        line: before.matches('\n').count() + 1,
        column: before.chars().rev().take_while(|&c| c != '\n').count() + 1,
        offset,
        utf16: bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff"),
    })
}

/// The `.toml` file in the same directory whose name is nearest.
fn nearest_file(path: &Path) -> Option<PathBuf> {
    let directory = match path.parent()? {
        here if here.as_os_str().is_empty() => Path::new("."),
        there => there,
    };
    let mut stems: Vec<String> = std::fs::read_dir(directory)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|file| {
            file.extension()
                .is_some_and(|extension| extension == "toml")
        })
        .filter_map(|file| Some(file.file_stem()?.to_str()?.to_owned()))
        .collect();
    stems.sort();
    let meant = nearest(
        path.file_stem()?.to_str()?,
        stems.iter().map(String::as_str),
    )?;
    Some(path.with_file_name(format!("{meant}.toml")))
}
