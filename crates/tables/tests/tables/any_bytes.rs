// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Any bytes are read without a panic, and no table, however changed, gives high confidence.

use proptest::prelude::*;
use steady_diagnose::Confidence;
use steady_tables::{Incident, Kind, read};

/// A table of each kind.
const SEEDS: [&str; 17] = [
    "  VM-EXIT    Samples  Samples%     Time%    Min Time    Max Time         Avg time\n\
     HLT  55654  78.67%  42.39%  3.54us  74.94us  13.63us ( +- 0.24% )\n\
     IO_INSTRUCTION  7114  10.06%  50.74%  1.46us  200016.58us  1.87us ( +- 0.30% )\n",
    "kvm statistics - pid 1 (a)\n Event  Total %Total CurAvg/s\n kvm_exit 1133 20.5 80\n",
    "  1,880 kvm:kvm_entry\n  1,934 kvm:kvm_exit\n  10.0 seconds time elapsed\n",
    " Task | Runtime ms | Switches | Avg delay ms | Max delay ms | Max delay start |\n\
     CPU 3/KVM:1 | 1934.714 ms | 41896 | avg: 0.007 ms | max: 92.126 ms | max start: 5.1 s |\n",
    " time cpu task name wait time  sch delay   run time\n\
     991962.880070 [0002]  CPU 0/KVM[4711/4700]  0.000  10.000  5.000\n",
    "Domain: 'a'\n  vcpu.0.time=3000000000\n  vcpu.0.delay=1000000000\n",
    "     usecs               : count     distribution\n\
     0 -> 1 : 9 |**|\n 65536 -> 131071 : 1 |*|\n",
    "TIME COMM TID LAT(us) PREV COMM PREV TID\n18:40:23 CPU 0/KVM 4711 90000 backup 900\n",
    "CPU 0/KVM (4711, #threads: 9)\n\
     se.sum_exec_runtime : 70.5\nwait_sum : 30.0\nwait_max : 900.0\n",
    "75000000000 25000000000 12345\n",
    "nr_periods 1000\nnr_throttled 600\nthrottled_usec 45000000\n",
    "50000 100000\n",
    "some avg10=62.50 avg60=40.00 avg300=12.00 total=45000000\n",
    "14:00:01 CPU %usr %steal %guest %idle\n14:00:02 all 50.00 10.00 0.00 40.00\n",
    " r  b swpd us sy id wa st\n 5  0 0 60 10 10  0 20\n 6  0 0 60 10  0  0 30\n",
    "%Cpu(s): 50.0 us,  5.0 sy,  0.0 ni, 20.0 id,  0.0 wa,  0.0 hi,  1.0 si, 24.0 st\n",
    "[ 1.0] watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [a:1]\n\
     [ 1.0] RIP: 0010:smp_call_function_many_cond+0x11e/0x4f0\n\
     [ 1.0]  flush_tlb_mm_range+0x1/0x2\n",
];

/// Reads bytes and holds what comes of them against what is always so.
fn held(bytes: &[u8], other: &[u8]) -> Result<(), TestCaseError> {
    let mut incident = Incident::default();
    for (name, mut bytes) in [("one", bytes), ("two", other)] {
        if let Ok(tables) = read(&mut bytes, name) {
            incident.add(tables);
        }
    }
    for (trace, findings) in incident.judge() {
        let table = trace.table.as_ref();
        prop_assert!(table.is_some_and(|table| !table.cannot_show.is_empty()));
        for finding in findings {
            prop_assert!(finding.confidence < Confidence::High, "{:?}", finding);
            prop_assert!(finding.lost_permille <= 1000, "{:?}", finding);
            prop_assert!(finding.evidence.len() <= 16);
        }
    }
    Ok(())
}

#[test]
fn each_seed_is_of_its_kind() {
    for (seed, kind) in SEEDS.iter().zip(Kind::ALL) {
        let tables = read(&mut seed.as_bytes(), "input").unwrap();
        assert_eq!(tables.kinds(), [kind], "{seed}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..4096)) {
        held(&bytes, b"")?;
    }

    #[test]
    fn any_lines_of_known_words_are_read_or_refused(
        words in proptest::collection::vec((0..SEEDS.len(), 0_usize..40, any::<bool>()), 0..200),
    ) {
        let mut text = String::new();
        for (seed, word, end) in words {
            let all: Vec<&str> = SEEDS[seed].split([' ', '\n']).collect();
            text.push_str(all[word % all.len()]);
            text.push(if end { '\n' } else { ' ' });
        }
        held(text.as_bytes(), b"")?;
    }

    #[test]
    fn a_changed_table_never_gives_high_confidence(
        one in 0..SEEDS.len(),
        two in 0..SEEDS.len(),
        changes in proptest::collection::vec(
            (any::<prop::sample::Index>(), any::<u8>(), 0_u8..4),
            0..12,
        ),
    ) {
        let mut bytes = SEEDS[one].repeat(2).into_bytes();
        for (at, byte, how) in changes {
            let at = at.index(bytes.len().max(1)).min(bytes.len().saturating_sub(1));
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                // More digits: numbers beyond what fits.
                2 => bytes.splice(at..at, b"99999999999999999999".iter().copied()).for_each(drop),
                _ if bytes.len() > 1 => drop(bytes.remove(at)),
                _ => {}
            }
        }
        held(&bytes, SEEDS[two].as_bytes())?;
    }
}

#[test]
fn a_file_of_one_long_line_and_one_of_many_names_stay_small() {
    use std::io::Read as _;
    let mut long = std::io::repeat(b'x').take(64 << 20);
    assert!(read(&mut long, "input").is_err());
    let mut names = String::from("Task | Runtime ms | Switches | Avg delay ms |\n");
    for task in 0..20_000 {
        names += &format!("t{task}:{task} | 1.0 ms | 1 | avg: 60.0 ms | max: 60.0 ms |\n");
    }
    let tables = read(&mut names.as_bytes(), "input").unwrap();
    let mut incident = Incident::default();
    incident.add(tables);
    let (trace, findings) = incident.judge().remove(0);
    assert_eq!((trace.events, findings.len()), (20_000, 1));
    assert!(findings[0].evidence.len() <= 16);
}
