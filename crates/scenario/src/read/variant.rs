// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `[[variant]]` with what it changes in single VMs.

use std::collections::BTreeMap;

use steady_remedies::Registry;

use super::names::Names;
use super::setting::Settings;
use super::switches::Written;
use super::table::Reader;
use super::value::{Placed, Problems, Span, Text};
use super::{CMDLINE, NAME, TITLE, check_unique, is_line, keys, pv, remedy, scheduler, switches};
use crate::kernel::Kernel;
use crate::variant::{Variant, VmChange};
use crate::words::Hypervisor;

/// Which names there are is the engine's to say.
const KERNEL: Text = Text {
    expected: "\"patched\", \"stock\", the name of a kernel such as \"debian-12\", or a path \
               with a `/`",
    most_chars: 4096,
    holds: |text| {
        let of_name = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b);
        is_line(text) && (text.contains('/') || text.bytes().all(of_name))
    },
};

/// A variant as it is written, before it is crossed with settings.
#[derive(Debug)]
pub(super) struct VariantRead {
    /// Where it begins.
    table: Span,
    pub name: Option<Placed<String>>,
    /// The settings that it names; the outer `None`: they are wrong.
    #[expect(clippy::option_option, reason = "wrong and absent are different")]
    pub settings: Option<Option<Vec<String>>>,
    pub switches: Written,
    /// The variant in no setting; `None` if it is wrong.
    pub variant: Option<Variant>,
}

impl VariantRead {
    /// The place of its name.
    pub fn span(&self) -> Span {
        let name = self.name.as_ref().map(Placed::span);
        name.unwrap_or_else(|| self.table.clone())
    }
}

/// Reads every variant.
pub(super) fn variants(
    tables: &[Reader<'_>],
    settings: &Settings,
    known: &Names,
    registry: &Registry,
    problems: &Problems,
) -> Vec<VariantRead> {
    let read = |table| variant(table, settings, known, registry);
    let read: Vec<VariantRead> = tables.iter().map(read).collect();
    check_unique(
        "variant",
        read.iter().map(|one| one.name.as_ref()),
        problems,
    );
    read
}

/// The settings that a variant names.
#[expect(clippy::option_option, reason = "wrong and absent are different")]
fn listed(table: &Reader<'_>, settings: &Settings) -> Option<Option<Vec<String>>> {
    let listed = Reader::optional(settings.names.listed(table, "settings"))?;
    if let Some(none) = listed.as_ref().filter(|listed| listed.get_ref().is_empty()) {
        let label = "expected a setting, or no `settings` for all of them";
        table
            .problems
            .add(none.span(), "`settings` is empty", label);
    }
    let listed = listed.map(Placed::into_inner);
    // A setting that is not there has been reported, and is not to be missed in another variant.
    let known = |listed: &Vec<String>| listed.iter().all(|name| settings.names.knows(name));
    listed.as_ref().is_none_or(known).then_some(listed)
}

/// The kernel of host and guests.
fn kernel(table: &Reader<'_>) -> Option<Placed<Kernel>> {
    let default = Kernel::Patched.name().to_owned();
    let written = table.or(table.string("kernel", &KERNEL), default)?;
    let kernel = Kernel::of(written.get_ref());
    Some(Placed::new(written.span(), kernel))
}

/// Reads a variant; its name also by itself, for the check across variants.
fn variant(
    table: &Reader<'_>,
    settings: &Settings,
    vms: &Names,
    registry: &Registry,
) -> VariantRead {
    let name = table.need(table.string("name", &NAME));
    let title = Reader::optional(table.string("title", &TITLE));
    let kernel = kernel(table);
    let hypervisor = table.or(table.word("hypervisor"), Hypervisor::Kvm);
    let without = table.or(vms.listed(table, "without"), Vec::new());
    if let Some(without) = &without {
        vms.check_some_measured(without, table.problems);
    }
    let gone = without
        .as_ref()
        .map_or(&[][..], |without| without.get_ref());
    let host_cmdline = table.or(table.string("host_cmdline", &CMDLINE), String::new());
    let remedies = remedy::chosen(table, host_cmdline, vms, gone, registry);
    if let (Some(kernel), Some((chosen, _))) = (&kernel, &remedies) {
        remedy::check_kernel(kernel, chosen, table.problems);
    }
    if let (Some(hypervisor), Some((chosen, _))) = (&hypervisor, &remedies) {
        remedy::check_hypervisor(hypervisor, chosen, table.problems);
    }
    let guest_cmdline = table.or(table.string("guest_cmdline", &CMDLINE), String::new());
    let pv = pv::pv(table, "variant");
    let settings = listed(table, settings);
    let switches = switches::switches(table, "variant");
    let scheduler = scheduler::scheduler(table);
    let changes = changes(table, vms, gone);
    let finish = || {
        let (remedies, host_cmdline) = remedies?;
        Some(Variant {
            name: name.as_ref()?.get_ref().clone(),
            title: title?.map(Placed::into_inner),
            kernel: kernel?.into_inner(),
            hypervisor: hypervisor?.into_inner(),
            remedies,
            guest_cmdline: guest_cmdline?.into_inner(),
            host_cmdline,
            without: without?.into_inner(),
            pv: pv?,
            switches: switches.as_ref()?.resolved(),
            scheduler: scheduler?,
            vms: changes?,
        })
    };
    let variant = finish();
    VariantRead {
        table: table.span.clone(),
        name,
        settings,
        switches: switches.unwrap_or_default(),
        variant,
    }
}

/// `[variant.vm.NAME]`. One that changes nothing counts as none.
fn changes(table: &Reader<'_>, vms: &Names, gone: &[String]) -> Option<BTreeMap<String, VmChange>> {
    let expected = "tables `[variant.vm.NAME]`";
    let tables = table.named_tables("vm", expected, keys::variant_vm);
    let tables = table.or(tables, Vec::new())?.into_inner();
    let read = |(name, change): &(Placed<String>, Reader<'_>)| {
        let vm = name.get_ref();
        vms.check(vm, name.span(), table.problems);
        vms.check_there(vm, name.span(), gone, table.problems);
        let guest_cmdline = change.or(change.string("guest_cmdline", &CMDLINE), String::new());
        let pv = pv::pv(change, &format!("variant.vm.{vm}"));
        let (guest_cmdline, pv) = (guest_cmdline?.into_inner(), pv?);
        Some((vm.clone(), VmChange { guest_cmdline, pv }))
    };
    let read: Vec<_> = tables.iter().map(read).collect();
    let changes: Option<BTreeMap<_, _>> = read.into_iter().collect();
    changes.map(|mut changes| {
        changes.retain(|_, change| *change != VmChange::default());
        changes
    })
}
