// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `linux/apply`: a stack of hooks, whole or not at all.

use crate::bench::{Bench, files_of, numbered};

const FIRST: &str = "linux/hooks/0001-one-first.patch";
const SECOND: &str = "linux/hooks/0002-two-second.patch";

/// Hooks one and two, each at line 10, the second on top of the first.
fn stack(bench: &Bench) -> (String, String) {
    let one = numbered(&[(10, "line 10\none")]);
    let two = numbered(&[(10, "line 10\none\ntwo")]);
    bench.hook(FIRST, &[], "a.c", &numbered(&[]), &one);
    bench.hook(SECOND, &[], "a.c", &one, &two);
    (one, two)
}

#[test]
fn a_hook_builds_on_the_result_of_the_former_one() {
    let bench = Bench::new();
    let (_, two) = stack(&bench);
    bench.runs("apply", &["tree"]);
    assert_eq!(bench.read("tree/a.c"), two);
}

#[test]
fn hooks_at_one_anchor_apply_in_the_order_of_their_names_and_in_no_other() {
    let bench = Bench::new();
    stack(&bench);
    let first = bench.read(FIRST);
    std::fs::remove_file(bench.path(FIRST)).unwrap();
    bench.write("linux/hooks/0003-one-first.patch", &first);
    let said = bench.refuses("apply", &["tree"]);
    assert!(
        said.contains("0002-two-second.patch does not apply"),
        "{said}"
    );
    assert_eq!(bench.read("tree/a.c"), numbered(&[]));
}

#[test]
fn a_hook_whose_lines_have_moved_applies() {
    let bench = Bench::new();
    stack(&bench);
    let moved = format!("a new head\n{}", numbered(&[]));
    bench.write("tree/a.c", &moved);
    bench.runs("apply", &["tree"]);
    assert_eq!(
        bench.read("tree/a.c"),
        format!("a new head\n{}", numbered(&[(10, "line 10\none\ntwo")]))
    );
}

#[test]
fn a_hook_with_fuzz_is_refused_with_its_name_and_hunk() {
    let bench = Bench::new();
    let after = numbered(&[(4, "line 4\nhere"), (16, "line 16\nthere")]);
    bench.hook(FIRST, &[], "a.c", &numbered(&[]), &after);
    // The outer line of the second hunk's context is another: patch would take it with fuzz 1.
    bench.write("tree/a.c", &numbered(&[(18, "another line")]));
    let said = bench.refuses("apply", &["tree"]);
    assert!(
        said.contains("0001-one-first.patch does not apply to tree without fuzz")
            && said.contains("hunk 2 of a.c, line 16")
            && !said.contains("hunk 1"),
        "{said}"
    );
}

#[test]
fn a_tree_stays_as_it_was_if_the_last_hook_does_not_apply() {
    let bench = Bench::new();
    stack(&bench);
    bench.write("linux/new/sub/new.c", "new\n");
    bench.write("tree/b.c", "no such line\n");
    let other = numbered(&[(1, "changed")]);
    bench.hook(
        "linux/hooks/0003-three.patch",
        &[],
        "b.c",
        &numbered(&[]),
        &other,
    );
    let before = files_of(&bench.path("tree"));
    bench.refuses("apply", &["tree"]);
    assert_eq!(files_of(&bench.path("tree")), before);
    assert!(!bench.path("tree/sub").exists());
}

#[test]
fn nothing_but_the_touched_and_the_new_files_changes() {
    let bench = Bench::new();
    let (_, two) = stack(&bench);
    bench.write("linux/new/sub/new.c", "new\n");
    bench.write("tree/b.c", "untouched\n");
    let mut expected = files_of(&bench.path("tree"));
    bench.runs("apply", &["tree"]);
    expected.insert("a.c".into(), two.into_bytes());
    expected.insert("sub/new.c".into(), b"new\n".to_vec());
    assert_eq!(files_of(&bench.path("tree")), expected);
}

#[test]
fn a_tree_that_has_the_new_files_is_told() {
    let bench = Bench::new();
    bench.write("linux/new/sub/new.c", "new\n");
    bench.runs("apply", &["tree"]);
    let said = bench.refuses("apply", &["tree"]);
    assert!(
        said.contains("tree/sub/new.c is there already: is the tree patched?"),
        "{said}"
    );
}

#[test]
fn a_tree_that_has_a_hook_is_told() {
    let bench = Bench::new();
    let one = numbered(&[(10, "line 10\none")]);
    bench.hook(FIRST, &[], "a.c", &numbered(&[]), &one);
    bench.runs("apply", &["tree"]);
    let said = bench.refuses("apply", &["tree"]);
    assert!(
        said.contains("0001-one-first.patch is in tree already"),
        "{said}"
    );
    assert_eq!(bench.read("tree/a.c"), one);
}

#[test]
fn a_further_folder_comes_on_top() {
    let bench = Bench::new();
    let (_, two) = stack(&bench);
    bench.write("linux/new/new.c", "new\n");
    let three = numbered(&[(10, "line 10\none\ntwo\nthree")]);
    bench.hook("noop/hooks/0001-noop-host.patch", &[], "a.c", &two, &three);
    bench.hook(
        "noop/hooks/0002-noop-new.patch",
        &[],
        "new.c",
        "new\n",
        "newer\n",
    );
    bench.write("noop/new/noop.c", "nothing\n");
    bench.runs("apply", &["tree", "noop"]);
    assert_eq!(bench.read("tree/a.c"), three);
    assert_eq!(bench.read("tree/new.c"), "newer\n");
    assert_eq!(bench.read("tree/noop.c"), "nothing\n");
}

#[test]
fn a_further_folder_without_changes_is_refused() {
    let bench = Bench::new();
    bench.write("noop/README", "nothing\n");
    let said = bench.refuses("apply", &["tree", "noop"]);
    assert!(
        said.contains("noop is no folder of kernel changes"),
        "{said}"
    );
}

#[test]
fn two_folders_with_one_new_file_are_refused() {
    let bench = Bench::new();
    bench.write("linux/new/new.c", "new\n");
    bench.write("noop/new/new.c", "other\n");
    let said = bench.refuses("apply", &["tree", "noop"]);
    assert!(
        said.contains("noop/new/new.c is in a former folder too"),
        "{said}"
    );
}

#[test]
fn a_hook_that_makes_a_file_is_refused() {
    let bench = Bench::new();
    bench.write(
        FIRST,
        "SPDX\nSubject: x\n\n---\n--- /dev/null\n+++ b/n.c\n@@ -0,0 +1 @@\n+new\n",
    );
    let said = bench.refuses("apply", &["tree"]);
    assert!(
        said.contains("0001-one-first.patch makes, removes or renames a file")
            && said.contains("dev/null=>n.c"),
        "{said}"
    );
}

#[test]
fn a_hook_to_a_file_that_is_not_there_is_told() {
    let bench = Bench::new();
    bench.hook(FIRST, &[], "gone.c", "old\n", "new\n");
    let said = bench.refuses("apply", &["tree"]);
    assert!(
        said.contains("0001-one-first.patch changes gone.c, which is not in tree"),
        "{said}"
    );
}

#[test]
fn lines_of_a_hunk_that_look_like_the_head_of_a_file_are_lines() {
    let bench = Bench::new();
    let before = "one\n-- a/x.c\ntwo\n";
    let after = "one\n++ b/y.c\ntwo\n";
    bench.write("tree/b.c", before);
    bench.hook(FIRST, &[], "b.c", before, after);
    bench.runs("apply", &["tree"]);
    assert_eq!(bench.read("tree/b.c"), after);
}

#[test]
fn another_release_is_refused() {
    let bench = Bench::new();
    bench.write("tree/Makefile", "VERSION = 6\nPATCHLEVEL = 6\n");
    let said = bench.refuses("apply", &["tree"]);
    assert!(
        said.contains("tree is Linux 6.6; the hooks are for 6.12"),
        "{said}"
    );
}
