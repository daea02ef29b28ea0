// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The needs of emulators: the compiled one of the cache, else what compiles it, or Debian's.
//!
//! Variables of the environment choose between the two as they do for a run.

use std::path::Path;

use super::artifacts::{broken, entry, mirror, own_programs, room, temporary, to_build};
use super::table::{PATH, of_this_release, working};
use super::{Fix, Need, State, fix_of, of};
use crate::error::ArtifactError;
use crate::home::Home;
use crate::process::find_program;
use crate::programs::packaged;
use crate::{bochs, qemu_system, qemu_user, said};

/// Room that a build may take while it goes on, in MiB: estimates, not measured.
const EMULATOR_MIB: u64 = 1536;
const BOCHS_MIB: u64 = 256;

/// An emulator that is compiled here, or packaged.
struct Emulator<'a> {
    name: &'a str,
    why: &'a str,
    /// What `steady build` calls it.
    built_by: &'a str,
    /// Its name in the cache, unless that cannot be known, and its program there.
    entry: Result<String, ArtifactError>,
    program: &'a str,
    /// What its build needs.
    build: &'a [&'a str],
    /// Room that its build takes, in MiB.
    mib: u64,
    /// The packaged one in words, if it is there and would be taken.
    packaged: Option<String>,
    /// Whether the packaged one is taken as long as none is compiled.
    packaged_first: bool,
}

impl Emulator<'_> {
    fn needs(&self, home: &Home) -> Vec<Need> {
        let mut build = of(self.build);
        match &self.entry {
            Ok(name) if home.cache.join(name).is_dir() => {
                let place = home.cache.join(name);
                return vec![entry(self.name, self.why, &place, self.program)];
            }
            // What it would be asked of is all there.
            Err(error) if build.iter().all(Need::lets_go_on) => {
                return vec![broken(self.name, self.why, error)];
            }
            _ => {}
        }
        let is_packaged = self.packaged.is_some() && self.packaged_first;
        // What is not compiled now fetches nothing.
        build.extend((!is_packaged).then(mirror).into_iter().flatten());
        build.extend(room(&home.cache, self.mib));
        let lacks: Vec<Need> = build
            .iter()
            .filter(|need| !need.lets_go_on())
            .cloned()
            .collect();
        let command = format!("steady build {}", self.built_by);
        match &self.packaged {
            Some(found) if is_packaged || !lacks.is_empty() => {
                let fix = match lacks.is_empty() {
                    true => Fix::Run(command),
                    false => Fix::Do(format!("{}, then {command}", fix_of(&lacks))),
                };
                vec![Need::unmet(self.name, self.why, State::Slow, found, fix)]
            }
            _ => {
                build.push(to_build(self.name, self.why, self.built_by));
                build
            }
        }
    }
}

/// What is wrong with a variable that chooses an emulator; empty chooses the usual one.
fn variable(name: &str, known: &[&str]) -> Option<Need> {
    let value = std::env::var_os(name)?;
    if value.is_empty() || known.iter().any(|known| value == *known) {
        return None;
    }
    let found = format!(
        "is `{}`, expected {}",
        value.to_string_lossy(),
        known.join(", ")
    );
    let fix = Fix::Do(format!("set {name} to one of these, or unset it"));
    let why = "it chooses the emulator";
    Some(Need::unmet(name, why, State::Missing, found, fix))
}

/// The needs of hosts in Bochs; `compiled`: the one with our patches is wanted, not Debian's.
#[must_use]
pub fn bochs(home: &Home, compiled: bool) -> Vec<Need> {
    let (name, why) = ("Bochs", "the engine bochs runs hosts in it");
    let packaged = bochs::packaged_program();
    let mut needs = of(&["step", "bochs"]);
    needs.extend(variable("STEADY_BOCHS", &["packaged", "tagged", "events"]));
    if bochs::is_asked_for("packaged") && !compiled {
        needs.push(match packaged {
            Some((path, said)) => working((name, why), &path, &said, "bochs"),
            None => {
                let found = "is not installed, and STEADY_BOCHS=packaged asks for Debian's";
                Need::unmet(
                    name,
                    why,
                    State::Missing,
                    found,
                    Fix::Install("bochs".into()),
                )
            }
        });
        return needs;
    }
    let packaged = packaged.filter(|(_, said)| said.is_ok());
    let compiled = compiled || !bochs::asked_for().is_empty();
    let slower = "packaged, about a quarter of the speed of the compiled 3.0";
    let emulator = Emulator {
        name,
        why,
        built_by: "bochs",
        entry: bochs::cache_name(home),
        program: "bochs",
        build: &["bochs-build", "bochs-key", "fetch"],
        mib: BOCHS_MIB,
        packaged: packaged.filter(|_| !compiled).map(|_| slower.to_owned()),
        packaged_first: false,
    };
    needs.extend(emulator.needs(home));
    needs
}

/// The needs of hosts in QEMU; `compiled`: the one with our patches is wanted, not Debian's.
#[must_use]
pub fn qemu(home: &Home, compiled: bool) -> Vec<Need> {
    let (name, why) = ("QEMU", "the engine qemu runs hosts in it");
    let mut needs = of(&["step", "qemu"]);
    needs.extend(variable("STEADY_QEMU", &["packaged", "patched"]));
    let packaged = qemu_system::packaged_program();
    if needs.iter().any(|need| need.name == PATH) {
        return needs;
    }
    // The compiled one's name asks for its version.
    let works = |path: &Path| {
        let said = said::version(path);
        working((name, why), path, &said, "qemu-system-x86")
    };
    if let Some(lack) = packaged
        .as_deref()
        .map(works)
        .filter(|need| !need.lets_go_on())
    {
        needs.push(lack);
        return needs;
    }
    if qemu_system::asks_for_packaged() && !compiled {
        needs.push(match packaged {
            Some(path) => Need::met(name, why, format!("packaged, {}", path.display())),
            None => {
                let found = "is not installed, and STEADY_QEMU=packaged asks for Debian's";
                let fix = Fix::Install("qemu-system-x86".into());
                Need::unmet(name, why, State::Missing, found, fix)
            }
        });
        return needs;
    }
    let entry = qemu_system::cache_name(home);
    let compiled = compiled || qemu_system::asks_for_patched();
    let is_built = entry
        .as_ref()
        .is_ok_and(|name| home.cache.join(name).is_dir());
    if !compiled && packaged.is_none() && !is_built {
        let found = "is neither installed nor compiled";
        let fix = Fix::Install("qemu-system-x86".into());
        needs.push(Need::unmet(name, why, State::Missing, found, fix));
        return needs;
    }
    let words = |path| format!("packaged, which loses guests now and then, {path}");
    let emulator = Emulator {
        name,
        why,
        built_by: "qemu",
        entry,
        program: qemu_system::NAME,
        build: &["qemu-build", "fetch"],
        mib: EMULATOR_MIB,
        packaged: packaged
            .filter(|_| !compiled)
            .map(|path| words(path.display().to_string())),
        packaged_first: true,
    };
    needs.extend(emulator.needs(home));
    needs
}

/// The needs of captures.
#[must_use]
pub fn capture(home: &Home) -> Vec<Need> {
    let (name, why) = ("qemu-x86_64 with plugins", "programs are captured in it");
    // A package brings the plugin built.
    let mut needs = match packaged(home) {
        Some(_) => [of(&["step"]), own_programs(home)].concat(),
        None => of(&["step", "capture"]),
    };
    needs.extend(temporary());
    if needs.iter().any(|need| need.name == PATH) {
        return needs;
    }
    if let Some(qemu) = qemu_user::packaged() {
        needs.push(Need::met(
            name,
            why,
            format!("packaged, {}", qemu.program.display()),
        ));
        return needs;
    }
    let emulator = Emulator {
        name,
        why,
        built_by: "qemu-user",
        entry: qemu_user::cache_name(),
        program: "qemu-x86_64",
        build: &["qemu-user-build", "fetch"],
        mib: EMULATOR_MIB,
        packaged: None,
        packaged_first: false,
    };
    let is_built = |name: &String| home.cache.join(name).is_dir();
    let is_built = emulator.entry.as_ref().is_ok_and(is_built);
    match of_this_release("captured") {
        // Its Meson is too old to compile one.
        Some(row) if find_program(row.what).is_none() && !is_built => {
            let fix = Fix::Install(row.package.to_owned());
            needs.push(Need::unmet(
                name,
                why,
                State::Missing,
                "is not installed",
                fix,
            ));
        }
        _ => needs.extend(emulator.needs(home)),
    }
    needs
}
