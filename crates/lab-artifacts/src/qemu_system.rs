// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The qemu-system-x86_64 that hosts run in: this release's source package with the patches of
//! `lab/qemu`, or the packaged one.
//!
//! The compiled one is a VMM with KVM too, and has the patches of `linux/qemu`, which name the
//! remedies' feature bits: `linux/qemu/try` runs it inside an emulated host.
//!
//! The packaged one loses guests and hosts: threads of other processors undo what VMRUN and #VMEXIT
//! change of the first one's flags. Where it cannot be compiled it is used all the same, and said
//! to be.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use steady_race::Watcher;

use crate::cache::{Key, cached, files_below, ready, steps_done};
use crate::error::ArtifactError;
use crate::home::Home;
use crate::process::{find_program, run_step};
use crate::{debian, qemu_user, said};

/// The program.
pub(crate) const NAME: &str = "qemu-system-x86_64";
const STEP_LIMIT: Duration = Duration::from_secs(5 * 60);
const BUILD_LIMIT: Duration = Duration::from_secs(60 * 60);
/// Steps of a build, for the progress bar only.
const STEPS: u64 = 1200;
/// The machines `q35` and `microvm` and what the lab puts into them; no display, no network.
const CONFIGURE: [&str; 14] = [
    "--target-list=x86_64-softmmu",
    "--without-default-features",
    "--enable-tcg",
    "--enable-kvm",
    "--without-default-devices",
    "--with-devices-x86_64=steady",
    "--enable-fdt=system",
    "--enable-trace-backends=nop",
    "--disable-debug-info",
    "--disable-tools",
    "--disable-docs",
    "--disable-werror",
    // The archive that Debian distributes lacks them.
    "--disable-install-blobs",
    "--firmwarepath=/usr/share/qemu:/usr/share/seabios",
];
/// Devices beside those that the machine needs itself.
const DEVICES: &str = "CONFIG_Q35=y\nCONFIG_MICROVM=y\nCONFIG_ISA_DEBUG=y\n";
/// Folders of patches, in the order in which they are applied; in each is a folder a version.
const PATCHES: [&str; 2] = ["lab/qemu", "linux/qemu"];

/// A qemu-system-x86_64 that can be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QemuSystem {
    /// The program.
    pub program: PathBuf,
    /// Its version, such as `7.2.22`.
    pub version: String,
    /// Whether we compiled it, with our patches.
    pub compiled: bool,
}

impl QemuSystem {
    fn of(program: PathBuf, compiled: bool) -> Self {
        Self {
            version: version_of(&program),
            program,
            compiled,
        }
    }

    /// How it was made: `patched` or `packaged`.
    #[must_use]
    pub fn made(&self) -> &'static str {
        if self.compiled { "patched" } else { "packaged" }
    }
}

/// QEMU's own version, such as `7.2.22`.
fn version_of(program: &Path) -> String {
    let text = said::version(program).unwrap_or_default();
    text.split_whitespace()
        .nth(3)
        .unwrap_or("unknown")
        .to_owned()
}

/// Our patches, whatever version they are for, in the order of their names.
fn patches(home: &Home) -> Result<Vec<PathBuf>, ArtifactError> {
    let files = PATCHES.map(|folder| files_below(&home.project.join(folder)));
    let mut files = files.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
    files.retain(|file| file.extension().is_some_and(|end| end == "patch"));
    Ok(files)
}

/// The name of the compiled one in the cache. The packaged one's version stands for the source's,
/// which is of the same release.
///
/// # Errors
/// [`ArtifactError::Io`] if a patch cannot be read, or a program cannot be asked.
pub(crate) fn cache_name(home: &Home) -> Result<String, ArtifactError> {
    let mut key = Key::default();
    for patch in patches(home)? {
        let bytes = fs::read(&patch).map_err(|error| ArtifactError::io("read", &patch, error))?;
        key.add("patch", &bytes);
    }
    key.add("devices", DEVICES.as_bytes()).add_version("gcc")?;
    match packaged_program() {
        Some(_) => key.add_version(NAME)?,
        None => key.add(NAME, b""),
    };
    for word in CONFIGURE {
        key.add("configure", word.as_bytes());
    }
    Ok(format!("qemu-{}", key.finish()))
}

/// The packaged one's program.
pub(crate) fn packaged_program() -> Option<PathBuf> {
    find_program(NAME)
}

fn packaged() -> Option<QemuSystem> {
    packaged_program().map(|program| QemuSystem::of(program, false))
}

fn asks_for(kind: &str) -> bool {
    std::env::var_os("STEADY_QEMU").is_some_and(|value| value == kind)
}

/// Whether `STEADY_QEMU` names the packaged one.
pub(crate) fn asks_for_packaged() -> bool {
    asks_for("packaged")
}

/// Whether `STEADY_QEMU` names the patched one.
pub(crate) fn asks_for_patched() -> bool {
    asks_for("patched")
}

/// The one that runs take: the compiled one where it is in the cache, else the packaged one, so
/// that a run does not begin with minutes of compiling. `STEADY_QEMU=packaged` chooses the packaged
/// one, `patched` the compiled one, which is then built if it is not there.
///
/// # Errors
/// [`ArtifactError::Missing`] if there is neither, [`ArtifactError::Damaged`],
/// [`ArtifactError::Interrupted`].
pub fn choose(home: &Home, watcher: &dyn Watcher) -> Result<QemuSystem, ArtifactError> {
    if asks_for_patched() {
        return ensure(home, watcher);
    }
    // Without a compiler there is no name, and nothing that it compiled.
    let place = cache_name(home).map(|name| home.cache.join(name));
    if let (false, Ok(place)) = (asks_for_packaged(), place)
        && ready(&place)?
    {
        return Ok(QemuSystem::of(place.join(NAME), true));
    }
    let qemu = packaged().ok_or_else(missing)?;
    if !asks_for_packaged() {
        watcher.say(&format!(
            "the packaged QEMU {} is used, which loses guests now and then; `steady build qemu` \
             compiles one that does not, in some minutes",
            qemu.version
        ));
    }
    Ok(qemu)
}

fn missing() -> ArtifactError {
    ArtifactError::Missing {
        program: NAME.into(),
        why: "the engine `qemu` runs in it",
        package: "qemu-system-x86",
    }
}

/// The compiled one, built if it is not in the cache; the packaged one where that fails, unless
/// `STEADY_QEMU=patched`.
///
/// # Errors
/// [`ArtifactError::Missing`] if there is neither, [`ArtifactError::Damaged`],
/// [`ArtifactError::Interrupted`].
pub fn ensure(home: &Home, watcher: &dyn Watcher) -> Result<QemuSystem, ArtifactError> {
    let build = |work: &Path| build(home, work, watcher);
    match cache_name(home).and_then(|name| cached(&home.cache, &name, build)) {
        Ok(place) => Ok(QemuSystem::of(place.join(NAME), true)),
        Err(error @ (ArtifactError::Interrupted | ArtifactError::Damaged { .. })) => Err(error),
        Err(error) if asks_for_patched() => Err(error),
        Err(error) => match packaged() {
            Some(qemu) => {
                watcher.say(&format!(
                    "QEMU could not be compiled, the packaged {} is used, which loses guests now \
                     and then: {error}",
                    qemu.version
                ));
                Ok(qemu)
            }
            None => Err(missing()),
        },
    }
}

fn build(home: &Home, work: &Path, watcher: &dyn Watcher) -> Result<(), ArtifactError> {
    let what = "QEMU";
    watcher.say("building QEMU, which takes some minutes once");
    let log = work.join("build.log");
    let tree = work.join("tree");
    debian::fetch_packaged(work, "qemu", &tree)?;
    patch(home, work, &tree)?;
    qemu_user::trim(&tree)?;
    let devices = tree.join("configs/devices/x86_64-softmmu/steady.mak");
    fs::write(&devices, DEVICES).map_err(|error| ArtifactError::io("write", &devices, error))?;
    let os = OsStr::new;
    let configure = qemu_user::configure(&CONFIGURE);
    let configure: Vec<&OsStr> = configure.iter().map(OsString::as_os_str).collect();
    run_step(
        "configuring QEMU",
        &configure,
        &tree,
        &log,
        STEP_LIMIT,
        || {},
    )?;
    let ninja = [os("ninja"), os("-C"), os("build"), os(NAME)];
    run_step("building QEMU", &ninja, &tree, &log, BUILD_LIMIT, || {
        watcher.progress(what, steps_done(&log).min(STEPS - 1), STEPS);
    })?;
    let made = tree.join("build").join(NAME);
    fs::copy(&made, work.join(NAME)).map_err(|error| ArtifactError::io("copy", &made, error))?;
    fs::remove_dir_all(&tree).map_err(|error| ArtifactError::io("remove", &tree, error))?;
    watcher.done(what);
    Ok(())
}

/// Applies the patches for the tree's version, which names itself `7.2.22`, say.
fn patch(home: &Home, work: &Path, tree: &Path) -> Result<(), ArtifactError> {
    let file = tree.join("VERSION");
    let version =
        fs::read_to_string(&file).map_err(|error| ArtifactError::io("read", &file, error))?;
    let series: String = version
        .trim()
        .splitn(3, '.')
        .take(2)
        .collect::<Vec<_>>()
        .join(".");
    let mut patches = Vec::new();
    for folder in PATCHES {
        let found = files_below(&home.project.join(folder).join(&series))?;
        if found.is_empty() {
            return Err(ArtifactError::Build {
                what: "patching QEMU".into(),
                status: format!("{folder} has no patches for version {series}"),
                log: file,
                last: String::new(),
            });
        }
        patches.extend(found);
    }
    for patch in patches {
        let words = ["patch", "--force", "-p1", "-i"].map(OsStr::new);
        let command: Vec<&OsStr> = words.into_iter().chain([patch.as_os_str()]).collect();
        let log = work.join("patch.log");
        run_step("patching QEMU", &command, tree, &log, STEP_LIMIT, || {})?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use steady_remedies::{Registry, VmmDuty};

    use super::*;

    fn tree_of(version: &str) -> (tempfile::TempDir, Home) {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("VERSION"), version).unwrap();
        let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let home = Home {
            project,
            cache: place.path().to_owned(),
        };
        (place, home)
    }

    #[test]
    fn a_version_that_has_no_patches_is_refused_by_its_name() {
        let (place, home) = tree_of("9.1.2\n");
        let error = patch(&home, place.path(), place.path()).unwrap_err();
        let said = error.to_string();
        assert!(said.contains("no patches for version 9.1"), "{said}");
    }

    #[test]
    fn patches_that_do_not_fit_end_the_build() {
        let (place, home) = tree_of("7.2.22\n");
        let error = patch(&home, place.path(), place.path()).unwrap_err();
        assert!(error.to_string().contains("patching QEMU"), "{error}");
    }

    #[test]
    fn each_version_has_the_mend_of_the_first_processors_flags() {
        let (_place, home) = tree_of("");
        let names: Vec<String> = patches(&home)
            .unwrap()
            .iter()
            .map(|path| path.display().to_string())
            .filter(|path| path.contains("/lab/qemu/") && path.contains("/0001-"))
            .collect();
        assert_eq!(names.len(), 2, "of Debian 12 and of 13: {names:?}");
        assert!(names[0].contains("/10.0/") && names[1].contains("/7.2/"));
    }

    #[test]
    fn each_version_names_the_bit_of_each_remedy_that_a_vmm_must_show() {
        let (_place, home) = tree_of("");
        let asked: Vec<&str> = Registry::default()
            .shipped()
            .filter(|remedy| remedy.vmm == VmmDuty::ShowFeatureBit)
            .map(|remedy| remedy.name)
            .collect();
        assert!(asked.contains(&"shoot4u"), "{asked:?}");
        for version in ["7.2", "10.0"] {
            let folder = format!("/linux/qemu/{version}/");
            let text: String = patches(&home)
                .unwrap()
                .iter()
                .filter(|path| path.to_string_lossy().contains(&folder))
                .map(|path| fs::read_to_string(path).unwrap())
                .collect();
            for name in &asked {
                let named = format!("\"kvm-{name}\"");
                let adds = |line: &str| line.starts_with('+') && line.contains(&named);
                assert!(text.lines().any(adds), "{version}: {named}");
            }
        }
    }
}
