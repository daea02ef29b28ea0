// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does a line of the scoreboard name the hosts on which its claim does not hold?

use steady_evidence::{Counted, Record, score};
use steady_measures::RunResult;
use steady_scenario::Scenario;

use super::common::{CLAIMS_FILE, Project};
use super::found;

const FREE: &str = "scenarios/free.toml";
const NAMED: &str = "[[score.also]]\nsays = \"placed by the scheduler\"\nclaim = \"free\"\n\
                     row = \"p99\"\nvariant = \"shoot4u\"\n[[claim]]";

/// A project whose claim has a second one, of the same host without pins. What it records there of
/// the remedy is stock KVM's tail, divided by `gain`.
fn project(gain: i64) -> Project {
    let project = Project::bare();
    let pinned = project.read("scenarios/pair.toml");
    let free = pinned.replace("name = \"pair\"", "name = \"free\"");
    project.write(FREE, &free.replace("pin = [0, 1]\n", ""));
    let text = project.read(CLAIMS_FILE);
    let other = text[text.find("[[claim]]").unwrap()..]
        .replace("id = \"tail\"", "id = \"free\"")
        .replace("scenarios/pair.toml", FREE)
        .replace("\"pinned\"", "\"scheduler\"");
    project.write(CLAIMS_FILE, &(text + &other));
    let house = project.house();
    for race in house.races() {
        let mut result = project.result(8);
        if race.id == "free" {
            of_free(&project, &mut result, gain);
        }
        let record = Record::reduced(result, &race, &house.keys).unwrap();
        record.save(project.root()).unwrap();
    }
    project.render();
    project
}

fn of_free(project: &Project, result: &mut RunResult, gain: i64) {
    let scenario = Scenario::load(project.root().join(FREE)).unwrap();
    result.scenario.name = scenario.name.clone();
    result.scenario.digest = scenario.digest();
    let stock = result.variants[0].repetitions.clone();
    let runs = result.variants[1].repetitions.iter_mut();
    for (run, stock) in runs.zip(stock) {
        run.metrics[0].value = stock.metrics[0].value / gain;
    }
    result.seal();
}

#[test]
fn a_host_without_pins_on_which_nothing_is_gained_must_be_named() {
    found(
        &project(1),
        &[
            "shoot4u.toml, score: claim `free` shows something else of `shoot4u`",
            "name its row `p99` in `also`",
        ],
    );
    assert_eq!(project(20).problems(), Vec::<String>::new());
}

#[test]
fn a_host_that_is_named_stands_in_the_line_on_pages_and_on_the_screen() {
    let project = project(1);
    project.change(CLAIMS_FILE, "[[claim]]", NAMED);
    project.render();
    assert_eq!(project.problems(), Vec::<String>::new());
    let said = "; placed by the scheduler ×1.00 [1.00 to 1.00] (no difference shown) | better";
    for page in ["README.md", "docs/validation/README.md"] {
        assert!(project.read(page).contains(said), "{}", project.read(page));
    }
    let text = score::text(&score::lines(&project.house(), &[]), "");
    let line = "\n  placed by the scheduler ×1.00 [1.00 to 1.00]\n";
    assert!(text.contains(line), "{text}");
}

#[test]
fn a_host_that_is_not_there_or_has_a_figure_is_found() {
    for (from, to, said) in [
        (
            "claim = \"free\"",
            "claim = \"fred\"",
            "`also` names no cell of a claim: fred",
        ),
        (
            "variant = \"shoot4u\"\n[[",
            "variant = \"x\"\n[[",
            "`also` names no cell",
        ),
        ("by the scheduler", "in 40 %", "`40 %` is a typed figure"),
    ] {
        let project = project(20);
        project.change(CLAIMS_FILE, "[[claim]]", &NAMED.replace(from, to));
        found(&project, &[said]);
    }
}

const COUNTED: &str = "[score.counted]\nsays = \"named rightly\"\nid = \"named\"\n[[counted]]\n\
                       id = \"named\"\nsubject = \"s\"\nconditions = \"c\"\ncommand = \"c\"\n\
                       [[claim]]";
const ROWS: &str = "# Counts\n\n[[row]]\nof = \"collection\"\nsays = \"high\"\nall = 9\nright = 7\n\
                    [[row]]\nof = \"slice\"\nsays = \"high\"\nall = 2\nright = 2\n";

fn counts(project: &Project, rows: &str) {
    let sealed = Counted::sealed(rows).expect("it has a table and no seal");
    project.write("evidence/results/named.toml", &sealed);
}

#[test]
fn what_is_counted_of_a_system_stands_in_its_line_on_pages() {
    let project = project(20);
    counts(&project, ROWS);
    project.change(CLAIMS_FILE, "[[claim]]", COUNTED);
    project.render();
    assert_eq!(project.problems(), Vec::<String>::new());
    for page in ["README.md", "docs/validation/README.md"] {
        let said = project.read(page);
        assert!(
            said.contains("; named rightly: high 7 of 9 | better"),
            "{said}"
        );
    }
}

#[test]
fn a_line_that_names_what_is_not_counted_is_found() {
    let said = "score: nothing counted that is right or not is called";
    let other = project(20);
    counts(&other, ROWS);
    other.change(
        CLAIMS_FILE,
        "[[claim]]",
        &COUNTED.replacen("named\"\n[[", "x\"\n[[", 1),
    );
    found(&other, &[said]);
    let part = project(20);
    counts(&part, &ROWS.replace("collection", "slice"));
    part.change(CLAIMS_FILE, "[[claim]]", COUNTED);
    found(&part, &[said]);
}

/// Another number of vCPUs is another question.
#[test]
fn a_host_that_differs_in_more_than_pins_need_not_be_named() {
    let project = project(1);
    let text = project.read(FREE);
    project.write(FREE, &text.replace("vcpus = 2", "vcpus = 1"));
    let problems = project.problems().join("\n");
    assert!(problems.contains("shows something else"), "{problems}");
    let claims = project.read(CLAIMS_FILE);
    let (first, other) = claims.split_once("id = \"free\"").unwrap();
    let other = other.replace("vcpus = 2", "vcpus = 1");
    project.write(CLAIMS_FILE, &format!("{first}id = \"free\"{other}"));
    let problems = project.problems().join("\n");
    assert!(!problems.contains("shows something else"), "{problems}");
}
