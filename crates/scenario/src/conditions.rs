// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Under which conditions a variant is raced: what a reader must know before believing a figure.
//!
//! They follow from the scenario alone, so that a document cannot state others than were raced.
//! Left out: the release of the kernel, and the emulator, which a result names.

use std::fmt;

use steady_remedies::Means;

use crate::kernel::Kernel;
use crate::model::{Scenario, Vm};
use crate::variant::{Chosen, Variant};
use crate::words::{Cgroup, Hypervisor, PvFeature, Word};

/// Which of KVM's paravirtual features the measured guests are offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PvOffered {
    /// All of them.
    All,
    /// None of them.
    None,
    /// Some, or not the same in every guest.
    Mixed,
    /// Hyper-V's features in their place.
    HyperV,
}

impl PvOffered {
    /// The word that claims use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::None => "none",
            Self::Mixed => "mixed",
            Self::HyperV => "hyper-v",
        }
    }
}

/// What decides on which pCPU a measured VM's vCPUs run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// Each vCPU of every VM is pinned to one pCPU.
    Pinned,
    /// The host's scheduler.
    Scheduler,
    /// Some VMs are pinned.
    Mixed,
    /// A remedy that is a program of the host; no VM is pinned by the scenario.
    Program,
}

impl Placement {
    /// The word that claims use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pinned => "pinned",
            Self::Scheduler => "scheduler",
            Self::Mixed => "mixed",
            Self::Program => "program",
        }
    }
}

/// The conditions of one variant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conditions {
    /// VMs that run.
    pub vms: usize,
    /// vCPUs of the largest measured VM.
    pub vcpus: u32,
    /// vCPUs of each VM that runs, in the order of the scenario.
    pub sizes: Vec<u32>,
    /// pCPUs of the host.
    pub pcpus: u32,
    /// Whether two pCPUs are the threads of one core.
    pub smt: bool,
    /// What places vCPUs.
    pub placement: Placement,
    /// Remedies that are programs of the host or of guests: what each places, and where.
    pub programs: Vec<String>,
    /// How VMs' threads are grouped: `vm`, `vcpu` or `none`.
    pub groups: &'static str,
    /// What the measured guests are offered.
    pub pv: PvOffered,
    /// Features that some measured guest is not offered, by their keys.
    pub pv_off: Vec<&'static str>,
    /// Whether pause-loop exiting is on.
    pub ple: bool,
    /// Whether the processor delivers a guest's interrupts itself.
    pub apicv: bool,
    /// KVM's `halt_poll_ns`, where it is not KVM's own.
    pub halt_poll_ns: Option<u32>,
    /// Knobs of the host's scheduler that are turned, in words.
    pub scheduler: Vec<String>,
    /// The kernel as the variant names it.
    pub kernel: Kernel,
}

impl Conditions {
    /// The conditions of `variant` in `scenario`.
    #[must_use]
    pub fn of(scenario: &Scenario, variant: &Variant) -> Self {
        let vms: Vec<&Vm> = scenario.vms_of(variant).collect();
        let measured: Vec<&&Vm> = vms.iter().filter(|vm| !vm.background).collect();
        assert!(!measured.is_empty(), "a variant measures some VM");
        let pv_off = withheld(variant, &measured);
        let pinned = vms.iter().filter(|vm| vm.pin.is_some()).count();
        let of_host = |chosen: &Chosen| matches!(chosen.remedy.means, Means::Host(_));
        let placement = match pinned {
            0 if variant.remedies.iter().any(of_host) => Placement::Program,
            0 => Placement::Scheduler,
            some if some == vms.len() => Placement::Pinned,
            _ => Placement::Mixed,
        };
        Self {
            vms: vms.len(),
            vcpus: measured.iter().map(|vm| vm.vcpus).max().unwrap_or(0),
            sizes: vms.iter().map(|vm| vm.vcpus).collect(),
            pcpus: scenario.host.pcpus,
            smt: scenario.host.smt,
            placement,
            programs: variant.remedies.iter().filter_map(program).collect(),
            groups: groups(&vms),
            pv: offered(variant, &pv_off),
            pv_off,
            ple: variant.switches.ple,
            apicv: variant.switches.apicv,
            halt_poll_ns: variant.switches.halt_poll_ns,
            scheduler: variant.scheduler.words(),
            kernel: variant.kernel.clone(),
        }
    }
}

/// What a remedy that is a program places, in which mode and where: `placed by place, pinned,
/// victim alone`.
fn program(chosen: &Chosen) -> Option<String> {
    let what = match chosen.remedy.means {
        Means::Kernel => return None,
        Means::Host(_) => "placed by",
        Means::Guest(_) => "guests' programs by",
    };
    let mode = Some(chosen.mode()).filter(|&mode| mode != chosen.remedy.default_mode);
    let vms = chosen.vms.as_ref();
    let vms = vms.map(|vms| format!("{} alone", vms.join(" and ")));
    let words = [
        Some(format!("{what} {}", chosen.remedy)),
        mode.map(str::to_owned),
        vms,
    ];
    Some(words.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

fn groups(vms: &[&Vm]) -> &'static str {
    let mut words = vms.iter().map(|vm| vm.cgroup.name());
    let first = words.next().unwrap_or(Cgroup::ALL[0].name());
    if words.all(|word| word == first) {
        first
    } else {
        "mixed"
    }
}

/// Features that some measured guest is not offered.
fn withheld(variant: &Variant, measured: &[&&Vm]) -> Vec<&'static str> {
    let offered = |feature: PvFeature| {
        let mut guests = measured.iter();
        guests.all(|vm| variant.pv_of(vm).offers(feature))
    };
    let features = PvFeature::ALL.iter().copied();
    features
        .filter(|&feature| !offered(feature))
        .map(Word::name)
        .collect()
}

fn offered(variant: &Variant, pv_off: &[&'static str]) -> PvOffered {
    match pv_off.len() {
        _ if variant.hypervisor != Hypervisor::Kvm => PvOffered::HyperV,
        0 => PvOffered::All,
        off if off == PvFeature::ALL.len() => PvOffered::None,
        _ => PvOffered::Mixed,
    }
}

/// One condition in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The words.
    pub text: String,
    /// Whether it holds where nothing is said: it is left out of lines about one variant.
    pub implied: bool,
}

impl Conditions {
    /// Each condition in words, in an order that is that of all variants.
    #[must_use]
    pub fn parts(&self) -> [Part; 9] {
        let said = |text: String| Part {
            text,
            implied: false,
        };
        let unless = |implied: bool, text: String| Part { text, implied };
        let polling = match self.halt_poll_ns {
            Some(0) => "no halt polling".to_owned(),
            Some(ns) => format!("halt polling for {ns} ns"),
            None => "KVM's halt polling".to_owned(),
        };
        let knobs = match self.scheduler.is_empty() {
            true => "the scheduler's own knobs".to_owned(),
            false => format!("scheduler: {}", self.scheduler.join(", ")),
        };
        [
            said(self.machines()),
            said(self.placed()),
            said(self.grouped().to_owned()),
            said(self.pv_words()),
            said(if self.ple { "PLE on" } else { "PLE off" }.to_owned()),
            said(if self.apicv { "APICv on" } else { "APICv off" }.to_owned()),
            unless(self.halt_poll_ns.is_none(), polling),
            unless(self.scheduler.is_empty(), knobs),
            unless(
                self.kernel == Kernel::Patched,
                format!("{} kernel", self.kernel),
            ),
        ]
    }

    fn machines(&self) -> String {
        let alike = self.sizes.iter().all(|&size| size == self.vcpus);
        let vms = match (self.vms, alike) {
            (1, _) => format!("1 VM of {} vCPUs", self.vcpus),
            (more, true) => format!("{more} VMs of {} vCPUs", self.vcpus),
            (_, false) => {
                let sizes: Vec<String> = self.sizes.iter().map(u32::to_string).collect();
                format!("VMs of {} vCPUs", sizes.join(" and "))
            }
        };
        let of_cores = if self.smt { ", two a core" } else { "" };
        format!("{vms} on {} pCPUs{of_cores}", self.pcpus)
    }

    fn placed(&self) -> String {
        let placed = match self.placement {
            Placement::Pinned => Some("pinned"),
            Placement::Scheduler => Some("placed by the scheduler"),
            Placement::Mixed => Some("some VMs pinned"),
            Placement::Program => None,
        };
        let programs = self.programs.iter().map(String::as_str);
        let placed: Vec<&str> = placed.into_iter().chain(programs).collect();
        placed.join(", ")
    }

    fn grouped(&self) -> &'static str {
        match self.groups {
            "vcpu" => "a group per vCPU",
            "none" => "no groups",
            "vm" => "a group per VM",
            _ => "groups differ by VM",
        }
    }

    fn pv_words(&self) -> String {
        match self.pv {
            PvOffered::All => "all PV features".to_owned(),
            PvOffered::None => "no PV features".to_owned(),
            PvOffered::Mixed => format!("PV features but {}", self.pv_off.join(", ")),
            PvOffered::HyperV => "Hyper-V's PV features".to_owned(),
        }
    }
}

/// One line, parts joined by `; `: `2 VMs of 4 vCPUs on 4 pCPUs; pinned; a group per vCPU; all PV
/// features; PLE on; APICv off`.
impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.parts().into_iter().filter(|part| !part.implied);
        let words: Vec<String> = parts.map(|part| part.text).collect();
        f.write_str(&words.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
schema = 2
name = "x"
title = "x"
question = "x?"
[host]
pcpus = 2
memory_mib = 512
[[vm]]
name = "victim"
vcpus = 2
memory_mib = 96
pin = [0, 1]
cgroup = "vcpu"
[[vm.workload]]
program = "spin"
[[vm]]
name = "hog"
vcpus = 2
memory_mib = 96
cgroup = "vcpu"
background = true
[[vm.workload]]
program = "spin"
[[variant]]
name = "both"
[[variant]]
name = "alone"
without = ["hog"]
[variant.pv]
ipi = false
[variant.switches]
ple = false
[[variant]]
name = "by-hand"
[variant.place]
mode = "pinned"
vms = ["hog"]
[variant.fold]
[variant.scheduler]
features = ["HRTICK", "NO_NEXT_BUDDY"]
base_slice_ns = 300000
vcpu_slice_ns = 200000
vcpu_policy = "batch"
bpf = "x/mine.bpf.o"
"#;
    const PIN: &str = "pin = [0, 1]\n";

    fn said(text: &str, variant: usize) -> String {
        let scenario = Scenario::parse(text, "x.toml").expect("a scenario");
        Conditions::of(&scenario, &scenario.variants[variant]).to_string()
    }

    #[test]
    fn the_conditions_are_those_of_the_vms_that_run() {
        assert_eq!(
            said(TEXT, 0),
            "2 VMs of 2 vCPUs on 2 pCPUs; some VMs pinned; a group per vCPU; all PV features; \
             PLE on; APICv off"
        );
        assert_eq!(
            said(TEXT, 1),
            "1 VM of 2 vCPUs on 2 pCPUs; pinned; a group per vCPU; PV features but ipi; PLE off; \
             APICv off"
        );
    }

    #[test]
    fn the_kernel_is_said_where_it_is_not_the_patched_one() {
        for (kernel, end) in [
            ("patched", "; APICv off"),
            ("stock", "; stock kernel"),
            ("debian-12", "; debian-12 kernel"),
        ] {
            let of_both = format!("name = \"both\"\nkernel = \"{kernel}\"");
            let line = said(&TEXT.replace("name = \"both\"", &of_both), 0);
            assert!(line.ends_with(end), "{line}");
        }
    }

    #[test]
    fn threads_of_cores_are_said_where_they_are() {
        let text = TEXT.replace("pcpus = 2", "pcpus = 2\nsmt = true");
        assert!(said(&text, 0).contains(" on 2 pCPUs, two a core; "));
    }

    #[test]
    fn knobs_of_the_scheduler_are_said_where_they_are_turned() {
        let line = said(TEXT, 2);
        let knobs = "; scheduler: features HRTICK NO_NEXT_BUDDY, base slice 300000 ns, slice of \
                     vCPUs 200000 ns, policy of vCPUs batch, BPF x/mine.bpf.o";
        assert!(line.ends_with(knobs), "{line}");
    }

    #[test]
    fn a_program_that_places_vcpus_or_programs_is_named_with_its_mode_and_vms() {
        let place = "[variant.place]\nmode = \"pinned\"\nvms = [\"hog\"]\n";
        assert!(TEXT.contains(PIN) && TEXT.contains(place));
        let of_place = "placed by place, pinned, hog alone, guests' programs by fold";
        for (text, words, placement) in [
            (TEXT.replace(PIN, ""), of_place, Placement::Program),
            (
                TEXT.to_owned(),
                &format!("some VMs pinned, {of_place}"),
                Placement::Mixed,
            ),
            (
                TEXT.replace(PIN, "").replace(place, ""),
                "placed by the scheduler, guests' programs by fold",
                Placement::Scheduler,
            ),
        ] {
            let line = said(&text, 2);
            assert!(line.contains(&format!(" pCPUs; {words}; ")), "{line}");
            let scenario = Scenario::parse(&text, "x.toml").expect("a scenario");
            let found = Conditions::of(&scenario, &scenario.variants[2]).placement;
            assert_eq!(found, placement);
        }
    }
}
