// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which files an image needs for a program that a user brings: an ELF program with its libraries,
//! or a script with the interpreter that its first line names, as the kernel reads it.
//!
//! The program goes into a folder of its own, and with it what it finds by `$ORIGIN`. Python's
//! modules come along with Python. Left out: modules of other interpreters, and what a program
//! loads by itself at run time; the scenario's `files` are for these.

use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use super::{ClosureError, Collector, IMAGE_LIBRARIES, ImageFile, python};

/// Where a guest's programs are searched, as its init sets `PATH`.
pub const GUEST_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";
/// Folders of a guest that something is mounted on: what an image holds there is not seen.
pub const HIDDEN: [&str; 6] = ["/data", "/dev", "/proc", "/run", "/sys", "/tmp"];
/// As many interpreters may be scripts themselves (`BINPRM_MAX_RECURSION` of the kernel).
const SCRIPTS_MAX: usize = 4;
/// How much of a first line the kernel reads (`BINPRM_BUF_SIZE`).
const FIRST_LINE_BYTES: u64 = 256;

/// The files that `program` needs, itself in `folder` of the image. A library that no folder of the
/// loader's holds may be among the files `beside`.
///
/// # Errors
/// As [`super::closure`], and if the interpreter of a script is not there.
pub fn brought(
    program: &Path,
    folder: &Path,
    beside: &[PathBuf],
) -> Result<Vec<ImageFile>, ClosureError> {
    let unreadable = |source| ClosureError::Brought {
        path: program.to_owned(),
        source,
    };
    // The loader takes `$ORIGIN` from where the file really is.
    let real = program.canonicalize().map_err(unreadable)?;
    let name = program.file_name().unwrap_or_default();
    let mut collector = Collector::new(beside);
    let script = first_line(&real).map_err(unreadable)?;
    match &script {
        Some(line) => {
            add_interpreter(&mut collector, program, line, SCRIPTS_MAX)?;
            collector.files.insert(real.clone(), real.clone());
        }
        None => collector.add_program(&real)?,
    }
    let origin = real.parent().unwrap_or(Path::new("/"));
    let by_origin = script.is_none() && origin != Path::new("/");
    let placed = collector.files.into_iter().map(|(image, host)| {
        let image = match image.strip_prefix(origin) {
            _ if image == real => folder.join(name),
            Ok(rest) if by_origin => plain(&folder.join(rest)),
            _ if HIDDEN.iter().any(|hidden| image.starts_with(hidden)) => {
                Path::new(IMAGE_LIBRARIES).join(image.file_name().unwrap_or_default())
            }
            _ => image,
        };
        ImageFile { image, host }
    });
    let mut files: Vec<ImageFile> = placed.collect();
    files.sort();
    Ok(files)
}

/// What stands behind `#!` in the first line of a file, if it begins with that.
fn first_line(path: &Path) -> std::io::Result<Option<String>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(FIRST_LINE_BYTES)
        .read_to_end(&mut bytes)?;
    let Some(rest) = bytes.strip_prefix(b"#!") else {
        return Ok(None);
    };
    let line = rest.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    // The kernel leaves out blanks alone.
    Ok(Some(line.trim_matches([' ', '\t']).to_owned()))
}

/// Adds what the first line of `script` names: an interpreter, or `env` and a name on the `PATH`.
fn add_interpreter(
    collector: &mut Collector<'_>,
    script: &Path,
    line: &str,
    depth: usize,
) -> Result<(), ClosureError> {
    let absent = |what: String| ClosureError::NoInterpreter {
        path: script.to_owned(),
        line: line.trim().to_owned(),
        what,
    };
    if line.ends_with('\r') {
        let what = "a carriage return is behind it, which the kernel takes as part of the name";
        return Err(absent(what.to_owned()));
    }
    let mut words = line.split_whitespace();
    let interpreter = Path::new(words.next().unwrap_or_default());
    if !interpreter.is_absolute() || !interpreter.is_file() {
        return Err(absent(format!("{} is not a file", interpreter.display())));
    }
    add_executable(collector, interpreter, depth)?;
    if interpreter.ends_with("env") {
        let name = words.find(|word| !word.starts_with('-') && !word.contains('='));
        let name = name.ok_or_else(|| absent("env is given no name".to_owned()))?;
        let mut folders = GUEST_PATH
            .split(':')
            .map(|folder| Path::new(folder).join(name));
        let found = folders.find(|path| path.is_file());
        let found = found.ok_or_else(|| absent(format!("{name} is in none of {GUEST_PATH}")))?;
        add_executable(collector, &found, depth)?;
    }
    Ok(())
}

/// Adds a program that is started by its path, a script with its own interpreter too.
fn add_executable(
    collector: &mut Collector<'_>,
    path: &Path,
    depth: usize,
) -> Result<(), ClosureError> {
    let unreadable = |source| ClosureError::Brought {
        path: path.to_owned(),
        source,
    };
    let Some(line) = first_line(path).map_err(unreadable)? else {
        collector.add_program(path)?;
        return python::add_modules(collector, path);
    };
    let Some(depth) = depth.checked_sub(1) else {
        return Err(ClosureError::NoInterpreter {
            path: path.to_owned(),
            line,
            what: format!("it is a script of a script, {SCRIPTS_MAX} deep"),
        });
    };
    collector.files.insert(path.to_owned(), path.to_owned());
    add_interpreter(collector, path, &line, depth)
}

/// A path without `.` and `..`, as it is written: in the image it has no links to follow.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}
