// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pages of `docs/validation/`, the README's figures and the pictures: all that is written from
//! evidence.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::also;
use crate::brought;
use crate::claim::{Claim, System};
use crate::conditions;
use crate::error::{INFALLIBLE, Problem};
use crate::house::House;
use crate::matrix::matrix;
use crate::parts;
use crate::plot;
use crate::score::scored;
use crate::table::{self, Entry};
use crate::verdict::{self, Verdict};
use crate::words;

/// Lines that a page has at most.
pub const MOST_LINES: usize = 120;
/// Where pages are.
pub const FOLDER: &str = "docs/validation";
/// What an operator follows, with what its step gives.
pub(crate) const GUIDE: &str = "docs/GUIDE.md";
/// How a marked part begins.
pub(crate) const BEGIN: &str = "<!-- evidence: ";
/// Documents with marked parts, and those that each must have.
pub(crate) const MARKED: [(&str, &[&str]); 3] = [
    ("README.md", &["scoreboard", "matrix "]),
    (GUIDE, &["matrix "]),
    ("docs/validation/README.md", &["scoreboard"]),
];

/// Every file that is rendered: its path from the root, and its bytes. A document with markers is
/// given as it is now by `read`.
///
/// # Errors
/// Every problem with a scenario that cannot be read, a placeholder or a marker.
pub fn all(
    house: &House,
    read: &dyn Fn(&str) -> Option<String>,
) -> Result<BTreeMap<String, String>, Vec<Problem>> {
    let (mut files, mut problems) = (BTreeMap::new(), house.unread.clone());
    for system in &house.systems {
        let name = format!("{FOLDER}/{}.md", system.system);
        match page(house, system) {
            Ok((text, picture)) => {
                if let Some(picture) = picture {
                    files.insert(format!("{FOLDER}/{}.svg", system.system), picture);
                }
                files.insert(name, text);
            }
            Err(found) => problems.extend(found),
        }
    }
    files.insert(format!("{FOLDER}/papers.md"), papers(house));
    if let Some(picture) = scoreboard_picture(house) {
        files.insert(format!("{FOLDER}/scoreboard.svg"), picture);
    }
    for (document, _) in MARKED {
        let Some(text) = read(document) else {
            continue;
        };
        match marked(house, document, &text) {
            Ok(text) => drop(files.insert(document.to_owned(), text)),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() {
        Ok(files)
    } else {
        Err(problems)
    }
}

/// The page of one system, and its picture where something has an interval.
fn page(house: &House, system: &System) -> Result<(String, Option<String>), Vec<Problem>> {
    let words = Words::of(house, system)?;
    let mut text = String::new();
    let mut put = |line: &str| writeln!(text, "{line}").expect(INFALLIBLE);
    put("<!-- SPDX-License-Identifier: Apache-2.0 OR MIT -->");
    put(&format!(
        "<!-- Written by `steady evidence render` from evidence/claims/{}.toml. Edit that. -->",
        system.system
    ));
    put(&format!("# {}\n", system.title));
    for paragraph in std::iter::once(&system.what).chain(&words.answer) {
        put(&words::wrapped("", paragraph));
        put("");
    }
    let all: Vec<(&Claim, Vec<Entry>)> = system
        .claims
        .iter()
        .map(|claim| (claim, table::entries(house, claim)))
        .collect();
    let entries: Vec<Entry> = all.iter().flat_map(|(_, some)| some.clone()).collect();
    let title = format!("{}: ratios", system.title);
    let picture = plot::draw(&system.system, &title, &entries);
    if !all.is_empty() {
        results(&mut put, house, &all);
    }
    if picture.is_some() {
        let file = format!("{}.svg", system.system);
        put(&format!("![Ratios with their intervals]({file})\n"));
    }
    for counted in &system.counted {
        match counted.table(house) {
            Ok(table) => put(&table),
            Err(error) => {
                let place = format!("evidence/claims/{}.toml", system.system);
                return Err(vec![Problem::new(place, error.to_string())]);
            }
        }
    }
    list(&mut put, "Limits of the gain", &words.no_help);
    let disclosed = system.claims.iter().flat_map(|claim| &claim.disclosed);
    let limits: Vec<String> = words
        .limitations
        .into_iter()
        .chain(disclosed.cloned())
        .collect();
    list(&mut put, "Limitations", &limits);
    commands(&mut put, system);
    Ok((text, picture))
}

/// A system's sentences with their numbers.
struct Words {
    answer: Vec<String>,
    no_help: Vec<String>,
    limitations: Vec<String>,
}

impl Words {
    fn of(house: &House, system: &System) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut sentences = |all: &[String]| -> Vec<String> {
            let filled = all.iter().map(|text| {
                words::filled(house, text).unwrap_or_else(|why| {
                    let place = format!("evidence/claims/{}.toml", system.system);
                    problems.push(Problem::new(place, format!("`{text}`: {why}")));
                    String::new()
                })
            });
            filled.collect()
        };
        let found = Self {
            answer: sentences(&system.answer),
            no_help: sentences(&system.no_help),
            limitations: sentences(&system.limitations),
        };
        if problems.is_empty() {
            Ok(found)
        } else {
            Err(problems)
        }
    }
}

/// The table of a page, and the claims that nothing is recorded of.
fn results(put: &mut dyn FnMut(&str), house: &House, all: &[(&Claim, Vec<Entry>)]) {
    put("## Results\n");
    put("| measure | base | with | ratio [95 %] | shown | runs | conditions |");
    put("|---|---|---|---|---|---|---|");
    for (claim, entries) in all {
        for entry in entries {
            let both = [entry.base.as_str(), &entry.variant];
            let conditions = conditions::of(house, claim, Some(&entry.row), &both);
            put(&row(claim, entry, &conditions));
        }
    }
    put("");
    let said = said_of_records(house, all);
    if !said.is_empty() {
        put(&words::wrapped("", &said.join(" ")));
        put("");
    }
}

/// What must be said of some records of a page: a sentence each, with the claims that it is of.
fn said_of_records(house: &House, all: &[(&Claim, Vec<Entry>)]) -> Vec<String> {
    let mut said = Vec::new();
    let mut list = |title: &str, of: &dyn Fn(&Claim, &[Entry]) -> bool| {
        let claims = all.iter().filter(|(claim, entries)| of(claim, entries));
        let ids: Vec<&str> = claims.map(|(claim, _)| claim.id.as_str()).collect();
        match ids.len() {
            0 => {}
            count if count == all.len() && count > 2 => said.push(format!("{title}: all.")),
            _ => said.push(format!("{title}: {}.", ids.join(", "))),
        }
    };
    list("Not recorded", &|_, entries| entries.is_empty());
    for (title, said) in [
        ("Agent, VMM and workloads not keyed", House::NOT_KEYED),
        ("Agent, VMM or workloads changed since", House::CHANGED),
    ] {
        list(title, &|claim, _| house.programs(claim) == Some(said));
    }
    for remedy in parts::apart() {
        let title = format!("Kernel changed since in what {remedy} brings, which is off here");
        list(&title, &|claim, entries| {
            entries.iter().any(|entry| {
                let both = [entry.base.as_str(), &entry.variant];
                house.kernel_changed(claim, &both).contains(&remedy)
            })
        });
    }
    let lines = all
        .iter()
        .filter_map(|(claim, _)| brought::line(house, claim));
    for line in lines.collect::<BTreeSet<String>>() {
        let title = format!("Programs that the user brings: {line}; in");
        list(&title, &|claim, _| {
            brought::line(house, claim).as_ref() == Some(&line)
        });
    }
    said
}

fn commands(put: &mut dyn FnMut(&str), system: &System) {
    put("## Commands\n\n```sh");
    let mut races: Vec<(String, Vec<&str>)> = Vec::new();
    for claim in &system.claims {
        let command = claim.command();
        match races.iter_mut().find(|(known, _)| *known == command) {
            Some((_, subjects)) if subjects.contains(&claim.subject.as_str()) => {}
            Some((_, subjects)) => subjects.push(&claim.subject),
            None => races.push((command, vec![&claim.subject])),
        }
    }
    for (command, subjects) in races {
        put(&format!("# {}\n{command}", subjects.join("; ")));
    }
    for counted in &system.counted {
        put(&format!("# {}\n{}", counted.subject, counted.command));
    }
    for command in &system.commands {
        put(command);
    }
    put("```");
}

/// Each line once, where it came first: several claims may disclose the same.
fn list(put: &mut dyn FnMut(&str), title: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    put(&format!("## {title}\n"));
    for (at, line) in lines.iter().enumerate() {
        if !lines[..at].contains(line) {
            put(&words::wrapped("- ", line));
        }
    }
    put("");
}

fn row(claim: &Claim, entry: &Entry, conditions: &str) -> String {
    let shown = entry.shown_and_old();
    let basis = match entry.basis {
        crate::claim::Basis::Measured => String::new(),
        other => format!(" ({})", other.as_str()),
    };
    format!(
        "| {}, {}{basis} | {} `{}` | {} `{}` | {} | {shown} | {} | {conditions} |",
        claim.subject,
        entry.what,
        entry.base_value(),
        entry.base,
        entry.value(),
        entry.variant,
        entry.ratio(),
        entry.runs(),
    )
}

/// The page of all papers: how many items have which verdict.
fn papers(house: &House) -> String {
    let mut text = String::from(
        "<!-- SPDX-License-Identifier: Apache-2.0 OR MIT -->\n\
         <!-- Written by `steady evidence render` from evidence/papers/. Edit that. -->\n\
         # The five papers, item by item\n\n\
         Each table, figure and stated number of a paper is an item of its manifest. \
         `steady reproduce PAPER`\nprints them all, with conditions and reasons.\n\n",
    );
    let words = Verdict::ALL.map(Verdict::as_str);
    let rule = "---|".repeat(words.len());
    writeln!(
        text,
        "| paper | items | {} |\n|---|---|{rule}",
        words.join(" | ")
    )
    .expect(INFALLIBLE);
    for paper in &house.papers {
        let sets = verdict::beside(house, paper);
        let counts = Verdict::ALL.map(|verdict| verdict.count(&sets).to_string());
        let (name, venue, all) = (&paper.paper, &paper.venue, sets.len());
        writeln!(
            text,
            "| `{name}` {venue} | {all} | {} |",
            counts.join(" | ")
        )
        .expect(INFALLIBLE);
    }
    text.push('\n');
    for said in [
        "*Agrees*: the paper's ratio lies in our 95 % interval, whose ends are within a tenth of \
         it, or the interval shows what the paper states.",
        "*Differs*: the paper's ratio lies outside of our interval, or the interval shows the \
         opposite of the statement.",
        "*Input*: the number went in here, follows from what did by arithmetic, or was fitted. So \
         it cannot agree; it differs where the paper has another number.",
        "*Beside*: the paper gives no number or statement to compare with.",
        "*Open*: too few seeds for an interval, or it has the limit of a bound or of a statement \
         within. Or it has the paper's ratio and is wider.",
        "*Changed with results known*: until 27 November 2026 a statement was *differs* where the \
         interval had its limit within, which decides nothing.",
        "*Changed with results known*: until 28 November 2026 an *input* could agree or be open as \
         any other number.",
    ] {
        text.push_str(&words::wrapped("- ", said));
        text.push('\n');
    }
    text
}

/// The scoreboard's ratios as a picture.
fn scoreboard_picture(house: &House) -> Option<String> {
    let of = |system: &System| {
        let (_, _, entry) = scored(house, system)?;
        let mut entry = entry?;
        entry.what = format!("{}, {}", system.title, entry.what);
        Some(entry)
    };
    let entries: Vec<Entry> = house.systems.iter().filter_map(of).collect();
    plot::draw("scoreboard", "What each system gives", &entries)
}

/// The scoreboard as a table of Markdown.
fn scoreboard(house: &House) -> String {
    let mut text = String::from(
        "| system | what is claimed | recorded ratio [95 %] | first ratio shown | on which host |\n\
         |---|---|---|---|---|\n",
    );
    for system in &house.systems {
        let Some(score) = &system.score else {
            continue;
        };
        let mut better = String::new();
        let (ratio, shown, conditions) = match scored(house, system) {
            Some((claim, _, Some(entry))) => {
                better = match plot::arrow(&entry) {
                    "" => String::new(),
                    arrow => format!(" {arrow}"),
                };
                let both = [entry.base.as_str(), &entry.variant];
                let conditions = conditions::of(house, claim, Some(&entry.row), &both);
                let shown = format!("{}, {} runs", entry.shown_and_old(), entry.runs());
                let ratio = match entry.cell.ratio {
                    Some(_) => format!(
                        "{} to {}: {}",
                        entry.base_value(),
                        entry.value(),
                        entry.ratio()
                    ),
                    None => entry.value(),
                };
                let whole: Vec<String> = std::iter::once(ratio)
                    .chain(also::on_page(house, score))
                    .chain(system.counted_line(house))
                    .collect();
                (whole.join("; "), shown, conditions)
            }
            _ => ("–".to_owned(), "not recorded".to_owned(), "–".to_owned()),
        };
        writeln!(
            text,
            "| [{}]({FOLDER}/{}.md) | {}{better} | {ratio} | {shown} | {conditions} |",
            system.title, system.system, score.says
        )
        .expect(INFALLIBLE);
    }
    text
}
/// A document with what stands between its markers written again.
///
/// `<!-- evidence: NAME -->` begins a part and `<!-- evidence: end -->` ends it. Names:
/// `scoreboard`, `matrix CLAIM` for a claim's rows and variants, and `sentence TEXT` for one
/// sentence with placeholders.
fn marked(house: &House, document: &str, text: &str) -> Result<String, Problem> {
    const END: &str = "<!-- evidence: end -->";
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(BEGIN) {
        let head_end = rest[at..].find("-->\n").map(|end| at + end + 4);
        let Some(head_end) = head_end else {
            return Err(Problem::new(
                document,
                "a marker of evidence has no end of line",
            ));
        };
        let name = rest[at + BEGIN.len()..head_end - 4].trim();
        let Some(end) = rest[head_end..].find(END).map(|end| head_end + end) else {
            let text = format!("the part `{name}` has no `{END}`");
            return Err(Problem::new(document, text));
        };
        out.push_str(&rest[..head_end]);
        out.push_str(&match name.split_once(' ') {
            None if name == "scoreboard" => {
                let table = scoreboard(house);
                match document {
                    "README.md" => table,
                    _ => table.replace(&format!("({FOLDER}/"), "("),
                }
            }
            Some(("matrix", id)) => matrix(house, id).map_err(|why| Problem::new(document, why))?,
            Some(("sentence", sentence)) => {
                let filled = words::filled(house, sentence);
                filled.map_err(|why| Problem::new(document, why))? + "\n"
            }
            _ => {
                let text = format!(
                    "unknown part `{name}`; expected `scoreboard`, `matrix …` or `sentence …`"
                );
                return Err(Problem::new(document, text));
            }
        });
        out.push_str(END);
        rest = &rest[end + END.len()..];
    }
    out.push_str(rest);
    Ok(out)
}

/// A document without what stands between its markers: what a person wrote.
#[must_use]
pub fn by_hand(text: &str) -> String {
    let mut out = String::new();
    let mut inside = false;
    for line in text.lines() {
        if line.starts_with(BEGIN) {
            inside = line.trim() != "<!-- evidence: end -->";
        } else if !inside {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}
