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
    let output = Command::new(env!("CARGO_BIN_EXE_steady"))
        .arg("diagnose")
        .env("NO_COLOR", "1")
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
    let what = "host: vCPUs are ready and do not run: 5 vCPUs want 3.4 of the host's 2 pCPUs, and";
    assert!(lines.next().unwrap().starts_with(what), "{text}");
    let _rest = lines.next();
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

fn attribute(tag: &str, name: &str) -> u64 {
    let (_, rest) = tag.split_once(&format!(" {name}=\"")).unwrap();
    rest.split('"').next().unwrap().parse().unwrap()
}

#[test]
fn a_click_on_a_finding_shows_its_place_on_the_time_line() {
    let found = BROWSERS.iter().find(|name| {
        let there = Command::new(name).arg("--version").output();
        there.is_ok_and(|output| output.status.success())
    });
    let browser = found.expect("no Chromium is installed; mend: setup/install");
    let folder = tempfile::tempdir().unwrap();
    let page = clicked(folder.path());
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
    let dom = String::from_utf8(output.stdout).unwrap();
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
