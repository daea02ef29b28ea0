// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The CD that Bochs boots: kernel, initramfs archives and command line behind ISOLINUX.
//!
//! Bochs has no way to load a kernel directly. The image carries no time of day, so the same
//! inputs give the same bytes.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::ArtifactError;
use crate::process::{find_program, run_step};

const LIMIT: Duration = Duration::from_secs(60);

/// Where Debian's isolinux and syslinux-common put what makes a CD boot.
const BOOT_FILES: [(&str, &str, &str); 2] = [
    ("isolinux.bin", "/usr/lib/ISOLINUX/isolinux.bin", "isolinux"),
    (
        "ldlinux.c32",
        "/usr/lib/syslinux/modules/bios/ldlinux.c32",
        "syslinux-common",
    ),
];

/// Makes `host.iso` in `directory` from a kernel, archives to load one behind the other, and the
/// kernel's command line.
///
/// # Errors
/// [`ArtifactError::Missing`] without xorriso or isolinux, [`ArtifactError::Build`],
/// [`ArtifactError::Io`].
pub fn make(
    directory: &Path,
    kernel: &Path,
    archives: &[&[u8]],
    cmdline: &str,
) -> Result<PathBuf, ArtifactError> {
    let root = directory.join("cd");
    let boot = root.join("isolinux");
    fs::create_dir_all(&boot).map_err(|error| ArtifactError::io("make", &boot, error))?;
    for (name, path, package) in BOOT_FILES {
        if !Path::new(path).is_file() {
            return Err(ArtifactError::Missing {
                program: path.to_owned(),
                why: "Bochs boots from a CD",
                package,
            });
        }
        copy(Path::new(path), &boot.join(name))?;
    }
    copy(kernel, &root.join("kernel"))?;
    let initrd = root.join("initrd");
    fs::write(&initrd, archives.concat())
        .map_err(|error| ArtifactError::io("write", &initrd, error))?;
    let config = boot.join("isolinux.cfg");
    let text = format!(
        "DEFAULT lab\nPROMPT 0\nTIMEOUT 0\nLABEL lab\n \
         KERNEL /kernel\n APPEND initrd=/initrd {cmdline}\n"
    );
    fs::write(&config, text).map_err(|error| ArtifactError::io("write", &config, error))?;
    let iso = directory.join("host.iso");
    let missing = || ArtifactError::Missing {
        program: "xorriso".into(),
        why: "Bochs boots from a CD",
        package: "xorriso",
    };
    let xorriso = find_program("xorriso").ok_or_else(missing)?;
    let words = [
        "-as",
        "mkisofs",
        "-quiet",
        "--modification-date=2000010100000000",
        "--set_all_file_dates",
        "2000010100000000",
    ];
    let boot_words = [
        "-b",
        "isolinux/isolinux.bin",
        "-c",
        "isolinux/boot.cat",
        "-no-emul-boot",
        "-boot-load-size",
        "4",
        "-boot-info-table",
    ];
    let mut command: Vec<&OsStr> = vec![xorriso.as_os_str()];
    command.extend(words.iter().chain(&boot_words).map(OsStr::new));
    command.extend([OsStr::new("-o"), iso.as_os_str(), root.as_os_str()]);
    run_step(
        "making the boot CD",
        &command,
        directory,
        &directory.join("iso.log"),
        LIMIT,
        || {},
    )?;
    fs::remove_dir_all(&root).map_err(|error| ArtifactError::io("remove", &root, error))?;
    Ok(iso)
}

fn copy(from: &Path, to: &Path) -> Result<(), ArtifactError> {
    fs::copy(from, to)
        .map(drop)
        .map_err(|error| ArtifactError::io("copy", from, error))
}
