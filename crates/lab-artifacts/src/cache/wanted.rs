// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which entries of the cache this tree would use, with the compilers and sources of now.

use std::path::PathBuf;

use super::shelf::is_left_over;
use crate::error::ArtifactError;
use crate::home::Home;
use crate::kernel::port::{self, PORTS};
use crate::kernel::{self, Build, Flavor, Series};
use crate::{bochs, qemu_system, qemu_user, selftests};

/// The names that this tree would use. Without the kernel's source it cannot be known which kernels
/// are wanted: then all of them are.
pub fn is_wanted(home: &Home) -> impl Fn(&str) -> bool {
    let mut names = vec![qemu_system::cache_name(home), qemu_user::cache_name()];
    names.extend(bochs::KINDS.map(|(kind, _)| bochs::name_in_cache(home, kind)));
    let mut add = |place: Result<PathBuf, ArtifactError>| match place {
        Ok(place) => {
            let name = place.file_name().unwrap_or_default();
            names.push(name.to_string_lossy().into_owned());
            true
        }
        Err(_) => false,
    };
    let builds = [Series::Patched, Series::Stock]
        .into_iter()
        .flat_map(|series| Flavor::ALL.map(|flavor| Build { series, flavor }));
    let mut known = add(selftests::place(home));
    for build in builds {
        known &= add(kernel::place(home, build));
    }
    for port in &PORTS {
        known &= add(port::place(home, port));
    }
    move |name: &str| {
        let of_source = name.starts_with("kernel-") || name.starts_with("selftests-");
        names.iter().any(|wanted| wanted == name) || (of_source && !known && !is_left_over(name))
    }
}
