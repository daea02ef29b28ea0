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
//! outside a placeholder is refused by [`typed_figures`].

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
            let old = match &entry.old {
                Some(key) => format!(" (old: {key})"),
                None => String::new(),
            };
            Ok(match *what {
                "value" => entry.value() + &old,
                _ => format!("{} ({}){old}", entry.ratio(), entry.shown()),
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

/// Figures that somebody typed: a number, also in words, with a unit of time, rate or share, one
/// above a thousand, a factor, a share in words, and what changes from one number to another. Text
/// in backquotes and in links is left out where it is code.
#[must_use]
pub fn typed_figures(text: &str) -> Vec<String> {
    // The level of an interval is method, not a result.
    let plain = without_code(text).replace("95 % interval", "interval");
    let plain = plain.replace("per cent", "percent").replace('→', " → ");
    let lower = plain.to_lowercase();
    let shares = SHARES.iter().filter(|share| lower.contains(**share));
    let mut found: Vec<String> = shares.map(|share| (*share).to_owned()).collect();
    let plain = without_tags(&plain);
    let tokens: Vec<&str> = plain.split_whitespace().collect();
    for (at, token) in tokens.iter().enumerate() {
        let lower = bare_of(token).to_lowercase();
        let bare = lower.as_str();
        let fold = bare.strip_suffix("fold");
        let from_to = at >= 3 && {
            let [from, first, to] = [tokens[at - 3], tokens[at - 2], tokens[at - 1]];
            let number =
                |text: &str| is_number(text) && text.contains(|c: char| c.is_ascii_digit());
            from.eq_ignore_ascii_case("from")
                && number(bare_of(first))
                && to == "to"
                && number(bare)
        };
        let factor = from_to
            || bare.strip_prefix(['×', 'x']).is_some_and(is_number) && !is_in(NAMES, bare)
            || bare.strip_suffix(['×', 'x']).is_some_and(is_number)
            || fold.is_some_and(|count| is_number(count.trim_end_matches('-')))
            || is_in(FACTORS, bare)
            || is_number(bare)
                && at >= 2
                && [["factor", "of"], ["ratio", "of"]].contains(&[tokens[at - 2], tokens[at - 1]])
            || has_glued_sign(bare);
        let next = tokens.get(at + 1).map(|next| bare_of(next));
        let with_unit = is_range(bare) && next.is_some_and(|next| is_in(UNITS, next));
        let glued = UNITS
            .split(' ')
            .any(|unit| bare.strip_suffix(unit).is_some_and(is_range));
        let thousands = bare.contains(',') && is_range(bare);
        if factor || with_unit || glued || thousands {
            found.push(match next {
                Some(next) if with_unit => format!("{bare} {next}"),
                _ => bare.to_owned(),
            });
        }
    }
    found
}

/// A word without what it is set in.
fn bare_of(token: &str) -> &str {
    token.trim_matches(|c: char| "()[],;:.*_\"".contains(c))
}

/// Words that are factors by themselves.
const FACTORS: &str = "\
    twice thrice double doubles doubled triple triples tripled halves halved quadruple \
    quadruples quadrupled";
/// Shares and factors in several words.
const SHARES: [&str; 10] = [
    "half of",
    "half as",
    "half the",
    "by half",
    "a third of",
    "by a third",
    "a quarter of",
    "by a quarter",
    "order of magnitude",
    "orders of magnitude",
];
/// What looks like a factor and is a name.
const NAMES: &str = "x8 x86 x264";
/// Numbers in words.
const NUMBERS: &str = "\
    two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty \
    fifty sixty seventy eighty ninety hundred thousand million";
/// Units and words that make a number a figure.
const UNITS: &str = "\
    % s second seconds minute minutes hour hours ns us µs ms times percent /s k/s M/s exits \
    cycles nanoseconds microseconds milliseconds";

/// Whether a list of words has one.
pub(crate) fn is_in(words: &str, word: &str) -> bool {
    words.split(' ').any(|known| known == word)
}

/// Whether a text is a number, perhaps with a sign, or one in words.
fn is_number(text: &str) -> bool {
    let digits = text.trim_start_matches(['-', '−', '+', '<', '>', '~', '≈', '≤', '≥']);
    if is_in(NUMBERS, digits) {
        return true;
    }
    let all = digits
        .chars()
        .all(|c| c.is_ascii_digit() || c == '.' || c == ',');
    all && digits.starts_with(|c: char| c.is_ascii_digit())
}

/// Whether a text is a number or two with a dash between.
fn is_range(text: &str) -> bool {
    is_number(text)
        || text
            .split_once(['–', '-'])
            .is_some_and(|(from, to)| is_number(from) && is_number(to))
}

/// Whether a digit has a sign of a share or a factor beside it, as in `gain=7%`.
fn has_glued_sign(text: &str) -> bool {
    let all: Vec<char> = text.chars().collect();
    all.windows(2).any(|pair| match pair {
        [digit, '%' | '×'] | ['×', digit] => digit.is_ascii_digit(),
        _ => false,
    })
}

/// The text with a blank in place of each tag.
fn without_tags(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        out.push_str(&rest[..at]);
        let tag = rest[at + 1..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
        let end = rest[at..].find('>').filter(|_| tag).map(|end| at + end + 1);
        out.push_str(if end.is_some() { " " } else { "<" });
        rest = &rest[end.unwrap_or(at + 1)..];
    }
    out + rest
}

/// The text with code in backquotes, and the targets of links, taken out.
fn without_code(text: &str) -> String {
    let mut out = String::new();
    for (at, part) in text.split('`').enumerate() {
        // A factor counts, as it is a result.
        if at % 2 == 0 || part.starts_with('×') {
            out.push_str(part);
        } else {
            out.push_str(" code ");
        }
    }
    let mut plain = String::new();
    let mut rest = out.as_str();
    while let Some(at) = rest.find("](") {
        plain.push_str(&rest[..at]);
        let end = rest[at..].find(')').map_or(rest.len(), |end| at + end + 1);
        plain.push(']');
        rest = &rest[end..];
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::{WIDTH, typed_figures, wrapped};

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

    #[test]
    fn a_number_with_a_unit_or_a_factor_is_a_figure() {
        for text in [
            "It is 74 times better.",
            "a p99 of 117 µs",
            "gains 12.5 %",
            "gains 12.5% of it",
            "(×0.010)",
            "1.5x as fast",
            "costs 983us",
            "saves ~80% of it",
            "a 74-fold gain",
            "a tenfold gain, fiftyfold here",
            "better by a factor of 5.2",
            "Twice as fast",
            "ten times as fast",
            "it halves the exits",
            "a hundred percent",
            "10–20 % lower",
            "takes 12 microseconds",
            "195 µs→37",
            "195→37 µs",
            "half of the exits",
            "lower by a third",
            "a quarter of the time",
            "it quadruples",
            "an order of magnitude",
            "ten per cent",
            "a ratio of 0.10 [0.09 to 0.11]",
            "gain=74%better",
            "<b>1.5x</b>",
            "it is `×0.21`",
            "takes 12 s",
            "a wait of 1.5 seconds",
            "falls from 326 to 35.1",
            "1,648 shootdowns",
            "61 minutes",
        ] {
            assert_ne!(typed_figures(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn versions_counts_and_code_are_not_figures() {
        for text in [
            "Linux 6.12 on Debian 12 or 13",
            "from 2 to N vCPUs of x86",
            "x86-64 with its 95 % interval",
            "two VMs of 8 vCPUs; the 99th percentile of a hundred shootdowns",
            "`--within 5%` and `ple_window_ns = 1365`",
            "see [the page](docs/x-100ms.md)",
        ] {
            assert_eq!(typed_figures(text), [""; 0], "{text}");
        }
    }
}
