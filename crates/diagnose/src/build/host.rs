// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of the host, and of a VM's longest stalls, its sleep and its servers.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use steady_events::{ExitReason, user_exit};

use super::{Builder, counts_of, permille};
use crate::asleep::may_halt;
use crate::detail::Sum;
use crate::machine::VcpuId;
use crate::model::{
    AsleepTable, Count, ExitRow, HostTable, HostVm, Instance, ServerRow, StallRow, VmTable,
};
use crate::names::Who;
use crate::spread::{Spread, add, merge, total};

/// From this length on a stall is felt, in nanoseconds.
pub const STALL_NS: u64 = 100_000_000;
/// Stalls of a VM that are kept.
const STALLS_SHOWN: usize = 64;
/// `KVM_EXIT_SHUTDOWN` and `KVM_EXIT_SYSTEM_EVENT` (`include/uapi/linux/kvm.h`): the guest went
/// down.
const SHUTDOWN: u32 = 8;
const SYSTEM_EVENT: u32 = 24;
/// What a server waited for in its kernel.
const IN_KERNEL: &str = "the host's kernel (D state)";
/// Servers and wakers that are shown.
const ROWS_SHOWN: usize = 8;

/// In words why KVM went back to the VMM.
pub(super) fn user_word(reason: Option<u32>) -> String {
    match reason {
        None => "not to the VMM".to_owned(),
        Some(number) => user_exit::name(number).unwrap_or("unknown").to_owned(),
    }
}

/// What ran in a stall: its kind, its name, whether that shows to be what the stall was for, and
/// whether it began before the trace did.
type Meanwhile = (Option<String>, Option<String>, [bool; 2]);

impl Builder<'_> {
    /// What the vCPUs wanted and what the pCPUs had.
    #[must_use]
    pub fn host(&self, vms: &[VmTable]) -> Option<HostTable> {
        if self.analysis.seen.switch == 0 || vms.is_empty() {
            return None;
        }
        let pcpus = || self.analysis.rivals.pcpus.seen();
        let count = u64::try_from(pcpus().count()).unwrap_or(u64::MAX);
        let idle_ns = total(pcpus().map(|pcpu| pcpu.idle_ns));
        let of_vm = |vm: &VmTable| HostVm {
            name: vm.name.clone(),
            ran_ns: vm.waits.as_ref().map_or(0, |waits| waits.ran_ns),
            waited_ns: vm.waits.as_ref().map_or(0, |waits| waits.waited_ns),
        };
        let vms: Vec<HostVm> = vms.iter().map(of_vm).collect();
        let ran_ns = total(vms.iter().map(|vm| vm.ran_ns));
        let waited_ns = total(vms.iter().map(|vm| vm.waited_ns));
        let silent = self.analysis.silence.rare().into_iter();
        Some(HostTable {
            pcpus: count,
            vcpus: u64::try_from(self.analysis.machine.vcpus.len()).unwrap_or(u64::MAX),
            wanted_permille: permille(total([ran_ns, waited_ns]), self.span_ns),
            ran_permille: permille(ran_ns, self.span_ns),
            idle_permille: permille(idle_ns, self.span_ns.saturating_mul(count)),
            idle_ns,
            vms,
            silent: silent
                .map(|(begin_ns, length_ns)| self.instance(begin_ns, length_ns, None))
                .collect(),
        })
    }

    /// Sleep outside halts.
    pub(super) fn asleep(&self, ids: &[VcpuId]) -> Option<AsleepTable> {
        let mut times_ns = Spread::default();
        let (mut device_ns, mut by_reason) = (0, BTreeMap::new());
        let mut wakers: BTreeMap<(i32, &str), u64> = BTreeMap::new();
        for &id in ids {
            let asleep = &self.of(id).asleep;
            merge(&mut times_ns, &Spread::from(&asleep.times_ns));
            add(&mut device_ns, asleep.device_ns);
            for (&reason, &ns) in &asleep.by_reason {
                add(by_reason.entry(user_word(reason)).or_default(), ns);
            }
            for waker in &asleep.wakers {
                let key = (waker.tid, waker.comm.as_str());
                add(wakers.entry(key).or_default(), waker.ns);
            }
        }
        let wakers = wakers.into_iter().map(|((tid, comm), ns)| match tid {
            0 => ("an interrupt".to_owned(), ns),
            _ => (format!("{comm} ({tid})"), ns),
        });
        (times_ns.count > 0).then(|| AsleepTable {
            times_ns,
            device_ns,
            by_reason: rows(by_reason.into_iter()),
            wakers: rows(wakers),
            worst: self.worst_of(ids, |vcpu| vcpu.asleep.worst),
        })
    }

    /// Threads that served these vCPUs and waited meanwhile.
    pub(super) fn servers(&self, ids: &[VcpuId]) -> Vec<ServerRow> {
        let servers = &self.analysis.servers;
        let own = servers.by.iter().filter(|((tid, id, woken), _)| {
            ids.contains(id) && (*woken || self.is_vmm(*tid, servers.name(*tid), ids))
        });
        let mut found: BTreeMap<i32, ServerRow> = BTreeMap::new();
        let mut rivals: BTreeMap<i32, BTreeMap<Who, u64>> = BTreeMap::new();
        let mut stuck: BTreeMap<i32, u64> = BTreeMap::new();
        for (&(tid, id, _), served) in own {
            let row = found.entry(tid).or_insert_with(|| ServerRow {
                name: servers.name(tid).to_owned(),
                tid,
                times: 0,
                ns: 0,
                long_ns: 0,
                by: Vec::new(),
                culprit: None,
                culprit_name: None,
                worst: None,
            });
            row.times += served.times;
            add(&mut row.ns, served.total_ns);
            row.long_ns = row.long_ns.max(served.long_ns);
            add(stuck.entry(tid).or_default(), served.stuck_ns);
            for (&rival, &ns) in &served.by {
                add(rivals.entry(tid).or_default().entry(rival).or_default(), ns);
            }
            let longest = row.worst.as_ref().map_or(0, |worst| worst.length_ns);
            if let Some((begin_ns, length_ns, cpu)) = served.worst
                && length_ns > longest
            {
                row.worst = Some(self.instance(begin_ns, length_ns, Some(id)).on(cpu));
            }
        }
        let mut list: Vec<ServerRow> = found.into_values().collect();
        for row in &mut list {
            let by = rivals.remove(&row.tid).unwrap_or_default();
            let named = |who: Who| match who.tid {
                0 => ("cpu-max", None),
                _ => self.named_thread(who, ids, &servers.names),
            };
            let most = by.iter().max_by_key(|&(who, ns)| (*ns, Reverse(*who)));
            let stuck_ns = stuck.remove(&row.tid).unwrap_or(0);
            match most {
                Some((&who, &ns)) if ns >= stuck_ns => {
                    let (kind, name) = named(who);
                    (row.culprit, row.culprit_name) = (Some(kind.to_owned()), name);
                }
                _ => row.culprit = Some("kernel-wait".to_owned()),
            }
            let kernel = (stuck_ns > 0).then(|| (IN_KERNEL.to_owned(), stuck_ns));
            let words = by.into_iter().map(|(who, ns)| {
                let (kind, name) = named(who);
                (name.unwrap_or_else(|| kind.to_owned()), ns)
            });
            row.by = rows(words.chain(kernel));
        }
        list.sort_by_key(|row| (Reverse(row.ns), row.tid));
        list.truncate(ROWS_SHOWN);
        list
    }

    /// The longest stalls of these vCPUs, whatever they were.
    pub(super) fn stalls(&self, ids: &[VcpuId], exits: &[ExitRow]) -> Vec<StallRow> {
        let mut found = Vec::new();
        for &id in ids {
            self.stalls_of(id, ids, &mut found);
        }
        let rows = exits.iter().filter(|row| !super::is_halt(row));
        for (row, of) in rows.flat_map(|row| row.about.iter().map(move |of| (row, of))) {
            let Some(at) = of.worst.clone().filter(|at| at.length_ns >= STALL_NS) else {
                continue;
            };
            found.push(StallRow {
                kind: "exit".to_owned(),
                at,
                culprit: of.user.clone(),
                name: of.name.clone().or_else(|| of.value.clone()),
                after: Some(row.name.clone()),
                shown: false,
                from_begin: false,
            });
        }
        found.extend(ids.iter().filter_map(|&id| self.cut_off(id)));
        found.sort_by_key(|row| (Reverse(row.at.length_ns), row.at.begin_ns));
        found.truncate(STALLS_SHOWN);
        found
    }

    /// The exit of a vCPU that had not ended when the trace did, if others' records show that it
    /// went on for long.
    fn cut_off(&self, id: VcpuId) -> Option<StallRow> {
        let of = self.of(id).details.cut_off?;
        // A halt, a CPU that its guest turned off, or the VM's own end.
        let ends = matches!(of.user, Some(user_exit::HLT | SHUTDOWN | SYSTEM_EVENT));
        let halts = may_halt(of.reason) || of.reason.is_wfx();
        if of.own_ns < STALL_NS || ends || (halts && of.user.is_none()) {
            return None;
        }
        let at = self.instance(of.since_ns, of.own_ns, Some(id));
        let row = self.detail(of.about, &Sum::default(), id);
        Some(StallRow {
            kind: "cut-off".to_owned(),
            at: at.on(self.analysis.machine.vcpus[id].pcpu),
            culprit: of.user.map(|user| user_word(Some(user))),
            name: row.name.or(row.value),
            after: Some(self.reason(of.reason)),
            shown: false,
            from_begin: false,
        })
    }

    fn stalls_of(&self, id: VcpuId, ids: &[VcpuId], found: &mut Vec<StallRow>) {
        let of = self.of(id);
        let mut push =
            |kind: &str, at: Instance, (culprit, name, [shown, from_begin]): Meanwhile| {
                if at.length_ns < STALL_NS {
                    return;
                }
                found.push(StallRow {
                    kind: kind.to_owned(),
                    at,
                    culprit,
                    name,
                    after: None,
                    shown,
                    from_begin,
                });
            };
        let waits = self.analysis.rivals.waits.get(id);
        for stall in waits.into_iter().flat_map(|waits| &waits.worst) {
            let at = self.instance(stall.begin_ns, stall.length_ns, Some(id));
            let (kind, name) = self.named(stall.rival, ids);
            let who = (Some(kind.to_owned()), name, [stall.shown, stall.from_begin]);
            push("ready", at.on(stall.cpu), who);
        }
        if let Some((begin_ns, length_ns, cpu)) = waits.and_then(|waits| waits.worst_lost) {
            let at = self.instance(begin_ns, length_ns, Some(id));
            push("in-loss", at.on(cpu), (None, None, [false; 2]));
        }
        if let Some((begin_ns, length_ns, cpu)) = of.asleep.worst {
            let at = self.instance(begin_ns, length_ns, Some(id));
            let waker = of.asleep.wakers.iter().max_by_key(|waker| waker.ns);
            let name = waker.map(|waker| format!("{} ({})", waker.comm, waker.tid));
            push("asleep", at.on(cpu), (None, name, [false; 2]));
        }
        if let Some((begin_ns, length_ns, cpu)) = of.preempt.worst_uninterruptible {
            let at = self.instance(begin_ns, length_ns, Some(id));
            push("uninterruptible", at.on(cpu), (None, None, [false; 2]));
            let after = of.preempt.worst_stuck_after;
            if let Some(row) = found.last_mut().filter(|row| row.kind == "uninterruptible") {
                row.after = after.map(|reason: ExitReason| self.reason(reason));
            }
        }
    }
}

/// Rows with their shares, most first; a few.
fn rows(counts: impl Iterator<Item = (String, u64)>) -> Vec<Count> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for (name, ns) in counts {
        add(sums.entry(name).or_default(), ns);
    }
    let mut rows = counts_of(sums.iter().map(|(name, ns)| (name.as_str(), *ns)));
    rows.truncate(ROWS_SHOWN);
    rows
}
