// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does a real program go through capture, check, compare and report; is bad input answered with
//! one clear line? Needs a C compiler, make and qemu-x86_64, or what builds it; setup/install has
//! all.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// A folder of its own in which the command is run.
struct Place(tempfile::TempDir);

fn project() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.ancestors().nth(2).unwrap().to_path_buf()
}

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn steady(&self, words: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_steady"))
            .current_dir(self.0.path())
            .env("STEADY_HOME", project())
            .env("NO_COLOR", "1")
            .args(words)
            .output()
            .unwrap()
    }

    /// Standard output of a command that must end well.
    fn prints(&self, words: &[&str]) -> String {
        let output = self.steady(words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "steady {words:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The one line on standard error of a command that must end with code 2 and print nothing.
    fn refuses(&self, words: &[&str]) -> String {
        let output = self.steady(words);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "steady {words:?}: {said}");
        assert!(output.stdout.is_empty(), "nothing is printed");
        assert_eq!(said.lines().count(), 1, "{said}");
        said
    }

    /// Captures the word count with two threads into `words.smt`; returns what was said.
    fn capture(&self) -> String {
        let built = Command::new("make")
            .args(["-s", "-C"])
            .arg(project().join("workloads/kernels"))
            .arg(format!("BUILD={}", self.0.path().display()))
            .arg(self.path("wordcount"))
            .status()
            .unwrap();
        assert!(built.success(), "the word count builds");
        let output = self.steady(&[
            "coherence",
            "capture",
            "-o",
            "words.smt",
            "--wait-marker",
            "--max-accesses",
            "100000",
            "--",
            "./wordcount",
            "2",
            "1",
        ]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        said
    }
}

fn metric(result: &Value, variant: &str, name: &str) -> i64 {
    let variants = result["variants"].as_array().unwrap();
    let variant = variants.iter().find(|one| one["name"] == variant).unwrap();
    let metrics = variant["repetitions"][0]["metrics"].as_array().unwrap();
    let metric = metrics.iter().find(|one| one["name"] == name).unwrap();
    metric["value"].as_i64().unwrap()
}

#[test]
fn a_capture_names_the_processes_that_are_not_in_it() {
    let place = Place::new();
    let words = ["coherence", "capture", "-o", "sh.smt", "--"];
    let program = ["/bin/sh", "-c", "/bin/true; exit 0"];
    let output = place.steady(&[&words[..], &program[..]].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let named = "  not in the trace: 1 process that it made\n    1 /bin/true\n";
    assert!(said.contains(named), "{said}");
}

#[test]
fn a_real_program_goes_through_capture_check_compare_and_report() {
    let place = Place::new();
    let said = place.capture();
    assert!(said.contains("stopped at the limit on accesses"), "{said}");

    let checked = place.prints(&["coherence", "check", "words.smt"]);
    assert!(checked.contains("words.smt: sound"), "{checked}");
    assert!(checked.contains("command: ./wordcount 2 1"), "{checked}");
    let digest = |text: &str| {
        let line = text.lines().find(|line| line.contains("digest"));
        line.unwrap().to_owned()
    };
    assert_eq!(digest(&said), digest(&checked));

    let table = place.prints(&["coherence", "compare", "words.smt", "--check", "-o", "out"]);
    assert!(
        table.contains("kvmtlb") && table.contains("attc"),
        "{table}"
    );
    assert!(
        table.contains("per cycle") && !table.contains("ppm"),
        "{table}"
    );
    assert!(table.contains("· configuration "), "{table}");
    let said = "Machine paper: virtualized, 8 cores at 4000 MHz, DRAM and NVM, 25 % of migrations";
    assert!(table.contains(said), "{table}");
    assert!(place.path("out/tlb-words/report.html").is_file());

    let written = "out/tlb-words/coherence/result.json";
    assert_eq!(place.prints(&["report", written]), table);
    place.prints(&["report", written, "--html", "page.html"]);
    let page = std::fs::read_to_string(place.path("page.html")).unwrap();
    assert!(page.contains("of a real program") && page.contains("per cycle"));
    let text = std::fs::read_to_string(place.path(written)).unwrap();
    let result: Value = serde_json::from_str(&text).unwrap();
    // A quarter of the 100,000 accesses warms up; the program's own updates reach every scheme.
    for scheme in ["kvmtlb", "shoot4u", "hatric", "attc", "ideal"] {
        assert_eq!(metric(&result, scheme, "accesses"), 75_000, "{scheme}");
    }
    assert_eq!(metric(&result, "attc", "shootdown.ipi"), 0);
}

/// The shell commands of the guide's chapter on TLB coherence.
fn commands_of_the_guide() -> String {
    let guide = std::fs::read_to_string(project().join("docs/GUIDE.md")).unwrap();
    let (_, chapter) = guide.split_once("TLB coherence in hardware").unwrap();
    let blocks = chapter.split("```sh\n").skip(1);
    blocks
        .map(|block| block.split_once("```").unwrap().0)
        .collect()
}

#[test]
fn the_commands_of_the_guide_work_as_they_stand() {
    let place = Place::new();
    std::fs::create_dir(place.path("out")).unwrap();
    std::os::unix::fs::symlink(project().join("workloads"), place.path("workloads")).unwrap();
    let commands = commands_of_the_guide();
    for verb in ["capture", "check", "compare", "report"] {
        assert!(
            commands.contains(verb),
            "the guide shows {verb}: {commands}"
        );
    }
    let own = Path::new(env!("CARGO_BIN_EXE_steady")).parent().unwrap();
    let path = std::env::var("PATH").unwrap();
    let output = Command::new("sh")
        .args(["-euc", &commands])
        .current_dir(place.0.path())
        .env("PATH", format!("{}:{path}", own.display()))
        .env("STEADY_HOME", project())
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let (out, said) = (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    );
    assert!(output.status.success(), "{said}");
    assert!(out.contains("words.smt: sound"), "{out}");
    assert!(place.path("out/tlb-words/report.html").is_file());
    // Once by compare, once by report, and once by compare on the machine without hypervisor.
    assert_eq!(out.matches("tlb-words: TLB coherence").count(), 3, "{out}");
    assert!(out.contains("invlpgb"), "{out}");
}

#[test]
fn the_number_of_threads_does_not_change_a_result() {
    let place = Place::new();
    let with = |threads: &str| {
        let text = place.prints(&[
            "coherence",
            "compare",
            "bodytrack",
            "--accesses",
            "60000",
            "--threads",
            threads,
            "--json",
        ]);
        let result: Value = serde_json::from_str(&text).unwrap();
        result["measures_digest"].as_str().unwrap().to_owned()
    };
    assert_eq!(with("1"), with("3"));
}

#[test]
fn a_damaged_trace_is_refused_with_its_place() {
    let place = Place::new();
    place.capture();
    let mut bytes = std::fs::read(place.path("words.smt")).unwrap();
    bytes[5000] ^= 0x10;
    std::fs::write(place.path("words.smt"), bytes).unwrap();
    for command in ["check", "compare", "run"] {
        let said = place.refuses(&["coherence", command, "words.smt"]);
        let place_and_kind = ["words.smt: chunk 0, byte ", "damaged: checksum of a chunk"];
        assert!(
            place_and_kind.iter().all(|part| said.contains(part)),
            "{said}"
        );
    }
}

#[test]
fn an_unknown_scheme_names_the_nearest_right_one() {
    let said = Place::new().refuses(&["coherence", "compare", "dedup", "--schemes", "kvmtlb,atc"]);
    assert!(
        said.contains("no scheme `atc`; did you mean `attc`?"),
        "{said}"
    );
}

#[test]
fn an_unknown_workload_names_the_nearest_right_one() {
    let said = Place::new().refuses(&["coherence", "run", "dedupe"]);
    assert!(
        said.contains("no workload `dedupe`; did you mean `dedup`?"),
        "{said}"
    );
}

#[test]
fn a_name_like_no_other_is_answered_with_the_list() {
    let place = Place::new();
    place.write("machine.toml", "preset = \"quantum\"\n");
    for (arguments, start) in [
        (
            vec!["run", "dedup", "--scheme", "prayer"],
            "no scheme `prayer`; there are: ipi, ",
        ),
        (
            vec!["run", "minesweeper"],
            "no workload `minesweeper`; there are: ",
        ),
        (
            vec!["run", "dedup", "--machine", "machine.toml"],
            "no preset `quantum`; there are: ",
        ),
    ] {
        let said = place.refuses(&[vec!["coherence"], arguments].concat());
        assert!(
            said.contains(start) && !said.contains("did you mean"),
            "{said}"
        );
    }
}

#[test]
fn an_impossible_machine_is_refused_with_key_and_bound() {
    let place = Place::new();
    place.write("machine.toml", "[l2]\nkib = 16\n");
    let said = place.refuses(&["coherence", "run", "dedup", "--machine", "machine.toml"]);
    assert!(
        said.contains("machine.toml:2:7: `l2.kib` is 16: expected at least l1d.kib (32)"),
        "{said}"
    );
}

#[test]
fn a_machine_is_printed_with_every_key_and_can_be_given_back() {
    let place = Place::new();
    let text = place.prints(&["coherence", "machine", "server"]);
    assert!(
        text.contains("preset = \"server\"") && text.contains("[hybrid]"),
        "{text}"
    );
    place.write("mine.toml", &text);
    assert_eq!(place.prints(&["coherence", "machine", "mine.toml"]), text);
}

#[test]
fn help_names_every_preset_and_every_scheme() {
    let help = Place::new().prints(&["coherence", "compare", "--help"]);
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let presets = "paper, server, sapphire-rapids, granite-rapids, zen5, or a TOML file";
    assert!(help.contains(presets), "{help}");
    let (_, list) = help.split_once("There are ").unwrap();
    let (list, _) = list.split_once(". If not given").unwrap();
    let list = list.replace("; on native machines also ", ", ");
    let mut listed: Vec<&str> = list.split(", ").collect();
    listed.sort_unstable();
    let error = Place::new().refuses(&["coherence", "compare", "dedup", "--schemes", "x"]);
    let (_, names) = error.trim().split_once("there are: ").unwrap();
    let mut names: Vec<&str> = names.split(", ").collect();
    names.sort_unstable();
    assert_eq!(listed, names);
}

#[test]
fn a_machine_file_without_end_is_refused() {
    let said = Place::new().refuses(&["coherence", "machine", "/dev/zero"]);
    assert!(said.contains("larger than 1048576 bytes"), "{said}");
}

#[test]
fn a_scheme_for_native_systems_is_refused_on_a_virtualized_machine() {
    let said = Place::new().refuses(&["coherence", "run", "dedup", "--scheme", "unitd"]);
    assert!(
        said.contains(
            "`unitd` handles native systems only; set `mode = \"native\"` in the machine"
        ),
        "{said}"
    );
}

#[test]
fn a_capture_that_records_nothing_fails_and_leaves_no_trace() {
    let place = Place::new();
    let words = ["coherence", "capture", "-o", "x.smt"];
    let skip = ["--skip-instructions", "1000000000000", "--", "/bin/true"];
    let output = place.steady(&[&words[..], &skip[..]].concat());
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("nothing was recorded: the program exited"),
        "{said}"
    );
    assert!(!place.path("x.smt").exists());
}

#[test]
fn a_host_that_cannot_be_captured_is_refused_with_nothing_left() {
    let place = Place::new();
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/two-vms.toml");
    std::fs::create_dir(place.path("there.run")).unwrap();
    for (words, code, said) in [
        (&["--host", "none.toml"][..], 2, "no such scenario file"),
        (
            &["--host", shipped, "--variant", "nope"],
            2,
            "no variant `nope`",
        ),
        (
            &["--host", shipped, "-o", "there"],
            1,
            "remove it, or name another trace",
        ),
        (&["--host", shipped, "-o", "none/x"], 1, "cannot make"),
        (&["--host", shipped, "--", "true"], 2, "cannot be used with"),
        (
            &["--variant", "ipi", "--", "true"],
            2,
            "cannot be used with",
        ),
    ] {
        let output: &[&str] = if words.contains(&"-o") {
            &[]
        } else {
            &["-o", "x.sht"]
        };
        let ended = place.steady(&[&["coherence", "capture"], output, words].concat());
        let refused = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(code), "{words:?}: {refused}");
        assert!(refused.contains(said), "{words:?}: {refused}");
    }
    std::fs::remove_dir(place.path("there.run")).unwrap();
    assert_eq!(std::fs::read_dir(place.path("")).unwrap().count(), 0);
}

#[test]
fn a_script_cannot_be_captured_and_leaves_no_trace() {
    let place = Place::new();
    place.write("script", "#!/bin/sh\n");
    let mut mode = std::fs::metadata(place.path("script"))
        .unwrap()
        .permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
    std::fs::set_permissions(place.path("script"), mode).unwrap();
    let said = place.refuses(&["coherence", "capture", "-o", "x.smt", "--", "./script"]);
    assert!(said.contains("not an x86-64 ELF program"), "{said}");
    assert!(!place.path("x.smt").exists());
}

/// One instruction of a ChampSim trace: a load.
fn champsim_load(address: u64) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[..8].copy_from_slice(&0x40_0000_u64.to_le_bytes());
    bytes[32..40].copy_from_slice(&address.to_le_bytes());
    bytes
}

#[test]
fn a_trace_of_champsim_is_converted_checked_and_simulated() {
    let place = Place::new();
    let loads: Vec<u8> = (0..4000)
        .flat_map(|at| champsim_load(0x1000_0000 + at * 64))
        .collect();
    std::fs::write(place.path("a.champsim"), loads).unwrap();
    let said = place.prints(&["coherence", "convert", "-o", "a.smt", "a.champsim"]);
    assert!(
        said.contains("4000 loads and 0 stores of 1 threads"),
        "{said}"
    );
    let text = place.prints(&["coherence", "check", "a.smt", "--json"]);
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&document["schema"], &document["version"]),
        (&"steady.traces".into(), &1.into())
    );
    assert_eq!(document["traces"][0]["loads"], 4000);
    let table = place.prints(&["coherence", "compare", "a.smt", "--check"]);
    assert!(table.contains("of a ChampSim trace"), "{table}");
}

#[test]
fn a_foreign_trace_that_zstd_packed_is_converted_and_one_by_lz4_names_the_cure() {
    let place = Place::new();
    let loads: Vec<u8> = (1..=100).flat_map(|at| champsim_load(at * 64)).collect();
    std::fs::write(place.path("a.champsim"), &loads).unwrap();
    let packed = zstd::stream::encode_all(loads.as_slice(), 1).unwrap();
    std::fs::write(place.path("x.zst"), packed).unwrap();
    for (trace, from) in [("a.smt", "a.champsim"), ("x.smt", "x.zst")] {
        place.prints(&["coherence", "convert", "-o", trace, from]);
    }
    let loads = |trace| {
        let text = place.prints(&["coherence", "check", trace, "--json"]);
        let document: Value = serde_json::from_str(&text).unwrap();
        document["traces"][0]["loads"].clone()
    };
    assert_eq!(loads("x.smt"), 100);
    assert_eq!(loads("a.smt"), 100);
    std::fs::write(place.path("x.lz4"), b"\x04\x22\x4d\x18rest").unwrap();
    let said = place.refuses(&["coherence", "convert", "-o", "y.smt", "x.lz4"]);
    assert!(said.contains("unpack it: lz4 -d"), "{said}");
}

#[test]
fn the_command_of_a_result_can_be_run_again() {
    let place = Place::new();
    let words = ["coherence", "run", "dedup", "--accesses", "20000", "--json"];
    let text = place.prints(&[&words[..], &["--out", "a b"]].concat());
    let result: Value = serde_json::from_str(&text).unwrap();
    let command = result["run"]["command"].as_str().unwrap();
    assert!(command.ends_with("--out 'a b'"), "{command}");
}

#[test]
fn a_foreign_trace_that_is_cut_leaves_nothing_behind() {
    let place = Place::new();
    std::fs::write(place.path("a.champsim"), &champsim_load(64)[..40]).unwrap();
    let said = place.refuses(&["coherence", "convert", "-o", "a.smt", "a.champsim"]);
    assert!(said.contains("a.champsim: byte 0: the file ends"), "{said}");
    assert!(!place.path("a.smt").exists());
}
