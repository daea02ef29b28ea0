// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names the commit that `steady --version` shows: `$STEADY_COMMIT`, the commit of this clone, or
//! what `git archive` wrote into `packaging/commit`. Elsewhere it says `unknown commit`.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Digits of a commit that are shown.
const SHOWN: usize = 12;

fn main() {
    let own = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let root = own.ancestors().nth(2).expect("this crate is in crates/");
    println!("cargo:rerun-if-env-changed=STEADY_COMMIT");
    println!("cargo:rerun-if-changed=build.rs");
    let given = std::env::var("STEADY_COMMIT").ok();
    let given = given.filter(|commit| !commit.is_empty());
    let commit = given
        .or_else(|| of_clone(root))
        .or_else(|| of_archive(root))
        .unwrap_or_else(|| "unknown commit".to_owned());
    let version = std::env::var("CARGO_PKG_VERSION").expect("cargo sets it");
    println!("cargo:rustc-env=STEADY_VERSION={version} ({commit})");
}

/// The commit that is checked out, if this tree is a clone and not a folder in another one.
fn of_clone(root: &Path) -> Option<String> {
    let top = git(root, &["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).canonicalize().ok()? != root.canonicalize().ok()? {
        return None;
    }
    // It is written whenever another commit is checked out or made.
    let log = git(root, &["rev-parse", "--git-path", "logs/HEAD"])?;
    println!("cargo:rerun-if-changed={}", root.join(log).display());
    shown(&git(root, &["rev-parse", "HEAD"])?)
}

fn git(root: &Path, words: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(words).output();
    let output = output.ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

/// What stands in `packaging/commit`, which git fills in where it makes an archive.
fn of_archive(root: &Path) -> Option<String> {
    let file = root.join("packaging/commit");
    println!("cargo:rerun-if-changed={}", file.display());
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| !line.starts_with('#'))?;
    shown(line.split(' ').next()?)
}

/// The first digits of a commit's name; `None` for what is not one.
fn shown(name: &str) -> Option<String> {
    let is_name = name.len() >= SHOWN && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_name.then(|| name[..SHOWN].to_owned())
}
