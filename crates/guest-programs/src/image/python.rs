// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The modules that come with Python: its library as it is installed, without what no program of a
//! guest uses (tests, windows, packages of others). Those in C bring the libraries that are there.

use std::path::{Path, PathBuf};

use super::{ClosureError, Collector};

/// Folders of the library that stay out, beside those that hold compiled modules or packages.
const LEFT_OUT: [&str; 10] = [
    "__pycache__",
    "dist-packages",
    "ensurepip",
    "idlelib",
    "lib2to3",
    "pydoc_data",
    "site-packages",
    "test",
    "tkinter",
    "turtledemo",
];

/// Adds the library of `interpreter` if it is a Python: the folder that has its version in its name
/// and `os.py` in it, beside its own, which is how Python finds it.
pub(super) fn add_modules(
    collector: &mut Collector<'_>,
    interpreter: &Path,
) -> Result<(), ClosureError> {
    let Ok(real) = interpreter.canonicalize() else {
        return Ok(());
    };
    let name = real.file_name().unwrap_or_default().to_string_lossy();
    if !name.starts_with("python3.") {
        return Ok(());
    }
    let prefix = real
        .parent()
        .and_then(Path::parent)
        .unwrap_or(Path::new("/"));
    let library = prefix.join("lib").join(&*name);
    if !library.join("os.py").is_file() {
        return Err(ClosureError::NoModules {
            interpreter: interpreter.to_owned(),
            library,
        });
    }
    for file in files_below(&library, &|folder| {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        !LEFT_OUT.contains(&&*name) && !name.starts_with("config-")
    })? {
        let in_c = file.extension().is_some_and(|end| end == "so");
        // A module whose library is not installed cannot be imported here either.
        if !in_c || collector.add_program(&file).is_err() {
            collector.files.insert(file.clone(), file);
        }
    }
    Ok(())
}

/// The files below a folder, in the order of their paths; folders that are not `wanted` stay out.
pub(super) fn files_below(
    folder: &Path,
    wanted: &dyn Fn(&Path) -> bool,
) -> Result<Vec<PathBuf>, ClosureError> {
    let unreadable = |source| ClosureError::Brought {
        path: folder.to_owned(),
        source,
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_dir() {
            if wanted(&path) {
                found.extend(files_below(&path, wanted)?);
            }
        } else if path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
