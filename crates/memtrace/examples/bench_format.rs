// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures the format on a trace: bytes per access, decode and encode rates, and the decode rate
//! against its floor, which is writing the decoded records to memory. Each rate is the best of
//! five. With `--capture PLUGIN -- PROGRAM ARGS` it also captures the program and compares the
//! time with that of plain `qemu-x86_64`.

use std::ffi::OsString;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::Context;
use clap::Parser;
use steady_memtrace::capture::{self, Options};
use steady_memtrace::{BLOCK_RECORDS, Reader, Record, Writer};

const ROUNDS: usize = 5;

#[derive(Parser)]
struct Args {
    /// Trace to measure; with --capture, the trace to write first.
    trace: PathBuf,
    /// Plugin to capture with.
    #[arg(long)]
    capture: Option<PathBuf>,
    /// Program to capture.
    #[arg(last = true)]
    command: Vec<OsString>,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    if let Some(plugin) = args.capture {
        measure_capture(args.command, &args.trace, plugin)?;
    }
    measure_format(&args.trace)
}

/// Best time of the rounds, in seconds.
fn best(mut work: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let mut least = f64::INFINITY;
    for _ in 0..ROUNDS {
        let began = Instant::now();
        work()?;
        least = least.min(began.elapsed().as_secs_f64());
    }
    Ok(least)
}

#[expect(clippy::cast_precision_loss, reason = "rates for people")]
fn measure_format(path: &Path) -> anyhow::Result<()> {
    let stored = std::fs::read(path).with_context(|| path.display().to_string())?;
    let totals = *Reader::open(path)?
        .totals()
        .context("a file states its totals")?;
    let records = totals.records as f64;
    let accesses = totals.accesses().max(1) as f64;
    let mut block = Vec::new();

    let decode_s = best(|| {
        let mut reader = Reader::from_stream(stored.as_slice(), "trace")?;
        while reader.next_block(&mut block)? {
            black_box(&block);
        }
        Ok(())
    })?;
    // The floor: the same records, in the same blocks, only written.
    let floor_s = best(|| {
        let mut left = totals.records;
        while left > 0 {
            let count = usize::try_from(left)
                .unwrap_or(usize::MAX)
                .min(BLOCK_RECORDS);
            block.clear();
            block.resize(count, black_box(Record::Marker { thread: 1, id: 1 }));
            black_box(&mut block);
            left -= count as u64;
        }
        Ok(())
    })?;
    let encode_s = best(|| {
        let mut reader = Reader::from_stream(stored.as_slice(), "trace")?;
        let mut writer = Writer::new(Vec::new(), "memory", reader.header())?;
        while reader.next_block(&mut block)? {
            for record in &block {
                writer.push(record)?;
            }
        }
        black_box(writer.finish()?.1);
        Ok(())
    })? - decode_s;

    let record_bytes = std::mem::size_of::<Record>() as f64;
    println!(
        "records              {:>10} ({} accesses)",
        totals.records,
        totals.accesses()
    );
    println!(
        "bytes per access     {:>10.3}",
        stored.len() as f64 / accesses
    );
    println!(
        "decode               {:>10.1} M records/s",
        records / decode_s / 1e6
    );
    println!(
        "encode               {:>10.1} M records/s",
        records / encode_s / 1e6
    );
    println!(
        "floor, write only    {:>10.1} M records/s",
        records / floor_s / 1e6
    );
    println!(
        "floor in bytes       {:>10.1} GB/s",
        records * record_bytes / floor_s / 1e9
    );
    println!(
        "decode / floor       {:>10.2} times as long",
        decode_s / floor_s
    );
    Ok(())
}

fn measure_capture(command: Vec<OsString>, output: &Path, plugin: PathBuf) -> anyhow::Result<()> {
    let mut options = Options::new(command, output.to_owned(), plugin);
    options.show_output = false;
    let summary = capture::run(&options, &AtomicBool::new(false))?;
    let plain_s = best(|| {
        // qemu-x86_64 does not search PATH.
        let status = Command::new("sh")
            .args(["-c", "exec qemu-x86_64 \"$(command -v \"$0\")\" \"$@\""])
            .args(&options.command)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        status
            .success()
            .then_some(())
            .context("the program failed under plain qemu-x86_64")
    })?;
    let ratio = summary.elapsed.as_secs_f64() / plain_s;
    println!(
        "capture              {:>10.2} s, {}",
        summary.elapsed.as_secs_f64(),
        summary.ending
    );
    println!("plain qemu-x86_64    {plain_s:>10.2} s");
    println!("capture slow-down    {ratio:>10.1} times");
    Ok(())
}
