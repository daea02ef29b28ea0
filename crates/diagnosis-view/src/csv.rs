// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of a diagnosis as comma-separated values (RFC 4180), one file for each table.

use steady_diagnose::{Diagnosis, VmTable};

/// A file: its name and its text.
pub type File = (&'static str, String);

/// The files.
#[must_use]
pub fn tables(diagnosis: &Diagnosis) -> Vec<File> {
    vec![
        ("findings.csv", findings(diagnosis)),
        ("exits.csv", exits(diagnosis)),
        ("vcpus.csv", vcpus(diagnosis)),
        ("pauses.csv", pauses(diagnosis)),
        ("runs.csv", runs(diagnosis)),
        ("boosts.csv", boosts(diagnosis)),
    ]
}

fn findings(diagnosis: &Diagnosis) -> String {
    let mut out = row([
        "trace",
        "vm",
        "id",
        "of",
        "lost_ns",
        "lost_permille",
        "cause",
        "culprit",
    ]);
    for finding in &diagnosis.findings {
        let trace = diagnosis.traces.get(finding.trace);
        let culprit = finding.culprits.first().map(|culprit| match &culprit.name {
            Some(name) => format!("{} {name}", culprit.kind),
            None => culprit.kind.clone(),
        });
        out += &row([
            trace.map_or("", |trace| &trace.name),
            finding.vm.as_deref().unwrap_or(""),
            &word(&finding.id),
            finding.of.as_deref().unwrap_or(""),
            &finding.lost_ns.to_string(),
            &finding.lost_permille.to_string(),
            &word(&finding.cause),
            &culprit.unwrap_or_default(),
        ]);
    }
    out
}

/// The word that stands for it in JSON.
fn word(of: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(of).ok();
    let word = value.as_ref().and_then(serde_json::Value::as_str);
    word.unwrap_or_default().to_owned()
}

/// One row for each that `of` gives of each VM, led by the trace's and the VM's name.
fn each<const N: usize>(
    diagnosis: &Diagnosis,
    head: [&str; N],
    of: impl Fn(&VmTable) -> Vec<[String; N]>,
) -> String {
    let lead = |trace: &str, vm: &str| format!("{},{},", quoted(trace), quoted(vm));
    let mut out = lead("trace", "vm") + &row(head);
    for trace in &diagnosis.traces {
        for vm in &trace.vms {
            for values in of(vm) {
                out += &lead(&trace.name, &vm.name);
                out += &row(values.each_ref().map(String::as_str));
            }
        }
    }
    out
}

/// A number; nothing if it is not known.
fn known(number: Option<u64>) -> String {
    number.map_or_else(String::new, |number| number.to_string())
}

fn exits(diagnosis: &Diagnosis) -> String {
    let head = [
        "isa", "code", "reason", "exits", "untimed", "time_ns", "min_ns", "mean_ns", "p99_ns",
        "max_ns",
    ];
    each(diagnosis, head, |vm| {
        let rows = vm.exits.iter().map(|row| {
            let time = &row.time_ns;
            [
                row.isa.clone(),
                known(row.code),
                row.name.clone(),
                row.count.to_string(),
                row.untimed.to_string(),
                time.total.to_string(),
                time.min.to_string(),
                time.mean.to_string(),
                time.p99.to_string(),
                time.max.to_string(),
            ]
        });
        rows.collect()
    })
}

fn vcpus(diagnosis: &Diagnosis) -> String {
    let head = [
        "vcpu",
        "tid",
        "comm",
        "exits",
        "exit_ns",
        "pause_exits",
        "steal_ns",
        "wakeup_wait_ns",
        "descheduled",
        "unmarked",
    ];
    each(diagnosis, head, |vm| {
        let rows = vm.vcpus.iter().map(|vcpu| {
            [
                vcpu.number.to_string(),
                vcpu.tid.to_string(),
                vcpu.comm.clone(),
                vcpu.exits.to_string(),
                known(vcpu.exit_ns),
                vcpu.pause_exits.to_string(),
                known(vcpu.steal_ns),
                known(vcpu.wakeup_wait_ns),
                known(vcpu.descheduled),
                known(vcpu.unmarked),
            ]
        });
        rows.collect()
    })
}

fn pauses(diagnosis: &Diagnosis) -> String {
    let head = [
        "function",
        "rip",
        "cause",
        "exits",
        "ipi_pending",
        "spun_ns",
        "longest_run",
    ];
    each(diagnosis, head, |vm| {
        let places = vm.pauses.iter().flat_map(|pauses| &pauses.by_place);
        let rows = places.map(|place| {
            [
                place.function.clone().unwrap_or_default(),
                place.rip.clone(),
                place.cause.words().to_owned(),
                place.exits.to_string(),
                known(place.ipi_pending),
                known(place.spun_ns),
                place.longest_run.to_string(),
            ]
        });
        rows.collect()
    })
}

fn runs(diagnosis: &Diagnosis) -> String {
    each(diagnosis, ["exits_from", "exits_to", "runs"], |vm| {
        let buckets = vm.pauses.iter().flat_map(|pauses| &pauses.runs.buckets);
        buckets
            .map(|bucket| bucket.map(|value| value.to_string()))
            .collect()
    })
}

fn boosts(diagnosis: &Diagnosis) -> String {
    each(diagnosis, ["cause", "outcome", "looks"], |vm| {
        let causes = vm.boosts.iter().flat_map(|boosts| &boosts.by_cause);
        let rows = causes.flat_map(|row| {
            row.outcomes.iter().map(|count| {
                [
                    row.cause.words().to_owned(),
                    count.name.clone(),
                    count.count.to_string(),
                ]
            })
        });
        rows.collect()
    })
}

fn row<const N: usize>(values: [&str; N]) -> String {
    values.map(quoted).join(",") + "\n"
}

fn quoted(value: &str) -> String {
    if value.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", value.replace('"', "\"\""))
    } else {
        value.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_with_a_comma_or_a_quote_is_quoted() {
        assert_eq!(row(["a", "b,c", "d\"e"]), "a,\"b,c\",\"d\"\"e\"\n");
    }
}
