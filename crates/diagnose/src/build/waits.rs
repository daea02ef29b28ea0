// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of who ran instead, of what exits were about, and of where it was worst.

use std::collections::BTreeMap;

use steady_events::{ExitReason, IrqOf, Task, vcpu_number};

use super::{Builder, hex, permille};
use crate::about::fold;
use crate::detail::{Detail, PART, REST, Sum, device};
use crate::findings::stays;
use crate::machine::VcpuId;
use crate::model::{DetailRow, Instance, RivalRow, WaitTable};
use crate::names::{Names, VMM_THREADS, Who};
use crate::notes::VmNote;
use crate::of_vcpu::OfVcpu;
use crate::owner::Owner;
use crate::role::{Role, role_of};
use crate::spread::{add, heavier, total};
use crate::waits::{Rival, Waits};

/// Rows of what exits of one reason were about.
const ABOUT_SHOWN: usize = 16;
/// The longest waits of a VM that are kept.
const LONGEST_SHOWN: usize = 64;
/// Rows of who ran instead.
const RIVALS_SHOWN: usize = 32;

/// A thread whose number lies this close to a vCPU's may be of the same VMM, which has its threads
/// made one after the other.
const NEAR: u32 = 32;
/// The same of a VMM's process and its vCPUs, as the name of a thread of io_uring has it.
const NEAR_PROCESS: u32 = 64;

/// Own time and rows of each reason.
type About = BTreeMap<ExitReason, (u64, Vec<DetailRow>)>;

impl Instance {
    /// The same on a pCPU.
    pub(super) fn on(mut self, pcpu: u32) -> Self {
        self.pcpu = Some(pcpu);
        self
    }
}

impl Builder<'_> {
    /// Something that took its time, of a vCPU if one is named.
    pub(super) fn instance(&self, begin_ns: u64, length_ns: u64, vcpu: Option<VcpuId>) -> Instance {
        let vcpu = vcpu.map(|id| &self.analysis.machine.vcpus[id]);
        Instance {
            begin_ns: begin_ns.saturating_sub(self.zero_ns),
            length_ns,
            pcpu: None,
            vcpu: vcpu.map(|vcpu| vcpu.number),
            tid: vcpu.map(|vcpu| vcpu.tid),
        }
    }

    /// The longest of what each vCPU has.
    pub(super) fn worst_of(
        &self,
        ids: &[VcpuId],
        of: fn(&OfVcpu) -> Option<(u64, u64, u32)>,
    ) -> Option<Instance> {
        let each = ids.iter().filter_map(|&id| Some((id, of(self.of(id))?)));
        let (id, (begin_ns, length_ns, cpu)) = each.max_by_key(|&(id, worst)| {
            let (begin_ns, length_ns, _) = worst;
            (length_ns, std::cmp::Reverse((begin_ns, id)))
        })?;
        Some(self.instance(begin_ns, length_ns, Some(id)).on(cpu))
    }

    /// The longest wait of a sender for a descheduled receiver.
    pub(super) fn worst_call(&self, ids: &[VcpuId]) -> Option<Instance> {
        let sent = |id: &VcpuId| self.analysis.calls.sent.get(*id)?.worst;
        let (begin_ns, length_ns, to) = ids.iter().filter_map(sent).max_by_key(|worst| worst.1)?;
        Some(self.instance(begin_ns, length_ns, Some(to)))
    }

    /// The threads that ran while these vCPUs were ready; nothing without events of the scheduler.
    pub(super) fn waits(&self, ids: &[VcpuId]) -> Option<WaitTable> {
        if self.analysis.seen.switch == 0 {
            return None;
        }
        let waits = &self.analysis.rivals.waits;
        let (mut by, mut worst) = (BTreeMap::new(), Vec::new());
        let [mut waited_ns, mut assumed_ns, mut vcpus, mut fixed_vcpus] = [0; 4];
        let sum = |of: fn(&Waits) -> u64| total(ids.iter().filter_map(|&id| waits.get(id)).map(of));
        let mut lost_after: BTreeMap<_, u64> = BTreeMap::new();
        let (shown_ns, idled_ns) = (sum(|of| of.shown_ns), sum(|of| of.idled_ns));
        let (mut prio, mut unplaced_ns) = (None, 0);
        for (&id, of) in ids.iter().filter_map(|id| Some((id, waits.get(*id)?))) {
            add(&mut waited_ns, of.total_ns);
            add(&mut assumed_ns, of.assumed_ns);
            prio = prio.max(of.prio);
            vcpus += u64::from(of.total_ns > 0);
            fixed_vcpus += u64::from(of.total_ns > 0 && of.ran_on.len() <= 1);
            for (&rival, &ns) in &of.by {
                add(by.entry(self.named(rival, ids)).or_default(), ns);
                if self.is_unplaced(rival, ids) {
                    add(&mut unplaced_ns, ns);
                }
            }
            for (&rival, &ns) in &of.lost_after {
                add(lost_after.entry(self.named(rival, ids)).or_default(), ns);
            }
            let stalls = of.worst.iter();
            worst.extend(stalls.map(|stall| {
                let instance = self.instance(stall.begin_ns, stall.length_ns, Some(id));
                instance.on(stall.cpu)
            }));
        }
        worst.sort_by_key(|worst| (std::cmp::Reverse(worst.length_ns), worst.begin_ns));
        worst.truncate(LONGEST_SHOWN);
        let mut by = rival_rows(by, waited_ns);
        let all_ns = total(by.iter().map(|row| row.ns));
        assert!(
            all_ns == waited_ns || waited_ns == u64::MAX,
            "waits by who ran are all waits: {all_ns} and {waited_ns} ns"
        );
        let parts = [shown_ns, idled_ns, assumed_ns];
        assert!(parts.iter().all(|&ns| ns <= waited_ns), "parts of waits");
        let doubted_ns = self.doubted_ns(ids);
        let cut_off = lost_after.into_iter().max_by_key(|(_, ns)| *ns);
        let beside = by.first().filter(|_| cut_off.is_none() && doubted_ns > 0);
        let beside = beside.and_then(|row| row.name.clone());
        by.truncate(RIVALS_SHOWN);
        Some(WaitTable {
            waited_ns,
            by,
            assumed_ns,
            unknown_ns: sum(|of| of.unknown_ns),
            doubted_ns,
            unplaced_ns,
            real_time_ns: self.real_time_ns(ids),
            from_begin_ns: self.longest_from_begin_ns(ids),
            until_loss: cut_off.and_then(|((_, name), _)| name).or(beside),
            ran_ns: sum(|of| of.ran_ns),
            limit: self.limit(ids),
            shown_ns,
            silent_ns: sum(|of| of.silent_ns),
            longest_silent_ns: self.longest_silent_ns(ids),
            idled_ns,
            idled: sum(|of| of.idled),
            elsewhere_idle_ns: sum(|of| of.elsewhere_idle_ns),
            vcpus,
            fixed_vcpus,
            priority: priority(prio),
            worst: worst.first().cloned(),
            longest: worst,
        })
    }

    /// The longest of their waits that began before the trace did.
    fn longest_from_begin_ns(&self, ids: &[VcpuId]) -> u64 {
        let waits = &self.analysis.rivals.waits;
        let all = ids.iter().filter_map(|&id| waits.get(id));
        let all = all.flat_map(|of| &of.worst).filter(|of| of.from_begin);
        all.map(|of| of.length_ns).max().unwrap_or(0)
    }

    /// The longest time in which a pCPU of theirs had no record while they waited for a program.
    fn longest_silent_ns(&self, ids: &[VcpuId]) -> u64 {
        let waits = &self.analysis.rivals.waits;
        let of_each = ids.iter().filter_map(|&id| waits.get(id));
        of_each.map(|of| of.longest_silent_ns).max().unwrap_or(0)
    }

    /// Of their waits, those by threads that come before all weights.
    fn real_time_ns(&self, ids: &[VcpuId]) -> u64 {
        let rivals = &self.analysis.rivals;
        let by = ids.iter().filter_map(|&id| rivals.waits.get(id));
        let first = |(rival, _): &(&Rival, &u64)| match rival {
            Rival::Thread(who) => is_real_time(rivals.names.get(*who).1),
            _ => false,
        };
        total(by.flat_map(|of| &of.by).filter(first).map(|(_, ns)| *ns))
    }

    /// Of their waits, those in which they may have run on a pCPU that lost events.
    fn doubted_ns(&self, ids: &[VcpuId]) -> u64 {
        let machine = &self.analysis.machine;
        let note = ids
            .first()
            .map(|&id| machine.vms[machine.vcpus[id].vm].note);
        let note = note.flatten().and_then(|note| self.notes?.vms.get(note));
        if self.analysis.seen.migrate > 0 || note.is_some_and(VmNote::is_pinned) {
            return 0;
        }
        let waits = &self.analysis.rivals.waits;
        let of_each = ids.iter().filter_map(|&id| waits.get(id));
        total(of_each.map(|of| of.doubted_ns))
    }

    /// The kind and the name of what ran instead of vCPUs of this VM.
    pub(super) fn named(&self, rival: Rival, own: &[VcpuId]) -> (&'static str, Option<String>) {
        match rival {
            Rival::Thread(who) => self.named_thread(who, own, &self.analysis.rivals.names),
            Rival::Others => ("host-task", Some("many others".to_owned())),
            Rival::Interrupts => ("interrupts", None),
            Rival::Limit => ("cpu-max", None),
            Rival::Waking => ("waking-pcpu", None),
            Rival::Unknown => ("untold", None),
        }
    }

    /// The same of a thread, of which the names say what it was.
    pub(super) fn named_thread(
        &self,
        who: Who,
        own: &[VcpuId],
        names: &Names,
    ) -> (&'static str, Option<String>) {
        let (tid, (name, prio)) = (who.tid, names.get(who));
        let machine = &self.analysis.machine;
        let own_vm = own.first().map(|&id| machine.vcpus[id].vm);
        if let Some(id) = machine.of_tid(tid) {
            let vm = machine.vcpus[id].vm;
            if own_vm == Some(vm) {
                return ("own-vm", None);
            }
            let name = self.name_of(machine.place_of_vm(vm), machine.vms[vm].note);
            return ("vm", Some(name));
        }
        let is_vcpu = vcpu_number(name.as_bytes()).is_some();
        let is_vhost = name.starts_with("vhost-");
        let other = match machine.owner(tid, name, own_vm) {
            Owner::Vm(vm) if Some(vm) == own_vm && is_vcpu => return ("own-vm", None),
            Owner::Vm(vm) if Some(vm) == own_vm => return ("own-vmm", Some(name.to_owned())),
            Owner::Vm(vm) => Some(self.name_of(machine.place_of_vm(vm), machine.vms[vm].note)),
            Owner::Noted(note) => self.notes.and_then(|notes| notes.vms[note].name.clone()),
            Owner::Host | Owner::Unknown => None,
        };
        match other {
            Some(vm) if is_vhost => return ("vm", Some(format!("{vm}'s {name}"))),
            Some(vm) if !is_vcpu => return ("host-task", Some(format!("the VMM of {vm}"))),
            _ if is_vhost => return ("vhost", Some(name.to_owned())),
            _ => {}
        }
        // A thread named like a vCPU's that the trace does not show in its guest, or one that QEMU
        // emulates without KVM.
        if is_vcpu || (name.starts_with("CPU ") && name.ends_with("/TCG")) {
            return ("vm", Some(format!("{name} ({tid})")));
        }
        let deferred = ["ksoftirqd/", "irq/", "napi/", "backlog_napi/"];
        let deferred = deferred.iter().any(|begin| name.starts_with(begin));
        // The name of a thread for them is cut off at 15 bytes.
        if name.starts_with("irq/") && name.contains("-vfio") {
            return ("passed-through", Some(name.to_owned()));
        }
        match name {
            // What cannot be named may be anything, another VM's vCPU too.
            "" | "<...>" => ("untold", Some(format!("thread {tid}"))),
            _ if deferred => ("interrupts", None),
            // Of a thread for each pCPU the name without the pCPU's number says enough.
            _ => {
                let (stem, number) = name.split_once('/').unwrap_or((name, ""));
                let numbered = number.starts_with(|letter: char| letter.is_ascii_digit());
                let name = match numbered {
                    true => stem.to_owned(),
                    false if number.is_empty() && stays(name) => format!("program {name}"),
                    false => name.to_owned(),
                };
                let kind = match role_of(&name) {
                    Role::Polls => "poller",
                    Role::Records => "recorder",
                    Role::Kernel(_) | Role::Unknown => "host-task",
                };
                let how = priority(prio).map_or_else(String::new, |how| format!(" ({how})"));
                (kind, Some(format!("{name}{how}")))
            }
        }
    }

    /// Whether a thread that ran instead may be of any VM's VMM, by its name or its number and as
    /// nothing shows whose it is.
    fn is_unplaced(&self, rival: Rival, own: &[VcpuId]) -> bool {
        let Rival::Thread(who) = rival else {
            return false;
        };
        let machine = &self.analysis.machine;
        let (name, _) = self.analysis.rivals.names.get(who);
        let own_vm = own.first().map(|&id| machine.vcpus[id].vm);
        let unknown = machine.owner(who.tid, name, own_vm) == Owner::Unknown;
        let may_be = || self.is_named_vmm(name) || self.is_near(who.tid, name, own);
        unknown && machine.of_tid(who.tid).is_none() && may_be()
    }

    /// Whether a thread's number, or that of the process it works for, is close to these vCPUs'.
    fn is_near(&self, tid: i32, name: &str, own: &[VcpuId]) -> bool {
        let mut process = ["iou-wrk-", "iou-sqp-"].iter();
        let process = process.find_map(|begin| name.strip_prefix(begin)?.parse().ok());
        let near = |&id: &VcpuId| {
            let of = self.analysis.machine.vcpus[id].tid;
            let by_process = process.is_some_and(|pid: i32| of.abs_diff(pid) <= NEAR_PROCESS);
            by_process || (tid > 0 && of.abs_diff(tid) <= NEAR)
        };
        let kernels = matches!(
            role_of(name.split('/').next().unwrap_or(name)),
            Role::Kernel(_)
        );
        !kernels && own.iter().any(near)
    }

    /// Whether a thread is of the VMM of these vCPUs, or may be by its name.
    pub(super) fn is_vmm(&self, tid: i32, name: &str, own: &[VcpuId]) -> bool {
        let machine = &self.analysis.machine;
        let own_vm = own.first().map(|&id| machine.vcpus[id].vm);
        match machine.owner(tid, name, own_vm) {
            Owner::Vm(vm) => Some(vm) == own_vm,
            Owner::Unknown => self.is_named_vmm(name),
            Owner::Noted(_) | Owner::Host => false,
        }
    }

    /// Whether a thread is named as one of a VMM.
    fn is_named_vmm(&self, name: &str) -> bool {
        // The kernel keeps 15 bytes of a name.
        let vms = self.notes.iter().flat_map(|notes| &notes.vms);
        let is_program = |vmm: &str| vmm.get(..15).unwrap_or(vmm) == name;
        let mut programs = vms.map(|vm| vm.vmm.as_str());
        let is_vmm = VMM_THREADS.iter().any(|begin| name.starts_with(begin));
        is_vmm || name == "migration" || programs.any(is_program)
    }

    /// Own time and rows of what exits were about, by their reason.
    pub(super) fn about(&self, ids: &[VcpuId]) -> About {
        let mut sums: BTreeMap<ExitReason, BTreeMap<Detail, (Sum, VcpuId)>> = BTreeMap::new();
        for &id in ids {
            for (&(reason, about), of) in &self.of(id).details.by {
                let reason = sums.entry(reason).or_default();
                let (sum, whose) = reason.entry(about).or_insert((Sum::default(), id));
                sum.exits += of.exits;
                sum.by_vmm += of.by_vmm;
                add(&mut sum.by_vmm_ns, of.by_vmm_ns);
                sum.user = match of.user {
                    Some(user) => Some(heavier(sum.user, user)),
                    None => sum.user,
                };
                add(&mut sum.own_ns, of.own_ns);
                add(&mut sum.host_irq_ns, of.host_irq_ns);
                sum.irq = match of.irq {
                    Some(irq) => Some(heavier(sum.irq, irq)),
                    None => sum.irq,
                };
                add(&mut sum.again_ns, of.again_ns);
                if of.worst.1 > sum.worst.1 {
                    (sum.worst, sum.worst_cpu, *whose) = (of.worst, of.worst_cpu, id);
                }
            }
        }
        let rows = sums.into_iter().map(|(reason, sums)| {
            let own_ns = total(sums.values().map(|(sum, _)| sum.own_ns));
            let rows = sums.into_iter();
            let mut rows: Vec<DetailRow> = rows
                .map(|(about, (sum, id))| self.detail(about, &sum, id))
                .collect();
            rows.sort_by(|a, b| b.own_ns.cmp(&a.own_ns).then(a.value.cmp(&b.value)));
            fold(&mut rows, ABOUT_SHOWN);
            (reason, (own_ns, rows))
        });
        rows.collect()
    }

    /// Where most exits of a reason came from that have no time, or what memory they were for.
    pub(super) fn place(&self, ids: &[VcpuId], reason: ExitReason) -> Option<DetailRow> {
        let places = ids.iter().filter_map(|&id| self.of(id).exits.place);
        let most = places
            .filter(|place| place.reason == reason && place.at != 0)
            .max_by_key(|place| place.exits)?;
        let of_all = ids.iter().filter_map(|&id| self.of(id).exits.place);
        let same = of_all.filter(|place| (place.reason, place.at) == (reason, most.at));
        Some(DetailRow {
            kind: if most.is_memory { "memory" } else { "rip" }.to_owned(),
            value: Some(hex(most.at)),
            name: None,
            exits: total(same.map(|place| place.exits)),
            by_vmm: None,
            own_ns: 0,
            by_vmm_ns: None,
            host_irq_ns: 0,
            irq: None,
            again_ns: 0,
            user: None,
            worst: None,
        })
    }

    pub(super) fn detail(&self, about: Detail, sum: &Sum, id: VcpuId) -> DetailRow {
        let (kind, value) = match about {
            Detail::Untold => ("untold", None),
            Detail::Ipi => ("ipi", None),
            Detail::Port(port) => ("port", Some(format!("{port:#x}"))),
            Detail::Msr(index) => ("msr", Some(format!("{index:#x}"))),
            Detail::Timer => ("timer", None),
            Detail::Apic(register) => ("apic", Some(format!("{register:#x}"))),
            Detail::Hypercall(nr) => ("hypercall", Some(nr.to_string())),
            Detail::Device(page) => ("device", Some(format!("{:#x}", page << 12))),
            Detail::Protected(REST) => ("protected", None),
            Detail::Memory(REST) => ("memory", None),
            Detail::Protected(part) => ("protected", Some(format!("{:#x}", part << PART))),
            Detail::Memory(part) => ("memory", Some(format!("{:#x}", part << PART))),
        };
        let told = self.analysis.seen.user_exit > 0;
        let (begin_ns, length_ns) = sum.worst;
        let worst = self.instance(begin_ns, length_ns, Some(id));
        DetailRow {
            kind: kind.to_owned(),
            value,
            name: device(about).map(str::to_owned),
            exits: sum.exits,
            by_vmm: told.then_some(sum.by_vmm),
            own_ns: sum.own_ns,
            by_vmm_ns: told.then_some(sum.by_vmm_ns),
            host_irq_ns: sum.host_irq_ns,
            irq: sum.irq.map(|(of, _)| irq_word(of).to_owned()),
            again_ns: sum.again_ns,
            user: sum
                .user
                .map(|(reason, _)| super::host::user_word(Some(reason))),
            worst: (length_ns > 0).then(|| worst.on(sum.worst_cpu)),
        }
    }
}

/// Rows of what ran, most first.
fn rival_rows(by: BTreeMap<(&str, Option<String>), u64>, waited_ns: u64) -> Vec<RivalRow> {
    let row = |((kind, name), ns): ((&str, Option<String>), u64)| RivalRow {
        kind: kind.to_owned(),
        name,
        ns,
        permille: permille(ns, waited_ns),
    };
    let mut rows: Vec<RivalRow> = by.into_iter().map(row).collect();
    rows.sort_by(|a, b| b.ns.cmp(&a.ns).then(a.name.cmp(&b.name)));
    rows
}

/// What an interrupt of the host is for, in one word.
fn irq_word(of: IrqOf) -> &'static str {
    match of {
        IrqOf::Device => "device",
        IrqOf::PassedThrough => "passed-through",
        IrqOf::Timers => "timers",
        IrqOf::Rcu => "rcu",
        IrqOf::Deferred => "deferred",
    }
}

/// Whether a priority comes before all weights.
fn is_real_time(prio: Option<u8>) -> bool {
    prio.is_some_and(|prio| prio < 100 || prio == Task::DEADLINE)
}

/// How a priority other than nice 0 is written.
fn priority(prio: Option<u8>) -> Option<String> {
    match prio? {
        120 => None,
        Task::DEADLINE => Some("deadline class".to_owned()),
        prio @ 0..100 => Some(format!("real-time priority {}", 99 - prio)),
        prio => Some(format!("nice {}", i16::from(prio) - 120)),
    }
}
