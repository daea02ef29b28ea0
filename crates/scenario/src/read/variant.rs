// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `[[variant]]` with its `pv` and `switches`.

use super::names::Names;
use super::table::Reader;
use super::value::{Placed, Problems};
use super::{CMDLINE, NAME, TITLE, check_unique, keys};
use crate::limits::HALT_POLL_NS;
use crate::model::{Pv, Switches, Variant};
use crate::words::{PvFeature, Word};

/// Reads every variant.
pub(super) fn variants(
    tables: &[Reader<'_>],
    vms: &Names,
    problems: &Problems,
) -> Option<Vec<Variant>> {
    let read: Vec<_> = tables.iter().map(|table| variant(table, vms)).collect();
    check_unique(
        "variant",
        read.iter().map(|(name, _)| name.as_ref()),
        problems,
    );
    read.into_iter().map(|(_, variant)| variant).collect()
}

/// Reads a variant; its name also by itself, for the check across variants.
fn variant(table: &Reader<'_>, vms: &Names) -> (Option<Placed<String>>, Option<Variant>) {
    let name = table.need(table.string("name", &NAME));
    let title = Reader::optional(table.string("title", &TITLE));
    let remedies = table.or(table.words("remedies"), Vec::new());
    let guest_cmdline = table.or(table.string("guest_cmdline", &CMDLINE), String::new());
    let host_cmdline = table.or(table.string("host_cmdline", &CMDLINE), String::new());
    let without = table.or(vms.listed(table, "without"), Vec::new());
    if let Some(without) = &without {
        vms.check_some_measured(without, table.problems);
    }
    let pv = Reader::optional(table.table("pv", &keys::PV)).and_then(|pv| match pv {
        Some(pv) => features(pv.get_ref()),
        None => Some(Pv::default()),
    });
    let switches = Reader::optional(table.table("switches", &keys::SWITCHES));
    let switches = switches.and_then(|switches| match switches {
        Some(switches) => self::switches(switches.get_ref()),
        None => Some(Switches::default()),
    });
    let finish = || {
        Some(Variant {
            name: name.as_ref()?.get_ref().clone(),
            title: title?.map(Placed::into_inner),
            remedies: remedies?.into_inner(),
            guest_cmdline: guest_cmdline?.into_inner(),
            host_cmdline: host_cmdline?.into_inner(),
            without: without?.into_inner(),
            pv: pv?,
            switches: switches?,
        })
    };
    let variant = finish();
    (name, variant)
}

fn features(table: &Reader<'_>) -> Option<Pv> {
    let mut pv = Some(Pv::default());
    for &feature in PvFeature::ALL {
        let offered = table.or(table.boolean(feature.name()), true);
        pv = pv.zip(offered).map(|(mut pv, offered)| {
            *pv.slot(feature) = offered.into_inner();
            pv
        });
    }
    pv
}

fn switches(table: &Reader<'_>) -> Option<Switches> {
    let ple = table.or(table.boolean("ple"), Switches::default().ple);
    let halt_poll_ns = Reader::optional(table.integer("halt_poll_ns", HALT_POLL_NS));
    Some(Switches {
        ple: ple?.into_inner(),
        halt_poll_ns: halt_poll_ns?.map(Placed::into_inner),
    })
}
