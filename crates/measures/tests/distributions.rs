// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Distributions against a sorted list of the very values that were recorded.

use proptest::prelude::*;
use steady_measures::{Bucket, Distribution, Histogram, Unit};

fn recorded(values: &[u64]) -> Distribution {
    let mut histogram = Histogram::new();
    values.iter().for_each(|&value| histogram.record(value));
    histogram
        .distribution("latency", Unit::Ns)
        .expect("the sum fits")
}

/// The exact quantile by its definition: the value of rank ⌈n × ppm / 10⁶⌉, from 1.
fn exact_quantile(values: &[u64], ppm: u32) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() * ppm as usize).div_ceil(1_000_000).max(1);
    sorted[rank.min(sorted.len()) - 1]
}

fn values() -> impl Strategy<Value = Vec<u64>> {
    // Every magnitude alike, so that narrow and wide buckets are both met.
    let value = (0_u32..48, any::<u64>()).prop_map(|(bits, any)| any % (1 << bits));
    proptest::collection::vec(value, 1..300)
}

proptest! {
    #[test]
    fn a_quantile_is_at_most_a_32nd_above_the_exact_one(
        values in values(), ppm in 0_u32..=1_000_000,
    ) {
        let exact = exact_quantile(&values, ppm);
        let found = recorded(&values).quantile(ppm).unwrap();
        prop_assert!(found >= exact, "{found} < {exact}");
        prop_assert!(found - exact <= exact / 32, "{found} is too far above {exact}");
    }

    #[test]
    fn quantiles_are_exact_below_64(
        values in proptest::collection::vec(0_u64..64, 1..300), ppm in 0_u32..=1_000_000,
    ) {
        prop_assert_eq!(recorded(&values).quantile(ppm).unwrap(), exact_quantile(&values, ppm));
    }

    #[test]
    fn count_sum_min_and_max_are_exact(values in values()) {
        let found = recorded(&values);
        prop_assert_eq!(found.count(), values.len() as u64);
        prop_assert_eq!(found.sum(), values.iter().sum::<u64>());
        prop_assert_eq!(found.min(), values.iter().min().copied());
        prop_assert_eq!(found.max(), values.iter().max().copied());
    }

    #[test]
    fn merging_is_the_same_as_recording_together(left in values(), right in values()) {
        let together = [left.clone(), right.clone()].concat();
        prop_assert_eq!(recorded(&left).merged(&recorded(&right)).unwrap(), recorded(&together));
        let empty = recorded(&[]);
        prop_assert_eq!(empty.merged(&recorded(&left)).unwrap(), recorded(&left));
        prop_assert_eq!(recorded(&left).merged(&empty).unwrap(), recorded(&left));
    }

    #[test]
    fn a_distribution_survives_json(values in values()) {
        let found = recorded(&values).in_vm("vm0").of_workload("latency");
        let text = serde_json::to_string(&found).unwrap();
        prop_assert_eq!(serde_json::from_str::<Distribution>(&text).unwrap(), found);
    }
}

#[test]
fn without_values_there_are_no_statistics() {
    let empty = recorded(&[]);
    assert_eq!((empty.count(), empty.sum()), (0, 0));
    assert_eq!((empty.min(), empty.max(), empty.mean()), (None, None, None));
    assert_eq!(empty.quantile(500_000), None);
    let names: Vec<String> = empty
        .summary()
        .unwrap()
        .into_iter()
        .map(|m| m.name)
        .collect();
    assert_eq!(names, ["latency.count"]);
}

#[test]
fn the_mean_is_rounded_to_the_nearest() {
    assert_eq!(recorded(&[1, 2]).mean(), Some(2));
    assert_eq!(recorded(&[1, 1, 2]).mean(), Some(1));
    assert_eq!(recorded(&[u64::MAX]).mean(), Some(u64::MAX));
}

#[test]
fn the_summary_holds_what_tables_show() {
    let values: Vec<u64> = (1..=50).collect();
    let summary = recorded(&values).summary().unwrap();
    let found: Vec<(&str, i64)> = summary.iter().map(|m| (m.name.as_str(), m.value)).collect();
    assert_eq!(
        found,
        [
            ("latency.mean", 26),
            ("latency.p50", 25),
            ("latency.p90", 45),
            ("latency.p99", 50),
            ("latency.max", 50),
            ("latency.count", 50),
        ]
    );
}

#[test]
fn a_sum_beyond_64_bits_is_refused() {
    let mut histogram = Histogram::new();
    histogram.record_n(u64::MAX, 2);
    let error = histogram.distribution("latency", Unit::Ns).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the sum of \"latency\" does not fit 64 bits"
    );
}

#[test]
fn buckets_of_different_layouts_do_not_merge() {
    let coarse =
        Distribution::new("latency", Unit::Ns, 1, 12, 12, 12, vec![Bucket(10, 19, 1)]).unwrap();
    let error = coarse.merged(&recorded(&[12, 13])).unwrap_err();
    assert!(error.to_string().contains("do not overlap"), "{error}");
    let cycles = Distribution::new(
        "latency",
        Unit::Cycles,
        1,
        12,
        12,
        12,
        vec![Bucket(12, 12, 1)],
    )
    .unwrap();
    let error = cycles.merged(&coarse).unwrap_err();
    assert!(
        error.to_string().contains("in cycles with one in ns"),
        "{error}"
    );
}

/// Reads a distribution with these parts and returns the error.
fn refused(count: u64, sum: u64, min: u64, max: u64, buckets: &str) -> String {
    let text = format!(
        r#"{{"name":"latency","unit":"ns","count":{count},"sum":{sum},"min":{min},"max":{max},"buckets":{buckets}}}"#
    );
    let read: Result<Distribution, _> = serde_json::from_str(&text);
    read.expect_err(&text).to_string()
}

#[test]
fn every_contradiction_is_refused_with_its_figures() {
    let cases = [
        (
            refused(3, 30, 10, 10, "[[10,10,2]]"),
            "hold 2 values, but count is 3",
        ),
        (
            refused(2, 20, 10, 10, "[[10,10,1],[10,11,1]]"),
            "bucket 1 begins at 10",
        ),
        (
            refused(2, 20, 8, 10, "[[10,11,1],[8,9,1]]"),
            "bucket 1 begins at 8",
        ),
        (
            refused(1, 10, 10, 10, "[[11,10,1]]"),
            "bucket 0 is [11, 10, 1]",
        ),
        (
            refused(0, 0, 0, 0, "[[10,10,0]]"),
            "bucket 0 is [10, 10, 0]",
        ),
        (
            refused(1, 10, 9, 10, "[[10,11,1]]"),
            "min is 9, outside the first bucket, 10 to 11",
        ),
        (
            refused(1, 10, 10, 12, "[[10,11,1]]"),
            "max is 12, outside the last bucket, 10 to 11",
        ),
        (
            refused(2, 99, 10, 11, "[[10,11,2]]"),
            "sum is 99, but values in these buckets add up to between 20 and 22",
        ),
        (refused(1, 0, 0, 0, "[]"), "no buckets, but count 1"),
        (
            refused(
                u64::MAX,
                10,
                10,
                10,
                "[[10,18446744073709551615,18446744073709551615],[0,1,1]]",
            ),
            "bucket 1 begins at 0",
        ),
        (
            refused(
                u64::MAX,
                u64::MAX,
                0,
                u64::MAX,
                "[[0,1,18446744073709551615],[2,18446744073709551615,18446744073709551615]]",
            ),
            "hold 36893488147419103230 values, but count is 18446744073709551615",
        ),
    ];
    for (error, expected) in cases {
        assert!(error.contains("distribution \"latency\""), "{error}");
        assert!(error.contains(expected), "{error}\nlacks: {expected}");
    }
}
