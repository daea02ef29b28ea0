// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the simulator of TLB coherence gives, by the words of claims.
//!
//! Its keys are digests of short simulations, which this program alone decides: they are kept.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use steady_evidence::{Captured, Simulated};
use steady_lab_artifacts::cache::program::{SIMULATIONS, kept};

use super::captured;

/// All of it. The keys come from the cache if they are there.
///
/// # Errors
/// As the simulations, and if what is kept is damaged.
pub fn all(cache: &Path) -> anyhow::Result<BTreeMap<String, Simulated>> {
    let answer = kept(cache, SIMULATIONS, || {
        anyhow::Ok(serde_json::to_vec(&keys()?).context("write the keys")?)
    })?;
    let mut keys: BTreeMap<String, String> =
        serde_json::from_slice(&answer).context("read the keys of simulations")?;
    let mut all = BTreeMap::new();
    for (word, mut simulated) in given() {
        let key = keys.remove(&word);
        simulated.key = key.with_context(|| format!("`{word}` has no key"))?;
        all.insert(word, simulated);
    }
    assert!(keys.is_empty(), "each key is of a word");
    Ok(all)
}

/// What each word has, without its key.
fn given() -> impl Iterator<Item = (String, Simulated)> {
    let of_captures = Simulated {
        measures: captured::simulated_measures(),
        ..Simulated::default()
    };
    let inputs = captured::INPUTS.iter().map(|input| {
        let how = Some(input.how).filter(|how| !how.is_empty());
        let words = how.map(|how| ("changed".to_owned(), how.to_owned()));
        (input.name.to_owned(), words.into_iter().collect())
    });
    let of_changed = Simulated {
        variants: inputs.collect(),
        ..Simulated::default()
    };
    let all = steady_attc_paper::scenarios().into_iter().map(|scenario| {
        let simulated = Simulated {
            numbers: scenario.numbers,
            measures: scenario.measures,
            workloads: scenario.workloads,
            variants: scenario.variants,
            ..Simulated::default()
        };
        (scenario.word.to_owned(), simulated)
    });
    all.chain([
        (Captured::SIMULATED.to_owned(), of_captures),
        (Captured::CHANGED.to_owned(), of_changed),
    ])
}

/// The key of each word, simulated.
fn keys() -> anyhow::Result<BTreeMap<String, String>> {
    let all = steady_attc_paper::keys()?.into_iter();
    let mut keys: BTreeMap<_, _> = all.map(|(word, key)| (word.to_owned(), key)).collect();
    let key = captured::fingerprint()?;
    keys.insert(
        Captured::CHANGED.to_owned(),
        captured::changed_fingerprint(&key)?,
    );
    keys.insert(Captured::SIMULATED.to_owned(), key);
    Ok(keys)
}
