// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which changes of the tree make a record old, and what is said of the others?

use std::fs;

use steady_evidence::{Keys, todo};

use crate::common::{CLAIMS, CLAIMS_FILE, Project};
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
fn a_claim_of_a_port_is_old_when_the_port_or_the_series_changes_and_no_other_is() {
    let project = Project::bare();
    let port = |version: &str, text: &str| {
        let folder = project.root().join("linux/ports").join(version);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("series"), text).unwrap();
    };
    port("7.3", "0001\n");
    port("7.9", "0001\n");
    let of_port = CLAIMS.replace("engine = ", "kernel = \"7.3\"\nengine = ");
    project.write(CLAIMS_FILE, &of_port);
    project.save_record(8);
    project.render();
    assert_eq!(project.problems(), Vec::<String>::new());
    let old = |what: &str| {
        project.render();
        let is_old = project.read("README.md").contains("old: kernel ");
        assert_eq!(project.problems(), Vec::<String>::new(), "{what}");
        is_old
    };
    port("7.9", "0002\n");
    assert!(!old("another port"));
    port("7.3", "0002\n");
    assert!(old("the port"));
    port("7.3", "0001\n");
    assert!(!old("as it was"));
    project.write("linux/port", "#!/bin/sh\n");
    assert!(old("what ports"));
    fs::remove_file(project.root().join("linux/port")).unwrap();
    project.write("linux/new/shoot4u.c", "int y;\n");
    assert!(old("the series"));
    project.write(CLAIMS_FILE, &of_port.replace("\"7.3\"", "\"7.4\""));
    let said = "claim `tail`: kernel `7.4` is not in linux/ports; expected one of: 7.3, 7.9";
    assert!(
        project.problems().join("\n").contains(said),
        "{:?}",
        project.problems()
    );
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
        let keys = Keys::of_tree(root, std::collections::BTreeMap::new());
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
fn a_change_of_what_no_claim_s_kernel_is_made_of_makes_nothing_old() {
    for (part, name, is_old) in [
        ("new/Documentation", "x.rst", false),
        ("config", "bpf.config", false),
        ("config", "lab.config", true),
    ] {
        let project = Project::new();
        let folder = project.root().join("linux").join(part);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(name), "text").unwrap();
        assert_eq!(!project.problems().is_empty(), is_old, "{name}");
    }
}
