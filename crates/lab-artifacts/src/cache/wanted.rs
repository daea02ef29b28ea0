// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which entries of the cache this tree would use, with the compilers and sources of now.
//!
//! Without the kernel's source, or a compiler, it cannot be known which kernels these are: then all
//! may be, and what stood in the way is said.

use std::fs;
use std::path::{Path, PathBuf};

use super::program::{self, SIMULATIONS};
use super::shelf::is_left_over;
use super::sums::entry_name;
use crate::error::ArtifactError;
use crate::home::Home;
use crate::kernel::port::{self, PORTS};
use crate::kernel::{self, Build, Flavor, Series};
use crate::{bochs, qemu_system, qemu_user, selftests};

/// What this tree would use of the cache.
#[derive(Debug)]
pub struct Wanted {
    names: Vec<String>,
    /// What the names of entries begin with that are not all known, and why.
    unknown: Vec<(&'static str, ArtifactError)>,
}

/// Whether this tree would use an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// It would.
    Yes,
    /// It would not.
    No,
    /// It cannot be known.
    Unknown,
}

impl Wanted {
    /// What a tree would use.
    #[must_use]
    pub fn of(home: &Home) -> Self {
        let mut wanted = Self {
            names: Vec::new(),
            unknown: Vec::new(),
        };
        wanted.add("qemu-", qemu_system::cache_name(home));
        wanted.add("qemu-user-", qemu_user::cache_name());
        for (kind, _) in bochs::KINDS {
            wanted.add("bochs-", bochs::name_in_cache(home, kind));
        }
        let name = |place: Result<PathBuf, _>| Ok(entry_name(&place?));
        wanted.add("selftests-", name(selftests::place(home)));
        for series in [Series::Patched, Series::Stock] {
            for flavor in Flavor::ALL {
                let kind = match (series, flavor) {
                    (Series::Patched, Flavor::Bpf) => "kernel-bpf-",
                    (Series::Stock, Flavor::Bpf) => "kernel-stock-bpf-",
                    _ => "kernel-",
                };
                // Few machines have what such kernels need to be named.
                if flavor == Flavor::Bpf && !has(&home.cache, kind) {
                    continue;
                }
                let place = kernel::place(home, Build { series, flavor });
                wanted.add(kind, name(place));
            }
        }
        for port in &PORTS {
            wanted.add("kernel-", name(port::place(home, port)));
        }
        wanted.add(SIMULATIONS, program::name_in_cache(SIMULATIONS));
        wanted
    }

    fn add(&mut self, kind: &'static str, name: Result<String, ArtifactError>) {
        match name {
            Ok(name) => self.names.push(name),
            Err(error) if self.unknown.iter().all(|(known, _)| *known != kind) => {
                self.unknown.push((kind, error));
            }
            Err(_) => {}
        }
    }

    /// Whether an entry of this name would be used.
    #[must_use]
    pub fn uses(&self, name: &str) -> Use {
        let mut unknown = self.unknown.iter();
        if self.names.iter().any(|wanted| wanted == name) {
            Use::Yes
        } else if !is_left_over(name) && unknown.any(|(kind, _)| name.starts_with(kind)) {
            Use::Unknown
        } else {
            Use::No
        }
    }

    /// What stood in the way of knowing, a line each.
    pub fn troubles(&self) -> impl Iterator<Item = String> {
        self.unknown.iter().map(|(kind, error)| {
            format!("which of {kind}* this tree uses cannot be known: {error}")
        })
    }
}

/// Whether the cache has an entry whose name begins so.
fn has(cache: &Path, kind: &str) -> bool {
    let entries = fs::read_dir(cache).into_iter().flatten().flatten();
    let mut names = entries.map(|entry| entry.file_name());
    names.any(|name| name.to_string_lossy().starts_with(kind))
}
