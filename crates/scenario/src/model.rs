// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A scenario as read: every default filled in, every rule of the format kept.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use serde::Serialize;
use sha2::{Digest, Sha256};
use steady_nearest::nearest;

use crate::limits::{DEFAULT_REPETITIONS, DEFAULT_SEED};
use crate::runs::Runs;
use crate::variant::Variant;
use crate::words::{Cgroup, Collect, Dedicated, GuestKernel, PvFeature, ResultFrom, Vmm, Word};

/// What is run and what is measured.
///
/// Field order is the order of the canonical form, so that moving a field changes every digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Scenario {
    /// Version of the format, [`crate::SCHEMA`].
    pub schema: u32,
    /// Lower-case letters, digits and hyphens; equals the stem of the file's name.
    pub name: String,
    /// One line for tables.
    pub title: String,
    /// What the race answers.
    pub question: String,
    /// Seed of every random stream.
    pub seed: u64,
    /// How often each variant is run, 1 to 100.
    pub repetitions: u32,
    /// The emulated host.
    pub host: Host,
    /// The VMs; at least one is measured.
    #[serde(rename = "vm")]
    pub vms: Vec<Vm>,
    /// The variants to race, at least one.
    #[serde(rename = "variant")]
    pub variants: Vec<Variant>,
    /// What is measured.
    pub measure: Measure,
    /// Where the user's own programs and their files are: the folder of the scenario file, unless
    /// another is chosen. Not part of the canonical form.
    #[serde(skip)]
    pub folder: PathBuf,
}

/// The emulated host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Host {
    /// Physical CPUs, 1 to 64.
    pub pcpus: u32,
    /// Whether two pCPUs are the threads of one core. Left out of the canonical form where they
    /// are not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub smt: bool,
    /// Memory in MiB; exceeds the VMs' by at least [`crate::HOST_RESERVE_MIB`].
    pub memory_mib: u32,
    /// The program that runs the VMs.
    pub vmm: Vmm,
    /// Bound on one variant, in seconds of the emulated host's own clock.
    pub time_limit_s: u32,
    /// What the host itself runs beside its VMs, all at once, until the measured VMs are done.
    #[serde(rename = "workload", skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<Workload>,
}

/// A virtual machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Vm {
    /// Lower-case letters, digits and hyphens; unique in the scenario.
    pub name: String,
    /// Virtual CPUs, 1 to 1024.
    pub vcpus: u32,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// vCPU `i` runs on pCPU `pin[i]` only; `None`: the host's scheduler places them.
    pub pin: Option<Vec<u32>>,
    /// `cpu.weight` of the VM's cgroup, 1 to 10000; 100 where there is no cgroup.
    pub cpu_weight: u32,
    /// How the VM's threads are grouped.
    pub cgroup: Cgroup,
    /// CPU time that the VM's group gets in each period, or the group of each vCPU where they have
    /// one, in microseconds; `None`: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_quota_us: Option<u32>,
    /// That period, in microseconds; `None`: the kernel's 100,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_period_us: Option<u32>,
    /// Size of the virtio disk in MiB, ext4 on `/data`; `None`: no disk.
    pub disk_mib: Option<u32>,
    /// The kernel that its guest boots; left out of the canonical form where it is its host's.
    #[serde(skip_serializing_if = "GuestKernel::is_host")]
    pub kernel: GuestKernel,
    /// Words added to the guest kernel's command line; may be empty.
    pub guest_cmdline: String,
    /// Whether the VM is load only: its one workload runs until the measured VMs are done.
    pub background: bool,
    /// Path of the local socket at which a program of it serves other VMs; left out of the
    /// canonical form where there is none, as the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serves: Option<String>,
    /// VMs that serve this one: their sockets are `/run/NAME.socket` here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reaches: Vec<String>,
    /// KVM's paravirtual features that the VM is offered, where the variant offers them too.
    pub pv: Pv,
    /// What it runs, one after another; at least one, and exactly one in a background VM.
    #[serde(rename = "workload")]
    pub workloads: Vec<Workload>,
}

/// A run of one guest program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Workload {
    /// The program.
    pub program: Runs,
    /// Its arguments, as the program takes them.
    pub args: Vec<String>,
    /// Bound on the run, in seconds of the guest's clock; `None` in a background VM, whose
    /// workload runs until the measured VMs are done.
    pub time_limit_s: Option<u32>,
    /// Files for the folder of a program that the user brings, each `FROM` or `FROM:TO`. As all
    /// that follows, left out of the canonical form where it is not given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Where the result of a program that the user brings is.
    #[serde(skip_serializing_if = "ResultFrom::is_any")]
    pub result: ResultFrom,
    /// Part of a line that a background program of the user's own prints once it is ready; measured
    /// VMs wait for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
    /// Environment, beside what every program gets.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
}

/// KVM's paravirtual features that a guest is offered; see [`PvFeature`] for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[expect(
    missing_docs,
    reason = "each field is the feature of the same name in PvFeature"
)]
#[expect(clippy::struct_excessive_bools, reason = "nine independent CPUID bits")]
pub struct Pv {
    pub tlb_flush: bool,
    pub ipi: bool,
    pub sched_yield: bool,
    pub unhalt: bool,
    pub eoi: bool,
    pub steal_time: bool,
    pub async_pf: bool,
    pub poll_control: bool,
    pub clocksource: bool,
}

/// Switches of the host that are not remedies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Switches {
    /// Pause-loop exiting, where the engine has it.
    pub ple: bool,
    /// KVM's `ple_window` in nanoseconds of the emulated host's clock, 5 to 1,000,000,000; `None`:
    /// KVM's own 4096 cycles. Where it is not asked for it is not written, as `apicv`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ple_window_ns: Option<u32>,
    /// A processor that delivers a guest's interrupts itself: Intel's virtual-interrupt delivery
    /// and posted interrupts. Where it is not asked for it is not written, so that the digests of
    /// scenarios are those of before it was there.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub apicv: bool,
    /// Whether and how guests are shown that their vCPUs have pCPUs of their own, whatever they
    /// have. Not written where they are not, as `apicv`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dedicated: Option<Dedicated>,
    /// KVM's `halt_poll_ns` in nanoseconds; `None`: KVM's own default.
    pub halt_poll_ns: Option<u32>,
}

/// What is measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Measure {
    /// Groups of measures, in the order of [`Collect`]. The workloads' own results are always
    /// brought back, so this may be empty.
    pub collect: Vec<Collect>,
}

impl Default for Pv {
    /// All that stock KVM offers.
    fn default() -> Self {
        Self {
            tlb_flush: true,
            ipi: true,
            sched_yield: true,
            unhalt: true,
            eoi: true,
            steal_time: true,
            async_pf: true,
            poll_control: true,
            clocksource: true,
        }
    }
}

impl Default for Switches {
    fn default() -> Self {
        Self {
            ple: true,
            ple_window_ns: None,
            apicv: false,
            dedicated: None,
            halt_poll_ns: None,
        }
    }
}

impl Default for Measure {
    /// Everything.
    fn default() -> Self {
        Self {
            collect: Collect::ALL.to_vec(),
        }
    }
}

impl Pv {
    /// Whether `feature` is offered.
    #[must_use]
    pub fn offers(mut self, feature: PvFeature) -> bool {
        *self.slot(feature)
    }

    /// Every feature with whether it is offered, in the order of [`PvFeature`].
    pub fn iter(self) -> impl Iterator<Item = (PvFeature, bool)> {
        PvFeature::ALL
            .iter()
            .map(move |&feature| (feature, self.offers(feature)))
    }

    pub(crate) fn slot(&mut self, feature: PvFeature) -> &mut bool {
        match feature {
            PvFeature::TlbFlush => &mut self.tlb_flush,
            PvFeature::Ipi => &mut self.ipi,
            PvFeature::SchedYield => &mut self.sched_yield,
            PvFeature::Unhalt => &mut self.unhalt,
            PvFeature::Eoi => &mut self.eoi,
            PvFeature::StealTime => &mut self.steal_time,
            PvFeature::AsyncPf => &mut self.async_pf,
            PvFeature::PollControl => &mut self.poll_control,
            PvFeature::Clocksource => &mut self.clocksource,
        }
    }
}

/// A variant was asked for that the scenario does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no variant `{wanted}` in scenario `{scenario}`{}; it has: {}",
    nearest.as_deref().map(|name| format!("; did you mean `{name}`?")).unwrap_or_default(),
    known.join(", "))]
pub struct UnknownVariant {
    /// The name asked for.
    pub wanted: String,
    /// The scenario's name.
    pub scenario: String,
    /// The variant that was probably meant.
    pub nearest: Option<String>,
    /// Every variant of the scenario, in the file's order.
    pub known: Vec<String>,
}

impl Scenario {
    /// The VMs of `variant`.
    pub fn vms_of<'a>(&'a self, variant: &'a Variant) -> impl Iterator<Item = &'a Vm> {
        let there = |vm: &&Vm| !variant.without.contains(&vm.name);
        self.vms.iter().filter(there)
    }

    /// SHA-256, in lower-case hexadecimal, of the resolved content.
    ///
    /// What is hashed is the compact JSON of this structure, fields in the order declared here,
    /// seed and repetitions as if they were not given: each run of a result has its own seed, and
    /// pieces of a race are of one scenario. Comments, the order of keys and whether a default was
    /// written out do not change it; the order of VMs, workloads and variants does.
    #[must_use]
    pub fn digest(&self) -> String {
        let raced = Self {
            seed: DEFAULT_SEED,
            repetitions: DEFAULT_REPETITIONS,
            ..self.clone()
        };
        let json = serde_json::to_vec(&raced).unwrap_or_else(|e| unreachable!("plain data: {e}"));
        let mut hex = String::with_capacity(64);
        for byte in Sha256::digest(json) {
            let _ = write!(hex, "{byte:02x}");
        }
        hex
    }

    /// The scenario as TOML, every default written out. Reading it gives an equal scenario.
    #[must_use]
    pub fn to_toml_resolved(&self) -> String {
        toml::to_string(self).unwrap_or_else(|e| unreachable!("plain data: {e}"))
    }

    /// The variant of this name.
    ///
    /// # Errors
    /// [`UnknownVariant`], with the nearest name, when there is none.
    pub fn variant(&self, name: &str) -> Result<&Variant, UnknownVariant> {
        self.variants
            .iter()
            .find(|variant| variant.name == name)
            .ok_or_else(|| {
                let known: Vec<String> = self.variants.iter().map(|v| v.name.clone()).collect();
                UnknownVariant {
                    wanted: name.escape_debug().to_string(),
                    scenario: self.name.clone(),
                    nearest: nearest(name, known.iter().map(String::as_str)).map(str::to_owned),
                    known,
                }
            })
    }

    /// The variants of these names, each once and in the file's order; all when none is named.
    ///
    /// # Errors
    /// [`UnknownVariant`] for the first name that the scenario does not have.
    pub fn select(&self, names: &[String]) -> Result<Vec<&Variant>, UnknownVariant> {
        for name in names {
            self.variant(name)?;
        }
        let wanted = |variant: &&Variant| names.is_empty() || names.contains(&variant.name);
        Ok(self.variants.iter().filter(wanted).collect())
    }
}
