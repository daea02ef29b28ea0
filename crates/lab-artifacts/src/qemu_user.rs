// SPDX-License-Identifier: Apache-2.0 OR MIT
//! QEMU's user-mode emulation with plugins, in which programs are captured: the packaged one where
//! it has plugins (Debian 12), one compiled from the distribution's source package where it has not
//! (Debian 13 links it statically, and a static program loads no plugin).

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use steady_race::Watcher;

use crate::cache::{Key, cached, steps_done};
use crate::debian;
use crate::error::ArtifactError;
use crate::home::Home;
use crate::process::{find_program, run_step};
use crate::said;

const BUILD_LIMIT: Duration = Duration::from_secs(60 * 60);
/// Steps of a build, for the progress bar only.
const STEPS: u64 = 347;
/// Nothing but the emulation of x86-64 programs, and plugins.
const CONFIGURE: [&str; 8] = [
    "--target-list=x86_64-linux-user",
    "--enable-plugins",
    "--without-default-features",
    "--disable-system",
    "--disable-tools",
    "--disable-docs",
    "--disable-werror",
    // The archive that Debian distributes lacks them.
    "--disable-install-blobs",
];
/// A build dependency that only QEMU's own tests need, and that is neither packaged nor in the
/// archive.
const UNNEEDED: &str = "pycotap";

/// A qemu-x86_64 that loads plugins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QemuUser {
    /// The program.
    pub program: PathBuf,
    /// First line of what it says of its version.
    pub version: String,
    /// Whether we compiled it.
    pub compiled: bool,
}

/// How a configuration of QEMU is called: with Debian's programs first on the path, since another
/// Python there may lack the modules that it takes. QEMU 7.2 refuses `--python` without a Meson of
/// its own.
pub(crate) fn configure(words: &[&str]) -> Vec<OsString> {
    let mut path = OsString::from("PATH=/usr/bin");
    if let Some(known) = std::env::var_os("PATH") {
        path.push(":");
        path.push(known);
    }
    let begin = ["/usr/bin/env".into(), path, "./configure".into()];
    let words = words.iter().map(OsString::from);
    begin.into_iter().chain(words).collect()
}

/// The name of the compiled one in the cache.
///
/// # Errors
/// [`ArtifactError::Io`] if the compiler cannot be asked.
pub(crate) fn cache_name() -> Result<String, ArtifactError> {
    let mut key = Key::default();
    key.add("suite", debian::SUITE.as_bytes())
        .add("unneeded", UNNEEDED.as_bytes())
        .add_version("gcc")?;
    for word in CONFIGURE {
        key.add("configure", word.as_bytes());
    }
    Ok(format!("qemu-user-{}", key.finish()))
}

fn described(program: PathBuf, compiled: bool) -> QemuUser {
    let version = said::version(&program).unwrap_or_default();
    QemuUser {
        version: version.lines().next().unwrap_or_default().to_owned(),
        program,
        compiled,
    }
}

/// The packaged one, if it is there and loads plugins: only then does its help name the option.
pub(crate) fn packaged() -> Option<QemuUser> {
    find_program("qemu-x86_64")
        .filter(|program| said::said(program, "-help").is_ok_and(|text| text.contains("-plugin")))
        .map(|program| described(program, false))
}

/// The packaged one where it loads plugins, else the compiled one, built if it is not in the cache.
///
/// # Errors
/// [`ArtifactError::Build`], [`ArtifactError::Io`],
/// [`ArtifactError::Interrupted`].
pub fn ensure(home: &Home, watcher: &dyn Watcher) -> Result<QemuUser, ArtifactError> {
    if let Some(found) = packaged() {
        return Ok(found);
    }
    let place = cached(&home.cache, &cache_name()?, |work| build(work, watcher))?;
    Ok(described(place.join("qemu-x86_64"), true))
}

/// Takes what is not needed out of the list of what QEMU's build asks Python for, where there is
/// one: QEMU 7.2 has none.
///
/// # Errors
/// [`ArtifactError::Io`].
pub(super) fn trim(tree: &Path) -> Result<(), ArtifactError> {
    let file = tree.join("pythondeps.toml");
    if !file.is_file() {
        return Ok(());
    }
    let text =
        fs::read_to_string(&file).map_err(|error| ArtifactError::io("read", &file, error))?;
    let needed: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with(UNNEEDED))
        .collect();
    fs::write(&file, needed.join("\n") + "\n")
        .map_err(|error| ArtifactError::io("write", &file, error))
}

fn build(work: &Path, watcher: &dyn Watcher) -> Result<(), ArtifactError> {
    let what = "QEMU's user-mode emulation";
    watcher.say("building qemu-x86_64 with plugins, which takes some minutes once");
    let log = work.join("build.log");
    let tree = work.join("tree");
    debian::fetch(work, "qemu", &tree)?;
    let step = |what: &str, words: &[&OsStr], watch: &mut dyn FnMut()| {
        run_step(what, words, &tree, &log, BUILD_LIMIT, watch)
    };
    let os = OsStr::new;
    trim(&tree)?;
    let configure = configure(&CONFIGURE);
    let configure: Vec<&OsStr> = configure.iter().map(OsString::as_os_str).collect();
    step("configuring QEMU", &configure, &mut || {})?;
    let ninja = [os("ninja"), os("-C"), os("build"), os("qemu-x86_64")];
    step("building qemu-x86_64", &ninja, &mut || {
        watcher.progress(what, steps_done(&log).min(STEPS - 1), STEPS);
    })?;
    let made = tree.join("build/qemu-x86_64");
    fs::copy(&made, work.join("qemu-x86_64"))
        .map_err(|error| ArtifactError::io("copy", &made, error))?;
    fs::remove_dir_all(&tree).map_err(|error| ArtifactError::io("remove", &tree, error))?;
    watcher.done(what);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_configuration_finds_debians_python_whatever_is_first_on_the_path() {
        let tree = tempfile::tempdir().unwrap();
        let script = tree.path().join("configure");
        fs::write(&script, "#!/bin/sh\ncommand -v python3\necho \"$@\"\n").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let words = configure(&["--one", "--other"]);
        let output = Command::new(&words[0])
            .args(&words[1..])
            .current_dir(tree.path())
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(said, "/usr/bin/python3\n--one --other\n");
    }
}
