// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Is a record still one of today's where the kernel changed in what a remedy brings that is off?

use std::fs;

use steady_evidence::{Keys, parts};

use crate::common::{CLAIMS_FILE, Project, SCENARIO};

const HOOK: &str = "linux/hooks/0101-paratick-tick.patch";
const BROUGHT: &str = "linux/new/tick-virtual.c";
const SAID: &str = "Kernel changed since in what paratick brings, which is off here: tail.";

/// A recorded project whose kernel has Paratick, with the table of that kernel.
fn project(scenario: &str) -> Project {
    recorded(Project::bare(), scenario)
}

fn recorded(project: Project, scenario: &str) -> Project {
    fs::create_dir_all(project.root().join("linux/hooks")).unwrap();
    project.write(HOOK, "Subject: ticks\nNew: tick-virtual.c\n---\n--- a/a\n");
    project.write(BROUGHT, "int tick;\n");
    project.write("scenarios/pair.toml", scenario);
    project.save_record(8);
    write_table(&project, |_| ());
    project.render();
    assert_eq!(project.problems(), Vec::<String>::new());
    assert!(!page(&project).contains("Kernel changed"));
    project
}

/// The table of today's kernel, after `change`.
fn write_table(project: &Project, change: impl Fn(&mut parts::Parts)) {
    let mut keys = Keys::of_tree(project.root(), Default::default()).unwrap();
    change(&mut keys.parts);
    let parts = keys
        .parts
        .iter()
        .map(|(part, key)| format!("{part} = \"{key}\""));
    let text = format!(
        "schema = 1\n[[kernel]]\nkey = \"{}\"\nparts = {{ {} }}\n",
        keys.kernel,
        parts.collect::<Vec<_>>().join(", ")
    );
    project.write("evidence/kernels.toml", &text);
}

fn page(project: &Project) -> String {
    project.read("docs/validation/shoot4u.md")
}

/// The page after a change of this file.
fn changed(project: &Project, file: &str) -> String {
    let before = project.read(file);
    project.write(file, &format!("{before}/* more */\n"));
    project.render();
    assert_eq!(project.problems(), Vec::<String>::new(), "{file}");
    let page = page(project);
    project.write(file, &before);
    page
}

#[test]
fn a_change_of_a_remedy_that_is_off_is_said_and_makes_nothing_old() {
    let project = project(SCENARIO);
    for file in [HOOK, BROUGHT] {
        let page = changed(&project, file);
        assert!(
            page.contains(SAID) && !page.contains("old: "),
            "{file}: {page}"
        );
    }
}

#[test]
fn a_change_of_anything_else_makes_it_old() {
    let project = project(SCENARIO);
    let page = changed(&project, "linux/new/shoot4u.c");
    assert!(
        page.contains("old: kernel ") && !page.contains(SAID),
        "{page}"
    );
    // Of both at once, too.
    project.write(BROUGHT, "int more;\n");
    let page = changed(&project, "linux/new/shoot4u.c");
    assert!(
        page.contains("old: kernel ") && !page.contains(SAID),
        "{page}"
    );
}

#[test]
fn a_claim_that_has_the_remedy_on_is_old_by_its_change() {
    for on in ["\"stock\"", "\"shoot4u\""] {
        let with = format!("name = {on}, paratick = {{}}");
        let project = project(&SCENARIO.replace(&format!("name = {on}"), &with));
        let page = changed(&project, BROUGHT);
        assert!(
            page.contains("old: kernel ") && !page.contains(SAID),
            "{page}"
        );
    }
}

#[test]
fn of_one_claim_only_the_variants_that_have_it_on_are_old() {
    let third = "shoot4u = {} }, { name = \"third\", paratick = {} }]";
    let project = Project::bare();
    project.change(
        CLAIMS_FILE,
        "variants = [\"shoot4u\"]",
        "variants = [\"shoot4u\", \"third\"]",
    );
    let project = recorded(project, &SCENARIO.replace("shoot4u = {} }]", third));
    let page = changed(&project, BROUGHT);
    let row = |variant: &str| {
        let mut rows = page.lines().filter(|line| line.starts_with("| Shootdowns"));
        let variant = format!(" `{variant}` |");
        rows.find(|line| line.contains(&variant))
            .unwrap()
            .to_owned()
    };
    assert!(!row("shoot4u").contains("old: "), "{page}");
    assert!(row("third").contains("old: kernel "), "{page}");
    assert!(page.contains(SAID), "{page}");
}

#[test]
fn without_the_parts_of_its_kernel_a_record_is_old() {
    let project = project(SCENARIO);
    fs::remove_file(project.root().join("evidence/kernels.toml")).unwrap();
    let page = changed(&project, BROUGHT);
    assert!(page.contains("old: kernel "), "{page}");
}

#[test]
fn a_table_that_has_other_parts_of_today_s_kernel_is_found() {
    let project = project(SCENARIO);
    write_table(&project, |parts| {
        parts.insert("rest".to_owned(), "0123456789abcdef".to_owned());
    });
    let problems = project.problems().join("\n");
    assert!(
        problems.contains("evidence/kernels.toml: kernel `") && problems.contains("is today's"),
        "{problems}"
    );
}
