// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traces with a known answer (`known.toml`): is the first finding right in all of them?

mod made;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde::Deserialize;
use steady_decode::TraceEvents;
use steady_diagnose::{Diagnoser, Diagnosis, Finding, Judged, Symbols, VmNotes};

/// The table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Known {
    trace: Vec<Entry>,
}

/// A trace and what is known of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    /// A recorded trace: a file in this folder.
    recorded: Option<String>,
    /// Or one that is made up.
    made: Option<made::Recipe>,
    /// Symbols of its guest: a file in this folder.
    symbols: Option<String>,
    /// The first finding; none if there must be none.
    first: Option<String>,
    /// Its cause.
    cause: Option<String>,
    /// Its VM.
    vm: Option<String>,
    /// Kind of the first culprit.
    culprit: Option<String>,
    /// Name of the first culprit.
    who: Option<String>,
    /// Of the VM's time, at least and at most this much is lost, in thousandths.
    share: Option<[u64; 2]>,
    /// A question that cannot be judged.
    not_judged: Option<String>,
    /// How the answer is known.
    #[serde(rename = "why")]
    _why: String,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/known")
}

fn table() -> Vec<Entry> {
    let text = std::fs::read_to_string(folder().join("known.toml")).expect("the table is there");
    toml::from_str::<Known>(&text).expect("it is a table").trace
}

fn diagnosed(entry: &Entry) -> Diagnosis {
    let mut source = match (&entry.recorded, &entry.made) {
        (Some(file), None) => {
            steady_tracefile::open(&folder().join(file)).expect("a recorded trace opens")
        }
        (None, Some(recipe)) => {
            let reader = std::io::Cursor::new(made::text(recipe).into_bytes());
            let opened = steady_tracefile::open_stream(Box::new(reader), &entry.name);
            opened.expect("a made-up trace opens")
        }
        _ => panic!("{}: either recorded or made", entry.name),
    };
    let symbols = entry.symbols.as_ref();
    let notes = entry
        .recorded
        .as_ref()
        .map(|file| folder().join(format!("{file}.vms")));
    let notes = notes.and_then(|path| std::fs::read(path).ok());
    let symbols = symbols.map(|file| Symbols::load(&folder().join(file)).expect("symbols"));
    let mut diagnoser = Diagnoser::new();
    diagnoser.symbols = symbols.as_ref().map(|symbols| (symbols, "map".to_owned()));
    diagnoser.notes = notes.map(|text| VmNotes::parse(&text).expect("notes of the lab"));
    let mut events = TraceEvents::new(source.as_mut());
    let read = diagnoser.trace(&entry.name, &mut events, &mut |_, _, _| Ok(()));
    read.unwrap_or_else(|error| panic!("{}: {error}", entry.name));
    diagnoser.finish()
}

/// The table with what is found in each trace.
static ALL: LazyLock<Vec<(Entry, Diagnosis)>> = LazyLock::new(|| {
    let entries = table().into_iter();
    entries
        .map(|entry| {
            let diagnosis = diagnosed(&entry);
            (entry, diagnosis)
        })
        .collect()
});

fn word(of: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(of).expect("it is a word");
    value.as_str().unwrap_or_default().to_owned()
}

/// What of the first finding is not as the table has it.
fn wrong(entry: &Entry, diagnosis: &Diagnosis) -> Vec<String> {
    let first = diagnosis.findings.first();
    let culprit = first.and_then(|finding| finding.culprits.first());
    let pairs = [
        ("first", &entry.first, first.map(|f| word(&f.id))),
        ("cause", &entry.cause, first.map(|f| word(&f.cause))),
        ("vm", &entry.vm, first.and_then(|f| f.vm.clone())),
        ("culprit", &entry.culprit, culprit.map(|c| c.kind.clone())),
        ("who", &entry.who, culprit.and_then(|c| c.name.clone())),
    ];
    let asked = |(key, wanted, _): &(&str, &Option<String>, Option<String>)| {
        wanted.is_some() || *key == "first"
    };
    let differs = pairs.into_iter().filter(asked);
    let differs = differs.filter(|(_, wanted, found)| *wanted != found);
    let mut wrong: Vec<String> = differs
        .map(|(key, wanted, found)| format!("{key}: {found:?}, not {wanted:?}"))
        .collect();
    let lost = first.map_or(0, |finding: &Finding| finding.lost_permille);
    if let Some([least, most]) = entry.share
        && !(least..=most).contains(&lost)
    {
        wrong.push(format!("share: {lost}, not {least} to {most}"));
    }
    if let Some(question) = &entry.not_judged {
        let judged = &diagnosis.traces[0].judged;
        let found = judged.iter().find(|row| word(&row.question) == *question);
        if found.is_none_or(|row| row.judged != Judged::No) {
            wrong.push(format!("{question} is judged"));
        }
    }
    wrong
}

#[test]
fn the_first_finding_is_right_in_every_trace_with_a_known_answer() {
    let wrong: BTreeMap<String, Vec<String>> = ALL
        .iter()
        .map(|(entry, diagnosis)| (entry.name.clone(), wrong(entry, diagnosis)))
        .filter(|(_, wrong)| !wrong.is_empty())
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_table_has_thirty_recorded_traces_and_names_differ() {
    let table = table();
    let names: std::collections::BTreeSet<&str> =
        table.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names.len(), table.len());
    let recorded = table.iter().filter(|entry| entry.recorded.is_some());
    assert!(recorded.count() >= 30);
}

#[test]
fn a_wrong_answer_in_the_table_is_found() {
    let mut entry = table().remove(0);
    let diagnosis = diagnosed(&entry);
    assert!(wrong(&entry, &diagnosis).is_empty());
    entry.cause = Some("own-vm".to_owned());
    entry.share = Some([0, 1]);
    assert_eq!(wrong(&entry, &diagnosis).len(), 2);
}

#[test]
fn who_ran_instead_adds_up_to_the_wait_in_every_trace() {
    for (entry, diagnosis) in &*ALL {
        for vm in &diagnosis.traces[0].vms {
            let Some(waits) = &vm.waits else { continue };
            let by: u64 = waits.by.iter().map(|row| row.ns).sum();
            assert_eq!(by, waits.waited_ns, "{} {}", entry.name, vm.name);
            assert!(waits.elsewhere_idle_ns <= waits.waited_ns, "{}", entry.name);
        }
    }
}

/// What `lab/totals.py` adds up from the text of trace-cmd: by trace, VM and kind, nanoseconds.
fn totals() -> BTreeMap<(String, String, String), u64> {
    let path = folder().join("recorded/totals.txt");
    let text = std::fs::read_to_string(path).expect("the totals are there");
    let row = |line: &str| {
        let mut words = line.split(' ').map(str::to_owned);
        let mut word = || words.next().expect("four words a line");
        let key = (word(), word(), word());
        (key, word().parse().expect("nanoseconds"))
    };
    text.lines().map(row).collect()
}

#[test]
fn findings_of_the_lab_lose_what_a_script_adds_up_to_the_nanosecond() {
    let totals = totals();
    let mut compared = 0;
    for (entry, diagnosis) in &*ALL {
        let trace = &diagnosis.traces[0];
        let of = |vm: &str, kind: &str| {
            let key = (entry.name.clone(), vm.to_owned(), kind.to_owned());
            totals.get(&key).copied()
        };
        let Some(span_ns) = of("-", "span") else {
            continue;
        };
        assert_eq!(trace.span_ns, span_ns, "{}", entry.name);
        for finding in &diagnosis.findings {
            let vm = finding.vm.as_deref().unwrap_or_default();
            let (kind, ns) = match word(&finding.id).as_str() {
                "steal" => ("ready".to_owned(), finding.lost_ns),
                "uninterruptible" => ("stuck".to_owned(), finding.lost_ns),
                "slow-exits" => {
                    let of_vm = trace.vms.iter().filter(|table| table.name == vm);
                    let mut rows = of_vm.flat_map(|table| &table.exits);
                    let row = rows.find(|row| Some(&row.name) == finding.of.as_ref());
                    let row = row.expect("a finding has its row");
                    // What arms a timer is reported elsewhere.
                    assert!(finding.lost_ns <= row.own_ns, "{}", entry.name);
                    let code = row.code.expect("its code is known");
                    (format!("exit-{code}"), row.own_ns)
                }
                _ => continue,
            };
            assert_eq!(Some(ns), of(vm, &kind), "{} {kind}", entry.name);
            compared += 1;
        }
    }
    assert!(compared >= 30, "{compared} findings were compared");
}
