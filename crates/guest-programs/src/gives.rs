// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which measures a program can give, by name: what a claim may ask of it before anything is run.
//!
//! Left out: values, and which settings of a program leave a measure out.

use steady_measures::names;

use crate::program::Program;

/// What a latency has behind its name.
const LATENCY: [&str; 6] = ["mean", "p50", "p90", "p99", "max", "count"];

/// Programs and their measures, by `report_*` of `workloads/*.c` and by the parsers of `parse/`.
/// `+NAME` is work: `NAME.operations`, `NAME.time` and `throughput`. `~NAME` is a latency. In all
/// others a segment `*` is any name. `time` is every program's.
const ALL: &[(&str, &str)] = &[
    (
        "shootdown",
        "+shootdown ~shootdown.latency ~shootdown.local shootdown.ipis shootdown.local_ipis \
         shootdown.targets clock_step timed_out",
    ),
    (
        "pagecache",
        "+pagecache ~pagecache.record pagecache.minor_faults pagecache.major_faults \
         pagecache.threads timed_out",
    ),
    (
        "indexer",
        "+indexer ~indexer.file indexer.words indexer.lists indexer.processes timed_out",
    ),
    (
        "pingpong",
        "+pingpong ~pingpong.round_trip pingpong.pairs clock_step timed_out",
    ),
    ("spin", "+spin spin.least spin.most spin.threads timed_out"),
    ("staleness", "+staleness staleness.* timed_out"),
    ("ticks", "+ticks.roaming ~ticks.late ticks.* ticks.*.*"),
    (
        "hotplug",
        "~hotplug.offline ~hotplug.online hotplug.rounds hotplug.virtual_rounds \
         hotplug.jiffies_off hotplug.plugged.* hotplug.stayed.*",
    ),
    ("frames", "+frames frames.fresh.* frames.worked.* timed_out"),
    (
        "dedup",
        "+dedup ~dedup.release dedup.input dedup.output dedup.chunks dedup.unique dedup.threads \
         timed_out",
    ),
    ("hostload", "+hostload"),
    ("stress-ng", STRESS_NG),
    ("jemalloc", STRESS_NG),
    ("hackbench", "hackbench.time"),
    ("sysbench", SYSBENCH),
    ("mariadb", SYSBENCH),
    (
        "redis",
        "throughput redis.*.throughput ~redis.*.latency redis.*.latency.min redis.*.latency.p95",
    ),
    ("memcached", "+memcached"),
    (
        "nginx",
        "+nginx nginx.latency.min nginx.latency.mean nginx.latency.max",
    ),
    ("pbzip2", "pbzip2.input pbzip2.time pbzip2.bandwidth"),
    (
        "dbench",
        "dbench.bandwidth dbench.latency.max dbench.operations",
    ),
    (
        "fio",
        "throughput fio.*.throughput fio.*.bandwidth fio.*.latency.min ~fio.*.latency \
         fio.*.*.throughput fio.*.*.bandwidth fio.*.*.latency.min ~fio.*.*.latency",
    ),
    ("vips", ""),
];
const STRESS_NG: &str = "throughput stress-ng.*.operations stress-ng.*.throughput";
const SYSBENCH: &str = "throughput sysbench.events sysbench.time sysbench.bandwidth \
                        ~sysbench.latency sysbench.latency.min sysbench.latency.p95";

impl Program {
    /// Whether a run of it can give the measure of this name.
    #[must_use]
    pub fn gives(&self, measure: &str) -> bool {
        let found = ALL.iter().find(|(program, _)| *program == self.name);
        let (_, words) = found.expect("each program's measures are in the table");
        let (front, last) = measure.rsplit_once('.').unwrap_or(("", measure));
        let gives = |word: &str| match (word.strip_prefix('+'), word.strip_prefix('~')) {
            (Some(work), _) => {
                measure == names::THROUGHPUT
                    || front == work && ["operations", "time"].contains(&last)
            }
            (_, Some(of)) => LATENCY.contains(&last) && fits(front, of),
            _ => fits(measure, word),
        };
        measure == names::TIME || words.split_whitespace().any(gives)
    }
}

/// Whether a name fits a pattern, segment by segment.
fn fits(name: &str, pattern: &str) -> bool {
    let (name, pattern) = (name.split('.'), pattern.split('.'));
    name.clone().count() == pattern.clone().count()
        && name
            .zip(pattern)
            .all(|(part, wanted)| wanted == "*" || part == wanted)
}
