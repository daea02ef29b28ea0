// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does each variant boot the kernel that it names? Under QEMU, so each test has the machine alone.

use std::path::{Path, PathBuf};

use serde_json::Value;
use steady_lab_artifacts::Home;
use steady_lab_artifacts::kernel::Kernel;
use steady_lab_artifacts::kernel::package::{self, Package, RELEASES};
use steady_race::Silent;

use crate::support::{ONE_VM, Place, ends_well, fails_with};

const MARK: &str = "[[variant]]\nname = \"named\"\nkernel = \"./mine\"";

/// Debian 12's kernel, and its files in a folder of the scenario's, as a user's would be.
fn unpacked(place: &Place) -> Kernel {
    let home = Home::find().unwrap();
    let kernel = package::ensure(&home, &Package::Debian(&RELEASES[0]), &Silent).unwrap();
    let folder = place.path("mine");
    let modules = folder.join("lib/modules").join(&kernel.release);
    std::fs::create_dir_all(&modules).unwrap();
    let copy = |from: &Path, to: PathBuf| {
        std::fs::copy(from, to).unwrap();
    };
    copy(
        &kernel.image,
        folder.join(format!("vmlinuz-{}", kernel.release)),
    );
    copy(
        &kernel.config,
        folder.join(format!("config-{}", kernel.release)),
    );
    for module in &kernel.modules {
        // The cache numbers them in the order in which they are loaded.
        let name = module.file_name().unwrap().to_str().unwrap();
        copy(module, modules.join(name.split_once('-').unwrap().1));
    }
    kernel
}

#[test]
fn two_variants_of_one_race_boot_two_kernels_as_host_and_as_guest() {
    let place = Place::new();
    let kernel = unpacked(&place);
    let scenario = place.scenario(ONE_VM, MARK);
    ends_well(
        &place
            .run(&scenario, &["--engine", "qemu"])
            .output()
            .unwrap(),
    );
    let result: Value = place.result("test", "qemu");
    assert_eq!(result["config"]["kernel../mine.release"], kernel.release);
    // Host and guest each report the release that they run.
    for (variant, times) in [("plain", 0), ("named", 2)] {
        let stream = place.path(&format!("out/test/qemu/{variant}-r0/stream.bin"));
        let stream = std::fs::read(stream).unwrap();
        let words = kernel.release.as_bytes();
        let found = stream.windows(words.len()).filter(|part| *part == words);
        assert_eq!(found.count(), times, "{variant}");
    }
}

#[test]
fn a_remedy_that_the_kernel_of_a_folder_lacks_is_refused_before_it_boots() {
    let place = Place::new();
    unpacked(&place);
    let scenario = place.scenario(ONE_VM, &format!("{MARK}\n[variant.shoot4u]"));
    let output = place
        .run(&scenario, &["--engine", "qemu"])
        .output()
        .unwrap();
    let said = fails_with(2, &output);
    assert!(
        said.contains("the remedy shoot4u of variant named"),
        "{said}"
    );
    assert!(
        said.contains("it is not in `kernel = \"./mine\"`"),
        "{said}"
    );
    assert!(!place.path("out/test/qemu/plain-r0").exists(), "{said}");
}
