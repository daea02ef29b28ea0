// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keys that name things which other tables define: VMs and settings.

use steady_nearest::nearest;

use super::NAME;
use super::table::{Field, Reader};
use super::value::{Placed, Problems, Span};

/// The names that one kind of table defines.
#[derive(Debug)]
pub(super) struct Names {
    what: &'static str,
    /// Each with whether it is of a measured VM; `None` if one of them could not be read, so that
    /// nothing can be said of a name that is not there.
    known: Option<Vec<(String, bool)>>,
}

impl Names {
    pub fn new(what: &'static str, known: Option<Vec<(String, bool)>>) -> Self {
        Self { what, known }
    }

    /// An array of different names.
    pub fn listed(&self, table: &Reader<'_>, key: &'static str) -> Field<Vec<String>> {
        let expected = format!("an array of names of {}s", self.what);
        table.list(key, &expected, |list| {
            let mut names: Vec<Option<String>> = Vec::new();
            for (i, value) in list.iter().enumerate() {
                let name = table.text(&format!("{key}[{i}]"), value, &NAME);
                if let Some(name) = &name {
                    self.check(name, value.span(), table.problems);
                    if names.contains(&Some(name.clone())) {
                        let message = format!("{} `{name}` is listed twice", self.what);
                        let label = "remove one of the two";
                        table.problems.add(value.span(), message, label);
                    }
                }
                names.push(name);
            }
            names.into_iter().collect()
        })
    }

    /// Whether something has this name, or may have it.
    pub fn knows(&self, name: &str) -> bool {
        let has = |known: &Vec<(String, bool)>| known.iter().any(|(other, _)| other == name);
        self.known.as_ref().is_none_or(has)
    }

    pub fn check(&self, name: &str, span: Span, problems: &Problems) {
        let Some(known) = &self.known else { return };
        if self.knows(name) {
            return;
        }
        let names = known.iter().map(|(name, _)| name.as_str());
        let label = match nearest(name, names.clone()) {
            None if known.is_empty() => format!("the file has no `[[{}]]`", self.what),
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None => format!("expected one of {}", names.collect::<Vec<_>>().join(", ")),
        };
        problems.add(span, format!("no {} is named `{name}`", self.what), label);
    }

    /// Reports a VM that `without` takes away, so that nothing can be said of it.
    pub fn check_there(&self, name: &str, span: Span, gone: &[String], problems: &Problems) {
        if gone.iter().any(|other| other == name) {
            let message = format!("{} `{name}` is not there", self.what);
            problems.add(span, message, "remove it here, or from `without`");
        }
    }

    /// Whether a list takes away every measured VM.
    pub fn leaves_none(&self, without: &[String]) -> bool {
        let Some(known) = &self.known else {
            return false;
        };
        let mut measured = known.iter().filter(|(_, measured)| *measured);
        !without.is_empty() && measured.all(|(vm, _)| without.contains(vm))
    }

    /// Reports a list that leaves no measured VM.
    pub fn check_some_measured(&self, without: &Placed<Vec<String>>, problems: &Problems) {
        if self.leaves_none(without.get_ref()) {
            let label = "leave at least one VM that is not in the background";
            problems.add(without.span(), "no measured VM is left", label);
        }
    }
}
