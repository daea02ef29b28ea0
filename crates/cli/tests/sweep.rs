// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady coherence sweep`, `compare --seeds` and traces in several VMs: the same bytes on one
//! thread or two and after an interruption, every counter, intervals, errors that name the key.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

const SWEEP: [&str; 11] = [
    "sweep",
    "bodytrack",
    "hybrid.guest_percent=0,100",
    "mode=virtualized,native",
    "--accesses",
    "30000",
    "--seeds",
    "5",
    "--schemes",
    "kvmtlb,attc",
    "-o",
];

/// Standard output, standard error and the exit status.
fn steady(folder: &Path, words: &[&str]) -> (String, String, i32) {
    let output = Command::new(env!("CARGO_BIN_EXE_steady"))
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .arg("coherence")
        .args(words)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        text(output.stdout),
        text(output.stderr),
        output.status.code().unwrap(),
    )
}

fn prints(folder: &Path, words: &[&str]) -> String {
    let (out, said, code) = steady(folder, words);
    assert_eq!(code, 0, "{words:?}: {said}");
    out
}

/// The rows of a CSV without quotes, by column.
fn rows(csv: &str) -> Vec<BTreeMap<&str, &str>> {
    let mut lines = csv.lines().map(|line| line.split(','));
    let head: Vec<&str> = lines.next().unwrap().collect();
    lines
        .map(|line| head.iter().copied().zip(line).collect())
        .collect()
}

/// Writes a trace, `t.smt`, and a machine without hypervisor or NVM, `dram.toml`.
fn natively(folder: &Path, text: &str) {
    let machine = "mode = \"native\"\nhybrid.enabled = false\n";
    std::fs::write(folder.join("dram.toml"), machine).unwrap();
    std::fs::write(folder.join("t.txt"), text).unwrap();
    prints(folder, &["convert", "-o", "t.smt", "t.txt"]);
}

#[test]
fn one_thread_two_an_interruption_and_jobs_give_the_same_bytes() {
    let place = tempfile::tempdir().unwrap();
    let with =
        |out: &str, more: &[&str]| prints(place.path(), &[&SWEEP[..], &[out], more].concat());
    let read = |name: &str| std::fs::read(place.path().join(name)).unwrap();
    let table = with("a", &["--threads", "1"]);
    assert_eq!(table.lines().count(), 8, "{table}");
    assert!(
        table.contains("hybrid.guest_percent=100 mode=native · 5 seeds"),
        "{table}"
    );

    // By jobs, one of them lost and one damaged: what is left is done by the sweep itself.
    let jobs = with("b", &["--jobs"]);
    assert_eq!(jobs.lines().count(), 20, "{jobs}");
    let first = jobs.lines().next().unwrap();
    assert!(
        first.contains("-o b --piece 1   # hybrid.guest_percent=0 mode=virtualized seed 1"),
        "{first}"
    );
    for number in ["1", "7", "20"] {
        with("b", &["--piece", number]);
    }
    assert_eq!(with("b", &["--jobs"]).lines().count(), 17);
    let pieces = std::fs::read_dir(place.path().join("b/pieces")).unwrap();
    let pieces: Vec<_> = pieces.map(|one| one.unwrap().path()).collect();
    let untouched = std::fs::metadata(&pieces[2]).unwrap().modified().unwrap();
    std::fs::remove_file(&pieces[0]).unwrap();
    let damaged = std::fs::read_to_string(&pieces[1])
        .unwrap()
        .replace("\"value\": 1", "\"value\": 2");
    std::fs::write(&pieces[1], damaged).unwrap();
    assert_eq!(with("b", &["--threads", "2"]), table);
    for name in ["sweep.csv", "sweep.parquet", "sweep.json", "report.html"] {
        assert_eq!(
            read(&format!("a/{name}")),
            read(&format!("b/{name}")),
            "{name}"
        );
    }
    assert_eq!(
        std::fs::metadata(&pieces[2]).unwrap().modified().unwrap(),
        untouched
    );
}

/// A chart for each value of the second key, over those of the first. The ratio of a counter is
/// taken from the CSV by hand: the mean of the logarithms over the seeds.
#[test]
fn the_page_plots_the_measure_asked_for_over_the_first_key() {
    let place = tempfile::tempdir().unwrap();
    let plot = ["--plot", "tlb.l2_misses"];
    prints(place.path(), &[&SWEEP[..], &["out"], &plot[..]].concat());
    let read = |name: &str| std::fs::read_to_string(place.path().join("out").join(name)).unwrap();
    let page = read("report.html");
    assert!(page.contains("<h1>tlb.l2_misses over hybrid.guest_percent</h1>"));
    for title in ["mode=virtualized", "mode=native"] {
        assert!(page.contains(&format!("<h3>{title}</h3>")), "{title}");
    }
    // One for wide pages and one for phones; a row of two cells in each table.
    assert_eq!(page.matches("<svg class=\"chart\"").count(), 2 * 2);
    let csv = read("sweep.csv");
    let all = rows(&csv);
    let logs = |scheme: &str| -> f64 {
        let wanted = all.iter().filter(|row| {
            row["scheme"] == scheme
                && row["mode"] == "virtualized"
                && row["hybrid.guest_percent"] == "100"
        });
        let misses = wanted.map(|row| row["tlb.l2_misses"].parse::<f64>().unwrap().ln());
        misses.sum()
    };
    let ratio = ((logs("attc") - logs("kvmtlb")) / 5.0).exp();
    let cell = format!("<td>×{ratio:.2} [");
    let cells: Vec<&str> = page.lines().filter(|line| line.contains("<td>×")).collect();
    assert!(cells[0].contains(&cell), "{cell} in {}", cells[0]);
}

#[test]
fn a_measure_that_no_scheme_has_is_refused_and_the_pieces_are_kept() {
    let place = tempfile::tempdir().unwrap();
    let words = [&SWEEP[..], &["out", "--plot", "tlb.l3_misses"]].concat();
    let (_, said, code) = steady(place.path(), &words);
    assert!(code != 0 && said.contains("--plot tlb.l3_misses: no scheme has that measure"));
    assert!(said.contains("tlb.l2_misses"), "{said}");
    let held = std::fs::read_dir(place.path().join("out")).unwrap();
    let names: Vec<_> = held.map(|one| one.unwrap().file_name()).collect();
    assert_eq!(names, ["pieces"]);
}

#[test]
fn a_sweep_has_every_counter_that_a_run_has_and_its_interval_is_that_of_compare() {
    let place = tempfile::tempdir().unwrap();
    let sweep = [
        "sweep",
        "bodytrack",
        "attc.atlb_kib=1024,16384",
        "--accesses",
        "30000",
        "--warmup",
        "0",
        "--seeds",
        "8",
        "--schemes",
        "kvmtlb,attc",
        "-o",
        "a",
        "--csv",
    ];
    let csv = prints(place.path(), &sweep);
    let rows = rows(&csv);
    assert_eq!(rows.len(), 32);
    let row = rows
        .iter()
        .find(|row| (row["attc.atlb_kib"], row["seed"], row["scheme"]) == ("16384", "2", "attc"));
    let run = [
        "run",
        "bodytrack",
        "--accesses",
        "30000",
        "--warmup",
        "0",
        "--seed",
        "2",
        "--json",
    ];
    let result: Value = serde_json::from_str(&prints(place.path(), &run)).unwrap();
    let metrics = result["variants"][0]["repetitions"][0]["metrics"]
        .as_array()
        .unwrap();
    assert!(metrics.len() > 40, "{}", metrics.len());
    for metric in metrics {
        let (name, value) = (
            metric["name"].as_str().unwrap(),
            metric["value"].to_string(),
        );
        assert_eq!(row.unwrap()[name], value, "{name}");
    }
    // What a scheme does not count is empty and not 0.
    assert_eq!(rows[0]["counter.own.pointer_evictions"], "");

    let compare = [
        "compare",
        "bodytrack",
        "--accesses",
        "30000",
        "--warmup",
        "0",
        "--seeds",
        "8",
        "--schemes",
        "kvmtlb,attc",
    ];
    let shown = prints(place.path(), &compare);
    let line = shown.lines().rfind(|line| line.contains("attc")).unwrap();
    let table = prints(place.path(), &sweep[..sweep.len() - 1]);
    assert_eq!(table.lines().last(), Some(line));
    let json = std::fs::read(place.path().join("a/sweep.json")).unwrap();
    let json: Value = serde_json::from_slice(&json).unwrap();
    let gain = &json["points"][1]["ipc_over_baseline"]["attc"];
    let (low, high) = (gain["low_ppm"].as_u64(), gain["high_ppm"].as_u64());
    assert!(low.unwrap() > 1_000_000 && high > low, "{gain}");
    assert_eq!(gain["verdict"], "better");
}

#[test]
fn seeds_that_draw_nothing_give_a_ratio_without_interval_and_verdict() {
    let place = tempfile::tempdir().unwrap();
    let turn = |at: usize| {
        let unmap = if at.is_multiple_of(50) {
            "0 unmap 100000 4000\n"
        } else {
            ""
        };
        format!(
            "{unmap}0 w {:x} 8 3\n1 r {:x} 8 3\n",
            0x10_0000 + at % 4 * 4096,
            0x10_0000
        )
    };
    let text = (0..2000).map(turn).collect::<String>();
    std::fs::write(place.path().join("t.txt"), text).unwrap();
    prints(place.path(), &["convert", "-o", "t.smt", "t.txt"]);
    let common = ["--seeds", "8", "--schemes", "ipi,ideal"];
    std::fs::write(
        place.path().join("dram.toml"),
        "mode = \"native\"\nhybrid.enabled = false\n",
    )
    .unwrap();
    let compare = ["compare", "t.smt", "--machine", "dram.toml"];
    let shown = prints(place.path(), &[&compare[..], &common[..]].concat());
    let line = shown.lines().last().unwrap();
    let machine = "Machine dram.toml: native, 8 cores at 4000 MHz, DRAM alone, no migrations.";
    assert!(shown.contains(machine), "{shown}");
    assert!(line.starts_with("  ideal        ×"), "{shown}");
    assert!(
        line.ends_with("(every run alike: one run, no interval)"),
        "{shown}"
    );
    let words = [
        "sweep",
        "t.smt",
        "mode=native",
        "hybrid.enabled=false",
        "-o",
        "a",
    ];
    let table = prints(place.path(), &[&words[..], &common[..]].concat());
    assert_eq!(table.lines().last(), Some(line));
    let json = std::fs::read(place.path().join("a/sweep.json")).unwrap();
    let json: Value = serde_json::from_slice(&json).unwrap();
    let gain = &json["points"][0]["ipc_over_baseline"]["ideal"];
    assert!(gain["ratio_ppm"].as_u64().unwrap() > 1_000_000, "{gain}");
    assert!(
        gain["low_ppm"].is_null() && gain["high_ppm"].is_null(),
        "{gain}"
    );
    assert_eq!(gain["verdict"], "too few runs");
}

#[test]
fn a_check_in_which_no_page_is_used_again_after_an_update_says_that_it_shows_nothing() {
    let place = tempfile::tempdir().unwrap();
    let compare = "compare t.smt --machine dram.toml --warmup 0 --schemes ipi,attc";
    let compare: Vec<&str> = compare.split(' ').collect();
    // The thread gives up one of two pages; then it uses the other, or that page again.
    for (then, shown) in [("5000", false), ("4000", true)] {
        let text = format!("0 map 4000 8192 rw-\n0 r 4000 8\n0 discard 4000 4096\n0 r {then} 8\n");
        natively(place.path(), &text);
        let named = "--check shows nothing of updates";
        let (_, said, code) = steady(place.path(), &[&compare[..], &["--check"]].concat());
        assert_eq!(code, 0, "{said}");
        assert_eq!(said.contains(named), !shown, "{then}: {said}");
        let (_, said, _) = steady(place.path(), &compare);
        assert!(!said.contains(named), "{said}");
    }
}

#[test]
fn a_part_without_updates_is_named_as_such() {
    let place = tempfile::tempdir().unwrap();
    // The page goes after 20 of 100 accesses.
    let before = "0 r 100000 8 3\n".repeat(20);
    let after = "0 r 200000 8 3\n".repeat(80);
    let text = format!("{before}0 unmap 100000 1000\n{after}");
    natively(place.path(), &text);
    for (warmup, idle) in [("25", true), ("10", false)] {
        let common = ["--schemes", "ipi,ideal", "--warmup", warmup];
        let compare = ["compare", "t.smt", "--machine", "dram.toml"];
        let (_, said, code) = steady(place.path(), &[&compare[..], &common[..]].concat());
        assert_eq!(code, 0, "{said}");
        let named = said.contains("no update of translations was counted, so what differs is not");
        assert_eq!(named, idle, "{said}");
        let keys = ["mode=native", "hybrid.enabled=false", "-o", warmup];
        let table = prints(
            place.path(),
            &[&["sweep", "t.smt"], &keys[..], &common[..]].concat(),
        );
        let head = table.lines().next().unwrap();
        assert_eq!(
            head.ends_with("· no update of translations was counted"),
            idle,
            "{table}"
        );
    }
}

#[test]
fn schemes_that_met_different_updates_get_no_verdict() {
    let place = tempfile::tempdir().unwrap();
    // Under IPIs the first thread waits for its first update, while the other goes on. Its further
    // updates are behind the end of the warm-up then.
    let both = "0 r 100000 8 3\n1 r 100000 8 3\n";
    let update = "0 discard 100000 4096\n0 r 100000 8 3\n";
    let other = "1 r 200000 8 3\n".repeat(4000);
    let text = format!("{both}{}{other}", update.repeat(4));
    natively(place.path(), &text);
    for (warmup, uneven) in [("2000", true), ("0", false)] {
        let common = ["--schemes", "ipi,ideal", "--warmup", warmup];
        let compare = ["compare", "t.smt", "--machine", "dram.toml"];
        let (_, said, code) = steady(place.path(), &[&compare[..], &common[..]].concat());
        assert_eq!(code, 0, "{said}");
        let named = "updates differ, 3 under ipi and 0 under ideal";
        assert_eq!(said.contains(named), uneven, "{warmup}: {said}");
        // What is kept says so as well, with nothing but the result.
        prints(
            place.path(),
            &[&compare[..], &common[..], &["-o", "kept"]].concat(),
        );
        let kept = place.path().join("kept/tlb-t/coherence/result.json");
        let report = Command::new(env!("CARGO_BIN_EXE_steady"))
            .args(["report", kept.to_str().unwrap()])
            .output()
            .unwrap();
        let report = String::from_utf8(report.stdout).unwrap();
        assert_eq!(report.contains(named), uneven, "{warmup}: {report}");
        let keys = ["mode=native", "hybrid.enabled=false", "-o", warmup];
        let sweep = ["sweep", "t.smt", "--seeds", "5", "--json"];
        let json = prints(place.path(), &[&sweep[..], &keys, &common].concat());
        let found: Value = serde_json::from_str(&json).unwrap();
        let point = &found["points"][0];
        assert_eq!(point["uneven_updates"].is_string(), uneven, "{point}");
        let verdict = &point["ipc_over_baseline"]["ideal"]["verdict"];
        assert_eq!(verdict.is_null(), uneven, "{verdict}");
        let page = std::fs::read_to_string(place.path().join(warmup).join("report.html")).unwrap();
        // Five seeds meet five times as many.
        let named = "mode=native: updates differ, 15 under ipi and 0 under ideal; no ratio";
        assert_eq!(page.contains(named), uneven, "{warmup}: {page}");
    }
}

#[test]
fn a_trace_runs_in_several_vms_each_with_its_own_translations() {
    let place = tempfile::tempdir().unwrap();
    // 40 pages, read twice.
    let pages = (0..80).map(|at| format!("0 r {:x} 8 3\n", 0x10_0000 + at % 40 * 4096));
    std::fs::write(place.path().join("t.txt"), pages.collect::<String>()).unwrap();
    prints(place.path(), &["convert", "-o", "t.smt", "t.txt"]);
    let run = |vms: &str| {
        let words = [
            "run", "t.smt", "--scheme", "kvmtlb", "--warmup", "0", "--vms", vms, "--check",
            "--json",
        ];
        let result: Value = serde_json::from_str(&prints(place.path(), &words)).unwrap();
        let metrics = result["variants"][0]["repetitions"][0]["metrics"]
            .as_array()
            .unwrap()
            .clone();
        let value = |name| metrics.iter().find(|one| one["name"] == name).unwrap()["value"].clone();
        (
            value("accesses"),
            value("counter.first_touches"),
            value("tlb.walks"),
        )
    };
    assert_eq!(run("1"), (80.into(), 40.into(), 40.into()));
    assert_eq!(run("3"), (240.into(), 120.into(), 120.into()));
}

#[test]
fn what_is_wrong_with_a_sweep_is_said_in_one_line_with_status_2() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("zeros"), [0; 4096]).unwrap();
    for (words, expected) in [
        (
            &["sweep", "bodytrack", "core.count=8,300", "-o", "a"][..],
            "core.count=300: `core.count` is 300: expected 1",
        ),
        (
            &["sweep", "bodytrack", "core.cout=8", "-o", "a"],
            "did you mean `count`?",
        ),
        (
            &["sweep", "bodytrack", "mode=natve", "-o", "a"],
            "did you mean `native`?",
        ),
        (
            &["sweep", "bodytrack", "vms=1,x", "-o", "a"],
            "`vms` is x: expected a whole number",
        ),
        (
            &["sweep", "bodytrack", "vms", "-o", "a"],
            "expected KEY=VALUE",
        ),
        (
            &["sweep", "bodytrack", "vms=1", "-o", "a", "--piece", "2"],
            "--piece is 2: expected 1 to 1",
        ),
        (
            &[
                "sweep",
                "bodytrack",
                "mode=virtualized,native",
                "--schemes",
                "didi",
                "-o",
                "a",
            ],
            "native",
        ),
        (
            &["convert", "-o", "z.smt", "zeros"],
            "zeros: it holds no memory access",
        ),
    ] {
        let (out, said, code) = steady(place.path(), words);
        assert_eq!(
            (code, out.as_str(), said.lines().count()),
            (2, "", 1),
            "{words:?}: {said}"
        );
        assert!(said.contains(expected), "{said}");
    }
    assert!(!place.path().join("a").exists() && !place.path().join("z.smt").exists());
}
