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
#[must_use]
pub fn scenarios() -> Vec<Scenario> {
    let inputs = |word, numbers| Scenario {
        word,
        numbers,
        measures: BTreeSet::new(),
        workloads: BTreeSet::new(),
        variants: BTreeMap::new(),
    };
    let by_workload = Scenario {
        word: workloads::WORD,
        numbers: workloads::given(),
        measures: workloads::measured(),
        workloads: workloads::workloads(),
        variants: workloads::variants(),
    };
    let vendors = vendors::FORMS.iter().map(|form| Scenario {
        word: form.word,
        numbers: BTreeMap::new(),
        measures: BTreeSet::from([workloads::SPEED.to_owned()]),
        workloads: form.workloads(),
        variants: form.given(),
    });
    [
        inputs(NUMBERS, numbers::measures()),
        by_workload,
        inputs(inputs::WORD, inputs::given()),
        inputs(figures::WORD, figures::given()),
    ]
    .into_iter()
    .chain(vendors)
    .collect()
}

/// For each word a digest that changes with what the simulator does with it: of short simulations,
/// which take some 10 seconds of a CPU in all.
///
/// # Errors
/// As those simulations.
pub fn keys() -> Result<BTreeMap<&'static str, String>, Error> {
    let mut keys = BTreeMap::from([
        (NUMBERS, measures::fingerprint()?),
        (workloads::WORD, workloads::fingerprint()?),
        (inputs::WORD, inputs::fingerprint()?),
        (figures::WORD, figures::fingerprint()?),
    ]);
    for form in &vendors::FORMS {
        keys.insert(form.word, form.fingerprint()?);
    }
    Ok(keys)
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
