// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a table of PV features: `[vm.pv]`, `[variant.pv]` or `[variant.vm.NAME.pv]`.

use super::keys;
use super::table::Reader;
use crate::model::Pv;
use crate::words::{PvFeature, Word};

/// The features of `table`, whose own name is `place`; all of them where it has no such table.
pub(super) fn pv(table: &Reader<'_>, place: &str) -> Option<Pv> {
    match Reader::optional(table.table("pv", &keys::pv(place)))? {
        Some(features) => read(features.get_ref()),
        None => Some(Pv::default()),
    }
}

fn read(table: &Reader<'_>) -> Option<Pv> {
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
