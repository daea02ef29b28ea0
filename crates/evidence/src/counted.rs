// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is counted and not raced: how often something that is said is right, over inputs whose
//! truth is known; and what something costs, in an emulated host.
//!
//! The record `evidence/results/ID.toml` has a `row` for each thing that is said: `of` which part
//! of the inputs, what it `says`, `all` of them and those that are `right`. The test that counts
//! all, which `make catch` runs, compares it with what it finds.
//!
//! Or it has a `value` for each cost, `without` and `with` what costs. Then `made` says of which
//! kernel, emulator and files they are, and what is not today's is shown as old.
//!
//! Or it has a `prediction` for each row of a claim ([`crate::predicted`]), and `made` likewise.
//!
//! Its `seal` is the SHA-256 of all other lines, those of comments too.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use steady_measures::{Unit, sha256_hex};
use steady_report::humane;

use crate::error::Error;
use crate::house::{House, Keys, short};
use crate::keys;
use crate::predicted::{self, Prediction};

/// A claim of that kind, in a system's file of claims.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counted {
    /// Its word, the stem of its record.
    pub id: String,
    /// What is counted, as a heading says it.
    pub subject: String,
    /// Over which inputs, in a sentence or two.
    pub conditions: String,
    /// The command that counts again.
    pub command: String,
}

/// What was counted of one thing that is said.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Count {
    /// Of which part of the inputs.
    pub of: String,
    /// What is said of them.
    pub says: String,
    /// Of how many that is said.
    pub all: u64,
    /// For how many of these it is right.
    pub right: u64,
}

/// A cost.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Value {
    /// Of what.
    pub what: String,
    /// Unit of both.
    pub unit: Unit,
    /// Without what costs; `None` if there is nothing of it then.
    pub without: Option<u64>,
    /// With it.
    pub with: u64,
}

/// What costs were measured in.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Made {
    /// The engine.
    pub engine: String,
    /// Key of the kernel.
    pub kernel: String,
    /// Key of the engine's patches.
    pub emulator: String,
    /// Keys of files of this tree that decide what is measured, by their paths.
    pub files: BTreeMap<String, String>,
}

impl Made {
    /// What of it is not today's.
    ///
    /// # Errors
    /// [`Error::File`] if a file cannot be read.
    pub fn old(&self, root: &Path, today: &Keys) -> Result<Option<String>, Error> {
        if self.kernel != today.kernel {
            return Ok(Some(format!("kernel {}", short(&self.kernel))));
        }
        if self.emulator != today.emulator(&self.engine) {
            return Ok(Some(format!("emulator {}", short(&self.emulator))));
        }
        for (path, key) in &self.files {
            if &keys::file(&root.join(path))? != key {
                return Ok(Some(format!("{path} {}", short(key))));
            }
        }
        Ok(None)
    }
}

/// How the line of a seal begins.
const SEAL: &str = "seal = ";

/// SHA-256 of a record's lines but that of its seal and empty ones, as
/// `grep -v -e '^seal = ' -e '^$' FILE | sha256sum` has it.
fn digest(text: &str) -> String {
    let lines = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with(SEAL));
    let lines: String = lines.flat_map(|line| [line, "\n"]).collect();
    sha256_hex(lines.as_bytes())
}

/// A record.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rows {
    seal: Option<String>,
    #[serde(default)]
    row: Vec<Count>,
    made: Option<Made>,
    #[serde(default)]
    value: Vec<Value>,
    #[serde(default)]
    prediction: Vec<Prediction>,
}

impl Counted {
    /// The part of the inputs that pages show: all of them.
    const WHOLE: &'static str = "collection";

    /// The file of its record, in `evidence/results`.
    #[must_use]
    pub fn file(&self) -> String {
        format!("{}.toml", self.id)
    }

    /// A record with a seal before its first table; `None` where it has one, or no table.
    #[must_use]
    pub fn sealed(text: &str) -> Option<String> {
        let (head, tables) = text.split_at(text.find("\n[")?);
        let has = head.lines().any(|line| line.starts_with(SEAL));
        let digest = digest(text);
        (!has).then(|| format!("{}\n{SEAL}\"{digest}\"\n{tables}", head.trim_end()))
    }

    fn load(&self, root: &Path) -> Result<Rows, Error> {
        let path = root.join("evidence/results").join(self.file());
        let text = fs::read_to_string(&path).map_err(|error| Error::file("read", &path, error))?;
        let wrong = |text: String| Error::Record {
            path: path.clone(),
            text,
        };
        let rows: Rows = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        let Some(seal) = &rows.seal else {
            return Err(wrong("it has no seal: steady evidence seal".to_owned()));
        };
        if &digest(&text) != seal {
            return Err(wrong(format!(
                "it was changed after it was sealed; count again: {}",
                self.command
            )));
        }
        let odd = rows.row.iter().find(|row| row.right > row.all);
        match odd {
            Some(row) => Err(wrong(format!(
                "`{}`: {} of {}",
                row.says, row.right, row.all
            ))),
            None if rows.made.is_some()
                == (rows.value.is_empty() && rows.prediction.is_empty()) =>
            {
                Err(wrong(
                    "expected `made` where there is a `value` or a `prediction`, and only there"
                        .to_owned(),
                ))
            }
            None if rows.made.is_none() && rows.row.is_empty() => {
                Err(wrong("expected a `row` or a `value`".to_owned()))
            }
            None => Ok(rows),
        }
    }

    /// Its table in Markdown.
    ///
    /// # Errors
    /// [`Error`] if the record cannot be read, was changed after it was sealed, counts more that is
    /// right than there is, or has values and does not say of what, or neither rows nor values.
    pub fn table(&self, house: &House) -> Result<String, Error> {
        let rows = self.load(&house.root)?;
        let mut text = format!("### {}\n\n", self.subject);
        text += &crate::words::wrapped("", &self.conditions);
        if let Some(made) = &rows.made {
            let old = made.old(&house.root, &house.keys)?;
            let shown = old.map_or_else(String::new, |key| format!(" **old: {key}**"));
            if !rows.prediction.is_empty() {
                let table = predicted::table(house, &rows.prediction, &shown)?;
                return Ok(format!("{text}\n\n{table}"));
            }
            text += "\n\n| measure | without | with | ratio |\n|---|---|---|---|\n";
            for value in &rows.value {
                text += &value.line(&shown);
            }
            return Ok(text);
        }
        text += "\n\n| it says | of | right | share |\n|---|---|---|---|\n";
        for row in rows.row.iter().filter(|row| row.of == Self::WHOLE) {
            let permille = row.right * 1000 / row.all.max(1);
            let (whole, part) = (permille / 10, permille % 10);
            let Count {
                says, all, right, ..
            } = row;
            text += &format!("| {says} | {all} | {right} | {whole}.{part} % |\n");
        }
        Ok(text)
    }

    /// How often each thing that is said is right, in one line; none if nothing of it is, or if the
    /// record cannot be read.
    pub(crate) fn line(&self, house: &House) -> Option<String> {
        let rows = self.load(&house.root).ok()?;
        let of = |row: &Count| format!("{} {} of {}", row.says, row.right, row.all);
        let said = |row: &&Count| row.of == Self::WHOLE;
        let parts: Vec<String> = rows.row.iter().filter(said).map(of).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

impl Value {
    /// Its line of a table.
    fn line(&self, shown: &str) -> String {
        let dash = || "–".to_owned();
        let with = humane::positive(self.unit, self.with);
        let without = self.without.filter(|&ns| ns > 0);
        let ratio = without.map_or_else(dash, |without| {
            let percent = (self.with.saturating_mul(100) + without / 2) / without;
            format!("×{}.{:02}", percent / 100, percent % 100)
        });
        let without = without.map_or_else(dash, |value| humane::positive(self.unit, value));
        format!("| {}{shown} | {without} | {with} | {ratio} |\n", self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A project with this record.
    fn house(root: &Path, record: &str) -> House {
        let folder = root.join("evidence/results");
        fs::create_dir_all(&folder).unwrap();
        for folder in ["claims", "papers"] {
            fs::create_dir_all(root.join("evidence").join(folder)).unwrap();
        }
        fs::write(folder.join("known.toml"), record).unwrap();
        let keys = Keys {
            kernel: "0123456789abcdef".to_owned(),
            ..Keys::default()
        };
        House::load(root, keys).unwrap()
    }

    fn counted() -> Counted {
        Counted {
            id: "known".to_owned(),
            subject: "Subject".to_owned(),
            conditions: "Over inputs.".to_owned(),
            command: "run".to_owned(),
        }
    }

    fn table(record: &str) -> Result<String, Error> {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("script"), "x\n").unwrap();
        let counted = counted();
        let record = format!("# It\n{record}");
        let sealed = Counted::sealed(&record).unwrap_or(record);
        counted.table(&house(root.path(), &sealed))
    }

    #[test]
    fn a_record_without_a_seal_or_changed_since_is_refused() {
        let record = "# It\n\n[[row]]\nof = \"collection\"\nsays = \"high\"\nall = 8\n\
                      right = 8\n";
        let sealed = Counted::sealed(record).unwrap();
        assert_eq!(Counted::sealed(&sealed), None);
        // By `grep` and `sha256sum`, as `digest` says.
        let seal = "d9a6350201901183e8693fde1ea4c69616c9c41dc392a0d2cbbfa77b5e1635a1";
        let begin = format!("# It\nseal = \"{seal}\"\n\n[[row]]");
        assert!(sealed.starts_with(&begin), "{sealed}");
        let of = |record: &str| {
            let root = tempfile::tempdir().unwrap();
            let counted = counted();
            counted.table(&house(root.path(), record))
        };
        assert!(of(&sealed).is_ok());
        let error = |record: &str| of(record).unwrap_err().to_string();
        let changed = error(&sealed.replace("all = 8", "all = 9"));
        for changed in [changed, error(&sealed.replace("# It", "# It is 7"))] {
            let said = "changed after it was sealed; count again: run";
            assert!(changed.contains(said), "{changed}");
        }
        assert!(error(record).contains("no seal: steady evidence seal"));
    }

    #[test]
    fn a_record_is_shown_as_a_table_and_one_that_cannot_be_is_refused() {
        let row = |of: &str, right: u64| {
            format!("[[row]]\nof = \"{of}\"\nsays = \"high\"\nall = 8\nright = {right}\n")
        };
        let table_of = table(&(row("collection", 7) + &row("slice", 8))).unwrap();
        assert!(
            table_of.ends_with("|---|---|---|---|\n| high | 8 | 7 | 87.5 % |\n"),
            "{table_of}"
        );
        assert!(table(&row("collection", 9)).is_err());
        assert!(table("").is_err());
    }

    #[test]
    fn a_cost_is_shown_beside_what_is_without_it_and_is_old_with_its_kernel_or_script() {
        // `printf 'x\n' | sha256sum`
        let made = |kernel: &str, script: &str| {
            format!(
                "[made]\nengine = \"any\"\nkernel = \"{kernel}\"\nemulator = \"\"\n\
                 files = {{ script = \"{script}\" }}\n"
            )
        };
        let value = "[[value]]\nwhat = \"a\"\nunit = \"ns\"\nwithout = 2000\nwith = 3010\n\
                     [[value]]\nwhat = \"b\"\nunit = \"ppm\"\nwith = 12345\n";
        let (kernel, script) = ("0123456789abcdef", "73cb3858a687a849");
        let of_today = table(&(made(kernel, script) + value)).unwrap();
        assert!(
            of_today.ends_with("\n| a | 2.00 µs | 3.01 µs | ×1.51 |\n| b | – | 1.23 % | – |\n"),
            "{of_today}"
        );
        for (kernel, script, old) in [
            ("ffff", script, "**old: kernel ffff**"),
            (kernel, "eeee", "**old: script eeee**"),
        ] {
            let of = table(&(made(kernel, script) + value)).unwrap();
            assert!(of.contains(&format!("| a {old} |")), "{of}");
        }
        assert!(table(value).is_err(), "it does not say of what");
    }

    /// Prints today's keys too, for one who measures again.
    #[test]
    fn what_costs_were_measured_with_is_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let today = Keys::of_tree(&root, BTreeMap::new()).unwrap();
        for id in ["place-cost", "recorder-cost"] {
            let path = root.join(format!("evidence/results/{id}.toml"));
            let rows: Rows = toml::from_str(&fs::read_to_string(path).unwrap()).unwrap();
            let Made { engine, files, .. } = rows.made.unwrap();
            assert!(!files.is_empty(), "{id}");
            let files = files.keys().map(|path| {
                let key = keys::file(&root.join(path)).unwrap();
                format!("\"{path}\" = \"{key}\"")
            });
            let (files, kernel) = (files.collect::<Vec<_>>().join(", "), &today.kernel);
            let emulator = today.emulator(&engine);
            assert_eq!(emulator.len(), 16, "{id}: {engine}");
            println!(
                "{id}:\nkernel = \"{kernel}\"\nemulator = \"{emulator}\"\nfiles = {{ {files} }}"
            );
        }
    }
}
