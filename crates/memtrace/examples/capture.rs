// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Captures a program: `cargo run --release --example capture -- -o OUT -- PROGRAM [ARGS]`.

use anyhow::Context;
use clap::Parser;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use steady_memtrace::capture::{self, Options, Start};

#[derive(Parser)]
struct Args {
    /// Trace to write.
    #[arg(short, long)]
    output: PathBuf,
    /// The plugin.
    #[arg(
        long,
        default_value = "plugins/qemu-memtrace/build/libqemu-memtrace.so"
    )]
    plugin: PathBuf,
    /// Record after this many instructions.
    #[arg(long, conflicts_with = "wait_marker")]
    skip_instructions: Option<u64>,
    /// Record from the program's start marker.
    #[arg(long)]
    wait_marker: bool,
    /// Stop after this many accesses.
    #[arg(long)]
    max_accesses: Option<u64>,
    /// Stop after this many seconds.
    #[arg(long, default_value_t = 600)]
    time_limit: u64,
    /// Instructions a thread may run ahead of the slowest running one.
    #[arg(long, default_value_t = 20_000)]
    window: u64,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let mut options = Options::new(args.command, args.output, args.plugin);
    options.max_accesses = args.max_accesses;
    options.time_limit = Duration::from_secs(args.time_limit);
    options.window_instructions = args.window;
    options.start = match args.skip_instructions {
        Some(count) => Start::AfterInstructions(count),
        None if args.wait_marker => Start::AtMarker,
        None => Start::AtOnce,
    };
    let cancel = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&cancel)).context("watch for signals")?;
    }
    let summary = capture::run(&options, &cancel)?;
    let bytes = std::fs::metadata(&options.output)?.len();
    eprintln!("{}", summary.ending);
    println!("{summary:#?}");
    println!(
        "{bytes} bytes, {} per 1000 accesses",
        bytes * 1000 / summary.totals.accesses().max(1)
    );
    Ok(())
}
