// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks traces: `cargo run --release --example check -- TRACE...`.

use std::path::PathBuf;

fn main() -> anyhow::Result<()> {
    for path in std::env::args_os().skip(1).map(PathBuf::from) {
        let report = steady_memtrace::check(&path)?;
        println!("{}: sound\n{report:#?}", path.display());
    }
    Ok(())
}
