// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The paper's figures as tables, by workload.

use steady_coherence::config::MachineConfig;
use steady_coherence::num::basis_points;
use steady_coherence::scheme::atlb;
use steady_coherence::scheme::attc::invtbl;

use crate::measured::Seeds;
use crate::numbers::STORAGE;
use crate::published::VICTIMA_MPKI;
use crate::reproduction::Figure;
use crate::runs::WorkloadResults;
use crate::shares::{Shootdown, guest_share, guest_time, hit_ratio, rate, signed, slots, updates};

/// Every figure; `side` has what one seed shows.
pub(crate) fn figures(seeds: &Seeds, side: &Seeds) -> Vec<Figure> {
    let mut all = gains(seeds);
    all.extend(counted(seeds));
    all.extend(hardware(seeds));
    all.push(storage());
    all.push(Figure::gains(
        side,
        "Figure 13",
        "gain over IPIs, native, with UNITD (one seed)",
        &["hatric@native", "unitd@native", "attc@native"].map(|label| (label, "ipi@native")),
    ));
    all.push(Figure::gains(
        side,
        "Beyond",
        "gain over kvmtlb, Shoot4U and ATTC (one seed)",
        &["shoot4u", "attc"].map(|label| (label, "kvmtlb")),
    ));
    all.push(Figure::gains(
        side,
        "Figure 10",
        "gain over kvmtlb by ATTC's cycles per page (one seed)",
        &["attc", "attc@1000", "attc@2000", "attc@5000"].map(|label| (label, "kvmtlb")),
    ));
    all.push(Figure::gains(
        side,
        "Figure 14",
        "ATTC over HATRIC by the guest's share of migrations (one seed)",
        &[("attc", "hatric"), ("attc@guest-50", "hatric@guest-50")],
    ));
    all
}

fn gains(seeds: &Seeds) -> Vec<Figure> {
    let kvm = |label| (label, "kvmtlb");
    let ipi = |label| (label, "ipi@native");
    let gains = |name, what, pairs: &[(&str, &str)]| Figure::gains(seeds, name, what, pairs);
    vec![
        gains(
            "Figure 1",
            "overhead of shootdowns",
            &[ipi("ideal@native"), kvm("ideal")],
        ),
        gains(
            "Figure 8",
            "gain over kvmtlb, virtualized",
            &["pom-tlb", "hatric", "attc", "ideal", "ideal-atlb"].map(kvm),
        ),
        gains(
            "Figure 12",
            "gain over kvmtlb, DRAM only",
            &[("attc@dram", "kvmtlb@dram")],
        ),
        gains(
            "Figure 13",
            "gain over IPIs, native",
            &[
                "pom-tlb@native",
                "hatric@native",
                "attc@native",
                "ideal@native",
            ]
            .map(ipi),
        ),
        gains(
            "Figure 14",
            "ATTC over HATRIC, guest share 0 %",
            &[("attc@guest-0", "hatric@guest-0")],
        ),
    ]
}

fn counted(seeds: &Seeds) -> Vec<Figure> {
    let figure = |name, what, columns: &[&str], of: fn(&WorkloadResults) -> Vec<i64>| {
        Figure::of(seeds, name, what, columns, of)
    };
    vec![
        figure(
            "Figure 2",
            "time in guest shootdowns under kvmtlb",
            &["hybrid", "DRAM only"],
            |w| vec![guest_time(w, "kvmtlb"), guest_time(w, "kvmtlb@dram")],
        ),
        figure(
            "Figure 7",
            "what a shootdown is under kvmtlb",
            &[
                "one page",
                "two pages",
                "full flushes",
                "per 100, victims",
                "per one, initiator",
                "per victim, cycles",
            ],
            |w| Shootdown::of(w, "kvmtlb").columns().to_vec(),
        ),
        figure(
            "Figure 9",
            "shootdowns: guest share, rate, and how many were counted",
            &["guest share", "per 10^9 instructions", "per seed, counted"],
            |w| {
                let all = updates(w, "kvmtlb");
                vec![guest_share(w, "kvmtlb"), rate(w, "kvmtlb"), signed(all)]
            },
        ),
        figure(
            "Figure 11",
            "ATLB hit ratio",
            &["from empty", "steady"],
            |w| vec![hit_ratio(w, "attc@cold"), hit_ratio(w, "attc")],
        ),
    ]
}

/// What translation hardware did.
fn hardware(seeds: &Seeds) -> Vec<Figure> {
    let figure = |name, what, columns: &[&str], of: fn(&WorkloadResults) -> Vec<i64>| {
        Figure::of(seeds, name, what, columns, of)
    };
    vec![
        figure(
            "Section 4",
            "false invalidations of ATTC: of the slots looked at, and of all invalidations",
            &["of slots", "of invalidations"],
            |w| {
                let c = &w.get("attc").counts;
                let all = c.false_invalidations + c.true_invalidations;
                let looked = c.tlb_messages * slots();
                vec![
                    signed(basis_points(c.false_invalidations, looked)),
                    signed(basis_points(c.false_invalidations, all)),
                ]
            },
        ),
        figure(
            "Walks",
            "L2 TLB misses under kvmtlb, and walks (Victima's programs: 39 in 1000 instructions, \
             275 and 137 cycles; POM-TLB's measurements: \"hundreds of cycles\")",
            &[
                "per 10^6 instructions",
                "of Victima's misses",
                "per walk, cycles",
                "per native walk",
            ],
            |w| {
                let (c, native) = (&w.get("kvmtlb").counts, &w.get("ipi@native").counts);
                let misses = c.l2_tlb_misses * 1_000_000 / c.instructions.max(1);
                let walk = c.walk_cycles / c.walks.max(1);
                let bare = native.walk_cycles / native.walks.max(1);
                let of_published = signed(misses) * 10 / VICTIMA_MPKI;
                vec![signed(misses), of_published, signed(walk), signed(bare)]
            },
        ),
    ]
}

/// Table 1: what each scheme adds to the TLBs of a core, and to memory.
pub(crate) fn storage() -> Figure {
    let machine = MachineConfig::default();
    let mmu = &machine.mmu;
    let entries = [&mmu.l1_4k, &mmu.l1_2m, &mmu.l2].map(|tlb| i64::from(tlb.entries));
    let entries: i64 = entries.iter().sum();
    let bytes = |bits: i64| entries * bits / 8;
    let kib = |parameter| i64::from(machine.schemes.number(parameter));
    let tables = kib(&atlb::KIB) + kib(&invtbl::KIB);
    Figure::without_intervals(
        "Table 1",
        "storage by arithmetic: in a core's TLBs (tags of 32, 16 and 0 bits), and in DRAM",
        &["per core, bytes", "per machine, KiB", "of 16 GiB"],
        vec![
            ("unitd", vec![bytes(32), 0, 0]),
            ("hatric", vec![bytes(16), 0, 0]),
            ("attc", vec![0, tables, tables * 10_000 / (16 << 20)]),
            ("INVTBL 32 MiB", vec![0, 32 << 10, STORAGE]),
        ],
    )
}
