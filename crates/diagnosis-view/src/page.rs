// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A diagnosis as one page of HTML that needs nothing beside it: what hurts most, when what was
//! where, the findings with their charts beside them, then the other charts and the tables of each
//! VM. The time line is drawn by the page's own
//! script, so that it can be zoomed; it is given pieces of time, not events, and stays small.

use askama::Template;
use steady_diagnose::{Diagnosis, Finding, Instance, Severity, TraceDiagnosis, VmTable};
use steady_report::{html, humane};

use crate::charts::{charts, curve, title_of};
use crate::picture::PictureTable;
use crate::terminal::{
    CONFIDENCE, PLACEMENT, answer_lines, boost_words, calls_words, compared_lines, culprits,
    evidence_words, judged_lines, known, label_of, losses, pcpus, percent, place, placement_lines,
    preempt_words, remedies_words, share_words, short_place, table_words_note, time, timers_words,
    title_name, words,
};

/// VMs that have a colour of their own.
const COLOURS: usize = 6;
/// The colour of all further ones; the one between is that of what waits.
const REST: usize = 7;

#[derive(Template)]
#[template(path = "diagnosis.html")]
struct Page<'a> {
    head: String,
    title: String,
    confidence: &'static str,
    placement: &'static str,
    many: bool,
    answer: Vec<String>,
    compared: Vec<String>,
    traces: Vec<Trace<'a>>,
    findings: Vec<Item>,
    /// The first of the smaller findings, which are folded.
    small: usize,
}

struct Item {
    number: usize,
    symptom: String,
    why: String,
    who: String,
    checks: Vec<(&'static str, String)>,
    worst: Option<String>,
    /// Trace, begin and length of where it was worst, for the time line.
    show: Option<(usize, u64, u64)>,
    sharper: String,
    severity: &'static str,
    place: String,
    /// Whose it is, and its share.
    short: String,
    lost: Option<String>,
    confidence: String,
    evidence: Vec<String>,
    steps: Vec<String>,
    /// The chart that shows it, with its title.
    chart: Option<(&'static str, String)>,
}

struct Trace<'a> {
    at: usize,
    when: Option<When>,
    judged: Vec<String>,
    placement: Vec<String>,
    table: Option<String>,
    trace: &'a TraceDiagnosis,
    facts: Vec<(&'static str, String)>,
    losses: Vec<String>,
    remedies: Vec<String>,
    by_adjacency: bool,
    vms: Vec<Vm<'a>>,
    shootdowns: Option<String>,
}

/// A time line: its data for the script.
struct When {
    json: String,
    left_out: u64,
    /// VMs with the number of their colour.
    vms: Vec<(usize, String)>,
    /// What its zero is by the trace's clock.
    zero: String,
}

struct Vm<'a> {
    id: String,
    label: String,
    vm: &'a VmTable,
    charts: Vec<(&'static str, String)>,
    exits: Vec<[String; 9]>,
    places: Vec<[String; 5]>,
    vcpus: Vec<[String; 7]>,
    words: Vec<String>,
}

/// The page, with a time line for each trace that has one.
#[must_use]
pub fn page(diagnosis: &Diagnosis, pictures: &[PictureTable]) -> String {
    let many = diagnosis.traces.len() > 1;
    let findings = diagnosis.findings.iter().enumerate();
    let mut findings: Vec<Item> = findings
        .map(|(at, finding)| item(at + 1, finding, diagnosis))
        .collect();
    let traces = diagnosis.traces.iter().enumerate();
    let mut traces: Vec<Trace<'_>> = traces
        .map(|(at, trace)| Trace {
            when: pictures.get(at).map(|picture| when(diagnosis, at, picture)),
            ..of_trace(at, trace)
        })
        .collect();
    for (item, finding) in findings.iter_mut().zip(&diagnosis.findings) {
        item.chart = taken(finding, &mut traces);
    }
    let title = match diagnosis.traces.as_slice() {
        [only] => format!("Diagnosis of {}", title_name(&only.name)),
        traces => format!("Diagnosis of {} traces", traces.len()),
    };
    let page = Page {
        head: html::head(&title),
        title,
        many,
        answer: answer_lines(diagnosis),
        compared: compared_lines(diagnosis),
        confidence: CONFIDENCE,
        placement: PLACEMENT,
        small: findings
            .iter()
            .position(|item| matches!(item.severity, "minor" | "note"))
            .unwrap_or(findings.len()),
        findings,
        traces,
    };
    let text = page.render().expect("rendering to memory cannot fail");
    // A number and its sign stay on one line.
    text.replace(" %", "\u{a0}%")
}

/// Takes the chart of a finding from those of its VM: each stands once, beside the worst finding
/// that it shows.
fn taken(finding: &Finding, traces: &mut [Trace<'_>]) -> Option<(&'static str, String)> {
    let title = title_of(finding.id)?;
    let trace = traces.get_mut(finding.trace)?;
    let mut vms = trace.vms.iter_mut();
    let vm = vms.find(|of| Some(&of.vm.name) == finding.vm.as_ref())?;
    let at = vm.charts.iter().position(|(known, _)| *known == title)?;
    Some(vm.charts.remove(at))
}

fn item(number: usize, finding: &Finding, all: &Diagnosis) -> Item {
    let trace = all.traces.get(finding.trace);
    let with = finding
        .sharper_with
        .iter()
        .map(|&with| words::sharpener(with));
    Item {
        number,
        symptom: words::symptom(finding),
        why: words::cause(finding),
        who: culprits(finding, trace),
        checks: words::checks(finding),
        worst: words::worst(finding, trace).map(|worst| worst.replace(words::GLUE, " ")),
        show: finding
            .worst
            .as_ref()
            .map(|worst| (finding.trace, worst.begin_ns, worst.length_ns)),
        sharper: with.collect::<Vec<_>>().join(", "),
        severity: match finding.severity {
            Severity::Severe => "severe",
            Severity::Major => "major",
            Severity::Minor => "minor",
            Severity::Note => "note",
        },
        place: place(finding, all),
        short: short_place(finding, all),
        lost: (finding.lost_ns.max(finding.lost_permille) > 0).then(|| share_words(finding, all)),
        confidence: format!("{:?}", finding.confidence).to_lowercase(),
        evidence: finding.evidence.iter().map(evidence_words).collect(),
        steps: finding.next.iter().map(words::step).collect(),
        chart: None,
    }
}

/// What the script draws. Nothing in it can end the element that it stands in.
fn when(diagnosis: &Diagnosis, at: usize, picture: &PictureTable) -> When {
    let trace = &diagnosis.traces[at];
    let colours = colours(diagnosis, at);
    let begin = picture.begin_ns.saturating_sub(trace.zero_ns);
    let place = |worst: &Instance| {
        serde_json::json!({
            "tid": worst.tid,
            "begin": worst.begin_ns.saturating_sub(begin),
            "length": worst.length_ns,
        })
    };
    let rows = picture.rows.iter().filter_map(|row| {
        let whose = row.whose.iter();
        let mut whose: Vec<_> = whose
            .map(|(piece, tid)| (*piece, label(trace, *tid).map(|(_, vm)| colours[vm])))
            .collect();
        let label = match (row.pcpu, row.tid) {
            (Some(pcpu), _) => format!("pCPU {pcpu}"),
            (None, tid) => {
                let (label, vm) = label(trace, tid?)?;
                whose = vec![(0, Some(colours[vm]))];
                label
            }
        };
        Some(serde_json::json!({
            "label": label,
            "tid": row.tid,
            "pieces": row.pieces,
            "whose": whose,
            "ready": row.ready_permille,
        }))
    });
    let mut rows: Vec<_> = rows.collect();
    // vCPUs of one VM stand together in the order of their numbers, as pCPUs do.
    rows.sort_by_cached_key(|row| {
        let place = row["tid"].as_i64().and_then(|tid| place_of(trace, tid));
        (row["tid"].is_number(), place)
    });
    let waits = trace.vms.iter().filter_map(|vm| vm.waits.as_ref());
    let stalls: Vec<_> = waits.flat_map(|waits| &waits.longest).map(place).collect();
    let findings = diagnosis.findings.iter().enumerate();
    let findings = findings.filter(|(_, finding)| finding.trace == at);
    let findings: Vec<_> = findings
        .filter_map(|(number, finding)| {
            let mut found = place(finding.worst.as_ref()?);
            found["number"] = (number + 1).into();
            Some(found)
        })
        .collect();
    let data = serde_json::json!({
        "begin": begin,
        "length": picture.length_ns.max(1),
        "piece": picture.piece_ns,
        "rows": rows,
        "stalls": stalls,
        "findings": findings,
    });
    let zero = picture.begin_ns.saturating_sub(begin);
    When {
        json: data.to_string().replace('<', "\\u003c"),
        left_out: picture.left_out,
        vms: legend(trace, &colours),
        zero: format!("{}.{:06}", zero / 1_000_000_000, zero / 1000 % 1_000_000),
    }
}

/// The VMs with a colour of their own, and the others together.
fn legend(trace: &TraceDiagnosis, colours: &[usize]) -> Vec<(usize, String)> {
    let own = trace
        .vms
        .iter()
        .zip(colours)
        .filter(|(_, colour)| **colour < COLOURS);
    let mut vms: Vec<_> = own.map(|(vm, &colour)| (colour, label_of(vm))).collect();
    vms.sort_unstable();
    if vms.len() < trace.vms.len() {
        vms.push((REST, "other VMs".to_owned()));
    }
    vms
}

/// The colour of each VM. Where there are more VMs than colours, those that findings are about have
/// one of their own, the guilty one first.
fn colours(diagnosis: &Diagnosis, at: usize) -> Vec<usize> {
    let vms = &diagnosis.traces[at].vms;
    let all = 0..vms.len();
    let mut first: Vec<usize> = Vec::new();
    if vms.len() > COLOURS {
        let findings = diagnosis.findings.iter().filter(|of| of.trace == at);
        let named = findings.flat_map(|finding| {
            let culprits = finding.culprits.iter().filter(|of| of.kind == "vm");
            let culprits = culprits.filter_map(|culprit| culprit.name.as_ref());
            culprits.chain(&finding.vm)
        });
        first.extend(named.filter_map(|name| vms.iter().position(|vm| vm.name == *name)));
    }
    let mut colours = vec![REST; vms.len()];
    let mut free = 0..COLOURS;
    for vm in first.into_iter().chain(all) {
        if colours[vm] == REST
            && let Some(colour) = free.next()
        {
            colours[vm] = colour;
        }
    }
    colours
}

/// The place of a vCPU's thread: of its VM, and its number there.
fn place_of(trace: &TraceDiagnosis, tid: i64) -> Option<(usize, u32)> {
    let vms = trace.vms.iter().enumerate();
    let mut vcpus = vms.flat_map(|(at, vm)| vm.vcpus.iter().map(move |vcpu| (at, vcpu)));
    let (at, vcpu) = vcpus.find(|(_, vcpu)| i64::from(vcpu.tid) == tid)?;
    Some((at, vcpu.number))
}

/// A vCPU's name, and the place of its VM, of a VM that is shown.
fn label(trace: &TraceDiagnosis, tid: i32) -> Option<(String, usize)> {
    let (at, number) = place_of(trace, i64::from(tid))?;
    let name = &trace.vms[at].name;
    Some((format!("{name} vCPU {number}"), at))
}

/// What a trace is; of a table there is less to say.
fn facts(trace: &TraceDiagnosis) -> Vec<(&'static str, String)> {
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "not recorded".to_owned());
    if let Some(table) = &trace.table {
        return vec![
            ("Format", trace.format.clone()),
            ("Rows", humane::grouped(table.rows)),
            ("Of", table.side.clone()),
        ];
    }
    vec![
        ("File", trace.name.clone()),
        ("Format", trace.format.clone()),
        ("Kernel", known(&trace.release)),
        ("Clock", known(&trace.clock)),
        ("pCPUs", pcpus(trace)),
        ("Events", humane::grouped(trace.events)),
        ("Time", time(trace.span_ns)),
    ]
}

fn of_trace(at: usize, trace: &TraceDiagnosis) -> Trace<'_> {
    Trace {
        at,
        when: None,
        judged: judged_lines(trace),
        placement: placement_lines(trace, true),
        table: trace
            .table
            .as_ref()
            .map(|table| table_words_note(title_name(&trace.name), trace, table)),
        trace,
        facts: facts(trace),
        losses: losses(trace),
        remedies: remedies_words(trace),
        by_adjacency: trace.vms_by == "adjacency" && !trace.vms.is_empty(),
        vms: trace
            .vms
            .iter()
            .map(|vm| of_vm(format!("t{at}-{}", vm.name), vm))
            .collect(),
        shootdowns: trace.shootdowns.as_ref().and_then(|table| {
            curve(
                &format!("t{at}-shootdowns"),
                "Shootdown latency",
                &[("all targets have flushed", &table.latency_ns)],
            )
        }),
    }
}

fn of_vm(id: String, vm: &VmTable) -> Vm<'_> {
    Vm {
        charts: charts(&id, vm),
        label: label_of(vm),
        exits: vm
            .exits
            .iter()
            .map(|row| {
                let spread = &row.time_ns;
                [
                    row.name.clone(),
                    humane::grouped(spread.count),
                    percent(row.count_permille),
                    time(spread.total),
                    percent(row.time_permille),
                    time(spread.min),
                    time(spread.mean),
                    time(spread.p99),
                    time(spread.max),
                ]
            })
            .collect(),
        places: vm
            .pauses
            .iter()
            .flat_map(|pauses| &pauses.by_place)
            .map(|row| {
                [
                    row.function.clone().unwrap_or_else(|| row.rip.clone()),
                    row.cause.words().to_owned(),
                    humane::grouped(row.exits),
                    known(row.spun_ns, time),
                    humane::grouped(row.longest_run),
                ]
            })
            .collect(),
        vcpus: vm
            .vcpus
            .iter()
            .map(|vcpu| {
                [
                    format!("{} ({} {})", vcpu.number, vcpu.comm, vcpu.tid),
                    humane::grouped(vcpu.exits),
                    humane::grouped(vcpu.pause_exits),
                    known(vcpu.steal_ns, time),
                    known(vcpu.wakeup_wait_ns, time),
                    known(vcpu.descheduled, humane::grouped),
                    known(vcpu.unmarked, humane::grouped),
                ]
            })
            .collect(),
        words: vm
            .boosts
            .iter()
            .flat_map(boost_words)
            .chain(
                [preempt_words(vm), calls_words(vm), timers_words(vm)]
                    .into_iter()
                    .flatten(),
            )
            .map(|line| capital(&line))
            .collect(),
        vm,
        id,
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(letters).collect()
}
