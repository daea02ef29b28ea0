// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Many values of one kind: how many, their sum, least and greatest exactly, the rest in buckets.

use serde::{Deserialize, Serialize};

use crate::error::Invalid;
use crate::metric::{Better, Metric, Unit, checked_name};

/// `[low, high, count]`: `count` values from `low` to `high`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket(
    /// Lowest value that belongs here.
    pub u64,
    /// Highest value that belongs here.
    pub u64,
    /// How many values fell here; never 0.
    pub u64,
);

/// A histogram with exact count, sum, minimum and maximum.
///
/// Always consistent: the counts of the buckets add up to `count`, buckets are ordered, disjoint
/// and not empty, the minimum lies in the first and the maximum in the last, and the sum is one
/// that such values can have. Without values, `sum`, `min` and `max` are 0 and there are no
/// buckets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Raw")]
pub struct Distribution {
    #[serde(skip_serializing_if = "Option::is_none")]
    vm: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workload: Option<String>,
    name: String,
    unit: Unit,
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
    buckets: Vec<Bucket>,
}

/// The same fields, before they are checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    #[serde(default)]
    vm: Option<String>,
    #[serde(default)]
    workload: Option<String>,
    #[serde(deserialize_with = "checked_name")]
    name: String,
    unit: Unit,
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
    buckets: Vec<Bucket>,
}

impl TryFrom<Raw> for Distribution {
    type Error = Invalid;

    fn try_from(raw: Raw) -> Result<Self, Invalid> {
        let mut made = Self::new(
            raw.name,
            raw.unit,
            raw.count,
            raw.sum,
            raw.min,
            raw.max,
            raw.buckets,
        )?;
        (made.vm, made.workload) = (raw.vm, raw.workload);
        Ok(made)
    }
}

impl Distribution {
    /// A distribution of the whole host, from its parts.
    ///
    /// # Errors
    /// If the parts contradict each other; the text says which and how.
    pub fn new(
        name: impl Into<String>,
        unit: Unit,
        count: u64,
        sum: u64,
        min: u64,
        max: u64,
        buckets: Vec<Bucket>,
    ) -> Result<Self, Invalid> {
        let name = name.into();
        check(count, sum, min, max, &buckets)
            .map_err(|text| Invalid::new(format!("distribution {name:?}: {text}")))?;
        Ok(Self {
            vm: None,
            workload: None,
            name,
            unit,
            count,
            sum,
            min,
            max,
            buckets,
        })
    }

    /// The same distribution, of this VM.
    #[must_use]
    pub fn in_vm(mut self, vm: impl Into<String>) -> Self {
        self.vm = Some(vm.into());
        self
    }

    /// The same distribution, of this workload.
    #[must_use]
    pub fn of_workload(mut self, workload: impl Into<String>) -> Self {
        self.workload = Some(workload.into());
        self
    }

    /// The VM it is of; `None` for the whole host.
    #[must_use]
    pub fn vm(&self) -> Option<&str> {
        self.vm.as_deref()
    }

    /// The workload it is of; `None` for the VM as a whole.
    #[must_use]
    pub fn workload(&self) -> Option<&str> {
        self.workload.as_deref()
    }

    /// Dotted name, such as `shootdown.latency`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Unit of the values.
    #[must_use]
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// How many values there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The sum of all values.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The least value, or `None` if there is none.
    #[must_use]
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// The greatest value, or `None` if there is none.
    #[must_use]
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// The buckets that hold values, in ascending order.
    #[must_use]
    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// The mean, rounded to the nearest integer, halves up; `None` without values.
    #[must_use]
    pub fn mean(&self) -> Option<u64> {
        (self.count > 0).then(|| {
            let rounded =
                (u128::from(self.sum) + u128::from(self.count / 2)) / u128::from(self.count);
            let mean = u64::try_from(rounded).expect("a mean is at most the greatest value");
            assert!(
                self.holds(mean),
                "a mean lies between the least and the greatest value"
            );
            mean
        })
    }

    /// The value that `ppm` millionths of all values do not exceed, or `None` without values.
    ///
    /// With n values in ascending order it is the one of rank ⌈n × ppm / 10⁶⌉, at least rank 1, and
    /// of that one the highest value of its bucket, but never more than the maximum. The answer is
    /// thus never below the exact one, and above it by less than a bucket's width (1/32 for those
    /// of [`crate::Histogram`]). `ppm` 0 gives the minimum, 10⁶ and above the maximum, both exact.
    #[must_use]
    pub fn quantile(&self, ppm: u32) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        if ppm == 0 {
            return Some(self.min);
        }
        let rank = (u128::from(self.count) * u128::from(ppm)).div_ceil(1_000_000);
        let mut seen = 0_u128;
        for &Bucket(_, high, count) in &self.buckets {
            seen += u128::from(count);
            if seen >= rank {
                let value = high.min(self.max);
                assert!(
                    self.holds(value),
                    "a quantile lies between the least and the greatest"
                );
                return Some(value);
            }
        }
        Some(self.max)
    }

    /// Whether `value` lies between the least and the greatest.
    fn holds(&self, value: u64) -> bool {
        (self.min..=self.max).contains(&value)
    }

    /// This distribution with the values of `other` added.
    ///
    /// # Errors
    /// If the units differ, if two buckets overlap without being the same (they then come from
    /// different layouts), or if a sum does not fit 64 bits.
    pub fn merged(&self, other: &Self) -> Result<Self, Invalid> {
        if self.unit != other.unit {
            return Err(Invalid::new(format!(
                "cannot merge distribution {:?} in {} with one in {}",
                self.name, self.unit, other.unit
            )));
        }
        if self.count == 0 || other.count == 0 {
            let mut whole = if self.count == 0 { other } else { self }.clone();
            (whole.vm, whole.workload) = (self.vm.clone(), self.workload.clone());
            whole.name.clone_from(&self.name);
            return Ok(whole);
        }
        let mut buckets: Vec<Bucket> = self.buckets.clone();
        buckets.extend_from_slice(&other.buckets);
        buckets.sort_by_key(|&Bucket(low, high, _)| (low, high));
        let mut joined: Vec<Bucket> = Vec::with_capacity(buckets.len());
        for Bucket(low, high, count) in buckets {
            match joined.last_mut() {
                Some(last) if (last.0, last.1) == (low, high) => {
                    last.2 = last.2.checked_add(count).ok_or_else(too_many)?;
                }
                _ => joined.push(Bucket(low, high, count)),
            }
        }
        let mut merged = Self::new(
            self.name.clone(),
            self.unit,
            self.count.checked_add(other.count).ok_or_else(too_many)?,
            self.sum.checked_add(other.sum).ok_or_else(too_many)?,
            self.min.min(other.min),
            self.max.max(other.max),
            joined,
        )?;
        (merged.vm, merged.workload) = (self.vm.clone(), self.workload.clone());
        Ok(merged)
    }

    /// The metrics that stand for this distribution in a table, in the same scope: `.mean`,
    /// `.p50`, `.p90`, `.p99` and `.max` behind its name, lower being better, and `.count`,
    /// neutral. Without values only `.count`.
    ///
    /// # Errors
    /// If a value does not fit the 63 bits of a metric.
    pub fn summary(&self) -> Result<Vec<Metric>, Invalid> {
        let parts = [
            ("mean", self.mean()),
            ("p50", self.quantile(500_000)),
            ("p90", self.quantile(900_000)),
            ("p99", self.quantile(990_000)),
            ("max", self.max()),
        ];
        let mut metrics = Vec::with_capacity(parts.len() + 1);
        for (suffix, value) in parts {
            if let Some(value) = value {
                metrics.push(self.metric(suffix, self.unit, Better::Lower, value)?);
            }
        }
        metrics.push(self.metric("count", Unit::Count, Better::Neutral, self.count)?);
        Ok(metrics)
    }

    fn metric(
        &self,
        suffix: &str,
        unit: Unit,
        better: Better,
        value: u64,
    ) -> Result<Metric, Invalid> {
        let name = format!("{}.{suffix}", self.name);
        let value = i64::try_from(value)
            .map_err(|_| Invalid::new(format!("{name}: {value} does not fit 63 bits")))?;
        let mut metric = Metric::new(name, unit, better, value);
        (metric.vm, metric.workload) = (self.vm.clone(), self.workload.clone());
        Ok(metric)
    }
}

fn too_many() -> Invalid {
    Invalid::new("cannot merge distributions: a count or a sum does not fit 64 bits")
}

/// Whether the parts of a distribution agree.
fn check(count: u64, sum: u64, min: u64, max: u64, buckets: &[Bucket]) -> Result<(), String> {
    let (Some(first), Some(last)) = (buckets.first(), buckets.last()) else {
        return if (count, sum, min, max) == (0, 0, 0, 0) {
            Ok(())
        } else {
            Err(format!(
                "no buckets, but count {count}, sum {sum}, min {min}, max {max}; without values \
                 all four are 0"
            ))
        };
    };
    let (mut total, mut least, mut greatest) = (0_u128, 0_u128, 0_u128);
    for (index, &Bucket(low, high, held)) in buckets.iter().enumerate() {
        if low > high || held == 0 {
            return Err(format!(
                "bucket {index} is [{low}, {high}, {held}]; expected low <= high and a count \
                 above 0"
            ));
        }
        if index > 0 && low <= buckets[index - 1].1 {
            return Err(format!(
                "bucket {index} begins at {low}, but the one before it ends at {}; expected \
                 ascending buckets that do not overlap",
                buckets[index - 1].1
            ));
        }
        total += u128::from(held);
        // Ends here if need be, because the products below fit 128 bits only up to 2^64 values.
        if total > u128::from(count) {
            return Err(format!(
                "the buckets up to number {index} hold {total} values, but count is {count}"
            ));
        }
        least += u128::from(low.max(min)) * u128::from(held);
        greatest += u128::from(high.min(max)) * u128::from(held);
    }
    if total != u128::from(count) {
        return Err(format!(
            "the buckets hold {total} values, but count is {count}"
        ));
    }
    if min < first.0 || min > first.1 {
        let Bucket(low, high, _) = first;
        return Err(format!(
            "min is {min}, outside the first bucket, {low} to {high}"
        ));
    }
    if max < last.0 || max > last.1 || max < min {
        let Bucket(low, high, _) = last;
        return Err(format!(
            "max is {max}, outside the last bucket, {low} to {high}"
        ));
    }
    if !(least..=greatest).contains(&u128::from(sum)) {
        return Err(format!(
            "sum is {sum}, but values in these buckets add up to between {least} and {greatest}"
        ));
    }
    Ok(())
}
