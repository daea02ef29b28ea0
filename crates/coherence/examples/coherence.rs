// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares schemes on a generated workload: `cargo run --release --example coherence -- dedup`.

use anyhow::{Context, Result};
use clap::Parser;
use steady_coherence::compare::jobs;
use steady_coherence::workload::{Generator, GeneratorOptions, find};
use steady_coherence::{Options, SchemeKind, compare, config};

#[derive(Parser)]
struct Args {
    /// A workload of the paper's Table 3.
    workload: String,
    /// Schemes, by commas.
    #[arg(
        long,
        default_value = "kvmtlb,pom-tlb,hatric,attc,ideal,ideal-atlb",
        value_delimiter = ','
    )]
    schemes: Vec<String>,
    /// A machine (TOML).
    #[arg(long)]
    machine: Option<std::path::PathBuf>,
    /// Accesses.
    #[arg(long, default_value_t = 4_000_000)]
    accesses: u64,
    /// Accesses before counting.
    #[arg(long, default_value_t = 1_000_000)]
    warmup: u64,
    /// Shootdown rate.
    #[arg(long, default_value_t = steady_coherence::experiments::CALIBRATED_RATE)]
    rate: u32,
    /// VMs.
    #[arg(long, default_value_t = 1)]
    vms: u16,
    /// Threads of the simulator.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Let the oracle check every access.
    #[arg(long)]
    check: bool,
    /// Everything, as JSON.
    #[arg(long)]
    json: bool,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let machine = match &args.machine {
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            config::load(&text, &path.display().to_string())?
        }
        None => config::load("", "default")?,
    };
    let schemes = args
        .schemes
        .iter()
        .map(|name| SchemeKind::parse(name))
        .collect::<Result<Vec<_>, _>>()?;
    let workload = find(&args.workload)?;
    let source = Generator::new(
        workload,
        &GeneratorOptions {
            seed: 1,
            sweep_rate: args.rate,
            vms: args.vms,
            accesses: args.accesses,
            dram_percent: machine.hybrid.dram_percent,
        },
    )?;
    let options = Options {
        check: args.check,
        warmup: args.warmup,
        vms: args.vms,
        threads_per_vm: workload.threads,
        ..Options::default()
    };
    let begun = std::time::Instant::now();
    let all = compare(
        source,
        args.accesses,
        &jobs(&machine, &schemes),
        &options,
        args.threads,
    )?;
    let spent = begun.elapsed();
    if args.json {
        println!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(());
    }
    let base = &all.outcomes[0];
    println!(
        "scheme       IPC/1e6   gain bp  shootdowns  victims  walks    miss cyc/1k  false  violations"
    );
    for o in &all.outcomes {
        let c = &o.counts;
        println!(
            "{:<12} {:>7} {:>9} {:>11} {:>8} {:>8} {:>10} {:>7} {:?} {}",
            o.label,
            o.ipc_millionths(),
            o.gain_over(base),
            c.guest_migrations + c.host_migrations + c.program_updates,
            c.victims,
            c.walks,
            c.miss_cycles * 1000 / c.instructions.max(1),
            c.false_invalidations,
            o.violations,
            o.broken.as_deref().unwrap_or("")
        );
        for v in o.first_violations.iter().take(3) {
            println!("    {v}");
        }
    }
    let done = args.accesses * all.outcomes.len() as u64;
    eprintln!(
        "{} accesses/s per scheme-stream; {:?}",
        done * 1000 / u64::try_from(spent.as_millis())?.max(1),
        spent
    );
    Ok(())
}
