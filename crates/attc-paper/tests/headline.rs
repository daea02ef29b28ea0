// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The short form of the reproduction against the full one, at a length that a test can afford.

use steady_attc_paper::{Settings, headline, reproduce};

fn settings(threads: usize) -> Settings {
    Settings {
        accesses: 20_000,
        warmup: 5_000,
        shootdowns: 0,
        seeds: 2,
        threads,
        ..Settings::full()
    }
}

#[test]
fn the_short_form_has_the_full_form_s_numbers() {
    let short = headline(&settings(2), &|_, _| {}).expect("it runs");
    let full = reproduce(&settings(2), &|_, _| {}).expect("it runs");
    assert_eq!(short.numbers.len(), 6);
    for number in &short.numbers {
        assert!(full.numbers.contains(number), "{}", number.measure);
    }
    let figure = full.figures.iter().find(|one| one.name == "Figure 8");
    let figure = figure.expect("the full form has the figure");
    for (at, column) in short.figures[0].columns.iter().enumerate() {
        let same = figure.columns.iter().position(|one| one == column);
        let same = same.expect("the full form has the column");
        for (mine, theirs) in short.figures[0].lines.iter().zip(&figure.lines) {
            assert_eq!(mine.1[at], theirs.1[same], "{column} of {}", mine.0);
        }
    }
}

#[test]
fn one_thread_or_many_give_the_same_bytes() {
    let run = |threads| {
        let found = headline(&settings(threads), &|_, _| {}).expect("it runs");
        (found.render(), serde_json::to_string(&found).expect("JSON"))
    };
    let one = run(1);
    assert_eq!(one, run(2));
    assert_eq!(one, run(5));
}
