// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel: one image for the emulated host and for its guests.
//!
//! Built from the distribution's `linux-source-6.12` or from `$LINUX_SOURCE` (a tree or a
//! tarball), with our files and hooks put in by `linux/apply` and the configuration of
//! `linux/config/lab.config` on top of `tinyconfig`. The stock kernel beside it is what the same
//! sources give without our files, hooks and symbols.

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

/// Which kernel is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Series {
    /// The distribution's sources as they are.
    Stock,
    /// With the files and hooks of `linux/`.
    Patched,
}

impl Series {
    /// Its name in commands and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stock => "stock",
            Self::Patched => "patched",
        }
    }
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
            return Err(LabError::KernelSource {
                what,
                mend: "apt-get install linux-source-6.12, or set LINUX_SOURCE to a tree or tarball"
                    .into(),
            });
        };
        let path = PathBuf::from(given);
        if path.is_file() {
            return Ok(Self::Tarball(path));
        }
        if path.join("Makefile").is_file() && path.join("arch/x86/kvm").is_dir() {
            return Ok(Self::Tree(path));
        }
        let what = format!(
            "LINUX_SOURCE={} is neither a tarball nor a Linux tree",
            path.display()
        );
        Err(LabError::KernelSource {
            what,
            mend: "set it to a Linux 6.12 tree or tarball, or unset it".into(),
        })
    }

    pub(super) fn add_to(&self, key: &mut Key) -> Result<(), LabError> {
        match self {
            Self::Tarball(path) => {
                let bytes = fs::read(path).map_err(|error| LabError::io("read", path, error))?;
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
    pub(super) fn unpack(&self, tree: &Path, log: &Path) -> Result<(), LabError> {
        fs::create_dir_all(tree).map_err(|error| LabError::io("make", tree, error))?;
        let os = OsStr::new;
        match self {
            Self::Tarball(path) => {
                // Other architectures and the manual are most of the files and none of the build.
                let words = [
                    "tar",
                    "--strip-components=1",
                    "--wildcards",
                    "--exclude=*/Documentation/*/*",
                    "--exclude=*/tools/perf/*",
                    "-C",
                ];
                let mut command: Vec<&OsStr> = words.map(os).into();
                command.extend([tree.as_os_str(), os("-xf"), path.as_os_str()]);
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

/// The kernel of this tree, built if it is not in the cache.
///
/// # Errors
/// [`LabError::KernelSource`], [`LabError::Build`], [`LabError::Io`], [`LabError::Interrupted`].
pub fn ensure(home: &Home, watcher: &dyn Watcher) -> Result<Kernel, LabError> {
    ensure_series(home, Series::Patched, watcher)
}

/// The kernel of this tree or the one without its changes, built if it is not in the cache.
///
/// # Errors
/// As [`ensure`].
pub fn ensure_series(
    home: &Home,
    series: Series,
    watcher: &dyn Watcher,
) -> Result<Kernel, LabError> {
    let source = Source::find()?;
    let name = series_key(&home.project.join("linux"), series, &source)?;
    let place = cached(&home.cache, &name, |work| {
        build(home, series, &source, work, watcher)
    })?;
    let kernel = Kernel {
        image: place.join("bzImage"),
        system_map: place.join("System.map"),
        config: place.join("config"),
        release: String::new(),
    };
    let release = place.join("release");
    if let Some(missing) = [&kernel.image, &kernel.system_map, &kernel.config, &release]
        .into_iter()
        .find(|path| !path.is_file())
    {
        return Err(LabError::Damaged {
            missing: missing.clone(),
            folder: place,
        });
    }
    let release =
        fs::read_to_string(&release).map_err(|error| LabError::io("read", &release, error))?;
    Ok(Kernel {
        release: release.trim().to_owned(),
        ..kernel
    })
}

/// What `linux/apply` and `linux/configure` read: the new files as a whole, documents too, because
/// all of them go into the tree, and a list of what matters would be wrong one day.
pub(super) const APPLIED: [&str; 4] = ["apply", "lib.sh", "hooks", "new"];
const CONFIGURED: [&str; 2] = ["configure", "config"];

/// The name of a series' kernel in the cache, made of all that goes into it: the sources, what of
/// the folder `linux` is applied and configured, and the compiler. The stock kernel's depends on
/// the configuration without our symbols, and on no hook.
///
/// # Errors
/// [`LabError::Io`] if a file cannot be read.
pub fn series_key(linux: &Path, series: Series, source: &Source) -> Result<String, LabError> {
    let mut key = Key::default();
    source.add_to(&mut key)?;
    let prefix = match series {
        Series::Patched => {
            key.add_parts(linux, &APPLIED)?
                .add_parts(linux, &CONFIGURED)?;
            "kernel"
        }
        Series::Stock => {
            let script = linux.join("configure");
            let bytes = fs::read(&script).map_err(|error| LabError::io("read", &script, error))?;
            key.add("stock configure", &bytes)
                .add("stock config", stock_config(linux)?.as_bytes());
            "kernel-stock"
        }
    };
    key.add_version("gcc").add_version("ld");
    Ok(format!("{prefix}-{}", key.finish()))
}

/// `lab.config` without the symbols that our series defines.
fn stock_config(linux: &Path) -> Result<String, LabError> {
    let read =
        |path: &Path| fs::read_to_string(path).map_err(|error| LabError::io("read", path, error));
    let mut ours = Vec::new();
    for path in files_below(&linux.join("new"))? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("Kconfig") {
            ours.extend(defined_symbols(&read(&path)?, ""));
        }
    }
    for path in files_below(&linux.join("hooks"))? {
        ours.extend(defined_symbols(&read(&path)?, "+"));
    }
    Ok(without_symbols(
        &read(&linux.join("config/lab.config"))?,
        &ours,
    ))
}

/// Symbols that the lines of a Kconfig file define; of a patch to one, those that begin with
/// `mark`.
fn defined_symbols(text: &str, mark: &str) -> Vec<String> {
    text.lines()
        .filter_map(|line| {
            let line = line.strip_prefix(mark)?;
            let name = line
                .strip_prefix("config ")
                .or_else(|| line.strip_prefix("menuconfig "))?;
            Some(format!("CONFIG_{}", name.trim()))
        })
        .collect()
}

fn without_symbols(config: &str, symbols: &[String]) -> String {
    let sets = |line: &str| {
        let line = line.strip_prefix("# ").unwrap_or(line);
        let end = line.find([' ', '=']).unwrap_or(line.len());
        symbols.iter().any(|symbol| symbol == &line[..end])
    };
    config
        .split_inclusive('\n')
        .filter(|line| !sets(line.trim_end()))
        .collect()
}

/// The script that configures, beside the configuration that it takes.
fn configure_script(home: &Home, series: Series, work: &Path) -> Result<PathBuf, LabError> {
    let script = home.project.join("linux/configure");
    if series == Series::Patched {
        return Ok(script);
    }
    let folder = work.join("stock");
    let config = folder.join("config");
    fs::create_dir_all(&config).map_err(|error| LabError::io("make", &config, error))?;
    let copy = folder.join("configure");
    fs::copy(&script, &copy).map_err(|error| LabError::io("copy", &script, error))?;
    let config = config.join("lab.config");
    fs::write(&config, stock_config(&home.project.join("linux"))?)
        .map_err(|error| LabError::io("write", &config, error))?;
    Ok(copy)
}

fn build(
    home: &Home,
    series: Series,
    source: &Source,
    work: &Path,
    watcher: &dyn Watcher,
) -> Result<(), LabError> {
    let what = match series {
        Series::Patched => "kernel",
        Series::Stock => "stock kernel",
    };
    watcher.say(&format!(
        "building the {what}, which takes a few minutes once"
    ));
    let (tree, objects, log) = (
        work.join("tree"),
        work.join("objects"),
        work.join("build.log"),
    );
    source.unpack(&tree, &log)?;
    fs::create_dir_all(&objects).map_err(|error| LabError::io("make", &objects, error))?;
    let os = OsStr::new;
    if series == Series::Patched {
        apply(home, &tree, work, &log)?;
    }
    let configure = configure_script(home, series, work)?;
    run_step(
        "linux/configure",
        &[configure.as_os_str(), tree.as_os_str(), objects.as_os_str()],
        work,
        &log,
        STEP_LIMIT,
        || {},
    )?;
    let jobs = format!(
        "-j{}",
        std::thread::available_parallelism().map_or(1, usize::from)
    );
    let output = format!("O={}", objects.display());
    // Fixed names and time: the same inputs give the same image, and so the same Bochs run.
    let fixed = [
        "KBUILD_BUILD_TIMESTAMP=2000-01-01",
        "KBUILD_BUILD_USER=steady",
        "KBUILD_BUILD_HOST=lab",
        "KBUILD_BUILD_VERSION=1",
    ];
    let mut command = vec![
        os("make"),
        os("-C"),
        tree.as_os_str(),
        os(&jobs),
        os(&output),
    ];
    command.extend(fixed.iter().map(OsStr::new).chain([os("bzImage")]));
    run_step(
        "building the kernel",
        &command,
        work,
        &log,
        BUILD_LIMIT,
        || {
            let lines = fs::read(&log)
                .map(|bytes| bytes.split(|&byte| byte == b'\n').count())
                .unwrap_or(0) as u64;
            watcher.progress(what, lines.min(BUILD_LINES - 1), BUILD_LINES);
        },
    )?;
    for (from, to) in [
        ("arch/x86/boot/bzImage", "bzImage"),
        ("System.map", "System.map"),
        (".config", "config"),
        ("include/config/kernel.release", "release"),
    ] {
        let from = objects.join(from);
        fs::copy(&from, work.join(to)).map_err(|error| LabError::io("copy", &from, error))?;
    }
    for folder in [&tree, &objects] {
        fs::remove_dir_all(folder).map_err(|error| LabError::io("remove", folder, error))?;
    }
    watcher.done(what);
    Ok(())
}

/// Puts our files and hooks into a tree.
pub(super) fn apply(home: &Home, tree: &Path, work: &Path, log: &Path) -> Result<(), LabError> {
    let apply = home.project.join("linux/apply");
    let command = [apply.as_os_str(), tree.as_os_str()];
    run_step("linux/apply", &command, work, log, STEP_LIMIT, || {})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stock_configuration_lacks_what_a_hook_defines_and_nothing_else() {
        let hook = "config KVM_IN_TEXT\n---\n--- a/arch/x86/kvm/Kconfig\n+++ b/arch/x86/kvm/Kconfig\n \
                    config KVM\n+config KVM_SHOOT4U\n+\tbool\n";
        let new = "config KVM_SHOOT4U_FAULTS\n\tbool \"x\"\n";
        let mut ours = defined_symbols(hook, "+");
        ours.extend(defined_symbols(new, ""));
        let config = "CONFIG_KVM=y\nCONFIG_KVM_IN_TEXT=y\nCONFIG_KVM_SHOOT4U=y\n\
                      # CONFIG_KVM_SHOOT4U_FAULTS is not set\nCONFIG_KVM_SHOOT4U_OTHER=y\n# a comment\n";
        assert_eq!(
            without_symbols(config, &ours),
            "CONFIG_KVM=y\nCONFIG_KVM_IN_TEXT=y\nCONFIG_KVM_SHOOT4U_OTHER=y\n# a comment\n"
        );
    }
}
