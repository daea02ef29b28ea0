// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel of a distribution's package: its image, its configuration, and the modules that a
//! host of KVM needs, in the order in which they are loaded.
//!
//! Left out: modules for guests' disks. Such a kernel has no `VIRTIO_MMIO_CMDLINE_DEVICES`, so that
//! a guest with it finds none. Its `System.map` is a stub, so that no address has a name.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use steady_race::Watcher;
use steady_unpack::Packing;

use super::{Kernel, at};
use crate::cache::{Key, cached, files_below};
use crate::debian;
use crate::error::ArtifactError;
use crate::home::Home;
use crate::process::run_step;

const UNPACK_LIMIT: Duration = Duration::from_secs(5 * 60);
/// What a host of KVM needs; with them those that they depend on.
const WANTED: [&str; 2] = ["kvm_intel", "kvm_amd"];
/// Folder of the modules, beside the image.
const MODULES: &str = "modules";

/// A package of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Package {
    /// The one that a release of Debian installs.
    Debian(&'static Release),
    /// A `.deb` of the user's.
    File(PathBuf),
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
    let place = cached(&home.cache, &name, |work| {
        let files = match package {
            Package::Debian(release) => {
                watcher.say(&format!("fetching the kernel of {}", release.name));
                debian::fetch_binaries(work, META, release.suite, &PARTS)?
            }
            Package::File(path) => vec![path.clone()],
        };
        unpack(&files, work)
    })?;
    let mut kernel = at(&place)?;
    kernel.modules = files_below(&place.join(MODULES))?;
    Ok(kernel)
}

/// The name of a package's kernel in the cache.
///
/// # Errors
/// [`ArtifactError::Io`] if the package cannot be read.
pub(crate) fn name_in_cache(package: &Package) -> Result<String, ArtifactError> {
    Ok(match package {
        Package::Debian(release) => format!("kernel-{}", release.name),
        Package::File(path) => {
            let bytes = fs::read(path).map_err(|error| ArtifactError::io("read", path, error))?;
            format!("kernel-deb-{}", Key::default().add("deb", &bytes).finish())
        }
    })
}

/// Takes the kernel out of packages; what else they have is removed, also where it is not one.
fn unpack(packages: &[PathBuf], work: &Path) -> Result<(), ArtifactError> {
    let tree = work.join("tree");
    fs::create_dir_all(&tree).map_err(|error| ArtifactError::io("make", &tree, error))?;
    let unpacked = packages
        .iter()
        .try_for_each(|package| unpack_deb(package, &tree, work));
    let taken = unpacked.and_then(|()| take(&files_below(&tree)?, work, packages));
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

/// Takes what a host needs out of the files of packages.
fn take(files: &[PathBuf], work: &Path, packages: &[PathBuf]) -> Result<(), ArtifactError> {
    let lacks = |what: &str| ArtifactError::NotAKernel {
        package: packages.first().cloned().unwrap_or_default(),
        what: what.to_owned(),
    };
    let mut images = files.iter().map(PathBuf::as_path);
    let image = images.find(|path| file_name(path).starts_with("vmlinuz"));
    let image = image.ok_or_else(|| lacks("vmlinuz"))?;
    let (config, release) = config(files).ok_or_else(|| lacks("config"))?;
    if !is_whole(image).map_err(|error| ArtifactError::io("read", image, error))? {
        return Err(lacks("whole vmlinuz"));
    }
    copy(image, &work.join("bzImage"))?;
    copy(config, &work.join("config"))?;
    write(&work.join("release"), release.as_bytes())?;
    // The package's own has no addresses.
    write(&work.join("System.map"), b"ffffffff81000000 T _text\n")?;
    let modules = modules(files)?;
    let kvm = modules.iter().any(|(name, _)| name == "kvm");
    let built_in = fs::read_to_string(config).is_ok_and(|text| text.contains("CONFIG_KVM=y"));
    if !kvm && !built_in {
        return Err(lacks("kvm.ko"));
    }
    if let Some(lost) = lost(&modules) {
        return Err(lacks(&format!("{lost}.ko")));
    }
    for (at, (name, bytes)) in modules.iter().enumerate() {
        write(&work.join(format!("{MODULES}/{at:02}-{name}.ko")), bytes)?;
    }
    Ok(())
}

/// The configuration and the release that it is of: `boot/config-RELEASE`, or
/// `lib/modules/RELEASE/config` in packages of Linux 7 and later.
fn config(files: &[PathBuf]) -> Option<(&PathBuf, String)> {
    files.iter().find_map(|path| {
        let (name, folder) = (file_name(path), path.parent()?);
        let by_folder = (name == "config" && file_name(folder.parent()?) == "modules")
            .then(|| file_name(folder));
        let release = name.strip_prefix("config-").or(by_folder)?;
        Some((path, release.to_owned()))
    })
}

/// The wanted modules among the files, each behind those that it depends on.
fn modules(files: &[PathBuf]) -> Result<Vec<(String, Vec<u8>)>, ArtifactError> {
    let there: BTreeMap<String, &PathBuf> = files
        .iter()
        .filter_map(|path| {
            let (name, _) = file_name(path).split_once(".ko")?;
            Some((name.replace('-', "_"), path))
        })
        .collect();
    let mut loaded = Vec::new();
    for wanted in WANTED {
        load(wanted, &there, &mut loaded)?;
    }
    Ok(loaded)
}

fn load(
    name: &str,
    there: &BTreeMap<String, &PathBuf>,
    loaded: &mut Vec<(String, Vec<u8>)>,
) -> Result<(), ArtifactError> {
    let Some(path) = there.get(name) else {
        return Ok(());
    };
    if loaded.iter().any(|(known, _)| known == name) {
        return Ok(());
    }
    let bytes = unpacked(path)?;
    for needs in depends(&bytes) {
        load(&needs, there, loaded)?;
    }
    loaded.push((name.to_owned(), bytes));
    Ok(())
}

/// Whether a kernel's image has all that its header says (Documentation/arch/x86/boot.rst:
/// `setup_sects` at 0x1f1, `syssize` in units of 16 bytes at 0x1f4, `HdrS` at 0x202).
fn is_whole(image: &Path) -> io::Result<bool> {
    let mut file = File::open(image)?;
    let length = file.metadata()?.len();
    let mut head = Vec::new();
    file.by_ref().take(0x206).read_to_end(&mut head)?;
    if head.get(0x202..) != Some(b"HdrS") {
        return Ok(false);
    }
    let size = u32::from_le_bytes([head[0x1f4], head[0x1f5], head[0x1f6], head[0x1f7]]);
    Ok(length >= (u64::from(head[0x1f1]) + 1) * 512 + u64::from(size) * 16)
}

/// The first module that one depends on and that is not among them.
fn lost(modules: &[(String, Vec<u8>)]) -> Option<String> {
    let is_lost = |name: &String| modules.iter().all(|(there, _)| there != name);
    let mut needed = modules.iter().flat_map(|(_, bytes)| depends(bytes));
    needed.find(is_lost)
}

fn unpacked(path: &Path) -> Result<Vec<u8>, ArtifactError> {
    let wrong = |error| ArtifactError::io("read", path, error);
    let packed = fs::read(path).map_err(wrong)?;
    let Some(packing) = Packing::of(&packed) else {
        return Ok(packed);
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(wrong)?;
    let mut reader = packing.decoder(file).map_err(wrong)?;
    reader.read_to_end(&mut bytes).map_err(wrong)?;
    Ok(bytes)
}

/// What a module says that it depends on, in its `.modinfo`: `depends=kvm,ccp` and a zero.
fn depends(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let at = module.windows(KEY.len()).position(|bytes| bytes == KEY);
    let Some(rest) = at.map(|at| &module[at + KEY.len()..]) else {
        return Vec::new();
    };
    let end = rest.iter().position(|&byte| byte == 0).unwrap_or(0);
    let names = String::from_utf8_lossy(&rest[..end]);
    let names = names.split(',').filter(|name| !name.is_empty());
    names.map(|name| name.replace('-', "_")).collect()
}

fn file_name(path: &Path) -> &str {
    path.file_name().and_then(OsStr::to_str).unwrap_or_default()
}

fn copy(from: &Path, to: &Path) -> Result<(), ArtifactError> {
    fs::copy(from, to)
        .map(drop)
        .map_err(|error| ArtifactError::io("copy", from, error))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), ArtifactError> {
    let folder = path.parent().expect("a file of a folder");
    fs::create_dir_all(folder).map_err(|error| ArtifactError::io("make", folder, error))?;
    fs::write(path, bytes).map_err(|error| ArtifactError::io("write", path, error))
}

#[cfg(test)]
mod tests;
