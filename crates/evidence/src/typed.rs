// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether documents have typed figures: results that no command makes again.
//!
//! Other numbers (a parameter, a promise, a number of a paper) are in
//! `evidence/constants.toml` with the document that states it. Left out: dated notes, the
//! changelog, `docs/formats`, which say what programs accept, and pages that are rendered.

use std::collections::BTreeSet;
use std::fs;

use serde::Deserialize;

use crate::error::Problem;
use crate::house::House;
use crate::page;
use crate::words::typed_figures;

/// The list of constants.
const LIST: &str = "evidence/constants.toml";
/// Folders whose documents are searched, and a document.
const SEARCHED: [&str; 5] = [
    "",
    "docs",
    "linux",
    "linux/qemu",
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

/// Every typed figure that is not a constant, and every constant that no document states.
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
    let documents = documents(house);
    for name in &documents {
        let text = fs::read_to_string(house.root.join(name)).unwrap_or_default();
        let of_it = constants.iter().filter(|constant| &constant.file == name);
        let mut unused: BTreeSet<&String> = of_it.flat_map(|one| &one.figures).collect();
        let known = unused.clone();
        for (line, paragraph) in paragraphs(&page::by_hand(&text)) {
            for figure in typed_figures(&paragraph) {
                unused.remove(&figure);
                if !known.contains(&figure) {
                    let text = format!(
                        "`{figure}` is typed (line {line} outside markers); record it, or where \
                         it is a constant add it to {LIST}"
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
        if !documents.contains(file) {
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
            if name.ends_with(".md") && name != LEFT_OUT {
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
