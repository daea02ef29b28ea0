// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a kernel's sources come from: the distribution's tarball, or a tree or tarball of the
//! user's, which is copied and never written to.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use steady_unpack::Packing;

use crate::cache::{Key, files_below};
use crate::error::ArtifactError;
use crate::process::run_step;

use super::STEP_LIMIT;

const PACKAGE_TARBALL: &str = "/usr/src/linux-source-6.12.tar.xz";

/// What no kernel or selftest of the lab is compiled from: two thirds of the tree, to be written
/// and taken away again. Kconfig and makefiles of all drivers are read. Most of the manual is of
/// devices that no PC has; hooks change some of the rest.
const LEFT_OUT: [&str; 21] = [
    "Documentation/devicetree/*",
    "arch/arm/*.*",
    "arch/arm64/*.*",
    "arch/loongarch/*.*",
    "arch/m68k/*.*",
    "arch/mips/*.*",
    "arch/parisc/*.*",
    "arch/powerpc/*.*",
    "arch/riscv/*.*",
    "arch/s390/*.*",
    "arch/sh/*.*",
    "arch/sparc/*.*",
    "drivers/clk/*.[ch]",
    "drivers/gpu/*.[ch]",
    "drivers/media/*.[ch]",
    "drivers/net/*/*.[ch]",
    "drivers/scsi/*.[ch]",
    "drivers/staging/*.[ch]",
    "drivers/usb/*.[ch]",
    "sound/*.[ch]",
    "tools/perf/*",
];

/// Where the sources come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A tarball.
    Tarball(PathBuf),
    /// A tree; it is copied, never written to.
    Tree(PathBuf),
}

impl Source {
    /// `$LINUX_SOURCE`, or the distribution's package.
    ///
    /// # Errors
    /// [`ArtifactError::KernelSource`] if neither is there.
    pub fn find() -> Result<Self, ArtifactError> {
        let Some(given) = std::env::var_os("LINUX_SOURCE").filter(|value| !value.is_empty()) else {
            let tarball = PathBuf::from(PACKAGE_TARBALL);
            if tarball.is_file() {
                return Ok(Self::Tarball(tarball));
            }
            let what = format!("{PACKAGE_TARBALL} is not there");
            return Err(ArtifactError::KernelSource {
                what,
                fix: "apt-get install linux-source-6.12, or set LINUX_SOURCE to a tree or tarball"
                    .into(),
                given: false,
            });
        };
        let path = PathBuf::from(given);
        if is_tarball(&path).unwrap_or(false) {
            return Ok(Self::Tarball(path));
        }
        if path.join("Makefile").is_file() && path.join("arch/x86/kvm").is_dir() {
            return Ok(Self::Tree(path));
        }
        let what = format!(
            "LINUX_SOURCE={} is neither a tarball nor a Linux tree",
            path.display()
        );
        Err(ArtifactError::KernelSource {
            what,
            fix: "set LINUX_SOURCE to a Linux 6.12 tree or tarball, or unset it".into(),
            given: true,
        })
    }

    pub(crate) fn add_to(&self, key: &mut Key) -> Result<(), ArtifactError> {
        match self {
            Self::Tarball(path) => {
                let bytes =
                    fs::read(path).map_err(|error| ArtifactError::io("read", path, error))?;
                key.add("tarball", &bytes);
            }
            Self::Tree(path) => {
                for file in files_below(path)?
                    .iter()
                    .filter(|file| !file.starts_with(path.join(".git")))
                {
                    let Ok(metadata) = fs::symlink_metadata(file) else {
                        continue;
                    };
                    let stamp = format!(
                        "{} {}.{}",
                        metadata.len(),
                        metadata.mtime(),
                        metadata.mtime_nsec()
                    );
                    key.add(&file.to_string_lossy(), stamp.as_bytes());
                }
            }
        }
        Ok(())
    }

    /// Puts the sources into `tree`.
    pub(crate) fn unpack(&self, tree: &Path, log: &Path) -> Result<(), ArtifactError> {
        fs::create_dir_all(tree).map_err(|error| ArtifactError::io("make", tree, error))?;
        let os = OsStr::new;
        match self {
            Self::Tarball(path) => {
                let words = ["tar", "--strip-components=1", "--wildcards"];
                let left_out = LEFT_OUT.map(|files| format!("--exclude=*/{files}"));
                let mut command: Vec<&OsStr> = words.map(os).into();
                command.extend(left_out.iter().map(OsStr::new));
                command.extend([os("-C"), tree.as_os_str(), os("-xf"), path.as_os_str()]);
                run_step(
                    "unpacking the kernel source",
                    &command,
                    tree,
                    log,
                    STEP_LIMIT,
                    || {},
                )
            }
            Self::Tree(path) => {
                let from = path.join(".");
                let command = [
                    os("cp"),
                    os("-a"),
                    os("--reflink=auto"),
                    from.as_os_str(),
                    tree.as_os_str(),
                ];
                run_step(
                    "copying the kernel source",
                    &command,
                    tree,
                    log,
                    STEP_LIMIT,
                    || {},
                )
            }
        }
    }
}

/// Whether a file is an archive of tar, packed or not: by its head, or by POSIX's mark at 257.
fn is_tarball(path: &Path) -> io::Result<bool> {
    let mut head = Vec::new();
    File::open(path)?.take(512).read_to_end(&mut head)?;
    let packing = Packing::of(&head).filter(|packing| *packing != Packing::Zip);
    Ok(packing.is_some() || head.get(257..262) == Some(b"ustar"))
}
