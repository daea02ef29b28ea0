// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Command lines as a shell takes them, so that what is printed or recorded can be run again.

use std::path::Path;
use std::process::Command;

/// Words with blanks between them, each quoted where a POSIX shell would change it.
pub fn for_shell(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    words.join(" ")
}

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

fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:,=+%@".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
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

    #[test]
    fn a_shell_gives_the_words_back() {
        let words = [
            "-o", "a b", "it's", "", "$HOME *", "a\nb", "\\", "--x=1,2", "µ",
        ];
        let words = words.map(str::to_owned);
        let script = format!("printf '%s\\0' {}", for_shell(&words));
        let said = Command::new("sh").args(["-c", &script]).output();
        let said = String::from_utf8(said.expect("sh runs").stdout).expect("UTF-8");
        assert_eq!(said, words.map(|word| word + "\0").concat());
    }
}
