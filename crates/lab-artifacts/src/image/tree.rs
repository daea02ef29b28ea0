// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The contents of the initramfs archives of guest and host.
//!
//! Only what the scenario needs goes in: an emulated machine copies every byte once or twice
//! before it is up.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use steady_guest_programs::{OWN_DIRECTORY, Program, image};

use crate::error::ArtifactError;
use crate::image::cpio::Archive;
use crate::kernel::{Flavor, Kernel};
use crate::programs::Programs;

/// Files by their path in the image, from their path here.
type Files = BTreeMap<String, PathBuf>;

/// What a host's image holds besides the init and the VMM.
#[derive(Debug, Clone, Default)]
pub struct HostNeeds {
    /// The distribution's QEMU instead of `steady-vmm`.
    pub qemu: bool,
    /// trace-cmd.
    pub trace: bool,
    /// mke2fs, for VMs with a disk.
    pub disk: bool,
    /// Programs that the host itself runs.
    pub programs: Vec<&'static Program>,
    /// The remedies that need no kernel.
    pub steer: bool,
    /// Objects of BPF schedulers.
    pub schedulers: Vec<Added>,
}

/// Path in hosts and guests of the remedies that need no kernel.
pub const STEER: &str = "/usr/bin/steady-steer";

/// The archive of a guest that can run `wanted` and what a user brought, and what steers it where
/// that is asked for.
///
/// # Errors
/// [`ArtifactError::Program`] naming what is not installed, [`ArtifactError::Io`].
pub fn guest(
    programs: &Programs,
    wanted: &[&'static Program],
    brought: &[Added],
    steer: bool,
) -> Result<Vec<u8>, ArtifactError> {
    let mut files = Files::new();
    let brought = brought.iter().cloned();
    files.extend(brought.map(|added| (added.to, added.from)));
    add_wanted(&mut files, programs, wanted)?;
    add_steer(&mut files, programs, steer);
    pack(&files, &programs.agent)
}

fn add_steer(files: &mut Files, programs: &Programs, wanted: bool) {
    if wanted {
        files.insert(inside(STEER), programs.steer.clone());
    }
}

/// Path in the host of a guests' kernel that is not the host's.
#[must_use]
pub fn guest_kernel(flavor: Flavor) -> String {
    format!("lab/bzImage-{}", flavor.name())
}

/// The archive of the emulated host; the kernel, those of guests that boot another one, and the
/// guests' archive are in it for the VMMs.
///
/// # Errors
/// As [`guest`].
pub fn host(
    programs: &Programs,
    kernel: &Kernel,
    others: &BTreeMap<Flavor, Kernel>,
    guest: &[u8],
    needs: &HostNeeds,
) -> Result<Vec<u8>, ArtifactError> {
    let mut files = Files::new();
    add_kernel(&mut files, kernel);
    for (&flavor, other) in others {
        files.insert(guest_kernel(flavor), other.image.clone());
    }
    if needs.qemu {
        add_program(
            &mut files,
            "vmm = \"qemu\"",
            Path::new("/usr/bin/qemu-system-x86_64"),
            Some("qemu-system-x86"),
        )?;
        for (path, package) in QEMU_FIRMWARE {
            if !Path::new(path).is_file() {
                return Err(missing("vmm = \"qemu\"", path, Some(package)));
            }
            files.insert(inside(path), PathBuf::from(path));
        }
    } else {
        files.insert("usr/bin/steady-vmm".into(), programs.vmm.clone());
    }
    add_wanted(&mut files, programs, &needs.programs)?;
    add_steer(&mut files, programs, needs.steer);
    if needs.trace {
        add_program(
            &mut files,
            "--trace",
            Path::new("/usr/bin/trace-cmd"),
            Some("trace-cmd"),
        )?;
    }
    if needs.disk {
        add_program(
            &mut files,
            "disk_mib",
            Path::new("/usr/sbin/mke2fs"),
            Some("e2fsprogs"),
        )?;
    }
    let mut archive = Archive::default();
    if !needs.schedulers.is_empty() {
        add_schedulers(&mut files, &needs.schedulers)?;
    }
    let mut bytes = pack(&files, &programs.agent)?;
    archive.file("lab/guest.cpio", 0o644, guest);
    bytes.extend(archive.finish());
    Ok(bytes)
}

/// BPF schedulers, with what loads them.
fn add_schedulers(files: &mut Files, schedulers: &[Added]) -> Result<(), ArtifactError> {
    let bpftool = Path::new("/usr/sbin/bpftool");
    add_program(files, "bpf", bpftool, Some("bpftool"))?;
    for object in schedulers {
        files.insert(object.to.clone(), object.from.clone());
    }
    Ok(())
}

/// The kernel for guests, and the modules that the host loads, in the order of their names.
fn add_kernel(files: &mut Files, kernel: &Kernel) {
    files.insert("lab/bzImage".into(), kernel.image.clone());
    for module in &kernel.modules {
        let name = module.file_name().expect("a file").to_string_lossy();
        files.insert(format!("lab/modules/{name}"), module.clone());
    }
}

/// The archive of an emulated host that runs programs out of `folder` itself and has no guests.
///
/// # Errors
/// [`ArtifactError::Io`].
pub fn host_alone(
    programs: &Programs,
    folder: &Path,
    names: &[&str],
) -> Result<Vec<u8>, ArtifactError> {
    let files = names
        .iter()
        .map(|name| {
            (
                inside(&format!("{OWN_DIRECTORY}/{name}")),
                folder.join(name),
            )
        })
        .collect();
    pack(&files, &programs.agent)
}

/// A file for the image of a host to look around in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Added {
    /// Here.
    pub from: PathBuf,
    /// In the image, from the root, without the leading `/`.
    pub to: String,
}

impl Added {
    /// `FROM` or `FROM:TO`; without `TO` the file keeps its name and lies in `/root`.
    ///
    /// # Errors
    /// A sentence that says what is wrong with `text`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (from, to) = text.split_once(':').unwrap_or((text, ""));
        let name = Path::new(from).file_name().and_then(|name| name.to_str());
        let Some(name) = name else {
            return Err(format!(
                "`{from}` names no file; expected FILE or FILE:PATH"
            ));
        };
        let to = match to {
            "" => format!("root/{name}"),
            folder if folder.ends_with('/') => format!("{}{name}", inside(folder)),
            path => inside(path),
        };
        if to.is_empty() || to.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(format!("`/{to}` is not a path of a file in the host"));
        }
        let from = PathBuf::from(from);
        Ok(Self { from, to })
    }
}

/// The archive of a host that has a shell, with `init` as `/lab/init` and the user's files.
///
/// A program that is linked dynamically brings its libraries along.
///
/// # Errors
/// [`ArtifactError::Missing`] without busybox, [`ArtifactError::Program`] for a library that is not
/// there, [`ArtifactError::Io`].
pub fn host_to_look_around(
    programs: &Programs,
    kernel: &Kernel,
    init: &[u8],
    added: &[Added],
) -> Result<Vec<u8>, ArtifactError> {
    if !Path::new(BUSYBOX).is_file() {
        return Err(ArtifactError::Missing {
            program: BUSYBOX.to_owned(),
            why: "it is the shell of a host to look around in",
            package: "busybox-static",
        });
    }
    let mut files = Files::new();
    files.insert("usr/bin/busybox".into(), BUSYBOX.into());
    files.insert("usr/bin/steady-vmm".into(), programs.vmm.clone());
    add_kernel(&mut files, kernel);
    for file in added {
        if is_elf(&file.from)? {
            add_program(&mut files, "--add", &file.from, None)?;
            files.remove(&inside(&file.from.to_string_lossy()));
        }
        files.insert(file.to.clone(), file.from.clone());
    }
    let mut bytes = pack(&files, &programs.agent)?;
    let mut archive = Archive::default();
    archive.link("usr/bin/sh", "busybox");
    archive.file("lab/init", 0o755, init);
    bytes.extend(archive.finish());
    Ok(bytes)
}

/// A static shell with its tools.
const BUSYBOX: &str = "/usr/bin/busybox";

/// Whether a file is a program or a library of x86-64, which may need libraries: by class and
/// machine in its ELF header. Another's, such as a program for a guest, is a file like others.
pub(super) fn is_elf(path: &Path) -> Result<bool, ArtifactError> {
    let bytes = fs::read(path).map_err(|error| ArtifactError::io("read", path, error))?;
    let (class_64, machine_x86_64) = (2, [62, 0]);
    Ok(bytes.starts_with(b"\x7fELF")
        && bytes.get(4) == Some(&class_64)
        && bytes.get(18..20) == Some(&machine_x86_64[..]))
}

/// An archive with one program, to be put behind another archive.
#[must_use]
pub fn program(path: &str, contents: &[u8]) -> Vec<u8> {
    let mut archive = Archive::default();
    archive.file(path, 0o755, contents);
    archive.finish()
}

/// An archive with one file, to be put behind another archive.
#[must_use]
pub fn single(path: &str, contents: &[u8]) -> Vec<u8> {
    let mut archive = Archive::default();
    archive.file(path, 0o644, contents);
    archive.finish()
}

/// Firmware that QEMU's `microvm` boots a bzImage with.
const QEMU_FIRMWARE: [(&str, &str); 2] = [
    ("/usr/share/qemu/qboot.rom", "qemu-system-data"),
    ("/usr/share/qemu/linuxboot_dma.bin", "qemu-system-data"),
];

fn inside(path: &str) -> String {
    path.trim_start_matches('/').to_owned()
}

fn missing(program: &str, path: &str, package: Option<&str>) -> ArtifactError {
    let fix = package.map_or("make -C workloads".to_owned(), |package| {
        format!("apt-get install {package}")
    });
    ArtifactError::Program {
        program: program.to_owned(),
        what: format!("{path} is not installed; fix: {fix}"),
    }
}

/// The programs of a scenario, with what they need.
fn add_wanted(
    files: &mut Files,
    programs: &Programs,
    wanted: &[&'static Program],
) -> Result<(), ArtifactError> {
    for program in wanted {
        for own in program.own_binaries {
            files.insert(
                inside(&format!("{OWN_DIRECTORY}/{own}")),
                programs.workloads.join(own),
            );
        }
        for path in program.binaries {
            add_program(files, program.name, Path::new(path), program.package)?;
        }
        for path in program.data {
            if !Path::new(path).is_file() {
                return Err(missing(program.name, path, program.package));
            }
            files.insert(inside(path), PathBuf::from(path));
        }
    }
    Ok(())
}

fn add_program(
    files: &mut Files,
    name: &str,
    path: &Path,
    package: Option<&str>,
) -> Result<(), ArtifactError> {
    if !path.is_file() {
        return Err(missing(name, &path.to_string_lossy(), package));
    }
    let closure = image::closure(&[path]).map_err(|error| ArtifactError::Program {
        program: name.to_owned(),
        what: error.to_string(),
    })?;
    for file in closure {
        files.insert(inside(&file.image.to_string_lossy()), file.host);
    }
    Ok(())
}

fn pack(files: &Files, agent: &Path) -> Result<Vec<u8>, ArtifactError> {
    let read = |path: &Path| fs::read(path).map_err(|error| ArtifactError::io("read", path, error));
    let mut archive = Archive::default();
    for directory in ["dev", "proc", "sys", "tmp", "run", "data", "var/lib"] {
        archive.directory(directory);
    }
    // Debian's merged /usr: whatever path a program was linked with is found.
    for (link, target) in [
        ("bin", "usr/bin"),
        ("sbin", "usr/sbin"),
        ("lib", "usr/lib"),
        ("lib64", "usr/lib64"),
    ] {
        archive.directory(target);
        archive.link(link, target);
    }
    archive.file("init", 0o755, &read(agent)?);
    for (path, from) in files {
        archive.file(&merged(path), 0o755, &read(from)?);
    }
    Ok(archive.finish())
}

/// The path under `/usr` for one that goes through the links of the merged layout.
fn merged(path: &str) -> String {
    let through_link = ["bin/", "sbin/", "lib/", "lib64/"]
        .iter()
        .any(|link| path.starts_with(link));
    if through_link {
        format!("usr/{path}")
    } else {
        path.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_to_add_goes_to_its_place_to_a_folder_or_home() {
        let to = |text| Added::parse(text).unwrap().to;
        assert_eq!(to("a/b.sh"), "root/b.sh");
        assert_eq!(to("a/b.sh:/etc/c"), "etc/c");
        assert_eq!(to("a/b.sh:/data/"), "data/b.sh");
    }

    #[test]
    fn only_a_program_of_x86_64_is_asked_for_its_libraries() {
        let folder = tempfile::tempdir().unwrap();
        let is = |name: &str, class: u8, machine: u8| {
            let mut bytes = b"\x7fELF".to_vec();
            bytes.resize(64, 0);
            (bytes[4], bytes[18]) = (class, machine);
            let path = folder.path().join(name);
            fs::write(&path, bytes).unwrap();
            is_elf(&path).unwrap()
        };
        assert!(is("program", 2, 62));
        assert!(!is("flat", 1, 3), "a 32-bit program of kvm-unit-tests");
        assert!(!is("arm", 2, 183));
    }

    #[test]
    fn a_place_outside_the_host_or_no_file_is_refused() {
        for text in ["", "/", "a:/../b", "a:/x//y", "..:b"] {
            assert!(Added::parse(text).is_err(), "{text}");
        }
    }
}
