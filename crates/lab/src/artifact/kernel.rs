// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel: one image for the emulated host and for its guests.
//!
//! Built from the distribution's `linux-source-6.12` or from `$LINUX_SOURCE` (a tree or a
//! tarball), with our files and hooks put in by `linux/apply` and the configuration of
//! `linux/config/lab.config` on top of `tinyconfig`.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::artifact::{Key, cached, files_below};
use crate::error::LabError;
use crate::home::Home;
use crate::process::run_step;
use crate::watcher::Watcher;

const PACKAGE_TARBALL: &str = "/usr/src/linux-source-6.12.tar.xz";
const BUILD_LIMIT: Duration = Duration::from_secs(45 * 60);
const STEP_LIMIT: Duration = Duration::from_secs(10 * 60);
/// Lines that a build prints, for the progress bar only; a count of the shipped configuration.
const BUILD_LINES: u64 = 1710;

/// A built kernel.
#[derive(Debug, Clone)]
pub struct Kernel {
    /// The compressed image that boots.
    pub image: PathBuf,
    /// Addresses of its symbols.
    pub system_map: PathBuf,
    /// Its whole configuration.
    pub config: PathBuf,
    /// Its release, as `uname -r` prints it.
    pub release: String,
}

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
    /// [`LabError::KernelSource`] if neither is there.
    pub fn find() -> Result<Self, LabError> {
        let Some(given) = std::env::var_os("LINUX_SOURCE").filter(|value| !value.is_empty()) else {
            let tarball = PathBuf::from(PACKAGE_TARBALL);
            if tarball.is_file() {
                return Ok(Self::Tarball(tarball));
            }
            let what = format!("{PACKAGE_TARBALL} is not there");
            return Err(LabError::KernelSource { what, mend: "apt-get install linux-source-6.12, or set LINUX_SOURCE to a tree or tarball".into() });
        };
        let path = PathBuf::from(given);
        if path.is_file() {
            return Ok(Self::Tarball(path));
        }
        if path.join("Makefile").is_file() && path.join("arch/x86/kvm").is_dir() {
            return Ok(Self::Tree(path));
        }
        let what = format!("LINUX_SOURCE={} is neither a tarball nor a Linux tree", path.display());
        Err(LabError::KernelSource { what, mend: "set it to a Linux 6.12 tree or tarball, or unset it".into() })
    }

    fn add_to(&self, key: &mut Key) -> Result<(), LabError> {
        match self {
            Self::Tarball(path) => {
                let bytes = fs::read(path).map_err(|error| LabError::io("read", path, error))?;
                key.add("tarball", &bytes);
            }
            Self::Tree(path) => {
                for file in files_below(path)?.iter().filter(|file| !file.starts_with(path.join(".git"))) {
                    let Ok(metadata) = fs::symlink_metadata(file) else { continue };
                    let stamp = format!("{} {}.{}", metadata.len(), metadata.mtime(), metadata.mtime_nsec());
                    key.add(&file.to_string_lossy(), stamp.as_bytes());
                }
            }
        }
        Ok(())
    }

    /// Puts the sources into `tree`.
    fn unpack(&self, tree: &Path, log: &Path) -> Result<(), LabError> {
        fs::create_dir_all(tree).map_err(|error| LabError::io("make", tree, error))?;
        let os = OsStr::new;
        match self {
            Self::Tarball(path) => {
                // Other architectures and the manual are most of the files and none of the build.
                let words = ["tar", "--strip-components=1", "--wildcards", "--exclude=*/Documentation/*/*", "--exclude=*/tools/perf/*", "-C"];
                let mut command: Vec<&OsStr> = words.map(os).into();
                command.extend([tree.as_os_str(), os("-xf"), path.as_os_str()]);
                run_step("unpacking the kernel source", &command, tree, log, STEP_LIMIT, || {})
            }
            Self::Tree(path) => {
                let from = path.join(".");
                let command = [os("cp"), os("-a"), os("--reflink=auto"), from.as_os_str(), tree.as_os_str()];
                run_step("copying the kernel source", &command, tree, log, STEP_LIMIT, || {})
            }
        }
    }
}

/// The kernel of this tree, built if it is not in the cache.
///
/// # Errors
/// [`LabError::KernelSource`], [`LabError::Build`], [`LabError::Io`], [`LabError::Interrupted`].
pub fn ensure(home: &Home, watcher: &dyn Watcher) -> Result<Kernel, LabError> {
    let source = Source::find()?;
    let mut key = Key::default();
    source.add_to(&mut key)?;
    key.add_tree(&home.project.join("linux"))?.add_version("gcc").add_version("ld");
    let name = format!("kernel-{}", key.finish());
    let place = cached(&home.cache, &name, |work| build(home, &source, work, watcher))?;
    let kernel = Kernel { image: place.join("bzImage"), system_map: place.join("System.map"), config: place.join("config"), release: String::new() };
    let release = place.join("release");
    if let Some(missing) = [&kernel.image, &kernel.system_map, &kernel.config, &release].into_iter().find(|path| !path.is_file()) {
        return Err(LabError::Damaged { missing: missing.clone(), folder: place });
    }
    let release = fs::read_to_string(&release).map_err(|error| LabError::io("read", &release, error))?;
    Ok(Kernel { release: release.trim().to_owned(), ..kernel })
}

fn build(home: &Home, source: &Source, work: &Path, watcher: &dyn Watcher) -> Result<(), LabError> {
    let what = "kernel";
    watcher.say("building the kernel, which takes a few minutes once");
    let (tree, objects, log) = (work.join("tree"), work.join("objects"), work.join("build.log"));
    source.unpack(&tree, &log)?;
    fs::create_dir_all(&objects).map_err(|error| LabError::io("make", &objects, error))?;
    let os = OsStr::new;
    let apply = home.project.join("linux/apply");
    run_step("linux/apply", &[apply.as_os_str(), tree.as_os_str()], work, &log, STEP_LIMIT, || {})?;
    let configure = home.project.join("linux/configure");
    run_step("linux/configure", &[configure.as_os_str(), tree.as_os_str(), objects.as_os_str()], work, &log, STEP_LIMIT, || {})?;
    let jobs = format!("-j{}", std::thread::available_parallelism().map_or(1, usize::from));
    let output = format!("O={}", objects.display());
    // Fixed names and time: the same inputs give the same image, and so the same Bochs run.
    let fixed = ["KBUILD_BUILD_TIMESTAMP=2000-01-01", "KBUILD_BUILD_USER=steady", "KBUILD_BUILD_HOST=lab", "KBUILD_BUILD_VERSION=1"];
    let mut command = vec![os("make"), os("-C"), tree.as_os_str(), os(&jobs), os(&output)];
    command.extend(fixed.iter().map(OsStr::new).chain([os("bzImage")]));
    run_step("building the kernel", &command, work, &log, BUILD_LIMIT, || {
        let lines = fs::read(&log).map(|bytes| bytes.split(|&byte| byte == b'\n').count()).unwrap_or(0) as u64;
        watcher.progress(what, lines.min(BUILD_LINES - 1), BUILD_LINES);
    })?;
    for (from, to) in [("arch/x86/boot/bzImage", "bzImage"), ("System.map", "System.map"), (".config", "config"), ("include/config/kernel.release", "release")] {
        let from = objects.join(from);
        fs::copy(&from, work.join(to)).map_err(|error| LabError::io("copy", &from, error))?;
    }
    for folder in [&tree, &objects] {
        fs::remove_dir_all(folder).map_err(|error| LabError::io("remove", folder, error))?;
    }
    watcher.done(what);
    Ok(())
}
