// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does whatever goes into a kernel, or into the selftests, change the name under which it is kept?
//! Otherwise a stale one would be used in silence.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use steady_lab_artifacts::kernel::{Build, Flavor, Series, Source, name_of};
use steady_lab_artifacts::selftests::programs_key;
use tempfile::TempDir;

use crate::bench::{files_of, real_linux};

/// A copy of our `linux/`, and a tarball of one byte.
struct Copy {
    place: TempDir,
    source: Source,
}

impl Copy {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let tarball = place.path().join("tarball");
        fs::write(&tarball, "x").unwrap();
        let copy = Self {
            source: Source::Tarball(tarball),
            place,
        };
        for (name, bytes) in files_of(&real_linux()) {
            copy.write(&name, &bytes);
        }
        copy
    }

    fn linux(&self) -> PathBuf {
        self.place.path().join("linux")
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.linux().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn key(&self, series: Series) -> String {
        self.key_of(series, Flavor::Lab)
    }

    fn key_of(&self, series: Series, flavor: Flavor) -> String {
        name_of(&self.linux(), Build { series, flavor }, &self.source).unwrap()
    }

    fn programs(&self) -> String {
        programs_key(&self.linux(), &self.source).unwrap()
    }

    /// The keys that `key` gives with one byte changed in each file of `folder`, by the file.
    fn edited(&self, folder: &str, key: impl Fn(&Self) -> String) -> Vec<(String, String)> {
        let files = files_of(&self.linux().join(folder));
        assert!(!files.is_empty(), "{folder} has files");
        let edit = |(name, bytes): (String, Vec<u8>)| {
            let name = format!("{folder}/{name}");
            let mut other = bytes.clone();
            *other.last_mut().unwrap() ^= 1;
            self.write(&name, &other);
            let made = key(self);
            self.write(&name, &bytes);
            (name, made)
        };
        files.into_iter().map(edit).collect()
    }
}

fn patched(copy: &Copy) -> String {
    copy.key(Series::Patched)
}

#[test]
fn a_byte_of_any_new_file_hook_or_configuration_changes_the_kernels_key() {
    let copy = Copy::new();
    let mut seen = BTreeSet::from([patched(&copy)]);
    for folder in ["new", "hooks"] {
        for (file, key) in copy.edited(folder, patched) {
            assert!(
                seen.insert(key),
                "an edit to {file} gives a key that was there"
            );
        }
    }
    for script in ["apply", "lib.sh", "configure", "config/lab.config"] {
        let bytes = fs::read(copy.linux().join(script)).unwrap();
        copy.write(script, &[&bytes[..], b"#"].concat());
        assert!(
            seen.insert(patched(&copy)),
            "an edit to {script} gives a key that was there"
        );
        copy.write(script, &bytes);
    }
}

/// Every flavor but, on a machine without pahole, that of BPF: pahole's version is part of its key,
/// and no need of the tests.
fn flavors_with_a_key() -> Vec<Flavor> {
    let pahole = Command::new("pahole").arg("--version").output().is_ok();
    let has_a_key = |flavor: &Flavor| pahole || *flavor != Flavor::Bpf;
    Flavor::ALL.into_iter().filter(has_a_key).collect()
}

#[test]
fn an_edit_to_a_configuration_changes_the_kernels_that_are_built_with_it_and_no_others() {
    let copy = Copy::new();
    let flavors = flavors_with_a_key();
    for series in [Series::Patched, Series::Stock] {
        let keys = || -> Vec<String> {
            let key = |flavor: &Flavor| copy.key_of(series, *flavor);
            flavors.iter().map(key).collect()
        };
        let before = keys();
        assert_eq!(before.iter().collect::<BTreeSet<_>>().len(), flavors.len());
        let debug = fs::read(copy.linux().join("config/debug.config")).unwrap();
        copy.write("config/debug.config", &[&debug[..], b"#"].concat());
        let after = keys();
        for ((flavor, before), after) in flavors.iter().zip(&before).zip(&after) {
            let other = *flavor == Flavor::Debug;
            assert_eq!(before != after, other, "{series:?}, {flavor:?}");
        }
        copy.write("config/debug.config", &debug);
    }
}

#[test]
fn a_file_that_is_added_removed_or_renamed_changes_the_kernels_key() {
    let copy = Copy::new();
    let before = patched(&copy);
    copy.write("new/kernel/sched/added.c", b"");
    let added = patched(&copy);
    let path = |name: &str| copy.linux().join("new/kernel/sched").join(name);
    fs::rename(path("added.c"), path("renamed.c")).unwrap();
    let renamed = patched(&copy);
    fs::remove_file(path("renamed.c")).unwrap();
    assert_eq!(BTreeSet::from([&before, &added, &renamed]).len(), 3);
    assert_eq!(patched(&copy), before);
}

#[test]
fn tests_and_models_do_not_change_the_kernels_key() {
    let copy = Copy::new();
    let before = patched(&copy);
    for folder in ["selftests", "shoot4u"] {
        for (file, key) in copy.edited(folder, patched) {
            assert_eq!(key, before, "{file}");
        }
    }
}

#[test]
fn a_byte_of_any_selftest_changes_the_programs_key() {
    let copy = Copy::new();
    let mut seen = BTreeSet::from([copy.programs()]);
    for folder in ["new", "hooks", "selftests", "shoot4u/selftests"] {
        for (file, key) in copy.edited(folder, Copy::programs) {
            assert!(
                seen.insert(key),
                "an edit to {file} gives a key that was there"
            );
        }
    }
}

#[test]
fn the_selftests_of_a_further_remedy_change_the_programs_key() {
    let copy = Copy::new();
    let before = copy.programs();
    copy.write("noop/selftests/tests", b"x86_64/noop_test 5\n");
    assert_ne!(copy.programs(), before);
}

#[test]
fn the_stock_kernels_key_is_over_its_configuration_and_source() {
    let copy = Copy::new();
    let stock = |copy: &Copy| copy.key(Series::Stock);
    let before = stock(&copy);
    let config = fs::read_to_string(copy.linux().join("config/lab.config")).unwrap();
    copy.write(
        "config/lab.config",
        format!("{config}CONFIG_X=y\n").as_bytes(),
    );
    assert_ne!(stock(&copy), before, "a line of the configuration");
    copy.write("config/lab.config", config.as_bytes());
    assert_eq!(stock(&copy), before);
    copy.write("configure", b"#");
    assert_ne!(stock(&copy), before, "the script that configures");
    let mut other = Copy::new();
    other.source = Source::Tarball(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"));
    assert_ne!(stock(&other), before, "the source");
}

#[test]
fn the_stock_kernels_key_does_not_depend_on_the_series() {
    let copy = Copy::new();
    let stock = |copy: &Copy| copy.key(Series::Stock);
    let before = stock(&copy);
    assert_ne!(before, patched(&copy));
    copy.write("new/kernel/sched/added.c", b"int x;\n");
    copy.write("new/Documentation/added.rst", b"config HZ_250\n");
    assert_eq!(stock(&copy), before, "neither code nor a document");
    copy.write("new/kernel/Kconfig.added", b"config ADDED\n");
    assert_eq!(
        stock(&copy),
        before,
        "a symbol that lab.config does not set"
    );
    let config = fs::read_to_string(copy.linux().join("config/lab.config")).unwrap();
    copy.write(
        "config/lab.config",
        format!("{config}CONFIG_ADDED=y\n").as_bytes(),
    );
    assert_eq!(stock(&copy), before, "a symbol of ours that it does set");
}
