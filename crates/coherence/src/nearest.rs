// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The name that was probably meant.

/// The name most like `wrong`; none of none.
pub(crate) fn nearest<'a>(wrong: &str, names: &[&'a str]) -> Option<&'a str> {
    let likeness = |name: &&&str| {
        // Millionths, so that the order does not hang on float comparison.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "0.0 to 1.0; used in an error message only"
        )]
        let millionths = (strsim::jaro_winkler(wrong, name) * 1_000_000.0) as u32;
        millionths
    };
    names.iter().max_by_key(likeness).copied()
}
