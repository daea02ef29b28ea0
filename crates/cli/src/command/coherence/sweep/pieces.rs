// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pieces of a sweep: what each depends on, where its result is kept, and how it is made.

use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use anyhow::Context;
use serde_json::json;
use steady_coherence::compare::{compare, digest, jobs};
use steady_coherence::config::MachineConfig;
use steady_coherence::result::run_result;
use steady_coherence::{Error, Registry, Spec};
use steady_measures::RunResult;

use crate::arguments::coherence::{Input as Given, Sweep};
use crate::command::coherence::simulate::{find, or_usual, seeded, with_file};
use crate::command::coherence::source::{machine_text, open};

/// Most pieces of one sweep; more are a mistake in a key's values.
const MOST: usize = 100_000;

/// One combination under one seed.
pub struct Piece {
    /// Each key with its value.
    pub keys: Vec<(String, String)>,
    /// The combination's number, from 0: pieces of one differ by their seeds.
    pub point: usize,
    /// What it runs on; its seed.
    pub given: Given,
    machine: MachineConfig,
    schemes: Vec<&'static Spec>,
    /// Names its file.
    identity: String,
}

/// All pieces, by combination and seed.
pub fn pieces(arguments: &Sweep) -> anyhow::Result<Vec<Piece>> {
    let axes = axes(&arguments.keys)?;
    let named = find(&arguments.schemes)?;
    let (text, origin) = machine_text(&arguments.input.machine)?;
    let program = program()?;
    let mut all = Vec::new();
    for (point, keys) in combinations(&axes).into_iter().enumerate() {
        let mut given = arguments.input.clone();
        let mut of_machine = Vec::new();
        for (key, value) in &keys {
            match key.as_str() {
                "vms" => given.vms = Some(whole(key, value)?),
                "rate" => given.rate = Some(whole(key, value)?),
                _ => of_machine.push((key.clone(), value.clone())),
            }
        }
        let machine = Registry::shipped().load_with(&text, &origin, &of_machine)?;
        let schemes = or_usual(named.clone(), machine.mode);
        // Built here, so that a scheme that refuses a machine is heard of before hours of work.
        for scheme in &schemes {
            scheme.build(&machine)?;
        }
        for given in seeded(&given, arguments.seeds)? {
            let input = open(&given, &machine)?;
            let labels: Vec<&str> = schemes.iter().map(|scheme| scheme.name).collect();
            let identity = digest(&json!({
                "program": program,
                "source": input.digest.unwrap_or(input.name),
                "accesses": input.accesses,
                "rate": given.rate,
                "options": input.options,
                "machine": machine,
                "schemes": labels,
            }));
            all.push(Piece {
                keys: keys.clone(),
                point,
                given,
                machine: machine.clone(),
                schemes: schemes.clone(),
                identity,
            });
        }
    }
    Ok(all)
}

/// The keys with their values.
fn axes(given: &[String]) -> Result<Vec<(String, Vec<String>)>, Error> {
    let mut axes: Vec<(String, Vec<String>)> = Vec::new();
    for word in given {
        let wrong = |what: &str| Error::Config(format!("`{word}`: {what}"));
        let Some((key, values)) = word.split_once('=') else {
            return Err(wrong(
                "expected KEY=VALUE,VALUE,..., such as core.count=8,64",
            ));
        };
        let values: Vec<String> = values.split(',').map(str::to_owned).collect();
        if key.is_empty() || values.iter().any(String::is_empty) {
            return Err(wrong("a key or a value is empty"));
        }
        if axes.iter().any(|(known, _)| known == key) {
            return Err(wrong(
                "the key is given twice; put its values into one list",
            ));
        }
        if (1..values.len()).any(|at| values[..at].contains(&values[at])) {
            return Err(wrong("a value is given twice"));
        }
        axes.push((key.to_owned(), values));
    }
    let count = axes
        .iter()
        .fold(1usize, |all, (_, values)| all.saturating_mul(values.len()));
    if count > MOST {
        return Err(Error::Config(format!(
            "{count} combinations: expected at most {MOST}"
        )));
    }
    Ok(axes)
}

/// Every combination of values, the last key's fastest.
fn combinations(axes: &[(String, Vec<String>)]) -> Vec<Vec<(String, String)>> {
    axes.iter().fold(vec![Vec::new()], |all, (key, values)| {
        let longer = all.iter().flat_map(|one| {
            values.iter().map(move |value| {
                let pair = (key.clone(), value.clone());
                one.iter().cloned().chain([pair]).collect()
            })
        });
        longer.collect()
    })
}

fn whole<T: std::str::FromStr>(key: &str, value: &str) -> Result<T, Error> {
    let text = || format!("`{key}` is {value}: expected a whole number that is not too large");
    value.parse().map_err(|_| Error::Config(text()))
}

/// Names this build of the program: a piece of another one is not taken.
fn program() -> anyhow::Result<(u64, Duration)> {
    let path = std::env::current_exe().context("cannot find this program's file")?;
    let read = || -> std::io::Result<_> {
        let file = std::fs::metadata(&path)?;
        let built = file.modified()?.duration_since(UNIX_EPOCH);
        Ok((file.len(), built.map_err(std::io::Error::other)?))
    };
    read().with_context(|| format!("cannot read {}", path.display()))
}

impl Piece {
    /// `core.count=8 seed 3`.
    pub fn title(&self) -> String {
        let pairs = self
            .keys
            .iter()
            .map(|(key, value)| format!("{key}={value} "));
        format!("{}seed {}", pairs.collect::<String>(), self.given.seed)
    }

    fn path(&self, out: &Path) -> PathBuf {
        out.join("pieces")
            .join(format!("{}.json", &self.identity[..32]))
    }

    /// The result where it was made before; what is damaged is made again.
    pub fn kept(&self, out: &Path) -> Option<RunResult> {
        let path = self.path(out);
        let kept =
            RunResult::from_json(&path.to_string_lossy(), &std::fs::read(&path).ok()?).ok()?;
        (kept.measures_digest == kept.digest_of_measures()).then_some(kept)
    }

    /// Simulates the piece and keeps it.
    pub fn make(&self, out: &Path) -> anyhow::Result<RunResult> {
        let input = open(&self.given, &self.machine)?;
        let jobs = jobs(&self.machine, &self.schemes);
        let found = compare(input.source, input.accesses, &jobs, &input.options, 1)
            .map_err(|error| with_file(error, &self.given))?;
        let result = run_result(&[found], &input.name, &input.origin);
        let folder = out.join("pieces");
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        result.save_atomic(&self.path(out))?;
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::{axes, combinations};

    #[test]
    fn the_last_key_changes_fastest() {
        let axes = axes(&["a.b=1,2".to_owned(), "c=x,y".to_owned()]).expect("two keys");
        let all = combinations(&axes);
        let texts = all.iter().map(|one| {
            let values: Vec<&str> = one.iter().map(|(_, value)| value.as_str()).collect();
            values.concat()
        });
        assert_eq!(texts.collect::<Vec<_>>(), ["1x", "1y", "2x", "2y"]);
    }

    #[test]
    fn a_wrong_key_is_named_with_what_was_expected() {
        for (given, said) in [
            (&["core.count"][..], "expected KEY=VALUE"),
            (&["a=1,"], "is empty"),
            (&["a=1", "a=2"], "given twice"),
            (&["a=1,1"], "value is given twice"),
        ] {
            let given: Vec<String> = given.iter().map(|word| (*word).to_owned()).collect();
            let error = axes(&given).expect_err("it is wrong").to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
