// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits of CPU time (`cpu.max`) behind waits: those that the notes of the recording have, and
//! those that waits look like.

use super::{Context, check, share};
use crate::build::permille;
use crate::model::{
    CauseId, Check, CheckId, Confidence, Evidence, EvidenceId, LimitTable, LimitedGroup, WaitTable,
};
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
/// its quota, or all of them together. That it fits is a likeness, and never sure.
pub fn quota(context: &Context<'_>, waits: &WaitTable, cause: CauseId) -> Option<Quota> {
    let others = matches!(
        cause,
        CauseId::OtherVm
            | CauseId::OwnVm
            | CauseId::HostTask
            | CauseId::Vhost
            | CauseId::OwnVmm
            | CauseId::Poller
            | CauseId::Recorder
    );
    let limit = waits.limit.as_ref().filter(|_| others)?;
    let have_ns = have_ns(context, limit)?;
    let own = [have_ns, have_ns.saturating_mul(limit.all.vcpus)]
        .map(|have_ns| permille(limit.all.ran_ns, have_ns))
        .into_iter()
        .find(|used| QUOTA_USED.contains(used));
    let used = own.or_else(|| shared(context, limit))?;
    Some(Quota {
        quota_ns: limit.quota_ns,
        period_ns: limit.period_ns,
        used,
    })
}

/// What the quota gives in all of the trace, in nanoseconds.
fn have_ns(context: &Context<'_>, limit: &LimitTable) -> Option<u64> {
    let span_ns = u128::from(context.trace.span_ns);
    let have_ns = span_ns * u128::from(limit.quota_ns) / u128::from(limit.period_ns);
    u64::try_from(have_ns).ok()
}

/// What the vCPUs used of one quota together with other threads of their VMM, or with other VMs,
/// in thousandths, if that is all of it.
fn shared(context: &Context<'_>, limit: &LimitTable) -> Option<u64> {
    let have_ns = have_ns(context, limit)?;
    let sums = [limit.with_vmm_ns, limit.with_vms_ns].into_iter();
    let mut used = sums.map(|ran_ns| permille(ran_ns, have_ns));
    used.find(|used| QUOTA_USED.contains(used))
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
    let limit = context
        .vm
        .waits
        .as_ref()
        .and_then(|waits| waits.limit.as_ref());
    let Some(limit) = limit else {
        return no_limit;
    };
    let (quota_ns, period_ns) = (limit.quota_ns, limit.period_ns);
    assert!(quota_ns > 0 && period_ns > 0, "a limit lets something run");
    let debt_ns = period_ns.saturating_mul(TICK_NS) / quota_ns;
    let is_long = longest_ns > total([period_ns, period_ns, debt_ns]);
    let mut stopped = limit.groups.iter().filter(|group| group.idled > 0);
    let each = stopped.all(|group| fits(context, limit, group));
    // Shorter idle times than those that are counted may be anything's.
    let idled = limit.all.idled > 0;
    match idled && !is_long {
        true if each || fits(context, limit, &limit.all) => (CauseId::CpuMax, Confidence::High),
        // Others in the same group used what the vCPUs left.
        true if shared(context, limit).is_some() => (CauseId::CpuMax, Confidence::Medium),
        _ => no_limit,
    }
}

/// Whether waits in which the pCPU idled can be those of a group's quota, by the period's
/// arithmetic.
fn fits(context: &Context<'_>, limit: &LimitTable, group: &LimitedGroup) -> bool {
    let (quota_ns, period_ns, vcpus) = (limit.quota_ns, limit.period_ns, group.vcpus);
    assert!(vcpus > 0, "a group has vCPUs");
    let periods = context.trace.span_ns / period_ns + 2;
    let of_quota = |periods: u64| u128::from(quota_ns) * u128::from(periods);
    // In a period the vCPUs wait for no longer than what the quota leaves of it, and in each period
    // with such a wait the quota was used up.
    let left_ns = period_ns.saturating_mul(vcpus).saturating_sub(quota_ns);
    let ran_ns = u128::from(group.ran_ns);
    let most_ns = ran_ns * 11 / 10;
    let has_rest = u128::from(group.idled_ns) * u128::from(quota_ns)
        > most_ns * u128::from(left_ns)
        || of_quota(group.refills.saturating_sub(1)) > most_ns;
    // One vCPU is stopped once a period. Several hand on what one leaves of its slice.
    let times = match vcpus {
        1 => 1,
        _ => vcpus.saturating_mul(period_ns / HANDED_ON_NS + 1),
    };
    let often = group.idled > periods.saturating_mul(times);
    // From one refill to another they run for no more than the quotas of the periods between; a
    // tick's time may be owed at the end.
    let between = group
        .window_ns
        .saturating_sub(period_ns / 20)
        .div_ceil(period_ns);
    let owed_ns = u128::from(TICK_NS.saturating_mul(vcpus));
    let exceeds = u128::from(group.window_ran_ns) > of_quota(between) * 51 / 50 + owed_ns
        || ran_ns > of_quota(periods) * 53 / 50;
    !often && !exceeds && !has_rest
}

/// Whether the notes have of each of the VM's vCPUs that it has no limit. Without that a limit
/// looks like any wait whose end does not show what it was for: while a vCPU may not run, another
/// thread does, and the end of the limit's period need not show, as a tick may come long after it.
pub fn none_is_set(context: &Context<'_>) -> bool {
    let is_none = |vcpu: &VcpuNote| {
        vcpu.cpu_max
            .as_ref()
            .is_some_and(|of| of.starts_with("max"))
    };
    let note = context.vm.note.as_ref();
    note.is_some_and(|note| !note.vcpus.is_empty() && note.vcpus.iter().all(is_none))
}

/// What the recording noted of the VM's vCPUs, without repeats.
pub fn noted(context: &Context<'_>, of: fn(&VcpuNote) -> Option<&String>) -> Option<String> {
    let vcpus = context.vm.note.iter().flat_map(|note| &note.vcpus);
    let mut values: Vec<&str> = vcpus.filter_map(of).map(String::as_str).collect();
    values.sort_unstable();
    values.dedup();
    (!values.is_empty()).then(|| values.join(" and "))
}
