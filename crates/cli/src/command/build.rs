// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady build`: makes what races and captures need, so that the first one does not have to.

use std::process::ExitCode;

use steady_lab::Home;
use steady_lab::artifact::kernel::{Build as BuildOf, Flavor, Series};
use steady_lab::artifact::{bochs, kernel, programs, qemu_user, selftests};
use steady_race::Watcher;

use crate::arguments::{Artifact, Build};
use crate::progress::Show;

/// Builds what was named, or everything.
pub fn build(arguments: &Build) -> anyhow::Result<ExitCode> {
    let home = Home::find()?;
    let show = Show::new();
    let wants = |artifact| arguments.what.is_empty() || arguments.what.contains(&artifact);
    if wants(Artifact::Kernel) {
        let flavors = match arguments.kernel.as_slice() {
            [] => &[Flavor::Lab],
            named => named,
        };
        for &flavor in flavors {
            let wanted = BuildOf {
                series: Series::Patched,
                flavor,
            };
            let kernel = kernel::ensure(&home, wanted, &show)?;
            show.say(&format!(
                "{} {}: {}",
                wanted.words(),
                kernel.release,
                kernel.image.display()
            ));
        }
    }
    if wants(Artifact::Bochs) {
        let bochs = bochs::ensure(&home, &show)?;
        show.say(&format!(
            "Bochs {}: {}",
            bochs.version,
            bochs.program.display()
        ));
    }
    if wants(Artifact::Programs) {
        let programs = programs::ensure(&home, &show)?;
        show.say(&format!(
            "programs: {}, {}, {}",
            programs.agent.display(),
            programs.vmm.display(),
            programs.workloads.display()
        ));
    }
    if wants(Artifact::QemuUser) {
        let qemu = qemu_user::ensure(&home, &show)?;
        show.say(&format!("{}: {}", qemu.version, qemu.program.display()));
    }
    if arguments.what.contains(&Artifact::Selftests) {
        let programs = selftests::ensure(&home, &show)?;
        let stock = kernel::ensure(
            &home,
            BuildOf {
                series: Series::Stock,
                flavor: Flavor::Lab,
            },
            &show,
        )?;
        show.say(&format!(
            "selftests: {}, stock kernel {}: {}",
            programs.display(),
            stock.release,
            stock.image.display()
        ));
    }
    Ok(ExitCode::SUCCESS)
}
