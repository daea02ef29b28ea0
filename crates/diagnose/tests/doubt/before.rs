// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waits that began before the trace did: a ring of a few seconds, and a stall that is longer.

use steady_diagnose::{CauseId, Confidence, Diagnoser, Diagnosis, Finding, FindingId};

use super::{BY_INTERRUPT, IDLE, Lines, the};

const MS: u64 = 1_000;
const HOG: (&str, i32) = ("backup", 777);
const VCPU: (&str, i32) = ("CPU 1/KVM", 1002);
/// When the vCPU comes to run, and when the trace ends, in microseconds.
const COMES: u64 = 4_800 * MS;
const ENDS: u64 = 5_000 * MS;

/// vCPU 0 halts and is woken on pCPU 0, from one second on. `hog_us` is when the ring of pCPU 1
/// begins, on which a program of real-time priority runs until vCPU 1 comes.
#[derive(Clone, Copy)]
struct Ring {
    hog_us: u64,
    /// Whether wake-ups are recorded.
    wakes: bool,
    /// Whether the switch to vCPU 1 is.
    switch: bool,
    /// When vCPU 1 is woken.
    woken_us: Option<u64>,
    /// Whether it ran and halted before.
    ran: bool,
    /// When vCPU 1 moves to pCPU 1.
    moves_us: Option<u64>,
    /// When events of pCPU 0 are lost.
    lost_us: Option<u64>,
    /// A third pCPU, and when its ring begins.
    late_us: Option<u64>,
    /// Whether the records of pCPU 0 are only those of vCPUs' threads.
    filtered: bool,
}

const RING: Ring = Ring {
    hog_us: 1_000 * MS,
    wakes: true,
    switch: true,
    woken_us: None,
    ran: false,
    moves_us: None,
    lost_us: None,
    late_us: None,
    filtered: false,
};

impl Ring {
    /// What pCPU 0 records in 10 ms.
    fn beside(&self, lines: &mut Lines, us: u64) {
        let vcpu = ("CPU 0/KVM", 1001);
        let wake = |of: (&str, i32), cpu: u32| {
            let (comm, tid) = of;
            format!("sched_wakeup: comm={comm} pid={tid} prio=120 target_cpu={cpu:03}")
        };
        lines.enter(us, 0, 0);
        lines.exit(us + 8_000, 0, 0, "HLT");
        lines.switch(us + 8_010, 0, vcpu, 'S', IDLE);
        if self.lost_us == Some(us) {
            lines.text.push_str("CPU:0 [LOST 1 EVENTS]\n");
        }
        if !self.filtered {
            lines.switch(us + 8_100, 0, IDLE, 'R', ("rcu_sched", 15));
            lines.switch(us + 8_110, 0, ("rcu_sched", 15), 'S', ("kthreadd", 2));
            lines.switch(us + 8_120, 0, ("kthreadd", 2), 'S', IDLE);
            if self.wakes {
                lines.line(us + 9_000, IDLE, 0, &wake(vcpu, 0));
            }
            if self.woken_us == Some(us) {
                lines.line(us + 9_001, IDLE, 0, &wake(VCPU, 1));
            }
            if self.moves_us == Some(us) {
                let moves = "sched_migrate_task: comm=CPU 1/KVM pid=1002 prio=120";
                lines.line(
                    us + 9_001,
                    IDLE,
                    0,
                    &format!("{moves} orig_cpu=0 dest_cpu=1"),
                );
            }
            lines.switch(us + 9_010, 0, IDLE, 'R', vcpu);
        }
    }

    fn lines(&self) -> Lines {
        let mut lines = Lines {
            filtered: true,
            ..Lines::default()
        };
        let tick = "local_timer_entry: vector=236";
        if self.ran {
            lines.enter(999 * MS, 1, 1);
            lines.exit(999 * MS + 10, 1, 1, "HLT");
            lines.switch_at(999 * MS + 20, 1, (VCPU, 120), 'S', (HOG, 49));
        }
        for us in (1_000 * MS..ENDS).step_by(10_000) {
            self.beside(&mut lines, us);
            if self.late_us == Some(us) {
                lines.line(us + 9_100, ("make", 88), 2, tick);
            }
            if us >= COMES {
                lines.enter(us + 9_500, 1, 1);
                lines.exit(us + 9_600, 1, 1, BY_INTERRUPT);
            } else if us >= self.hog_us {
                lines.line(us + 9_400, HOG, 1, tick);
            }
            if us + 10_000 == COMES && self.switch {
                lines.switch_at(COMES, 1, (HOG, 49), 'S', (VCPU, 120));
            }
        }
        lines
    }

    fn diagnosis(&self) -> Diagnosis {
        self.lines().diagnosis(None)
    }

    /// How long vCPU 1 waited, in microseconds.
    fn waited_us(&self) -> u64 {
        waited_us(&self.diagnosis())
    }
}

fn waited_us(diagnosis: &Diagnosis) -> u64 {
    let waits = diagnosis.traces[0].vms[0].waits.as_ref().unwrap();
    let longest = waits.longest.iter();
    let own = longest.filter(|at| at.vcpu == Some(1));
    own.map(|at| at.length_ns / 1_000).max().unwrap_or(0)
}

/// That the real-time program kept the vCPU from its pCPU; never surely so.
fn is_found(found: &Finding) {
    assert_eq!(found.cause, CauseId::HostTask);
    assert_eq!(found.confidence, Confidence::Medium);
    let who = found.culprits[0].name.as_deref().unwrap();
    assert!(who.starts_with("backup"), "{who}");
    assert!(found.culprits[0].permille >= 990, "{:?}", found.culprits);
}

#[test]
fn a_wait_that_began_before_the_trace_is_counted_from_where_all_pcpus_have_records() {
    // pCPU 0 has its first wake-up after 9 ms, pCPU 1 its first record after 9.4 ms.
    let diagnosis = RING.diagnosis();
    is_found(the(&diagnosis, FindingId::Steal));
    let worst = the(&diagnosis, FindingId::Steal).worst.clone().unwrap();
    assert_eq!((worst.vcpu, worst.pcpu), (Some(1), Some(1)));
    assert_eq!(
        (worst.begin_ns, worst.length_ns),
        (9_400_000, 3_790_600_000)
    );
    // The ring of the vCPU's pCPU, or another's, begins later.
    let hog_us = 2_000 * MS;
    let later = Ring { hog_us, ..RING };
    is_found(the(&later.diagnosis(), FindingId::Steal));
    assert_eq!(later.waited_us(), 2_790_600);
    let late_us = Some(3_000 * MS);
    let third = Ring { late_us, ..later };
    is_found(the(&third.diagnosis(), FindingId::Steal));
    assert_eq!(third.waited_us(), 1_790_900);
}

#[test]
fn nothing_is_inferred_where_a_wakeup_may_be_hidden() {
    let late_us = Some(COMES + 10_000);
    let none = [
        (
            "no wake-ups",
            Ring {
                wakes: false,
                ..RING
            },
        ),
        (
            "a filter",
            Ring {
                filtered: true,
                ..RING
            },
        ),
        ("a ring that begins later", Ring { late_us, ..RING }),
        (
            "it was moved",
            Ring {
                moves_us: Some(2_000 * MS),
                ..RING
            },
        ),
    ];
    for (what, ring) in none {
        assert_eq!(ring.waited_us(), 0, "{what}");
    }
    // At the trace's begin, long before the vCPU comes, and just before.
    for lost_us in [1_010 * MS, 2_000 * MS, COMES - 10_000] {
        let lost = Ring {
            lost_us: Some(lost_us),
            ..RING
        };
        assert_eq!(lost.waited_us(), 0, "lost at {lost_us}");
    }
    // A loss that comes after it takes nothing away.
    let lost_us = Some(COMES + 10_000);
    assert_eq!(Ring { lost_us, ..RING }.waited_us(), 3_790_600);
}

#[test]
fn a_vcpu_that_slept_waits_since_its_wakeup() {
    let woken_us = Some(3_000 * MS);
    let woken = Ring { woken_us, ..RING };
    assert_eq!(Ring { ran: true, ..woken }.waited_us(), 1_790_999);
    // Of a thread that ran before and was not woken, the wake-up is missing.
    assert_eq!(Ring { ran: true, ..RING }.waited_us(), 0);
    // Where nothing shows what it is when it is woken, its wait is not counted, and no more is.
    assert_eq!(woken.waited_us(), 0);
}

#[test]
fn a_vcpu_that_is_first_seen_in_its_guest_waited_until_the_record_before() {
    let unseen = Ring {
        switch: false,
        ..RING
    };
    let diagnosis = unseen.diagnosis();
    is_found(the(&diagnosis, FindingId::Steal));
    // From 9.4 ms to the last tick of the program.
    assert_eq!(unseen.waited_us(), 3_790_000);
}

/// The same of a ring that is known to begin everywhere with the trace.
fn of_whole(ring: &Ring) -> Diagnosis {
    let mut diagnoser = Diagnoser::new();
    diagnoser.whole = true;
    ring.lines().diagnosed(diagnoser)
}

#[test]
fn where_all_rings_begin_together_a_pcpu_without_records_hides_nothing() {
    let late_us = Some(COMES + 10_000);
    let hog_us = COMES;
    let ring = Ring {
        late_us,
        hog_us,
        ..RING
    };
    assert_eq!(ring.waited_us(), 0);
    // pCPU 1 has its first record when the program leaves it.
    let diagnosis = of_whole(&ring);
    is_found(the(&diagnosis, FindingId::Steal));
    assert_eq!(waited_us(&diagnosis), 3_800_000);
    // A vCPU that is in its guest for long has no record either.
    let in_guest = Ring {
        switch: false,
        ..ring
    };
    assert_eq!(waited_us(&of_whole(&in_guest)), 0);
}
