// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Evidence: what is claimed of each system, the sealed races that show it, and the pages that are
//! written from both.
//!
//! `evidence/claims/` says what is claimed and under which conditions ([`System`]),
//! `evidence/papers/` lists every table, figure and number of the papers ([`Manifest`]), and
//! `evidence/results/` has what was measured ([`Record`]). [`page`] writes documents from these,
//! [`check`] finds where they contradict each other, [`verdict`] sets papers beside records, and
//! [`score`] makes the scoreboard. Every ratio is that of `steady_measures`: of pairs of runs with
//! the same seed, with its interval.
//!
//! Left out: running anything. A race is the caller's, who gives its result to [`Record::reduced`].

#![forbid(unsafe_code)]

mod also;
mod brought;
mod captured;
mod check;
mod claim;
mod conditions;
mod counted;
mod error;
mod figures;
mod given;
mod house;
mod items;
pub mod keys;
mod matrix;
pub mod moved;
mod order;
pub mod page;
mod paper;
pub mod parts;
mod pieces;
mod plot;
mod predicted;
mod record;
mod row;
pub mod score;
mod simulated;
mod table;
mod tally;
mod typed;
pub mod verdict;
pub mod words;

pub use also::Also;
pub use captured::{CAPTURED, Captured};
pub use check::check;
pub use claim::{Basis, CLAIMS_SCHEMA, CONDITION_KEYS, Claim, Row, Score, ScoreCounted, System};
pub use conditions::line as conditions_line;
pub use counted::{Count, Counted};
pub use error::{Error, Problem};
pub use given::DIAGNOSIS;
pub use house::{House, Keys};
pub use paper::{
    Bound, Claimed, Expect, Here, Item, Kind, Manifest, Number, PAPER_SCHEMA, PaperRatio,
};
pub use pieces::{Piece, Why, todo};
pub use record::Record;
pub use simulated::{Simulated, Words};
pub use table::{Entry, entries, entry};
pub use tally::Tally;
