// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The end of a message about an unknown name: the one that was meant, or all that there are.

use steady_nearest::nearest;

/// `did you mean ...?`, or `there are: ...` where none is near.
pub(crate) fn hint(wrong: &str, names: &[&str]) -> String {
    match nearest(wrong, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are: {}", names.join(", ")),
    }
}
