// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From text to a scenario: syntax first, then every key of every table, then the rules that tie
//! keys together. Each step reports all it finds; a rule whose terms are themselves wrong is
//! passed over, so that one mistake gives one message.

mod keys;
mod names;
mod paper;
mod syntax;
mod table;
#[cfg(test)]
mod tests;
mod value;
mod variant;
mod vm;

use crate::diagnostic::{Diagnostics, Problem, quoted};
use crate::limits::*;
use crate::model::{Host, Measure, Paper, Scenario, Variant, Vm};
use crate::words::Vmm;
use names::Names;
use table::Reader;
use toml::de::DeTable;
use value::{Placed, Problems, Text};

/// Reads a scenario. `stem`: what its name has to be, if the text came from a file.
pub(crate) fn scenario(
    text: &str,
    file: &str,
    stem: Option<&str>,
) -> Result<Scenario, Diagnostics> {
    // Editors on Windows write the mark; columns are counted without it.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        let problem = Problem {
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
    let read = root_table(root.get_ref(), stem, &problems);
    let problems = problems.into_vec();
    match read {
        Some(scenario) if problems.is_empty() => Ok(scenario),
        _ => Err(Diagnostics::new(file, text, problems)),
    }
}

fn root_table<'a>(
    root: &'a DeTable<'a>,
    stem: Option<&str>,
    problems: &'a Problems,
) -> Option<Scenario> {
    let schema = root.get("schema").and_then(|value| {
        let digits = value.get_ref().as_integer()?;
        Some((
            u64::from_str_radix(digits.as_str(), digits.radix()).ok()?,
            value.span(),
        ))
    });
    if let Some((schema, span)) = schema.filter(|(schema, _)| *schema != u64::from(SCHEMA)) {
        // The rest follows rules that this build does not know.
        let message = format!("schema {schema} is not known to this build");
        problems.add(span, message, format!("this build reads schema {SCHEMA}"));
        return None;
    }
    let top = Reader::open(root, 0..0, &keys::ROOT, problems);
    let schema = top.need(top.integer("schema", SCHEMA..=SCHEMA));
    let name = top.need(top.string("name", &NAME));
    if let (Some(name), Some(stem)) = (&name, stem) {
        if name.get_ref() != stem {
            let message = format!("`name` is \"{}\", which is not the file's", name.get_ref());
            let label = format!(
                "expected \"{}\", the file's name without `.toml`",
                quoted(stem)
            );
            problems.add(name.span(), message, label);
        }
    }
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
    let variants = top.need(top.tables("variant", &keys::VARIANT, LIST_ITEMS));
    let known = |vms: &Vec<Vm>| {
        vms.iter()
            .map(|vm| (vm.name.clone(), !vm.background))
            .collect()
    };
    let known = vms.as_ref().and_then(|vms| vms.vms.as_ref().map(known));
    let vm_names = Names::new("VM", known);
    let variants =
        variants.and_then(|tables| variant::variants(tables.get_ref(), &vm_names, problems));
    let papers = papers(&top, &vm_names, variants.as_deref());
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
        papers: papers?,
    })
}

fn papers(top: &Reader<'_>, vms: &Names, variants: Option<&[Variant]>) -> Option<Vec<Paper>> {
    let known = |variants: &[Variant]| variants.iter().map(|v| (v.name.clone(), true)).collect();
    let variants = Names::new("variant", variants.map(known));
    let tables = Reader::optional(top.tables("paper", &keys::PAPER, LIST_ITEMS))?;
    let tables = tables.map(Placed::into_inner).unwrap_or_default();
    let read = |table: &Reader<'_>| paper::paper(table, vms, &variants);
    tables.iter().map(read).collect()
}

/// The host as far as it could be read; other tables are checked against its parts.
#[derive(Debug)]
struct HostRead {
    pcpus: Option<Placed<u32>>,
    memory_mib: Option<Placed<u32>>,
    vmm: Option<Placed<Vmm>>,
    time_limit_s: Option<Placed<u32>>,
}

impl HostRead {
    fn of(table: &Reader<'_>) -> Self {
        Self {
            pcpus: table.need(table.integer("pcpus", PCPUS)),
            memory_mib: table.need(table.integer("memory_mib", HOST_MEMORY_MIB)),
            vmm: table.or(table.word("vmm"), Vmm::Steady),
            time_limit_s: table.or(
                table.integer("time_limit_s", TIME_LIMIT_S),
                DEFAULT_HOST_TIME_LIMIT_S,
            ),
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
            memory_mib: self.memory_mib?.into_inner(),
            vmm: self.vmm?.into_inner(),
            time_limit_s: self.time_limit_s?.into_inner(),
        })
    }
}

fn measured(table: &Reader<'_>) -> Option<Measure> {
    let collect = table.or(table.words("collect"), Measure::default().collect)?;
    Some(Measure {
        collect: collect.into_inner(),
    })
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
