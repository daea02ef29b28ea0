// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel: one image for the emulated host and for its guests.
//!
//! Built from the distribution's `linux-source-6.12` or from `$LINUX_SOURCE` (a tree or a
//! tarball), with our files and hooks put in by `linux/apply` and the configuration of
//! `linux/config` on top of `tinyconfig`: the lab's, and over it those that find mistakes
//! (`debug.config`) or make it preemptible everywhere (`rt.config`).
//! The kernel of a distribution's package is taken as it is (`package`). So is what `steady-lab`
//! installs, unless `$LINUX_SOURCE` asks for another. That of another version is a `port`.
//! The stock kernel beside it is what the same sources give without our files, hooks and symbols.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use steady_race::Watcher;
use steady_remedies::Registry;

use crate::cache::cached;
use crate::cache::sums::{self, entry_name};
use crate::error::ArtifactError;
use crate::home::{Home, KERNELS};
use crate::process::{lines_of, run_step};

pub(crate) use key::APPLIED;
use key::stock_configs;

mod chosen;
mod flavor;
mod key;
pub mod package;
pub mod port;
mod source;

pub use chosen::look_at;
pub use flavor::{Build, Choice, Flavor, Series};
pub use key::name_of;
pub use source::Source;

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
    /// Modules that a host loads, in that order; none where KVM is in the image.
    pub modules: Vec<PathBuf>,
}

/// How the configuration of a kernel says that it checks the order of its locks, as `debug` and
/// `rt` do.
const CHECKS: &str = "CONFIG_PROVE_LOCKING=y";
const PREEMPT_RT: &str = "CONFIG_PREEMPT_RT=y";

impl Kernel {
    /// Whether it looks for its own mistakes: what it warns of is then worth hearing; it is slow.
    ///
    /// # Errors
    /// [`ArtifactError::Io`].
    pub fn checks_itself(&self) -> Result<bool, ArtifactError> {
        self.is_configured(CHECKS)
    }

    /// Whether it is fully preemptible.
    ///
    /// # Errors
    /// [`ArtifactError::Io`].
    pub fn is_preempt_rt(&self) -> Result<bool, ArtifactError> {
        self.is_configured(PREEMPT_RT)
    }

    /// Whether a BPF program can be its scheduler.
    ///
    /// # Errors
    /// [`ArtifactError::Io`].
    pub fn has_sched_ext(&self) -> Result<bool, ArtifactError> {
        self.is_configured("CONFIG_SCHED_CLASS_EXT=y")
    }

    /// Whether it has the remedies, and so their parameters.
    ///
    /// # Errors
    /// [`ArtifactError::Io`].
    pub fn has_remedies(&self) -> Result<bool, ArtifactError> {
        for remedy in Registry::default().shipped() {
            // The parameter `module.name` is there where `CONFIG_MODULE_NAME` is.
            let symbol = remedy.parameter.replace('.', "_").to_uppercase();
            if !symbol.is_empty() && self.is_configured(&format!("CONFIG_{symbol}=y"))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_configured(&self, wanted: &str) -> Result<bool, ArtifactError> {
        let config = fs::read_to_string(&self.config)
            .map_err(|error| ArtifactError::io("read", &self.config, error))?;
        Ok(config.lines().any(|line| line == wanted))
    }
}

/// The folder of the kernel that the package `steady-lab` installed, if it brings this one.
#[must_use]
pub fn installed(home: &Home, what: Build) -> Option<PathBuf> {
    let folder = home.project.join(KERNELS);
    let names = fs::read_dir(&folder).ok()?.flatten();
    names
        .filter_map(|entry| entry.file_name().into_string().ok())
        .find(|name| key::is_of(name, what))
        .map(|name| folder.join(name))
}

/// The one of [`installed`], unless the user asks for other sources.
pub(crate) fn brought(home: &Home, what: Build) -> Option<PathBuf> {
    installed(home, what).filter(|_| !asks_for_source())
}

/// Whether the user asks for sources, and so for no kernel of a package.
pub(crate) fn asks_for_source() -> bool {
    std::env::var_os("LINUX_SOURCE").is_some_and(|value| !value.is_empty())
}

/// The folder of a kernel that a result names by its key: of the cache, else of `steady-lab`.
#[must_use]
pub fn folder_of(home: &Home, key: &str) -> PathBuf {
    let installed = home.project.join(KERNELS).join(key);
    let cached = home.cache.join(key);
    if cached.is_dir() || !installed.is_dir() {
        cached
    } else {
        installed
    }
}

/// A kernel: that of `steady-lab`, or built if it is not in the cache.
///
/// # Errors
/// [`ArtifactError::KernelSource`], [`ArtifactError::Build`], [`ArtifactError::Io`],
/// [`ArtifactError::Interrupted`].
pub fn ensure(home: &Home, what: Build, watcher: &dyn Watcher) -> Result<Kernel, ArtifactError> {
    if let Some(place) = brought(home, what) {
        return at(&place);
    }
    let source = Source::find()?;
    let place = place(home, what)?;
    let name = entry_name(&place);
    let place = cached(&home.cache, &name, |work| {
        build(home, what, &source, work, watcher)
    })?;
    at(&place)
}

/// The kernel that an entry of the cache is.
///
/// # Errors
/// [`ArtifactError::Damaged`] if one of its files is not there, [`ArtifactError::Io`].
pub fn at(place: &Path) -> Result<Kernel, ArtifactError> {
    for (_, name) in MADE {
        sums::has(place, name)?;
    }
    let files = from_files(MADE.map(|(_, name)| place.join(name)))?;
    files.map_err(|missing| ArtifactError::GivenKernel { missing })
}

/// Where a kernel is in the cache once it is built.
///
/// The sources are read once a process, as they are large.
///
/// # Errors
/// [`ArtifactError::KernelSource`], [`ArtifactError::Io`].
pub fn place(home: &Home, what: Build) -> Result<PathBuf, ArtifactError> {
    static NAMES: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());
    let source = Source::find()?;
    let linux = home.project.join("linux");
    let known = format!("{} {} {source:?}", linux.display(), what.name());
    let mut names = NAMES.lock().expect("no thread panics with the names");
    let name = match names.get(&known) {
        Some(name) => name.clone(),
        None => name_of(&linux, what, &source)?,
    };
    names.insert(known, name.clone());
    Ok(home.cache.join(name))
}

/// The kernel whose objects are in `folder`, built by the user's own `make O=folder`: with KVM in
/// the image, or as modules beside it.
///
/// # Errors
/// [`ArtifactError::GivenKernel`] if the folder is not one of a built kernel with KVM,
/// [`ArtifactError::Io`].
pub fn given(folder: &Path) -> Result<Kernel, ArtifactError> {
    let folder =
        &std::path::absolute(folder).map_err(|error| ArtifactError::io("find", folder, error))?;
    let lacks = |missing: PathBuf| ArtifactError::GivenKernel { missing };
    let mut kernel = from_files(MADE.map(|(made, _)| folder.join(made)))?.map_err(lacks)?;
    let files = modules_of(folder);
    let modules = package::modules::of_host(&files)?;
    let config = fs::read_to_string(&kernel.config)
        .map_err(|error| ArtifactError::io("read", &kernel.config, error))?;
    if let Some(what) = package::modules::lacking(&config, &modules, &files) {
        let folder = folder.clone();
        return Err(ArtifactError::GivenWithoutKvm { folder, what });
    }
    kernel.modules = modules.into_iter().map(|module| module.path).collect();
    Ok(kernel)
}

/// The modules that a build has made, by its list of them.
fn modules_of(objects: &Path) -> Vec<PathBuf> {
    let list = fs::read_to_string(objects.join("modules.order")).unwrap_or_default();
    let paths = list
        .lines()
        .map(|line| objects.join(line).with_extension("ko"));
    paths.filter(|path| path.is_file()).collect()
}

/// Where a built kernel's files are below its objects, and their names in the cache.
const MADE: [(&str, &str); 4] = [
    ("arch/x86/boot/bzImage", "bzImage"),
    ("System.map", "System.map"),
    (".config", "config"),
    ("include/config/kernel.release", "release"),
];

/// The kernel that these files are, in the order of [`MADE`]; or which is not there.
fn from_files(files: [PathBuf; 4]) -> Result<Result<Kernel, PathBuf>, ArtifactError> {
    if let Some(missing) = files.iter().find(|path| !path.is_file()) {
        return Ok(Err(missing.clone()));
    }
    let [image, system_map, config, release] = files;
    let release =
        fs::read_to_string(&release).map_err(|error| ArtifactError::io("read", &release, error))?;
    Ok(Ok(Kernel {
        image,
        system_map,
        config,
        release: release.trim().to_owned(),
        modules: Vec::new(),
    }))
}

/// The script that configures, beside the configurations that it takes.
fn configure_script(home: &Home, what: Build, work: &Path) -> Result<PathBuf, ArtifactError> {
    let linux = home.project.join("linux");
    let script = linux.join("configure");
    if what.series == Series::Patched {
        return Ok(script);
    }
    let folder = work.join("stock");
    let copy = folder.join("configure");
    for (file, text) in stock_configs(&linux, what.flavor)? {
        let path = folder.join(file);
        let parent = path.parent().expect("a file of a folder");
        fs::create_dir_all(parent).map_err(|error| ArtifactError::io("make", parent, error))?;
        fs::write(&path, text).map_err(|error| ArtifactError::io("write", &path, error))?;
    }
    fs::copy(&script, &copy).map_err(|error| ArtifactError::io("copy", &script, error))?;
    Ok(copy)
}

fn build(
    home: &Home,
    wanted: Build,
    source: &Source,
    work: &Path,
    watcher: &dyn Watcher,
) -> Result<(), ArtifactError> {
    let patched = wanted.series == Series::Patched;
    let recipe = Recipe {
        words: wanted.words(),
        apply: patched.then(|| home.project.join("linux/apply")),
        configure: configure_script(home, wanted, work)?,
        configs: wanted.flavor.configs().skip(1).collect(),
    };
    compile(&recipe, source, work, watcher)
}

/// How a kernel is made of sources.
struct Recipe {
    /// What progress and logs call it.
    words: String,
    /// The script that puts files and hooks in; none for the stock kernel.
    apply: Option<PathBuf>,
    /// The script that configures.
    configure: PathBuf,
    /// The configurations on top of the lab's.
    configs: Vec<&'static str>,
}

/// Makes a kernel in `work`, and leaves there what is in [`MADE`] alone.
fn compile(
    recipe: &Recipe,
    source: &Source,
    work: &Path,
    watcher: &dyn Watcher,
) -> Result<(), ArtifactError> {
    let what = &recipe.words;
    watcher.say(&format!(
        "building the {what}, which takes a few minutes once"
    ));
    let (tree, objects, log) = (
        work.join("tree"),
        work.join("objects"),
        work.join("build.log"),
    );
    source.unpack(&tree, &log)?;
    fs::create_dir_all(&objects).map_err(|error| ArtifactError::io("make", &objects, error))?;
    let os = OsStr::new;
    if let Some(script) = &recipe.apply {
        apply(script, &tree, work, &log)?;
    }
    let configure = recipe.configure.as_os_str();
    let mut command = vec![configure, tree.as_os_str(), objects.as_os_str()];
    command.extend(recipe.configs.iter().map(OsStr::new));
    run_step("linux/configure", &command, work, &log, STEP_LIMIT, || {})?;
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
            watcher.progress(what, lines_of(&log).min(BUILD_LINES - 1), BUILD_LINES);
        },
    )?;
    for (from, to) in MADE {
        let from = objects.join(from);
        fs::copy(&from, work.join(to)).map_err(|error| ArtifactError::io("copy", &from, error))?;
    }
    for folder in [&tree, &objects] {
        fs::remove_dir_all(folder).map_err(|error| ArtifactError::io("remove", folder, error))?;
    }
    watcher.done(what);
    Ok(())
}

/// Puts our files and hooks into a tree, by a script `apply`.
pub(crate) fn apply(
    script: &Path,
    tree: &Path,
    work: &Path,
    log: &Path,
) -> Result<(), ArtifactError> {
    let command = [script.as_os_str(), tree.as_os_str()];
    run_step("linux/apply", &command, work, log, STEP_LIMIT, || {})
}
