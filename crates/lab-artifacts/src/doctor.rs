// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What this machine can run, what is missing, and the command that fixes it.

use std::path::Path;

use serde::Serialize;

use crate::home::Home;
use crate::kernel::Source;
use crate::process::find_program;
use crate::{bochs, qemu_system, qemu_user};

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It is there.
    Ok,
    /// It works, but could be better.
    Slow,
    /// It is missing.
    Missing,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What it is.
    pub name: String,
    /// What it is needed for.
    pub needed_for: String,
    /// How it is.
    pub state: State,
    /// What was found.
    pub found: String,
    /// The command that fixes it, if something must be fixed.
    pub fix: Option<String>,
}

/// Programs and files: what, what for, and the Debian package.
const TOOLS: [(&str, &str, &str); 14] = [
    ("xorriso", "engine bochs", "xorriso"),
    ("/usr/lib/ISOLINUX/isolinux.bin", "engine bochs", "isolinux"),
    (
        "/usr/lib/syslinux/modules/bios/ldlinux.c32",
        "engine bochs",
        "syslinux-common",
    ),
    (
        "/usr/share/bochs/BIOS-bochs-latest",
        "engine bochs",
        "bochsbios",
    ),
    ("/usr/share/vgabios/vgabios.bin", "engine bochs", "vgabios"),
    ("gcc", "kernel, guest programs", "build-essential"),
    ("make", "kernel, guest programs", "build-essential"),
    ("flex", "kernel", "flex"),
    ("bison", "kernel", "bison"),
    ("bc", "kernel", "bc"),
    ("lz4", "kernel", "lz4"),
    ("trace-cmd", "--trace", "trace-cmd"),
    ("mke2fs", "VMs with a disk", "e2fsprogs"),
    ("busybox", "steady host", "busybox-static"),
];
/// Room that the caches and a race need, in MiB.
const ROOM_MIB: u64 = 6 << 10;

/// Looks at everything.
#[must_use]
pub fn examine(home: &Home) -> Vec<Check> {
    let mut checks: Vec<Check> = TOOLS
        .iter()
        .map(|&(name, needed_for, package)| tool(name, needed_for, package))
        .collect();
    checks.push(kernel_source());
    checks.push(qemu_in_use(home));
    checks.push(bochs_in_use(home));
    checks.push(qemu_user_in_use(home));
    for program in steady_guest_programs::PROGRAMS {
        for path in program.binaries {
            let needed_for = format!("workload {}", program.name);
            checks.push(tool(path, &needed_for, program.package.unwrap_or_default()));
        }
    }
    checks.push(room(home));
    checks
}

fn check(name: &str, needed_for: &str, state: State, found: String, fix: Option<String>) -> Check {
    Check {
        name: name.to_owned(),
        needed_for: needed_for.to_owned(),
        state,
        found,
        fix,
    }
}

fn tool(name: &str, needed_for: &str, package: &str) -> Check {
    let found = if name.starts_with('/') {
        Some(Path::new(name).to_owned()).filter(|path| path.is_file())
    } else {
        find_program(name)
    };
    match found {
        Some(path) => {
            let found = path.display().to_string();
            check(name, needed_for, State::Ok, found, None)
        }
        None => check(
            name,
            needed_for,
            State::Missing,
            "not installed".into(),
            Some(format!("apt-get install {package}")),
        ),
    }
}

fn kernel_source() -> Check {
    let name = "kernel source";
    match Source::find() {
        Ok(Source::Tarball(path) | Source::Tree(path)) => {
            check(name, "kernel", State::Ok, path.display().to_string(), None)
        }
        Err(error) => check(
            name,
            "kernel",
            State::Missing,
            error.to_string(),
            Some("apt-get install linux-source-6.12".into()),
        ),
    }
}

fn qemu_in_use(home: &Home) -> Check {
    let (name, needed_for) = ("QEMU", "engine qemu");
    let fix = Some("steady build qemu".to_owned());
    let Some(qemu) = qemu_system::present(home) else {
        let found = "neither compiled nor packaged".to_owned();
        return check(name, needed_for, State::Missing, found, fix);
    };
    let path = qemu.program.display();
    let (state, fix, found) = if qemu.compiled {
        let found = format!("compiled {} with our patches, {path}", qemu.version);
        (State::Ok, None, found)
    } else {
        let found = format!(
            "packaged {}, which loses guests now and then, {path}",
            qemu.version
        );
        (State::Slow, fix, found)
    };
    check(name, needed_for, state, found, fix)
}

fn bochs_in_use(home: &Home) -> Check {
    let name = "Bochs";
    match bochs::present(home) {
        Some(bochs) if bochs.compiled => check(
            name,
            "engine bochs",
            State::Ok,
            format!("compiled {}, {}", bochs.version, bochs.program.display()),
            None,
        ),
        Some(bochs) => {
            let found = format!(
                "packaged {}, about a quarter of the speed of the compiled 3.0, {}",
                bochs.version,
                bochs.program.display()
            );
            check(
                name,
                "engine bochs",
                State::Slow,
                found,
                Some("steady build bochs".into()),
            )
        }
        None => check(
            name,
            "engine bochs",
            State::Missing,
            "neither compiled nor packaged".into(),
            Some("steady build bochs".into()),
        ),
    }
}

fn qemu_user_in_use(home: &Home) -> Check {
    let (name, needed_for) = ("qemu-x86_64 with plugins", "coherence capture");
    match qemu_user::present(home) {
        Some(qemu) => {
            let made = if qemu.compiled {
                "compiled"
            } else {
                "packaged"
            };
            let found = format!("{made}, {}, {}", qemu.version, qemu.program.display());
            check(name, needed_for, State::Ok, found, None)
        }
        None => check(
            name,
            needed_for,
            State::Missing,
            "neither packaged with plugins nor compiled".into(),
            Some("steady build qemu-user".into()),
        ),
    }
}

fn room(home: &Home) -> Check {
    let place = home
        .cache
        .ancestors()
        .find(|path| path.exists())
        .unwrap_or(Path::new("/"));
    let free_mib = steady_race::free_bytes(place).unwrap_or(0) >> 20;
    let found = format!("{free_mib} MiB free at {}", place.display());
    if free_mib >= ROOM_MIB {
        return check("room", "caches", State::Ok, found, None);
    }
    check(
        "room",
        "caches",
        State::Missing,
        found,
        Some(format!(
            "free {ROOM_MIB} MiB, or set STEADY_CACHE to a larger place"
        )),
    )
}
