// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady build`: makes what races and captures need, so that the first one does not have to.
//!
//! What is asked for is built beside each other: each build has stretches in which it keeps one
//! processor busy and no more, as where it unpacks or links.

use std::process::ExitCode;
use std::thread;

use steady_lab_artifacts::kernel::{Build as BuildOf, Flavor, Series};
use steady_lab_artifacts::need::{self, Need, artifacts, emulators};
use steady_lab_artifacts::{ArtifactError, Home};
use steady_lab_artifacts::{bochs, kernel, programs, qemu_system, qemu_user, selftests};
use steady_race::Watcher;

use crate::arguments::{Artifact, Build};
use crate::progress::Show;

/// What a build without words builds: all but the selftests.
const USUAL: [Artifact; 5] = [
    Artifact::Kernel,
    Artifact::Bochs,
    Artifact::Qemu,
    Artifact::Programs,
    Artifact::QemuUser,
];

/// What building something needs of this machine; kernels in these configurations.
type Needs = fn(&Home, &[Flavor]) -> Vec<Need>;

/// Everything that can be built, and what that needs.
pub const NEEDS: [(Artifact, Needs); 6] = [
    (Artifact::Kernel, |home, flavors| {
        let builds = flavors.iter().map(|&flavor| artifacts::patched(flavor));
        builds
            .flat_map(|build| artifacts::kernel(home, build))
            .collect()
    }),
    (Artifact::Bochs, |home, _| emulators::bochs(home, true)),
    (Artifact::Qemu, |home, _| emulators::qemu(home, true)),
    (Artifact::Programs, |home, _| artifacts::own_programs(home)),
    (Artifact::QemuUser, |home, _| emulators::capture(home)),
    (Artifact::Selftests, |home, _| {
        let mut needs = artifacts::selftests(home);
        needs.extend(artifacts::kernel(home, STOCK));
        needs
    }),
];

/// Builds what was named, or everything; the first error once all have ended.
pub fn build(arguments: &Build) -> anyhow::Result<ExitCode> {
    let home = &Home::find()?;
    let show = &Show::new();
    let what = if arguments.what.is_empty() {
        &USUAL[..]
    } else {
        &arguments.what[..]
    };
    let flavors = match &arguments.kernel[..] {
        [] => &[Flavor::Lab],
        named => named,
    };
    let wants = |artifact| what.contains(&artifact);
    let asked = NEEDS.iter().filter(|(artifact, _)| wants(*artifact));
    need::require(asked.flat_map(|(_, needs)| needs(home, flavors)).collect())?;
    let ended: Vec<Result<(), ArtifactError>> = thread::scope(|scope| {
        let mut works = Vec::new();
        if wants(Artifact::Kernel) {
            works.push(scope.spawn(|| kernels(home, flavors, show)));
        }
        if wants(Artifact::Bochs) {
            works.push(scope.spawn(|| emulator(home, show)));
        }
        if wants(Artifact::Qemu) {
            works.push(scope.spawn(|| qemu(home, show)));
        }
        if wants(Artifact::Programs) {
            works.push(scope.spawn(|| images(home, show)));
        }
        if wants(Artifact::QemuUser) {
            works.push(scope.spawn(|| user_emulator(home, show)));
        }
        if wants(Artifact::Selftests) {
            works.push(scope.spawn(|| tests(home, show)));
        }
        let ended = works.into_iter().map(thread::ScopedJoinHandle::join);
        ended
            .map(|work| work.expect("a build returns its errors"))
            .collect()
    });
    ended.into_iter().collect::<Result<(), ArtifactError>>()?;
    Ok(ExitCode::SUCCESS)
}

/// The kernel that selftests compare with.
const STOCK: BuildOf = BuildOf {
    series: Series::Stock,
    flavor: Flavor::Lab,
};

/// Kernels one after another: each keeps all processors busy for most of its time.
fn kernels(home: &Home, flavors: &[Flavor], show: &Show) -> Result<(), ArtifactError> {
    for &flavor in flavors {
        let wanted = artifacts::patched(flavor);
        let kernel = kernel::ensure(home, wanted, show)?;
        show.say(&format!(
            "{} {}: {}",
            wanted.words(),
            kernel.release,
            kernel.image.display()
        ));
    }
    Ok(())
}

fn emulator(home: &Home, show: &Show) -> Result<(), ArtifactError> {
    let bochs = bochs::ensure(home, show)?;
    show.say(&format!(
        "Bochs {}: {}",
        bochs.version,
        bochs.program.display()
    ));
    Ok(())
}

fn qemu(home: &Home, show: &Show) -> Result<(), ArtifactError> {
    let qemu = qemu_system::ensure(home, show)?;
    show.say(&format!(
        "QEMU {} ({}): {}",
        qemu.version,
        qemu.made(),
        qemu.program.display()
    ));
    Ok(())
}

fn images(home: &Home, show: &Show) -> Result<(), ArtifactError> {
    let programs = programs::ensure(home, show)?;
    show.say(&format!(
        "programs: {}, {}, {}",
        programs.agent.display(),
        programs.vmm.display(),
        programs.workloads.display()
    ));
    Ok(())
}

fn user_emulator(home: &Home, show: &Show) -> Result<(), ArtifactError> {
    let qemu = qemu_user::ensure(home, show)?;
    show.say(&format!("{}: {}", qemu.version, qemu.program.display()));
    Ok(())
}

fn tests(home: &Home, show: &Show) -> Result<(), ArtifactError> {
    let programs = selftests::ensure(home, show)?;
    let stock = kernel::ensure(home, STOCK, show)?;
    show.say(&format!(
        "selftests: {}, stock kernel {}: {}",
        programs.display(),
        stock.release,
        stock.image.display()
    ));
    Ok(())
}
