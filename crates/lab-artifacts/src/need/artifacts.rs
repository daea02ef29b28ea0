// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The needs of what is built here: what the cache has of it, else what its build needs.
//!
//! An entry of the cache counts if it is as it was built. A build needs programs, files and room;
//! its source comes from a mirror that answers. Emulators are in `emulators`.

use std::path::{Path, PathBuf};

use steady_guest_programs::Program;

use super::{Fix, Need, State, of, rows};
use crate::cache::sums;
use crate::error::ArtifactError;
use crate::home::{Home, LAB_PACKAGE, NO_TREE, PROGRAMS};
use crate::kernel::package::{self, Package};
use crate::kernel::port::{self, Port};
use crate::kernel::{self, Build, Choice, Flavor, Series, Source};
use crate::{debian, programs, selftests};

/// Room that a build may take while it goes on, in MiB: estimates, not measured.
const KERNEL_MIB: u64 = 2048;
const PORT_MIB: u64 = 3072;
const PROGRAMS_MIB: u64 = 512;

/// What a race or a host needs, beyond its engine.
#[derive(Debug, Clone, Default)]
pub struct Extras {
    /// trace-cmd in the host.
    pub trace: bool,
    /// Disks of VMs.
    pub disk: bool,
    /// The distribution's QEMU as VMM.
    pub vmm_qemu: bool,
    /// The shell of a host to look around in.
    pub shell: bool,
    /// BPF schedulers of the host.
    pub bpf: bool,
    /// The compiler of their sources.
    pub bpf_build: bool,
    /// Programs of guests and of the host.
    pub programs: Vec<&'static Program>,
}

/// The needs of these.
#[must_use]
pub fn extras(extras: &Extras) -> Vec<Need> {
    let wanted = [
        (extras.trace, "trace"),
        (extras.disk, "disk"),
        (extras.vmm_qemu, "vmm-qemu"),
        (extras.shell, "host"),
        (extras.bpf, "bpf"),
        (extras.bpf_build, "bpf-build"),
    ];
    let uses: Vec<&str> = wanted
        .iter()
        .filter(|(on, _)| *on)
        .map(|(_, what)| *what)
        .collect();
    let programs = extras.programs.iter().copied().flat_map(workload);
    of(&uses).into_iter().chain(programs).collect()
}

/// The needs of a program that a guest or a host runs.
#[must_use]
pub fn workload(program: &'static Program) -> Vec<Need> {
    let files = program.binaries.iter().chain(program.data);
    let found = files.map(|path| {
        if let Some(row) = rows().find(|row| row.what == *path) {
            return row.need();
        }
        let why = format!("the workload {}", program.name);
        if Path::new(path).is_file() {
            return Need::met(path, &why, *path);
        }
        let fix = Fix::Install(program.package.unwrap_or_default().to_owned());
        Need::unmet(path, &why, State::Missing, "is not installed", fix)
    });
    found.collect()
}

/// The needs of our own static programs: those of their build, unless they are as they would be
/// built.
#[must_use]
pub fn own_programs(home: &Home) -> Vec<Need> {
    let (name, why) = (
        "programs",
        "the inits, the VMM and the workloads of emulated machines",
    );
    if programs::packaged(home).is_some() {
        return vec![match sums::compare(&home.project.join(PROGRAMS)) {
            Ok(()) => Need::met(name, why, "of the package"),
            Err(error) => broken(name, why, &error),
        }];
    }
    let target = home.project.join("target");
    if programs::up_to_date(home) {
        return vec![Need::met(name, why, format!("built, {}", target.display()))];
    }
    let mut needs = of(&["step", "programs"]);
    needs.extend(temporary());
    needs.push(if programs::may_build(home) {
        to_build(name, why, "programs")
    } else {
        let found = format!("are not built, and {} cannot be written", target.display());
        let fix = Fix::Do(format!(
            "let the owner of {} run `steady build programs`, or clone it for yourself",
            home.project.display()
        ));
        Need::unmet(name, why, State::Missing, found, fix)
    });
    needs.extend(room(&target, PROGRAMS_MIB));
    needs
}

/// The needs of the kernels of races.
#[must_use]
pub fn kernel(home: &Home, build: Build) -> Vec<Need> {
    let (name, why) = (build.words(), "emulated hosts and guests boot it");
    if let Some(place) = kernel::brought(home, build) {
        return vec![kernel_entry(&name, why, &place)];
    }
    let place = || kernel::place(home, build);
    let entry = |place: &Path| kernel_entry(&name, why, place);
    let keyed: &[&str] = match build.flavor {
        Flavor::Bpf => &["step", "key", "key-bpf"],
        _ => &["step", "key"],
    };
    let needs = from_source(home, (&name, why), (keyed, "kernel"), place, entry);
    let lacks = |need: &Need| !need.lets_go_on() && matches!(need.fix, Some(Fix::Install(_)));
    let is_packaged = programs::packaged(home).is_some() && build == patched(Flavor::Lab);
    if !is_packaged || kernel::asks_for_source() || !needs.iter().any(lacks) {
        return needs;
    }
    // `steady-lab` is less to install than what builds a kernel.
    let fix = Fix::Install(LAB_PACKAGE.to_owned());
    let found = "is not installed, and what builds it is not all there";
    vec![Need::unmet(&name, why, State::Missing, found, fix)]
}

/// The needs of what is built from the kernel's sources and kept in the cache. Without the sources,
/// or what its name has the version of, its place is unknown: then all that its build needs is.
fn from_source(
    home: &Home,
    (name, why): (&str, &str),
    (keyed, built_by): (&[&str], &str),
    place: impl FnOnce() -> Result<PathBuf, ArtifactError>,
    entry: impl FnOnce(&Path) -> Need,
) -> Vec<Need> {
    let mut needs = of(keyed);
    needs.push(source());
    let place = needs.iter().all(Need::lets_go_on).then(place);
    match place {
        Some(Err(error)) => needs.push(broken(name, why, &error)),
        Some(Ok(place)) if place.is_dir() => needs.push(entry(&place)),
        to_make => {
            needs.extend(of(&[built_by]));
            needs.extend(to_make.map(|_| to_build(name, why, built_by)));
            needs.extend(room(&home.cache, KERNEL_MIB));
        }
    }
    needs
}

/// A kernel that is in the cache.
fn kernel_entry(name: &str, why: &str, place: &Path) -> Need {
    match kernel::at(place) {
        Ok(_) => entry(name, why, place, "."),
        Err(error) => broken(name, why, &error),
    }
}

/// The needs of the kernel that `--kernel` names.
#[must_use]
pub fn chosen_kernel(home: &Home, choice: &Choice) -> Vec<Need> {
    match choice {
        Choice::Given(_) => of(&["step"]),
        Choice::Built(flavor) => kernel(home, patched(*flavor)),
        Choice::Packaged(package) => packaged_kernel(home, package),
        Choice::Ported(port) => ported_kernel(home, port),
    }
}

/// The needs of the kernel of a port.
fn ported_kernel(home: &Home, port: &Port) -> Vec<Need> {
    let (name, why) = (port.words(), "emulated hosts and guests boot it");
    let mut needs = of(&["step", "key"]);
    if port.to_fetch().is_none() {
        needs.push(source());
    }
    let place = needs.iter().all(Need::lets_go_on);
    match place.then(|| port::place(home, port)) {
        Some(Err(error)) => needs.push(broken(&name, why, &error)),
        Some(Ok(place)) if place.is_dir() => needs.push(kernel_entry(&name, why, &place)),
        _ => {
            needs.extend(of(&["kernel"]));
            if port.to_fetch().is_some() {
                needs.extend(of(&["fetch", "deb-file"]));
                needs.extend(mirror());
            }
            needs.extend(room(&home.cache, PORT_MIB));
        }
    }
    needs
}

/// The needs of a distribution's kernel.
fn packaged_kernel(home: &Home, package: &Package) -> Vec<Need> {
    let why = "emulated hosts and guests boot its kernel";
    // A race may need those of several.
    let name = match package {
        Package::Debian(release) => format!("the kernel's package of {}", release.name),
        Package::File(path) | Package::Folder(path) => {
            format!("the kernel's package {}", path.display())
        }
    };
    let mut needs = of(&["step"]);
    let place = package::name_in_cache(package).map(|name| home.cache.join(name));
    match (place, package) {
        // A file that cannot be read is what the user asked for, not what the machine lacks.
        (Err(_), _) => {}
        (Ok(place), _) if place.is_dir() => needs.push(kernel_entry(&name, why, &place)),
        (Ok(_), Package::Debian(_)) => {
            needs.extend(of(&["packages", "deb-file"]));
            needs.extend(mirror());
            needs.extend(room(&home.cache, KERNEL_MIB));
        }
        (Ok(_), Package::File(_) | Package::Folder(_)) => {
            needs.extend(of(&["deb-file"]));
            needs.extend(room(&home.cache, KERNEL_MIB));
        }
    }
    needs
}

/// The patched kernel of a configuration.
#[must_use]
pub fn patched(flavor: Flavor) -> Build {
    let series = Series::Patched;
    Build { series, flavor }
}

/// The kernel's sources.
fn source() -> Need {
    let (name, why) = (
        "the kernel's source",
        "kernels are built from it, and named by it",
    );
    match Source::find() {
        Ok(Source::Tarball(path) | Source::Tree(path)) => {
            Need::met(name, why, path.display().to_string())
        }
        Err(ArtifactError::KernelSource { what, fix, given }) => {
            let fix = match given {
                true => Fix::Do(fix),
                false => Fix::Install("linux-source-6.12".to_owned()),
            };
            Need::unmet(
                name,
                why,
                State::Missing,
                format!("is not there: {what}"),
                fix,
            )
        }
        Err(error) => broken(name, why, &error),
    }
}

/// The needs of the KVM selftests.
#[must_use]
pub fn selftests(home: &Home) -> Vec<Need> {
    let (name, why) = ("KVM selftests", "they are run on emulated hosts");
    let entry = |place: &Path| entry(name, why, place, "programs");
    let place = || selftests::place(home);
    let by = (&["step", "key"][..], "selftests");
    from_source(home, (name, why), by, place, entry)
}

/// An entry of the cache that is there, whose file `wanted` is used.
pub(super) fn entry(name: &str, why: &str, place: &Path, wanted: &str) -> Need {
    match sums::compare(place).and_then(|()| sums::has(place, wanted)) {
        Ok(()) => Need::met(name, why, format!("built, {}", place.display())),
        Err(error) => broken(name, why, &error),
    }
}

/// What an error says of a need, and its fix.
pub(super) fn broken(name: &str, why: &str, error: &ArtifactError) -> Need {
    let (found, fix) = match error {
        ArtifactError::Damaged { file, what, fix } => (
            format!("is damaged: {} {what}", file.display()),
            fix.clone(),
        ),
        other => (
            format!("cannot be used: {other}"),
            Fix::Do(format!("make {name} readable")),
        ),
    };
    Need::unmet(name, why, State::Missing, found, fix)
}

pub(super) fn to_build(name: &str, why: &str, by: &str) -> Need {
    let found = match name.ends_with('s') {
        true => "are not built yet: the first use builds them",
        false => "is not built yet: the first use builds it",
    };
    Need::unmet(
        name,
        why,
        State::Slow,
        found,
        Fix::Run(format!("steady build {by}")),
    )
}

/// apt, and a mirror that it has lists of and that answers now.
pub(crate) fn mirror() -> Vec<Need> {
    let mut needs = of(&["apt"]);
    needs.extend(temporary());
    if needs.iter().all(Need::lets_go_on) {
        needs.push(mirror_of_apt());
    }
    needs
}

/// The mirror alone.
pub(crate) fn mirror_of_apt() -> Need {
    let (name, why) = ("a Debian mirror", "what is compiled comes from it");
    let update = Fix::AsRoot("apt-get update".to_owned());
    let (found, fix) = match debian::mirror() {
        Ok(Some(mirror)) => match debian::answers(&mirror) {
            Ok(()) => return Need::met(name, why, format!("answers, {mirror}")),
            Err(said) => {
                let fix = format!("let this machine reach {mirror}, as by a proxy of apt's");
                (format!("does not answer: {said}"), Fix::Do(fix))
            }
        },
        Ok(None) => ("is not in apt's lists".to_owned(), update),
        Err(error) => (format!("cannot be asked for: {error}"), update),
    };
    Need::unmet(name, why, State::Missing, found, fix)
}

/// The project's tree, which was not found.
#[must_use]
pub fn no_tree(error: &ArtifactError) -> Need {
    let (name, why) = (
        "the Steady tree",
        "machines and programs are made of what is in it",
    );
    let words = error.to_string();
    let found = words.split("; fix:").next().unwrap_or_default();
    let found = found.strip_prefix(name).unwrap_or(found).trim_start();
    let fix = Fix::Do(NO_TREE.to_owned());
    Need::unmet(name, why, State::Missing, found, fix)
}

/// The folder for temporary files, if none can be made in it.
#[must_use]
pub fn temporary() -> Option<Need> {
    let error = tempfile::tempdir().err()?;
    let (name, why) = ("temporary files", "some are made and removed again");
    // Its words name the file that it tried to make.
    let said = error.kind();
    let place = std::env::temp_dir();
    let found = format!("cannot be made in {}: {said}", place.display());
    let fix = Fix::Do("set TMPDIR to a folder that you may write to".to_owned());
    Some(Need::unmet(name, why, State::Missing, found, fix))
}

/// The cache, if it is there and cannot be read.
#[must_use]
pub fn cache() -> Option<Need> {
    let place = match Home::find_cache() {
        Ok(place) => place,
        Err(error) => return Some(broken("the cache", "what is built is kept there", &error)),
    };
    match std::fs::read_dir(&place) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            let found = format!("cannot be read at {}: {error}", place.display());
            let fix = Fix::Do("set STEADY_CACHE to a folder that you may read".to_owned());
            let why = "what is built is kept there";
            Some(Need::unmet("the cache", why, State::Missing, found, fix))
        }
        _ => None,
    }
}

/// Room for what a build writes, if there is not enough, or none that this user may write to.
pub(super) fn room(folder: &Path, need_mib: u64) -> Option<Need> {
    let place = folder.ancestors().find(|path| path.exists())?;
    let writable = nix::unistd::access(place, nix::unistd::AccessFlags::W_OK).is_ok();
    if !place.is_dir() || !writable {
        let found = format!("cannot be written at {}", place.display());
        let fix = Fix::Do("set STEADY_CACHE to a folder that you may write to".to_owned());
        let why = "a build writes there";
        return Some(Need::unmet("room", why, State::Missing, found, fix));
    }
    let free_mib = steady_race::free_bytes(place)? >> 20;
    if free_mib >= need_mib {
        return None;
    }
    let found = format!("is short: {free_mib} MiB are free at {}", place.display());
    let fix = Fix::Do(format!(
        "free {need_mib} MiB at {}, or set STEADY_CACHE to a larger place",
        place.display()
    ));
    let why = format!("a build takes up to {need_mib} MiB");
    Some(Need::unmet("room", &why, State::Missing, found, fix))
}
