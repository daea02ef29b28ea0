// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs of neighbouring pages, which one request of `invlpgb` or `rar` covers.

use crate::layout::Key;
use crate::os::Change;

/// How many requests of at most `most` neighbouring pages the changes need.
pub(super) fn ranges(changes: &[Change], most: u64) -> u64 {
    let mut keys: Vec<Key> = changes.iter().map(|change| change.key).collect();
    keys.sort_unstable();
    keys.dedup();
    // The size of a page is in the key, above the page's number.
    let runs = keys.chunk_by(|one, next| one.raw() + 1 == next.raw());
    runs.map(|run| (run.len() as u64).div_ceil(most)).sum()
}
