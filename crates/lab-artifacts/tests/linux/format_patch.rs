// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `linux/format-patch`: a series for `git am` that gives what `linux/apply` gives.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::bench::{Bench, files_of, numbered, real_linux};

/// Two hooks that build on each other, each with a new file.
fn series() -> Bench {
    let bench = Bench::new();
    let one = numbered(&[(10, "line 10\none")]);
    let two = numbered(&[(10, "line 10\none\ntwo")]);
    bench.write("linux/new/one.c", "// SPDX\none\n");
    bench.write("linux/new/sub/two.c", "// SPDX\ntwo\n");
    let before = numbered(&[]);
    bench.hook(
        "linux/hooks/0001-a-one.patch",
        &["one.c"],
        "a.c",
        &before,
        &one,
    );
    bench.hook(
        "linux/hooks/0002-a-two.patch",
        &["sub/two.c"],
        "a.c",
        &one,
        &two,
    );
    bench
}

fn git(folder: &Path, words: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=T", "-c", "user.email=t@t"])
        .args(words)
        .current_dir(folder)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "git {words:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Mails of `out` by `git am` on a repository made of the tree.
fn apply_mails(bench: &Bench, out: &str) -> PathBuf {
    let repo = bench.path("repo");
    std::fs::create_dir(&repo).unwrap();
    for (name, bytes) in files_of(&bench.path("tree")) {
        std::fs::write(repo.join(name), bytes).unwrap();
    }
    git(&repo, &["init", "-q"]);
    git(&repo, &["add", "-A"]);
    git(&repo, &["commit", "-q", "-m", "base"]);
    for mail in files_of(&bench.path(out)).keys() {
        if !mail.contains("cover-letter") {
            let mail = bench.path(out).join(mail);
            git(&repo, &["am", "-q", mail.to_str().unwrap()]);
        }
    }
    repo
}

#[test]
fn git_am_gives_the_tree_that_apply_gives() {
    let bench = series();
    bench.runs("format-patch", &["tree", "out"]);
    let repo = apply_mails(&bench, "out");
    bench.runs("apply", &["tree"]);
    assert_eq!(files_of(&repo), files_of(&bench.path("tree")));
}

#[test]
fn each_patch_has_its_hook_its_new_files_and_its_words() {
    let bench = series();
    bench.runs("format-patch", &["tree", "out"]);
    let repo = apply_mails(&bench, "out");
    assert_eq!(
        git(
            &repo,
            &["log", "--reverse", "--format=%s|%b|", "--name-only", "-2"]
        ),
        "x86: Do 0001-a-one|Why 0001-a-one is good.\n|\n\na.c\none.c\n\
         x86: Do 0002-a-two|Why 0002-a-two is good.\n|\n\na.c\nsub/two.c\n"
    );
}

#[test]
fn the_cover_letter_has_the_words_of_the_series_and_of_each_remedy() {
    let bench = series();
    bench.write("linux/a/cover", "SPDX\n\nRemedy a helps.\n");
    bench.runs("format-patch", &["tree", "out"]);
    let cover = bench.read("out/0000-cover-letter.patch");
    assert!(
        cover.contains("Subject: [PATCH 0/2] Made up\n\nNothing to see.\n\nRemedy a helps.\n"),
        "{cover}"
    );
}

#[test]
fn the_same_input_gives_the_same_bytes_whatever_git_is_configured_to() {
    let bench = series();
    bench.runs("format-patch", &["tree", "out"]);
    let config = "[diff]\n\tnoprefix = true\n[format]\n\tsignature = me\n\tsignOff = true\n";
    bench.write("home/.gitconfig", config);
    let again = Command::new(bench.path("linux/format-patch"))
        .args(["tree", "again"])
        .current_dir(bench.path(""))
        .env("HOME", bench.path("home"))
        .env("TZ", "Asia/Tokyo")
        .env("GIT_AUTHOR_NAME", "Somebody")
        .env("GIT_COMMITTER_DATE", "2020-02-02T00:00:00Z")
        .output()
        .unwrap();
    assert!(again.status.success());
    let out = files_of(&bench.path("out"));
    assert_eq!(out, files_of(&bench.path("again")));
    assert_eq!(out.len(), 3);
}

#[test]
fn nobody_signs_off_unless_asked() {
    let bench = series();
    bench.runs("format-patch", &["tree", "out"]);
    for (name, bytes) in files_of(&bench.path("out")) {
        let text = String::from_utf8(bytes).unwrap();
        assert!(!text.contains("Signed-off-by"), "{name}");
    }
}

#[test]
fn the_author_that_was_asked_for_signs_off() {
    let bench = series();
    bench.runs(
        "format-patch",
        &["--from", "A. Nonymous <a@b.org>", "tree", "out"],
    );
    let repo = apply_mails(&bench, "out");
    assert_eq!(
        git(&repo, &["log", "-1", "--format=%an <%ae>%n%(trailers)"]).trim_end(),
        "A. Nonymous <a@b.org>\nSigned-off-by: A. Nonymous <a@b.org>"
    );
}

#[test]
fn an_author_without_a_mail_is_refused() {
    let bench = series();
    let said = bench.refuses("format-patch", &["--from", "A. Nonymous", "tree", "out"]);
    assert!(said.contains("expected 'NAME <MAIL>'"), "{said}");
}

#[test]
fn a_new_file_of_no_hook_is_refused_with_its_name() {
    let bench = series();
    bench.write("linux/new/three.c", "three\n");
    let said = bench.refuses("format-patch", &["tree", "out"]);
    assert!(said.contains("new/three.c belongs to no patch"), "{said}");
    assert!(!bench.path("out").exists());
}

#[test]
fn a_new_file_of_two_hooks_is_refused_with_its_name() {
    let bench = series();
    let one = numbered(&[(10, "line 10\none")]);
    let hook = "linux/hooks/0001-a-one.patch";
    bench.hook(hook, &["one.c", "sub/two.c"], "a.c", &numbered(&[]), &one);
    let said = bench.refuses("format-patch", &["tree", "out"]);
    assert!(
        said.contains("two hooks of") && said.contains("new/sub/two.c"),
        "{said}"
    );
}

#[test]
fn a_further_folder_gives_further_patches() {
    let bench = series();
    let two = numbered(&[(10, "line 10\none\ntwo")]);
    let three = numbered(&[(10, "line 10\none\ntwo\nthree")]);
    bench.hook(
        "noop/hooks/0001-noop.patch",
        &["noop.c"],
        "a.c",
        &two,
        &three,
    );
    bench.write("noop/new/noop.c", "nothing\n");
    bench.runs("format-patch", &["tree", "out", "--", "noop"]);
    let repo = apply_mails(&bench, "out");
    bench.runs("apply", &["tree", "noop"]);
    assert_eq!(files_of(&repo), files_of(&bench.path("tree")));
}

/// The series with a third hook, of which `line` is a part of the header.
fn series_with(line: &str) -> Bench {
    let bench = series();
    let two = numbered(&[(10, "line 10\none\ntwo")]);
    let three = numbered(&[(10, "line 10\none\ntwo\nthree")]);
    let hook = "linux/hooks/0003-a-three.patch";
    bench.hook(hook, &[], "a.c", &two, &three);
    let text = bench.read(hook);
    bench.write(
        hook,
        &text.replacen("\nSubject:", &format!("\n{line}\nSubject:"), 1),
    );
    bench
}

#[test]
fn the_selftests_of_a_hook_are_in_its_patch_and_in_the_tree() {
    let bench = series_with("Selftests: a/selftests");
    bench.write("linux/a/selftests/tests", "x86_64/a_test 5\n");
    bench.write("linux/a/selftests/a_test.c", "a test\n");
    bench.runs("format-patch", &["tree", "out"]);
    let repo = apply_mails(&bench, "out");
    assert_eq!(
        git(&repo, &["log", "-1", "--format=", "--name-only"]),
        "a.c\ntools/testing/selftests/kvm/x86_64/a_test.c\n"
    );
    bench.runs("apply", &["tree"]);
    assert_eq!(files_of(&repo), files_of(&bench.path("tree")));
}

#[test]
fn a_folder_of_selftests_without_their_list_is_refused() {
    for (script, words) in [("format-patch", &["tree", "out"][..]), ("apply", &["tree"])] {
        let bench = series_with("Selftests: a/selftests");
        bench.write("linux/a/selftests/a_test.c", "a test\n");
        let before = files_of(&bench.path("tree"));
        let said = bench.refuses(script, words);
        assert!(
            said.contains("a/selftests, which lists no tests"),
            "{script}: {said}"
        );
        assert_eq!(files_of(&bench.path("tree")), before, "{script}");
    }
}

#[test]
fn for_upstream_a_hook_that_is_not_is_left_out() {
    let bench = series_with("Upstream: no");
    let mails = |out: &str| files_of(&bench.path(out)).len() - 1;
    bench.runs("format-patch", &["tree", "all"]);
    bench.runs("format-patch", &["--upstream", "tree", "out"]);
    assert_eq!((mails("all"), mails("out")), (3, 2));
    let repo = apply_mails(&bench, "out");
    let expected = numbered(&[(10, "line 10\none\ntwo")]);
    let made = std::fs::read_to_string(repo.join("a.c")).unwrap();
    assert_eq!(made, expected);
}

#[test]
fn one_remedy_alone_has_its_patches_and_its_own_cover_letter() {
    let bench = series();
    bench.write("linux/one/cover", "SPDX\nSubject: One helps\n\nIt does.\n");
    let one = numbered(&[(10, "line 10\none")]);
    let two = numbered(&[(10, "line 10\none\ntwo")]);
    for (file, after) in [("0001-one-a.patch", &one), ("0002-two-b.patch", &two)] {
        let before = if after == &one {
            numbered(&[])
        } else {
            one.clone()
        };
        let new = if after == &one { "one.c" } else { "sub/two.c" };
        bench.hook(
            &format!("linux/hooks/{file}"),
            &[new],
            "a.c",
            &before,
            after,
        );
    }
    for hook in ["0001-a-one.patch", "0002-a-two.patch"] {
        std::fs::remove_file(bench.path("linux/hooks").join(hook)).unwrap();
    }
    bench.runs("format-patch", &["--only", "one", "tree", "out"]);
    let cover = bench.read("out/0000-cover-letter.patch");
    assert!(
        cover.contains("Subject: [PATCH 0/1] One helps\n\nIt does.\n"),
        "{cover}"
    );
    bench.runs("format-patch", &["tree", "all"]);
    let cover = bench.read("all/0000-cover-letter.patch");
    assert!(
        cover.contains("[PATCH 0/2] Made up\n\nNothing to see.\n\nIt does.\n"),
        "{cover}"
    );
}

#[test]
fn a_remedy_without_a_cover_letter_is_refused() {
    let bench = series();
    let said = bench.refuses("format-patch", &["--only", "one", "tree", "out"]);
    assert!(said.contains("there is no cover letter of one"), "{said}");
}

#[test]
fn a_series_that_is_there_is_not_written_over() {
    let bench = series();
    bench.write("out/mine", "precious\n");
    let said = bench.refuses("format-patch", &["tree", "out"]);
    assert!(said.contains("out is there already"), "{said}");
    assert_eq!(bench.read("out/mine"), "precious\n");
}

/// The rule that format-patch holds a folder to, held for our own without a kernel's sources.
#[test]
fn each_of_our_new_files_belongs_to_one_patch() {
    let mut named = Vec::new();
    for bytes in files_of(&real_linux().join("hooks")).values() {
        let text = String::from_utf8(bytes.clone()).unwrap();
        let head = text.split("\n\n").next().unwrap();
        named.extend(
            head.lines()
                .filter_map(|line| line.strip_prefix("New: ").map(str::to_owned)),
        );
    }
    named.sort();
    let have: Vec<String> = files_of(&real_linux().join("new")).into_keys().collect();
    assert_eq!(named, have);
}
