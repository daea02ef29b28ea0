// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Do the scripts of `linux/` keep their promises? On made-up trees of a few lines.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod apply;
mod bench;
mod deb;
mod format_patch;
mod keys;
mod lists;
mod parts;
mod port;
mod series;
