// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where things are: the project's tree and the cache beside it.
//!
//! The tree is a checkout, or what of it a package installs as `share/steady`. A package brings
//! [`PROGRAMS`] and perhaps [`KERNELS`] in it, built; in a checkout they are built.

use std::path::{Path, PathBuf};

use crate::error::ArtifactError;
use crate::need::Fix;

/// What a tree is known by.
const MARK: &str = "linux/config/lab.config";
/// The tree of a package, from a folder above the program.
const INSTALLED: &str = "share/steady";
/// The same of a whole system's package, for a program that is elsewhere or cannot ask where it is.
const SYSTEM: &str = "/usr/share/steady";
/// The tree that this program was built in; a package's program is used elsewhere.
const BUILT_IN: Option<&str> = match option_env!("STEADY_PACKAGED") {
    Some(_) => None,
    None => Some(env!("CARGO_MANIFEST_DIR")),
};
/// Folder of a package's tree with the programs of the images, built.
pub const PROGRAMS: &str = "programs";
/// The packages with the command and with the usual kernel, as apt takes them from a folder: no
/// archive has them.
pub(crate) const PACKAGE: &str = "./steady_*.deb";
pub(crate) const LAB_PACKAGE: &str = "./steady-lab_*.deb";
/// Folder of a package's tree with kernels, each in a folder that is named as in the cache.
pub const KERNELS: &str = "kernels";

/// What brings a tree.
pub(crate) const NO_TREE: &str =
    "install the whole package, run from a checkout, or set STEADY_HOME to one";

/// The two folders that everything else is found under.
#[derive(Debug, Clone)]
pub struct Home {
    /// Root of the project's tree.
    pub project: PathBuf,
    /// Cache for what takes long to build: `$STEADY_CACHE`, or `~/.cache/steady`.
    pub cache: PathBuf,
}

impl Home {
    /// Finds both. The project is `$STEADY_HOME` if that is set, else the first folder with
    /// `linux/config` from the current one upwards, or from the program's own upwards, where it may
    /// be `share/steady`, or the tree that this program was built in, or `/usr/share/steady`.
    ///
    /// # Errors
    /// [`ArtifactError::NoProject`] if no such tree exists.
    pub fn find() -> Result<Self, ArtifactError> {
        let here = std::env::current_dir().unwrap_or_default();
        let given = variable("STEADY_HOME");
        let program = std::env::current_exe().unwrap_or_default();
        let project = project(given.as_deref(), &here, &program);
        let searched = || match &given {
            Some(given) => format!("at {}, which STEADY_HOME names", given.display()),
            None => format!(
                "at or above {}, nor share/steady beside this program",
                here.display()
            ),
        };
        Ok(Self {
            project: project.ok_or_else(|| ArtifactError::NoProject {
                searched: searched(),
            })?,
            cache: Self::find_cache()?,
        })
    }

    /// Finds the cache alone, which needs no tree.
    ///
    /// # Errors
    /// [`ArtifactError::Io`] if the current folder was removed.
    pub fn find_cache() -> Result<PathBuf, ArtifactError> {
        let root = cache_root();
        std::path::absolute(&root).map_err(|error| ArtifactError::io("find", &root, error))
    }
}

/// What brings a folder back that is a kernel or the programs of a package's tree.
pub(crate) fn package_fix(folder: &Path) -> Option<Fix> {
    let kernels = folder.parent().filter(|parent| parent.ends_with(KERNELS));
    let programs = Some(folder).filter(|folder| folder.ends_with(PROGRAMS));
    let found = [(kernels, LAB_PACKAGE), (programs, PACKAGE)].into_iter();
    let mut found = found.filter_map(|(part, package)| Some((part?, package)));
    let (_, package) = found.find(|(part, _)| part.with_file_name(MARK).is_file())?;
    let command = format!("apt-get install --reinstall {package}");
    Some(match folder.starts_with(SYSTEM) {
        true => Fix::AsRoot(command),
        false => Fix::Do(format!(
            "install the package again, as by {command}, or unpack its tarball again"
        )),
    })
}

/// The value of a variable; an empty one is as one that is not set.
fn variable(name: &str) -> Option<PathBuf> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty());
    value.map(PathBuf::from)
}

/// The one that is given, else the first of all candidates that is a tree.
fn project(given: Option<&Path>, here: &Path, program: &Path) -> Option<PathBuf> {
    let is_tree = |path: &PathBuf| path.join(MARK).is_file();
    if let Some(given) = given {
        return Some(given.to_owned()).filter(is_tree);
    }
    let beside = program
        .ancestors()
        .flat_map(|folder| [folder.to_owned(), folder.join(INSTALLED)]);
    let built = BUILT_IN.and_then(|own| Path::new(own).ancestors().nth(2));
    here.ancestors()
        .map(Path::to_path_buf)
        .chain(beside)
        .chain(built.map(Path::to_path_buf))
        .chain([PathBuf::from(SYSTEM)])
        .find(is_tree)
}

fn cache_root() -> PathBuf {
    if let Some(path) = variable("STEADY_CACHE") {
        return path;
    }
    // Without the variable the system knows where this user is at home.
    let home = || variable("HOME").or_else(std::env::home_dir);
    let home = || home().unwrap_or_else(|| "/root".into()).join(".cache");
    variable("XDG_CACHE_HOME")
        .unwrap_or_else(home)
        .join("steady")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_nearer_tree_is_taken_and_an_installed_one_is_found_from_its_program() {
        let place = tempfile::tempdir().unwrap();
        let at = |path: &str| place.path().join(path);
        let tree = |path: &str| {
            let mark = at(path).join(MARK);
            fs::create_dir_all(mark.parent().unwrap()).unwrap();
            fs::write(mark, "").unwrap();
        };
        for path in ["usr/share/steady", "clone", "other"] {
            tree(path);
        }
        let found = |given: Option<&str>, here: &str, program: &str| {
            project(given.map(at).as_deref(), &at(here), &at(program)).map(|path| {
                let path = path.strip_prefix(place.path()).unwrap().to_owned();
                path.display().to_string()
            })
        };
        let installed = "usr/bin/steady";
        for (given, here, program, expected) in [
            (None, "nowhere", installed, Some("usr/share/steady")),
            (None, "clone/crates/cli", installed, Some("clone")),
            (Some("other"), "clone", installed, Some("other")),
            // Another tree than the one that was asked for would be a surprise.
            (Some("empty"), "clone", installed, None),
            (
                None,
                "nowhere",
                "clone/target/release/steady",
                Some("clone"),
            ),
        ] {
            let found = found(given, here, program);
            assert_eq!(found.as_deref(), expected, "{given:?} {here} {program}");
        }
    }
}
