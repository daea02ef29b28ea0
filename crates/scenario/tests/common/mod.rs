// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A valid scenario, and what is said of it after an edit.

use steady_scenario::Scenario;

/// A small valid scenario that has every table but `[measure]` and `[variant.switches]`.
pub const BASE: &str = include_str!("base.toml");

/// The base scenario with the first occurrence of each pair's left side replaced by its right.
#[allow(dead_code, reason = "each test file compiles this module for itself")]
pub fn edited(edits: &[(&str, &str)]) -> String {
    let mut text = BASE.to_owned();
    for (from, to) in edits {
        assert!(text.contains(from), "the base scenario has no {from:?}");
        text = text.replacen(from, to, 1);
    }
    text
}

/// The rendered problems of `text`, which must have some.
#[allow(dead_code, reason = "each test file compiles this module for itself")]
pub fn problems(text: &str) -> String {
    Scenario::parse(text, "base.toml")
        .expect_err("the text should be refused")
        .to_string()
}
