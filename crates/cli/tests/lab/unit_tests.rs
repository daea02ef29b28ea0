// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady selftest --suite kvm-unit-tests`, with a suite of two programs in the form of the real
//! one, which is a user's own checkout and not part of this project.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::support::{Place, fails_with, steady};

/// Makes `x86/pass.flat` and `x86/fail.flat` of one source, as the suite's build does: 32-bit
/// multiboot programs.
const CONFIGURE: &str = r#"#!/bin/sh
mkdir -p x86
tree=$(dirname "$0")
cat >Makefile <<END
all: x86/pass.flat x86/fail.flat
x86/%.flat: $tree/x86/%.S
	gcc -m32 -nostdlib -static -Wl,--build-id=none,-N,-Ttext=0x400000 -o \$@ \$<
END
"#;

/// A program that says `words` on the serial port and ends with `code`.
fn program(words: &str, code: u8) -> String {
    format!(
        ".section .text\n.globl _start\n.align 4\n\
         .long 0x1BADB002, 0x10000, -(0x1BADB002 + 0x10000)\n\
         .long 0x400000, 0x400000, 0, 0, _start\n\
         header: .long 0\n\
         _start: mov $words, %esi\n mov $0x3f8, %dx\n\
         next: lodsb\n test %al, %al\n jz done\n out %al, %dx\n jmp next\n\
         done: mov ${code}, %eax\n mov $0xf4, %dx\n out %eax, %dx\n stop: hlt\n jmp stop\n\
         words: .asciz \"{words}\"\n"
    )
}

fn suite(folder: &Path) {
    std::fs::create_dir_all(folder.join("x86")).unwrap();
    let configure = folder.join("configure");
    std::fs::write(&configure, CONFIGURE).unwrap();
    std::fs::set_permissions(&configure, std::fs::Permissions::from_mode(0o755)).unwrap();
    let config = "[pass]\nfile = pass.flat\n[fail]\nfile = fail.flat\nsmp = 2\n\
                  [old]\nfile = old.flat\narch = i386\n\
                  [never]\nfile = pass.flat\ncheck = /proc/nosuch=1\n";
    std::fs::write(folder.join("x86/unittests.cfg"), config).unwrap();
    std::fs::write(folder.join("x86/pass.S"), program("PASS: a\\n", 0)).unwrap();
    std::fs::write(folder.join("x86/fail.S"), program("FAIL: b\\n", 1)).unwrap();
}

#[test]
#[ignore = "builds the stock kernel if no test has yet: minutes"]
fn a_suite_is_built_and_says_the_same_on_both_kernels() {
    let place = Place::new();
    suite(&place.path("tree"));
    let output = steady()
        .args(["selftest", "--suite", "kvm-unit-tests"])
        .arg(place.path("tree"))
        .arg("-o")
        .arg(place.path("out"))
        .arg("--json")
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{words}");
    let reports: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let report = &reports[0];
    assert_eq!(report["columns"][0], "stock");
    let columns = report["columns"].as_array().unwrap().len();
    assert!(columns >= 3, "stock, off and a remedy: {columns}");
    for (at, expected) in ["pass", "fail", "skip"].into_iter().enumerate() {
        let runs = report["rows"][at]["runs"].as_array().unwrap();
        let said = |run: &serde_json::Value| run[0]["outcome"] == expected;
        assert!(
            runs.len() == columns && runs.iter().all(said),
            "{expected}: {runs:?}"
        );
    }
    assert_eq!(report["rows"][1]["runs"][0][0]["failed"][0], "FAIL: b");
    assert_eq!(report["left_out"][0][1], "i386 only");
}

#[test]
fn a_folder_that_is_no_checkout_and_an_unknown_test_are_refused() {
    let place = Place::new();
    let run = |words: &[&str]| {
        let mut command = steady();
        command.args(["selftest", "--suite", "kvm-unit-tests"]);
        command.arg(place.path("tree")).args(words);
        fails_with(2, &command.output().unwrap())
    };
    let said = run(&[]);
    assert!(
        said.contains("is not a checkout of kvm-unit-tests"),
        "{said}"
    );
    suite(&place.path("tree"));
    let said = run(&["nosuch"]);
    assert!(
        said.contains("there is no unit test `nosuch`; known: pass, fail"),
        "{said}"
    );
    let said = run(&["old"]);
    assert!(
        said.contains("none of these unit tests runs here"),
        "{said}"
    );
}
