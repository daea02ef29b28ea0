// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of the format and their keys.

/// A table of the format.
#[derive(Debug)]
pub(crate) struct Place {
    /// The table as it is written, or a phrase for the top level.
    pub header: &'static str,
    /// The same after a preposition: where a key is missing or unknown.
    pub within: &'static str,
    /// Its keys and sub-tables, in the order in which they are documented.
    pub keys: &'static [&'static str],
}

pub(crate) const ROOT: Place = Place {
    header: "the top level",
    within: "at the top level",
    keys: &[
        "schema",
        "name",
        "title",
        "question",
        "seed",
        "repetitions",
        "host",
        "vm",
        "variant",
        "measure",
        "paper",
    ],
};

pub(crate) const HOST: Place = Place {
    header: "`[host]`",
    within: "in `[host]`",
    keys: &["pcpus", "memory_mib", "vmm", "time_limit_s"],
};

pub(crate) const VM: Place = Place {
    header: "`[[vm]]`",
    within: "in `[[vm]]`",
    keys: &[
        "name",
        "vcpus",
        "memory_mib",
        "pin",
        "cpu_weight",
        "cgroup",
        "disk_mib",
        "guest_cmdline",
        "background",
        "workload",
    ],
};

pub(crate) const WORKLOAD: Place = Place {
    header: "`[[vm.workload]]`",
    within: "in `[[vm.workload]]`",
    keys: &["program", "args", "time_limit_s"],
};

pub(crate) const VARIANT: Place = Place {
    header: "`[[variant]]`",
    within: "in `[[variant]]`",
    keys: &[
        "name",
        "title",
        "remedies",
        "guest_cmdline",
        "host_cmdline",
        "without",
        "pv",
        "switches",
    ],
};

pub(crate) const PV: Place = Place {
    header: "`[variant.pv]`",
    within: "in `[variant.pv]`",
    keys: &[
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
};

pub(crate) const SWITCHES: Place = Place {
    header: "`[variant.switches]`",
    within: "in `[variant.switches]`",
    keys: &["ple", "halt_poll_ns"],
};

pub(crate) const MEASURE: Place = Place {
    header: "`[measure]`",
    within: "in `[measure]`",
    keys: &["collect"],
};

pub(crate) const PAPER: Place = Place {
    header: "`[[paper]]`",
    within: "in `[[paper]]`",
    keys: &[
        "source", "vm", "workload", "measure", "unit", "base", "variants", "values",
    ],
};

/// Every table, so that a key in the wrong one can be told where it belongs.
pub(crate) const PLACES: [&Place; 9] = [
    &ROOT, &HOST, &VM, &WORKLOAD, &VARIANT, &PV, &SWITCHES, &MEASURE, &PAPER,
];
