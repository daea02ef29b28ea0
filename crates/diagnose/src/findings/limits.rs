// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits of CPU time (`cpu.max`) behind waits: those that the notes of the recording have, and
//! those that waits look like.

use super::{Context, check, share};
use crate::build::permille;
use crate::model::{CauseId, Check, CheckId, Confidence, Evidence, EvidenceId, WaitTable};
use crate::notes::VcpuNote;
use crate::spread::total;

/// No period of a limit is longer, in nanoseconds (`max_cfs_quota_period`, Linux 6.12).
const LONGEST_PERIOD_NS: u64 = 1_000_000_000;
/// A thread may run for a tick beyond its quota, which the next periods take back: of HZ=100.
const TICK_NS: u64 = 10_000_000;
/// The kernel hands out a quota in slices of this length (`sched_cfs_bandwidth_slice_us`).
const HANDED_ON_NS: u64 = 5_000_000;
/// What of its quota a vCPU uses that is held by it, in thousandths: the kernel hands it out in
/// slices of 5 ms, and a trace begins and ends within a period.
const QUOTA_USED: std::ops::RangeInclusive<u64> = 930..=1060;

/// A limit of CPU time that is in the notes of the recording, and that was used up.
pub struct Quota {
    quota_ns: u64,
    period_ns: u64,
    /// Of the quota, thousandths that were used.
    used: u64,
}

/// The limit that fits to how long the vCPUs ran, if they waited for others all the same: each had
/// its quota, or all of them together.
pub fn quota(context: &Context<'_>, waits: &WaitTable, cause: CauseId) -> Option<Quota> {
    let others = matches!(
        cause,
        CauseId::OtherVm | CauseId::OwnVm | CauseId::HostTask | CauseId::Vhost | CauseId::OwnVmm
    );
    if !others {
        return None;
    }
    let (quota_ns, period_ns) = noted_quota(context)?;
    let span_ns = u128::from(context.trace.span_ns);
    let have_ns = span_ns * u128::from(quota_ns) / u128::from(period_ns);
    let have_ns = u64::try_from(have_ns).ok()?;
    let vcpus = u64::try_from(context.vm.vcpus.len()).ok()?;
    let used = [have_ns, have_ns.saturating_mul(vcpus)]
        .map(|have_ns| permille(waits.ran_ns, have_ns))
        .into_iter()
        .find(|used| QUOTA_USED.contains(used))?;
    Some(Quota {
        quota_ns,
        period_ns,
        used,
    })
}

impl Quota {
    pub fn evidence(&self) -> Evidence {
        Evidence::new(EvidenceId::QuotaUsed)
            .ns("quota", self.quota_ns)
            .ns("period", self.period_ns)
            .permille("ran", self.used)
    }

    pub fn check(&self) -> Check {
        check(CheckId::RunsItsQuota, true, vec![share("share", self.used)])
    }
}

/// Why the pCPUs idled though vCPUs that had been switched out were ready, and how sure that is.
/// Only the notes of the recording show a limit. The kernel takes back what was used beyond the
/// quota, and its timer may be late, so that one throttle may last longer than a period.
pub fn idle_beside(context: &Context<'_>) -> (CauseId, Confidence) {
    let rows = context.vm.stalls.iter();
    let idle = rows.filter(|row| row.kind == "ready" && row.culprit.as_deref() == Some("cpu-max"));
    let longest_ns = idle.map(|row| row.at.length_ns).max().unwrap_or(0);
    let no_limit = (CauseId::IdleBeside, Confidence::Medium);
    let Some(_) = &context.vm.note else {
        return match longest_ns > LONGEST_PERIOD_NS {
            true => no_limit,
            false => (CauseId::CpuMax, Confidence::Medium),
        };
    };
    let Some((quota_ns, period_ns)) = noted_quota(context) else {
        return no_limit;
    };
    assert!(quota_ns > 0 && period_ns > 0, "a limit lets something run");
    let Some(waits) = &context.vm.waits else {
        return no_limit;
    };
    let debt_ns = period_ns.saturating_mul(TICK_NS) / quota_ns;
    let is_long = longest_ns > total([period_ns, period_ns, debt_ns]);
    if is_long || !fits(context, waits, quota_ns, period_ns) {
        return no_limit;
    }
    (CauseId::CpuMax, Confidence::High)
}

/// Whether waits in which the pCPU idled can be a limit's, by the period's arithmetic.
fn fits(context: &Context<'_>, waits: &WaitTable, quota_ns: u64, period_ns: u64) -> bool {
    assert!(quota_ns > 0 && period_ns > 0, "a limit lets something run");
    let vcpus = u64::try_from(context.vm.vcpus.len()).unwrap_or(1).max(1);
    let periods = context.trace.span_ns / period_ns + 2;
    // In a period the vCPUs wait for no longer than what the quota leaves of it, and in each period
    // with such a wait the quota was used up.
    let left_ns = period_ns.saturating_mul(vcpus).saturating_sub(quota_ns);
    let used_ns = u128::from(waits.idled_ns) * u128::from(quota_ns) / u128::from(left_ns.max(1));
    // Each may have a limit of its own.
    let most_ns = u128::from(quota_ns) * u128::from(vcpus) * u128::from(periods);
    let ran_ns = u128::from(waits.ran_ns);
    // One vCPU is stopped once a period. Several hand on what one leaves of its slice.
    let times = match vcpus {
        1 => 1,
        _ => vcpus.saturating_mul(period_ns / HANDED_ON_NS + 1),
    };
    let often = waits.idled > periods.saturating_mul(times);
    left_ns > 0 && !often && used_ns <= ran_ns * 11 / 10 && ran_ns <= most_ns * 53 / 50
}

/// The quota and the period in nanoseconds, if the notes have one for all vCPUs with a limit.
fn noted_quota(context: &Context<'_>) -> Option<(u64, u64)> {
    let text = noted(context, |vcpu| vcpu.cpu_max.as_ref())?;
    let (quota_us, period_us) = text.split_once(' ')?;
    let ns = |text: &str| {
        let us = text.parse::<u64>().ok().filter(|&us| us > 0)?;
        us.checked_mul(1000)
    };
    Some((ns(quota_us)?, ns(period_us)?))
}

/// Whether the notes have that none of the VM's vCPUs has a limit. Without that a limit looks like
/// any wait whose end does not show what it was for: while a vCPU may not run, whoever is ready
/// does, and the end of the limit's period need not show, as a tick may come long after it.
pub fn none_is_set(context: &Context<'_>) -> bool {
    let limit = noted(context, |vcpu| vcpu.cpu_max.as_ref());
    limit.is_some_and(|limit| limit.starts_with("max") && !limit.contains(" and "))
}

/// What the recording noted of the VM's vCPUs, without repeats.
pub fn noted(context: &Context<'_>, of: fn(&VcpuNote) -> Option<&String>) -> Option<String> {
    let vcpus = context.vm.note.iter().flat_map(|note| &note.vcpus);
    let mut values: Vec<&str> = vcpus.filter_map(of).map(String::as_str).collect();
    values.sort_unstable();
    values.dedup();
    (!values.is_empty()).then(|| values.join(" and "))
}
