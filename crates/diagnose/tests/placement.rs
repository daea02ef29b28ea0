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
        diagnosed(self.text(), self.notes())
    }
}

fn diagnosed(text: String, notes: Option<VmNotes>) -> Diagnosis {
    let reader = std::io::Cursor::new(text.into_bytes());
    let mut source = steady_tracefile::open_stream(Box::new(reader), "lines").unwrap();
    let mut diagnoser = Diagnoser::new();
    diagnoser.notes = notes;
    let mut events = TraceEvents::new(source.as_mut());
    let read = diagnoser.trace("lines", &mut events, &mut |_, _, _| Ok(()));
    read.unwrap();
    diagnoser.finish()
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

/// A trace of words, each `MS:PCPU:THREAD:EVENT`. Threads 1 and up are vCPUs of one VM, 0 is the
/// idle thread and 9 a stranger; `e` enters a guest, `m` and `p` leave it for an MSR and from a
/// pause loop, `r1` and `s1` switch to thread 1 from one that is ready or sleeps, `w1@2` wakes it
/// onto pCPU 2, and `g1@2` moves it there.
fn worded(words: &str) -> Diagnosis {
    let thread = |number: i32| match number {
        0 => ("swapper".to_owned(), 0),
        9 => ("cc1".to_owned(), 1009),
        _ => (format!("CPU {}/KVM", number - 1), 1000 + number),
    };
    let mut text = String::new();
    for word in words.split_whitespace() {
        let mut parts = word.split(':');
        let mut number = || parts.next().unwrap().parse::<i32>().unwrap();
        let (ms, cpu, of) = (number(), number(), number());
        let (what, rest) = parts.next().unwrap().split_at(1);
        let (other, to) = rest.split_once('@').unwrap_or((rest, "0"));
        let (comm, tid) = thread(of);
        let (name, other) = thread(other.parse().unwrap_or(0));
        let said = match what {
            "e" => format!("kvm_entry: vcpu {}, rip 0x1", of - 1),
            "m" => "kvm_exit: reason MSR_WRITE rip 0x1 info 0 0".to_owned(),
            "p" => "kvm_exit: reason PAUSE_INSTRUCTION rip 0x1 info 0 0".to_owned(),
            "w" => format!("sched_wakeup: comm={name} pid={other} prio=120 target_cpu=00{to}"),
            "g" => format!(
                "sched_migrate_task: comm={name} pid={other} prio=120 orig_cpu=0 dest_cpu={to}"
            ),
            _ => format!(
                "sched_switch: prev_comm={comm} prev_pid={tid} prev_prio=120 prev_state={} ==> \
                 next_comm={name} next_pid={other} next_prio=120",
                what.to_uppercase()
            ),
        };
        let _ = writeln!(
            text,
            "{comm:>16}-{tid:<7} [00{cpu}] d..2. 1.{ms:03}000: {said}"
        );
    }
    diagnosed(text, None)
}

#[test]
fn how_far_a_vm_would_come_follows_switches_wake_ups_moves_and_pause_loops() {
    // vCPU 1 waits for 3 on pCPU 0 and has run 50 ms when it wakes 2, asleep from the begin. 4 has
    // run 100 ms then, and stops.
    let wakes = "0:0:1:e 0:1:4:e 0:3:2:e 0:0:1:r3 0:0:3:e 10:3:2:s0 50:0:3:r1 50:0:1:e 100:0:1:m
         100:0:1:w2@2 100:2:0:s2 100:2:2:e 100:0:1:s3 100:1:4:s0 200:2:2:m";
    // The same where the idle thread of pCPU 2 wakes it, for an interrupt.
    let irq = wakes.replace("100:0:1:w2@2", "100:2:0:w2@2");
    // vCPU 2 waits for 1 on pCPU 0, moves at 50 ms and waits for a stranger until 100.
    let moves = "0:1:0:s9 0:0:2:e 0:0:2:r1 0:0:1:e 50:0:1:m 50:0:1:g2@1 100:0:1:s0 100:1:9:s2
         100:1:2:e 200:1:2:m";
    // vCPU 1 spins from 20 ms on, while 2 and 3 take turns on pCPU 1.
    let spins = "0:0:1:e 0:1:2:e 0:1:2:r3 0:1:3:e 20:0:1:p 20:0:1:e 50:1:3:r2 50:1:2:e 100:0:1:p";
    for (words, high_permille) in [(wakes, 1333), (&irq, 1000), (moves, 1333), (spins, 2000)] {
        let diagnosis = worded(words);
        let table = diagnosis.traces[0].vms[0].placement.as_ref().unwrap();
        // Where it folds without waits, too, its clocks say how far it comes.
        let fold = table.fold.as_ref().unwrap();
        let reach = fold.reach.unwrap();
        assert_eq!(reach.high_permille, high_permille, "{words}: {reach:?}");
    }
}
