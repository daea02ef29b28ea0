// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of the format and their keys.

use std::borrow::Cow;

use steady_remedies::{Registry, Remedy};

/// A table of the format.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The table as it is written, or a phrase for the top level.
    pub header: Cow<'static, str>,
    /// Its keys and sub-tables, in the order in which they are documented.
    pub keys: Cow<'static, [&'static str]>,
    /// What to say of a key that was here before.
    pub elsewhen: fn(&str) -> Option<&'static str>,
}

impl Place {
    const fn of(header: &'static str, keys: &'static [&'static str]) -> Self {
        Self {
            header: Cow::Borrowed(header),
            keys: Cow::Borrowed(keys),
            elsewhen: |_| None,
        }
    }

    /// The place after a preposition: where a key is missing or unknown.
    pub fn within(&self) -> String {
        if self.header == ROOT.header {
            return format!("at {}", self.header);
        }
        format!("in {}", self.header)
    }
}

pub(crate) const ROOT: Place = Place {
    header: Cow::Borrowed("the top level"),
    keys: Cow::Borrowed(&[
        "schema",
        "name",
        "title",
        "question",
        "seed",
        "repetitions",
        "host",
        "vm",
        "setting",
        "variant",
        "measure",
    ]),
    elsewhen: |key| {
        let moved =
            "remove `[[paper]]`: figures of papers are in evidence/papers, one file a paper";
        (key == "paper").then_some(moved)
    },
};

pub(crate) const HOST: Place = Place::of(
    "`[host]`",
    &[
        "pcpus",
        "smt",
        "memory_mib",
        "vmm",
        "time_limit_s",
        "workload",
    ],
);

pub(crate) const HOST_WORKLOAD: Place = Place::of("`[[host.workload]]`", &["program", "args"]);

pub(crate) const VM: Place = Place::of(
    "`[[vm]]`",
    &[
        "name",
        "copies",
        "vcpus",
        "memory_mib",
        "pin",
        "cpu_weight",
        "cgroup",
        "cpu_quota_us",
        "cpu_period_us",
        "disk_mib",
        "kernel",
        "guest_cmdline",
        "background",
        "serves",
        "reaches",
        "pv",
        "workload",
    ],
);

pub(crate) const WORKLOAD: Place = Place::of(
    "`[[vm.workload]]`",
    &[
        "program",
        "args",
        "time_limit_s",
        "files",
        "result",
        "ready",
        "env",
    ],
);

pub(crate) const SETTING: Place =
    Place::of("`[[setting]]`", &["name", "title", "without", "switches"]);

pub(crate) const VARIANT: Place = Place::of(
    "`[[variant]]`",
    &[
        "name",
        "title",
        "settings",
        "kernel",
        "hypervisor",
        "guest_cmdline",
        "host_cmdline",
        "without",
        "pv",
        "switches",
        "scheduler",
        "vm",
    ],
);

pub(crate) const SCHEDULER: Place = Place::of(
    "`[variant.scheduler]`",
    &[
        "features",
        "base_slice_ns",
        "vcpu_slice_ns",
        "vcpu_policy",
        "bpf",
    ],
);

pub(crate) const PV: Place = Place::of(
    "`[variant.pv]`",
    &[
        "tlb_flush",
        "ipi",
        "sched_yield",
        "unhalt",
        "eoi",
        "steal_time",
        "async_pf",
        "poll_control",
        "clocksource",
    ],
);

pub(crate) const SWITCHES: Place = Place::of(
    "`[variant.switches]`",
    &["ple", "ple_window_ns", "apicv", "dedicated", "halt_poll_ns"],
);

pub(crate) const MEASURE: Place = Place::of("`[measure]`", &["collect"]);

/// A remedy of a variant; [`remedy`] gives the place of one.
pub(crate) const REMEDY: Place = Place::of("`[variant.REMEDY]`", &["mode", "vms"]);

/// A VM of a variant; [`variant_vm`] gives the place of one.
pub(crate) const VARIANT_VM: Place = Place::of("`[variant.vm.NAME]`", &["guest_cmdline", "pv"]);

/// Every table, so that a key in the wrong one gets the table where it belongs. PV features and
/// switches stand in several tables, and are named by one.
pub(crate) const PLACES: [&Place; 13] = [
    &ROOT,
    &HOST,
    &HOST_WORKLOAD,
    &VM,
    &WORKLOAD,
    &SETTING,
    &VARIANT,
    &REMEDY,
    &VARIANT_VM,
    &PV,
    &SWITCHES,
    &SCHEDULER,
    &MEASURE,
];

/// `[[variant]]`, with a table for each remedy of `registry`.
pub(crate) fn variant(registry: &Registry) -> Place {
    let mut keys = VARIANT.keys.into_owned();
    keys.extend(registry.all().map(|remedy| remedy.name));
    Place {
        keys: keys.into(),
        ..VARIANT
    }
}

/// The table of `remedy` in a variant.
pub(crate) fn remedy(remedy: &Remedy) -> Place {
    let header = format!("`[variant.{remedy}]`").into();
    Place { header, ..REMEDY }
}

/// The table of the VM `name` in a variant.
pub(crate) fn variant_vm(name: &str) -> Place {
    let header = format!("`[variant.vm.{name}]`").into();
    Place {
        header,
        ..VARIANT_VM
    }
}

/// The table of switches in `place`.
pub(crate) fn switches(place: &str) -> Place {
    let header = format!("`[{place}.switches]`").into();
    Place { header, ..SWITCHES }
}

/// The table of PV features in `place`.
pub(crate) fn pv(place: &str) -> Place {
    let header = format!("`[{place}.pv]`").into();
    Place { header, ..PV }
}
