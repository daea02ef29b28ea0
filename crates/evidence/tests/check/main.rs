// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does a check find whatever makes evidence and its pages disagree?

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod also;
mod answers;
mod brought;
mod captured;
mod common;
mod conditions;
mod inputs;
mod keys;
mod means;
mod moved;
mod orders;
mod parts;
mod races;
mod recordings;
mod shares;
mod simulated;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use steady_evidence::{House, Keys, Record, todo};

use common::{CLAIMS_FILE, Project};

/// That the one problem of a project names this.
fn found(project: &Project, words: &[&str]) {
    let problems = project.problems();
    let all = problems.join("\n");
    assert!(
        !problems.is_empty(),
        "nothing was found; expected {words:?}"
    );
    for word in words {
        assert!(all.contains(word), "no {word:?} in:\n{all}");
    }
}

#[test]
fn what_was_rendered_holds() {
    assert_eq!(Project::new().problems(), Vec::<String>::new());
}

const PAPER: &str = "evidence/papers/shoot4u.toml";

/// In which file, what, by what, and what is said of it; `↵` is an end of line.
const CONTRADICTIONS: &str = r#"
docs/validation/shoot4u.md | ×0.05 | ×0.04 | docs/validation/shoot4u.md: it differs from its data
docs/validation/shoot4u.svg | ×0.05 | ×0.04 | docs/validation/shoot4u.svg
README.md | ×0.05 | ×0.04 | README.md: it differs from its data
CLAIMS | It has the host | It saves 40 % and has the host | `40 %` is a typed figure
CLAIMS | It has the host | It falls to 0 and has the host | `0` is a typed figure
PAPER | not_here = "A | not_here = "It is 3.7 here. A | `3.7` is a typed figure
CLAIMS | title = "Shoot4U | title = "74-fold | `74-fold` is a typed figure
CLAIMS | seeds = 8 | seeds = 8↵disclosed = ["~80% before"] | `~80%` is a typed
CLAIMS | ple = "on",  |  | claim `tail`: the condition `ple` is missing
CLAIMS | "pinned" | "scheduler" | `placement` is stated as "scheduler"
CLAIMS | more = " | more = "74 % at  | `74 %` is a typed figure
scenarios/pair.toml | shoot4u = {} | kernel = "debian-12" | names the kernel debian-12
CLAIMS | seeds = 8 | seeds = 8↵show = ["shoot5u"] | `show` has `shoot5u`
CLAIMS | [score] | counted = [{id="k",subject="7 %",conditions="c",command="c"}]↵[score] | `7 %` is
PAPER | row = "p99" | row = "p999" | `one`: claim `tail` has no row `p999`
PAPER | "A photograph shows nothing that can be measured." | " " | `not_here` is empty
PAPER | not_here = "A | because = "A | exactly one of `here` and `not_here`
"#;

#[test]
fn what_contradicts_claims_scenarios_or_pages_is_found() {
    for line in CONTRADICTIONS.trim().lines() {
        let fields: Vec<String> = line.split(" | ").map(|of| of.replace('↵', "\n")).collect();
        let [file, from, to, said] = fields.try_into().expect("four fields");
        let file = match file.as_str() {
            "CLAIMS" => CLAIMS_FILE,
            "PAPER" => PAPER,
            other => other,
        };
        let project = Project::new();
        project.change(file, &from, &to);
        found(&project, &[&said]);
    }
}

#[test]
fn a_figure_typed_into_the_readme_is_found() {
    let project = Project::new();
    let text = project.read("README.md") + "\nIt is 74 times better.\n";
    project.write("README.md", &text);
    found(&project, &["README.md", "`74 times` is a typed figure"]);
}

#[test]
fn a_figure_typed_into_a_document_is_found_unless_it_is_a_constant_of_it() {
    let list = "evidence/constants.toml";
    let of = |figures: &str| {
        format!("[[document]]\nfile = \"docs/X.md\"\nwhy = \"w\"\nfigures = [{figures}]\n")
    };
    for (constants, said) in [
        (
            String::new(),
            "docs/X.md: `12 s` is a typed figure (line 3 ",
        ),
        (of("\"12 s\""), "docs/X.md: `326 to 35.1` is a typed figure"),
        (of("\"12 s\", \"326\", \"326 to 35.1\""), ""),
        (
            of("\"12 s\", \"326\", \"326 to 35.1\", \"9 s\""),
            "`9 s` does not stand in docs/X.md",
        ),
        (
            of("\"12 s\", \"326\", \"326 to 35.1\"").replace("\"w\"", "\" \""),
            "`why` of `docs/X.md` is empty",
        ),
        (
            of("").replace("X.md", "Y.md"),
            "`docs/Y.md` is not a document",
        ),
        (of("").replace("why", "because"), "unknown field `because`"),
    ] {
        let project = Project::new();
        project.write(
            "docs/X.md",
            "# X\n\nIt falls from 326\nto 35.1 and takes 12\ns.\n",
        );
        if !constants.is_empty() {
            project.write(list, &constants);
        }
        match said {
            "" => assert_eq!(project.problems(), Vec::<String>::new()),
            said => found(&project, &[said]),
        }
    }
}

#[test]
fn this_project_s_own_words_have_no_typed_figures() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let keys = Keys::of_tree(&root, BTreeMap::new()).unwrap();
    let problems = steady_evidence::check(&House::load(&root, keys).unwrap());
    let mut typed: Vec<String> = problems.iter().map(ToString::to_string).collect();
    typed.retain(|text| text.contains("typed figure") || text.contains("constants.toml"));
    assert_eq!(typed, Vec::<String>::new(), "{}", typed.join("\n"));
}

#[test]
fn a_claim_without_conditions_is_not_read() {
    let project = Project::new();
    let text = project.read(CLAIMS_FILE);
    let without: Vec<&str> = text
        .lines()
        .filter(|l| !l.starts_with("conditions"))
        .collect();
    project.write(CLAIMS_FILE, &without.join("\n"));
    refused(&project, &["shoot4u.toml", "conditions"]);
}

#[test]
fn a_workload_that_the_scenario_lacks_is_found() {
    let project = Project::new();
    project.change(
        CLAIMS_FILE,
        "workload = \"shootdown\"",
        "workload = \"dedup\"",
    );
    // The record has no such measure either, which is not what is wrong.
    refused(
        &project,
        &["claim `tail`, row `p99`", "no workload `dedup`"],
    );
    fs::remove_file(project.root().join("evidence/results/tail.json.zst")).unwrap();
    found(
        &project,
        &["claim `tail`, row `p99`", "no workload `dedup`"],
    );
}

#[test]
fn a_variant_that_the_scenario_lacks_is_found() {
    let project = Project::new();
    fs::remove_file(project.root().join("evidence/results/tail.json.zst")).unwrap();
    project.change(
        CLAIMS_FILE,
        "variants = [\"shoot4u\"]",
        "variants = [\"eager\"]",
    );
    found(&project, &["the scenario has no variant `eager`"]);
}

#[test]
fn an_item_that_differs_needs_a_reason() {
    let project = Project::new();
    project.change(PAPER, "expect = \"lower\"", "expect = \"higher\"");
    project.render();
    found(&project, &["item `one`", "`because` does not say why"]);
}

/// The one row's interval lies below 1: one row of one is beyond a ratio that it stays below.
#[test]
fn an_item_that_counts_programs_is_compared_with_rows() {
    let counting = |number: &str, beyond: &str| {
        let project = Project::new();
        let count = format!("{number}here = {{ beyond = {beyond}, ");
        project.change(PAPER, "expect = \"lower\"\nhere = { ", &count);
        project.change(PAPER, "value = \"1 us\"", "value = \"1 of 1, or 0\"");
        project.render();
        project
    };
    let fine = counting("number = 1\n", "\"0.999\"");
    assert_eq!(fine.problems(), Vec::<String>::new());
    let differs = ["item `one`", "`because` does not say why"];
    found(&counting("number = 0\n", "\"0.999\""), &differs);
    found(&counting("number = 1\n", "\"0.001\""), &differs);
    let missing = ["item `one`", "expected the paper's count in `number`"];
    found(&counting("", "\"0.999\""), &missing);
    found(&counting("number = \"0.5\"\n", "\"0.999\""), &missing);
    let both = ["item `one`", "expected neither `ratio` nor `expect`"];
    found(
        &counting("number = 1\nexpect = \"lower\"\n", "\"0.999\""),
        &both,
    );
    let one = ["item `one`", "`beyond` is 1; expected a ratio, not 0 or 1"];
    found(&counting("number = 1\n", "1"), &one);
    let own = counting("number = 1\n", "\"0.999\"");
    own.change(PAPER, "variant = \"shoot4u\"", "variant = \"stock\"");
    found(&own, &["item `one`", "the variant is its own base"]);
    let whole = counting("number = 1\n", "\"0.999\"");
    whole.change(CLAIMS_FILE, "workload = ", "mean_over = [\"shootdown\"] # ");
    found(&whole, &["item `one`", "expected a row of one"]);
    let alone = Project::new();
    alone.change(PAPER, "here = { ", "here = { others = 1, ");
    found(&alone, &["item `one`", "expected `beyond` with it"]);
}

#[test]
fn a_page_of_more_than_120_lines_is_found() {
    let project = Project::new();
    let many: Vec<String> = (0..120).map(|at| format!("\"Limit {at}.\"")).collect();
    let line = format!("limitations = [{}]\n[score]", many.join(", "));
    project.change(CLAIMS_FILE, "[score]", &line);
    project.render();
    found(
        &project,
        &["docs/validation/shoot4u.md: it has more than 120 lines"],
    );
}

/// That a project cannot be read, for this reason.
fn refused(project: &Project, words: &[&str]) {
    let keys = Keys::of_tree(project.root(), BTreeMap::new()).unwrap();
    let error = House::load(project.root(), keys).unwrap_err().to_string();
    for word in words {
        assert!(error.contains(word), "no {word:?} in {error}");
    }
}

#[test]
fn a_record_changed_by_hand_is_refused() {
    for (from, to) in [
        ("\"value\": 50000", "\"value\": 40000"),
        ("\"evidence.kernel\": \"", "\"evidence.kernel\": \"0"),
        ("\"kernel.hz\": \"250\"", "\"kernel.hz\": \"100\""),
        ("\"command\": \"\"", "\"command\": \"x\""),
        ("\"seed\": 1,", "\"seed\": 2,"),
        ("\"race\": \"tail\"", "\"race\": \"head\""),
    ] {
        let project = Project::new();
        let path = project.root().join("evidence/results/tail.json.zst");
        let text = zstd::decode_all(fs::read(&path).unwrap().as_slice()).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains(from), "no {from} in {text}");
        let changed = text.replacen(from, to, 1);
        fs::write(&path, zstd::encode_all(changed.as_bytes(), 3).unwrap()).unwrap();
        refused(&project, &["tail.json.zst", "changed after it was sealed"]);
    }
}

#[test]
fn a_record_of_another_format_is_refused() {
    let project = Project::bare();
    let path = project.save_record(8);
    let result = Record::read(&path).unwrap().result;
    let packed = zstd::encode_all(result.to_json().as_slice(), 3).unwrap();
    fs::write(&path, packed).unwrap();
    refused(
        &project,
        &["tail.json.zst", "expected \"steady.record\" version 2"],
    );
}

#[test]
fn a_measure_that_the_race_cannot_give_is_found_before_it_is_raced() {
    let (vm, workload) = ("vm = \"victim\"\n", "workload = \"shootdown\"\n");
    let measure = |name: &str| format!("{vm}{workload}measure = \"{name}\"");
    let before = measure("shootdown.latency.p99");
    for good in [
        "throughput",
        "time",
        "exits.PAUSE_INSTRUCTION",
        "cpu_time",
        "host.ipis",
        "guest.irq.TLB",
    ] {
        let project = Project::bare();
        project.change(CLAIMS_FILE, &before, &measure(good));
        let problems = project.problems().join("\n");
        assert!(!problems.contains("no measure"), "{good}: {problems}");
    }
    let of_vm = |name: &str| format!("{vm}measure = \"{name}\"");
    for (bad, said) in [
        (
            measure("shootdown.latency.p98"),
            "gives no measure `shootdown.latency.p98`",
        ),
        (measure("exits.PAUSE"), "gives no measure `exits.PAUSE`"),
        (
            measure("exits.TRIPLE_FAULT"),
            "gives no measure `exits.TRIPLE_FAULT`",
        ),
        (measure("exits.hlt"), "gives no measure `exits.hlt`"),
        (measure("guest.irq.XYZ"), "gives no measure `guest.irq.XYZ`"),
        (
            measure("guest_time.shootdown"),
            "gives no measure `guest_time.shootdown`",
        ),
        (measure("cpu_time"), "gives no measure `cpu_time`"),
        (
            measure("diagnosis.pause.exits"),
            "a diagnosis is of measured workloads, in a claim with `trace = true`",
        ),
        (of_vm("diagnosis.pause.exits"), "expected `trace = true`"),
        (of_vm("exits.total"), "has no measure `exits.total`"),
        ("measure = \"exits.total\"".to_owned(), "expected `vm`"),
    ] {
        let project = Project::bare();
        project.change(CLAIMS_FILE, &before, &bad);
        let collect = "measure = { collect = [\"exits\"] }\nhost =";
        project.change("scenarios/pair.toml", "host =", collect);
        found(&project, &["claim `tail`, row `p99`", said]);
    }
}

#[test]
fn a_diagnosis_is_of_a_workload_where_the_race_is_traced() {
    let before = "measure = \"shootdown.latency.p99\"";
    let project = Project::bare();
    project.change(CLAIMS_FILE, before, "measure = \"diagnosis.pause.exits\"");
    project.change(CLAIMS_FILE, "engine = ", "trace = true\nengine = ");
    let problems = project.problems().join("\n");
    assert!(!problems.contains("diagnosis"), "{problems}");
}

#[test]
fn a_document_without_its_marked_parts_is_found() {
    for (file, part) in [
        ("README.md", "scoreboard"),
        ("README.md", "matrix tail"),
        ("docs/GUIDE.md", "matrix tail"),
        ("docs/validation/README.md", "scoreboard"),
    ] {
        let project = Project::new();
        let text = project.read(file);
        let begin = text.find(&format!("<!-- evidence: {part}")).unwrap();
        let end = "<!-- evidence: end -->\n";
        let length = text[begin..].find(end).unwrap() + end.len();
        project.write(file, &(text[..begin].to_owned() + &text[begin + length..]));
        found(&project, &[&format!("{file}: it has no part")]);
    }
}

#[test]
fn an_item_s_source_and_ratio_are_those_of_what_is_printed() {
    let expect = "expect = \"lower\"";
    for (from, to, said) in [
        (
            "place = \"Table 1\"",
            "place = \"somewhere\"",
            "names no source",
        ),
        (
            expect,
            "ratio = { of = 7, to = 100 }",
            "7 to 100 does not follow from the value `1 us`",
        ),
        (expect, "number = 7", "its `number` does not stand"),
        (
            expect,
            "bound = \"at-most\"",
            "a `bound` needs a `ratio` or a `number`",
        ),
    ] {
        let project = Project::bare();
        project.change(PAPER, from, to);
        found(&project, &["item `one`", said]);
    }
    for (value, ratio) in [
        ("37 %", "{ of = 137, to = 100 }"),
        ("-50 %", "{ of = 50, to = 100 }"),
        ("+7 %", "{ of = 100, to = 107 }"),
        ("2.04x", "{ of = 204, to = 100 }"),
        ("4.3 times faster", "{ of = 28, to = 122 }"),
        ("9,048 us, and 166 with one VM", "{ of = 9048, to = 166 }"),
        ("10 to 100 times", "{ of = 10, up_to = 100, to = 1 }"),
    ] {
        let project = Project::bare();
        project.change(PAPER, "value = \"1 us\"", &format!("value = \"{value}\""));
        project.change(PAPER, expect, &format!("ratio = {ratio}"));
        let problems = project.problems().join("\n");
        assert!(!problems.contains("does not follow"), "{value}: {problems}");
    }
}

#[test]
fn a_row_says_its_own_basis() {
    let project = Project::new();
    let row = "what = \"p99\"";
    project.change(CLAIMS_FILE, row, &format!("{row}\nbasis = \"input\""));
    project.render();
    let page = project.read("docs/validation/shoot4u.md");
    assert!(page.contains("| Shootdowns, p99 (input) |"), "{page}");
}

#[test]
fn a_record_of_another_scenario_is_found() {
    let project = Project::new();
    project.change("scenarios/pair.toml", "memory_mib = 96", "memory_mib = 97");
    found(
        &project,
        &[
            "its record is of another scenario",
            "steady evidence run tail",
        ],
    );
}

#[test]
fn a_record_that_belongs_to_no_claim_is_found() {
    let project = Project::new();
    project.write("evidence/results/other.json.zst", "");
    found(
        &project,
        &["evidence/results/other.json.zst: it belongs to no claim"],
    );
}

#[test]
fn only_seeds_that_are_missing_are_raced() {
    let project = Project::bare();
    project.save_record(5);
    let house = project.house();
    let races = house.races();
    let races: Vec<&steady_evidence::Claim> = races.iter().collect();
    let seeds: Vec<u64> = todo(&house, &races, false).iter().map(|p| p.seed).collect();
    assert_eq!(seeds, [6, 7, 8]);
}

#[test]
fn a_record_keeps_the_measures_that_the_claim_names_and_no_others() {
    let project = Project::new();
    let house = project.house();
    let runs = house.records[0]
        .result
        .variants
        .iter()
        .flat_map(|v| &v.repetitions);
    let mut names = runs
        .flat_map(|run| &run.metrics)
        .map(|metric| metric.name.as_str());
    assert!(names.all(|name| name == "shootdown.latency.p99"));
}
