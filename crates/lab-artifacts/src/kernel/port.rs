// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The patched kernel of another version of Linux: what `linux/port` makes of our series, put into
//! the source that a suite of Debian packages, in the lab's configuration. An older version may
//! have no remedy, but what one is compared with. So may the lab's own version: a rival that would
//! change the kernel that races measure has a kernel of its own.
//!
//! `$LINUX_SOURCE` names another tree or tarball of that version. Left out: the stock kernel beside
//! it, and other configurations.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use steady_race::Watcher;

use super::key::{APPLIED, add_tools};
use super::package::unpack_deb;
use super::source::Source;
use super::{Kernel, Recipe, STEP_LIMIT, asks_for_source, at, compile};
use crate::cache::sums::entry_name;
use crate::cache::{Key, cached, files_below};
use crate::debian;
use crate::error::ArtifactError;
use crate::home::Home;
use crate::process::run_step;

/// A version of Linux that our series is ported to.
#[derive(Debug, PartialEq, Eq)]
pub struct Port {
    /// Its version, which is its folder in `linux/ports` and its name in commands.
    pub version: &'static str,
    /// Debian's package of its source, and the suite of the archive that has it; `None`: the
    /// source that the lab's own kernel is built from.
    package: Option<(&'static str, &'static str)>,
    /// Whether it has the kernel's remedies; else what one of them is compared with.
    pub has_remedies: bool,
}

/// Those that there are.
pub static PORTS: [Port; 4] = [
    Port {
        version: "6.1",
        package: Some(("linux-source-6.1", "bookworm")),
        has_remedies: false,
    },
    Port {
        version: "6.12-proposal",
        package: None,
        has_remedies: true,
    },
    Port {
        version: "6.12-ranges",
        package: None,
        has_remedies: true,
    },
    Port {
        version: "7.3",
        package: Some(("linux-source-7.3", "trixie-backports")),
        has_remedies: true,
    },
];

/// What of `linux/` makes a port, beside what is applied.
const MADE_OF: [&str; 3] = ["port", "configure", "config/lab.config"];

impl Port {
    /// What it is called where progress and logs name it.
    #[must_use]
    pub fn words(&self) -> String {
        format!("kernel {}", self.version)
    }

    /// Debian's package of its source and that one's suite, if the source must be fetched.
    pub(crate) fn to_fetch(&self) -> Option<(&'static str, &'static str)> {
        self.package.filter(|_| !asks_for_source())
    }
}

/// Where the kernel of a port is in the cache once it is built. Debian's source is named by its
/// package alone, so that a newer point release is not fetched where an earlier one is built.
///
/// # Errors
/// [`ArtifactError::Io`], [`ArtifactError::KernelSource`] if `$LINUX_SOURCE` is of no use.
pub(crate) fn place(home: &Home, port: &Port) -> Result<PathBuf, ArtifactError> {
    let linux = home.project.join("linux");
    let mut key = Key::default();
    match port.to_fetch() {
        Some((package, _)) => {
            key.add("package", package.as_bytes());
        }
        None => Source::find()?.add_to(&mut key)?,
    }
    let folder = format!("ports/{}", port.version);
    key.add_parts(&linux, &APPLIED)?
        .add_parts(&linux, &MADE_OF)?
        .add_parts(&linux, &[&folder])?;
    add_tools(&mut key)?;
    let name = format!("kernel-{}-{}", port.version, key.finish());
    Ok(home.cache.join(name))
}

/// The kernel of a port, built if it is not in the cache.
///
/// # Errors
/// [`ArtifactError::Build`] if apt, a script or the compiler fails,
/// [`ArtifactError::KernelSource`],
/// [`ArtifactError::Io`], [`ArtifactError::Interrupted`].
pub fn ensure(home: &Home, port: &Port, watcher: &dyn Watcher) -> Result<Kernel, ArtifactError> {
    let name = entry_name(&place(home, port)?);
    let place = cached(&home.cache, &name, |work| build(home, port, work, watcher))?;
    at(&place)
}

fn build(
    home: &Home,
    port: &Port,
    work: &Path,
    watcher: &dyn Watcher,
) -> Result<(), ArtifactError> {
    let log = work.join("build.log");
    let source = match port.to_fetch() {
        None => Source::find()?,
        Some((package, suite)) => {
            watcher.say(&format!("fetching {package}"));
            Source::Tarball(fetch(package, suite, port.version, work)?)
        }
    };
    let made = work.join("port");
    let script = home.project.join("linux/port");
    let words = [
        script.as_os_str(),
        OsStr::new(port.version),
        made.as_os_str(),
    ];
    run_step("linux/port", &words, work, &log, STEP_LIMIT, || {})?;
    let recipe = Recipe {
        words: port.words(),
        apply: Some(made.join("apply")),
        configure: made.join("configure"),
        configs: Vec::new(),
    };
    compile(&recipe, &source, work, watcher)?;
    for folder in [made, work.join(UNPACKED)] {
        if folder.is_dir() {
            fs::remove_dir_all(&folder)
                .map_err(|error| ArtifactError::io("remove", &folder, error))?;
        }
    }
    Ok(())
}

/// Folder of what Debian's package has.
const UNPACKED: &str = "package";

/// The tarball of a port's source, fetched from Debian's archive.
fn fetch(name: &str, suite: &str, version: &str, work: &Path) -> Result<PathBuf, ArtifactError> {
    let package = debian::fetch_binary(work, name, suite)?;
    let folder = work.join(UNPACKED);
    unpack_deb(&package, &folder, work)?;
    fs::remove_file(&package).map_err(|error| ArtifactError::io("remove", &package, error))?;
    let wanted = format!("{name}.tar.xz");
    let found = files_below(&folder)?
        .into_iter()
        .find(|path| path.file_name() == Some(OsStr::new(&wanted)));
    found.ok_or_else(|| ArtifactError::KernelSource {
        what: format!("{} has no {wanted}", package.display()),
        fix: format!("set LINUX_SOURCE to a tree or tarball of Linux {version}"),
        given: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_folder_of_ports_is_a_port_and_the_other_way_round() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../linux/ports");
        let mut folders: Vec<String> = fs::read_dir(folder)
            .expect("ports are there")
            .map(|entry| {
                entry
                    .expect("read")
                    .file_name()
                    .into_string()
                    .expect("UTF-8")
            })
            .collect();
        folders.sort();
        assert_eq!(folders, PORTS.each_ref().map(|port| port.version));
    }
}
