// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What another placement would have given, of made traces whose answers are counted by hand.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::fmt::Write;

use steady_decode::TraceEvents;
use steady_diagnose::{
    CauseId, Confidence, Diagnoser, Diagnosis, NotPredicted, PlacementTable, Predicted, Reach,
    StepId, VcpuNote, VmNote, VmNotes,
};

/// Names and threads of vCPUs and of others.
const VCPUS: [(&str, i32); 3] = [
    ("CPU 0/KVM", 1001),
    ("CPU 1/KVM", 1002),
    ("CPU 2/KVM", 1003),
];
const STRANGER: (&str, i32) = ("cc1", 900);
const IDLE: (&str, i32) = ("swapper", 0);

/// A second of two vCPUs: apart, then for 400 ms both on one pCPU, then apart again.
#[derive(Clone, Copy)]
struct Made {
    /// What the two pCPUs are called.
    pcpus: [u32; 2],
    /// What runs on the second while both are on the first.
    beside: (&'static str, i32),
    /// Whether they are ever together.
    stacked: bool,
    /// Whether a third waits on the first pCPU all the time.
    third: bool,
    /// What stands in the trace in its middle.
    remark: &'static str,
    /// Whether the trace shows the switch to the stranger.
    whole: bool,
    /// How many pCPUs the trace says that the machine has.
    machine: Option<u32>,
    /// What the notes say of where each vCPU may run, if there are notes.
    noted: [Option<&'static str>; 2],
}

const PLAIN: Made = Made {
    pcpus: [0, 1],
    beside: IDLE,
    stacked: true,
    third: false,
    remark: "",
    whole: true,
    machine: None,
    noted: [None, None],
};

impl Made {
    fn text(&self) -> String {
        let mut text = String::new();
        let [first, second] = self.pcpus;
        let mut line = |ms: u64, cpu: u32, who: (&str, i32), rest: &str| {
            let (s, ms) = (ms / 1000, ms % 1000);
            let (comm, tid) = who;
            let _ = writeln!(
                text,
                "{comm:>16}-{tid:<7} [{cpu:03}] d..2. {s}.{ms:03}000: {rest}"
            );
        };
        let switch = |from: (&str, i32), state: char, to: (&str, i32)| {
            format!(
                "sched_switch: prev_comm={} prev_pid={} prev_prio=120 prev_state={state} ==> \
                 next_comm={} next_pid={} next_prio=120",
                from.0, from.1, to.0, to.1
            )
        };
        let wakes = |(comm, tid): (&str, i32), cpu: u32| {
            format!("sched_wakeup: comm={comm} pid={tid} prio=120 target_cpu={cpu:03}")
        };
        let enter = |vcpu: u32| format!("kvm_entry: vcpu {vcpu}, rip 0x1");
        let [one, two, three] = VCPUS;
        if self.third {
            line(999, first, three, &enter(2));
            line(999, first, three, &switch(three, 'R', one));
        }
        line(1000, first, one, &enter(0));
        line(1000, second, two, &enter(1));
        if self.stacked {
            line(1200, second, two, &switch(two, 'S', self.beside));
            line(1200, first, one, &wakes(two, first));
            line(1400, first, one, &switch(one, 'R', two));
            if !self.whole {
                line(
                    1500,
                    second,
                    ("make", 901),
                    &switch(("make", 901), 'S', self.beside),
                );
            }
            let moves = format!(
                "sched_migrate_task: comm={} pid={} prio=120 orig_cpu={first} dest_cpu={second}",
                one.0, one.1
            );
            line(1600, second, self.beside, &moves);
            line(1600, second, self.beside, &switch(self.beside, 'S', one));
        }
        if !self.stacked {
            line(1200, first, one, &switch(one, 'R', STRANGER));
            line(1600, first, STRANGER, &switch(STRANGER, 'S', one));
        }
        let last = if self.stacked { two } else { one };
        line(2000, first, last, &enter(u32::from(self.stacked)));
        let at = text
            .match_indices('\n')
            .nth(4)
            .map_or(text.len(), |(at, _)| at + 1);
        text.insert_str(at, self.remark);
        let head = |pcpus| {
            format!("# tracer: nop\n# entries-in-buffer/entries-written: 9/9   #P:{pcpus}\n")
        };
        self.machine.map_or_else(String::new, head) + &text
    }

    fn notes(&self) -> Option<VmNotes> {
        self.noted[0]?;
        let vcpus = self.noted.iter().zip(VCPUS).zip(0..);
        let vcpus = vcpus.map(|((cpus, (_, tid)), number)| VcpuNote {
            number,
            tid,
            cpus: cpus.map(str::to_owned),
            cgroup: None,
            cpu_max: None,
            cpu_weight: None,
        });
        Some(VmNotes::new(vec![VmNote {
            name: Some("web".to_owned()),
            process: 1000,
            vmm: "qemu".to_owned(),
            cgroup: None,
            threads: Vec::new(),
            vcpus: vcpus.collect(),
        }]))
    }

    fn table(&self) -> PlacementTable {
        let table = self.diagnosis().traces.remove(0).vms.remove(0).placement;
        table.expect("two vCPUs, and switches")
    }

    fn diagnosis(&self) -> Diagnosis {
        let reader = std::io::Cursor::new(self.text().into_bytes());
        let mut source = steady_tracefile::open_stream(Box::new(reader), "lines").unwrap();
        let mut diagnoser = Diagnoser::new();
        diagnoser.notes = self.notes();
        let mut events = TraceEvents::new(source.as_mut());
        let read = diagnoser.trace("lines", &mut events, &mut |_, _, _| Ok(()));
        read.unwrap();
        diagnoser.finish()
    }
}

fn of(low_us: i64, likely_us: i64, high_us: i64) -> Option<Predicted> {
    let [low_ns, likely_ns, high_ns] = [low_us, likely_us, high_us].map(|us| us * 1000);
    Some(Predicted {
        low_ns,
        likely_ns,
        high_ns,
    })
}

/// Microseconds, the rest cut off.
fn cut(predicted: Option<Predicted>) -> Option<Predicted> {
    let Predicted {
        low_ns,
        likely_ns,
        high_ns,
    } = predicted?;
    of(low_ns / 1000, likely_ns / 1000, high_ns / 1000)
}

#[test]
fn what_parting_gives_is_what_a_hand_counts() {
    // Two want two pCPUs of which one idles: 400 ms. A stranger there: a half of it, or, if the
    // stranger moves about, two of three threads have 4/3 pCPUs instead of one: 133 ms.
    let (idle, shared) = (of(400_000, 400_000, 400_000), of(133_333, 200_000, 400_000));
    for (beside, gain, spare) in [(IDLE, idle, (400, 0)), (STRANGER, shared, (0, 400))] {
        let table = Made { beside, ..PLAIN }.table();
        assert_eq!(table.why_not, None);
        assert_eq!(cut(table.parted), gain, "{beside:?}");
        assert_eq!(
            (table.known_ns, table.stacked_ns),
            (1_000_000_000, 400_000_000)
        );
        assert_eq!(table.stacked_permille, 400);
        // Of both vCPUs 200 of 1000 ms were waits for the other. A stranger takes up to as much.
        let reach = table.reach.unwrap();
        assert_eq!(reach.high_permille, 1250, "{reach:?}");
        let least = if beside == IDLE { 1250 } else { 1000 };
        assert!(reach.low_permille >= least, "{reach:?}");
        assert!(reach.likely_permille > 1000, "{reach:?}");
        assert_eq!(table.wanted_permille, 2000);
        assert_eq!(
            (table.ran_ns, table.fair_ns),
            (1_600_000_000, 1_600_000_000)
        );
        let row = table.spare.unwrap();
        let ms = (row.idle_ns / 1_000_000, row.stranger_ns / 1_000_000);
        assert_eq!((row.pcpu, ms), (1, spare));
        let fold = table.fold.unwrap();
        assert_eq!((fold.short_ns, fold.vcpus), (400_000_000, 1));
        assert_eq!(
            (fold.locks_at_most_ns, table.calls_at_most_ns),
            (None, None)
        );
    }
}

#[test]
fn there_is_no_gain_without_siblings_on_one_pcpu_or_with_more_of_them_than_pcpus() {
    let apart = Made {
        stacked: false,
        ..PLAIN
    }
    .table();
    assert_eq!((apart.parted, apart.stacked_ns), (of(0, 0, 0), 0));
    let stays = Reach {
        low_permille: 1000,
        likely_permille: 1000,
        high_permille: 1000,
    };
    assert_eq!(apart.reach, Some(stays), "a wait for a stranger stays");
    assert_eq!(
        apart.fold.unwrap().short_ns,
        400_000_000,
        "it waits for a stranger"
    );
    let crowd = Made {
        third: true,
        ..PLAIN
    }
    .table();
    assert_eq!(
        (crowd.parted, crowd.reach, crowd.pinned),
        (of(0, 0, 0), None, None),
        "three on two"
    );
    assert_eq!(crowd.why_not, None);
}

#[test]
fn siblings_on_one_pcpu_are_to_be_parted_and_are_too_many_only_where_they_are() {
    let beside = STRANGER;
    let parted = Made { beside, ..PLAIN };
    let crowd = Made {
        third: true,
        ..parted
    };
    let only_first = Made {
        noted: [Some("0"), Some("0")],
        ..parted
    };
    let counted = Made {
        machine: Some(2),
        ..crowd
    };
    for (made, cause, step, gain) in [
        (PLAIN, CauseId::Imbalance, StepId::SpreadPins, Some(400)),
        // They share the pCPU with a stranger: a half of the 400 ms.
        (parted, CauseId::Stacked, StepId::PartVcpus, Some(200)),
        // How many pCPUs the machine has is not in the trace, or a pin holds both on one.
        (crowd, CauseId::OwnVm, StepId::PartVcpus, None),
        (only_first, CauseId::OwnVm, StepId::PartVcpus, None),
        (counted, CauseId::OwnVm, StepId::FewerVcpus, None),
    ] {
        let diagnosis = made.diagnosis();
        let first = &diagnosis.findings[0];
        assert_eq!(first.cause, cause, "{first:#?}");
        assert!(first.confidence <= Confidence::Medium, "{first:#?}");
        assert_eq!(first.next[0].id, step);
        let removes = first.next[0].gain.map(|gain| gain.removes_ns / 1_000_000);
        assert!(gain.is_none_or(|gain| removes == Some(gain)), "{removes:?}");
    }
}

#[test]
fn the_numbers_of_pcpus_change_nothing() {
    for beside in [IDLE, STRANGER] {
        let known = Made { beside, ..PLAIN }.table();
        for pcpus in [[1, 0], [7, 3], [2, 900]] {
            let mut table = Made {
                beside,
                pcpus,
                ..PLAIN
            }
            .table();
            let spare = table.spare.as_mut().unwrap();
            assert_eq!(spare.pcpu, pcpus[1]);
            spare.pcpu = 1;
            assert_eq!(table, known, "{pcpus:?}");
        }
    }
}

#[test]
fn a_pcpu_that_the_vm_may_not_use_is_not_free() {
    let only_first = Made {
        noted: [Some("0"), Some("0")],
        ..PLAIN
    }
    .table();
    assert_eq!(only_first.parted, of(0, 0, 0));
    let both = Made {
        noted: [Some("0-1"), Some("0-1")],
        ..PLAIN
    }
    .table();
    assert_eq!(both.parted, of(400_000, 400_000, 400_000));
}

#[test]
fn what_is_not_known_is_not_predicted() {
    let lost = Made {
        remark: "[...]\n",
        ..PLAIN
    };
    let partial = Made {
        whole: false,
        beside: STRANGER,
        ..PLAIN
    };
    let pinned = Made {
        noted: [Some("0"), Some("1")],
        ..PLAIN
    };
    for (made, why) in [
        (lost, NotPredicted::EventsLost),
        (partial, NotPredicted::SwitchesMissing),
        (pinned, NotPredicted::PinnedAlready),
    ] {
        let table = made.table();
        assert_eq!(table.why_not, Some(why));
        assert_eq!((table.parted, table.pinned, table.fold), (None, None, None));
        assert_eq!(table.reach, None);
        assert_eq!((table.ran_ns, table.known_ns, table.spare), (0, 0, None));
    }
}
