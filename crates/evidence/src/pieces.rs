// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is still to be raced: pieces of one claim and one seed, those without a record first.

use crate::claim::Claim;
use crate::house::House;

/// One seed of one claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The claim's word.
    pub claim: String,
    /// The seed.
    pub seed: u64,
    /// Why it must be raced.
    pub why: Why,
}

/// Why a piece must be raced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// Nothing is recorded of this seed.
    Missing,
    /// What is recorded is of an older kernel or program.
    Old,
    /// The user asked for it again.
    Again,
}

impl Why {
    /// In one word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Old => "old",
            Self::Again => "again",
        }
    }
}

/// What must be raced of these claims, what is missing before what is old. The first seeds of all
/// claims come before the second ones, so that an interrupted run has something of each.
#[must_use]
pub fn todo(house: &House, claims: &[&Claim], again: bool) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for claim in claims {
        let recorded = house.record(claim);
        let old = house.old(claim).is_some();
        let have = recorded.map_or_else(Vec::new, |record| record.seeds(claim));
        for (at, seed) in claim.all_seeds().into_iter().enumerate() {
            let why = match () {
                () if again => Why::Again,
                () if !have.contains(&seed) => Why::Missing,
                () if old => Why::Old,
                () => continue,
            };
            let claim = claim.id.clone();
            pieces.push((why, at, Piece { claim, seed, why }));
        }
    }
    pieces.sort_by_key(|(why, at, _)| (*why, *at));
    pieces.into_iter().map(|(_, _, piece)| piece).collect()
}
