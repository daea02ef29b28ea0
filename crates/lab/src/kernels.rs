// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernels that the variants of a race boot, each with the host's archive and symbols.
//!
//! Most races need one, the patched kernel. A variant may choose the stock one, to show what the
//! patched one costs when everything is off, or name another.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use steady_lab_artifacts::Home;
use steady_lab_artifacts::image::tree::{self, HostNeeds};
use steady_lab_artifacts::kernel::{self, Build, Choice, Flavor, Kernel, Series};
use steady_lab_artifacts::programs::Programs;
use steady_measures::sha256_hex;
use steady_race::Watcher;

use crate::error::LabError;
use crate::measure::symbol::Symbols;
use crate::wanted::KernelId;

/// A kernel with all that a host boots of it but the plan.
#[derive(Debug)]
pub struct Booted {
    /// What was asked for.
    pub choice: Choice,
    /// The kernel.
    pub kernel: Kernel,
    /// Its symbols.
    pub symbols: Symbols,
    /// Whether it checks itself.
    pub checks_itself: bool,
    /// Whether it has the remedies' parameters.
    pub has_remedies: bool,
    /// The kernels of guests that do not boot this one, with their symbols.
    pub others: BTreeMap<Flavor, (Kernel, Symbols)>,
    /// The host's archive; kernels and guests' archive are in it for the VMMs.
    pub archive: Vec<u8>,
}

impl Booted {
    /// Packs the archive and reads the symbols.
    ///
    /// # Errors
    /// [`LabError::Artifact`] for what is not installed, [`LabError::Artifact`].
    pub fn new(
        choice: Choice,
        kernel: Kernel,
        others: BTreeMap<Flavor, Kernel>,
        ours: &Programs,
        guest: &[u8],
        needs: &HostNeeds,
    ) -> Result<Self, LabError> {
        let archive = tree::host(ours, &kernel, &others, guest, needs)?;
        let symbols = Symbols::load(&kernel.system_map)?;
        let with_symbols = |(flavor, other): (Flavor, Kernel)| {
            let symbols = Symbols::load(&other.system_map)?;
            Ok((flavor, (other, symbols)))
        };
        let others = others.into_iter().map(with_symbols);
        Ok(Self {
            choice,
            checks_itself: kernel.checks_itself()?,
            has_remedies: kernel.has_remedies()?,
            others: others.collect::<Result<_, LabError>>()?,
            kernel,
            symbols,
            archive,
        })
    }

    /// The symbols of the kernel that a guest boots; `None` is the host's.
    pub fn symbols_of(&self, guest: Option<Flavor>) -> &Symbols {
        match guest {
            None => &self.symbols,
            Some(flavor) => {
                let (_, symbols) = self.others.get(&flavor).expect("each VM's kernel is there");
                symbols
            }
        }
    }

    /// What the measures depend on of this kernel, for the result's configuration. The patched
    /// kernel's keys begin with `kernel.`; those of others have the kernel's name behind that.
    ///
    /// # Errors
    /// [`LabError::Artifact`].
    pub fn config(&self, id: &KernelId) -> Result<BTreeMap<String, String>, LabError> {
        let digest = |path: &Path| {
            fs::read(path)
                .map(|bytes| sha256_hex(&bytes))
                .map_err(|error| LabError::io("read", path, error))
        };
        let (kernel, image) = id.keys();
        let mut config = BTreeMap::from([
            (format!("{kernel}.release"), self.kernel.release.clone()),
            (format!("{kernel}.key"), key_of(&self.kernel.image)),
            (
                format!("{kernel}.image_sha256"),
                digest(&self.kernel.image)?,
            ),
            (
                format!("{kernel}.config_sha256"),
                digest(&self.kernel.config)?,
            ),
            (image, sha256_hex(&self.archive)),
        ]);
        let text = fs::read_to_string(&self.kernel.config);
        let text = text.map_err(|error| LabError::io("read", &self.kernel.config, error))?;
        if let Some(hz) = text
            .lines()
            .find_map(|line| line.strip_prefix("CONFIG_HZ="))
        {
            config.insert(format!("{kernel}.hz"), hz.to_owned());
        }
        for (flavor, (other, _)) in &self.others {
            let key = format!("{kernel}.guest.{}.image_sha256", flavor.name());
            config.insert(key, digest(&other.image)?);
        }
        Ok(config)
    }
}

/// The kernels of guests that boot another one than their host, each in its configuration.
///
/// # Errors
/// What a build can fail with.
pub fn ensure_others(
    home: &Home,
    series: Series,
    flavors: &BTreeSet<Flavor>,
    watcher: &dyn Watcher,
) -> Result<BTreeMap<Flavor, Kernel>, LabError> {
    let built = |&flavor: &Flavor| {
        let kernel = kernel::ensure(home, Build { series, flavor }, watcher)?;
        Ok((flavor, kernel))
    };
    flavors.iter().map(built).collect()
}

/// The kernel that is chosen for a series, built if it is not in the cache; one that the user gives
/// is the patched one, a distribution's is both.
///
/// # Errors
/// What a build can fail with.
pub fn ensure(
    home: &Home,
    choice: &Choice,
    series: Series,
    watcher: &dyn Watcher,
) -> Result<Kernel, LabError> {
    Ok(match (choice, series) {
        (Choice::Given(folder), Series::Patched) => kernel::given(folder)?,
        (Choice::Packaged(package), _) => kernel::package::ensure(home, package, watcher)?,
        (Choice::Ported(port), Series::Patched) => kernel::port::ensure(home, port, watcher)?,
        _ => {
            let flavor = choice.flavor();
            kernel::ensure(home, Build { series, flavor }, watcher)?
        }
    })
}

/// The folder that a kernel's image is in: its key, where it is in the cache.
fn key_of(image: &Path) -> String {
    let folder = image.parent().and_then(Path::file_name);
    folder.unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn booted(folder: &Path) -> Booted {
        let file = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::write(&path, text).expect("written");
            path
        };
        let system_map = file("System.map", "ffffffff81000000 T _text\n");
        Booted {
            choice: Choice::default(),
            symbols: Symbols::load(&system_map).expect("symbols"),
            kernel: Kernel {
                image: file("bzImage", "image"),
                config: file("config", "CONFIG_HZ_250=y\nCONFIG_HZ=250\n"),
                release: "6.12.63".to_owned(),
                system_map,
                modules: Vec::new(),
            },
            checks_itself: false,
            has_remedies: true,
            others: BTreeMap::new(),
            archive: b"archive".to_vec(),
        }
    }

    #[test]
    fn the_patched_kernels_keys_are_those_of_results_before_there_was_another() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = booted(folder.path())
            .config(&KernelId::Series(Series::Patched))
            .expect("read");
        let keys: Vec<&str> = config.keys().map(String::as_str).collect();
        assert_eq!(
            keys,
            [
                "image_sha256",
                "kernel.config_sha256",
                "kernel.hz",
                "kernel.image_sha256",
                "kernel.key",
                "kernel.release"
            ]
        );
        assert_eq!(config["kernel.image_sha256"], sha256_hex(b"image"));
        assert_eq!(config["kernel.hz"], "250");
    }

    #[test]
    fn the_stock_kernels_keys_stand_beside_the_patched_ones() {
        let folder = tempfile::tempdir().expect("a folder");
        let booted = booted(folder.path());
        let mut both = booted
            .config(&KernelId::Series(Series::Patched))
            .expect("read");
        both.extend(
            booted
                .config(&KernelId::Series(Series::Stock))
                .expect("read"),
        );
        assert_eq!(both.len(), 12, "{both:?}");
        assert_eq!(both["kernel.stock.release"], "6.12.63");
    }
    #[test]
    fn a_named_kernels_keys_have_its_name_and_leave_the_others_as_they_are() {
        let folder = tempfile::tempdir().expect("a folder");
        let booted = booted(folder.path());
        let of_series = [Series::Patched, Series::Stock].map(KernelId::Series);
        let mut all = BTreeMap::new();
        for id in &of_series {
            all.extend(booted.config(id).expect("read"));
        }
        let before = all.clone();
        let named = KernelId::Named("debian-12".to_owned());
        let config = booted.config(&named).expect("read");
        let keys: Vec<&str> = config.keys().map(String::as_str).collect();
        assert_eq!(
            keys,
            [
                "image.debian-12_sha256",
                "kernel.debian-12.config_sha256",
                "kernel.debian-12.hz",
                "kernel.debian-12.image_sha256",
                "kernel.debian-12.key",
                "kernel.debian-12.release"
            ]
        );
        all.extend(config.clone());
        assert_eq!(all.len(), before.len() + keys.len());
        assert!(before.iter().all(|(key, value)| all[key] == *value));
    }
}
