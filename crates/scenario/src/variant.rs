// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A variant as read: its remedies, and what it changes for all VMs and for single ones.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use steady_remedies::{Mode, Remedy};

use crate::kernel::Kernel;
use crate::model::{Pv, Switches, Vm};
use crate::scheduler::Scheduler;
use crate::words::{Hypervisor, PvFeature, Word};

/// A named set of remedies and switches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Variant {
    /// Lower-case letters, digits and hyphens; unique in the scenario.
    pub name: String,
    /// One line for tables; `None`: the name serves.
    pub title: Option<String>,
    /// The kernel of the host and of the guests.
    pub kernel: Kernel,
    /// What the guests take their hypervisor for; left out of the canonical form where it is KVM.
    #[serde(skip_serializing_if = "Hypervisor::is_kvm")]
    pub hypervisor: Hypervisor,
    /// The remedies that are on, in the registry's order; none with the stock kernel.
    #[serde(flatten, serialize_with = "tables")]
    pub remedies: Vec<Chosen>,
    /// Words added to every guest kernel's command line, between the VM's own and those of
    /// [`VmChange`]; may be empty.
    pub guest_cmdline: String,
    /// Words added to the host kernel's command line, module parameters among them; may be empty.
    pub host_cmdline: String,
    /// Names of the VMs that are not there; never all of the measured ones.
    pub without: Vec<String>,
    /// KVM's paravirtual features that the guests are offered, where their VMs allow it.
    pub pv: Pv,
    /// Switches of the host.
    pub switches: Switches,
    /// Knobs of the host's scheduler. Left out of the canonical form where none is turned, so that
    /// digests of scenarios without are those of before there were any.
    #[serde(skip_serializing_if = "Scheduler::is_untouched")]
    pub scheduler: Scheduler,
    /// What is different for single VMs, by name.
    #[serde(rename = "vm")]
    pub vms: BTreeMap<String, VmChange>,
}

/// A remedy that is on in a variant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Chosen {
    /// The remedy.
    #[serde(skip)]
    pub remedy: &'static Remedy,
    /// How it works; `None`: its default.
    #[serde(serialize_with = "mode_name")]
    pub mode: Option<&'static Mode>,
    /// The VMs that are offered it, the others being unaware of it; `None`: all.
    pub vms: Option<Vec<String>>,
}

/// What a variant changes in one VM.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct VmChange {
    /// Words added to the guest kernel's command line, after all others; may be empty.
    pub guest_cmdline: String,
    /// KVM's paravirtual features that are left to it.
    pub pv: Pv,
}

fn tables<S: Serializer>(remedies: &[Chosen], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(remedies.iter().map(|chosen| (chosen.remedy.name, chosen)))
}

fn mode_name<S: Serializer>(mode: &Option<&Mode>, to: S) -> Result<S::Ok, S::Error> {
    mode.map(|mode| mode.name).serialize(to)
}

impl Chosen {
    /// The name of its mode, the default one where none was chosen.
    #[must_use]
    pub fn mode(&self) -> &'static str {
        self.mode.map_or(self.remedy.default_mode, |mode| mode.name)
    }

    /// Whether the VM of this name is offered it.
    #[must_use]
    pub fn is_offered_to(&self, vm: &str) -> bool {
        let listed = |vms: &Vec<String>| vms.iter().any(|other| other == vm);
        self.vms.as_ref().is_none_or(listed)
    }
}

impl Variant {
    /// What `vm` is offered here: a feature that neither the VM, nor the variant, nor the variant's
    /// change to the VM withholds.
    #[must_use]
    pub fn pv_of(&self, vm: &Vm) -> Pv {
        let mut pv = Pv::default();
        let change = self.vms.get(&vm.name).map(|change| change.pv);
        for &feature in PvFeature::ALL {
            let all = [Some(self.pv), Some(vm.pv), change];
            *pv.slot(feature) = all.iter().flatten().all(|pv| pv.offers(feature));
        }
        pv
    }

    /// All words that the scenario adds to the command line of `vm`'s kernel.
    #[must_use]
    pub fn guest_cmdline_of(&self, vm: &Vm) -> String {
        let change = self.vms.get(&vm.name);
        let own = change.map_or("", |change| change.guest_cmdline.as_str());
        let words = [vm.guest_cmdline.as_str(), self.guest_cmdline.as_str(), own];
        words.join(" ").trim().to_owned()
    }
}
