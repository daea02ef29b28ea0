// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is said of each kind of slip, to the letter: the cases are in `refused.toml`.

mod common;

use std::collections::BTreeMap;

use serde::Deserialize;

use common::{edited, problems};

#[derive(Deserialize)]
struct Case {
    edits: Vec<(String, String)>,
    said: String,
}

#[test]
fn every_slip_is_answered_in_the_words_of_its_case() {
    let cases = include_str!("refused.toml");
    let cases: BTreeMap<String, Case> = toml::from_str(cases).expect("cases are TOML");
    let wrong = cases.iter().filter_map(|(name, case)| {
        let edits = case.edits.iter();
        let edits: Vec<_> = edits.map(|(from, to)| (&**from, &**to)).collect();
        let said = problems(&edited(&edits)) + "\n";
        (said != case.said).then(|| format!("[{name}] is answered with\n{said}"))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
