// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the VMs of a race make together: for each rate that the same workload gives in several
//! measured VMs its sum, and how evenly the VMs share it, as Jain's index: (Σx)² / (n·Σx²). It is 1
//! where all have the same and 1/n where one has all (R. Jain, D. Chiu, W. Hawe, "A Quantitative
//! Measure of Fairness and Discrimination", DEC-TR-301, 1984). Of no VM, but of the workload.

use steady_measures::{Better, Metric, Unit};

/// What is behind the rate's name in that of its sum, and of the index in ppm.
const SUM: &str = "sum";
const FAIRNESS: &str = "fairness";
/// Bits of a value when it is squared and summed over at most 64 VMs; lower ones are cut off.
const BITS: u32 = 46;

/// The sums and indices of the rates among `metrics` of VMs that are measured, in the order of the
/// rates' first appearance.
#[must_use]
pub fn metrics(metrics: &[Metric], is_measured: impl Fn(&str) -> bool) -> Vec<Metric> {
    let is_rate = |metric: &&Metric| {
        let unit = matches!(metric.unit, Unit::OpsPerKs | Unit::BytesPerSecond);
        unit && metric.better == Better::Higher && metric.vm.as_deref().is_some_and(&is_measured)
    };
    let mut seen: Vec<(&Metric, Vec<i64>)> = Vec::new();
    for metric in metrics.iter().filter(is_rate) {
        let same = |other: &Metric| {
            (&other.workload, &other.name, other.unit)
                == (&metric.workload, &metric.name, metric.unit)
        };
        match seen.iter_mut().find(|(other, _)| same(other)) {
            Some((_, values)) => values.push(metric.value),
            None => seen.push((metric, vec![metric.value])),
        }
    }
    let several = seen.into_iter().filter(|(_, values)| values.len() > 1);
    several
        .flat_map(|(rate, values)| of_rate(rate, &values))
        .collect()
}

fn of_rate(rate: &Metric, values: &[i64]) -> Vec<Metric> {
    assert!(values.len() > 1, "{} is of several VMs", rate.name);
    let sum = values
        .iter()
        .fold(0, |sum: i64, &value| sum.saturating_add(value));
    let sum = Some((SUM, rate.unit, sum));
    let index = fairness_ppm(values).map(|ppm| (FAIRNESS, Unit::Ppm, ppm));
    let found = [sum, index].into_iter().flatten();
    found
        .map(|(what, unit, value)| Metric {
            vm: None,
            name: format!("{}.{what}", rate.name),
            unit,
            value,
            ..rate.clone()
        })
        .collect()
}

/// Jain's index in ppm, rounded down; `None` where no VM has anything.
fn fairness_ppm(values: &[i64]) -> Option<i64> {
    let values = values
        .iter()
        .map(|&value| u64::try_from(value).unwrap_or(0));
    let values: Vec<u64> = values.collect();
    let most = values.iter().max()?;
    let shift = (u64::BITS - most.leading_zeros()).saturating_sub(BITS);
    let values: Vec<u128> = values
        .iter()
        .map(|value| u128::from(value >> shift))
        .collect();
    let sum: u128 = values.iter().sum();
    let squares: u128 = values.iter().map(|value| value * value).sum();
    let whole = squares * values.len() as u128;
    let ppm = (sum * sum * 1_000_000).checked_div(whole)?;
    assert!(ppm <= 1_000_000, "an index is at most 1");
    i64::try_from(ppm).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_is_that_of_the_formula_by_hand() {
        // (1+2+3)² / (3·14) = 6/7; one of four has all: 1/4; equal shares: 1.
        assert_eq!(fairness_ppm(&[1, 2, 3]), Some(857_142));
        assert_eq!(fairness_ppm(&[0, 9, 0, 0]), Some(250_000));
        assert_eq!(fairness_ppm(&[5, 5]), Some(1_000_000));
        assert_eq!(fairness_ppm(&[i64::MAX; 64]), Some(1_000_000));
        assert_eq!(
            fairness_ppm(&[-9, 5]),
            Some(500_000),
            "less than nothing is nothing"
        );
        assert_eq!(fairness_ppm(&[0, 0]), None);
    }

    #[test]
    fn only_a_rate_that_several_measured_vms_give_is_summed() {
        let of = |vm: &str, name: &str, better, value| {
            let metric = Metric::new(name, Unit::OpsPerKs, better, value);
            metric.in_vm(vm).of_workload("redis")
        };
        let of_unit = |vm: &str, unit, workload: &str| {
            let metric = Metric::new("throughput", unit, Better::Higher, 5);
            metric.in_vm(vm).of_workload(workload)
        };
        let all = [
            of_unit("c", Unit::BytesPerSecond, "redis"),
            of_unit("c", Unit::OpsPerKs, "fio"),
            of_unit("a", Unit::Count, "redis"),
            of_unit("b", Unit::Count, "redis"),
            of("a", "throughput", Better::Higher, 30),
            of("a", "alone", Better::Higher, 9),
            of("b", "throughput", Better::Higher, 10),
            of("a", "neutral", Better::Neutral, 1),
            of("b", "neutral", Better::Neutral, 1),
            of("load", "throughput", Better::Higher, 50),
        ];
        let found: Vec<_> = metrics(&all, |vm| vm != "load")
            .into_iter()
            .map(|it| {
                (
                    it.vm,
                    it.workload.unwrap(),
                    it.name,
                    it.unit.as_str(),
                    it.value,
                )
            })
            .collect();
        let row =
            |name: &str, unit, value| (None, "redis".to_owned(), name.to_owned(), unit, value);
        let sum = row("throughput.sum", "ops/ks", 40);
        // 40² / (2·1000).
        assert_eq!(found, [sum, row("throughput.fairness", "ppm", 800_000)]);
    }
}
