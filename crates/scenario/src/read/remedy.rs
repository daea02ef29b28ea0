// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the remedies of a variant: a table for each.

use steady_remedies::{Registry, Remedy};

use super::keys;
use super::names::Names;
use super::table::Reader;
use super::value::{Placed, Problems};
use crate::kernel::Kernel;
use crate::variant::Chosen;
use crate::words::Hypervisor;

/// The remedies that are on, in the registry's order, and what is left of the host's command line.
pub(super) type Read = Option<(Vec<Chosen>, String)>;

/// `[variant.REMEDY]`, one table for each remedy that is on. `gone`: the VMs that are not there.
pub(super) fn chosen(
    table: &Reader<'_>,
    host_cmdline: Option<Placed<String>>,
    vms: &Names,
    gone: &[String],
    registry: &Registry,
) -> Read {
    if let Some(cmdline) = &host_cmdline {
        refuse_parameters(cmdline, registry, table.problems);
    }
    let mut on = Some(Vec::new());
    for remedy in registry.all() {
        let own = Reader::optional(table.table(remedy.name, &keys::remedy(remedy)));
        let one = match own {
            Some(None) => continue,
            Some(Some(own)) => one(own.get_ref(), remedy, vms, gone),
            None => None,
        };
        on = on.zip(one).map(|(mut on, one)| {
            on.push(one);
            on
        });
    }
    Some((on?, host_cmdline?.into_inner()))
}

fn one(
    table: &Reader<'_>,
    remedy: &'static Remedy,
    vms: &Names,
    gone: &[String],
) -> Option<Chosen> {
    let names = remedy.modes.iter().map(|mode| mode.name);
    let mode = table.named("mode", "mode", |name| remedy.mode(name), names);
    let mode = Reader::optional(mode);
    let listed = Reader::optional(vms.listed(table, "vms"));
    if let Some(Some(listed)) = &listed {
        for vm in listed.get_ref() {
            vms.check_there(vm, listed.span(), gone, table.problems);
        }
        if !remedy.is_by_vm() {
            let message = format!("`vms` has no effect: {remedy} is not offered to single guests");
            let label = "remove it: the remedy has no feature bit";
            table.problems.add(listed.span(), message, label);
        }
    }
    Some(Chosen {
        remedy,
        mode: mode?.map(Placed::into_inner),
        vms: listed?.map(Placed::into_inner),
    })
}

/// Reports the parameter of a remedy among the host's words: its own table decides on it.
fn refuse_parameters(cmdline: &Placed<String>, registry: &Registry, problems: &Problems) {
    let words = cmdline.get_ref().split_whitespace();
    for (remedy, value) in words.filter_map(|word| setting(word, registry)) {
        let message = format!(
            "`host_cmdline` sets `{}`, the parameter of a remedy",
            remedy.parameter
        );
        let label = match remedy.mode(value) {
            Some(mode) => format!("write `mode = \"{}\"` in `[variant.{remedy}]`", mode.name),
            None if value == remedy.off => format!("leave `[variant.{remedy}]` out instead"),
            None => format!("write `mode` in `[variant.{remedy}]`"),
        };
        problems.add(cmdline.span(), message, label);
    }
}

/// The remedy whose parameter `word` sets, and the value.
fn setting<'w>(word: &'w str, registry: &Registry) -> Option<(&'static Remedy, &'w str)> {
    let (name, value) = word.trim_matches('"').split_once('=')?;
    // The kernel takes a hyphen in a parameter's name for an underscore.
    let name = name.replace('-', "_");
    let mut of_kernel = registry.all().filter(|remedy| remedy.is_of_kernel());
    let remedy = of_kernel.find(|remedy| remedy.parameter == name)?;
    Some((remedy, value))
}

/// The stock kernel has none of the remedies that a kernel carries out. What one that is named has,
/// the engine knows.
pub(super) fn check_kernel(kernel: &Placed<Kernel>, on: &[Chosen], problems: &Problems) {
    if *kernel.get_ref() != Kernel::Stock {
        return;
    }
    for chosen in on.iter().filter(|on| on.remedy.is_of_kernel()) {
        let remedy = chosen.remedy;
        let message = format!("the {} kernel does not have {remedy}", Kernel::Stock);
        let label = format!("expected \"patched\", or no `[variant.{remedy}]`");
        problems.add(kernel.span(), message, label);
    }
}

/// Guests that take their hypervisor for another are unaware of what KVM's own leaf says.
pub(super) fn check_hypervisor(
    hypervisor: &Placed<Hypervisor>,
    on: &[Chosen],
    problems: &Problems,
) {
    if hypervisor.get_ref().is_kvm() {
        return;
    }
    for chosen in on.iter().filter(|on| on.remedy.feature_bit.is_some()) {
        let remedy = chosen.remedy;
        let message = format!("guests under {} do not see {remedy}", hypervisor.get_ref());
        let label = format!("expected \"kvm\", or no `[variant.{remedy}]`");
        problems.add(hypervisor.span(), message, label);
    }
}
