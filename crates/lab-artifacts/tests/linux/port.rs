// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `linux/port`: the changes for another kernel, made of those for 6.12.

use std::fs;
use std::process::Command;

use crate::bench::{Bench, files_of, numbered, real_linux};

const HOOK: &str = "0001-one-first.patch";
/// What the made-up kernel 7.0 has in place of line 11, beside which the hook adds one.
const MOVED: &str = "another line 11";

/// A hook with a new file for 6.12, and its port to 7.0, where line 11 and a name are others.
fn ported() -> Bench {
    let bench = Bench::new();
    let hook = |to: &str, lines: &[(usize, &str)], with: &[(usize, &str)]| {
        bench.hook(to, &["sub/new.c"], "a.c", &numbered(lines), &numbered(with));
    };
    hook(
        &format!("linux/hooks/{HOOK}"),
        &[],
        &[(10, "line 10\none\n")],
    );
    bench.write("linux/new/sub/new.c", "first\nold_name\nlast\n");
    bench.write("linux/one/cover", "SPDX\nSubject: One\n\nOf one.\n");

    hook(
        "whole.patch",
        &[(11, MOVED)],
        &[(10, "line 10\none"), (11, MOVED)],
    );
    let whole = bench.read("whole.patch");
    let diff = whole.split_once("---\n").unwrap().1;
    bench.write(
        &format!("linux/ports/7.0/hooks/{HOOK}"),
        &format!("SPDX\n\n---\n{diff}"),
    );
    bench.write("linux/ports/7.0/series", &format!("{HOOK}\n"));
    bench.write(
        "linux/ports/7.0/lib.sh",
        "# shell\n# SPDX\n\
         check_tree() { grep -q 'VERSION = 7' \"$1/Makefile\" || die 'not 7.0'; }\n",
    );
    bench.write(
        "linux/ports/7.0/files.patch",
        "SPDX\n\n--- a/new/sub/new.c\n+++ b/new/sub/new.c\n@@ -1,3 +1,3 @@\n first\n-old_name\n\
         +new_name\n last\n",
    );
    bench.write(
        "linux/config/lab.config",
        "# of one\nCONFIG_OLD=y\nCONFIG_OLDER=y\n# CONFIG_NOT is not set\n",
    );
    bench.write("linux/ports/7.0/lacks", "# SPDX\nNOT\nOLD\n");
    bench.write("tree/Makefile", "VERSION = 7\nPATCHLEVEL = 0\n");
    bench.write("tree/a.c", &numbered(&[(11, MOVED)]));
    bench
}

#[test]
fn a_port_applies_to_its_kernel_with_what_it_changes_and_what_it_leaves() {
    let bench = ported();
    bench.runs("port", &["7.0", "out"]);
    bench.runs("../out/apply", &["tree"]);
    assert_eq!(
        bench.read("tree/a.c"),
        numbered(&[(10, "line 10\none"), (11, MOVED)])
    );
    assert_eq!(bench.read("tree/sub/new.c"), "first\nnew_name\nlast\n");
}

#[test]
fn a_hook_without_a_subject_has_the_header_and_body_of_the_original() {
    let bench = ported();
    bench.runs("port", &["7.0", "out"]);
    let hook = bench.read(&format!("out/hooks/{HOOK}"));
    let original = bench.read(&format!("linux/hooks/{HOOK}"));
    assert_eq!(hook.split("---\n").next(), original.split("---\n").next());
    assert!(hook.contains(MOVED) && !original.contains(MOVED), "{hook}");
}

#[test]
fn a_ports_configuration_is_the_labs_without_what_the_kernel_lacks() {
    let bench = ported();
    bench.runs("port", &["7.0", "out"]);
    let left = "# of one\nCONFIG_OLDER=y\n";
    assert_eq!(bench.read("out/config/lab.config"), left);

    bench.write("linux/ports/7.0/lacks", "OLDEST\n");
    let said = bench.refuses("port", &["7.0", "again"]);
    assert!(
        said.contains("lacks names OLDEST") && said.contains("remove it"),
        "{said}"
    );
}

#[test]
fn a_ports_lists_name_tests_where_its_kernel_has_them() {
    let bench = ported();
    let hook = format!("linux/hooks/{HOOK}");
    let text = bench
        .read(&hook)
        .replacen("\n\n", "\nSelftests: one/selftests\n\n", 1);
    bench.write(&hook, &text);
    bench.write("linux/one/selftests/tests", "x86_64/one_test 60\n");
    bench.write(
        "linux/ports/7.0/lib.sh",
        "# shell\n# SPDX\nkvm_selftests=tools/testing/selftests/kvm/elsewhere\n",
    );
    bench.runs("port", &["7.0", "out"]);
    let list = bench.read("out/one/selftests/tests");
    assert_eq!(list, "elsewhere/one_test 60\n");
    let build = bench.read("out/selftests/build");
    assert!(build.contains("TEST_GEN_PROGS_elsewhere="), "{build}");
}

#[test]
fn a_port_refuses_another_kernel_than_its_own() {
    let bench = ported();
    bench.runs("port", &["7.0", "out"]);
    bench.write("tree/Makefile", "VERSION = 6\nPATCHLEVEL = 12\n");
    let said = bench.refuses("../out/apply", &["tree"]);
    assert!(said.contains("not 7.0"), "{said}");
}

#[test]
fn a_port_of_files_that_changed_since_is_refused_and_nothing_is_written() {
    let bench = ported();
    bench.write("linux/new/sub/new.c", "first\nthird_name\nlast\n");
    let said = bench.refuses("port", &["7.0", "out"]);
    assert!(
        said.contains("files.patch does not apply") && said.contains("sub/new.c"),
        "{said}"
    );
    assert!(!bench.path("out").exists());
}

#[test]
fn a_port_that_is_not_there_is_refused_with_those_that_are() {
    let said = ported().refuses("port", &["6.18", "out"]);
    assert!(
        said.contains("no port to 6.18") && said.contains("7.0"),
        "{said}"
    );
}

#[test]
fn a_ported_hook_that_the_series_lacks_is_refused() {
    let bench = ported();
    bench.write("linux/ports/7.0/hooks/0002-two.patch", "SPDX\n");
    let said = bench.refuses("port", &["7.0", "out"]);
    assert!(
        said.contains("0002-two.patch is not in") && said.contains("series"),
        "{said}"
    );
}

#[test]
fn each_port_is_made_of_what_the_project_has_now() {
    let place = tempfile::tempdir().unwrap();
    let mut ports = 0;
    for port in fs::read_dir(real_linux().join("ports")).unwrap() {
        let version = port.unwrap().file_name().into_string().unwrap();
        let out = place.path().join(&version);
        let output = Command::new(real_linux().join("port"))
            .args([version.as_ref(), out.as_os_str()])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{version}: {said}");
        let hooks = files_of(&out.join("hooks"));
        assert!(!hooks.is_empty(), "{version} has no hooks");
        for (name, hook) in hooks {
            let text = String::from_utf8(hook).unwrap();
            assert!(
                text.contains("\nSubject: ") && text.contains("\n---\n"),
                "{name}"
            );
        }
        ports += 1;
    }
    assert!(ports > 0, "there are no ports");
}
