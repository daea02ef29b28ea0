// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What of a package's files is taken: the image, the configuration, the release, and a host's
//! modules. Each is looked at before anything is written.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::modules::{self, Module};
use super::wrong;
use crate::cache::Key;
use crate::error::ArtifactError;

/// Folder of the modules, beside the image.
pub(super) const MODULES: &str = "modules";

/// A kernel among files.
pub(super) struct Contents {
    image: PathBuf,
    config: PathBuf,
    release: String,
    modules: Vec<Module>,
}

impl Contents {
    /// Finds it among `files`; `package` is what messages name.
    ///
    /// # Errors
    /// [`ArtifactError::NotAKernel`], [`ArtifactError::Io`].
    pub(super) fn find(files: &[PathBuf], package: &Path) -> Result<Self, ArtifactError> {
        let image = image(files).map_err(|what| wrong(package, &what))?;
        let lacks = |what: &str| wrong(package, &format!("has no {what}"));
        let (config, release) = config(files).ok_or_else(|| lacks("config"))?;
        if !is_whole(image).map_err(|error| ArtifactError::io("read", image, error))? {
            return Err(lacks("whole vmlinuz"));
        }
        let text =
            fs::read_to_string(config).map_err(|error| ArtifactError::io("read", config, error))?;
        if !text.lines().any(|line| line == "CONFIG_X86_64=y") {
            return Err(wrong(package, "is not of x86-64"));
        }
        let modules = modules::of_host(files)?;
        if let Some(what) = modules::lacking(&text, &modules, files) {
            return Err(lacks(&what));
        }
        Ok(Self {
            image: image.clone(),
            config: config.clone(),
            release,
            modules,
        })
    }

    /// Adds what it is made of to a key.
    ///
    /// # Errors
    /// [`ArtifactError::Io`].
    pub(super) fn add_to(&self, key: &mut Key) -> Result<(), ArtifactError> {
        for path in [&self.image, &self.config] {
            let bytes = fs::read(path).map_err(|error| ArtifactError::io("read", path, error))?;
            key.add("file", &bytes);
        }
        key.add("release", self.release.as_bytes());
        for module in &self.modules {
            key.add(&module.name, &module.bytes);
        }
        Ok(())
    }

    /// Copies it into an entry of the cache.
    ///
    /// # Errors
    /// [`ArtifactError::Io`].
    pub(super) fn put_into(&self, work: &Path) -> Result<(), ArtifactError> {
        copy(&self.image, &work.join("bzImage"))?;
        copy(&self.config, &work.join("config"))?;
        write(&work.join("release"), self.release.as_bytes())?;
        // The package's own has no addresses.
        write(&work.join("System.map"), b"ffffffff81000000 T _text\n")?;
        for (at, module) in self.modules.iter().enumerate() {
            let name = format!("{MODULES}/{at:02}-{}.ko", module.name);
            write(&work.join(name), &module.bytes)?;
        }
        Ok(())
    }
}

/// The one image, or what is wrong.
fn image(files: &[PathBuf]) -> Result<&PathBuf, String> {
    let mut images: Vec<&PathBuf> = files
        .iter()
        .filter(|path| file_name(path).starts_with("vmlinuz"))
        .collect();
    // Debian's /vmlinuz is a link to the one in /boot.
    if images.len() > 1 {
        images.retain(|path| !path.is_symlink());
    }
    match images[..] {
        [] => Err("has no vmlinuz".to_owned()),
        [one] => Ok(one),
        _ => {
            let names: Vec<&str> = images.iter().map(|path| file_name(path)).collect();
            Err(format!("has more than one kernel: {}", names.join(", ")))
        }
    }
}

/// The configuration and the release that it is of: `boot/config-RELEASE`, or
/// `lib/modules/RELEASE/config` in packages of Linux 7 and later.
pub(super) fn config(files: &[PathBuf]) -> Option<(&PathBuf, String)> {
    files.iter().find_map(|path| {
        let (name, folder) = (file_name(path), path.parent()?);
        let by_folder = (name == "config" && file_name(folder.parent()?) == "modules")
            .then(|| file_name(folder));
        let release = name.strip_prefix("config-").or(by_folder)?;
        Some((path, release.to_owned()))
    })
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

pub(super) fn file_name(path: &Path) -> &str {
    path.file_name().and_then(OsStr::to_str).unwrap_or_default()
}

fn copy(from: &Path, to: &Path) -> Result<(), ArtifactError> {
    fs::copy(from, to)
        .map(drop)
        .map_err(|error| ArtifactError::io("copy", from, error))
}

pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), ArtifactError> {
    let folder = path.parent().expect("a file of a folder");
    fs::create_dir_all(folder).map_err(|error| ArtifactError::io("make", folder, error))?;
    fs::write(path, bytes).map_err(|error| ArtifactError::io("write", path, error))
}
