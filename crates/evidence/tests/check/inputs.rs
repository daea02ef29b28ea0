// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does a number that went in, or was fitted, ever agree with a paper?

use steady_evidence::verdict::{self, Verdict};

use super::common::{CLAIMS_FILE, Project};
use super::orders;
use super::{PAPER, found};

/// The verdict of the first item, which is that of the row `p99`.
fn first(project: &Project) -> Verdict {
    let house = project.house();
    verdict::beside(&house, &house.papers[0])[0].verdict
}

/// The tail falls, as the paper says, and the row has this basis.
fn project(basis: &str) -> Project {
    let project = Project::new();
    let line = format!("basis = \"{basis}\"\nwhat = \"p99\"");
    project.change(CLAIMS_FILE, "what = \"p99\"", &line);
    project
}

const SHOWS_NOTHING: [&str; 2] = ["input", "calibrated"];

#[test]
fn what_was_measured_or_is_a_bound_agrees_and_what_went_in_or_was_fitted_does_not() {
    for basis in ["measured", "bound"] {
        assert_eq!(first(&project(basis)), Verdict::Agrees, "{basis}");
    }
    for basis in SHOWS_NOTHING {
        let project = project(basis);
        assert_eq!(first(&project), Verdict::Input, "{basis}");
        project.render();
        assert_eq!(project.problems(), Vec::<String>::new());
        let pages = project.read("docs/validation/papers.md");
        assert!(pages.contains("| 2 | 0 | 0 | 1 |"), "{pages}");
    }
}

#[test]
fn a_claim_of_inputs_agrees_in_no_row() {
    for basis in SHOWS_NOTHING {
        let project = Project::new();
        let line = format!("basis = \"{basis}\"");
        project.change(CLAIMS_FILE, "basis = \"measured\"", &line);
        assert_eq!(first(&project), Verdict::Input, "{basis}");
    }
}

#[test]
fn what_follows_by_arithmetic_does_not_agree_though_it_was_measured_and_says_from_what() {
    let project = Project::new();
    let line = "expect = \"lower\"\nfollows = true";
    project.change(PAPER, "expect = \"lower\"", line);
    assert_eq!(first(&project), Verdict::Input);
    found(&project, &["item `one`", "`follows` has no `because`"]);
    let why = format!("{line}\nbecause = \"Both are parts of one sum.\"");
    project.change(PAPER, line, &why);
    project.render();
    assert_eq!(project.problems(), Vec::<String>::new());
}

#[test]
fn an_input_is_not_open_either_where_more_seeds_could_decide() {
    let project = project("input");
    project.save_record(3);
    assert_eq!(first(&project), Verdict::Input);
}

#[test]
fn an_input_that_differs_still_differs_and_one_without_a_number_is_beside() {
    let turned = project("input");
    turned.change(PAPER, "expect = \"lower\"", "expect = \"higher\"");
    assert_eq!(first(&turned), Verdict::Differs);
    let silent = project("input");
    silent.change(PAPER, "expect = \"lower\"\n", "");
    assert_eq!(first(&silent), Verdict::Beside);
}

#[test]
fn a_count_of_rows_with_an_input_among_them_does_not_agree() {
    for (basis, expected) in [("measured", Verdict::Agrees), ("input", Verdict::Input)] {
        let project = Project::new();
        let row = format!(
            "{}[[claim.row]]\nid = \"again\"\nvm = \"victim\"\nworkload = \"shootdown\"\n\
             measure = \"shootdown.latency.p99\"\nbasis = \"{basis}\"\nwhat = \"p99\"\n",
            project.read(CLAIMS_FILE)
        );
        project.write(CLAIMS_FILE, &row);
        let count = "number = 2\nhere = { beyond = \"0.9\", ";
        project.change(PAPER, "expect = \"lower\"\nhere = { ", count);
        assert_eq!(first(&project), expected, "{basis}");
    }
}

#[test]
fn an_order_of_a_row_and_an_input_does_not_agree() {
    for of_other in ["", "claim = \"apart\", "] {
        let than = format!("{of_other}row = \"user\"");
        let here = orders::here("tail", "shootdown", "shoot4u", &than);
        let project = orders::project(&here);
        assert_eq!(first(&project), Verdict::Agrees, "{than}");
        let text = project.read(CLAIMS_FILE);
        let user = "measure = \"guest_time.user\"\n";
        let input = text.replace(user, &format!("{user}basis = \"input\"\n"));
        project.write(CLAIMS_FILE, &input);
        assert_eq!(first(&project), Verdict::Input, "{than}");
    }
}
