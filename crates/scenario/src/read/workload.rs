// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `[[vm.workload]]` and `[[host.workload]]`.

use std::collections::BTreeMap;

use super::table::Reader;
use super::value::{Placed, Problems, Span, Text};
use super::{is_line, keys};
use crate::limits::*;
use crate::model::Workload;
use crate::program::{PROGRAMS, Program};
use crate::runs::{Brought, Runs};
use crate::words::ResultFrom;

const ARG: Text = Text {
    expected: "a string without control characters",
    most_chars: ARG_BYTES,
    holds: |text| !text.chars().any(char::is_control),
};

const FILE: Text = Text {
    expected: "a path, or two with a colon between: `FROM:TO`",
    most_chars: ARG_BYTES,
    holds: is_line,
};

const READY: Text = Text {
    expected: "part of a line",
    most_chars: ARG_BYTES,
    holds: is_line,
};

/// A workload as far as it could be read.
#[derive(Debug)]
pub(super) struct WorkloadRead {
    span: Span,
    pub program: Option<Placed<Runs>>,
    args: Option<Placed<Vec<String>>>,
    time_limit_s: Option<Option<Placed<u32>>>,
    brought: Option<BroughtKeys>,
}

/// Keys that `[[host.workload]]` has not.
#[derive(Debug, Default)]
struct BroughtKeys {
    files: Option<Placed<Vec<String>>>,
    result: Option<Placed<ResultFrom>>,
    ready: Option<Placed<String>>,
    env: BTreeMap<String, String>,
}

impl WorkloadRead {
    pub fn of(table: &Reader<'_>) -> Self {
        let in_vm = table.knows("files");
        Self {
            span: table.span.clone(),
            program: table.need(table.named("program", "program", runs, names())),
            args: table.or(table.texts("args", &ARG, LIST_ITEMS), Vec::new()),
            time_limit_s: if in_vm {
                Reader::optional(table.integer("time_limit_s", TIME_LIMIT_S))
            } else {
                Some(None)
            },
            brought: if in_vm {
                BroughtKeys::of(table)
            } else {
                Some(BroughtKeys::default())
            },
        }
    }

    pub fn finish(self, background: bool) -> Option<Workload> {
        let time_limit_s = self.time_limit_s?.map(Placed::into_inner);
        let time_limit_s = time_limit_s.or(Some(DEFAULT_WORKLOAD_TIME_LIMIT_S));
        let keys = self.brought?;
        Some(Workload {
            program: self.program?.into_inner(),
            args: self.args?.into_inner(),
            time_limit_s: time_limit_s.filter(|_| !background),
            files: keys.files.map(Placed::into_inner).unwrap_or_default(),
            result: keys.result.map_or(ResultFrom::Any, Placed::into_inner),
            ready: keys.ready.map(Placed::into_inner),
            env: keys.env,
        })
    }

    /// Reports keys that only a program that the user brings has.
    fn check_brought(&self, problems: &Problems) {
        let (Some(runs), Some(keys)) = (&self.program, &self.brought) else {
            return;
        };
        let Some(program) = runs.get_ref().known() else {
            return;
        };
        let given = [
            ("files", keys.files.as_ref().map(Placed::span)),
            ("result", keys.result.as_ref().map(Placed::span)),
            ("ready", keys.ready.as_ref().map(Placed::span)),
        ];
        for (key, span) in given {
            let Some(span) = span else { continue };
            let message = format!(
                "`{key}` is for a program of your own, not for `{}`",
                program.name
            );
            let label = format!("remove it, or write `program = \"./{}\"`", program.name);
            problems.add(span, message, label);
        }
    }
}

impl BroughtKeys {
    fn of(table: &Reader<'_>) -> Option<Self> {
        let env = Reader::optional(table.texts_by_name("env", [&ENV_NAME, &ARG], LIST_ITEMS));
        let files = Reader::optional(table.texts("files", &FILE, LIST_ITEMS));
        let result = Reader::optional(table.word("result"));
        let ready = Reader::optional(table.string("ready", &READY));
        Some(Self {
            files: files?,
            result: result?,
            ready: ready?,
            env: env?.map(Placed::into_inner).unwrap_or_default(),
        })
    }
}

const ENV_NAME: Text = Text {
    expected: "a name of letters, digits and underscores, not beginning with a digit",
    most_chars: NAME_CHARS,
    holds: |text| {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        text.starts_with(|c: char| !c.is_ascii_digit()) && text.bytes().all(allowed)
    },
};

/// What may stand for a program: a name of the table, or what has a slash.
fn names() -> impl Iterator<Item = &'static str> + Clone {
    let known = PROGRAMS.iter().map(|program| program.name);
    known.chain(["./PATH"])
}

fn runs(text: &str) -> Option<Runs> {
    match text.contains('/') {
        true => Brought::at(text).map(Runs::Brought),
        false => Program::find(text).map(Runs::Known),
    }
}

/// A background VM is load: one program that runs until it is stopped.
pub(super) fn check_background(workloads: &[WorkloadRead], problems: &Problems) {
    if let Some(second) = workloads.get(1) {
        let message =
            "a background VM has one workload, which runs until the measured VMs are done";
        problems.add(
            second.span.clone(),
            message,
            "remove the workloads after the first",
        );
    }
    let Some(first) = workloads.first() else {
        return;
    };
    first.check_brought(problems);
    check_endless(first, problems);
    if let Some(Some(limit)) = &first.time_limit_s {
        let message = "a background VM's workload takes no time limit";
        problems.add(
            limit.span(),
            message,
            "remove it: the measured VMs bound the run",
        );
    }
}

/// What is measured is measured from its start to its end.
pub(super) fn check_measured(workloads: &[WorkloadRead], problems: &Problems) {
    for workload in workloads {
        workload.check_brought(problems);
        let runs = workload.program.as_ref();
        let is_known = runs.is_none_or(|runs| runs.get_ref().known().is_some());
        let keys = workload.brought.as_ref().filter(|_| !is_known);
        if let Some(ready) = keys.and_then(|keys| keys.ready.as_ref()) {
            let message = "`ready` is for a background VM, which measured ones wait for";
            let label = "remove it, or add `background = true` to the VM";
            problems.add(ready.span(), message, label);
        }
    }
}

/// What the host itself runs is load as well. Reads `workload` of its table.
pub(super) fn host_workloads(host: &Reader<'_>) -> Option<Vec<Workload>> {
    let tables = host.tables("workload", &keys::HOST_WORKLOAD, LIST_ITEMS);
    let tables = Reader::optional(tables)?.map(Placed::into_inner);
    let tables = tables.unwrap_or_default();
    let read: Vec<WorkloadRead> = tables.iter().map(WorkloadRead::of).collect();
    for workload in &read {
        check_endless(workload, host.problems);
        let runs = workload.program.as_ref();
        if let Some(own) = runs.filter(|runs| runs.get_ref().known().is_none()) {
            let message = "the host runs programs of the table only";
            let label = "move it to `[[vm.workload]]` of a background VM";
            host.problems.add(own.span(), message, label);
        }
    }
    read.into_iter()
        .map(|workload| workload.finish(true))
        .collect()
}

/// Reports a program that ends by itself. That one that the user brings does not is their business.
fn check_endless(workload: &WorkloadRead, problems: &Problems) {
    let Some(runs) = &workload.program else {
        return;
    };
    let known = runs.get_ref().known();
    if let Some(program) = known.filter(|program| !program.background) {
        let endless = PROGRAMS.iter().filter(|program| program.background);
        let names: Vec<&str> = endless.map(|program| program.name).collect();
        let message = format!("`{}` ends by itself", program.name);
        let label = "expected a program that runs until it is stopped".to_owned();
        let note = format!("such programs: {}", names.join(", "));
        problems.push(runs.span(), message, label, Some(note));
    }
}
