// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Are the conditions of a claim those of what it races, and does the page print them? Does it
//! print what is disclosed?

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

#[test]
fn what_two_claims_disclose_in_the_same_words_stands_once_on_their_page() {
    let project = Project::bare();
    let disclosed = "seeds = 8\ndisclosed = [\"The pause was chosen before.\"]";
    project.change(CLAIMS_FILE, "seeds = 8", disclosed);
    let text = project.read(CLAIMS_FILE);
    let (_, claim) = text.split_once("[[claim]]\n").unwrap();
    let other = claim.replace("id = \"tail\"", "id = \"tail-again\"");
    project.write(CLAIMS_FILE, &format!("{text}[[claim]]\n{other}"));
    project.save_record(8);
    project.render();
    assert_eq!(project.problems(), Vec::<String>::new());
    let page = project.read("docs/validation/shoot4u.md");
    assert_eq!(
        page.matches("- The pause was chosen before.").count(),
        1,
        "{page}"
    );
}
