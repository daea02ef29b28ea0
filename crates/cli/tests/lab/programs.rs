// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does a program that is new to the lab run in a guest, in whatever language, and does each way in
//! which one fails end in one error that says what, where and what to do?

use std::path::Path;
use std::process::Command;

use crate::support::{Place, ends_well, fails_with, metric, project, steady};

/// A program in C that does what its first argument says, with a library of its own.
const C: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
long answer(void);
int main(int argc, char **argv)
{
	const char *what = argv[argc - 1];
	char word[16] = "";
	FILE *file = fopen("words.txt", "r");
	FILE *table = fopen("share/tables/a/one", "r");
	if (!strcmp(what, "crash")) abort();
	if (!strcmp(what, "hang")) for (;;) pause();
	if (!strcmp(what, "refuse")) { fputs("no such table\n", stderr); return 3; }
	if (!strcmp(what, "rubbish")) for (int i = 0; i < 300; i++) putchar(i * 7);
	if (!strcmp(what, "flood")) for (;;) puts("no end of words");
	if (!strcmp(what, "half")) puts("\n{\"schema\": \"steady.workload\", \"version\"");
	if (!strcmp(what, "serve")) { puts("listening on 7"); fflush(stdout); for (;;) pause(); }
	if (strcmp(what, "3")) return 0;
	if (!file || !table || !fgets(word, 5, file) || strcmp(word, "word"))
		return 4;
	if (strcmp(getenv("MODE"), "fast"))
		return 5;
	printf("some words\n{\"schema\": \"steady.workload\", \"version\": 1, "
	       "\"program\": \"x\", \"metrics\": [{\"name\": \"throughput\", "
	       "\"unit\": \"ops/ks\", \"better\": \"higher\", \"value\": %ld}]}\n", answer());
	return 0;
}
"#;

const PYTHON: &str = r#"#!/usr/bin/env python3
import hashlib, json, sys, threading
value = int(hashlib.sha256(b"steady").hexdigest(), 16) % 1000
threading.Thread(target=lambda: print(json.dumps({
    "schema": "steady.workload", "version": 1, "program": "script", "metrics": [
        {"name": "hash", "unit": "count", "better": "neutral", "value": value}]}))).start()
"#;

const GO: &str = "package main\nimport \"sync\"\nfunc main() {\n\tvar all sync.WaitGroup\n\
    \tfor i := 0; i < 4; i++ {\n\t\tall.Add(1)\n\t\tgo all.Done()\n\t}\n\tall.Wait()\n}\n";

/// The example in a section of the format's page.
fn documented(section: &str) -> String {
    let page = std::fs::read_to_string(project().join("docs/formats/scenario.md")).unwrap();
    let section = page.split(&format!("### {section}\n")).nth(1).unwrap();
    let example = section.split("```toml\n").nth(1).unwrap();
    example.split("```").next().unwrap().to_owned()
}

/// Runs a compiler in the folder.
fn made(folder: &Path, program: &str, words: &str) {
    let mut command = Command::new(program);
    command.args(words.split_whitespace()).current_dir(folder);
    command
        .env("GOCACHE", folder.join("cache"))
        .env("CGO_ENABLED", "0");
    ends_well(&command.env("GO111MODULE", "off").output().unwrap());
}

/// The C program with its library, and its file.
fn c_program(folder: &Path) {
    std::fs::write(folder.join("c.c"), C).unwrap();
    std::fs::write(folder.join("a.c"), "long answer(void) { return 42; }\n").unwrap();
    std::fs::write(folder.join("words.txt"), "words\n").unwrap();
    std::fs::create_dir_all(folder.join("tables/a")).unwrap();
    std::fs::write(folder.join("tables/a/one"), "1\n").unwrap();
    made(folder, "gcc", "-shared -fPIC -o libanswer.so a.c");
    made(folder, "gcc", "-o mine c.c -L. -lanswer -Wl,-rpath,$ORIGIN");
}

/// A static program: in Go where there is a compiler, else in C.
fn static_program(folder: &Path) {
    std::fs::write(folder.join("g.go"), GO).unwrap();
    std::fs::write(folder.join("s.c"), "int main(void) { return 0; }\n").unwrap();
    match ["/usr/local/go/bin/go", "/usr/bin/go"]
        .iter()
        .find(|go| Path::new(go).exists())
    {
        Some(go) => made(folder, go, "build -o goes g.go"),
        None => made(folder, "gcc", "-static -o goes s.c"),
    }
}

/// A VM of one workload.
fn vm(name: &str, more: &str, workload: &str) -> String {
    format!(
        "[[vm]]\nname = \"{name}\"\nvcpus = 1\nmemory_mib = 192\n{more}\n\
         [[vm.workload]]\nprogram = {workload}\n"
    )
}

fn scenario(place: &Place, vms: &str) -> std::path::PathBuf {
    let path = place.scenario(vms, "");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("memory_mib = 384", "memory_mib = 768")).unwrap();
    path
}

#[test]
fn programs_in_c_go_and_python_run_beside_one_that_waits_in_the_background() {
    let place = Place::beside();
    let folder = place.folder.path();
    c_program(folder);
    static_program(folder);
    std::fs::write(folder.join("script.py"), PYTHON).unwrap();
    let work = documented("Programs of your own")
        + "[[vm.workload]]\nprogram = \"./goes\"\n[[vm.workload]]\nprogram = \"./script.py\"\n";
    let serve = "\"./mine\"\nargs = [\"serve\"]\nready = \"listening\"";
    let vms = work + &vm("server", "background = true", serve);
    let path = scenario(&place, &vms);
    ends_well(&place.run(&path, &[]).output().unwrap());
    let result = place.result("test", "bochs");
    assert_eq!(metric(&result, "plain", "mine", "throughput"), 42);
    // SHA-256 of "steady" modulo 1000, by Python itself outside.
    let hash = "import hashlib; print(int(hashlib.sha256(b'steady').hexdigest(), 16) % 1000)";
    let hash = Command::new("/usr/bin/python3")
        .args(["-c", hash])
        .output()
        .unwrap();
    let hash: i64 = String::from_utf8(hash.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    assert_eq!(metric(&result, "plain", "script", "hash"), hash);
    for name in ["mine", "goes", "script"] {
        assert!(metric(&result, "plain", name, "time") > 0, "{name}");
    }
    let words = Command::new("sha256sum")
        .arg(folder.join("words.txt"))
        .output()
        .unwrap();
    let words = String::from_utf8(words.stdout).unwrap();
    let digest = result["config"]["program.mine/words.txt"].as_str().unwrap();
    assert!(words.starts_with(digest), "{digest}");
    assert!(result["config"]["program.goes/goes"].is_string());
}

#[test]
fn each_way_in_which_a_program_fails_ends_in_one_error() {
    let place = Place::beside();
    c_program(place.folder.path());
    let line = "result = \"line\"";
    let limit = "time_limit_s = 2";
    for (what, more, said) in [
        ("crash", "", &["mine was ended by signal 6 (SIGABRT)"][..]),
        (
            "hang",
            limit,
            &["mine ran into its time limit of 2000 ms, `time_limit_s`"],
        ),
        (
            "refuse",
            "",
            &[
                "mine ended with exit code 3 where 0 was expected",
                "no such table",
            ],
        ),
        (
            "rubbish",
            line,
            &["mine printed no line like", "steady.workload"],
        ),
        ("half", "", &["mine printed", "expected a result line"]),
        (
            "flood",
            limit,
            &[
                "mine wrote ",
                "to standard output; at most 1048576 are carried",
            ],
        ),
    ] {
        let workload = format!("\"./mine\"\nargs = [\"{what}\"]\n{more}");
        let path = scenario(&place, &vm("a", "", &workload));
        let output = place.run(&path, &[]).output().unwrap();
        let error = fails_with(5, &output);
        for words in ["VM a"].iter().chain(said) {
            assert!(error.contains(words), "{what}: no {words:?} in {error}");
        }
    }
}

#[test]
fn a_background_program_that_is_never_ready_is_named_with_its_line() {
    let place = Place::beside();
    c_program(place.folder.path());
    let server = vm(
        "b",
        "background = true",
        "\"./mine\"\nargs = [\"x\"]\nready = \"listening\"",
    );
    let path = scenario(
        &place,
        &(vm("a", "", "\"spin\"\nargs = [\"--time-limit-ms\", \"10\"]") + &server),
    );
    let error = fails_with(5, &place.run(&path, &[]).output().unwrap());
    for words in [
        "VM b",
        "a line with `listening`",
        "ended before that: exit status: 0",
    ] {
        assert!(error.contains(words), "no {words:?} in {error}");
    }
}

#[test]
fn a_cache_and_a_web_server_answer_each_request_in_the_short_form_of_the_example() {
    let place = Place::beside();
    let short = ["\"1500\"", "\"100\""];
    let result = place.raced_with("scenarios/servers.toml", short, &["stock"], "1");
    for (program, operations) in [("memcached", 2 * 500), ("nginx", 100)] {
        let of = |name: &str| metric(&result, "stock", program, name);
        assert_eq!(of(&format!("{program}.operations")), operations);
        assert!(of("throughput") > 0, "{program}");
    }
    assert!(metric(&result, "stock", "redis", "redis.get.throughput") > 0);
}

#[test]
fn a_client_in_one_vm_is_served_by_a_program_in_another() {
    let place = Place::beside();
    let server = place.path("redis-server");
    std::os::unix::fs::symlink("/usr/bin/redis-check-rdb", server).unwrap();
    let path = scenario(&place, &documented("Programs of other VMs"));
    ends_well(&place.run(&path, &[]).output().unwrap());
    let result = place.result("test", "bochs");
    assert!(metric(&result, "plain", "redis", "redis.get.throughput") > 0);
    // The server's work is in its own VM.
    assert!(metric(&result, "plain", "redis-server@redis", "cpu_time.vcpus") > 0);
}

#[test]
fn what_a_program_lacks_is_named_before_anything_is_run() {
    let place = Place::beside();
    let folder = place.folder.path();
    c_program(folder);
    std::fs::remove_file(folder.join("libanswer.so")).unwrap();
    std::fs::write(folder.join("script"), "#!/usr/bin/env nosuchlanguage\n").unwrap();
    std::fs::write(folder.join("rubbish"), [0x7f, b'E', b'L', b'F', 1, 2, 3]).unwrap();
    for (workload, said) in [
        (
            "\"./mine\"",
            &["libanswer.so", "is in none of", "apt-get install"][..],
        ),
        (
            "\"./script\"",
            &[
                "`#!/usr/bin/env nosuchlanguage`",
                "nosuchlanguage is in none of",
            ],
        ),
        (
            "\"./rubbish\"",
            &["rubbish is not an ELF program for x86-64"],
        ),
        ("\"./nosuch\"", &["nosuch is not a file", "--programs"]),
        (
            "\"/bin/true\"\nfiles = [\"nosuch\"]",
            &["nosuch is not a file or a folder"],
        ),
        (
            "\"/bin/true\"\nfiles = [\"c.c:/tmp/c\"]",
            &["something of its own on /tmp"],
        ),
    ] {
        let path = scenario(&place, &vm("a", "", workload));
        let output = steady()
            .args(["run", "--check"])
            .arg(&path)
            .output()
            .unwrap();
        let error = fails_with(2, &output);
        for words in said {
            assert!(error.contains(words), "{workload}: no {words:?} in {error}");
        }
    }
    let elsewhere = tempfile::tempdir().unwrap();
    c_program(elsewhere.path());
    let path = scenario(&place, &vm("a", "", "\"./mine\""));
    let mut check = steady();
    check
        .args(["run", "--check", "--programs"])
        .arg(elsewhere.path())
        .arg(&path);
    ends_well(&check.output().unwrap());
}
