// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints the counts of a trace of a host: `host_counts TRACE`. Ends with 1 where an access does
//! not agree with the tables.

use std::fs::File;
use std::io::BufReader;
use std::process::ExitCode;

use anyhow::Context;
use steady_memtrace::host::Counts;

fn main() -> anyhow::Result<ExitCode> {
    let path = std::env::args_os()
        .nth(1)
        .context("usage: host_counts TRACE")?;
    let name = path.to_string_lossy().into_owned();
    let file = File::open(&path).with_context(|| format!("cannot open {name}"))?;
    let counts = Counts::read(BufReader::with_capacity(1 << 20, file)).context(name)?;
    println!("{counts:#?}");
    Ok(ExitCode::from(u8::from(counts.mismatches > 0)))
}
