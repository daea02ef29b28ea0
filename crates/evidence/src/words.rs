// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sentences whose numbers come from records.
//!
//! A sentence of a claims file or of a document's template may have placeholders in braces:
//!
//! | placeholder | becomes |
//! |---|---|
//! | `{ratio CLAIM ROW VARIANT}` | the ratio with its interval and what the runs show |
//! | `{value CLAIM ROW VARIANT}` | the variant's median |
//! | `{seeds CLAIM}` | how many seeds |
//! | `{conditions CLAIM}` | the conditions in one line |
//!
//! What is not recorded becomes `not recorded`, and what is of an older kernel says so. A figure
//! outside a placeholder is refused ([`crate::figures`]).

use crate::conditions;
use crate::house::House;
use crate::table;

/// The sentence with its placeholders filled in.
///
/// # Errors
/// What is wrong with a placeholder, in words.
pub fn filled(house: &House, text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        out.push_str(&rest[..at]);
        let Some(end) = rest[at..].find('}') else {
            return Err("a placeholder has no closing brace".to_owned());
        };
        out.push_str(&one(house, &rest[at + 1..at + end])?);
        rest = &rest[at + end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

fn one(house: &House, inside: &str) -> Result<String, String> {
    let words: Vec<&str> = inside.split_whitespace().collect();
    let claim = |id: &str| house.claim(id).map_err(|error| error.to_string());
    match words.as_slice() {
        ["seeds", id] => {
            let claim = claim(id)?;
            let record = house.record(claim);
            let seeds = record.map_or(0, |record| record.seeds(claim).len());
            Ok(seeds.to_string())
        }
        ["conditions", id] => {
            let claim = claim(id)?;
            Ok(conditions::line(house, claim))
        }
        [what @ ("ratio" | "value"), id, row, variant] => {
            let claim = claim(id)?;
            let Some(row) = claim.row(row) else {
                return Err(format!("the claim `{id}` has no row `{row}`"));
            };
            if !claim.all_variants().any(|name| name == *variant) {
                return Err(format!("the claim `{id}` has no variant `{variant}`"));
            }
            let Some(entry) = table::entry(house, claim, row, variant, None) else {
                return Ok("(not recorded)".to_owned());
            };
            // The table has the key.
            let is_old = entry.old.is_some();
            Ok(match *what {
                "value" => entry.value() + if is_old { " (old)" } else { "" },
                _ => {
                    let old = if is_old { "; old" } else { "" };
                    format!("{} ({}{old})", entry.ratio(), entry.shown())
                }
            })
        }
        _ => Err(format!(
            "`{{{inside}}}` is not a placeholder; expected `ratio` or `value` with claim, row and \
             variant, or `seeds` or `conditions` with a claim"
        )),
    }
}

/// Columns of a line of a document.
const WIDTH: usize = 100;

/// A paragraph or an item of a list in lines of at most [`WIDTH`] columns, where words allow that.
/// It begins with `lead`; further lines are indented by as much. Code in backquotes stays whole.
#[must_use]
pub fn wrapped(lead: &str, text: &str) -> String {
    let indent = lead.chars().count();
    let (mut out, mut column) = (lead.to_owned(), indent);
    let mut in_code = false;
    let whole = |c: char| {
        in_code ^= c == '`';
        c.is_whitespace() && !in_code
    };
    for word in text.split(whole).filter(|word| !word.is_empty()) {
        let width = word.chars().count();
        if column > indent && column + 1 + width > WIDTH {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        } else if column > indent {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += width;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{WIDTH, wrapped};

    #[test]
    fn lines_are_as_long_as_they_may_be_and_code_stays_whole() {
        let text = "a word of `code with blanks` ".repeat(12);
        let lines = wrapped("- ", &text);
        assert!(lines.starts_with("- a word"), "{lines}");
        for line in lines.lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
            assert_eq!(line.matches('`').count() % 2, 0, "{line}");
        }
        assert!(
            lines.lines().skip(1).all(|line| line.starts_with("  ")),
            "{lines}"
        );
        let words = |text: &str| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(words(&lines)[1..], words(&text));
        assert_eq!(wrapped("", "short"), "short");
    }
}
