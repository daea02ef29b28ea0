// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page: whole, alone, the same each time, and safe whatever the result says.

mod common;

use std::collections::BTreeSet;

use steady_measures::RunResult;
use steady_report::html::page;

/// The values of an attribute, in order.
fn attributes<'a>(page: &'a str, name: &str) -> Vec<&'a str> {
    page.split(&format!(" {name}=\""))
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect()
}

/// Why tags do not nest; checks every element of HTML and SVG that the page may have.
fn misnested(page: &str) -> Option<String> {
    const EMPTY: [&str; 2] = ["meta", "!DOCTYPE"];
    let mut open: Vec<&str> = Vec::new();
    for tag in page.split('<').skip(1) {
        let (inside, _) = tag.split_once('>')?;
        let name = inside.split([' ', '/', '\n']).next().unwrap_or_default();
        if let Some(closed) = inside.strip_prefix('/') {
            if open.pop() != Some(closed) {
                return Some(format!("</{closed}> closes nothing"));
            }
        } else if !inside.ends_with('/') && !EMPTY.contains(&name) {
            open.push(name);
        }
    }
    open.pop().map(|left| format!("<{left}> is left open"))
}

#[test]
fn the_page_needs_nothing_beside_it() {
    let page = page(&[common::bochs(), common::qemu()]).unwrap();
    for foreign in [
        "http:", "https:", "//", " src=", "url(", "@import", "<link", "<script",
    ] {
        assert!(!page.contains(foreign), "the page has {foreign}");
    }
    // For the eye: the page that these checks are made on.
    let kept = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("page.html");
    std::fs::write(kept, page).unwrap();
}

#[test]
fn tags_nest_and_ids_are_unique() {
    let page = page(&[common::bochs(), common::qemu()]).unwrap();
    assert_eq!(misnested(&page), None);
    let ids = attributes(&page, "id");
    let unique: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(ids.len(), unique.len());
    for label in attributes(&page, "aria-labelledby") {
        assert!(label.split(' ').all(|id| unique.contains(id)), "{label}");
    }
}

#[test]
fn every_chart_has_a_title_and_a_description() {
    let page = page(&[common::bochs()]).unwrap();
    let charts = page.matches("<svg").count();
    assert!(charts > 10, "{charts} charts");
    assert_eq!(page.matches("-t\">").count(), charts);
    assert_eq!(page.matches("<desc id=").count(), charts);
    assert!(!page.contains("-d\"></desc>"), "an empty description");
}

#[test]
fn header_cells_say_what_they_head() {
    let page = page(&[common::bochs()]).unwrap();
    assert_eq!(
        page.matches("<th ").count(),
        page.matches("<th scope=").count()
    );
    assert!(!page.contains("<th>"));
}

#[test]
fn the_same_results_give_the_same_bytes() {
    let result = common::bochs();
    let again = RunResult::from_json("again", &result.to_json()).unwrap();
    assert_eq!(page(&[result]).unwrap(), page(&[again]).unwrap());
}

#[test]
fn no_string_of_a_result_becomes_markup() {
    let evil = "\"'></title></svg></style><script>alert(1)</script>&\u{1b}";
    let text = String::from_utf8(common::bochs().to_json()).unwrap();
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    poison(&mut value, evil);
    let result: RunResult = serde_json::from_value(value).unwrap();
    let page = page(&[result]).unwrap();
    assert!(page.contains("alert(1)"), "the strings are shown");
    assert!(!page.contains("<script"), "a string became markup");
    assert_eq!(page.matches("</style>").count(), 1);
    assert_eq!(misnested(&page), None);
}

/// Appends `evil` to every string that a result may choose freely.
fn poison(value: &mut serde_json::Value, evil: &str) {
    const FIXED: [&str; 4] = ["schema", "clock", "unit", "better"];
    match value {
        serde_json::Value::String(text) => text.push_str(evil),
        serde_json::Value::Array(items) => items.iter_mut().for_each(|item| poison(item, evil)),
        serde_json::Value::Object(object) => {
            // Names of metrics are checked when a result is read; all other names are free.
            let metric = object.contains_key("unit");
            for (key, item) in object.iter_mut() {
                let fixed = FIXED.contains(&key.as_str()) || (metric && key == "name");
                if !fixed {
                    poison(item, evil);
                }
            }
        }
        _ => {}
    }
}

#[test]
fn warnings_stand_before_the_numbers() {
    let page = page(&[common::bochs()]).unwrap();
    let warning = page.find("The trace lost 412").unwrap();
    assert!(warning < page.find("<h3>Verdict</h3>").unwrap());
}

#[test]
fn the_page_begins_with_the_answer_and_the_picture_of_its_intervals() {
    let mut result = common::bochs();
    for variant in &mut result.variants {
        let first = variant.repetitions[0].clone();
        variant.repetitions = (0..8)
            .map(|index| {
                let mut one = first.clone();
                one.index = index;
                // Runs that differ in nothing would be one run.
                one.metrics[0].value += i64::from(index);
                one
            })
            .collect();
    }
    let page = page(&[result]).unwrap();
    let answer = page.find("], better, 8 runs");
    let answer = answer.expect("an interval in words");
    let picture = page.find("<h3>Ratio to ipi").expect("the picture");
    let facts = page.find("<dl class=\"facts\">").unwrap();
    assert!(answer < picture && picture < facts);
    assert_eq!(misnested(&page), None);
}

#[test]
fn a_page_of_too_few_runs_claims_nothing_and_begins_with_the_latencies() {
    let page = page(&[common::qemu()]).unwrap();
    assert!(page.contains("One run: no claim."));
    assert!(!page.contains("<h3>Ratio to"));
    let latencies = page.find("Share of all values up to each latency").unwrap();
    assert!(latencies < page.find("<dl class=\"facts\">").unwrap());
}

#[test]
fn two_engines_are_told_apart_and_no_ratio_crosses() {
    let page = page(&[common::bochs(), common::qemu()]).unwrap();
    assert!(page.contains("two-vms on bochs") && page.contains("two-vms on qemu"));
    let alone = steady_report::html::page(&[common::qemu()]).unwrap();
    let verdict = |page: &str| {
        let (_, rest) = page.rsplit_once("<h3>Verdict</h3>").unwrap();
        rest.split("</table>")
            .next()
            .unwrap()
            .split_once("<table")
            .unwrap()
            .1
            .to_owned()
    };
    assert_eq!(verdict(&page), verdict(&alone));
}

#[test]
fn a_result_without_measures_is_shown() {
    let mut result = common::bochs();
    for variant in &mut result.variants {
        variant.repetitions.clear();
    }
    let page = page(&[result]).unwrap();
    assert_eq!(misnested(&page), None);
    assert!(page.contains("kvm-pv"));
}
