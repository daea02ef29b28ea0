// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel of a distribution's package, or of a folder of packages or of their files: its image,
//! its configuration, and the modules that a host of KVM needs, in the order in which they are
//! loaded.
//!
//! Left out: modules for guests' disks. Such a kernel has no `VIRTIO_MMIO_CMDLINE_DEVICES`, so that
//! a guest with it finds none. Its `System.map` is a stub, so that no address has a name.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use steady_race::Watcher;

use self::contents::{Contents, MODULES, file_name};
use super::{Kernel, at};
use crate::cache::{Key, cached, files_below};
use crate::debian;
use crate::error::ArtifactError;
use crate::home::Home;
use crate::process::run_step;

mod contents;
pub(super) mod modules;

const UNPACK_LIMIT: Duration = Duration::from_secs(5 * 60);
/// A package of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Package {
    /// The one that a release of Debian installs.
    Debian(&'static Release),
    /// A `.deb` of the user's.
    File(PathBuf),
    /// A folder of the user's: of the packages that make up one kernel, or of their files.
    Folder(PathBuf),
}

/// A release of Debian with a kernel.
#[derive(Debug, PartialEq, Eq)]
pub struct Release {
    /// Its name here.
    pub name: &'static str,
    /// Its suite in the archive.
    suite: &'static str,
}

/// Those that are known.
pub static RELEASES: [Release; 4] = [
    Release {
        name: "debian-12",
        suite: "bookworm",
    },
    Release {
        name: "debian-12-backports",
        suite: "bookworm-backports",
    },
    Release {
        name: "debian-13",
        suite: "trixie",
    },
    Release {
        name: "debian-13-backports",
        suite: "trixie-backports",
    },
];

/// The package that installs a release's newest kernel.
const META: &str = "linux-image-amd64";
/// What the packages with parts of a kernel are called.
const PARTS: [&str; 4] = [
    "linux-image-",
    "linux-binary-",
    "linux-modules-",
    "linux-base-",
];

/// Where the files of an unpacked kernel are, below its folder; `*` is one release.
const PLACES: [&str; 4] = ["", "boot", "lib/modules/*", "usr/lib/modules/*"];

/// Whether a folder has packages, or the files of an unpacked one.
pub(super) fn is_folder_of(folder: &Path) -> bool {
    PLACES.iter().any(|place| {
        let (above, each) = match place.strip_suffix("/*") {
            Some(above) => (folder.join(above), true),
            None => (folder.join(place), false),
        };
        let inside = if each { entries(&above) } else { vec![above] };
        let mut files = inside.iter().flat_map(|folder| entries(folder));
        files.any(|path| is_image(&path) || (place.is_empty() && is_package(&path)))
    })
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn is_image(path: &Path) -> bool {
    file_name(path).starts_with("vmlinuz") && path.is_file()
}

fn is_package(path: &Path) -> bool {
    path.extension() == Some(OsStr::new("deb"))
}

/// The kernel of a package, fetched and unpacked if it is not in the cache.
///
/// # Errors
/// [`ArtifactError::Build`] if apt or dpkg-deb fails, [`ArtifactError::NotAKernel`] for a package
/// that lacks a part of one, [`ArtifactError::Io`], [`ArtifactError::Interrupted`].
pub fn ensure(
    home: &Home,
    package: &Package,
    watcher: &dyn Watcher,
) -> Result<Kernel, ArtifactError> {
    let name = name_in_cache(package)?;
    let place = cached(&home.cache, &name, |work| match package {
        Package::Debian(release) => {
            watcher.say(&format!("fetching the kernel of {}", release.name));
            let files = debian::fetch_binaries(work, META, release.suite, &PARTS)?;
            unpack(&files, work)
        }
        Package::File(path) => unpack(&[whole_path(path)?], work),
        Package::Folder(path) => match packages_in(path)? {
            packages if packages.is_empty() => {
                Contents::find(&files_of(path)?, path)?.put_into(work)
            }
            packages => unpack(&packages, work),
        },
    })?;
    let mut kernel = at(&place)?;
    kernel.modules = files_below(&place.join(MODULES))?;
    Ok(kernel)
}

/// The name of a package's kernel in the cache.
///
/// # Errors
/// [`ArtifactError::NotAKernel`] if the package cannot be read, or has no kernel.
pub(crate) fn name_in_cache(package: &Package) -> Result<String, ArtifactError> {
    let mut key = Key::default();
    // Another one for what is asked of packages otherwise.
    key.add("recipe", b"2");
    let packages = match package {
        Package::Debian(release) => return Ok(format!("kernel-{}", release.name)),
        Package::File(path) => vec![path.clone()],
        Package::Folder(path) => packages_in(path)?,
    };
    for path in &packages {
        let bytes =
            fs::read(path).map_err(|error| wrong(path, &format!("cannot be read: {error}")))?;
        if !bytes.starts_with(b"!<arch>\n") {
            return Err(wrong(path, "is not a Debian package"));
        }
        key.add("deb", &bytes);
    }
    if let (Package::Folder(path), true) = (package, packages.is_empty()) {
        Contents::find(&files_of(path)?, path)?.add_to(&mut key)?;
    }
    Ok(format!("kernel-deb-{}", key.finish()))
}

/// The packages of a folder, by name.
fn packages_in(folder: &Path) -> Result<Vec<PathBuf>, ArtifactError> {
    let mut packages = entries(&whole_path(folder)?);
    packages.retain(|path| is_package(path));
    packages.sort();
    Ok(packages)
}

/// All files of a folder of the user's, without those behind links to other folders, as that to a
/// kernel's headers.
fn files_of(folder: &Path) -> Result<Vec<PathBuf>, ArtifactError> {
    let mut files = Vec::new();
    let mut folders = vec![whole_path(folder)?];
    while let Some(folder) = folders.pop() {
        let inside = fs::read_dir(&folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let inside = inside.map_err(|error| ArtifactError::io("read", &folder, error))?;
        for path in inside.iter().map(fs::DirEntry::path) {
            if path.is_file() {
                files.push(path);
            } else if !path.is_symlink() {
                folders.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// A path that is the same in every folder: tools run in another one.
fn whole_path(path: &Path) -> Result<PathBuf, ArtifactError> {
    std::path::absolute(path).map_err(|error| ArtifactError::io("find", path, error))
}

fn wrong(package: &Path, what: &str) -> ArtifactError {
    ArtifactError::NotAKernel {
        package: package.to_owned(),
        what: what.to_owned(),
    }
}

/// Takes the kernel out of packages; what else they have is removed, also where it is not one.
fn unpack(packages: &[PathBuf], work: &Path) -> Result<(), ArtifactError> {
    let tree = work.join("tree");
    fs::create_dir_all(&tree).map_err(|error| ArtifactError::io("make", &tree, error))?;
    let unpacked = packages
        .iter()
        .try_for_each(|package| unpack_deb(package, &tree, work));
    let first = packages.first().cloned().unwrap_or_default();
    let taken = unpacked.and_then(|()| Contents::find(&files_of(&tree)?, &first)?.put_into(work));
    fs::remove_dir_all(&tree).map_err(|error| ArtifactError::io("remove", &tree, error))?;
    taken?;
    for package in packages.iter().filter(|package| package.starts_with(work)) {
        fs::remove_file(package).map_err(|error| ArtifactError::io("remove", package, error))?;
    }
    Ok(())
}

/// Unpacks a package into a folder.
pub(super) fn unpack_deb(package: &Path, tree: &Path, work: &Path) -> Result<(), ArtifactError> {
    let words = ["dpkg-deb", "-x"].map(OsStr::new);
    let words = [words[0], words[1], package.as_os_str(), tree.as_os_str()];
    let what = format!("unpacking {}", package.display());
    let log = work.join("unpack.log");
    run_step(&what, &words, work, &log, UNPACK_LIMIT, || {})
}

#[cfg(test)]
mod tests;
