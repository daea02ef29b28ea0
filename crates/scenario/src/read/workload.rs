// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `[[vm.workload]]` and `[[host.workload]]`.

use super::keys;
use super::table::Reader;
use super::value::{Placed, Problems, Span, Text};
use crate::limits::*;
use crate::model::Workload;
use crate::program::{PROGRAMS, Program};

const ARG: Text = Text {
    expected: "a string without control characters",
    most_chars: ARG_BYTES,
    holds: |text| !text.chars().any(char::is_control),
};

/// A workload as far as it could be read.
#[derive(Debug)]
pub(super) struct WorkloadRead {
    span: Span,
    pub program: Option<Placed<&'static Program>>,
    args: Option<Placed<Vec<String>>>,
    time_limit_s: Option<Option<Placed<u32>>>,
}

impl WorkloadRead {
    pub fn of(table: &Reader<'_>) -> Self {
        let args = table.list("args", "an array of strings", |list| {
            if list.len() > LIST_ITEMS {
                let message = format!("`args` has {} elements", list.len());
                let span = list.get(LIST_ITEMS).map_or(0..0, |element| element.span());
                table
                    .problems
                    .add(span, message, format!("expected at most {LIST_ITEMS}"));
                return None;
            }
            let arg = |(i, value)| table.text(&format!("args[{i}]"), value, &ARG);
            let args: Vec<Option<String>> = list.iter().enumerate().map(arg).collect();
            args.into_iter().collect()
        });
        let names = PROGRAMS.iter().map(|program| program.name);
        let program = table.named("program", "program", Program::find, names);
        Self {
            span: table.span.clone(),
            program: table.need(program),
            args: table.or(args, Vec::new()),
            time_limit_s: if table.knows("time_limit_s") {
                Reader::optional(table.integer("time_limit_s", TIME_LIMIT_S))
            } else {
                Some(None)
            },
        }
    }

    pub fn finish(self, background: bool) -> Option<Workload> {
        let time_limit_s = self.time_limit_s?.map(Placed::into_inner);
        let time_limit_s = time_limit_s.or(Some(DEFAULT_WORKLOAD_TIME_LIMIT_S));
        Some(Workload {
            program: self.program?.into_inner(),
            args: self.args?.into_inner(),
            time_limit_s: time_limit_s.filter(|_| !background),
        })
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

/// What the host itself runs is load as well. Reads `workload` of its table.
pub(super) fn host_workloads(host: &Reader<'_>) -> Option<Vec<Workload>> {
    let tables = host.tables("workload", &keys::HOST_WORKLOAD, LIST_ITEMS);
    let tables = Reader::optional(tables)?.map(Placed::into_inner);
    let tables = tables.unwrap_or_default();
    let read: Vec<WorkloadRead> = tables.iter().map(WorkloadRead::of).collect();
    for workload in &read {
        check_endless(workload, host.problems);
    }
    read.into_iter()
        .map(|workload| workload.finish(true))
        .collect()
}

/// Reports a program that ends by itself.
fn check_endless(workload: &WorkloadRead, problems: &Problems) {
    if let Some(program) = workload
        .program
        .as_ref()
        .filter(|program| !program.get_ref().background)
    {
        let endless = PROGRAMS.iter().filter(|program| program.background);
        let names: Vec<&str> = endless.map(|program| program.name).collect();
        let message = format!("`{}` ends by itself", program.get_ref().name);
        let label = "expected a program that runs until it is stopped".to_owned();
        let note = format!("such programs: {}", names.join(", "));
        problems.push(program.span(), message, label, Some(note));
    }
}
