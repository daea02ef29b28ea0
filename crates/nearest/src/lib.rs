// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The nearest right name to a wrong one: what every message asks that says `did you mean`.
//!
//! Only a slip of the pen, a letter or two or a part left out, gets one: a wrong guess misleads.
//!
//! ```
//! use steady_nearest::nearest;
//! assert_eq!(nearest("vcpu", ["vcpus", "pin"]), Some("vcpus"));
//! assert_eq!(nearest("colour", ["vcpus", "pin"]), None);
//! ```

#![forbid(unsafe_code)]

/// Longer words are not typing slips, and comparing them costs the product of the lengths.
const LONGEST_WORD_BYTES: usize = 64;

/// Returns the candidate that `word` was most likely meant to be, or `None` when none is near.
///
/// Upper and lower case, and `-`, `_` and blanks, count as the same. A candidate is near when at
/// most a third of the longer word has to change (at least one letter may), or when one is the
/// other with whole parts left out at either end: `memory` for `memory_mib`, `cmdline` for
/// `guest_cmdline`. Of equally near ones the first wins, so the answer is deterministic.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.is_empty() || word.len() > LONGEST_WORD_BYTES {
        return None;
    }
    let word = normal(word);
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        let Some(distance) = distance(&word, &normal(candidate)) else {
            continue;
        };
        if best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// The distance of two normalised words, or `None` when they are not near.
fn distance(word: &str, candidate: &str) -> Option<usize> {
    let changes = strsim::damerau_levenshtein(word, candidate);
    let longer = word.chars().count().max(candidate.chars().count());
    let allowed = (longer / 3).max(1);
    if changes <= allowed {
        // A single letter is one change away from every other: that says nothing.
        return (changes < longer).then_some(changes);
    }
    (part_of(word, candidate) || part_of(candidate, word)).then_some(allowed)
}

/// Whether `part` is `whole` with whole `_`-separated parts left out at one end.
fn part_of(part: &str, whole: &str) -> bool {
    let before = whole
        .strip_prefix(part)
        .is_some_and(|rest| rest.starts_with('_'));
    let after = whole
        .strip_suffix(part)
        .is_some_and(|rest| rest.ends_with('_'));
    before || after
}

fn normal(word: &str) -> String {
    word.trim()
        .chars()
        .map(|c| match c {
            '-' | ' ' => '_',
            other => other.to_ascii_lowercase(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::nearest;
    use proptest::prelude::*;

    const KEYS: [&str; 6] = [
        "name",
        "vcpus",
        "memory_mib",
        "guest_cmdline",
        "time_limit_s",
        "pin",
    ];

    #[test]
    fn a_slip_finds_the_key_it_was_meant_to_be() {
        for (slip, key) in [
            ("vcpu", "vcpus"),
            ("VCPUs", "vcpus"),
            ("vpcus", "vcpus"),
            ("memory-mib", "memory_mib"),
            ("memory", "memory_mib"),
            ("mem_mib", "memory_mib"),
            ("cmdline", "guest_cmdline"),
            ("time_limit_ms", "time_limit_s"),
            ("pins", "pin"),
        ] {
            assert_eq!(nearest(slip, KEYS), Some(key), "{slip}");
        }
    }

    #[test]
    fn an_unrelated_word_finds_nothing() {
        for word in ["", "x", "colour", "pizza", &"vcpus".repeat(50)] {
            assert_eq!(nearest(word, KEYS), None, "{word}");
        }
        assert_eq!(nearest("x", ["y"]), None);
    }

    #[test]
    fn of_equally_near_names_the_first_wins() {
        assert_eq!(nearest("cat", ["car", "cab"]), Some("car"));
        assert_eq!(nearest("cat", ["cab", "car"]), Some("cab"));
    }

    proptest! {
        #[test]
        fn a_suggestion_is_a_candidate_and_shares_more_than_it_changes(
            word in "\\PC{0,40}", candidates in proptest::collection::vec("[a-z_-]{1,20}", 0..6)
        ) {
            let found = nearest(&word, candidates.iter().map(String::as_str));
            let Some(found) = found else { return Ok(()) };
            prop_assert!(candidates.iter().any(|candidate| candidate == found));
            // The oracle is weaker than the rule and counts otherwise: some letter is common.
            let (word, found) = (word.to_lowercase(), found.to_lowercase());
            let plain = |c: char| if matches!(c, '-' | ' ') { '_' } else { c };
            prop_assert!(word.chars().map(plain).any(|c| found.chars().map(plain).any(|f| f == c)));
        }

        #[test]
        fn a_right_name_is_its_own_nearest(name in "[a-z][a-z0-9_]{1,20}") {
            prop_assert_eq!(nearest(&name, ["zz-other", name.as_str()]), Some(name.as_str()));
        }
    }
}
