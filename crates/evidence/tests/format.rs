// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `docs/formats/evidence.md` has every key that the files of evidence may have.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::path::Path;

use serde::de::DeserializeOwned;
use steady_evidence::{
    CONDITION_KEYS, Claim, Here, Item, Manifest, PaperRatio, Row, Score, System,
};

/// The keys that a table may have: the reader names them when it refuses another one.
fn keys<T: DeserializeOwned>() -> Vec<String> {
    let refused = toml::from_str::<T>("no-such-key = 1");
    let said = refused
        .err()
        .expect("an unknown key is refused")
        .to_string();
    let (_, expected) = said
        .split_once("expected ")
        .expect("it says what it expects");
    let names = expected.split('`').skip(1).step_by(2);
    names.map(str::to_owned).collect()
}

fn page() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join("docs/formats/evidence.md")).unwrap()
}

/// The part of the page from one heading to the next of the same rank or above.
fn part<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, rest) = page
        .split_once(&format!("\n{heading}\n"))
        .expect("the heading is there");
    let rank = heading.split(' ').next().unwrap();
    let end = rest.match_indices("\n#").find(|(at, _)| {
        let line = &rest[at + 1..];
        line.split(' ')
            .next()
            .is_some_and(|found| found.len() <= rank.len())
    });
    &rest[..end.map_or(rest.len(), |(at, _)| at)]
}

#[test]
fn the_page_names_every_key_of_every_table() {
    let page = page();
    let tables = [
        ("## Claims", keys::<System>()),
        ("## Claims", keys::<Score>()),
        ("### `[[claim]]`", keys::<Claim>()),
        ("### `[[claim.row]]`", keys::<Row>()),
        ("## Papers", keys::<Manifest>()),
        ("### `[[item]]`", keys::<Item>()),
        ("### `[[item]]`", keys::<PaperRatio>()),
        ("### `[[item]]`", keys::<Here>()),
        (
            "### `[[claim]]`",
            CONDITION_KEYS.map(str::to_owned).to_vec(),
        ),
    ];
    for (heading, keys) in tables {
        assert!(keys.len() > 1, "{heading}: {keys:?}");
        let part = part(&page, heading);
        let code = part.split('`').skip(1).step_by(2);
        let words: Vec<&str> = code
            .flat_map(|code| code.split(|c: char| !c.is_alphanumeric() && c != '_'))
            .collect();
        for key in keys {
            let named = words.contains(&key.as_str());
            assert!(named, "{heading}: no `{key}` in docs/formats/evidence.md");
        }
    }
}

#[test]
fn a_part_ends_with_the_next_heading_of_its_rank() {
    let page = "x\n## One\na\n### Inner\nb\n## Two\nc\n";
    assert_eq!(part(page, "## One"), "a\n### Inner\nb");
    assert_eq!(part(page, "### Inner"), "b");
}
