// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `[[paper]]`: figures of a paper that stand beside the measured ones.

use super::names::Names;
use super::table::Reader;
use super::value::{Placed, Text};
use super::{TITLE, is_line};
use crate::limits::PAPER_VALUE;
use crate::model::Paper;

const UNIT: Text = Text {
    expected: "a unit",
    most_chars: 16,
    holds: is_line,
};

/// Reads one row of a paper's table.
pub(super) fn paper(table: &Reader<'_>, vms: &Names, variants: &Names) -> Option<Paper> {
    let source = table.need(table.string("source", &TITLE));
    let vm = vms.one(table, "vm");
    let workload = table.need(table.string("workload", &TITLE));
    let measure = table.need(table.string("measure", &TITLE));
    let unit = table.need(table.string("unit", &UNIT));
    let base = variants.one(table, "base");
    let listed = table.need(variants.listed(table, "variants"));
    let values = table.need(table.list("values", "an array of integers", |list| {
        let read = |(i, value)| table.number(&format!("`values[{i}]`"), value, &PAPER_VALUE);
        list.iter()
            .enumerate()
            .map(read)
            .collect::<Option<Vec<u64>>>()
    }));
    if let (Some(listed), Some(values)) = (&listed, &values) {
        let (variants, values_len) = (listed.get_ref().len(), values.get_ref().len());
        if variants != values_len {
            let message = format!("`values` has {values_len} elements for {variants} variants");
            let label = "expected one value for each of `variants`";
            table.problems.add(values.span(), message, label);
        }
    }
    if let (Some(listed), Some(base)) = (&listed, &base) {
        if !listed.get_ref().contains(base.get_ref()) {
            let message = format!("`base` is `{}`, which has no value", base.get_ref());
            table
                .problems
                .add(base.span(), message, "expected one of `variants`");
        }
    }
    Some(Paper {
        source: source?.into_inner(),
        vm: vm?.into_inner(),
        workload: workload?.into_inner(),
        measure: measure?.into_inner(),
        unit: unit?.into_inner(),
        base: base?.into_inner(),
        variants: listed.map(Placed::into_inner)?,
        values: values?.into_inner(),
    })
}
