// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady coherence rates`: how often a recorded host and its guests change their tables.

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use serde_json::{Value, json};
use steady_memtrace::host::{Owner, Rates, Updates};

use crate::arguments::coherence::Rates as Arguments;

/// Prints the rates of a trace.
pub fn rates(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let rates = read(&arguments.trace)?;
    let mut out = std::io::stdout().lock();
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&document(&rates))?)?;
    } else {
        print(&mut out, &rates)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> anyhow::Result<Rates> {
    let name = path.display();
    let file = File::open(path).with_context(|| format!("cannot read {name}"))?;
    Rates::read(BufReader::with_capacity(1 << 20, file)).with_context(|| name.to_string())
}

/// Names of kinds of changes, in the order of counts.
const KINDS: [&str; 5] = ["new", "gone", "moved", "fewer_rights", "more_rights"];

fn document(rates: &Rates) -> Value {
    let owners = rates.owners.iter().map(|(&owner, its)| {
        json!({
            "owner": name(owner),
            "vpids": its.vpids,
            "accesses": its.accesses[0],
            "stores": its.accesses[1],
            "instructions": its.instructions,
            "pages": its.pages,
            "changes": changes(&its.changes),
            "ept_changes": changes(&its.ept_changes),
            "tables_freed": its.freed[0],
            "ept_tables_freed": its.freed[1],
            "updates": updates(&its.updates),
            "ept_updates": updates(&its.ept_updates),
            "invvpid_address": its.invvpid[0],
            "invvpid_all": its.invvpid[1],
        })
    });
    json!({
        "schema": "steady.host-rates",
        "version": 1,
        "processors": rates.cpus,
        "ticks": rates.ticks,
        "unknown_accesses": rates.unknown,
        "owners": owners.collect::<Vec<_>>(),
    })
}

fn name(owner: u16) -> String {
    match owner {
        0 => "host".to_owned(),
        vm => format!("VM {vm}"),
    }
}

fn changes(by_level: &std::collections::BTreeMap<u8, [u64; 5]>) -> Value {
    let levels = by_level.iter().map(|(level, counts)| {
        let kinds = KINDS.iter().zip(counts);
        let kinds = kinds.map(|(kind, &count)| ((*kind).to_owned(), json!(count)));
        (level.to_string(), Value::Object(kinds.collect()))
    });
    Value::Object(levels.collect())
}

fn updates(its: &Updates) -> Value {
    json!({
        "all": its.all,
        "pages": its.pages,
        "most_pages": its.most_pages,
        "silent": its.silent,
        "private": its.private,
        "shootdowns": its.shootdowns,
        "shootdown_pages": its.shot_pages,
        "victims": its.victims,
        "victims_by_host": its.victims_by_host,
        "shootdowns_by_victims": its.by_victims,
        "updates_by_pages_up_to": its.by_pages,
    })
}

fn print(out: &mut impl Write, rates: &Rates) -> anyhow::Result<()> {
    writeln!(out, "{} processors, {} ticks", rates.cpus, rates.ticks)?;
    if rates.unknown > 0 {
        writeln!(
            out,
            "{} accesses in contexts without known tables",
            rates.unknown
        )?;
    }
    for (&owner, its) in &rates.owners {
        if its.accesses[0] == 0 {
            continue;
        }
        writeln!(out, "{}", name(owner))?;
        one(out, its)?;
        of_updates(out, its, "its tables", &its.updates)?;
        if owner > 0 {
            of_updates(out, its, "the EPT for it", &its.ept_updates)?;
            let [one, all] = its.invvpid;
            writeln!(out, "  INVVPID: {one} of an address, {all} of more")?;
        }
    }
    Ok(())
}

fn one(out: &mut impl Write, its: &Owner) -> std::io::Result<()> {
    let [accesses, stores] = its.accesses;
    writeln!(
        out,
        "  {accesses} accesses, {stores} of them stores, to {} pages in {} instructions",
        its.pages, its.instructions
    )?;
    for (what, by_level) in [("tables", &its.changes), ("EPT", &its.ept_changes)] {
        for (level, [new, gone, moved, fewer, more]) in by_level {
            writeln!(
                out,
                "  {what}, level {level}: {new} pages new, {gone} gone, {moved} moved, {fewer} \
                 with fewer rights, {more} with more"
            )?;
        }
    }
    Ok(())
}

fn of_updates(
    out: &mut impl Write,
    owner: &Owner,
    whose: &str,
    its: &Updates,
) -> std::io::Result<()> {
    let by = |count: u64, of: u64, unit: u64| match of {
        0 => 0,
        of => u64::try_from(u128::from(count) * u128::from(unit) / u128::from(of)).unwrap_or(0),
    };
    writeln!(
        out,
        "  updates of {whose}: {} of {} pages, at most {}; {} private, {} without an invalidation",
        its.all, its.pages, its.most_pages, its.private, its.silent
    )?;
    if its.shootdowns == 0 {
        return Ok(());
    }
    let hundredths = |count: u64| by(count, its.shootdowns, 100);
    let shown = |count: u64| format!("{}.{:02}", hundredths(count) / 100, hundredths(count) % 100);
    writeln!(
        out,
        "    {} shootdowns: {} in 10^9 instructions, {} in 10^6 accesses; {} pages and {} victims \
         each, {} of them by the host",
        its.shootdowns,
        by(its.shootdowns, owner.instructions, 1_000_000_000),
        by(its.shootdowns, owner.accesses[0], 1_000_000),
        shown(its.shot_pages),
        shown(its.victims + its.victims_by_host),
        shown(its.victims_by_host),
    )
}
