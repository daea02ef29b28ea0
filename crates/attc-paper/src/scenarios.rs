// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can be simulated and recorded, by the words that claims have for it.

use std::collections::{BTreeMap, BTreeSet};

use steady_coherence::Error;
use steady_measures::RunResult;

use crate::inputs::figures;
use crate::number::Words;
use crate::reproduction::numbers_alone;
use crate::runs::Settings;
use crate::{inputs, measures, numbers, vendors, workloads};

/// The word of the stated numbers.
const NUMBERS: &str = "attc";

/// What one word gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scenario {
    /// The word.
    pub word: &'static str,
    /// A digest that changes with what the simulator does with it.
    pub key: String,
    /// Measures of no workload, each with its conditions by their words; none of what follows by
    /// arithmetic. Their variants are `base` and `measured`, or the changed inputs.
    pub numbers: BTreeMap<String, Words>,
    /// Measures of each workload.
    pub measures: BTreeSet<String>,
    /// The workloads.
    pub workloads: BTreeSet<String>,
    /// The variants that have these, each with the conditions of its machine.
    pub variants: BTreeMap<String, Words>,
}

/// All of them.
///
/// # Errors
/// As the short simulations of their keys.
pub fn scenarios() -> Result<Vec<Scenario>, Error> {
    let mut all = vec![
        Scenario {
            word: NUMBERS,
            key: measures::fingerprint()?,
            numbers: numbers::measures(),
            measures: BTreeSet::new(),
            workloads: BTreeSet::new(),
            variants: BTreeMap::new(),
        },
        Scenario {
            word: workloads::WORD,
            key: workloads::fingerprint()?,
            numbers: workloads::given(),
            measures: workloads::measured(),
            workloads: workloads::workloads(),
            variants: workloads::variants(),
        },
        Scenario {
            word: inputs::WORD,
            key: inputs::fingerprint()?,
            numbers: inputs::given(),
            measures: BTreeSet::new(),
            workloads: BTreeSet::new(),
            variants: BTreeMap::new(),
        },
        Scenario {
            word: figures::WORD,
            key: figures::fingerprint()?,
            numbers: figures::given(),
            measures: BTreeSet::new(),
            workloads: BTreeSet::new(),
            variants: BTreeMap::new(),
        },
    ];
    for form in &vendors::FORMS {
        all.push(Scenario {
            word: form.word,
            key: form.fingerprint()?,
            numbers: BTreeMap::new(),
            measures: BTreeSet::from([workloads::SPEED.to_owned()]),
            workloads: form.workloads(),
            variants: form.given(),
        });
    }
    Ok(all)
}

/// Simulates what a word is of, all seeds at once. `done` hears how many runs of how many have
/// finished. `command` and `started` are what the result says of itself.
///
/// # Errors
/// As the simulations, and of another word.
pub fn simulate(
    word: &str,
    settings: &Settings,
    (command, started): (&str, &str),
    done: &(dyn Fn(usize, usize) + Sync),
) -> Result<RunResult, Error> {
    match word {
        NUMBERS => {
            let found = numbers_alone(settings, done)?;
            Ok(measures::result(&found, command, started))
        }
        workloads::WORD => {
            let found = workloads::run(settings, done)?;
            Ok(workloads::result(&found, command, started))
        }
        inputs::WORD => inputs::run(settings, (command, started), done),
        figures::WORD => figures::run(settings, (command, started), done),
        _ => {
            if let Some(form) = vendors::FORMS.iter().find(|form| form.word == word) {
                return form.run(settings, (command, started), done);
            }
            let forms = vendors::FORMS.iter().map(|form| form.word);
            let words: Vec<_> = [NUMBERS, workloads::WORD, inputs::WORD, figures::WORD]
                .into_iter()
                .chain(forms)
                .collect();
            Err(Error::Config(format!(
                "nothing is simulated for `{word}`; expected one of {}",
                words.join(", ")
            )))
        }
    }
}
