// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A kernel's name in the cache, made of all that goes into it.

use std::fs;
use std::path::Path;

use crate::cache::{Key, files_below};
use crate::error::ArtifactError;

use super::{Build, Flavor, Series, Source};

/// What `linux/apply` reads: the new files as a whole, documents too, because all of them go into
/// the tree, and a list of what matters would be wrong one day. Only the selftests that hooks bring
/// are left out: no kernel is built of them.
pub(crate) const APPLIED: [&str; 4] = ["apply", "lib.sh", "hooks", "new"];

/// A kernel's name in the cache, made of all that goes into it: the sources, what of the folder
/// `linux` is applied and configured, and the compiler. The stock kernel's depends on the
/// configuration without our symbols, and on no hook.
///
/// # Errors
/// [`ArtifactError::Io`] if a file cannot be read.
pub fn name_of(linux: &Path, build: Build, source: &Source) -> Result<String, ArtifactError> {
    let mut key = Key::default();
    source.add_to(&mut key)?;
    let configs: Vec<String> = build
        .flavor
        .configs()
        .map(|name| format!("config/{name}.config"))
        .collect();
    match build.series {
        Series::Patched => {
            let configured: Vec<&str> = configs.iter().map(String::as_str).collect();
            key.add_parts(linux, &APPLIED)?
                .add_parts(linux, &["configure"])?
                .add_parts(linux, &configured)?;
        }
        Series::Stock => {
            let script = linux.join("configure");
            let bytes =
                fs::read(&script).map_err(|error| ArtifactError::io("read", &script, error))?;
            key.add("stock configure", &bytes);
            for (name, text) in stock_configs(linux, build.flavor)? {
                key.add(&format!("stock {name}"), text.as_bytes());
            }
        }
    }
    add_tools(&mut key)?;
    if build.flavor == Flavor::Bpf {
        // It makes the types that are in the image.
        key.add_version("pahole")?;
    }
    Ok(format!("{}-{}", kind_of(build), key.finish()))
}

/// Adds what compiles and links a kernel.
pub(super) fn add_tools(key: &mut Key) -> Result<(), ArtifactError> {
    key.add_version("gcc")?.add_version("ld").map(drop)
}

/// What the names of such kernels begin with.
fn kind_of(build: Build) -> String {
    let series = match build.series {
        Series::Patched => "kernel",
        Series::Stock => "kernel-stock",
    };
    match build.flavor {
        Flavor::Lab => series.to_owned(),
        other => format!("{series}-{}", other.name()),
    }
}

/// Whether a folder's name is that of such a kernel, whatever went into it.
pub(super) fn is_of(name: &str, build: Build) -> bool {
    let key = name.strip_prefix(&format!("{}-", kind_of(build)));
    key.is_some_and(|key| key.len() == 16 && key.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// The configurations of a flavor without the symbols that our series defines, by their files.
pub(super) fn stock_configs(
    linux: &Path,
    flavor: Flavor,
) -> Result<Vec<(String, String)>, ArtifactError> {
    let read = |path: &Path| {
        fs::read_to_string(path).map_err(|error| ArtifactError::io("read", path, error))
    };
    let mut ours = Vec::new();
    for path in files_below(&linux.join("new"))? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("Kconfig") {
            ours.extend(defined_symbols(&read(&path)?, ""));
        }
    }
    for path in files_below(&linux.join("hooks"))? {
        ours.extend(defined_symbols(&read(&path)?, "+"));
    }
    flavor
        .configs()
        .map(|name| {
            let file = format!("config/{name}.config");
            let text = read(&linux.join(&file))?;
            Ok((file, without_symbols(&text, &ours)))
        })
        .collect()
}

/// Symbols that the lines of a Kconfig file define; of a patch to one, those that begin with
/// `mark`.
fn defined_symbols(text: &str, mark: &str) -> Vec<String> {
    text.lines()
        .filter_map(|line| {
            let line = line.strip_prefix(mark)?;
            let name = line
                .strip_prefix("config ")
                .or_else(|| line.strip_prefix("menuconfig "))?;
            Some(format!("CONFIG_{}", name.trim()))
        })
        .collect()
}

fn without_symbols(config: &str, symbols: &[String]) -> String {
    let sets = |line: &str| {
        let line = line.strip_prefix("# ").unwrap_or(line);
        let end = line.find([' ', '=']).unwrap_or(line.len());
        symbols.iter().any(|symbol| symbol == &line[..end])
    };
    config
        .split_inclusive('\n')
        .filter(|line| !sets(line.trim_end()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernels_folder_is_known_by_its_name() {
        let build = |series, flavor| Build { series, flavor };
        for (name, series, flavor) in [
            ("kernel-0123456789abcdef", Series::Patched, Flavor::Lab),
            (
                "kernel-hz-100-0123456789abcdef",
                Series::Patched,
                Flavor::Hz100,
            ),
            ("kernel-stock-0123456789abcdef", Series::Stock, Flavor::Lab),
            (
                "kernel-stock-rt-0123456789abcdef",
                Series::Stock,
                Flavor::Rt,
            ),
        ] {
            for of in [Series::Patched, Series::Stock] {
                for flavor_of in Flavor::ALL {
                    let same = (of, flavor_of) == (series, flavor);
                    assert_eq!(is_of(name, build(of, flavor_of)), same, "{name}");
                }
            }
        }
        for name in ["kernel-0123456789abcdef.failed", "kernel-", "kernel"] {
            assert!(!is_of(name, build(Series::Patched, Flavor::Lab)), "{name}");
        }
    }

    #[test]
    fn the_stock_configuration_lacks_what_a_hook_defines_and_nothing_else() {
        let hook = "config KVM_IN_TEXT\n---\n--- a/arch/x86/kvm/Kconfig\n\
                    +++ b/arch/x86/kvm/Kconfig\n \
                    config KVM\n+config KVM_SHOOT4U\n+\tbool\n";
        let new = "config KVM_SHOOT4U_FAULTS\n\tbool \"x\"\n";
        let mut ours = defined_symbols(hook, "+");
        ours.extend(defined_symbols(new, ""));
        let config = "CONFIG_KVM=y\nCONFIG_KVM_IN_TEXT=y\nCONFIG_KVM_SHOOT4U=y\n\
                      # CONFIG_KVM_SHOOT4U_FAULTS is not set\nCONFIG_KVM_SHOOT4U_OTHER=y\n\
                      # a comment\n";
        assert_eq!(
            without_symbols(config, &ours),
            "CONFIG_KVM=y\nCONFIG_KVM_IN_TEXT=y\nCONFIG_KVM_SHOOT4U_OTHER=y\n# a comment\n"
        );
    }
}
