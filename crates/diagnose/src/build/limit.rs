// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of a noted limit of CPU time: which vCPUs share a quota, and what they used of it.
//!
//! Left out: whether the limit kept them off their pCPUs, which the findings judge.

use std::collections::BTreeMap;

use super::Builder;
use crate::machine::VcpuId;
use crate::model::{LimitTable, LimitedGroup};
use crate::notes::{VcpuNote, VmNote};
use crate::spread::{add, total};
use crate::waits::Waits;

impl Builder<'_> {
    /// The limit of these vCPUs, if the notes have one for all that have a limit.
    pub(super) fn limit(&self, ids: &[VcpuId]) -> Option<LimitTable> {
        let machine = &self.analysis.machine;
        let note = machine.vms[machine.vcpus[*ids.first()?].vm].note?;
        let noted = &self.notes?.vms.get(note)?.vcpus;
        let of = |&id: &VcpuId| {
            let tid = machine.vcpus[id].tid;
            let vcpu = noted.iter().find(|vcpu| vcpu.tid == tid)?;
            Some((vcpu, self.analysis.rivals.waits.get(id)?))
        };
        let limited = |of: &(&VcpuNote, &Waits)| of.0.cpu_max.is_some();
        let vcpus: Vec<_> = ids.iter().filter_map(of).filter(limited).collect();
        let text = vcpus.first()?.0.cpu_max.as_ref()?;
        let (quota_ns, period_ns) = parsed(text)?;
        if vcpus.iter().any(|of| of.0.cpu_max.as_ref() != Some(text)) {
            return None;
        }
        let mut groups: BTreeMap<(Option<&String>, i32), Vec<&Waits>> = BTreeMap::new();
        for (vcpu, waits) in &vcpus {
            let cgroup = vcpu.cgroup.as_ref();
            let apart = if cgroup.is_some() { 0 } else { vcpu.tid };
            groups.entry((cgroup, apart)).or_default().push(waits);
        }
        let all: Vec<&Waits> = vcpus.iter().map(|of| of.1).collect();
        let cgroup = vcpus.first().and_then(|of| of.0.cgroup.as_deref());
        let (with_vmm_ns, with_vms_ns) = self.shared(note, text, cgroup);
        let groups = groups.into_iter();
        let row = |cgroup, of: &[&Waits]| self.group(cgroup, of, period_ns);
        Some(LimitTable {
            quota_ns,
            period_ns,
            groups: groups.map(|((of, _), vcpus)| row(of, &vcpus)).collect(),
            all: row(None, &all),
            with_vmm_ns,
            with_vms_ns,
        })
    }

    /// For how long a VM ran with its VMM, and with all VMs that share a group with this limit.
    fn shared(&self, own: usize, limit: &str, cgroup: Option<&str>) -> (u64, u64) {
        let vmms = &self.analysis.servers.vmms.ran_ns;
        let of_vmm = |note: usize| vmms.get(&note).copied().unwrap_or(0);
        let machine = &self.analysis.machine;
        let waits = &self.analysis.rivals.waits;
        let ran = |note: usize| {
            let ids = machine.vms.iter().filter(|vm| vm.note == Some(note));
            let ids = ids.flat_map(|vm| &vm.vcpus).filter_map(|&id| waits.get(id));
            total(ids.map(|of| of.ran_ns).chain([of_vmm(note)]))
        };
        let slice = |group: &str| {
            group
                .split('/')
                .find(|part| !part.is_empty())
                .map(str::to_owned)
        };
        let own_slice = cgroup.and_then(slice);
        let shares = |vm: &&(usize, &VmNote)| {
            let like = |vcpu: &VcpuNote| {
                let same = vcpu.cgroup.as_deref().and_then(slice) == own_slice;
                vcpu.cpu_max.as_deref() == Some(limit) && same
            };
            own_slice.is_some() && vm.1.vcpus.iter().any(like)
        };
        let vms = self
            .notes
            .iter()
            .flat_map(|notes| notes.vms.iter().enumerate());
        let vms: Vec<usize> = vms.filter(|vm| shares(&vm)).map(|(note, _)| note).collect();
        let others = vms.len() > 1;
        let with_vmm_ns = if of_vmm(own) > 0 { ran(own) } else { 0 };
        let all_ns = total(vms.into_iter().map(ran));
        (with_vmm_ns, if others { all_ns } else { 0 })
    }

    fn group(&self, cgroup: Option<&String>, of: &[&Waits], period_ns: u64) -> LimitedGroup {
        let mut ends: Vec<u64> = of
            .iter()
            .flat_map(|of| of.refills.iter().map(|refill| refill.0))
            .collect();
        ends.sort_unstable();
        let (mut refills, mut last_ns) = (0, None);
        for &end_ns in &ends {
            // A tick may come late by a part of the period.
            if last_ns.is_none_or(|last_ns: u64| end_ns - last_ns >= period_ns / 10 * 9) {
                refills += 1;
                last_ns = Some(end_ns);
            }
        }
        let (first_ns, last_ns) = (ends.first().copied(), ends.last().copied());
        let window_ns = first_ns
            .zip(last_ns)
            .map_or(0, |(first, last)| last - first);
        // One may have run in all of the time outside.
        let outside_ns = self.span_ns.saturating_sub(window_ns);
        let ran_inside = |of: &&Waits| {
            let own = of.refills.first().zip(of.refills.last());
            let own_ns = own.map_or(0, |(first, last)| last.1 - first.1);
            own_ns.max(of.ran_ns.saturating_sub(outside_ns))
        };
        let window_ran_ns = match window_ns {
            0 => 0,
            _ => total(of.iter().map(ran_inside)),
        };
        let (mut ran_ns, mut idled_ns) = (0, 0);
        for of in of {
            add(&mut ran_ns, of.ran_ns);
            add(&mut idled_ns, of.idled_ns);
        }
        assert!(window_ran_ns <= ran_ns, "a part of what they ran");
        LimitedGroup {
            cgroup: cgroup.cloned(),
            vcpus: u64::try_from(of.len()).unwrap_or(u64::MAX),
            ran_ns,
            idled_ns,
            idled: total(of.iter().map(|of| of.idled)),
            refills,
            window_ns,
            window_ran_ns,
        }
    }
}

/// The quota and the period in nanoseconds, as `cpu.max` has them in microseconds.
fn parsed(text: &str) -> Option<(u64, u64)> {
    let (quota_us, period_us) = text.split_once(' ')?;
    let ns = |text: &str| {
        let us = text.parse::<u64>().ok().filter(|&us| us > 0)?;
        us.checked_mul(1000)
    };
    Some((ns(quota_us)?, ns(period_us)?))
}
