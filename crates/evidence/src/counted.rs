// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is counted and not raced: how often something that is said is right, over inputs whose
//! truth is known.
//!
//! The record `evidence/results/ID.toml` has a `row` for each thing that is said: `of` which part
//! of the inputs, what it `says`, `all` of them and those that are `right`. The tests that count
//! compare it with what they find, so that it cannot be old without a test that fails.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::error::Error;

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

/// A record.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rows {
    row: Vec<Count>,
}

impl Counted {
    /// The part of the inputs that pages show: all of them.
    const WHOLE: &'static str = "collection";

    /// The file of its record, in `evidence/results`.
    #[must_use]
    pub fn file(&self) -> String {
        format!("{}.toml", self.id)
    }

    /// What was counted.
    ///
    /// # Errors
    /// [`Error`] if the record cannot be read, or counts more that is right than there is.
    pub fn load(&self, root: &Path) -> Result<Vec<Count>, Error> {
        let path = root.join("evidence/results").join(self.file());
        let text = fs::read_to_string(&path).map_err(|error| Error::file("read", &path, error))?;
        let wrong = |text: String| Error::Record {
            path: path.clone(),
            text,
        };
        let rows: Rows = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        let odd = rows.row.iter().find(|row| row.right > row.all);
        match odd {
            Some(row) => Err(wrong(format!(
                "`{}`: {} of {}",
                row.says, row.right, row.all
            ))),
            None => Ok(rows.row),
        }
    }

    /// Its table in Markdown.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn table(&self, root: &Path) -> Result<String, Error> {
        let rows = self.load(root)?;
        let rows = rows.iter().filter(|row| row.of == Self::WHOLE);
        let mut text = format!("### {}\n\n", self.subject);
        text += &crate::words::wrapped("", &self.conditions);
        text += "\n\n| it says | of | right | share |\n|---|---|---|---|\n";
        for row in rows {
            let permille = row.right * 1000 / row.all.max(1);
            let (whole, part) = (permille / 10, permille % 10);
            let Count {
                says, all, right, ..
            } = row;
            text += &format!("| {says} | {all} | {right} | {whole}.{part} % |\n");
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_shown_as_a_table_and_one_that_cannot_be_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("evidence/results");
        fs::create_dir_all(&folder).unwrap();
        let counted = Counted {
            id: "known".to_owned(),
            subject: "Subject".to_owned(),
            conditions: "Over inputs.".to_owned(),
            command: "run".to_owned(),
        };
        assert!(counted.load(root.path()).is_err());
        let row = |of: &str, right: u64| {
            format!("[[row]]\nof = \"{of}\"\nsays = \"high\"\nall = 8\nright = {right}\n")
        };
        let write = |text: String| fs::write(folder.join("known.toml"), text).unwrap();
        write(row("collection", 7) + &row("slice", 8));
        let table = counted.table(root.path()).unwrap();
        assert!(
            table.ends_with("|---|---|---|---|\n| high | 8 | 7 | 87.5 % |\n"),
            "{table}"
        );
        write(row("collection", 9));
        assert!(counted.load(root.path()).is_err());
    }
}
