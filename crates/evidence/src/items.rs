// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether the items of a paper hold together: each names its source, its ratio follows from the
//! value as printed, and what it names here is there.
//!
//! Left out: whether the paper really says so, which only a reader can find.

use crate::error::Problem;
use crate::house::House;
use crate::moved;
use crate::order;
use crate::paper::{Here, Item, Kind, Manifest, Number, PaperRatio};
use crate::verdict::{self, Verdict};

/// Where in a paper an item can be; a place has at least one of these words.
const SOURCES: [&str; 7] = [
    "Abstract", "Section", "Table", "Figure", "Slide", "Footnote", "footnote",
];
/// 1 in millionths.
const ONE: u128 = 1_000_000;
/// A hundred in millionths.
const HUNDRED: u128 = 100 * ONE;

/// Every problem of a paper's items.
pub(crate) fn check(house: &House, paper: &Manifest) -> Vec<Problem> {
    let mut problems = Vec::new();
    for set in verdict::beside(house, paper) {
        let item = set.item;
        let place = format!("evidence/papers/{}.toml, item `{}`", paper.paper, item.id);
        problems.extend(of_item(house, paper, item, &place));
        problems.extend(moved::problems(house, &set, &place));
        if item.because.is_none() && set.verdict == Verdict::Differs {
            let text = "it differs, and `because` does not say why";
            problems.push(Problem::new(place, text));
        }
    }
    problems
}

fn of_item(house: &House, paper: &Manifest, item: &Item, place: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut wrong = |text: String| problems.push(Problem::new(place, text));
    if item.here.is_some() == item.not_here.is_some() {
        wrong("expected exactly one of `here` and `not_here`".to_owned());
    }
    if item
        .not_here
        .as_ref()
        .is_some_and(|why| why.trim().is_empty())
    {
        wrong("`not_here` is empty; expected why it is not here".to_owned());
    }
    if item.ratio.is_some() && item.expect.is_some() {
        wrong("expected at most one of `ratio` and `expect`".to_owned());
    }
    if item
        .ratio
        .as_ref()
        .is_some_and(|ratio| ratio.ppm().is_none())
    {
        wrong("the ratio is not one of two decimal numbers above 0".to_owned());
    }
    if !SOURCES.iter().any(|word| item.place.contains(word)) {
        wrong(format!(
            "`place` names no source; expected one of {}",
            SOURCES.join(", ")
        ));
    }
    match &item.ratio {
        None if item.bound.is_some() && item.number.is_none() => {
            wrong("a `bound` needs a `ratio` or a `number`".to_owned());
        }
        Some(ratio) if ratio.up_to.is_some() && item.bound.is_some() => {
            wrong("expected at most one of `bound` and `up_to`".to_owned());
        }
        Some(ratio) if !follows(paper, item, ratio) => wrong(format!(
            "the ratio of {} to {} does not follow from the value `{}`",
            ratio.of, ratio.to, item.value
        )),
        _ => {}
    }
    let stands = |number: &Number| {
        let mut all = numbers(&item.value).into_iter();
        all.any(|printed| number.millionths() == Some(printed.millionths))
    };
    if item.number.as_ref().is_some_and(|number| !stands(number)) {
        wrong(format!(
            "its `number` does not stand in the value `{}`",
            item.value
        ));
    }
    if item.follows && item.because.is_none() {
        wrong("`follows` has no `because`; expected what it follows from".to_owned());
    }
    if let Some(here) = &item.here {
        problems.extend(of_here(house, item, here).map(|text| Problem::new(place, text)));
    }
    problems
}

/// What is wrong with where an item is here.
fn of_here(house: &House, item: &Item, here: &Here) -> impl Iterator<Item = String> {
    let mut wrong = Vec::new();
    if let Some(beyond) = &here.beyond {
        if item.number.as_ref().and_then(Number::whole).is_none() {
            wrong.push("`beyond` counts rows; expected the paper's count in `number`".to_owned());
        }
        if item.ratio.is_some() || item.expect.is_some() {
            wrong.push("`beyond` counts rows; expected neither `ratio` nor `expect`".to_owned());
        }
        if matches!(beyond.millionths(), None | Some(0 | ONE)) {
            wrong.push(format!(
                "`beyond` is {beyond}; expected a ratio, not 0 or 1"
            ));
        }
    }
    if here.beyond.is_none() && here.others != 0 {
        wrong.push("`others` is of a count; expected `beyond` with it".to_owned());
    }
    if let Some(than) = &here.than {
        if here.beyond.is_some() || item.number.is_some() {
            wrong.push("`than` is of an order; expected neither `number` nor `beyond`".to_owned());
        }
        wrong.extend(order::check(house, here, than));
    }
    match house.claim(&here.claim) {
        Err(error) => wrong.push(error.to_string()),
        Ok(claim) => {
            let counts = here.beyond.is_some();
            let row = claim.row(&here.row);
            if row.is_none() {
                wrong.push(format!("claim `{}` has no row `{}`", here.claim, here.row));
            }
            if counts && row.is_some_and(|row| row.workload.is_none()) {
                wrong.push("`beyond` counts workloads; expected a row of one".to_owned());
            }
            if counts && here.variant == *here.base.as_ref().unwrap_or(&claim.base) {
                wrong.push("`beyond` is a ratio; the variant is its own base".to_owned());
            }
            let named = [Some(&here.variant), here.base.as_ref()];
            for name in named.into_iter().flatten() {
                if !claim.all_variants().any(|variant| variant == name) {
                    wrong.push(format!("claim `{}` has no variant `{name}`", here.claim));
                }
            }
        }
    }
    wrong.into_iter()
}

/// Whether a ratio is what the paper prints: two numbers of the value or of the paper's tables, a
/// share of 100, or a factor to its last printed digit.
fn follows(paper: &Manifest, item: &Item, ratio: &PaperRatio) -> bool {
    let own = numbers(&item.value);
    let tables = paper.items.iter().filter(|item| item.kind == Kind::Table);
    let printed: Vec<Printed> = tables.flat_map(|item| numbers(&item.value)).collect();
    let known = |number: u128| {
        let mut all = own.iter().chain(&printed);
        all.any(|printed| printed.millionths == number)
    };
    let (Some(of), Some(to)) = (ratio.of.millionths(), ratio.to.millionths()) else {
        return false;
    };
    let up_to = ratio.up_to.as_ref().map(Number::millionths);
    let numbers_alone =
        known(of) && (known(to) || to == ONE) && up_to.is_none_or(|most| most.is_some_and(known));
    let mut shares = own.iter().filter(|_| item.value.contains('%'));
    let share = shares.any(|printed| {
        let mut others = [
            HUNDRED.checked_add(printed.millionths),
            HUNDRED.checked_sub(printed.millionths),
        ]
        .into_iter()
        .flatten();
        others.any(|other| [(other, HUNDRED), (HUNDRED, other)].contains(&(of, to)))
    });
    let factor = |of: u128, to: u128| {
        let Some(found) = of.saturating_mul(ONE).checked_div(to) else {
            return false;
        };
        // Rounded, or cut off as papers do, too.
        let mut printed = own.iter();
        printed.any(|one| {
            let rounded = found.abs_diff(one.millionths) <= one.digit / 2;
            rounded || found >= one.millionths && found - one.millionths < one.digit
        })
    };
    numbers_alone || share || factor(of, to) || factor(to, of)
}

/// A number of a text, and what one more in its last digit is, in millionths.
struct Printed {
    millionths: u128,
    digit: u128,
}

/// The numbers of a text: `9,048`, `40 000`, `70.6`.
fn numbers(text: &str) -> Vec<Printed> {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let (mut found, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        if !digit(at) {
            at += 1;
            continue;
        }
        let (mut whole, mut decimals) = (String::new(), 0_u32);
        loop {
            while digit(at) {
                whole.push(char::from(bytes[at]));
                decimals += u32::from(whole.contains('.'));
                at += 1;
            }
            let three = (1..4).all(|ahead| digit(at + ahead)) && !digit(at + 4);
            match bytes.get(at) {
                Some(b',' | b' ') if three && decimals == 0 => at += 1,
                Some(b'.') if digit(at + 1) && decimals == 0 => {
                    whole.push('.');
                    at += 1;
                }
                _ => break,
            }
        }
        let millionths = Number::Decimal(whole).millionths();
        let digit = ONE / 10_u128.pow(decimals.min(6));
        found.extend(millionths.map(|millionths| Printed { millionths, digit }));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_papers_print_them() {
        let all = |text: &str| -> Vec<(u128, u128)> {
            let found = numbers(text).into_iter();
            found.map(|one| (one.millionths, one.digit)).collect()
        };
        assert_eq!(
            all("9,048 us, and 166 with one VM"),
            [(9_048_000_000, ONE), (166_000_000, ONE)]
        );
        assert_eq!(all("40 000"), [(40_000_000_000, ONE)]);
        assert_eq!(
            all("70.6x. 12 %"),
            [(70_600_000, 100_000), (12_000_000, ONE)]
        );
        assert_eq!(all("460 successes, 13174 failures").len(), 2);
        assert_eq!(all("a bar; no number"), []);
    }
}
