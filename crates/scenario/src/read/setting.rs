// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `[[setting]]`: the surroundings with which variants are crossed.

use super::names::Names;
use super::switches::Written;
use super::table::Reader;
use super::value::Placed;
use super::{NAME, TITLE, check_unique, keys, switches};
use crate::limits::LIST_ITEMS;

/// A setting as it is written.
#[derive(Debug)]
pub(super) struct Setting {
    pub name: Placed<String>,
    pub title: Option<String>,
    pub without: Vec<String>,
    pub switches: Written,
}

/// All settings of a file.
#[derive(Debug)]
pub(super) struct Settings {
    /// Their names, for the lists in variants.
    pub names: Names,
    /// The settings, empty where the file has none; `None` if one of them is wrong.
    pub tables: Option<Vec<Setting>>,
}

/// Reads every setting of the file.
pub(super) fn settings(top: &Reader<'_>, vms: &Names) -> Settings {
    let tables = Reader::optional(top.tables("setting", &keys::SETTING, LIST_ITEMS));
    let Some(tables) = tables else {
        return Settings {
            names: Names::new("setting", None),
            tables: None,
        };
    };
    let tables = tables.map(Placed::into_inner).unwrap_or_default();
    let read = tables.iter().map(|table| setting(table, vms));
    let (names, tables): (Vec<_>, Vec<_>) = read.unzip();
    check_unique("setting", names.iter().map(Option::as_ref), top.problems);
    let known = names
        .into_iter()
        .map(|name| Some((name?.into_inner(), true)));
    Settings {
        names: Names::new("setting", known.collect()),
        tables: tables.into_iter().collect(),
    }
}

/// Reads a setting; its name also by itself, for the lists in variants.
fn setting(table: &Reader<'_>, vms: &Names) -> (Option<Placed<String>>, Option<Setting>) {
    let name = table.need(table.string("name", &NAME));
    let title = Reader::optional(table.string("title", &TITLE));
    let without = table.or(vms.listed(table, "without"), Vec::new());
    if let Some(without) = &without {
        vms.check_some_measured(without, table.problems);
    }
    let switches = switches::switches(table, "setting");
    let finish = || {
        Some(Setting {
            name: name.clone()?,
            title: title?.map(Placed::into_inner),
            without: without?.into_inner(),
            switches: switches?,
        })
    };
    let setting = finish();
    (name, setting)
}
