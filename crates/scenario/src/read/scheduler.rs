// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `[variant.scheduler]`.

use super::table::Reader;
use super::value::{Placed, Text};
use super::{is_line, keys};
use crate::limits::{BASE_SLICE_NS, SCHED_FEATURES, VCPU_SLICE_NS};
use crate::scheduler::Scheduler;

/// Which features there are depends on the kernel, which refuses others.
const FEATURE: Text = Text {
    expected: "a feature of the scheduler, such as `HRTICK` or `NO_HRTICK`",
    most_chars: 64,
    holds: |text| {
        let allowed = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
        !text.is_empty() && text.bytes().all(allowed)
    },
};

/// The two kinds of files by their endings.
const BPF: Text = Text {
    expected: "the path of a BPF scheduler, which ends in .bpf.o or .bpf.c",
    most_chars: 4096,
    holds: |text| is_line(text) && (text.ends_with(".bpf.o") || text.ends_with(".bpf.c")),
};

/// The knobs that a variant turns.
pub(super) fn scheduler(variant: &Reader<'_>) -> Option<Scheduler> {
    match Reader::optional(variant.table("scheduler", &keys::SCHEDULER))? {
        Some(table) => read(table.get_ref()),
        None => Some(Scheduler::default()),
    }
}

fn read(table: &Reader<'_>) -> Option<Scheduler> {
    let features = table.texts("features", &FEATURE, SCHED_FEATURES);
    let features = table.or(features, Vec::new());
    let base_slice_ns = Reader::optional(table.integer("base_slice_ns", BASE_SLICE_NS));
    let vcpu_slice_ns = Reader::optional(table.integer("vcpu_slice_ns", VCPU_SLICE_NS));
    let vcpu_policy = Reader::optional(table.word("vcpu_policy"));
    let bpf = Reader::optional(table.string("bpf", &BPF));
    Some(Scheduler {
        features: features?.into_inner(),
        base_slice_ns: base_slice_ns?.map(Placed::into_inner),
        vcpu_slice_ns: vcpu_slice_ns?.map(Placed::into_inner),
        vcpu_policy: vcpu_policy?.map(Placed::into_inner),
        bpf: bpf?.map(Placed::into_inner),
    })
}
