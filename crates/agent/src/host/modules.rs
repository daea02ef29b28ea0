// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The modules of a kernel that has KVM as such: a distribution's. They are loaded in the order of
//! their names. Words `MODULE.PARAMETER=VALUE` of the command line are passed on, as modprobe does.
//!
//! A module for processors of the other vendor refuses to load, so that one which does not load is
//! only said; without KVM nothing begins.

use std::ffi::CString;
use std::fs::{self, File};
use std::path::Path;

use nix::kmod::{ModuleInitFlags, finit_module};

use crate::system::{Doing, Failure, read_trimmed};

const FOLDER: &str = "/lab/modules";

/// Loads them; nothing where the kernel has none.
pub fn load() -> Result<(), Failure> {
    let Ok(entries) = fs::read_dir(FOLDER) else {
        return Ok(());
    };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let cmdline = read_trimmed("/proc/cmdline");
    for path in paths {
        let what = || format!("load {}", path.display());
        let file = File::open(&path).doing(what)?;
        let words = CString::new(parameters(&cmdline, name(&path))).doing(what)?;
        if let Err(error) = finit_module(&file, &words, ModuleInitFlags::empty()) {
            eprintln!("steady-agent: host: {}: {error}", what());
        }
    }
    Ok(())
}

/// The name of the module in `NUMBER-NAME.ko`.
fn name(path: &Path) -> &str {
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    let stem = stem.unwrap_or_default();
    stem.split_once('-').map_or(stem, |(_, name)| name)
}

/// What of a kernel's command line is for a module.
fn parameters(cmdline: &str, module: &str) -> String {
    let own = cmdline.split_whitespace().filter_map(|word| {
        let (of, parameter) = word.split_once('.')?;
        (of.replace('-', "_") == module).then_some(parameter)
    });
    own.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_passed_its_words_of_the_command_line() {
        let cmdline = "quiet kvm_intel.ple_window=273 kvm.halt_poll_ns=0 kvm-intel.ple_gap=128";
        let module = name(Path::new("/lab/modules/02-kvm_intel.ko"));
        assert_eq!(module, "kvm_intel");
        assert_eq!(parameters(cmdline, module), "ple_window=273 ple_gap=128");
        assert_eq!(parameters(cmdline, "kvm_amd"), "");
    }
}
