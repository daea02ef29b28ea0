// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs that a user brings: what an image needs for one, and what its output says.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use steady_guest_programs::image::{ClosureError, brought};
use steady_guest_programs::{Exit, Output, ParseError, brought as read};

/// Where the program's own files are in the image.
const FOLDER: &str = "/program/mine";

fn written(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).expect("a file");
    path
}

/// The paths in the image of all that a program needs.
fn images(program: &Path, beside: &[PathBuf]) -> Result<Vec<String>, ClosureError> {
    let files = brought(program, Path::new(FOLDER), beside)?;
    Ok(files
        .iter()
        .map(|file| file.image.display().to_string())
        .collect())
}

fn compiled(folder: &Path, words: &str, source: &str) {
    written(folder, "source.c", source.as_bytes());
    let mut gcc = Command::new("gcc");
    gcc.current_dir(folder)
        .arg("source.c")
        .args(words.split_whitespace());
    assert!(gcc.status().expect("gcc runs").success(), "gcc {words}");
}

#[test]
fn libraries_beside_a_program_stay_beside_it_wherever_it_goes() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = folder.path();
    std::fs::create_dir(here.join("lib")).expect("a folder");
    compiled(
        here,
        "-shared -fPIC -o lib/libone.so",
        "int one(void) { return 1; }",
    );
    compiled(
        here,
        "-shared -fPIC -o libtwo.so",
        "int two(void) { return 2; }",
    );
    let main = "int one(void), two(void); int main(void) { return one() + two(); }";
    compiled(
        here,
        "-o mine -Llib -L. -lone -ltwo -Wl,-rpath,$ORIGIN/lib",
        main,
    );
    let error = images(&here.join("mine"), &[]).expect_err("libtwo is in no folder of it");
    assert!(
        error
            .to_string()
            .contains("needs the library libtwo.so, which is in none of")
    );
    let found = images(&here.join("mine"), &[here.join("libtwo.so")]).expect("it is beside it");
    for path in [
        "/program/mine/mine",
        "/program/mine/lib/libone.so",
        "/usr/lib/x86_64-linux-gnu/libtwo.so",
        "/usr/lib/x86_64-linux-gnu/libc.so.6",
        "/lib64/ld-linux-x86-64.so.2",
    ] {
        assert!(found.contains(&path.to_owned()), "no {path} in {found:?}");
    }
}

#[test]
fn a_script_brings_its_interpreter_and_python_its_modules() {
    common::require("/usr/bin/python3");
    let folder = tempfile::tempdir().expect("a folder");
    let at = |line: &str| {
        let script = written(folder.path(), "mine", format!("#!{line}\n").as_bytes());
        images(&script, &[])
    };
    for line in [
        "/usr/bin/python3 -u",
        "/usr/bin/env python3",
        "/usr/bin/env -S A=b python3 -u",
    ] {
        let found = at(line).expect(line);
        assert!(found.contains(&"/program/mine/mine".to_owned()), "{line}");
        assert!(found.contains(&"/usr/bin/python3".to_owned()), "{line}");
        assert!(
            found
                .iter()
                .any(|path| path.ends_with("/encodings/utf_8.py")),
            "{line}"
        );
        assert!(found.iter().all(|path| !path.contains("/test/")), "{line}");
    }
    let shell = at("/bin/sh -e").expect("a shell is there");
    assert!(shell.contains(&"/bin/sh".to_owned()), "{shell:?}");
    for (line, said) in [
        ("/no/such/language", "/no/such/language is not a file"),
        ("perl", "perl is not a file"),
        ("/usr/bin/env", "env is given no name"),
        (
            "/usr/bin/env nosuch",
            "nosuch is in none of /usr/local/bin:",
        ),
    ] {
        let error = at(line).expect_err(line).to_string();
        assert!(
            error.contains(said) && error.contains("correct the line"),
            "{error}"
        );
    }
}

#[test]
fn a_script_of_a_script_ends_somewhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("mine");
    written(
        folder.path(),
        "mine",
        format!("#!{}\n", path.display()).as_bytes(),
    );
    let error = images(&path, &[]).expect_err("it is its own interpreter");
    assert!(
        error.to_string().contains("a script of a script"),
        "{error}"
    );
}

#[test]
fn a_script_of_windows_lines_is_refused_by_its_first_line() {
    let folder = tempfile::tempdir().expect("a folder");
    written(folder.path(), "mine", b"#!/bin/sh\r\necho\r\n");
    let error = images(&folder.path().join("mine"), &[]).expect_err("no such interpreter");
    assert!(error.to_string().contains("a carriage return"), "{error}");
}

#[test]
fn a_static_program_needs_only_itself_and_rubbish_is_none() {
    let spin = common::own_program("spin");
    assert_eq!(
        images(&spin, &[]).expect("it is static"),
        ["/program/mine/spin"]
    );
    let folder = tempfile::tempdir().expect("a folder");
    for bytes in [&b""[..], b"\x7fELF\x01", b"PK\x03\x04", &[0xff; 300]] {
        let path = written(folder.path(), "mine", bytes);
        let error = images(&path, &[])
            .expect_err("it is not a program")
            .to_string();
        assert!(
            error.contains("is not an ELF program for x86-64"),
            "{error}"
        );
    }
}

const LINE: &str = r#"{"schema": "steady.workload", "version": 1, "program": "x", "metrics": [
    {"name": "throughput", "unit": "ops/ks", "better": "higher", "value": 7}]}"#;

/// `NAME VALUE` of each measure of an output.
fn measures(stdout: &str, needs_line: bool, exit: Exit) -> Result<Vec<String>, ParseError> {
    let output = Output {
        stdout,
        stderr: "the last words\n",
        wall_ns: 5,
        exit,
    };
    let report = read("mine", needs_line, &output)?;
    let metrics = report.metrics.iter();
    Ok(metrics
        .map(|metric| format!("{} {}", metric.name, metric.value))
        .collect())
}

#[test]
fn a_result_line_among_others_is_the_result_and_without_one_the_time() {
    let line = LINE.replace('\n', "");
    let all = format!("hello\n{{\"a\": 1}}\n{line}\nbye");
    let ok = Exit::Code(0);
    for needs_line in [true, false] {
        assert_eq!(
            measures(&all, needs_line, ok).expect("a line"),
            ["throughput 7", "time 5"]
        );
    }
    assert_eq!(
        measures("\u{1}{{{\nrubbish", false, ok).expect("its time"),
        ["time 5"]
    );
    for (stdout, needs_line, exit, said) in [
        ("rubbish", true, ok, "printed no line like"),
        (
            &*format!("{line}\n{line}"),
            false,
            ok,
            "expected one result line",
        ),
        (&line[..60], false, ok, "expected a result line"),
        (
            &line.replace("throughput", "time"),
            false,
            ok,
            "each measure once",
        ),
        (
            &line,
            true,
            Exit::Code(3),
            "ended with exit code 3; its last words: \"the last words\"",
        ),
        ("", false, Exit::TimeLimit, "time limit"),
        ("", false, Exit::Signal(11), "signal 11"),
    ] {
        let error = measures(stdout, needs_line, exit)
            .expect_err(said)
            .to_string();
        assert!(
            error.starts_with("mine ") && error.contains(said),
            "{said}: {error}"
        );
    }
}
