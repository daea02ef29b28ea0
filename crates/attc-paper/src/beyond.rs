// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Beyond the paper: more cores, more VMs, large pages, a current part, other table sizes.

use steady_coherence::Error;
use steady_coherence::compare::Job;
use steady_coherence::config::MachineConfig;
use steady_coherence::num::basis_points;
use steady_coherence::scheme::attc::invtbl;
use steady_coherence::scheme::{
    ATTC, HATRIC, IDEAL_ATLB, IPI, KVMTLB, Registry, SHOOT4U, Spec, atlb,
};
use steady_coherence::workload::{Pattern, Workload, find};

use crate::measured::percent;
use crate::runs::{Settings, WorkloadResults, job, run_jobs};

/// One line: gains over kvmtlb in one setting.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Beyond {
    /// The question.
    pub question: &'static str,
    /// The setting.
    pub setting: String,
    /// Scheme and gain over kvmtlb, basis points.
    pub gains_bp: Vec<(String, i64)>,
    /// ATLB look-ups of ATTC that hit, basis points.
    pub atlb_hits_bp: u64,
}

impl Beyond {
    /// One line of text.
    #[must_use]
    pub fn render(&self) -> String {
        let gains: Vec<String> = self
            .gains_bp
            .iter()
            .map(|(scheme, bp)| format!("{scheme} {}", percent(*bp)))
            .collect();
        format!(
            "{:<24} {:<24} {}  ATLB hits {}",
            self.question,
            self.setting,
            gains.join("  "),
            percent(i64::try_from(self.atlb_hits_bp).unwrap_or(i64::MAX))
        )
    }
}

const SCHEMES: [&Spec; 6] = [&KVMTLB, &IPI, &SHOOT4U, &HATRIC, &ATTC, &IDEAL_ATLB];

fn line(settings: &Settings, setting: Setting) -> Result<Beyond, Error> {
    let (workload, vms, machine) = (setting.workload, setting.vms, &setting.machine);
    let jobs: Vec<Job> = SCHEMES
        .iter()
        .map(|&scheme| job(scheme, "", machine))
        .collect();
    let results = WorkloadResults {
        workload: workload.name,
        outcomes: run_jobs(settings, workload, vms, &jobs)?,
    };
    let gain = |scheme: &&'static Spec| {
        let name = scheme.name.to_owned();
        let gain = results.gain(&name, "kvmtlb");
        (name, gain)
    };
    let attc = &results.get(ATTC.name).counts;
    Ok(Beyond {
        question: setting.question,
        setting: setting.name,
        gains_bp: SCHEMES[1..].iter().map(gain).collect(),
        atlb_hits_bp: basis_points(attc.atlb_hits, attc.atlb_lookups),
    })
}

/// One setting of a question.
struct Setting {
    question: &'static str,
    name: String,
    workload: Workload,
    vms: u16,
    machine: MachineConfig,
}

fn changed(change: impl FnOnce(&mut MachineConfig)) -> MachineConfig {
    let mut machine = MachineConfig::default();
    change(&mut machine);
    machine
}

/// Every question on dedup, but for table sizes, where a larger footprint decides.
fn all_settings() -> Result<Vec<Setting>, Error> {
    let base = find("dedup")?;
    let set = |question, name: String, workload, vms, machine| Setting {
        question,
        name,
        workload,
        vms,
        machine,
    };
    let mut all = Vec::new();
    for cores in [8_u16, 16, 32, 64, 128] {
        let machine = changed(|m| {
            m.core.count = cores.into();
            m.l3.kib = 1024 * u32::from(cores);
            m.dram.channels = 2.max(u32::from(cores) / 8).min(16);
        });
        let workload = Workload {
            threads: cores,
            ..base
        };
        all.push(set("cores", format!("{cores} cores"), workload, 1, machine));
    }
    let eight = Workload { threads: 8, ..base };
    for vms in [1, 2, 4] {
        let (name, machine) = (format!("{vms} x 8 vCPUs"), MachineConfig::default());
        all.push(set("VMs on 8 cores", name, eight, vms, machine));
    }
    for percent in [0, 50, 100] {
        let machine = changed(|m| m.mmu.large_page_percent = percent);
        let name = format!("{percent} % of memory");
        all.push(set("2 MiB pages", name, eight, 1, machine));
    }
    let server = Registry::shipped().load("preset = \"server\"", "server")?;
    let wide = Workload {
        threads: 32,
        ..base
    };
    let name = "server preset, 32 cores".to_owned();
    all.push(set("TLB reach", name, wide, 1, server));
    // All of its 163,000 pages in use: 1 MiB of ATLB has room for 65,536 translations.
    let freqmine = find("freqmine")?;
    let large = Workload {
        pattern: Pattern {
            working_set_percent: 100,
            ..freqmine.pattern
        },
        ..freqmine
    };
    for mib in [1_u32, 2, 4, 16, 64] {
        let machine = changed(|m| {
            m.schemes.set(&atlb::KIB, mib * 1024);
            m.schemes.set(&invtbl::KIB, mib * 256);
        });
        let name = format!("ATLB {mib} MiB, 1/4 INVTBL");
        all.push(set("table sizes", name, large, 1, machine));
    }
    Ok(all)
}

/// Runs every setting; `done` hears of each finished line.
///
/// # Errors
/// As the simulations.
pub fn beyond(settings: &Settings, done: &mut dyn FnMut(&Beyond)) -> Result<Vec<Beyond>, Error> {
    let mut lines = Vec::new();
    for setting in all_settings()? {
        let line = line(settings, setting)?;
        done(&line);
        lines.push(line);
    }
    Ok(lines)
}
