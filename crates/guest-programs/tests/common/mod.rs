// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the tests share: our programs, built once, and clear words where something is absent.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Fails with the package to install if `path` is not there. A test that skipped instead would
/// pass on a machine on which nothing was tested.
pub fn require(path: &str) {
    let owner = steady_guest_programs::PROGRAMS
        .iter()
        .find(|program| program.binaries.contains(&path) || program.data.contains(&path));
    let package = owner
        .and_then(|program| program.package)
        .unwrap_or("coreutils");
    assert!(
        Path::new(path).exists(),
        "this test needs {path}: apt-get install {package}"
    );
}

/// A program of `workloads/`, built into the target directory.
pub fn own_program(name: &str) -> PathBuf {
    own_directory().join(name)
}

/// Where our programs are; builds them on the first call.
pub fn own_directory() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("workloads");
        std::fs::create_dir_all(&directory).expect("a directory for the programs");
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
        // Test binaries run beside each other; only one of them may build at a time.
        let output = Command::new("flock")
            .args(["--timeout", "300"])
            .arg(directory.join("lock"))
            .arg("make")
            .arg("-C")
            .arg(&sources)
            .arg(format!("OUT={}", directory.display()))
            .output()
            .expect("make runs: apt-get install make gcc libc6-dev");
        assert!(
            output.status.success(),
            "make -C {}: {}",
            sources.display(),
            String::from_utf8_lossy(&output.stderr)
        );
        directory
    })
}
