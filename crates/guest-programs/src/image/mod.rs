// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which files an image needs so that a dynamically linked program runs in it.
//!
//! [`closure`] follows what the dynamic loader would: the interpreter, every `DT_NEEDED` library
//! and their own, in the directories of `DT_RPATH`, `DT_RUNPATH` and the host's `ld.so.conf`. Two
//! things differ from `ldd`: nothing is executed, and `libgcc_s.so.1` joins where a program imports
//! `pthread_exit` or `pthread_cancel`, because glibc loads it only then and aborts without it.
//!
//! Left out: modules that a program loads by itself at run time (image formats of vips, engines of
//! fio); what the known programs do here needs none of them.

mod brought;
mod elf;
mod python;
mod search;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use elf::Object;
use search::Search;

pub use brought::{GUEST_PATH, HIDDEN, brought};

/// Where libraries from the loader's configured directories go in the image: a directory that
/// glibc's loader searches without `ld.so.cache`.
const IMAGE_LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";

/// The library that glibc loads to unwind a thread's stack.
const UNWINDER: &str = "libgcc_s.so.1";

/// A file that an image needs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ImageFile {
    /// Its path in the image.
    pub image: PathBuf,
    /// Where the host has it; may be a symbolic link, which is followed.
    pub host: PathBuf,
}

/// Why the files of a program could not be found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClosureError {
    /// A file could not be read.
    #[error("cannot read {}{}", path.display(), if *is_program {
        "; install the Debian package that holds it, or see 'dpkg -S' on a machine that has it"
    } else {
        ""
    })]
    Read {
        /// The file.
        path: PathBuf,
        /// Whether it is the program itself rather than a library of it.
        is_program: bool,
        /// What the system said.
        source: std::io::Error,
    },
    /// A script cannot go into an image that has no shell.
    #[error(
        "{} is a script for {interpreter:?}; expected an ELF program, because the image holds \
         neither the interpreter nor what the script calls",
        path.display()
    )]
    Script {
        /// The file.
        path: PathBuf,
        /// Its first line behind `#!`.
        interpreter: String,
    },
    /// A program that a user brings, or a folder of it, could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Brought {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The first line of a script names what is not there.
    #[error(
        "{} begins with `#!{line}`, but {what}; correct the line, or install its interpreter",
        path.display()
    )]
    NoInterpreter {
        /// The script.
        path: PathBuf,
        /// Its first line behind `#!`.
        line: String,
        /// What is wrong with it.
        what: String,
    },
    /// The loader that a program names is not there.
    #[error(
        "{} is loaded by {}, which is not there; install the C library that it was linked with, or \
         link it statically",
        path.display(),
        loader.display()
    )]
    NoLoader {
        /// The program.
        path: PathBuf,
        /// Its loader.
        loader: PathBuf,
    },
    /// Python's own modules are not where it looks for them.
    #[error(
        "{} is a Python without its library: {} has no os.py; expected a Python as it is installed",
        interpreter.display(),
        library.display()
    )]
    NoModules {
        /// The interpreter.
        interpreter: PathBuf,
        /// Where its library was expected.
        library: PathBuf,
    },
    /// Not a program for x86-64.
    #[error("{} is not an ELF program for x86-64: {reason}", path.display())]
    NotElf {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A library is not installed.
    #[error(
        "{} needs the library {library}, which is in none of {}; by Debian's custom the package \
         is {package}: apt-get install {package} (or ask 'apt-file search {library}')",
        needed_by.display(),
        searched.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
    )]
    MissingLibrary {
        /// The program or library that needs it.
        needed_by: PathBuf,
        /// The library's name.
        library: String,
        /// The directories searched.
        searched: Vec<PathBuf>,
        /// The package that would hold it if it is named as Debian names them.
        package: String,
    },
}

/// The programs themselves and every file that their start needs, in the order of their paths in
/// the image; each once.
///
/// # Errors
/// If a file cannot be read, a program is not ELF for x86-64, or a library is missing.
pub fn closure<P: AsRef<Path>>(programs: &[P]) -> Result<Vec<ImageFile>, ClosureError> {
    let mut collector = Collector::new(&[]);
    for program in programs {
        collector.add_program(program.as_ref())?;
    }
    let files = collector.files.into_iter();
    Ok(files
        .map(|(image, host)| ImageFile { image, host })
        .collect())
}

struct Collector<'a> {
    search: Search,
    /// Files that libraries may be among which no folder holds.
    beside: &'a [PathBuf],
    /// Path in the image, path on the host.
    files: BTreeMap<PathBuf, PathBuf>,
}

impl<'a> Collector<'a> {
    fn new(beside: &'a [PathBuf]) -> Self {
        Self {
            search: Search::of_host(),
            beside,
            files: BTreeMap::new(),
        }
    }

    fn add_program(&mut self, path: &Path) -> Result<(), ClosureError> {
        let program = Object::read(path, true)?;
        self.files.insert(path.to_owned(), path.to_owned());
        if let Some(interpreter) = &program.interpreter {
            if !interpreter.is_file() {
                return Err(ClosureError::NoLoader {
                    path: path.to_owned(),
                    loader: interpreter.clone(),
                });
            }
            self.files.insert(interpreter.clone(), interpreter.clone());
        }
        // A library is the same file for all that need it, found once per program: the loader does
        // not look again for a name that it has.
        let mut loaded = BTreeSet::new();
        let inherited = program.rpath.clone();
        let mut waiting = vec![program];
        while let Some(object) = waiting.pop() {
            for name in object.all_needed(UNWINDER) {
                if !loaded.insert(name.clone()) || self.has(&object, &inherited, &name) {
                    continue;
                }
                let library = self.find(&object, &inherited, &name)?;
                waiting.push(library);
            }
        }
        Ok(())
    }

    /// Whether a library is there for an earlier program, and its own with it: without folders of
    /// its own, every program finds the same.
    fn has(&self, object: &Object, inherited: &[PathBuf], name: &str) -> bool {
        let image = Path::new(IMAGE_LIBRARIES).join(name);
        object.own_directories(inherited).is_empty() && self.files.contains_key(&image)
    }

    /// Finds a library, notes it, and returns it.
    fn find(
        &mut self,
        object: &Object,
        inherited: &[PathBuf],
        name: &str,
    ) -> Result<Object, ClosureError> {
        // A name with a slash is a path, which the loader does not search for.
        if name.contains('/') {
            let path = PathBuf::from(name);
            let library = Object::read(&path, false)?;
            self.files.insert(path.clone(), path);
            return Ok(library);
        }
        let own = object.own_directories(inherited);
        for directory in &own {
            let path = directory.join(name);
            if let Ok(library) = Object::read(&path, false) {
                self.files.insert(path.clone(), path);
                return Ok(library);
            }
        }
        let configured = self.search.directories().iter();
        let configured = configured.map(|directory| directory.join(name));
        let beside = self.beside.iter().filter(|path| path.ends_with(name));
        for path in configured.chain(beside.cloned()) {
            // A file of another architecture, or a linker script, is passed over as by the loader.
            if let Ok(library) = Object::read(&path, false) {
                let image = Path::new(IMAGE_LIBRARIES).join(name);
                self.files.insert(image, path);
                return Ok(library);
            }
        }
        Err(ClosureError::MissingLibrary {
            needed_by: object.path.clone(),
            library: name.to_owned(),
            searched: own
                .into_iter()
                .chain(self.search.directories().to_vec())
                .collect(),
            package: package_of(name),
        })
    }
}

/// The package that holds a library by Debian's custom: `libvips.so.42` is in `libvips42`,
/// `libglib-2.0.so.0` in `libglib-2.0-0`.
fn package_of(library: &str) -> String {
    let (name, version) = library.split_once(".so").unwrap_or((library, ""));
    let version = version.trim_start_matches('.');
    let hyphen = if name.ends_with(|c: char| c.is_ascii_digit()) && !version.is_empty() {
        "-"
    } else {
        ""
    };
    format!("{name}{hyphen}{version}")
        .to_ascii_lowercase()
        .replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::package_of;

    #[test]
    fn a_library_is_guessed_into_the_package_that_debian_has() {
        // Names and packages as in Debian 12.
        for (library, package) in [
            ("libvips.so.42", "libvips42"),
            ("libglib-2.0.so.0", "libglib-2.0-0"),
            ("libgcc_s.so.1", "libgcc-s1"),
            ("libICE.so.6", "libice6"),
            ("libaio.so.1", "libaio1"),
        ] {
            assert_eq!(package_of(library), package);
        }
    }
}
