// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether documents have typed figures: results that no command makes again.
//!
//! Searched are documents by hand, the words of claims, and what is said of papers' items. Other
//! numbers (a parameter, a promise, a number of a paper) are in `evidence/constants.toml` with the
//! file that states it. Left out: dated notes, the changelog, and pages that are rendered.

use std::collections::BTreeSet;
use std::fs;

use serde::Deserialize;

use crate::claim::System;
use crate::error::Problem;
use crate::figures::{comparisons, numbers, typed_figures};
use crate::house::House;
use crate::page;
use crate::paper::Manifest;

/// The list of constants.
const LIST: &str = "evidence/constants.toml";
/// The pages that say what programs accept, so that only comparisons are figures there.
const FORMATS: &str = "docs/formats";
/// Folders whose documents are searched, and a document.
const SEARCHED: [&str; 8] = [
    "",
    "docs",
    FORMATS,
    "linux",
    "linux/qemu",
    "linux/new/Documentation/scheduler",
    "linux/new/Documentation/virt/kvm/x86",
    "docs/validation/README.md",
];
/// A history.
const LEFT_OUT: &str = "CHANGELOG.md";

/// What documents may state.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Constants {
    document: Vec<Constant>,
}

/// What one document may state.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Constant {
    /// The document, from the project's root.
    file: String,
    /// What the numbers are.
    why: String,
    /// The numbers, as the search finds them.
    figures: BTreeSet<String>,
}

/// A text that is searched.
struct Source {
    /// Its file, from the project's root.
    name: String,
    /// What is searched of it, each with its place.
    parts: Vec<(String, String)>,
    /// What a figure is there.
    rule: Rule,
}

/// What a figure is ([`crate::figures`]).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// Of a format's page.
    Format,
    /// Of any other document.
    Document,
    /// Of a claim's words.
    Claim,
}

impl Source {
    /// The figures of one part, each once.
    fn figures(&self, text: &str) -> BTreeSet<String> {
        let (found, more) = match self.rule {
            Rule::Format => (comparisons(text), Vec::new()),
            Rule::Document => (typed_figures(text), Vec::new()),
            Rule::Claim => (typed_figures(text), numbers(text)),
        };
        let mut found: BTreeSet<String> = found.into_iter().collect();
        let whole = |number: &String| found.iter().any(|known| known.contains(number.as_str()));
        let more: Vec<String> = more.into_iter().filter(|number| !whole(number)).collect();
        found.extend(more);
        found
    }
}

/// Every typed figure that is not a constant, and every constant that nothing states.
pub(crate) fn problems(house: &House) -> Vec<Problem> {
    let constants = match fs::read_to_string(house.root.join(LIST)) {
        Ok(text) => toml::from_str(&text),
        Err(_) => Ok(Constants::default()),
    };
    let constants = match constants {
        Ok(constants) => constants.document,
        Err(error) => return vec![Problem::new(LIST, error.to_string())],
    };
    let mut found = Vec::new();
    let documents = documents(house).into_iter().map(|name| {
        let text = fs::read_to_string(house.root.join(&name)).unwrap_or_default();
        let parts = paragraphs(&page::by_hand(&text)).into_iter();
        let place = |line| format!("line {line} outside markers");
        let is_format = name.starts_with(FORMATS);
        Source {
            name,
            parts: parts.map(|(line, text)| (place(line), text)).collect(),
            rule: if is_format {
                Rule::Format
            } else {
                Rule::Document
            },
        }
    });
    let sources: Vec<Source> = documents
        .chain(house.systems.iter().map(of_claims))
        .chain(house.papers.iter().map(of_paper))
        .collect();
    for source in &sources {
        let name = &source.name;
        let of_it = constants.iter().filter(|constant| &constant.file == name);
        let mut unused: BTreeSet<&String> = of_it.flat_map(|one| &one.figures).collect();
        let known = unused.clone();
        for (place, text) in &source.parts {
            for figure in source.figures(text) {
                unused.remove(&figure);
                if !known.contains(&figure) {
                    let text = format!(
                        "`{figure}` is a typed figure ({place}); record it, use a placeholder, or \
                         where it is not a result add it to {LIST}"
                    );
                    found.push(Problem::new(name, text));
                }
            }
        }
        let text = |figure| format!("`{figure}` does not stand in {name} any more; remove it");
        found.extend(unused.into_iter().map(|of| Problem::new(LIST, text(of))));
    }
    for constant in constants {
        let file = &constant.file;
        if !sources.iter().any(|source| &source.name == file) {
            let text = format!("`{file}` is not a document that is searched");
            found.push(Problem::new(LIST, text));
        }
        if constant.why.trim().is_empty() {
            let text = format!("`why` of `{file}` is empty; expected what the numbers are");
            found.push(Problem::new(LIST, text));
        }
    }
    found
}

/// The words of a system and of its claims.
fn of_claims(system: &System) -> Source {
    let claims = system.claims.iter();
    let says = system.score.iter().flat_map(|score| {
        let also = score.also.iter().map(|also| &also.says);
        let counted = score.counted.iter().map(|counted| &counted.says);
        [&score.says, &score.more]
            .into_iter()
            .chain(also)
            .chain(counted)
    });
    let counted = system.counted.iter();
    let texts = [&system.title, &system.what]
        .into_iter()
        .chain(says)
        .chain(counted.flat_map(|counted| [&counted.subject, &counted.conditions]))
        .chain(&system.answer)
        .chain(&system.no_help)
        .chain(&system.limitations)
        .chain(claims.clone().map(|claim| &claim.subject))
        .chain(claims.clone().flat_map(|claim| &claim.disclosed))
        .chain(claims.flat_map(|claim| claim.rows.iter().map(|row| &row.what)));
    let parts = texts.map(|text| (format!("in `{text}`"), without_placeholders(text)));
    Source {
        name: format!("evidence/claims/{}.toml", system.system),
        parts: parts.collect(),
        rule: Rule::Claim,
    }
}

/// What is said of a paper's items by hand.
fn of_paper(paper: &Manifest) -> Source {
    let items = paper.items.iter();
    let texts = items.flat_map(|item| item.because.iter().chain(&item.not_here));
    let parts = texts.map(|text| (format!("in `{text}`"), text.clone()));
    Source {
        name: format!("evidence/papers/{}.toml", paper.paper),
        parts: parts.collect(),
        rule: Rule::Document,
    }
}

/// A text with a word in place of each placeholder, whose names are not figures.
fn without_placeholders(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut parts = text.split('{');
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        out.push_str("placeholder");
        out.push_str(part.split_once('}').map_or(part, |(_, rest)| rest));
    }
    out
}

/// The documents that are searched, by name.
fn documents(house: &House) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for place in SEARCHED {
        if place.ends_with(".md") {
            found.insert(place.to_owned());
            continue;
        }
        let entries = fs::read_dir(house.root.join(place));
        for entry in entries.into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with(".md") && name != LEFT_OUT || name.ends_with(".rst") {
                found.insert(format!("{place}/{name}").trim_start_matches('/').to_owned());
            }
        }
    }
    found
}

/// The paragraphs, items and rows of a document, each as one line with the number of its first.
fn paragraphs(text: &str) -> Vec<(usize, String)> {
    let mut all: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        let number = line.split_once(". ");
        let numbered = number.is_some_and(|(of, _)| of.bytes().all(|byte| byte.is_ascii_digit()));
        let begins = line.is_empty() || numbered || line.starts_with(['-', '|', '#', '`']);
        match all.last_mut() {
            Some((_, paragraph)) if goes_on && !begins => {
                paragraph.push(' ');
                paragraph.push_str(line);
            }
            _ => all.push((at + 1, line.to_owned())),
        }
        goes_on = !line.is_empty() && !line.starts_with(['|', '#', '`']);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::paragraphs;

    #[test]
    fn a_figure_that_a_line_ends_in_is_whole() {
        let text = "It falls from 326\nto 35.1.\n\n- an item of\n  two lines\n| a row |\n| b |\n";
        let lines: Vec<(usize, String)> = paragraphs(text);
        let lines: Vec<(usize, &str)> = lines
            .iter()
            .map(|(at, text)| (*at, text.as_str()))
            .collect();
        let row = [(6, "| a row |"), (7, "| b |")];
        assert_eq!(lines[0], (1, "It falls from 326 to 35.1."));
        assert!(lines.contains(&(4, "- an item of two lines")), "{lines:?}");
        assert!(row.iter().all(|one| lines.contains(one)), "{lines:?}");
    }
}
