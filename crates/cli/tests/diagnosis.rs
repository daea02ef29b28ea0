// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a reader of a diagnosis sees: the first lines, the page, before and after.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

const BROWSERS: [&str; 3] = ["chromium-headless-shell", "chromium", "google-chrome"];

fn fixture(name: &str) -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap().join(name)
}

fn stall() -> String {
    let path = fixture("diagnose/tests/fixtures/stall.dat");
    path.to_str().unwrap().to_owned()
}

fn steady(words: &[&str]) -> String {
    steady_on(words, &[])
}

/// The same with these variables of the environment.
fn steady_on(words: &[&str], terminal: &[(&str, &str)]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_steady"))
        .arg("diagnose")
        .env("NO_COLOR", "1")
        .envs(terminal.iter().copied())
        .args(words)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {talk}");
    String::from_utf8(output.stdout).unwrap()
}

fn json(words: &[&str]) -> Value {
    serde_json::from_str(&steady(&[words, &["--json"]].concat())).unwrap()
}

#[test]
fn the_short_text_has_forty_lines_and_begins_with_what_how_much_and_what_to_do() {
    let text = steady(&[&stall()]);
    let mut lines = text.lines();
    assert!(text.lines().count() <= 40, "{text}");
    let what = "host: vCPUs are ready and do not run; fault: the host, with too few pCPUs; ";
    assert!(lines.next().unwrap().starts_with(what), "{text}");
    let why = "Why: 5 vCPUs want 3.4 of the host's 2 pCPUs, and none idles: ";
    assert!(lines.next().unwrap().starts_with(why), "{text}");
    let how_much = "Lost: 33.1 % of the time of the host's VMs (2.23 s in 1.35 s).";
    assert_eq!(lines.next(), Some(how_much));
    // No pCPU idles: there is nowhere to move a VM to.
    let step = lines.next().unwrap();
    assert!(
        step.starts_with("Do: run fewer vCPUs on this host"),
        "{step}"
    );
    assert!(!text.contains("pin vm"), "{text}");
    assert!(text.contains("(--verbose)"), "the rest is announced");
}

#[test]
fn everything_comes_with_verbose() {
    let text = steady(&[&stall(), "--verbose"]);
    let findings = json(&[&stall()])["findings"].as_array().unwrap().len();
    assert!(
        text.contains(&format!("\n{findings}. ")),
        "{findings} findings"
    );
    assert!(text.contains("vm1: VM exits") && text.contains("by function:"));
}

#[test]
fn the_time_option_of_the_worst_instance_shows_it() {
    let text = steady(&[&stall()]);
    let (_, after) = text.split_once("--time ").unwrap();
    let span = after.split_whitespace().next().unwrap();
    let whole = &json(&[&stall()])["findings"][0]["worst"];
    let part = json(&[&stall(), "--time", span]);
    let worst = &part["findings"][0]["worst"];
    assert_eq!(worst, whole, "of {span}");
}

#[test]
fn steps_that_cannot_be_taken_come_last_and_say_so() {
    let diagnosis = json(&[&stall()]);
    for finding in diagnosis["findings"].as_array().unwrap() {
        let steps = finding["next"].as_array().unwrap();
        let available: Vec<bool> = steps
            .iter()
            .map(|step| step["available"].as_bool().unwrap())
            .collect();
        assert!(available.is_sorted_by(|a, b| a >= b), "{finding}");
        for step in steps.iter().filter(|step| step["available"] == false) {
            let remedy = step["remedy"].as_str().unwrap();
            let says = format!("({remedy}, which this project does not ship)");
            let text = steady(&[&stall(), "--verbose"]);
            let words: Vec<&str> = text.split_whitespace().collect();
            assert!(words.join(" ").contains(&says), "{says}");
        }
    }
}

#[test]
fn each_check_has_an_answer_and_a_refuted_one_lowers_the_confidence() {
    let map = fixture("diagnose/tests/fixtures/stall.map");
    let diagnosis = json(&[&stall(), "--symbols", map.to_str().unwrap()]);
    let findings = diagnosis["findings"].as_array().unwrap();
    let answers = |finding: &Value| -> Vec<String> {
        let checks = finding["checks"].as_array().unwrap().iter();
        checks
            .map(|check| check["answer"].as_str().unwrap().to_owned())
            .collect()
    };
    assert!(findings.iter().all(|finding| !answers(finding).is_empty()));
    for finding in findings {
        if answers(finding).iter().any(|answer| answer == "refuted") {
            assert_eq!(finding["confidence"], "low", "{finding}");
        }
    }
}

/// The page of the shipped trace, with a click on the first finding at its end.
fn clicked(folder: &Path) -> PathBuf {
    let page = folder.join("page.html");
    steady(&[&stall(), "--html", page.to_str().unwrap()]);
    let text = std::fs::read_to_string(&page).unwrap();
    let click =
        "<script>document.querySelector('button.show[data-finding=\"1\"]').click()</script>";
    std::fs::write(&page, text.replace("</body>", &format!("{click}</body>"))).unwrap();
    page
}

/// The page after its scripts have run.
fn drawn(page: &Path) -> String {
    let found = BROWSERS.iter().find(|name| {
        let there = Command::new(name).arg("--version").output();
        there.is_ok_and(|output| output.status.success())
    });
    let browser = found.expect("no Chromium is installed; run setup/install");
    let output = Command::new("timeout")
        .args([
            "60",
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--dump-dom",
        ])
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn attribute(tag: &str, name: &str) -> u64 {
    let (_, rest) = tag.split_once(&format!(" {name}=\"")).unwrap();
    rest.split('"').next().unwrap().parse().unwrap()
}

#[test]
fn a_click_on_a_finding_shows_its_place_on_the_time_line() {
    let folder = tempfile::tempdir().unwrap();
    let dom = drawn(&clicked(folder.path()));
    let (_, figure) = dom.split_once("<figure class=\"when\"").unwrap();
    let tag = figure.split('>').next().unwrap();
    let worst = &json(&[&stall()])["findings"][0]["worst"];
    let begin = worst["begin_ns"].as_u64().unwrap();
    let end = begin + worst["length_ns"].as_u64().unwrap();
    let (from, to) = (attribute(tag, "data-from"), attribute(tag, "data-to"));
    assert!(from <= begin && end <= to, "{tag}");
    assert!(to - from < 50_000_000, "it is zoomed to: {tag}");
    assert_eq!(attribute(tag, "data-finding"), 1);
    assert!(
        figure.matches("class=\"found\"").count() >= 1,
        "it is marked"
    );
}

#[test]
fn a_finding_has_the_plot_that_shows_it_beside_it_and_each_plot_stands_once() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    steady(&[&stall(), "--html", page.to_str().unwrap()]);
    let text = std::fs::read_to_string(&page).unwrap();
    // The first finding is about the host; that of a VM has its plot.
    let (_, second) = text.split_once("id=\"f2\"").unwrap();
    let second = second.split("id=\"f3\"").next().unwrap();
    assert!(second.contains("<figcaption>Pause-loop exits by cause</figcaption>"));
    let ids: Vec<&str> = text
        .split(" id=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    let once: std::collections::BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(ids.len(), once.len(), "{ids:?}");
}

#[test]
fn the_page_needs_nothing_beside_it_and_warns_only_of_what_was_lost() {
    let folder = tempfile::tempdir().unwrap();
    let (page, cut) = (
        folder.path().join("page.html"),
        folder.path().join("cut.dat"),
    );
    steady(&[&stall(), "--html", page.to_str().unwrap()]);
    let text = std::fs::read_to_string(&page).unwrap();
    for foreign in ["http:", "https:", " src=", "url(", "@import", "<link"] {
        assert!(!text.contains(foreign), "the page has {foreign}");
    }
    assert!(text.len() < 200_000, "{} bytes", text.len());
    let warning = "Before you trust these numbers";
    assert!(!text.contains(warning));
    assert!(text.find("class=\"when\"").unwrap() < text.find(">Findings<").unwrap());
    let bytes = std::fs::read(stall()).unwrap();
    std::fs::write(&cut, &bytes[..bytes.len() * 3 / 4]).unwrap();
    steady(&[cut.to_str().unwrap(), "--html", page.to_str().unwrap()]);
    assert!(std::fs::read_to_string(&page).unwrap().contains(warning));
}

#[test]
fn two_traces_are_compared_and_one_of_each_shows_nothing() {
    let other = fixture("tracefile/tests/fixtures/bochs-intel-v7-zstd.dat");
    let diagnosis = json(&[&stall(), other.to_str().unwrap()]);
    let rows = diagnosis["comparison"]["rows"].as_array().unwrap();
    assert!(rows.len() > 5);
    assert!(rows.iter().all(|row| row["change"] == "too-few-traces"));
    let text = steady(&[&stall(), other.to_str().unwrap()]);
    assert!(
        text.contains("Before and after, one trace of each"),
        "{text}"
    );
}

#[test]
fn four_of_each_that_differ_are_told_from_chance_and_four_that_do_not_are_not() {
    let other = fixture("tracefile/tests/fixtures/bochs-intel-v7-zstd.dat");
    let (a, b) = (stall(), other.to_str().unwrap().to_owned());
    let change = |before: &str, after: &str| {
        let words = [
            vec!["--before"],
            vec![before; 4],
            vec!["--after"],
            vec![after; 4],
        ];
        let rows = json(&words.concat())["comparison"]["rows"].clone();
        let rows = rows.as_array().unwrap().clone();
        let steal = rows
            .iter()
            .find(|row| row["id"] == "host-overcommitted" && row["vm"].is_null());
        steal.unwrap()["change"].as_str().unwrap().to_owned()
    };
    assert_eq!(change(&a, &b), "worse");
    assert_eq!(change(&b, &a), "better");
    assert_eq!(change(&a, &a), "no-difference-shown");
}

#[test]
fn the_text_is_as_wide_as_the_terminal_and_plain_where_it_is_dumb() {
    for columns in ["50", "72", "220"] {
        let text = steady_on(&[&stall()], &[("COLUMNS", columns)]);
        let most: usize = columns.parse().unwrap();
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
        // No word of it has more letters than a fifth of the narrowest line.
        assert!((most - 25..=most).contains(&widest), "{columns}: {widest}");
    }
    assert!(!steady(&[&stall()]).is_ascii());
    let dumb = steady_on(&[&stall()], &[("TERM", "dumb")]);
    assert!(dumb.is_ascii() && dumb.contains("   -> "), "{dumb}");
}

#[test]
fn what_the_first_lines_say_is_not_said_again() {
    let text = steady_on(&[&stall()], &[("COLUMNS", "220")]);
    let (answer, rest) = text.split_once("\n\n").unwrap();
    let clauses = answer.split([':', ';', ',', '\n']).map(str::trim);
    for clause in clauses.filter(|clause| clause.split(' ').count() > 3) {
        let clause = clause.trim_end_matches('.');
        assert!(!rest.contains(clause), "`{clause}` again: {rest}");
    }
    let lower = text.to_lowercase();
    assert_eq!(lower.matches("not judged: ").count(), 1, "{text}");
    assert!(
        text.trim_end()
            .lines()
            .last()
            .unwrap()
            .starts_with("Not judged: ")
    );
}

/// The events of a VM whose vCPUs each run on a pCPU of their own half of the time.
fn many(vcpus: u32) -> String {
    let mut lines = Vec::new();
    for vcpu in 0..vcpus {
        for turn in 0..8 {
            let head = |who: &str, tid: u32, at: u32| {
                (
                    at,
                    format!("{who}-{tid} ( 1000) [{vcpu:03}] d..1. 5.{at:06}: "),
                )
            };
            let (own, tid, at) = (format!("CPU {vcpu}/KVM"), 1001 + vcpu, turn * 10_000 + vcpu);
            let (begin, entry) = head(&own, tid, at);
            lines.push((begin, format!("{entry}kvm_entry: vcpu {vcpu}, rip 0x10\n")));
            let (end, exit) = head(&own, tid, at + 4_000 + vcpu * 20);
            let out = format!("{exit}kvm_exit: vcpu {vcpu} reason EXTERNAL_INTERRUPT rip 0x10\n");
            lines.push((end, out));
            let switch = |from: &str, from_tid: u32, to: &str, to_tid: u32| {
                format!(
                    "sched_switch: prev_comm={from} prev_pid={from_tid} prev_prio=120 prev_state=R \
                     ==> next_comm={to} next_pid={to_tid} next_prio=120\n"
                )
            };
            let (gone, off) = head(&own, tid, at + 4_001 + vcpu * 20);
            lines.push((gone, off + &switch(&own, tid, "backup", 7)));
            let (back, on) = head("backup", 7, at + 9_990);
            lines.push((back, on + &switch("backup", 7, &own, tid)));
        }
    }
    lines.sort();
    lines.into_iter().map(|(_, line)| line).collect()
}

#[test]
fn of_many_rows_the_worst_are_shown_first_and_pcpus_have_the_colours_of_vms() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, page) = (folder.path().join("t.txt"), folder.path().join("page.html"));
    std::fs::write(&trace, many(60)).unwrap();
    let words = [trace.to_str().unwrap(), "--html", page.to_str().unwrap()];
    let text = steady(&words);
    let whose = "VM: vm1 (QEMU 1000, threads 1001 to 1060).";
    assert!(text.starts_with("vm1: ") && text.contains(whose), "{text}");
    assert!(text.contains(" (in the trace: 5.0"), "{text}");
    let dom = drawn(&page);
    let (_, drawing) = dom.split_once("aria-label=\"Time line of").unwrap();
    let drawing = drawing.split("</svg>").next().unwrap();
    let labels: Vec<&str> = drawing
        .split("text-anchor=\"end\">")
        .skip(1)
        .filter_map(|rest| rest.split('<').next())
        .filter(|label| label.contains("CPU"))
        .collect();
    // The less a vCPU runs, the longer it waits: vCPU 0 most.
    assert_eq!(labels.len(), 24, "{labels:?}");
    assert_eq!(labels[0], "vm1 vCPU 0");
    assert!(labels[16].starts_with("pCPU "), "{labels:?}");
    assert!(dom.contains(">all 120 rows</button>"));
    assert!(drawing.contains("class=\"v0\"") && drawing.contains("class=\"wait\""));
    // Ticks are round: 8 turns of 10 ms.
    for tick in [">0 ms<", ">20 ms<", ">80 ms<"] {
        assert!(drawing.contains(tick), "{tick}");
    }
}
