// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One seed of a captured claim: a run of each variant is recorded, and TLB coherence simulated on
//! what its VMs did. The measures are those of [`steady_evidence::CAPTURED`].
//!
//! A recorded trace is removed once it is measured. Left out: what the recorded run itself
//! measured, since the emulator that records is another build.

mod key;
mod schemes;

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use steady_evidence::{Captured, Claim, House, Piece};
use steady_lab_artifacts::process::ending_with_us;
use steady_measures::{Better, Metric, RunResult, Unit};
use steady_memtrace::host::{Owner, Rates, Update};
use steady_race::Watcher;
use steady_scenario::Scenario;

use crate::progress::Show;

pub use key::fingerprint;
pub use schemes::measures as simulated_measures;

/// What rates are of.
const PER_INSTRUCTIONS: u64 = 1_000_000_000;

/// Records and simulates one seed of the variants that the claim names.
pub fn raced(
    house: &House,
    claim: &Claim,
    captured: &Captured,
    piece: &Piece,
    out: &Path,
    show: &Show,
) -> anyhow::Result<RunResult> {
    let path = house.root.join(&claim.scenario);
    let scenario = Scenario::load(&path)?;
    let folder = out.join(&claim.id);
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make {}", folder.display()))?;
    let mut pieces = Vec::new();
    for variant in claim.all_variants() {
        show.say(&format!("recording {variant}, seed {}", piece.seed));
        let trace = folder.join(format!("{variant}-{}.sht", piece.seed));
        record(&path, variant, captured, piece.seed, &trace)?;
        let mut result = RunResult::load(&beside(&trace).join(of_run(&scenario, &claim.engine)))?;
        let metrics = measures(&trace, &scenario)
            .with_context(|| format!("{}, seed {}", variant, piece.seed))?;
        for run in result.variants.iter_mut().flat_map(|v| &mut v.repetitions) {
            run.metrics.clone_from(&metrics);
            run.distributions.clear();
            run.artifacts.clear();
        }
        result.run.command = claim.command();
        result.seal();
        pieces.push((variant.to_owned(), result));
        std::fs::remove_file(&trace)?;
        std::fs::remove_dir_all(beside(&trace))?;
    }
    Ok(RunResult::join(pieces)?)
}

/// Where a recorded run leaves its result.
fn beside(trace: &Path) -> PathBuf {
    let mut name = trace.as_os_str().to_owned();
    name.push(".run");
    name.into()
}

fn of_run(scenario: &Scenario, engine: &str) -> PathBuf {
    Path::new(&scenario.name).join(engine).join("result.json")
}

/// Records a run; what an interrupted one left is removed first.
fn record(
    scenario: &Path,
    variant: &str,
    captured: &Captured,
    seed: u64,
    trace: &Path,
) -> anyhow::Result<()> {
    let left = beside(trace);
    if left.exists() {
        std::fs::remove_dir_all(&left).with_context(|| left.display().to_string())?;
    }
    let this = std::env::current_exe().context("find this program")?;
    let status = ending_with_us("TERM", &this)
        .args(["coherence", "capture", "--variant", variant])
        .args(["--seed", &seed.to_string()])
        .args(["--after-ticks", &captured.after_ticks.to_string()])
        .args(["--max-accesses", &captured.accesses.to_string()])
        .arg("--host")
        .arg(scenario)
        .arg("--output")
        .arg(trace)
        .stdout(std::process::Stdio::null())
        .status()
        .context("start a capture")?;
    ensure!(
        status.success(),
        "the capture of {variant} failed: {status}"
    );
    Ok(())
}

/// What a trace gives of each VM of its scenario.
fn measures(trace: &Path, scenario: &Scenario) -> anyhow::Result<Vec<Metric>> {
    let file = File::open(trace).with_context(|| trace.display().to_string())?;
    let rates = Rates::read(BufReader::with_capacity(1 << 20, file))?;
    let found = schemes::simulated(trace)?;
    let mut metrics = Vec::new();
    for (number, vm) in (1_u16..).zip(&scenario.vms) {
        // VMs are in the order of their first entries, which is that of the scenario.
        let Some(owner) = rates.owners.get(&number) else {
            ensure!(
                vm.background,
                "the VM `{}` is not in the recorded part",
                vm.name
            );
            continue;
        };
        if !vm.background {
            within_the_program(&vm.name, owner)?;
        }
        let updates = rates.updates.iter();
        let own = updates.filter(|update| update.owner == number && !update.ept);
        let of_vm = counted(owner, own)
            .into_iter()
            .chain(schemes::speeds(&found));
        metrics.extend(of_vm.map(|metric| metric.in_vm(vm.name.clone())));
    }
    ensure!(!metrics.is_empty(), "no VM ran in the recorded part");
    Ok(metrics)
}

/// A measured VM without a shootdown was recorded before or after its program.
fn within_the_program(name: &str, owner: &Owner) -> anyhow::Result<()> {
    ensure!(
        owner.updates.shootdowns > 0,
        "the recorded part has no shootdown of the VM `{name}`, so that it lies beside its \
         program; expected another `after_ticks`"
    );
    Ok(())
}

fn metric(name: &str, unit: Unit, value: u64) -> Metric {
    let value = i64::try_from(value).unwrap_or(i64::MAX);
    Metric::new(format!("captured.{name}"), unit, Better::Neutral, value)
}

/// `part` of `whole`, times `of`, halves up; 0 of nothing.
fn share(part: u64, whole: u64, of: u64) -> u64 {
    let whole = u128::from(whole).max(1);
    let rounded = (u128::from(part) * u128::from(of) + whole / 2) / whole;
    u64::try_from(rounded).unwrap_or(u64::MAX)
}

/// How often a VM changed its own tables, and what for.
fn counted<'a>(owner: &Owner, updates: impl Iterator<Item = &'a Update>) -> Vec<Metric> {
    let its = &owner.updates;
    let one_page = updates.filter(|update| shoots_down(update) && update.entries == 1);
    let one_page = one_page.count() as u64;
    let victims = its.victims + its.victims_by_host;
    let rate = |count| share(count, owner.instructions, PER_INSTRUCTIONS);
    let each = |count| share(count, its.shootdowns, 100);
    let mut found = vec![
        metric("instructions", Unit::Instructions, owner.instructions),
        metric("shootdowns", Unit::Count, rate(its.shootdowns)),
        metric("private", Unit::Count, rate(its.private)),
    ];
    if its.shootdowns > 0 {
        found.push(metric("pages", Unit::Count, each(its.shot_pages)));
        found.push(metric("victims", Unit::Count, each(victims)));
        let share = share(one_page, its.shootdowns, 1_000_000);
        found.push(metric("one_page", Unit::Ppm, share));
    }
    found
}

/// Whether others invalidated.
fn shoots_down(update: &Update) -> bool {
    !update.told.is_empty() || !update.told_by_host.is_empty()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use steady_memtrace::host::{Actor, Updates};

    use super::*;

    #[test]
    fn a_part_beside_the_program_is_refused() {
        let mut owner = Owner::default();
        owner.updates.private = 9;
        let said = within_the_program("victim", &owner).map_err(|error| error.to_string());
        assert!(said.is_err_and(|text| text.contains("`victim`")));
        owner.updates.shootdowns = 1;
        assert!(within_the_program("victim", &owner).is_ok());
    }

    #[test]
    fn rates_are_of_a_thousand_million_instructions_and_pages_and_victims_of_a_hundred() {
        let updates = Updates {
            shootdowns: 4,
            shot_pages: 10,
            victims: 11,
            victims_by_host: 1,
            private: 2,
            ..Updates::default()
        };
        let owner = Owner {
            instructions: 2_000_000,
            updates,
            ..Owner::default()
        };
        let update = |entries, victims: u16| Update {
            at: 0,
            owner: 1,
            ept: false,
            by: Actor::Vcpu(0),
            pages: Vec::new(),
            entries,
            fewer: Vec::new(),
            invalidated: true,
            told: (1..=victims).map(Actor::Vcpu).collect(),
            told_by_host: BTreeSet::new(),
        };
        // A private one of one page is not a shootdown.
        let all = [update(1, 3), update(1, 0), update(9, 1)];
        let found = counted(&owner, all.iter());
        let value = |name: &str| {
            let name = format!("captured.{name}");
            found
                .iter()
                .find(|one| one.name == name)
                .map(|one| one.value)
        };
        for metric in &found {
            let known = steady_evidence::CAPTURED.contains(&metric.name.as_str());
            assert!(known, "{}", metric.name);
        }
        assert_eq!(value("shootdowns"), Some(2_000));
        assert_eq!(value("private"), Some(1_000));
        assert_eq!(value("pages"), Some(250));
        assert_eq!(value("victims"), Some(300));
        assert_eq!(value("one_page"), Some(250_000));
    }
}
