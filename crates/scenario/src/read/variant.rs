// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `[[variant]]` with its switches and what it changes in single VMs.

use std::collections::BTreeMap;

use super::keys::Dialect;
use super::names::Names;
use super::table::Reader;
use super::value::{Placed, Problems};
use super::{CMDLINE, NAME, TITLE, alike, check_unique, keys, pv, remedy};
use crate::limits::HALT_POLL_NS;
use crate::model::{Switches, Vm};
use crate::variant::{Variant, VmChange};
use crate::words::{Hypervisor, Kernel};

/// Reads every variant.
pub(super) fn variants(
    tables: &[Reader<'_>],
    vms: Option<&[Vm]>,
    known: &Names,
    dialect: Dialect<'_>,
    problems: &Problems,
) -> Option<Vec<Variant>> {
    let read = tables.iter().map(|table| variant(table, known, dialect));
    let (names, variants): (Vec<_>, Vec<_>) = read.unzip();
    check_unique("variant", names.iter().map(Option::as_ref), problems);
    let variants: Option<Vec<_>> = variants.into_iter().collect();
    if let (Some(variants), Some(vms)) = (&variants, vms) {
        alike::check(&names, variants, vms, problems);
    }
    variants
}

/// Reads a variant; its name also by itself, for the check across variants.
fn variant(
    table: &Reader<'_>,
    vms: &Names,
    dialect: Dialect<'_>,
) -> (Option<Placed<String>>, Option<Variant>) {
    let name = table.need(table.string("name", &NAME));
    let title = Reader::optional(table.string("title", &TITLE));
    let kernel = match table.knows("kernel") {
        true => table.or(table.word("kernel"), Kernel::Patched),
        false => Some(Placed::new(table.span.clone(), Kernel::Patched)),
    };
    let hypervisor = match table.knows("hypervisor") {
        true => table.or(table.word("hypervisor"), Hypervisor::Kvm),
        false => Some(Placed::new(table.span.clone(), Hypervisor::Kvm)),
    };
    let without = table.or(vms.listed(table, "without"), Vec::new());
    if let Some(without) = &without {
        vms.check_some_measured(without, table.problems);
    }
    let gone = without
        .as_ref()
        .map_or(&[][..], |without| without.get_ref());
    let host_cmdline = table.or(table.string("host_cmdline", &CMDLINE), String::new());
    let remedies = match dialect.is_first() {
        true => remedy::schema_1(table, host_cmdline, dialect.registry),
        false => remedy::chosen(table, host_cmdline, vms, gone, dialect.registry),
    };
    if let (Some(kernel), Some((chosen, _))) = (&kernel, &remedies) {
        remedy::check_kernel(kernel, chosen, table.problems);
    }
    if let (Some(hypervisor), Some((chosen, _))) = (&hypervisor, &remedies) {
        remedy::check_hypervisor(hypervisor, chosen, table.problems);
    }
    let guest_cmdline = table.or(table.string("guest_cmdline", &CMDLINE), String::new());
    let pv = pv::pv(table, "variant");
    let switches = Reader::optional(table.table("switches", &keys::SWITCHES));
    let switches = switches.and_then(|switches| match switches {
        Some(switches) => self::switches(switches.get_ref()),
        None => Some(Switches::default()),
    });
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
            switches: switches?,
            vms: changes?,
        })
    };
    let variant = finish();
    (name, variant)
}

/// `[variant.vm.NAME]`. One that changes nothing is as good as none.
fn changes(table: &Reader<'_>, vms: &Names, gone: &[String]) -> Option<BTreeMap<String, VmChange>> {
    if !table.knows("vm") {
        return Some(BTreeMap::new());
    }
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

fn switches(table: &Reader<'_>) -> Option<Switches> {
    let ple = table.or(table.boolean("ple"), Switches::default().ple);
    let apicv = table.or(table.boolean("apicv"), Switches::default().apicv);
    let dedicated = Reader::optional(table.word("dedicated"));
    let halt_poll_ns = Reader::optional(table.integer("halt_poll_ns", HALT_POLL_NS));
    Some(Switches {
        ple: ple?.into_inner(),
        apicv: apicv?.into_inner(),
        dedicated: dedicated?.map(Placed::into_inner),
        halt_poll_ns: halt_poll_ns?.map(Placed::into_inner),
    })
}
