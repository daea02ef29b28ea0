// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Medians, ranges and ratios between the variants of a result.

mod common;

use proptest::prelude::*;
use steady_measures::{Better, Cell, Comparison, Metric, RunResult, Unit, median};

use common::sample;

/// The sample with its metrics replaced: one `time` per repetition.
fn with_times(times: &[&[i64]]) -> RunResult {
    let mut result = sample();
    for (variant, times) in result.variants.iter_mut().zip(times) {
        let mut repetition = variant.repetitions[0].clone();
        variant.repetitions.clear();
        for (index, &time) in (0..).zip(*times) {
            repetition.index = index;
            repetition.metrics = vec![Metric::new("time", Unit::Ns, Better::Lower, time)];
            variant.repetitions.push(repetition.clone());
        }
    }
    result
}

/// The ratio of a cell, in parts per million.
fn ppm(cell: Cell) -> Option<u64> {
    cell.ratio.map(|ratio| ratio.ratio_ppm)
}

#[test]
fn a_cell_has_median_range_and_ratio_to_the_first_variant() {
    let result = with_times(&[&[300, 100, 200], &[11, 13]]);
    let comparison = Comparison::new(&result, None).unwrap();
    assert_eq!(comparison.rows.len(), 1);
    let base = comparison.rows[0].cells[0].unwrap();
    assert_eq!(
        (base.median, base.min, base.max, base.repetitions),
        (200, 100, 300, 3)
    );
    assert_eq!(base.ratio, None);
    let other = comparison.rows[0].cells[1].unwrap();
    // By pairs: 11 of 300 and 13 of 100, whose geometric mean is 0.06904.
    assert_eq!((other.median, ppm(other)), (12, Some(69_041)));
}

#[test]
fn any_variant_can_be_the_baseline() {
    let result = with_times(&[&[200], &[10]]);
    let comparison = Comparison::new(&result, Some("kvm-pv")).unwrap();
    assert_eq!(comparison.baseline, 1);
    assert_eq!(ppm(comparison.rows[0].cells[0].unwrap()), Some(20_000_000));
}

#[test]
fn the_first_of_chosen_variants_is_the_baseline_and_the_digest_stays() {
    let mut result = with_times(&[&[200], &[10]]);
    result.seal();
    let digest = result.measures_digest.clone();
    let names = ["kvm-pv", "ipi", "kvm-pv"].map(str::to_owned);
    result.choose(&names).unwrap();
    let comparison = Comparison::new(&result, None).unwrap();
    let ratios: Vec<_> = comparison.rows[0].cells.iter().flatten().collect();
    assert_eq!(
        (ratios.len(), ratios[0].median, ratios[1].median),
        (2, 10, 200)
    );
    assert_eq!(ppm(*ratios[1]), Some(20_000_000));
    assert_eq!(result.measures_digest, digest);
}

#[test]
fn a_chosen_variant_that_is_not_there_leaves_the_result_as_it_was() {
    let mut result = sample();
    let error = result
        .choose(&["ipi".to_owned(), "kvm_pv".to_owned()])
        .unwrap_err();
    assert!(
        error.to_string().contains("the result has ipi, kvm-pv"),
        "{error}"
    );
    assert_eq!(result, sample());
}

#[test]
fn an_unknown_baseline_is_answered_with_the_known_ones() {
    let error = Comparison::new(&sample(), Some("kvm_pv")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no variant \"kvm_pv\" to compare against; the result has ipi, kvm-pv"
    );
}

#[test]
fn there_is_no_ratio_to_zero_or_to_nothing() {
    let zero = Comparison::new(&with_times(&[&[0], &[10]]), None).unwrap();
    assert_eq!(zero.rows[0].cells[1].unwrap().ratio, None);
    let gone = Comparison::new(&with_times(&[&[10], &[0]]), None).unwrap();
    assert_eq!(ppm(gone.rows[0].cells[1].unwrap()), Some(0));
    let none = Comparison::new(&with_times(&[&[], &[10]]), None).unwrap();
    assert_eq!(none.rows[0].cells[0], None);
    assert_eq!(none.rows[0].cells[1].unwrap().ratio, None);
}

#[test]
fn rows_keep_the_order_of_first_appearance() {
    let comparison = Comparison::new(&sample(), None).unwrap();
    let names: Vec<&str> = comparison
        .rows
        .iter()
        .map(|row| row.key.name.as_str())
        .collect();
    assert_eq!(names[0], "shootdown.latency.mean");
    assert_eq!(names.last(), Some(&"exits.EXTERNAL_INTERRUPT"));
}

#[test]
fn pooled_distributions_hold_the_values_of_all_repetitions() {
    let pooled = sample().variants[0].pooled_distributions().unwrap();
    assert_eq!(pooled.len(), 1);
    assert_eq!(pooled[0].count(), 100);
    assert_eq!(
        (pooled[0].min(), pooled[0].max()),
        (Some(400_000), Some(449_001))
    );
}

proptest! {
    #[test]
    fn every_ratio_lies_inside_its_interval(
        pairs in proptest::collection::vec((1_i64..1_000_000_000, 1_i64..1_000_000_000), 1..12),
    ) {
        let (base, other): (Vec<i64>, Vec<i64>) = pairs.into_iter().unzip();
        let result = with_times(&[&base, &other]);
        let comparison = Comparison::new(&result, None).unwrap();
        let ratio = comparison.rows[0].cells[1].unwrap().ratio.unwrap();
        prop_assert_eq!(ratio.low_ppm.is_some(), base.len() >= 5);
        if let (Some(low), Some(high)) = (ratio.low_ppm, ratio.high_ppm) {
            prop_assert!(low <= ratio.ratio_ppm && ratio.ratio_ppm <= high, "{ratio:?}");
        }
    }

    #[test]
    fn half_of_the_values_lie_on_either_side_of_the_median(
        mut values in proptest::collection::vec(any::<i64>(), 1..40),
    ) {
        values.sort_unstable();
        let middle = median(&values).unwrap();
        let below = values.iter().filter(|&&value| value < middle).count();
        let above = values.iter().filter(|&&value| value > middle).count();
        prop_assert!(below * 2 <= values.len() && above * 2 <= values.len());
    }
}

#[test]
fn a_comparison_has_the_same_interval_whatever_stands_beside_it() {
    let base: Vec<i64> = (0..8).map(|at| 1_000 + 37 * at).collect();
    let other: Vec<i64> = (0..8).map(|at| 700 + 91 * (at % 3)).collect();
    let mut result = with_times(&[&base, &other]);
    let alone = Comparison::new(&result, None).unwrap().rows[0].cells[1].unwrap();
    let mut between = result.variants[1].clone();
    between.name = "between".to_owned();
    result.variants.insert(1, between);
    let beside = Comparison::new(&result, None).unwrap().rows[0].cells[2].unwrap();
    assert!(alone.ratio.unwrap().low_ppm.is_some());
    assert_eq!(alone.ratio, beside.ratio);
}
