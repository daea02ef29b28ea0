// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables behind the findings, and what of them is said in sentences.

use std::fmt::Write;

use steady_diagnose::{BoostTable, DetailRow, Spread, TraceDiagnosis, VmTable};
use steady_report::humane;

use super::{Page, known, percent, time};

/// Rows of a list, such as exit reasons and places, that are shown of each VM.
const ROWS_SHOWN: usize = 12;
/// Exit reasons that a sentence names.
const REASONS_NAMED: usize = 5;

/// The tables of a trace's VMs.
pub fn tables(out: &mut Page, trace: &TraceDiagnosis) {
    for vm in &trace.vms {
        let _ = writeln!(out.text, "{} · {}: VM exits", trace.name, vm.name);
        exits(out, vm);
        pauses(out, vm);
        boosts(out, vm);
        vcpus(out, vm);
        let words = [preempt_words(vm), calls_words(vm), timers_words(vm)];
        for line in words.into_iter().flatten() {
            out.line("  ", &line);
        }
        out.blank();
    }
}

fn exits(out: &mut Page, vm: &VmTable) {
    let _ = writeln!(
        out.text,
        "  {:<22} {:>10} {:>7} {:>10} {:>7} {:>9} {:>9} {:>9} {:>9}",
        "reason", "exits", "share", "time", "share", "min", "mean", "p99", "max"
    );
    for row in vm.exits.iter().take(ROWS_SHOWN) {
        let Spread {
            count: timed,
            total,
            min,
            mean,
            p99,
            max,
            ..
        } = &row.time_ns;
        let _ = writeln!(
            out.text,
            "  {:<22} {:>10} {:>7} {:>10} {:>7} {:>9} {:>9} {:>9} {:>9}",
            row.name,
            humane::grouped(row.count),
            percent(row.count_permille),
            of_timed(*timed, *total),
            if *timed == 0 {
                "–".to_owned()
            } else {
                percent(row.time_permille)
            },
            of_timed(*timed, *min),
            of_timed(*timed, *mean),
            of_timed(*timed, *p99),
            of_timed(*timed, *max)
        );
    }
    more(out, vm.exits.len(), "reasons");
    about(out, vm);
}

/// Says how many rows of a table are left out.
fn more(out: &mut Page, rows: usize, what: &str) {
    if let Some(left @ 1..) = rows.checked_sub(ROWS_SHOWN) {
        let _ = writeln!(
            out.text,
            "    and {left} more {what}: --json and --csv have all"
        );
    }
}

/// What the exits of the first reasons were about, where events say it.
fn about(out: &mut Page, vm: &VmTable) {
    let told = |row: &&DetailRow| row.kind != "untold" && row.own_ns > 0;
    let rows = vm.exits.iter().take(ROWS_SHOWN);
    for (reason, row) in rows.flat_map(|of| of.about.iter().filter(told).map(move |row| (of, row)))
    {
        let place = [Some(row.kind.as_str()), row.value.as_deref()];
        let place: Vec<&str> = place.into_iter().flatten().collect();
        let _ = writeln!(
            out.text,
            "    {:<20} {:<22} {:>9} exits {:>10}  {}",
            reason.name,
            place.join(" "),
            humane::grouped(row.exits),
            time(row.own_ns),
            row.name.as_deref().unwrap_or("")
        );
    }
}

/// A time of exits; `–` if none of them has one.
fn of_timed(timed: u64, ns: u64) -> String {
    known((timed > 0).then_some(ns), time)
}

fn pauses(out: &mut Page, vm: &VmTable) {
    let Some(pauses) = &vm.pauses else { return };
    let _ = writeln!(
        out.text,
        "  pause-loop exits by cause, {} in all, {} in runs at one place, longest run {}:",
        humane::grouped(pauses.exits),
        percent(pauses.in_runs_permille),
        pauses.longest.as_ref().map_or(0, |run| run.exits)
    );
    for row in &pauses.by_cause {
        let _ = writeln!(
            out.text,
            "    {:<14} {:>10} {:>7}   spun {}",
            row.cause.words(),
            humane::grouped(row.exits),
            percent(row.permille),
            known(row.spun_ns, time)
        );
    }
    let _ = writeln!(out.text, "  by function:");
    for row in pauses.by_place.iter().take(ROWS_SHOWN) {
        let name = row.function.as_deref().unwrap_or(&row.rip);
        let _ = writeln!(
            out.text,
            "    {:<34} {:>10} {:<12} longest run {}",
            name,
            humane::grouped(row.exits),
            row.cause.words(),
            row.longest_run
        );
    }
    more(out, pauses.by_place.len(), "functions");
}

fn boosts(out: &mut Page, vm: &VmTable) {
    let Some(boosts) = &vm.boosts else { return };
    let _ = writeln!(
        out.text,
        "  boosts: {} looks, {} agreed to by the scheduler, of {} judged {} ran next: {}",
        humane::grouped(boosts.spins),
        known(boosts.agreed, humane::grouped),
        humane::grouped(boosts.decided),
        humane::grouped(boosts.ran_next),
        percent(boosts.ran_next_permille)
    );
    for row in &boosts.outcomes {
        let _ = writeln!(
            out.text,
            "    {:<20} {:>10} {:>7}",
            row.name,
            humane::grouped(row.count),
            percent(row.permille)
        );
    }
    for line in boost_words(boosts) {
        out.line("    ", &line);
    }
}

fn vcpus(out: &mut Page, vm: &VmTable) {
    let _ = writeln!(
        out.text,
        "  {:<22} {:>10} {:>11} {:>10} {:>12} {:>12} {:>11}",
        "vCPU (thread)",
        "exits",
        "pause exits",
        "steal",
        "after wake-up",
        "descheduled",
        "not marked"
    );
    for vcpu in &vm.vcpus {
        let _ = writeln!(
            out.text,
            "  {:<22} {:>10} {:>11} {:>10} {:>13} {:>12} {:>11}",
            format!("{} ({} {})", vcpu.number, vcpu.comm, vcpu.tid),
            humane::grouped(vcpu.exits),
            humane::grouped(vcpu.pause_exits),
            known(vcpu.steal_ns, time),
            known(vcpu.wakeup_wait_ns, time),
            known(vcpu.descheduled, humane::grouped),
            known(vcpu.unmarked, humane::grouped)
        );
    }
}

/// Which vCPUs KVM chose, how soon and where they ran, and what ran in their place.
#[must_use]
pub fn boost_words(boosts: &BoostTable) -> Vec<String> {
    let mut said = Vec::new();
    if !boosts.chosen.is_empty() {
        let chosen = boosts.chosen.iter().map(|row| {
            format!(
                "vCPU {} {} times ({} ran next)",
                row.vcpu,
                humane::grouped(row.tries),
                humane::grouped(row.ran_next)
            )
        });
        said.push(format!("chosen: {}", joined(chosen)));
    }
    if boosts.ran_next > 0 {
        said.push(format!(
            "those that ran next did so after {} on average, p99 {}; {} on the yielder's pCPU, {} \
             on another",
            time(boosts.delay_ns.mean),
            time(boosts.delay_ns.p99),
            humane::grouped(boosts.same_pcpu),
            humane::grouped(boosts.ran_next.saturating_sub(boosts.same_pcpu))
        ));
    }
    if !boosts.instead.is_empty() {
        let rows = boosts.instead.iter();
        let rows = rows.map(|row| format!("{} {}", row.name, humane::grouped(row.count)));
        said.push(format!("ran in the place of others: {}", joined(rows)));
    }
    said
}

/// After which exits vCPUs were descheduled, and what of it PV TLB flush could not see.
#[must_use]
pub fn preempt_words(vm: &VmTable) -> Option<String> {
    let table = vm.preemption.as_ref()?;
    let (marked, unmarked) = table.marked.zip(table.unmarked)?;
    let all = marked + unmarked;
    if all == 0 {
        return None;
    }
    let rows = table.after.iter().take(REASONS_NAMED);
    let rows = rows.map(|row| format!("{} {}", row.name, humane::grouped(row.count)));
    Some(format!(
        "descheduled while ready {} times, by the exit before: {}; of these PV TLB flush could not \
         have seen {}",
        humane::grouped(all),
        joined(rows),
        humane::grouped(unmarked)
    ))
}

/// IPIs that a sender waits for, as the host infers them.
#[must_use]
pub fn calls_words(vm: &VmTable) -> Option<String> {
    let calls = vm.calls.as_ref()?;
    let of_calls = |of: fn(&Spread) -> u64| calls.call_ns.as_ref().map(of);
    let rows = calls
        .by_receiver
        .iter()
        .filter(|row| row.delay_ns.count > 0);
    let rows = rows.map(|row| {
        let delay = &row.delay_ns;
        format!(
            "{} to a {} vCPU, taken after {}",
            humane::grouped(delay.count),
            row.receiver,
            time(delay.mean)
        )
    });
    let mut text = format!(
        "calls between vCPUs, inferred from the host: {}, mean {}, p99 {}, max {}",
        known(of_calls(|spread| spread.count), humane::grouped),
        known(of_calls(|spread| spread.mean), time),
        known(of_calls(|spread| spread.p99), time),
        known(of_calls(|spread| spread.max), time)
    );
    let rows = joined(rows);
    if !rows.is_empty() {
        let _ = write!(text, "; IPIs: {rows}");
    }
    let _ = write!(
        text,
        "; {} PV TLB flushes and {} PV IPIs instead",
        known(calls.pv_flushes, humane::grouped),
        known(calls.pv_ipis, humane::grouped)
    );
    Some(text)
}

/// Exits for timers, idle periods, and what other ways to keep time would cost.
#[must_use]
pub fn timers_words(vm: &VmTable) -> Option<String> {
    let timers = &vm.timers;
    let told = [timers.arms, timers.host_ticks, timers.expiry_exits];
    let exits = told.into_iter().flatten().sum::<u64>();
    (exits > 0).then(|| {
        format!(
            "timers: {} exits to arm or stop, {} at expiry, {} on the host's own ticks; idle {} \
             times for {}. By the Paratick paper's formulas at {} Hz: periodic ticks {} exits, \
             tickless {}, paratick at most {}",
            known(timers.arms, humane::grouped),
            known(timers.expiry_exits, humane::grouped),
            known(timers.host_ticks, humane::grouped),
            known(timers.idle_entries, humane::grouped),
            known(timers.idle_ns, time),
            timers.tick_hz,
            humane::grouped(timers.periodic),
            known(timers.tickless, humane::grouped),
            known(timers.paratick_at_most, humane::grouped)
        )
    })
}

fn joined(words: impl Iterator<Item = String>) -> String {
    words.collect::<Vec<_>>().join(", ")
}
