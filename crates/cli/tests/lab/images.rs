// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Do the images of the shipped scenarios fit the memory that these give? Nothing is booted.

use std::path::{Path, PathBuf};

use steady_lab::translate;
use steady_lab_artifacts::Home;
use steady_lab_artifacts::image::tree;
use steady_lab_artifacts::kernel::{self, Build, Flavor, Series};
use steady_lab_artifacts::programs;
use steady_race::Silent;
use steady_scenario::{Scenario, Variant};

fn shipped() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut files: Vec<PathBuf> = ["", "papers"]
        .iter()
        .flat_map(|folder| std::fs::read_dir(root.join(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "toml")
        })
        .collect();
    files.sort();
    files
}

#[test]
fn every_shipped_scenario_has_memory_for_its_images() {
    let home = Home::find().unwrap();
    let build = Build {
        series: Series::Patched,
        flavor: Flavor::Lab,
    };
    let kernel = kernel::ensure(&home, build, &Silent).unwrap();
    let ours = programs::ensure(&home, &Silent).unwrap();
    let files = shipped();
    assert!(files.len() > 20, "{} scenarios", files.len());
    for file in files {
        let scenario = Scenario::load(&file).unwrap();
        let wanted = translate::programs(&scenario).unwrap();
        let steer = translate::steer::in_guests(&scenario);
        let brought = translate::brought::gather(&scenario).unwrap().files;
        let guest = tree::guest(&ours, &wanted, &brought, steer).unwrap();
        // A trace takes the most.
        let needs = translate::host_needs(&scenario, true).unwrap();
        // Kernels of other configurations differ by little in size; none is built here for it.
        let variants: Vec<&Variant> = scenario.variants.iter().collect();
        let others = translate::flavors(&scenario, &variants);
        let others = others.into_iter().map(|flavor| (flavor, kernel.clone()));
        let host = tree::host(&ours, &kernel, &others.collect(), &guest, &needs).unwrap();
        if let Err(error) = translate::check_memory(&scenario, guest.len(), host.len()) {
            panic!("{}: {error}", file.display());
        }
    }
}
