// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From text to a scenario: syntax first, then every key of every table, then the rules that tie
//! keys together. Each step reports all it finds; a rule whose terms are themselves wrong is
//! passed over, so that one mistake gives one message.

mod alike;
mod cross;
mod keys;
mod names;
mod pv;
mod remedy;
mod scheduler;
mod setting;
mod switches;
mod syntax;
mod table;
#[cfg(test)]
mod tests;
mod value;
mod variant;
mod vm;
mod workload;

use std::path::PathBuf;

use steady_remedies::Registry;
use toml::de::DeTable;

use crate::diagnostic::Severity;
use crate::diagnostic::{Diagnostics, Problem, quoted};
use crate::limits::*;
use crate::load::Noted;
use crate::model::{Host, Measure, Scenario, Vm, Workload};
use crate::words::{Collect, Vmm, Word};
use names::Names;
use table::Reader;
use value::{Placed, Problems, Text};

/// Reads a scenario. `stem`: what its name has to be, if the text came from a file.
pub(crate) fn scenario(
    text: &str,
    file: &str,
    stem: Option<&str>,
    registry: &Registry,
) -> Result<Noted, Diagnostics> {
    // Editors on Windows write the mark; columns are counted without it.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        let problem = Problem {
            severity: Severity::Error,
            span: 0..0,
            message: "the file is empty".to_owned(),
            label: format!("expected a scenario; begin with `schema = {SCHEMA}`"),
            note: None,
        };
        return Err(Diagnostics::new(file, text, vec![problem]));
    }
    let (root, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        // Keys of a text that was only half understood would be blamed for what they are not.
        return Err(Diagnostics::new(file, text, syntax::problems(text, errors)));
    }
    let problems = Problems::default();
    let read = root_table(root.get_ref(), stem, registry, &problems);
    let (errors, notes) = problems.into_parts();
    match read {
        Some(scenario) if errors.is_empty() => {
            assert_sound(&scenario);
            let notes = (!notes.is_empty()).then(|| Diagnostics::new(file, text, notes));
            Ok(Noted { scenario, notes })
        }
        _ => {
            assert!(!errors.is_empty(), "what is refused has a problem");
            Err(Diagnostics::new(file, text, errors))
        }
    }
}

/// Asserts what engines rely on without looking at it again.
fn assert_sound(scenario: &Scenario) {
    let pcpus = scenario.host.pcpus;
    assert!(!scenario.variants.is_empty(), "a scenario has a variant");
    for variant in &scenario.variants {
        let measured = scenario.vms_of(variant).any(|vm| !vm.background);
        assert!(measured, "variant {} measures a VM", variant.name);
    }
    for vm in &scenario.vms {
        let fits = |pins: &Vec<u32>| {
            pins.len() as u64 == u64::from(vm.vcpus) && pins.iter().all(|&pin| pin < pcpus)
        };
        assert!(
            vm.pin.as_ref().is_none_or(fits),
            "VM {} is pinned to pCPUs",
            vm.name
        );
        assert!(!vm.workloads.is_empty(), "VM {} runs something", vm.name);
        for workload in &vm.workloads {
            let plain = workload.files.is_empty() && workload.ready.is_none();
            let brought = workload.program.known().is_none();
            assert!(plain || brought, "VM {}: keys of its program", vm.name);
            assert_eq!(workload.time_limit_s.is_none(), vm.background);
            assert!(workload.ready.is_none() || vm.background, "nothing waits");
        }
    }
}

/// Reports a schema whose rules this build does not know; `None` if it does.
fn check_schema(root: &DeTable<'_>, problems: &Problems) -> Option<()> {
    let value = root.get("schema");
    let number = value.and_then(|value| {
        let digits = value.get_ref().as_integer()?;
        u64::from_str_radix(digits.as_str(), digits.radix()).ok()
    });
    match (value, number) {
        (Some(value), Some(number)) if number != u64::from(SCHEMA) => {
            let message = format!("schema {number} is not known to this build");
            let label = format!("this build reads schema {SCHEMA}");
            problems.add(value.span(), message, label);
            None
        }
        _ => Some(()),
    }
}

fn root_table<'a>(
    root: &'a DeTable<'a>,
    stem: Option<&str>,
    registry: &Registry,
    problems: &'a Problems,
) -> Option<Scenario> {
    check_schema(root, problems)?;
    let top = Reader::open(root, 0..0, &keys::ROOT, problems);
    let schema = top.need(top.integer("schema", SCHEMA..=SCHEMA));
    let name = top.need(top.string("name", &NAME));
    check_stem(name.as_ref(), stem, problems);
    let title = top.need(top.string("title", &TITLE));
    let question = top.need(top.string("question", &QUESTION));
    let seed = top.or(top.integer("seed", 0..=u64::MAX), DEFAULT_SEED);
    let repetitions = top.or(top.integer("repetitions", REPETITIONS), DEFAULT_REPETITIONS);
    let host = top
        .need(top.table("host", &keys::HOST))
        .map(|table| HostRead::of(table.get_ref()));
    let pcpus = host
        .as_ref()
        .and_then(|host| Some(*host.pcpus.as_ref()?.get_ref()));
    let vms = top.need(top.tables("vm", &keys::VM, LIST_ITEMS));
    let vms = vms.map(|tables| vm::vms(tables.get_ref(), pcpus, problems));
    let variants = top.need(top.tables("variant", &keys::variant(registry), LIST_ITEMS));
    let known = |vms: &Vec<Vm>| {
        vms.iter()
            .map(|vm| (vm.name.clone(), !vm.background))
            .collect()
    };
    let known = vms.as_ref().and_then(|vms| vms.vms.as_ref().map(known));
    let vm_names = Names::new("VM", known);
    let settings = setting::settings(&top, &vm_names);
    let variants = variants.and_then(|tables| {
        let read = variant::variants(tables.get_ref(), &settings, &vm_names, registry, problems);
        let variants = cross::cross(&read, settings.tables.as_deref()?, &vm_names, problems)?;
        if let Some(vms) = vms.as_ref().and_then(|vms| vms.vms.as_deref()) {
            alike::check(&variants, vms, problems);
        }
        Some(
            variants
                .into_iter()
                .map(|variant| variant.variant)
                .collect(),
        )
    });
    let measure = Reader::optional(top.table("measure", &keys::MEASURE));
    let measure = measure.and_then(|table| match table {
        Some(table) => measured(table.get_ref()),
        None => Some(Measure::default()),
    });
    if let (Some(host), Some(vms)) = (&host, &vms) {
        host.check_memory(vms.memory_mib, problems);
    }
    Some(Scenario {
        schema: schema?.into_inner(),
        name: name?.into_inner(),
        title: title?.into_inner(),
        question: question?.into_inner(),
        seed: seed?.into_inner(),
        repetitions: repetitions?.into_inner(),
        host: host?.finish()?,
        vms: vms?.vms?,
        variants: variants?,
        measure: measure?,
        folder: PathBuf::new(),
    })
}

/// Reports a name that is not the file's.
fn check_stem(name: Option<&Placed<String>>, stem: Option<&str>, problems: &Problems) {
    let (Some(name), Some(stem)) = (name, stem) else {
        return;
    };
    if name.get_ref() != stem {
        let message = format!("`name` is \"{}\", which is not the file's", name.get_ref());
        let label = format!(
            "expected \"{}\", the file's name without `.toml`",
            quoted(stem)
        );
        problems.add(name.span(), message, label);
    }
}

/// The host as far as it could be read; other tables are checked against its parts.
#[derive(Debug)]
struct HostRead {
    pcpus: Option<Placed<u32>>,
    smt: Option<Placed<bool>>,
    memory_mib: Option<Placed<u32>>,
    vmm: Option<Placed<Vmm>>,
    time_limit_s: Option<Placed<u32>>,
    workloads: Option<Vec<Workload>>,
}

impl HostRead {
    fn of(table: &Reader<'_>) -> Self {
        let pcpus = table.need(table.integer("pcpus", PCPUS));
        let smt = table.or(table.boolean("smt"), false);
        if let (Some(pcpus), Some(smt)) = (&pcpus, &smt)
            && *smt.get_ref()
            && pcpus.get_ref() % 2 == 1
        {
            let message = "`smt` puts two pCPUs into each core";
            let label = format!("expected an even number, found {}", pcpus.get_ref());
            table.problems.add(pcpus.span(), message, label);
        }
        Self {
            pcpus,
            smt,
            memory_mib: table.need(table.integer("memory_mib", HOST_MEMORY_MIB)),
            vmm: table.or(table.word("vmm"), Vmm::Steady),
            time_limit_s: table.or(
                table.integer("time_limit_s", TIME_LIMIT_S),
                DEFAULT_HOST_TIME_LIMIT_S,
            ),
            workloads: workload::host_workloads(table),
        }
    }

    fn check_memory(&self, vms_mib: u64, problems: &Problems) {
        let Some(host) = &self.memory_mib else { return };
        let needed_mib = vms_mib + u64::from(HOST_RESERVE_MIB);
        if u64::from(*host.get_ref()) < needed_mib {
            let message = format!("`memory_mib` of the host is {}: too little", host.get_ref());
            let label = format!(
                "expected at least {needed_mib}: {vms_mib} for the VMs and {HOST_RESERVE_MIB} \
                 for the host itself"
            );
            problems.add(host.span(), message, label);
        }
    }

    fn finish(self) -> Option<Host> {
        Some(Host {
            pcpus: self.pcpus?.into_inner(),
            smt: self.smt?.into_inner(),
            memory_mib: self.memory_mib?.into_inner(),
            vmm: self.vmm?.into_inner(),
            time_limit_s: self.time_limit_s?.into_inner(),
            workloads: self.workloads?,
        })
    }
}

fn measured(table: &Reader<'_>) -> Option<Measure> {
    let names = Collect::ALL.iter().map(|word| word.name());
    let listed = table.several("collect", Collect::WHAT, Collect::from_name, names);
    let mut collect = table.or(listed, Measure::default().collect)?.into_inner();
    collect.sort_unstable();
    Some(Measure { collect })
}

/// Reports every name that an earlier table of the same kind has.
fn check_unique<'n>(
    what: &str,
    names: impl Iterator<Item = Option<&'n Placed<String>>>,
    problems: &Problems,
) {
    let mut seen = Vec::new();
    for name in names.flatten() {
        if seen.contains(&name.get_ref()) {
            let message = format!("a second {what} is named `{}`", name.get_ref());
            problems.add(name.span(), message, "expected a name that no other has");
        }
        seen.push(name.get_ref());
    }
}

const NAME: Text = Text {
    expected: "lower-case letters, digits and hyphens, not beginning with a hyphen",
    most_chars: NAME_CHARS,
    holds: |text| {
        let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        !text.is_empty() && !text.starts_with('-') && text.bytes().all(allowed)
    },
};

const TITLE: Text = Text {
    expected: "one line",
    most_chars: TITLE_CHARS,
    holds: is_line,
};

const QUESTION: Text = Text {
    expected: "one line",
    most_chars: QUESTION_CHARS,
    holds: is_line,
};

/// Words for a kernel's command line.
const CMDLINE: Text = Text {
    expected: "printable ASCII words",
    most_chars: CMDLINE_BYTES,
    holds: |text| text.bytes().all(|b| b == b' ' || b.is_ascii_graphic()),
};

fn is_line(text: &str) -> bool {
    !text.trim().is_empty() && !text.chars().any(char::is_control)
}
