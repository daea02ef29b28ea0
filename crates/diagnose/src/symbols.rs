// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The functions of a guest's kernel: from a `System.map`, a copy of `/proc/kallsyms`, or a
//! vmlinux.
//!
//! A kernel with KASLR runs at a multiple of 2 MiB above where it was linked
//! (`CONFIG_PHYSICAL_ALIGN`, `arch/x86/boot/compressed/kaslr.c`). `/proc/kallsyms` has the
//! addresses of the running kernel; the other two do not, and the shift is looked for: it is that
//! which puts most of the exits into functions that wait or halt. It is shown with how many it
//! explains.

use std::io::Read;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSymbol};

use crate::cause::{Cause, cause_of};

/// Steps of KASLR.
const STEP: u64 = 2 << 20;
/// The kernel's image is mapped within 1 GiB.
const STEPS: u64 = 512;
/// The largest file that is taken for symbols.
const MOST_BYTES: u64 = 2 << 30;

/// Why there are no symbols.
#[derive(Debug, thiserror::Error)]
pub enum SymbolsError {
    /// The file cannot be read.
    #[error("cannot read the symbols in {path}")]
    Io {
        /// Which.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// It is an ELF file without what is needed.
    #[error("{path}: {what}; expected a vmlinux with its symbol table")]
    Elf {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// A line is not one of `System.map`.
    #[error("{path}: line {line}: `{text}` is not a symbol; expected `ffffffff81000000 T _text`")]
    Line {
        /// Which.
        path: PathBuf,
        /// The first line is 1.
        line: usize,
        /// What it is, shortened, with escapes for what is not ASCII.
        text: String,
    },
    /// There is no function in it.
    #[error("{path}: {what}")]
    None {
        /// Which.
        path: PathBuf,
        /// Why, and how to fix it.
        what: String,
    },
}

/// Functions by address.
#[derive(Debug, Clone)]
pub struct Symbols {
    /// Ascending; the end of one is the begin of the next.
    functions: Vec<(u64, String)>,
}

/// How the addresses of a trace were matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shift {
    /// To be subtracted from a guest RIP.
    pub bytes: u64,
    /// Exits that then are in functions that wait or halt.
    pub explained: u64,
    /// All exits looked at.
    pub of: u64,
}

impl Symbols {
    /// Reads a file, whichever of the three it is.
    ///
    /// # Errors
    /// [`SymbolsError`].
    pub fn load(path: &Path) -> Result<Self, SymbolsError> {
        let io = |source| SymbolsError::Io {
            path: path.to_owned(),
            source,
        };
        let file = std::fs::File::open(path).map_err(io)?;
        let mut data = Vec::new();
        // Some files do not have their size: /proc/kallsyms has one of 0, a device has no end.
        file.take(MOST_BYTES + 1)
            .read_to_end(&mut data)
            .map_err(io)?;
        if data.len() as u64 > MOST_BYTES {
            return Err(io(std::io::Error::other("it is larger than 2 GiB")));
        }
        let mut functions = if data.starts_with(b"\x7fELF") {
            from_elf(path, &data)?
        } else {
            from_text(path, &data)?
        };
        functions.sort();
        functions.dedup_by_key(|(address, _)| *address);
        let none = |what: &str| SymbolsError::None {
            path: path.to_owned(),
            what: what.to_owned(),
        };
        match functions.last() {
            None => Err(none("it names no functions")),
            Some((0, _)) => Err(none(
                "all addresses are 0: copy /proc/kallsyms as root, or set kernel.kptr_restrict=0",
            )),
            Some(_) => Ok(Self { functions }),
        }
    }

    /// Made of these functions.
    #[must_use]
    pub fn new(mut functions: Vec<(u64, String)>) -> Self {
        functions.sort();
        Self { functions }
    }

    /// The function that an address is in, without `.isra.0` and similar endings.
    #[must_use]
    pub fn name(&self, address: u64) -> Option<&str> {
        let after = self
            .functions
            .partition_point(|&(start, _)| start <= address);
        // Behind the last function is data, of which nothing is known.
        if after == self.functions.len() {
            return None;
        }
        let (_, name) = self.functions[..after].last()?;
        Some(name.split('.').next().unwrap_or(name))
    }

    /// Finds the shift that explains most of these places, each with its number of exits.
    #[must_use]
    pub fn shift(&self, pauses: &[(u64, u64)], halts: &[(u64, u64)]) -> Shift {
        let of = pauses.iter().chain(halts).map(|(_, exits)| exits).sum();
        let score = |bytes: u64| {
            let waits = |&(rip, _): &&(u64, u64)| {
                let name = rip.checked_sub(bytes).and_then(|at| self.name(at));
                name.is_some_and(|name| cause_of(name) != Cause::Unknown)
            };
            let stops = |&(rip, _): &&(u64, u64)| {
                let name = rip.checked_sub(bytes).and_then(|at| self.name(at));
                name.is_some_and(|name| name.contains("halt") || name.contains("idle"))
            };
            let pauses = pauses.iter().filter(waits).map(|(_, exits)| exits);
            let halts = halts.iter().filter(stops).map(|(_, exits)| exits);
            pauses.chain(halts).sum::<u64>()
        };
        // Of equal ones the least, so that a kernel without KASLR is not moved.
        let best = (0..STEPS)
            .map(|step| (score(step * STEP), step))
            .rev()
            .max_by_key(|&(s, _)| s);
        let (explained, step) = best.unwrap_or((0, 0));
        Shift {
            bytes: step * STEP,
            explained,
            of,
        }
    }
}

fn from_elf(path: &Path, data: &[u8]) -> Result<Vec<(u64, String)>, SymbolsError> {
    let wrong = |what: String| SymbolsError::Elf {
        path: path.to_owned(),
        what,
    };
    let file = object::File::parse(data).map_err(|error| wrong(error.to_string()))?;
    let functions: Vec<(u64, String)> = file
        .symbols()
        .filter(|symbol| symbol.kind() == object::SymbolKind::Text && symbol.address() > 0)
        .filter_map(|symbol| Some((symbol.address(), symbol.name().ok()?.to_owned())))
        .collect();
    if functions.is_empty() {
        return Err(wrong("it has no symbols of functions".to_owned()));
    }
    Ok(functions)
}

fn from_text(path: &Path, data: &[u8]) -> Result<Vec<(u64, String)>, SymbolsError> {
    let mut functions = Vec::new();
    for (at, line) in data.split(|&byte| byte == b'\n').enumerate() {
        if line.is_empty() {
            continue;
        }
        let parsed = std::str::from_utf8(line).ok().and_then(symbol);
        let Some((address, kind, name)) = parsed else {
            let text = line[..line.len().min(60)].escape_ascii().to_string();
            return Err(SymbolsError::Line {
                path: path.to_owned(),
                line: at + 1,
                text,
            });
        };
        // The end of the code bounds its last function, whatever kind the linker gave it.
        if matches!(kind, "t" | "T" | "w" | "W") || name == "_etext" {
            functions.push((address, name.to_owned()));
        }
    }
    Ok(functions)
}

fn symbol(line: &str) -> Option<(u64, &str, &str)> {
    let mut words = line.split_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let kind = words.next().filter(|kind| kind.len() == 1)?;
    Some((address, kind, words.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 0xffff_ffff_8100_0000;

    fn symbols() -> Symbols {
        let functions = [
            (BASE, "_text"),
            (BASE + 0x1000, "smp_call_function_many_cond"),
            (BASE + 0x2000, "native_queued_spin_lock_slowpath.part.0"),
            (BASE + 0x3000, "pv_native_safe_halt"),
            (BASE + 0x4000, "vfs_read"),
            (BASE + 0x5000, "_etext"),
        ];
        Symbols::new(functions.map(|(at, name)| (at, name.to_owned())).into())
    }

    #[test]
    fn an_address_is_in_the_function_before_it_and_behind_the_last_in_none() {
        let symbols = symbols();
        assert_eq!(
            symbols.name(BASE + 0x1fff),
            Some("smp_call_function_many_cond")
        );
        assert_eq!(
            symbols.name(BASE + 0x2001),
            Some("native_queued_spin_lock_slowpath")
        );
        assert_eq!(symbols.name(BASE - 1), None);
        assert_eq!(symbols.name(BASE + 0x5001), None);
    }

    #[test]
    fn the_shift_of_kaslr_is_found_from_where_vcpus_wait_and_halt() {
        let by = 37 * STEP;
        let pauses = [(BASE + 0x1010 + by, 90), (BASE + 0x2020 + by, 10)];
        let shift = symbols().shift(&pauses, &[(BASE + 0x3003 + by, 5)]);
        let expected = Shift {
            bytes: by,
            explained: 105,
            of: 105,
        };
        assert_eq!(shift, expected);
    }

    #[test]
    fn a_kernel_that_was_not_moved_is_left_where_it_is() {
        assert_eq!(symbols().shift(&[(BASE + 0x1010, 9)], &[]).bytes, 0);
        assert_eq!(symbols().shift(&[], &[]).bytes, 0);
    }

    #[test]
    fn a_copy_of_kallsyms_made_without_privilege_is_refused_with_the_remedy() {
        let file = std::env::temp_dir().join(format!("steady-kallsyms-{}", std::process::id()));
        std::fs::write(
            &file,
            "0000000000000000 T _text\n0000000000000000 t f\t[kvm]\n",
        )
        .unwrap();
        let error = Symbols::load(&file).unwrap_err().to_string();
        std::fs::remove_file(&file).unwrap();
        assert!(error.contains("kptr_restrict"), "{error}");
    }
}
