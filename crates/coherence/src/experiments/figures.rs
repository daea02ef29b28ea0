// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The paper's figures as tables, by workload.

use super::WorkloadResults;
use super::attc::Figure;
use super::measured::Seeds;
use super::rows::{guest_share, hit_ratio, signed, slots, updates};
use crate::num::basis_points;

/// Every figure; `side` has what one seed shows.
pub(super) fn figures(seeds: &Seeds, side: &Seeds) -> Vec<Figure> {
    let mut all = gains(seeds);
    all.extend(counted(seeds));
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
                "unitd@native",
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
        gains(
            "Beyond",
            "gain over kvmtlb, Shoot4U and ATTC",
            &[kvm("shoot4u"), kvm("attc")],
        ),
    ]
}

fn counted(seeds: &Seeds) -> Vec<Figure> {
    let figure = |name, what, columns: &[&str], of: fn(&WorkloadResults) -> Vec<i64>| {
        Figure::of(seeds, name, what, columns, of)
    };
    vec![
        figure(
            "Figure 7",
            "what a shootdown is under kvmtlb (paper: over 66 % of one page, 6.6 victims)",
            &["full flushes", "per 100, pages", "per 100, victims"],
            shootdowns,
        ),
        figure(
            "Figure 9",
            "shootdowns: guest share, rate, and how many were counted",
            &["guest share", "per 10^9 instructions", "per seed, counted"],
            |w| {
                let counts = &w.get("kvmtlb").counts;
                let all = updates(w, "kvmtlb");
                let rate = all * 1_000_000_000 / counts.instructions.max(1);
                vec![guest_share(w, "kvmtlb"), signed(rate), signed(all)]
            },
        ),
        figure(
            "Figure 11",
            "ATLB hit ratio",
            &["from empty", "steady"],
            |w| vec![hit_ratio(w, "attc@cold"), hit_ratio(w, "attc")],
        ),
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
            "L2 TLB misses under kvmtlb, and what a walk takes, virtualized and native",
            &[
                "per 10^6 instructions",
                "per walk, cycles",
                "per native walk",
            ],
            |w| {
                let (c, native) = (&w.get("kvmtlb").counts, &w.get("ipi@native").counts);
                let misses = c.l2_tlb_misses * 1_000_000 / c.instructions.max(1);
                let walk = c.walk_cycles / c.walks.max(1);
                let bare = native.walk_cycles / native.walks.max(1);
                [misses, walk, bare].map(signed).to_vec()
            },
        ),
    ]
}

/// Share of full flushes, and pages and victims of a hundred shootdowns.
fn shootdowns(w: &WorkloadResults) -> Vec<i64> {
    let c = &w.get("kvmtlb").counts;
    let all = updates(w, "kvmtlb").max(1);
    let cores = u64::from(crate::config::CoreConfig::default().count);
    vec![
        signed(basis_points(c.full_flushes / cores, all)),
        signed(c.pages_revoked * 100 / all),
        signed(c.victims * 100 / c.ipi_shootdowns.max(1)),
    ]
}
