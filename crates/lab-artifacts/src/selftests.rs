// SPDX-License-Identifier: Apache-2.0 OR MIT
//! KVM selftests: static programs that run on the emulated host itself.
//!
//! Built by `linux/selftests/build` from the patched sources, so that the same programs are run
//! on the stock kernel and on the patched one. `linux/selftests/tests` names the kernel's own, and
//! `selftests/tests` in the folder of a remedy those that come with the remedy.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use steady_race::Watcher;

use crate::cache::{Key, cached};
use crate::error::ArtifactError;
use crate::home::Home;
use crate::kernel::{self, Source};
use crate::process::run_step;

/// The list in a folder of tests.
const LIST: &str = "tests";
const BUILD_LIMIT: Duration = Duration::from_secs(20 * 60);

/// One test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selftest {
    /// Its name, which is that of its program.
    pub name: String,
    /// Bound on it by the emulated host's clock, in seconds.
    pub limit_s: u32,
    /// Whether it is this project's: on the stock kernel it has nothing to test.
    pub own: bool,
}

/// The tests: the kernel's, then those of each remedy in the order of the remedies' names.
///
/// # Errors
/// [`ArtifactError::Io`], [`ArtifactError::Selftests`] naming the line that cannot be read, or that
/// names a test once more.
pub fn list(home: &Home) -> Result<Vec<Selftest>, ArtifactError> {
    let linux = home.project.join("linux");
    let mut tests = read_list(&linux, "selftests", false)?;
    for remedy in remedies_with_tests(&linux)? {
        tests.extend(read_list(&linux, &format!("{remedy}/selftests"), true)?);
    }
    let mut seen = BTreeSet::new();
    if let Some(twice) = tests.iter().find(|test| !seen.insert(&test.name)) {
        return Err(ArtifactError::Selftests(format!(
            "the test `{}` is listed twice below {}; take one of the lines out",
            twice.name,
            linux.display()
        )));
    }
    Ok(tests)
}

/// Names of the folders in `linux` that have selftests of their own, sorted.
fn remedies_with_tests(linux: &Path) -> Result<Vec<String>, ArtifactError> {
    let entries = fs::read_dir(linux).map_err(|error| ArtifactError::io("read", linux, error))?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| ArtifactError::io("read", linux, error))?;
        if entry.path().join("selftests").join(LIST).is_file() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn read_list(linux: &Path, folder: &str, own: bool) -> Result<Vec<Selftest>, ArtifactError> {
    let path = linux.join(folder).join(LIST);
    let text =
        fs::read_to_string(&path).map_err(|error| ArtifactError::io("read", &path, error))?;
    let mut tests = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let words = line.split('#').next().unwrap_or_default();
        if words.trim().is_empty() {
            continue;
        }
        let test = parse(words).ok_or_else(|| {
            ArtifactError::Selftests(format!(
                "linux/{folder}/{LIST}:{}: `{}` is not a test; expected its path and its limit \
                 in seconds",
                at + 1,
                line.trim()
            ))
        })?;
        tests.push(Selftest { own, ..test });
    }
    Ok(tests)
}

fn parse(words: &str) -> Option<Selftest> {
    let mut words = words.split_whitespace();
    let (path, limit, rest) = (words.next()?, words.next()?, words.next());
    let limit_s = limit.parse().ok().filter(|&limit_s| limit_s > 0)?;
    let name = path.rsplit('/').next()?.to_owned();
    (rest.is_none() && !name.is_empty()).then_some(Selftest {
        name,
        limit_s,
        own: false,
    })
}

/// The folder of the programs, built if it is not in the cache.
///
/// # Errors
/// [`ArtifactError::KernelSource`], [`ArtifactError::Build`], [`ArtifactError::Io`],
/// [`ArtifactError::Interrupted`].
pub fn ensure(home: &Home, watcher: &dyn Watcher) -> Result<PathBuf, ArtifactError> {
    let source = Source::find()?;
    let linux = home.project.join("linux");
    cached(&home.cache, &programs_key(&linux, &source)?, |work| {
        watcher.say("building the KVM selftests, which takes a minute once");
        let (tree, log) = (work.join("tree"), work.join("build.log"));
        source.unpack(&tree, &log)?;
        kernel::apply(&home.project.join("linux/apply"), &tree, work, &log)?;
        let script = linux.join("selftests/build");
        let out = work.join("programs");
        let command = [script.as_os_str(), tree.as_os_str(), out.as_os_str()];
        run_step(
            "building the KVM selftests",
            &command.map(OsStr::new),
            work,
            &log,
            BUILD_LIMIT,
            || {},
        )?;
        fs::remove_dir_all(&tree).map_err(|error| ArtifactError::io("remove", &tree, error))
    })
    .map(|place| place.join("programs"))
}

/// Where the programs are in the cache once they are built.
///
/// # Errors
/// [`ArtifactError::KernelSource`], [`ArtifactError::Io`].
pub fn place(home: &Home) -> Result<PathBuf, ArtifactError> {
    let name = programs_key(&home.project.join("linux"), &Source::find()?)?;
    Ok(home.cache.join(name))
}

/// The name of the programs in the cache, made of all that goes into them.
///
/// # Errors
/// [`ArtifactError::Io`] if a file cannot be read.
pub fn programs_key(linux: &Path, source: &Source) -> Result<String, ArtifactError> {
    let mut key = Key::default();
    source.add_to(&mut key)?;
    key.add_parts(linux, &kernel::APPLIED)?
        .add_parts(linux, &["selftests"])?;
    for remedy in remedies_with_tests(linux)? {
        key.add_parts(linux, &[&format!("{remedy}/selftests")])?;
    }
    key.add_version("gcc")?.add_version("ld")?;
    Ok(format!("selftests-{}", key.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_list_is_a_path_and_a_limit() {
        let test = parse(" x86_64/kvm_pv_test   60 ").unwrap();
        assert_eq!((test.name.as_str(), test.limit_s), ("kvm_pv_test", 60));
        for wrong in [
            "steal_time",
            "steal_time 0",
            "steal_time x",
            "steal_time 1 2",
            "x/ 5",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
