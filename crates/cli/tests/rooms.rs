// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Is the table of rooms in `docs/ARCHITECTURE.md` what Cargo's manifests say, and does every room
//! depend on rooms above it in the table alone?

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The rooms that a manifest depends on; what only its tests use does not count.
fn needed(manifest: &Path) -> BTreeSet<String> {
    let manifest: toml::Table = fs::read_to_string(manifest).unwrap().parse().unwrap();
    let none = toml::Table::new();
    let needed = manifest.get("dependencies").map(|table| table.as_table());
    let names = needed.map_or(&none, Option::unwrap).keys();
    let names = names.filter_map(|name| name.strip_prefix("steady-"));
    names.map(str::to_owned).collect()
}

/// Room and what it depends on, in the table's order. Words in brackets or behind a `;` are not
/// dependencies.
fn table(page: &str) -> Vec<(String, BTreeSet<String>)> {
    let rows = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `crates/"));
    let rows = rows.map(|row| {
        let (room, rest) = row.split_once('`').unwrap();
        let last = rest.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        let named = last.split([';', '(']).next().unwrap();
        let words = named.split('`').skip(1).step_by(2);
        (room.to_owned(), words.map(str::to_owned).collect())
    });
    rows.collect()
}

#[test]
fn the_table_of_rooms_is_true_and_no_import_runs_upwards() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let project = own.ancestors().nth(2).unwrap();
    let page = fs::read_to_string(project.join("docs/ARCHITECTURE.md")).unwrap();
    let mut above = BTreeSet::new();
    for (room, listed) in table(&page) {
        let needed = needed(&project.join("crates").join(&room).join("Cargo.toml"));
        assert_eq!(listed, needed, "docs/ARCHITECTURE.md, row `crates/{room}`");
        let upwards: Vec<&String> = listed.difference(&above).collect();
        assert!(
            upwards.is_empty(),
            "`{room}` stands above {upwards:?} in the table"
        );
        above.insert(room);
    }
    let crates = fs::read_dir(project.join("crates")).unwrap();
    let crates = crates.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(above, crates.collect::<BTreeSet<String>>());
}
