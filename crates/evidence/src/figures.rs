// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures that somebody typed into a text: what looks like a result and comes from no record.
//!
//! Three rules. [`typed_figures`] is for documents, which also have limits, versions and sizes. A
//! figure there is a number with a unit, a decimal, one of three digits or more, a factor, a share,
//! or two numbers that are set beside each other. [`numbers`] is for the words of claims, where
//! each number in digits is a figure. [`comparisons`] is for pages that say what programs accept:
//! factors and what is set beside each other. What is meant so, [`crate::typed`] finds in a list.
//!
//! Left out: a small number without a unit in a document, and what only its sense makes a result.

/// Words that are factors by themselves.
const FACTORS: &str = "\
    twice thrice double doubles doubled triple triples tripled halves halved quadruple \
    quadruples quadrupled dozens";
/// Shares and factors in several words.
const SHARES: [&str; 14] = [
    "half of",
    "half as",
    "half the ",
    "half its",
    "half their",
    "by half",
    "and a half",
    "a third of",
    "by a third",
    "a quarter of",
    "by a quarter",
    "order of magnitude",
    "orders of magnitude",
    "a dozen times",
];
/// Parts of a whole that are shares in the plural, and in the singular where a clause ends.
const PARTS: &str = "third quarter fifth sixth seventh eighth ninth tenth hundredth thousandth";
/// What looks like a factor and is a name.
const NAMES: &str = "x8 x86 x264";
/// What a number is the version or the place of, behind it.
const NAMED: &str = "\
    linux debian debian's qemu bochs gcc clang rust python version versions section sections table \
    figure figures footnote chapter step line lines row rule rules item patch patches";
/// Numbers in words.
const NUMBERS: &str = "\
    two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty \
    fifty sixty seventy eighty ninety hundred thousand million";
/// Units and words that make a number a figure.
const UNITS: &str = "\
    % ‰ s sec secs second seconds min mins minute minutes h hour hours day days ns us µs ms times \
    percent permille points p.p /s k/s M/s B/s kB/s MB/s GB/s KiB/s MiB/s GiB/s exits cycles \
    nanoseconds microseconds milliseconds requests";
/// Endings of a number that multiply it.
const SCALES: [&str; 10] = ["k", "K", "M", "G", "KiB", "MiB", "GiB", "kB", "MB", "GB"];
/// What stands between two numbers that are compared.
const BESIDE: &str = "against versus vs → instead-of";
/// Digits of a number that is a figure by its size.
const MANY_DIGITS: usize = 3;

/// The typed figures of a document's paragraph. Text in backquotes and in links is left out where
/// it is code.
#[must_use]
pub fn typed_figures(text: &str) -> Vec<String> {
    let plain = plain(text);
    let lower = plain.to_lowercase();
    let shares = SHARES.iter().filter(|share| lower.contains(**share));
    let mut found: Vec<String> = shares.map(|share| share.trim().to_owned()).collect();
    let tokens: Vec<&str> = plain.split_whitespace().collect();
    for at in 0..tokens.len() {
        found.extend(figure(&tokens, at));
    }
    found
}

/// The factors of a text, and the numbers that it sets beside each other.
#[must_use]
pub fn comparisons(text: &str) -> Vec<String> {
    let plain = plain(text);
    let tokens: Vec<&str> = plain.split_whitespace().collect();
    let one = |at| {
        let bare = bare_of(tokens[at]).to_lowercase();
        let factor = is_factor(&bare) && !is_in(FACTORS, &bare);
        is_compared(&tokens, at)
            .or_else(|| is_times(&tokens, at))
            .or(factor.then_some(bare))
    };
    (0..tokens.len()).filter_map(one).collect()
}

/// The numbers in digits of a claim's words, but in names such as `p99`, `99th` or Linux 6.12.
#[must_use]
pub fn numbers(text: &str) -> Vec<String> {
    let plain = plain(text);
    let tokens: Vec<&str> = plain.split_whitespace().collect();
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        if is_named(&tokens, at) {
            continue;
        }
        let parts = token.split(|c: char| "=:/()[]".contains(c)).map(bare_of);
        let is_figure = |part: &&str| {
            let ordinal = ["st", "nd", "rd", "th"].iter();
            let ordinal = ordinal.filter_map(|end| part.strip_suffix(end));
            part.contains(|c: char| c.is_ascii_digit())
                && !part.starts_with(|c: char| c.is_ascii_alphabetic())
                && !ordinal.into_iter().any(is_number)
        };
        found.extend(parts.filter(is_figure).map(str::to_owned));
    }
    found
}

/// The figure that a word is, or ends.
fn figure(tokens: &[&str], at: usize) -> Option<String> {
    let lower = bare_of(tokens[at]).to_lowercase();
    let bare = lower.as_str();
    let next = tokens.get(at + 1).map(|next| bare_of(next));
    if is_range(bare) && next.is_some_and(|next| is_in(UNITS, next)) {
        return Some(format!("{bare} {}", next.unwrap_or_default()));
    }
    if let Some(whole) = is_compared(tokens, at).or_else(|| is_part(tokens, at)) {
        return Some(whole);
    }
    let glued = UNITS.split(' ').chain(SCALES);
    let mut glued = glued.filter_map(|unit| bare_of(tokens[at]).strip_suffix(unit));
    if is_number(bare) && at >= 2 && is_of(&tokens[at - 2..at]) {
        return Some(format!("{} of {bare}", tokens[at - 2]));
    }
    let large = !is_named(tokens, at) && (is_decimal(bare) || is_large(bare));
    let is_figure = is_factor(bare)
        || has_glued_sign(bare)
        || glued.any(|of| is_range(of) && of.contains(|c: char| c.is_ascii_digit()))
        || bare.contains(',') && is_range(bare)
        || bare.contains(['½', '¼', '¾'])
        || large;
    is_figure.then(|| bare.to_owned())
}

/// Whether a word is a factor by itself.
fn is_factor(bare: &str) -> bool {
    let fold = bare.strip_suffix("fold");
    bare.strip_prefix(['×', 'x']).is_some_and(is_number) && !is_in(NAMES, bare)
        || bare.strip_suffix(['×', 'x']).is_some_and(is_number)
        || fold.is_some_and(|count| is_number(count.trim_end_matches('-')))
        || is_in(FACTORS, bare)
}

/// A factor of three words or more, as in `7 times better`.
fn is_times(tokens: &[&str], at: usize) -> Option<String> {
    let number = bare_of(tokens[at.checked_sub(1)?]).to_lowercase();
    let next = tokens
        .get(at + 1)
        .is_some_and(|next| *next == "as" || next.ends_with("er"));
    (tokens[at] == "times" && next && is_range(&number)).then(|| format!("{number} times"))
}

/// Whether two words say that a factor follows.
fn is_of(words: &[&str]) -> bool {
    [["factor", "of"], ["ratio", "of"], ["speedup", "of"]].contains(&[words[0], words[1]])
}

/// What a word ends that sets two numbers beside each other: `from 9 to 3`, `9 against 3`, `9 of
/// 10`, `one in three`.
fn is_compared(tokens: &[&str], at: usize) -> Option<String> {
    let last = bare_of(tokens[at]);
    let before = |back: usize| at.checked_sub(back).map(|at| tokens[at]);
    let first = |back: usize| before(back).map(|token| bare_of(token).to_lowercase());
    let digits = |text: &str| is_number(text) && text.contains(|c: char| c.is_ascii_digit());
    let counts = |text: &str| digits(text) || is_in(NUMBERS, text);
    let word = before(1)?;
    let of = |back: usize| {
        let number = first(back)?;
        let lower = last.to_lowercase();
        let both = counts(&number) && counts(&lower);
        (both || number == "one" && word == "in" && counts(&lower)).then_some(number)
    };
    let (number, between) = match word {
        "to" if before(3).is_some_and(|from| from.eq_ignore_ascii_case("from")) => {
            let number = first(2).filter(|number| digits(number) && digits(last))?;
            return Some(format!("{number} to {last}"));
        }
        "of" if before(2) == Some("instead") => (of(3)?, "instead of"),
        "of" if before(2) == Some("out") => (of(3)?, "out of"),
        "of" | "in" => (of(2)?, word),
        _ if is_in(BESIDE, word) => (of(2)?, word),
        _ => return None,
    };
    let ends = tokens[at].ends_with(['.', ',', ';', ':', ')']) || at + 1 == tokens.len();
    // `8 in 2 VMs` counts things of two kinds.
    let is_share = word != "in" || number == "one" || ends;
    is_share.then(|| format!("{number} {between} {}", last.to_lowercase()))
}

/// What a word ends that is a part of a whole: `two thirds`, `a tenth of`, `by a fifth`.
fn is_part(tokens: &[&str], at: usize) -> Option<String> {
    let bare = bare_of(tokens[at]).to_lowercase();
    let before = bare_of(tokens[at.checked_sub(1)?]).to_lowercase();
    if let Some(part) = bare.strip_suffix('s') {
        return (is_in(PARTS, part) && is_number(&before)).then(|| format!("{before} {bare}"));
    }
    let ends = tokens[at].ends_with(['.', ',', ';', ':', ')']) || at + 1 == tokens.len();
    let of = tokens.get(at + 1).is_some_and(|next| *next == "of");
    // A third and a quarter are looked for with the word beside them; a third thing has an end.
    let part = is_in(PARTS, &bare) && bare != "third" && ["a", "an", "one"].contains(&&*before);
    (part && (ends || of)).then(|| format!("{before} {bare}"))
}

/// Whether the word before says that a number is a version or a place.
fn is_named(tokens: &[&str], at: usize) -> bool {
    at > 0 && is_in(NAMED, &bare_of(tokens[at - 1]).to_lowercase())
}

/// Whether a text is a decimal, or two with a dash between; `6.12.117` is a version.
fn is_decimal(text: &str) -> bool {
    let one = |text: &str| is_number(text) && text.matches('.').count() == 1;
    let two = ["–", "-", "..", "/"].into_iter();
    let mut two = two.filter_map(|dash| text.split_once(dash));
    one(text) || two.any(|(from, to)| one(from) && one(to))
}

/// Whether a text is a number of many digits, in digits or as a power of ten, or has a sign.
fn is_large(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let signed = text.strip_prefix(['+', '−']).is_some_and(is_number);
    let power = text.split_once('e');
    signed
        || digits(text) && text.len() >= MANY_DIGITS
        || power.is_some_and(|(of, to)| digits(of) && digits(to))
}

/// The text without code, targets of links and tags, and what is method and not a result.
fn plain(text: &str) -> String {
    // The level of an interval is method.
    let plain = without_code(text).replace("95 % interval", "interval");
    let plain = plain
        .replace("per cent", "percent")
        .replace("per mille", "permille");
    let plain = plain.replace('→', " → ");
    without_tags(&plain)
}

/// A word without what it is set in.
fn bare_of(token: &str) -> &str {
    token.trim_matches(|c: char| "()[],;:.*_\"".contains(c))
}

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
    use super::{comparisons, numbers, typed_figures};

    /// Texts with a figure each, by strokes and lines.
    const FIGURES: &str = "\
It is 74 times better. | a p99 of 117 µs | gains 12.5 % | gains 12.5% of it | (×0.010)
1.5x as fast | costs 983us | saves ~80% of it | a 74-fold gain
a tenfold gain, fiftyfold here | better by a factor of 5.2 | Twice as fast
ten times as fast | it halves the exits | a hundred percent | 10–20 % lower
takes 12 microseconds | 195 µs→37 | 195→37 µs | half of the exits | lower by a third
a quarter of the time | it quadruples | an order of magnitude | ten per cent
a ratio of 0.10 [0.09 to 0.11] | gain=74%better | <b>1.5x</b> | it is `×0.21`
takes 12 s | a wait of 1.5 seconds | falls from 326 to 35.1 | 1,648 shootdowns
61 minutes | 35.1 instead of 326 | 35 against 32 | 326 → 35 | a speedup of 2
it is 1.69 of stock | nine of ten boosts ran | in one in three. | two out of three
two thirds of the exits | three quarters go | it gains a fifth. | a tenth of the exits
moves 300 MiB/s | 682 requests a second | 40 points | 559 VM exits | dozens of times
a dozen times faster | 5 sec | 2 days | 12k of them | p = 0.008 | 40 ‰ | 40 per mille | 1.2 GiB
half its exits | 3½ times | (1.31 to 1.94) | 1.31–1.94 | 1.31..1.94 | a gain of +69
moved by −40 | 1e3 of them | two and a half times";

    #[test]
    fn a_number_with_a_unit_or_a_factor_is_a_figure() {
        for text in FIGURES.split(['|', '\n']) {
            assert_ne!(typed_figures(text.trim()), [""; 0], "{text}");
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
            "Linux 6.12.117, QEMU 7.2 and section 3.1",
            "a third VM, eight in 2 VMs of it",
            "the fifth row and a tenth VM of it",
        ] {
            assert_eq!(typed_figures(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn a_claim_s_words_have_no_number_in_digits_but_in_names() {
        for text in [
            "falls to 0",
            "of 7 exits",
            "gain=40",
            "(35)",
            "64-bit",
            "12/35",
        ] {
            assert_ne!(numbers(text), [""; 0], "{text}");
        }
        for text in [
            "p99 of the 99th, Shoot4U",
            "seqr-4k on Debian 12's Linux 7.3",
            "`7` two",
        ] {
            assert_eq!(numbers(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn a_format_s_page_compares_nothing_and_has_bounds() {
        for text in [
            "×0.21 of it",
            "from 326 to 35.1",
            "35 against 32",
            "7 times faster",
        ] {
            assert_ne!(comparisons(text), [""; 0], "{text}");
        }
        for text in ["1 to 128, at most 5 %", "waits 20 ms, twice"] {
            assert_eq!(comparisons(text), [""; 0], "{text}");
        }
    }
}
