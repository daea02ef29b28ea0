// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which kernel is meant: with our series or without, in which configuration, one that the user has
//! built, or a distribution's.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::package::{self, Package, RELEASES};
use super::port::{PORTS, Port};

/// With our files and hooks, or without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Series {
    /// The distribution's sources as they are.
    Stock,
    /// With the files and hooks of `linux/`.
    Patched,
}

/// The configuration of a kernel: what of `linux/config` it is built with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flavor {
    /// What races measure.
    #[default]
    Lab,
    /// What catches mistakes: lock order, sleeping in atomic context, RCU, memory, hangs.
    Debug,
    /// `PREEMPT_RT`.
    Rt,
    /// The lab's with ticks at 100 Hz.
    Hz100,
    /// The lab's with ticks at 300 Hz.
    Hz300,
    /// The lab's with ticks at 1000 Hz.
    Hz1000,
    /// The lab's with what distributions have for CPUs that idle or stop: `NO_HZ_FULL`, halt
    /// polling in the guest, suspend, kexec.
    Power,
    /// The lab's with `sched_ext`, and with BTF, by which the kernel verifies a BPF scheduler.
    Bpf,
}

impl Flavor {
    /// Every one.
    pub const ALL: [Self; 8] = [
        Self::Lab,
        Self::Debug,
        Self::Rt,
        Self::Hz100,
        Self::Hz300,
        Self::Hz1000,
        Self::Power,
        Self::Bpf,
    ];

    /// Its name in commands and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lab => "lab",
            Self::Debug => "debug",
            Self::Rt => "rt",
            Self::Hz100 => "hz-100",
            Self::Hz300 => "hz-300",
            Self::Hz1000 => "hz-1000",
            Self::Power => "power",
            Self::Bpf => "bpf",
        }
    }

    /// The names of all, for messages.
    #[must_use]
    pub fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    /// Names of the files of `linux/config`, without their ending, in the order in which they
    /// are laid over each other.
    pub(super) fn configs(self) -> impl Iterator<Item = &'static str> {
        let on_top = (self != Self::Lab).then(|| self.name());
        [Self::Lab.name()].into_iter().chain(on_top)
    }
}

/// A kernel that the lab builds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Build {
    /// With our series or without.
    pub series: Series,
    /// Its configuration.
    pub flavor: Flavor,
}

impl Build {
    /// Its name in reports: `stock`, `patched`, `patched-debug`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match (self.series, self.flavor) {
            (Series::Stock, Flavor::Lab) => "stock",
            (Series::Stock, Flavor::Debug) => "stock-debug",
            (Series::Stock, Flavor::Rt) => "stock-rt",
            (Series::Stock, Flavor::Hz100) => "stock-hz-100",
            (Series::Stock, Flavor::Hz300) => "stock-hz-300",
            (Series::Stock, Flavor::Hz1000) => "stock-hz-1000",
            (Series::Stock, Flavor::Power) => "stock-power",
            (Series::Stock, Flavor::Bpf) => "stock-bpf",
            (Series::Patched, Flavor::Lab) => "patched",
            (Series::Patched, Flavor::Debug) => "patched-debug",
            (Series::Patched, Flavor::Rt) => "patched-rt",
            (Series::Patched, Flavor::Hz100) => "patched-hz-100",
            (Series::Patched, Flavor::Hz300) => "patched-hz-300",
            (Series::Patched, Flavor::Hz1000) => "patched-hz-1000",
            (Series::Patched, Flavor::Power) => "patched-power",
            (Series::Patched, Flavor::Bpf) => "patched-bpf",
        }
    }

    /// What it is called where progress and logs name it: `kernel`, `stock debug kernel`.
    #[must_use]
    pub fn words(self) -> String {
        let mut words = Vec::new();
        if self.series == Series::Stock {
            words.push("stock");
        }
        if self.flavor != Flavor::Lab {
            words.push(self.flavor.name());
        }
        words.push("kernel");
        words.join(" ")
    }
}

/// What `--kernel` says: which kernel hosts and guests boot where a variant asks for the patched
/// one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// One that the lab builds.
    Built(Flavor),
    /// One that the user has built: the folder of its objects.
    Given(PathBuf),
    /// One of a distribution's package, in place of the patched and of the stock one.
    Packaged(Package),
    /// The patched one of another version of Linux.
    Ported(&'static Port),
}

impl Default for Choice {
    fn default() -> Self {
        Self::Built(Flavor::Lab)
    }
}

impl Choice {
    /// The configuration of the stock kernel that stands beside it.
    #[must_use]
    pub fn flavor(&self) -> Flavor {
        match self {
            Self::Built(flavor) => *flavor,
            Self::Given(_) | Self::Packaged(_) | Self::Ported(_) => Flavor::Lab,
        }
    }
}

impl FromStr for Choice {
    type Err = String;

    /// A flavor, a release or a port by its name; anything with a `/` is a package, if it ends in
    /// `.deb`, or a folder: of packages, of their files, or of a kernel's objects.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains('/') {
            let path = PathBuf::from(text);
            return Ok(if text.ends_with(".deb") {
                Self::Packaged(Package::File(path))
            } else if package::is_folder_of(&path) {
                Self::Packaged(Package::Folder(path))
            } else {
                Self::Given(path)
            });
        }
        if let Some(release) = RELEASES.iter().find(|release| release.name == text) {
            return Ok(Self::Packaged(Package::Debian(release)));
        }
        if let Some(port) = PORTS.iter().find(|port| port.version == text) {
            return Ok(Self::Ported(port));
        }
        Flavor::ALL
            .into_iter()
            .find(|flavor| flavor.name() == text)
            .map(Self::Built)
            .ok_or_else(|| {
                let releases = RELEASES.iter().map(|release| release.name);
                let others: Vec<&str> = releases
                    .chain(PORTS.iter().map(|port| port.version))
                    .collect();
                format!(
                    "there is no kernel `{text}`; expected {}, {}, or a kernel's package or the \
                     folder of its objects, with a `/` in it",
                    Flavor::names(),
                    others.join(", ")
                )
            })
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Built(flavor) => out.write_str(flavor.name()),
            Self::Packaged(Package::Debian(release)) => out.write_str(release.name),
            Self::Ported(port) => out.write_str(port.version),
            Self::Given(path) | Self::Packaged(Package::File(path) | Package::Folder(path)) => {
                path.display().fmt(out)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flavor_is_found_by_its_name() {
        for flavor in Flavor::ALL {
            assert_eq!(flavor.name().parse(), Ok(Choice::Built(flavor)));
        }
    }

    #[test]
    fn an_unknown_name_is_refused_and_the_known_ones_are_told() {
        let error = "dbug".parse::<Choice>().expect_err("refused");
        assert!(
            error.contains("`dbug`") && error.contains("lab, debug, rt"),
            "{error}"
        );
    }

    #[test]
    fn a_path_is_a_folder_even_if_its_last_part_is_a_flavors_name() {
        assert_eq!("./debug".parse(), Ok(Choice::Given("./debug".into())));
    }

    #[test]
    fn a_package_is_a_release_by_its_name_or_a_file() {
        let release = "debian-12".parse();
        assert_eq!(release, Ok(Choice::Packaged(Package::Debian(&RELEASES[0]))));
        let file = Package::File("./linux-image.deb".into());
        assert_eq!("./linux-image.deb".parse(), Ok(Choice::Packaged(file)));
        let error = "debian-9".parse::<Choice>().expect_err("refused");
        assert!(
            error.contains("debian-13-backports, 6.1, 6.12-proposal, 6.12-ranges, 7.3"),
            "{error}"
        );
        for port in &PORTS {
            assert_eq!(port.version.parse(), Ok(Choice::Ported(port)));
        }
    }
}
