// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Are the conditions of a claim those of what it races, and does the page print them?

use crate::common::{CLAIMS_FILE, Project};

#[test]
fn a_condition_that_differs_stands_with_the_variants_that_have_it() {
    let project = Project::bare();
    let remedy = "shoot4u = {}";
    let pv = format!("{remedy}, pv = {{ ipi = false }}");
    project.change("scenarios/pair.toml", remedy, &pv);
    project.change(CLAIMS_FILE, "pv = \"all\"", "pv = \"differs\"");
    project.save_record(8);
    project.render();
    assert_eq!(project.problems(), Vec::<String>::new());
    let page = project.read("docs/validation/shoot4u.md");
    let both = "all PV features (`stock`) or PV features but ipi (`shoot4u`); PLE on, window";
    assert!(page.contains(both), "{page}");
    assert!(page.contains("; 250 Hz |"), "{page}");
}
