// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a result records of this process: its command line, so that it can be run again, and the
//! program.

use std::path::Path;
use std::process::Command;

use steady_race::quoted;

/// Variables that change what is run, beside those of emulators, which engines name.
const VARIABLES: [&str; 2] = ["LINUX_SOURCE", "STEADY_HOME"];

/// The command line of this process with the variables that it was run under, for results. Bytes
/// that are not UTF-8 are replaced.
pub fn own_command() -> String {
    let set = VARIABLES.iter().filter_map(|name| {
        let value = std::env::var_os(name)?;
        Some(format!("{name}={}", quoted(&value.to_string_lossy())))
    });
    let words = std::env::args_os().map(|word| quoted(&word.to_string_lossy()));
    set.chain(words).collect::<Vec<_>>().join(" ")
}

/// This program: its version, and the commit of the project's tree that it ran in; of an installed
/// tree, the commit that it was built of.
pub fn own_name(project: &Path) -> String {
    let git = |words: &[&str]| {
        let output = Command::new("git")
            .arg("-C")
            .arg(project)
            .args(words)
            .output();
        let output = output.ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let name = concat!("steady ", env!("CARGO_PKG_VERSION"));
    match git(&["rev-parse", "--short=12", "HEAD"]) {
        None => concat!("steady ", env!("STEADY_VERSION")).to_owned(),
        Some(commit) => {
            let changed = git(&["status", "--porcelain", "--untracked-files=no"]);
            let changed = changed.is_none_or(|changes| !changes.is_empty());
            let changed = if changed { " with changes" } else { "" };
            format!("{name}, commit {commit}{changed}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_of_an_installed_tree_names_the_commit_that_it_was_built_of() {
        let installed = tempfile::tempdir().expect("a folder");
        let named = concat!("steady ", env!("STEADY_VERSION"));
        assert_eq!(own_name(installed.path()), named);
        assert!(named.ends_with(')'), "{named}");
    }
}
