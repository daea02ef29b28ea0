// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the dynamic loader reads out of one ELF file.

use std::path::{Path, PathBuf};

use object::elf;
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{LittleEndian, Object as _, ObjectSymbol as _};

use super::ClosureError;

/// Functions that make glibc load the unwinder.
const UNWINDING: [&str; 2] = ["pthread_exit", "pthread_cancel"];

/// What one program or library asks of the loader.
#[derive(Debug)]
pub(super) struct Object {
    pub path: PathBuf,
    /// The loader itself; `None` for libraries and static programs.
    pub interpreter: Option<PathBuf>,
    /// Directories that also hold for the libraries of this object.
    pub rpath: Vec<PathBuf>,
    /// Directories for the libraries that this object names; where given, `rpath` is ignored.
    runpath: Option<Vec<PathBuf>>,
    needed: Vec<String>,
    unwinds: bool,
}

impl Object {
    pub(super) fn read(path: &Path, is_program: bool) -> Result<Self, ClosureError> {
        let data = std::fs::read(path).map_err(|source| ClosureError::Read {
            path: path.to_owned(),
            is_program,
            source,
        })?;
        if let Some(rest) = data.strip_prefix(b"#!") {
            let line = rest.split(|&byte| byte == b'\n').next().unwrap_or_default();
            return Err(ClosureError::Script {
                path: path.to_owned(),
                interpreter: String::from_utf8_lossy(line).trim().to_owned(),
            });
        }
        let not_elf = |reason: String| ClosureError::NotElf {
            path: path.to_owned(),
            reason,
        };
        let file =
            ElfFile64::<LittleEndian>::parse(&*data).map_err(|error| not_elf(error.to_string()))?;
        let machine = file.elf_header().e_machine(LittleEndian);
        if machine != elf::EM_X86_64 {
            return Err(not_elf("it is for another machine".to_owned()));
        }
        Self::parse(path, &file, &data).map_err(|error| not_elf(error.to_string()))
    }

    fn parse(path: &Path, file: &ElfFile64<'_, LittleEndian>, data: &[u8]) -> object::Result<Self> {
        let mut object = Self {
            path: path.to_owned(),
            interpreter: None,
            rpath: Vec::new(),
            runpath: None,
            needed: Vec::new(),
            unwinds: false,
        };
        for header in file.elf_program_headers() {
            if let Some(name) = header.interpreter(LittleEndian, data)? {
                object.interpreter = Some(PathBuf::from(text(name)));
            }
        }
        let table = file.elf_dynamic_table()?;
        for entry in &table {
            match entry.tag {
                elf::DT_NEEDED => object.needed.push(text(table.string(entry)?)),
                elf::DT_RPATH => object.rpath = directories(&text(table.string(entry)?), path),
                elf::DT_RUNPATH => {
                    object.runpath = Some(directories(&text(table.string(entry)?), path));
                }
                _ => {}
            }
        }
        object.unwinds = file.dynamic_symbols().any(|symbol| {
            symbol.is_undefined() && symbol.name().is_ok_and(|name| UNWINDING.contains(&name))
        });
        Ok(object)
    }

    /// The libraries named, and `unwinder` if it will be loaded later.
    pub(super) fn all_needed(&self, unwinder: &str) -> Vec<String> {
        let mut all = self.needed.clone();
        if self.unwinds {
            all.push(unwinder.to_owned());
        }
        all
    }

    /// The directories searched before the configured ones. `inherited` is the program's rpath.
    pub(super) fn own_directories(&self, inherited: &[PathBuf]) -> Vec<PathBuf> {
        match &self.runpath {
            Some(runpath) => runpath.clone(),
            None => {
                let mut all = self.rpath.clone();
                all.extend(
                    inherited
                        .iter()
                        .filter(|path| !self.rpath.contains(path))
                        .cloned(),
                );
                all
            }
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The directories of an rpath; `$ORIGIN` is the directory of the file that has it.
fn directories(list: &str, path: &Path) -> Vec<PathBuf> {
    let origin = path.parent().unwrap_or(Path::new("/")).to_string_lossy();
    list.split(':')
        .filter(|directory| !directory.is_empty())
        .map(|directory| {
            PathBuf::from(
                directory
                    .replace("${ORIGIN}", &origin)
                    .replace("$ORIGIN", &origin),
            )
        })
        .collect()
}
