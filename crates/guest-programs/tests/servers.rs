// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Do recorded outputs of servers' clients give the numbers that they show, and is a request that
//! was lost an error? What all recorded outputs have in common is asked in `fixtures.rs`.

use steady_guest_programs::{Exit, Output, ParseError, find};
use steady_measures::WorkloadReport;

const REDIS: &str = include_str!("fixtures/redis.stdout");
const MEMCACHED: &str = include_str!("fixtures/memcached.stdout");
const NGINX: &str = include_str!("fixtures/nginx.stdout");

fn parse(name: &str, stdout: &str) -> Result<WorkloadReport, ParseError> {
    find(name).expect("a known program").parse(&Output {
        stdout,
        stderr: "",
        wall_ns: 1,
        exit: Exit::Code(0),
    })
}

/// `NAME VALUE UNIT` of each measure but `time`.
fn measures(name: &str, stdout: &str) -> Vec<String> {
    let report = parse(name, stdout).expect(name);
    let metrics = report.metrics.iter().filter(|metric| metric.name != "time");
    metrics
        .map(|metric| format!("{} {} {}", metric.name, metric.value, metric.unit))
        .collect()
}

#[test]
fn redis_shows_rates_and_latencies_of_each_test() {
    let redis = measures("redis", REDIS);
    assert_eq!(redis.len(), 3 * 7, "{redis:?}");
    for line in [
        "redis.set.throughput 40816330 ops/ks",
        "redis.set.latency.mean 172000 ns",
        "redis.set.latency.min 24000 ns",
        "redis.get.latency.p50 55000 ns",
        "redis.get.latency.p99 3447000 ns",
        "redis.mset.latency.max 7359000 ns",
    ] {
        assert!(redis.contains(&line.to_owned()), "no {line} in {redis:?}");
    }
    let one = REDIS.lines().take(2);
    let one: String = one.flat_map(|line| [line, "\n"]).collect();
    assert!(measures("redis", &one).contains(&"throughput 40816330 ops/ks".to_owned()));
    let head = REDIS.lines().next();
    let error = parse("redis", &format!("{}\n", head.expect("a head"))).expect_err("no row");
    assert!(
        error.to_string().contains("printed no line like"),
        "{error}"
    );
}

#[test]
fn memcached_and_nginx_show_what_was_answered_and_how_fast() {
    assert_eq!(
        measures("memcached", MEMCACHED),
        [
            "memcached.operations 4000 count",
            "memcached.time 79000000 ns",
            // 4000 keys in 79 ms.
            "throughput 50632911 ops/ks",
        ]
    );
    assert_eq!(
        measures("nginx", NGINX),
        [
            "nginx.operations 2000 count",
            "nginx.time 100290000 ns",
            "throughput 19942370 ops/ks",
            "nginx.latency.min 20000 ns",
            "nginx.latency.max 8090000 ns",
            "nginx.latency.mean 263000 ns",
        ]
    );
    // Both clients end with exit code 0 where requests were lost.
    for (name, stdout, whole, other, expected) in [
        (
            "memcached",
            MEMCACHED,
            "get            4000",
            "get            3999",
            "an answer for each of 4000 keys",
        ),
        (
            "memcached",
            MEMCACHED,
            "get            4000",
            "bad            4000",
            "printed no line like",
        ),
        (
            "memcached",
            MEMCACHED,
            "0.079",
            "0.000",
            "a run of at least 1 ms",
        ),
        (
            "nginx",
            NGINX,
            "2000 succeeded",
            "1999 succeeded",
            "a page for each request",
        ),
    ] {
        assert!(stdout.contains(whole), "{whole}");
        let error = parse(name, &stdout.replace(whole, other)).expect_err(other);
        assert!(error.to_string().contains(expected), "{error}");
    }
}
