// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which measures a program can give, by name: what a claim may ask of it before anything is run.
//!
//! Left out: values, and which settings of a program leave a measure out.

use steady_measures::names;

use crate::program::Program;

/// What a latency of our own programs has behind its name.
const LATENCY: [&str; 6] = ["mean", "p50", "p90", "p99", "max", "count"];
/// What sysbench and fio print of theirs, with any other percentile.
const PRINTED: [&str; 6] = ["min", "mean", "p50", "p90", "p99", "max"];

/// A program's measures. In `fixed` a segment `*` is any name.
struct Gives {
    program: &'static str,
    /// It counts its work: `NAME.operations`, `NAME.time` and `throughput`.
    work: Option<&'static str>,
    latencies: &'static [&'static str],
    fixed: &'static [&'static str],
}

/// By `report_*` of `workloads/*.c` and by the parsers of `parse/`.
const ALL: &[Gives] = &[
    Gives {
        program: "shootdown",
        work: Some("shootdown"),
        latencies: &[names::SHOOTDOWN_LATENCY, "shootdown.local"],
        fixed: &[
            "shootdown.ipis",
            "shootdown.local_ipis",
            "shootdown.targets",
            "clock_step",
            "timed_out",
        ],
    },
    Gives {
        program: "pagecache",
        work: Some("pagecache"),
        latencies: &["pagecache.record"],
        fixed: &[
            "pagecache.minor_faults",
            "pagecache.major_faults",
            "pagecache.threads",
            "timed_out",
        ],
    },
    Gives {
        program: "indexer",
        work: Some("indexer"),
        latencies: &["indexer.file"],
        fixed: &[
            "indexer.words",
            "indexer.lists",
            "indexer.processes",
            "timed_out",
        ],
    },
    Gives {
        program: "pingpong",
        work: Some("pingpong"),
        latencies: &["pingpong.round_trip"],
        fixed: &["pingpong.pairs", "clock_step", "timed_out"],
    },
    Gives {
        program: "spin",
        work: Some("spin"),
        latencies: &[],
        fixed: &["spin.least", "spin.most", "spin.threads", "timed_out"],
    },
    Gives {
        program: "staleness",
        work: Some("staleness"),
        latencies: &[],
        fixed: &["staleness.*", "timed_out"],
    },
    Gives {
        program: "ticks",
        work: Some("ticks.roaming"),
        latencies: &["ticks.late"],
        fixed: &["ticks.*", "ticks.*.*"],
    },
    Gives {
        program: "hotplug",
        work: None,
        latencies: &["hotplug.offline", "hotplug.online"],
        fixed: &[
            "hotplug.rounds",
            "hotplug.virtual_rounds",
            "hotplug.jiffies_off",
            "hotplug.plugged.*",
            "hotplug.stayed.*",
        ],
    },
    Gives {
        program: "frames",
        work: Some("frames"),
        latencies: &[],
        fixed: &["frames.fresh.*", "frames.worked.*", "timed_out"],
    },
    Gives {
        program: "dedup",
        work: Some("dedup"),
        latencies: &["dedup.release"],
        fixed: &[
            "dedup.input",
            "dedup.output",
            "dedup.chunks",
            "dedup.unique",
            "dedup.threads",
            "timed_out",
        ],
    },
    Gives {
        program: "hostload",
        work: Some("hostload"),
        latencies: &[],
        fixed: &[],
    },
    debian(
        "stress-ng",
        &[
            names::THROUGHPUT,
            "stress-ng.*.operations",
            "stress-ng.*.throughput",
        ],
    ),
    debian(
        "jemalloc",
        &[
            names::THROUGHPUT,
            "stress-ng.*.operations",
            "stress-ng.*.throughput",
        ],
    ),
    debian("hackbench", &["hackbench.time"]),
    debian("sysbench", SYSBENCH),
    debian("mariadb", SYSBENCH),
    debian(
        "pbzip2",
        &["pbzip2.input", "pbzip2.time", "pbzip2.bandwidth"],
    ),
    debian(
        "dbench",
        &[
            "dbench.bandwidth",
            "dbench.latency.max",
            "dbench.operations",
        ],
    ),
    debian(
        "fio",
        &[
            names::THROUGHPUT,
            "fio.*.throughput",
            "fio.*.bandwidth",
            "fio.*.latency.#",
            "fio.*.*.throughput",
            "fio.*.*.bandwidth",
            "fio.*.*.latency.#",
        ],
    ),
    debian("vips", &[]),
];

const SYSBENCH: &[&str] = &[
    names::THROUGHPUT,
    "sysbench.events",
    "sysbench.time",
    "sysbench.bandwidth",
    "sysbench.latency.#",
];

const fn debian(program: &'static str, fixed: &'static [&'static str]) -> Gives {
    Gives {
        program,
        work: None,
        latencies: &[],
        fixed,
    }
}

impl Program {
    /// Whether a run of it can give the measure of this name; `time` is every program's.
    #[must_use]
    pub fn gives(&self, measure: &str) -> bool {
        let found = ALL.iter().find(|gives| gives.program == self.name);
        let gives = found.expect("each program's measures are in the table");
        let of = |prefix: &str| measure.strip_prefix(prefix)?.strip_prefix('.');
        let work = gives.work.is_some_and(|name| {
            measure == names::THROUGHPUT || matches!(of(name), Some("operations" | "time"))
        });
        let mut latencies = gives.latencies.iter().filter_map(|name| of(name));
        measure == names::TIME
            || work
            || latencies.any(|part| LATENCY.contains(&part))
            || gives.fixed.iter().any(|pattern| fits(measure, pattern))
    }
}

/// Whether a name fits a pattern, segment by segment: `*` is any, `#` a part of a latency.
fn fits(measure: &str, pattern: &str) -> bool {
    let percentile = |part: &str| {
        let digits = part.strip_prefix('p').unwrap_or_default();
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    let (mut found, mut wanted) = (measure.split('.'), pattern.split('.'));
    loop {
        match (found.next(), wanted.next()) {
            (None, None) => return true,
            (Some(part), Some("#")) if PRINTED.contains(&part) || percentile(part) => {}
            (Some(_), Some("*")) => {}
            (Some(part), Some(same)) if part == same => {}
            _ => return false,
        }
    }
}
