// SPDX-License-Identifier: Apache-2.0 OR MIT
//! BPF schedulers for hosts with `sched_ext`: their objects, compiled where a source was given.
//! The host's init loads one with bpftool and watches it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::tree::Added;
use crate::error::ArtifactError;
use crate::process::run_step;

/// Where a host has them.
const FOLDER: &str = "scx";
/// How long the compiler may take.
const CLANG_LIMIT: Duration = Duration::from_secs(60);
/// How many lines of a compiler are shown.
const SHOWN: usize = 6;

/// Schedulers for the image of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Schedulers {
    /// Their objects.
    pub objects: Vec<Added>,
    /// SHA-256 of the files that were given, by their names.
    pub digests: BTreeMap<String, String>,
}

/// Path in the host of the object of the scheduler `path`, which the host's init loads.
#[must_use]
pub fn object(path: &str) -> String {
    format!("/{}", place(path))
}

/// Whether the file `path` must be compiled.
#[must_use]
pub fn is_source(path: &str) -> bool {
    path.ends_with(".bpf.c")
}

/// Path in a host of what comes of `path`, from the root.
fn place(path: &str) -> String {
    let file = Path::new(path).file_name().unwrap_or_default();
    let file = file.to_string_lossy();
    let stem = file.split(".bpf.").next().unwrap_or_default();
    format!("{FOLDER}/{stem}.bpf.o")
}

/// The schedulers of these paths, relative to `base`; what is compiled lies in `scratch`, which
/// must be there until the image is packed.
///
/// # Errors
/// [`ArtifactError::Program`] with what is not there, has the place of another, or is not compiled.
pub fn gather(paths: &[&str], base: &Path, scratch: &Path) -> Result<Schedulers, ArtifactError> {
    let mut found = Schedulers::default();
    let mut known: BTreeMap<String, &str> = BTreeMap::new();
    for &path in paths {
        let other = *known.entry(place(path)).or_insert(path);
        if other != path {
            let what = format!("{other} and {path} have one name in the host; rename one");
            return Err(wrong(path, what));
        }
        let from = base.join(path);
        let bytes = fs::read(&from).map_err(|error| {
            let what = format!(
                "cannot read {}: {error}; `bpf` is relative to the scenario's folder",
                from.display()
            );
            wrong(path, what)
        })?;
        let name = Path::new(path).file_name().unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        let digest = format!("{:x}", Sha256::digest(&bytes));
        found.digests.insert(name, digest);
        let object = match is_source(path) {
            true => compile(path, &from, scratch)?,
            false => from,
        };
        let to = place(path);
        if !found.objects.iter().any(|known| known.to == to) {
            found.objects.push(Added { from: object, to });
        }
    }
    Ok(found)
}

fn wrong(path: &str, what: String) -> ArtifactError {
    let program = format!("BPF scheduler {path}");
    ArtifactError::Program { program, what }
}

/// Compiles a source. Its types are in its BTF, which libbpf compares with the kernel's.
fn compile(path: &str, from: &Path, scratch: &Path) -> Result<PathBuf, ArtifactError> {
    let name = place(path).replace('/', "-");
    let absolute = |path: &Path| {
        std::path::absolute(path).map_err(|error| ArtifactError::io("find", path, error))
    };
    let object = absolute(scratch)?.join(name);
    let words = ["clang", "-O2", "-g", "-Wall", "-target", "bpf", "-c"].map(OsStr::new);
    // It runs in the folder of its log, and a scenario's folder is often relative.
    let from = absolute(from)?;
    let files = [from.as_os_str(), OsStr::new("-o"), object.as_os_str()];
    let words: Vec<&OsStr> = words.into_iter().chain(files).collect();
    let log = scratch.join("clang.log");
    let what = format!("compiling the BPF scheduler {path}");
    run_step(&what, &words, scratch, &log, CLANG_LIMIT, || {}).map_err(|error| {
        // The log goes with the folder. Without one it did not start, or had no end.
        let said = fs::read_to_string(&log).unwrap_or_default();
        let lines: Vec<&str> = said.lines().take(SHOWN).collect();
        match lines.is_empty() {
            true => error,
            false => wrong(path, format!("clang refuses it:\n{}", lines.join("\n"))),
        }
    })?;
    Ok(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_taken_as_it_is_and_has_a_place_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("a")).unwrap();
        for path in ["one.bpf.o", "a/one.bpf.o", "two.bpf.o"] {
            fs::write(folder.path().join(path), path).unwrap();
        }
        let gather = |paths: &[&str]| gather(paths, folder.path(), folder.path());
        let found = gather(&["one.bpf.o", "two.bpf.o", "one.bpf.o"]).unwrap();
        let places: Vec<&str> = found.objects.iter().map(|one| one.to.as_str()).collect();
        assert_eq!(places, ["scx/one.bpf.o", "scx/two.bpf.o"]);
        assert_eq!(found.objects[0].from, folder.path().join("one.bpf.o"));
        assert_eq!(found.digests.len(), 2);
        assert_eq!(object("x/one.bpf.c"), "/scx/one.bpf.o");
        let said = gather(&["one.bpf.o", "a/one.bpf.o"]).unwrap_err();
        assert!(said.to_string().contains("have one name"), "{said}");
        let said = gather(&["three.bpf.o"]).unwrap_err().to_string();
        assert!(
            said.contains("three.bpf.o") && said.contains("scenario's"),
            "{said}"
        );
    }

    #[test]
    fn a_source_in_a_relative_folder_is_compiled() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("good.bpf.c"), "int x = 1;\n").unwrap();
        let here = std::env::current_dir().unwrap();
        let up: PathBuf = here.components().skip(1).map(|_| "..").collect();
        let relative = up.join(folder.path().strip_prefix("/").unwrap());
        // Deeper than the current folder: from there the path leads elsewhere.
        let down: PathBuf = here.components().map(|_| "deeper").collect();
        let scratch = folder.path().join(down);
        fs::create_dir_all(&scratch).unwrap();
        let found = gather(&["good.bpf.c"], &relative, &scratch).unwrap();
        assert!(found.objects[0].from.is_file(), "{:?}", found.objects[0]);
    }

    #[test]
    fn a_source_that_does_not_compile_is_refused_with_the_compilers_words() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("bad.bpf.c"), "int x = ;\n").unwrap();
        let said = gather(&["bad.bpf.c"], folder.path(), folder.path()).unwrap_err();
        let said = said.to_string();
        assert!(
            said.contains("clang refuses it") && said.contains("expected expression"),
            "{said}"
        );
    }
}
