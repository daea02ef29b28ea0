// SPDX-License-Identifier: Apache-2.0 OR MIT
//! vCPUs beside an idle pCPU, and a limit that the notes have: those of one control group share one
//! quota, and a limit that they exceed, or did not use up, does not keep them off their pCPUs.

use steady_diagnose::{CauseId, Confidence, FindingId, VmNotes};

use super::{BY_INTERRUPT, IDLE, Lines, comm, notes, the};

/// In each of these periods each vCPU runs for its time in microseconds, and its pCPU idles.
fn lines(periods: u64, period_us: u64, run_us: &[u64]) -> Lines {
    let mut all: Vec<(u64, usize, u8)> = Vec::new();
    for period in 0..periods {
        let us = 1_000_000 + period * period_us;
        for (vcpu, &run_us) in run_us.iter().enumerate() {
            let end_us = us + run_us;
            all.extend([(us + 4, vcpu, 0), (end_us - 2, vcpu, 1)]);
            if end_us < us + period_us {
                all.extend([(end_us, vcpu, 2), (us + period_us, vcpu, 3)]);
            }
        }
    }
    all.sort_unstable();
    let mut lines = Lines::default();
    for (us, vcpu, what) in all {
        let (number, cpu) = (i32::try_from(vcpu).unwrap(), u32::try_from(vcpu).unwrap());
        let name = comm(number);
        let me = (name.as_str(), 1001 + number);
        match what {
            0 => lines.enter(us, number, cpu),
            1 => lines.exit(us, number, cpu, BY_INTERRUPT),
            2 => lines.switch(us, cpu, me, 'R', IDLE),
            _ => lines.switch(us, cpu, IDLE, 'R', me),
        }
    }
    lines
}

/// Notes of these vCPUs, all in one group or each in its own.
fn of_vcpus(count: usize, limit: &str, one_group: bool) -> Option<VmNotes> {
    let mut noted = notes(&[1000], Some(limit)).unwrap();
    let first = noted.vms[0].vcpus.remove(0);
    for number in 0..u32::try_from(count).unwrap() {
        let mut vcpu = first.clone();
        (vcpu.number, vcpu.tid) = (number, 1001 + number.cast_signed());
        let group = if one_group { 0 } else { number };
        vcpu.cgroup = Some(format!("/machine/web/vcpu{group}"));
        noted.vms[0].vcpus.push(vcpu);
    }
    Some(noted)
}

#[test]
fn an_idle_pcpu_is_a_limits_only_where_those_that_share_it_use_it_up_and_no_more() {
    let (limit, other) = (CauseId::CpuMax, CauseId::IdleBeside);
    // Periods, how many milliseconds of 100 each vCPU runs, the quota, whether they share a group.
    let cases: [(u64, &[u64], &str, bool, CauseId); 14] = [
        (20, &[50, 100], "150000 100000", true, limit),
        (20, &[60, 60], "120000 100000", true, limit),
        (20, &[50, 50], "50000 100000", false, limit),
        // The limit is of a group above theirs.
        (20, &[60, 100], "160000 100000", false, limit),
        // They exceed it.
        (20, &[50, 100], "120000 100000", true, other),
        (20, &[70, 100], "150000 100000", true, other),
        (5, &[70, 100], "150000 100000", true, other),
        (20, &[50, 50], "50000 100000", true, other),
        (20, &[75, 75, 75, 95], "300000 100000", true, other),
        (5, &[60], "50000 100000", true, other),
        (10, &[56], "50000 100000", true, other),
        (5, &[50], "50000 100000", true, limit),
        // They do not use it up.
        (20, &[40, 60], "150000 100000", true, other),
        (20, &[90, 90], "150000 100000", false, other),
    ];
    for (periods, run_ms, quota, one_group, cause) in cases {
        let noted = of_vcpus(run_ms.len(), quota, one_group);
        let run_us: Vec<u64> = run_ms.iter().map(|ms| ms * 1_000).collect();
        let diagnosis = lines(periods, 100_000, &run_us).diagnosis(noted);
        let steal = the(&diagnosis, FindingId::Steal);
        let sure = match cause == limit {
            true => Confidence::High,
            false => Confidence::Medium,
        };
        let at = format!("{periods} {run_ms:?} {quota} {one_group}");
        assert_eq!((steal.cause, steal.confidence), (cause, sure), "{at}");
    }
}

#[test]
fn idle_times_too_short_to_be_counted_are_no_groups_limit() {
    let noted = of_vcpus(2, "180000 100000", false);
    let diagnosis = lines(400, 4_900, &[4_000, 4_000]).diagnosis(noted);
    let steal = the(&diagnosis, FindingId::Steal);
    let found = (steal.cause, steal.confidence);
    assert_eq!(found, (CauseId::IdleBeside, Confidence::Medium));
}

/// Writes a line.
type Writes = Box<dyn Fn(&mut Lines)>;

/// The two vCPUs run for `own` ms of each 100 ms, the main thread of their VMM for `main`, and the
/// vCPU of another VM for `other`, each on its own pCPU.
fn with_others(own: u64, main: u64, other: u64) -> Lines {
    let mut lines = Lines::default();
    for us in (0..20).map(|period| 1_000_000 + period * 100_000) {
        let mut all: Vec<(u64, Writes)> = Vec::new();
        for (vcpu, ms) in [(0, own), (1, own), (1000, other)] {
            let cpu = u32::try_from(vcpu % 999).unwrap() + u32::from(vcpu == 1000);
            let end_us = us + ms * 1_000;
            if ms == 0 {
                continue;
            }
            all.push((
                us + 4,
                Box::new(move |lines| lines.enter(us + 4, vcpu, cpu)),
            ));
            all.push((
                end_us - 2,
                Box::new(move |lines| lines.exit(end_us - 2, vcpu, cpu, BY_INTERRUPT)),
            ));
            let switch = move |lines: &mut Lines, us: u64, leaves: bool| {
                let name = comm(vcpu);
                let me = (name.as_str(), 1001 + vcpu);
                let (from, to) = if leaves { (me, IDLE) } else { (IDLE, me) };
                lines.switch(us, cpu, from, 'R', to);
            };
            all.push((end_us, Box::new(move |lines| switch(lines, end_us, true))));
            let next_us = us + 100_000;
            all.push((
                next_us,
                Box::new(move |lines| switch(lines, next_us, false)),
            ));
        }
        if main > 0 {
            let end_us = us + main * 1_000;
            let thread = ("qemu-system-x86", 1000);
            all.push((
                us + 6,
                Box::new(move |lines| lines.switch(us + 6, 7, IDLE, 'R', thread)),
            ));
            all.push((
                end_us,
                Box::new(move |lines| lines.switch(end_us, 7, thread, 'S', IDLE)),
            ));
        }
        all.sort_by_key(|(us, _)| *us);
        all.iter().for_each(|(_, write)| write(&mut lines));
    }
    lines
}

#[test]
fn a_quota_is_used_up_by_the_vmm_and_by_other_vms_of_its_group_too() {
    let (limit, other) = (CauseId::CpuMax, CauseId::IdleBeside);
    // How long each runs, and whether the other VM's group is in the same slice.
    for (own, main, second, same, cause) in [
        (30, 40, 0, true, limit),
        (30, 20, 0, true, other),
        (30, 0, 40, true, limit),
        (30, 0, 40, false, other),
        (30, 0, 20, true, other),
        (20, 30, 30, true, limit),
        (50, 0, 0, true, limit),
        (30, 0, 0, true, other),
    ] {
        let mut noted = of_vcpus(2, "100000 100000", true).unwrap();
        let mut beside = notes(&[], Some("100000 100000")).unwrap().vms.remove(0);
        beside.process = 2000;
        beside.vcpus[0].tid = 2001;
        let slice = if same { "machine" } else { "user" };
        beside.vcpus[0].cgroup = Some(format!("/{slice}/db/vcpu0"));
        beside.name = Some("db".to_owned());
        noted.vms.push(beside);
        let diagnosis = with_others(own, main, second).diagnosis(Some(noted));
        let web = |of: &&steady_diagnose::Finding| of.vm.as_deref() == Some("web");
        let steal = diagnosis.findings.iter().find(web).unwrap();
        let at = format!("{own} {main} {second} {same}");
        assert_eq!((steal.id, steal.cause), (FindingId::Steal, cause), "{at}");
        // That a group's other threads used the rest is a likeness.
        let alone = own == 50;
        assert_eq!(steal.confidence == Confidence::High, alone, "{at}");
    }
}
