// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernels that the variants of a race boot: what a scenario and `--kernel` come to, and what
//! is refused of it.
//!
//! A variant that names a kernel boots that one, as host and as guests. All others boot what
//! `--kernel` says. What a kernel needs, lacks and takes in memory holds for its own variants
//! alone.

use std::collections::{BTreeMap, BTreeSet};

use steady_lab_artifacts::kernel::package::Package;
use steady_lab_artifacts::kernel::{self, Build, Choice, Flavor, Series};
use steady_lab_artifacts::need::Need;
use steady_lab_artifacts::need::artifacts;
use steady_lab_artifacts::{ArtifactError, Home};
use steady_race::Options;
use steady_scenario::{Kernel, Scenario, Variant};

use crate::error::LabError;
use crate::translate::{self, packaged};

/// Which kernel of a race a variant boots.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum KernelId {
    /// The stock or the patched one, or what `--kernel` puts in its place.
    Series(Series),
    /// The one that the variant names, as it is written.
    Named(String),
}

impl KernelId {
    /// The kernel of a variant.
    #[must_use]
    pub fn of(variant: &Variant) -> Self {
        match &variant.kernel {
            Kernel::Stock => Self::Series(Series::Stock),
            Kernel::Patched => Self::Series(Series::Patched),
            Kernel::Named(name) => Self::Named(name.clone()),
        }
    }

    /// With our series or without: one that is named stands in the place of the patched one.
    #[must_use]
    pub fn series(&self) -> Series {
        match self {
            Self::Series(series) => *series,
            Self::Named(_) => Series::Patched,
        }
    }

    /// What keys of the result's configuration begin with, and the key of the host's image.
    #[must_use]
    pub fn keys(&self) -> (String, String) {
        let of = |name: &str| (format!("kernel.{name}"), format!("image.{name}_sha256"));
        match self {
            Self::Series(Series::Patched) => ("kernel".to_owned(), "image_sha256".to_owned()),
            Self::Series(Series::Stock) => of("stock"),
            Self::Named(name) => of(name),
        }
    }
}

/// A kernel of a race.
#[derive(Debug, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// Which of the race's.
    pub id: KernelId,
    /// What that is.
    pub choice: Choice,
    /// The variants that boot it, at least one.
    pub variants: Vec<&'a Variant>,
    /// The configurations of guests' kernels that its hosts have to hold.
    pub flavors: BTreeSet<Flavor>,
}

/// The kernels of these variants, each once.
///
/// # Errors
/// [`LabError::Beyond`] for a variant's kernel that is not known or not there, and for a `--kernel`
/// that no variant boots; [`ArtifactError::KernelChoice`] for one that is not known.
pub fn kernels<'a>(
    scenario: &Scenario,
    variants: &[&'a Variant],
    options: &Options,
) -> Result<Vec<Wanted<'a>>, LabError> {
    let by_option: Option<Choice> = match &options.kernel {
        Some(text) => Some(text.parse().map_err(ArtifactError::KernelChoice)?),
        None => None,
    };
    let mut by_id: BTreeMap<KernelId, Vec<&Variant>> = BTreeMap::new();
    for variant in variants {
        by_id
            .entry(KernelId::of(variant))
            .or_default()
            .push(variant);
    }
    // Hosts of the stock and of the patched kernel hold the same kernels of guests.
    let is_of_series = |variant: &&&Variant| matches!(KernelId::of(variant), KernelId::Series(_));
    let of_series: Vec<&Variant> = variants.iter().filter(is_of_series).copied().collect();
    if let (Some(choice), true) = (&by_option, of_series.is_empty()) {
        return Err(LabError::Beyond {
            scenario: scenario.name.clone(),
            what: format!("--kernel {choice}"),
            limit: "each variant names a kernel of its own; leave it out".to_owned(),
        });
    }
    let one = |(id, variants): (KernelId, Vec<&'a Variant>)| {
        let (choice, flavors) = match &id {
            KernelId::Series(_) => {
                let choice = by_option.clone().unwrap_or_default();
                (choice, translate::flavors(scenario, &of_series))
            }
            KernelId::Named(name) => {
                let choice = named(scenario, variants[0], name)?;
                (choice, translate::flavors(scenario, &variants))
            }
        };
        Ok(Wanted {
            id,
            choice,
            variants,
            flavors,
        })
    };
    by_id.into_iter().map(one).collect()
}

/// The kernel that a variant names.
fn named(scenario: &Scenario, variant: &Variant, name: &str) -> Result<Choice, LabError> {
    assert!(!name.is_empty(), "a scenario's kernel has a name");
    let beyond = |limit: String| LabError::Beyond {
        scenario: scenario.name.clone(),
        what: format!("the kernel of variant {}", variant.name),
        limit,
    };
    let text = match name.contains('/') {
        true => scenario.folder.join(name).display().to_string(),
        false => name.to_owned(),
    };
    let choice = text.parse().map_err(|known: String| {
        let always = Kernel::ALWAYS.map(|kernel| kernel.to_string()).join(", ");
        beyond(format!("{known}; or of every race: {always}"))
    })?;
    Ok(choice)
}

/// Refuses kernels that are not there, and what variants want and their kernel does not have.
///
/// # Errors
/// As [`kernels`], and [`LabError::Beyond`].
pub fn check(
    scenario: &Scenario,
    variants: &[&Variant],
    options: &Options,
) -> Result<(), LabError> {
    let all = kernels(scenario, variants, options)?;
    all.iter()
        .try_for_each(|wanted| wanted.check(scenario, options.trace))
}

impl Wanted<'_> {
    fn check(&self, scenario: &Scenario, trace: bool) -> Result<(), LabError> {
        let variants = &self.variants;
        assert!(!variants.is_empty(), "a kernel of a race has variants");
        kernel::look_at(&self.choice).map_err(|error| self.refused(scenario, error))?;
        match &self.choice {
            Choice::Packaged(package) => {
                packaged::without_disks(scenario, variants)?;
                match package {
                    Package::Debian(_) => {
                        packaged::without_remedies(scenario, variants, "a distribution's kernel")
                    }
                    // It may be of our series, which shows once it is unpacked.
                    Package::File(_) | Package::Folder(_) => Ok(()),
                }
            }
            Choice::Ported(port) => {
                packaged::alone(scenario, variants, &self.written())?;
                if port.has_remedies {
                    return Ok(());
                }
                packaged::without_remedies(scenario, variants, &port.words())?;
                packaged::without_trace(scenario, trace, &port.words())
            }
            Choice::Given(folder) if matches!(self.id, KernelId::Named(_)) => {
                match kernel::given(folder)?.has_remedies()? {
                    true => Ok(()),
                    false => packaged::without_remedies(scenario, variants, &self.written()),
                }
            }
            Choice::Given(_) | Choice::Built(_) => Ok(()),
        }
    }

    /// What is said of files that are not a kernel: which variant asks for them, where it names it.
    fn refused(&self, scenario: &Scenario, error: ArtifactError) -> LabError {
        match &self.id {
            KernelId::Series(_) => error.into(),
            KernelId::Named(_) => LabError::Beyond {
                scenario: scenario.name.clone(),
                what: format!("the kernel of variant {}", self.variants[0].name),
                limit: error.to_string(),
            },
        }
    }

    /// Refuses remedies that the kernel itself does not have, now that it is there.
    ///
    /// # Errors
    /// [`LabError::Beyond`]; [`LabError::Artifact`] if its configuration cannot be read.
    pub fn check_remedies(
        &self,
        scenario: &Scenario,
        kernel: &kernel::Kernel,
    ) -> Result<(), LabError> {
        if !is_packaged(&self.choice) || kernel.has_remedies()? {
            return Ok(());
        }
        packaged::without_remedies(scenario, &self.variants, &self.written())
    }

    /// How the user asked for it.
    fn written(&self) -> String {
        match &self.id {
            KernelId::Series(_) => format!("--kernel {}", self.choice),
            KernelId::Named(name) => format!("`kernel = \"{name}\"`"),
        }
    }

    /// What it needs of this machine, with the kernels of guests that do not boot it.
    #[must_use]
    pub fn needs(&self, home: &Home) -> Vec<Need> {
        let series = self.id.series();
        let mut needs = match (&self.choice, series) {
            (Choice::Given(_), Series::Patched) => Vec::new(),
            (Choice::Packaged(_), _) | (Choice::Ported(_), Series::Patched) => {
                artifacts::chosen_kernel(home, &self.choice)
            }
            _ => {
                let flavor = self.choice.flavor();
                artifacts::kernel(home, Build { series, flavor })
            }
        };
        let others = self.flavors.iter().map(|&flavor| Build { series, flavor });
        needs.extend(others.flat_map(|build| artifacts::kernel(home, build)));
        needs
    }

    /// What the result's configuration says of it beside the files: the host's memory, where it is
    /// another than the race's.
    fn config(&self, scenario: &Scenario) -> Option<(String, String)> {
        let is_named = matches!(self.id, KernelId::Named(_));
        (is_named && is_packaged(&self.choice)).then(|| {
            let (prefix, _) = self.id.keys();
            let memory_mib = memory_mib(scenario, &self.choice);
            (format!("{prefix}.memory_mib"), memory_mib.to_string())
        })
    }
}

/// What the result's configuration says of all these kernels together: the memory of hosts whose
/// variants name no kernel, and what `--kernel` put in the place of theirs.
#[must_use]
pub fn config(scenario: &Scenario, all: &[Wanted<'_>]) -> BTreeMap<String, String> {
    let of_series = |wanted: &&Wanted<'_>| matches!(wanted.id, KernelId::Series(_));
    let choice = all.iter().find(of_series).map(|wanted| &wanted.choice);
    let memory_mib = memory_mib(scenario, choice.unwrap_or(&Choice::default()));
    let mut config = BTreeMap::from([("memory_mib".to_owned(), memory_mib.to_string())]);
    if let Some(choice) = choice.filter(|choice| **choice != Choice::default()) {
        config.insert("kernel.choice".to_owned(), choice.to_string());
    }
    config.extend(all.iter().filter_map(|wanted| wanted.config(scenario)));
    config
}

/// The memory of a host with this kernel, in MiB: larger kernels of host and guests do not shrink
/// what is left, and a host of another kernel beside it has no more for it.
#[must_use]
pub fn memory_mib(scenario: &Scenario, kernel: &Choice) -> u32 {
    let machines = u32::try_from(scenario.vms.len()).unwrap_or(u32::MAX) + 1;
    let more = if is_packaged(kernel) {
        machines * packaged::LARGER_MIB
    } else {
        0
    };
    scenario.host.memory_mib + more
}

/// Whether it is a distribution's kernel.
#[must_use]
pub fn is_packaged(choice: &Choice) -> bool {
    matches!(choice, Choice::Packaged(_))
}

/// Whether it is the kernel of a release, by its name. One that a user names may be ours.
#[must_use]
pub fn is_release(choice: &Choice) -> bool {
    matches!(choice, Choice::Packaged(Package::Debian(_)))
}

#[cfg(test)]
mod tests;
