// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which changes of the tree make a record old, and what is said of the others?

use std::fs;

use steady_evidence::{Keys, todo};

use crate::common::Project;
use crate::found;

#[test]
fn a_figure_of_a_kernel_before_is_printed_as_old_with_its_key() {
    let project = Project::new();
    project.write("linux/new/shoot4u.c", "int y;\n");
    found(&project, &["docs/validation/shoot4u.md: it differs"]);
    project.render();
    assert!(project.problems().is_empty());
    let page = project.read("docs/validation/shoot4u.md");
    assert!(page.contains("| better; **old: kernel "), "{page}");
    assert!(
        project
            .read("README.md")
            .contains("| better; **old: kernel ")
    );
    assert!(
        project
            .read("docs/validation/shoot4u.svg")
            .contains(" (old)")
    );
    let house = project.house();
    let races = house.races();
    let races: Vec<&steady_evidence::Claim> = races.iter().collect();
    assert_eq!(todo(&house, &races, false).len(), 8);
}

#[test]
fn a_change_of_programs_is_said_and_makes_nothing_old() {
    let project = Project::new();
    let page = |project: &Project| {
        project.render();
        assert_eq!(project.problems(), Vec::<String>::new());
        assert!(!project.read("README.md").contains("old:"));
        project.read("docs/validation/shoot4u.md")
    };
    let said = "Agent, VMM or workloads changed since: tail.";
    assert!(!page(&project).contains(said));
    let folder = project.root().join("workloads/kernels");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("captured.c"), "int x;").unwrap();
    assert!(!page(&project).contains(said));
    // The race has neither this program nor a remedy that is one.
    project.write("workloads/pagecache.c", "int x;");
    fs::create_dir_all(project.root().join("crates/steer/src")).unwrap();
    project.write("crates/steer/src/x.rs", "fn x() {}\n");
    assert!(!page(&project).contains(said));
    project.write("workloads/shootdown.c", "int x;");
    assert!(page(&project).contains(said));
    let readme = project.read("README.md");
    assert!(
        readme.contains("250 Hz; programs changed since"),
        "{readme}"
    );
}

#[test]
fn a_change_of_tests_alone_is_none_of_programs() {
    let project = Project::new();
    fs::create_dir_all(project.root().join("crates/steer/src")).unwrap();
    let write = |text: &str| {
        project.write("crates/steer/src/x.rs", text);
        let root = project.root();
        let keys = Keys::of_tree(root, String::new(), std::collections::BTreeMap::new());
        keys.unwrap().programs
    };
    let with = |code: &str, test: &str| {
        write(&format!("{code}\n\n#[cfg(test)]\nmod tests {{\n{test}}}\n"))
    };
    let first = with("fn x() {}", "fn a() {}\n");
    assert_eq!(first, with("fn x() {}", "fn b() {}\n"));
    assert_ne!(first, with("fn y() {}", "fn a() {}\n"));
}

#[test]
fn a_change_of_the_kernel_s_documents_makes_nothing_old() {
    let project = Project::new();
    let folder = project.root().join("linux/new/Documentation");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("x.rst"), "text").unwrap();
    assert!(project.problems().is_empty());
}
