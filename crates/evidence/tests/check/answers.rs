// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Do records still show what this project's answers say is not better than the originals?

use std::collections::BTreeMap;
use std::path::Path;

use steady_evidence::{Entry, House, Keys, entry};
use steady_measures::chance::Verdict;

fn house() -> House {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let keys = Keys::of_tree(&root, BTreeMap::new()).unwrap();
    House::load(&root, keys).unwrap()
}

/// The cells of a variant, row by row.
fn cells(house: &House, claim: &str, variant: &str) -> Vec<Entry> {
    let claim = house.claim(claim).unwrap();
    let of = |row| entry(house, claim, row, variant, None).unwrap();
    claim.rows.iter().map(of).collect()
}

/// The rows that are not shown to be better.
fn not_better(house: &House, claim: &str, variant: &str) -> Vec<String> {
    let cells = cells(house, claim, variant).into_iter();
    let rest = cells.filter(|cell| cell.verdict() != Some(Verdict::Better));
    rest.map(|cell| cell.row).collect()
}

/// The rows in which the intervals of two claims of the same rows overlap.
fn overlapping(house: &House, one: [&str; 2], other: [&str; 2]) -> Vec<String> {
    let ends = |cell: &Entry| {
        let ratio = cell.cell.ratio.unwrap();
        (ratio.low_ppm.unwrap(), ratio.high_ppm.unwrap())
    };
    let pairs = cells(house, one[0], one[1])
        .into_iter()
        .zip(cells(house, other[0], other[1]));
    let overlap = pairs.filter(|(one, other)| {
        assert_eq!(one.row, other.row);
        let ((low, high), (from, to)) = (ends(one), ends(other));
        low <= to && from <= high
    });
    overlap.map(|(one, _)| one.row).collect()
}

#[test]
fn in_no_row_is_our_paratick_better_than_the_published_design() {
    let house = house();
    for (claim, variant) in [
        ("paratick-over-published", "paratick-beside"),
        ("paratick-over-published-alone", "paratick-alone"),
    ] {
        let rows = house.claim(claim).unwrap().rows.len();
        assert_eq!(not_better(&house, claim, variant).len(), rows, "{claim}");
    }
}

#[test]
fn rows_that_the_talk_s_pages_call_not_better_are_those() {
    let house = house();
    let ours = not_better(&house, "boost-eevdf", "both");
    assert_eq!(ours, ["mean", "pagecache", "neighbour"]);
    let plain = not_better(&house, "boost-eevdf-plain", "plain-both");
    assert_eq!(plain, [""; 0]);
    let pinned = not_better(&house, "boost-8vcpu", "both");
    assert_eq!(pinned, ["pagecache-ple-exits"]);
    assert_eq!(not_better(&house, "boost-programs", "talk").len(), 4);
}

#[test]
fn rows_whose_intervals_overlap_the_talk_s_are_those_that_its_page_names() {
    let house = house();
    for (ours, talk, expected) in [
        (
            ["boost-eevdf", "both"],
            ["boost-cfs", "talk"],
            vec!["mean", "pagecache", "neighbour"],
        ),
        (
            ["boost-eevdf", "both"],
            ["boost-cfs", "talk-anywhere"],
            vec!["mean", "ple-exits", "neighbour"],
        ),
        (
            ["boost-eevdf-plain", "plain-both"],
            ["boost-cfs-plain", "plain-talk"],
            vec!["mean", "neighbour"],
        ),
    ] {
        assert_eq!(overlapping(&house, ours, talk), expected, "{talk:?}");
    }
}
