// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Charts, to the byte.

use steady_measures::{Histogram, Unit};
use steady_report::svg::bars::{self, Bar};
use steady_report::svg::cdf::{self, Curve};
use steady_report::svg::stacked::{self, Stack};

fn bar(label: &str, value: u64, range: Option<(u64, u64)>, series: usize) -> Bar {
    Bar {
        label: label.to_owned(),
        value,
        range,
        text: format!("{value} ns"),
        note: "×0.50".to_owned(),
        series,
    }
}

#[test]
fn bars_are_in_proportion_and_show_their_range() {
    let bars = [
        bar("ipi", 1_000, Some((900, 2_000)), 0),
        bar("kvm-pv", 500, None, 1),
        bar("zero", 0, None, 2),
    ];
    insta::assert_snapshot!(bars::draw("x", "latency", &bars, 3_400));
}

#[test]
fn a_bar_that_is_not_zero_is_seen() {
    let bars = [
        bar("long", 1_000_000_000, None, 0),
        bar("short", 1, None, 1),
    ];
    let svg = bars::draw("x", "latency", &bars, 3_400);
    assert!(
        svg.contains(r#"<rect class="s1" x="0" y="56" width="1.5""#),
        "{svg}"
    );
}

#[test]
fn a_long_name_is_cut_before_the_value() {
    let bars = [bar(&"name".repeat(30), 5, None, 0)];
    let svg = bars::draw("x", "latency", &bars, 3_400);
    let (_, rest) = svg.split_once(r#"text-anchor="start">"#).unwrap();
    let (label, _) = rest.split_once("</text>").unwrap();
    assert!(
        label.ends_with('…') && label.chars().count() < 38,
        "{label}"
    );
}

#[test]
fn parts_of_a_whole_fill_it_without_gaps() {
    let names = ["shootdown", "lock", "user"].map(str::to_owned);
    let part = |size: u64| (size, format!("{size} ms"));
    let stacks = [
        Stack {
            label: "ipi".to_owned(),
            text: "100 ms".to_owned(),
            parts: vec![part(50), part(0), part(50)],
        },
        Stack {
            label: "kvm-pv".to_owned(),
            text: "40 ms".to_owned(),
            parts: vec![part(10), part(1), part(29)],
        },
    ];
    insta::assert_snapshot!(stacked::draw("x", "guest time", &names, &stacks, 3_400));
}

#[test]
fn a_cdf_rises_from_least_to_greatest() {
    let mut fast = Histogram::new();
    fast.record_n(20, 3);
    fast.record(50);
    let mut slow = Histogram::new();
    slow.record(40);
    slow.record(4_000);
    let (fast, slow) = (
        fast.distribution("latency", Unit::Ns).unwrap(),
        slow.distribution("latency", Unit::Ns).unwrap(),
    );
    let curve = |label, values, series| Curve {
        label,
        values,
        series,
    };
    let curves = [curve("ipi", &slow, 0), curve("kvm-pv", &fast, 1)];
    let svg = cdf::draw("x", "latency", &curves, (3_400, 2_600)).unwrap();
    insta::assert_snapshot!(svg);
}

#[test]
fn nothing_is_drawn_of_nothing() {
    let empty = Histogram::new().distribution("latency", Unit::Ns).unwrap();
    let curve = Curve {
        label: "ipi",
        values: &empty,
        series: 0,
    };
    assert_eq!(cdf::draw("x", "latency", &[curve], (3_400, 2_600)), None);
}
