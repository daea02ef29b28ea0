// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reference page against the code: a key, word, program or limit that is not there is
//! missing, and one that is there alone is stale.

use std::ops::RangeInclusive;

use steady_remedies::Registry;

use super::keys::{PLACES, Place, ROOT};
use crate::kernel::Kernel;
use crate::limits::*;
use crate::model::Scenario;
use crate::program::{Origin, PROGRAMS};
use crate::words::{Cgroup, Collect, Vmm, Word};

const PAGE: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/formats/scenario.md"
));

/// The part of the page under `heading`.
fn section(heading: &str) -> &'static str {
    let from = PAGE.split_once(&format!("### {heading}\n"));
    let (_, from) = from.unwrap_or_else(|| panic!("no section {heading}"));
    from.split("\n#").next().unwrap_or_default()
}

fn section_of(place: &Place) -> &'static str {
    let top = place.header == ROOT.header;
    section(if top { "Top level" } else { &place.header })
}

/// The first cells of the rows whose table's head begins with `head`.
fn rows(section: &str, head: &str) -> Vec<String> {
    let table = section
        .split_once(&format!("| {head} |"))
        .map_or("", |(_, rest)| rest);
    let rows = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    rows.filter_map(|row| row.split('|').nth(1))
        .map(|cell| cell.trim().replace('`', ""))
        .collect()
}

#[test]
fn page_lists_the_keys_of_each_table_in_order() {
    for place in PLACES {
        assert_eq!(
            rows(section_of(place), "key"),
            place.keys.as_ref(),
            "{}",
            place.header
        );
    }
}

#[test]
fn page_lists_the_programs_as_the_registry_has_them() {
    let section = section("`[[vm.workload]]`");
    assert_eq!(rows(section, "program").len(), PROGRAMS.len());
    for program in PROGRAMS {
        let from = match program.origin {
            Origin::Own => "`workloads/`".to_owned(),
            Origin::Debian(package) => format!("Debian, `{package}`"),
        };
        let yes = |yes| if yes { "yes" } else { "no" };
        let (disk, background) = (yes(program.needs_disk), yes(program.background));
        let name = program.name;
        let row = format!(
            "| `{name}` | {from} | {disk} | {background} | {} |",
            program.about
        );
        assert!(
            section.lines().any(|line| line == row),
            "the page lacks: {row}"
        );
    }
}

#[test]
fn page_names_every_word() {
    fn check<W: Word>() {
        for word in W::ALL {
            assert!(PAGE.contains(&format!("`\"{}\"`", word.name())), "{word:?}");
        }
    }
    for kernel in Kernel::ALWAYS {
        assert!(PAGE.contains(&format!("`\"{kernel}\"`")), "{kernel}");
    }
    check::<Vmm>();
    check::<Cgroup>();
    check::<Collect>();
}

#[test]
fn page_lists_the_remedies_as_the_registry_has_them() {
    let section = section("`[variant.REMEDY]`");
    let registry = Registry::default();
    assert_eq!(rows(section, "remedy").len(), registry.all().count());
    for remedy in registry.all() {
        let modes = remedy.modes.iter().map(|mode| {
            let default = mode.name == remedy.default_mode;
            let mark = if default { " (default)" } else { "" };
            format!("`\"{}\"`{mark}: {}", mode.name, mode.about)
        });
        let modes: Vec<String> = modes.collect();
        let row = format!("| `{remedy}` | {} | {} |", remedy.title, modes.join("; "));
        assert!(
            section.lines().any(|line| line == row),
            "the page lacks: {row}"
        );
    }
}

#[test]
fn no_remedy_has_the_name_of_another_key_of_a_variant() {
    for remedy in Registry::default().all() {
        assert!(
            !super::keys::VARIANT.keys.contains(&remedy.name),
            "{remedy}"
        );
    }
}

#[test]
fn page_states_the_limits_and_defaults() {
    let range =
        |range: RangeInclusive<u32>| format!("integer, {} to {}", range.start(), range.end());
    for (header, key, kind, default) in [
        (
            "Top level",
            "repetitions",
            range(REPETITIONS),
            DEFAULT_REPETITIONS.to_string(),
        ),
        ("`[host]`", "pcpus", range(PCPUS), "required".to_owned()),
        (
            "`[host]`",
            "memory_mib",
            range(HOST_MEMORY_MIB),
            "required".to_owned(),
        ),
        (
            "`[host]`",
            "time_limit_s",
            range(TIME_LIMIT_S),
            DEFAULT_HOST_TIME_LIMIT_S.to_string(),
        ),
        ("`[[vm]]`", "vcpus", range(VCPUS), "required".to_owned()),
        (
            "`[[vm]]`",
            "memory_mib",
            range(VM_MEMORY_MIB),
            "required".to_owned(),
        ),
        (
            "`[[vm]]`",
            "cpu_weight",
            range(CPU_WEIGHT),
            DEFAULT_CPU_WEIGHT.to_string(),
        ),
        (
            "`[[vm]]`",
            "disk_mib",
            range(DISK_MIB),
            "no disk".to_owned(),
        ),
        (
            "`[[vm.workload]]`",
            "time_limit_s",
            range(TIME_LIMIT_S),
            DEFAULT_WORKLOAD_TIME_LIMIT_S.to_string(),
        ),
        (
            "`[variant.switches]`",
            "halt_poll_ns",
            range(HALT_POLL_NS),
            "KVM's own".to_owned(),
        ),
    ] {
        let row = format!("| `{key}` | {kind} | {default} |");
        assert!(section(header).contains(&row), "{header} lacks: {row}");
    }
    assert!(PAGE.contains(&format!("and {HOST_RESERVE_MIB} MiB for the host itself")));
}

#[test]
fn the_pages_example_is_right() {
    let example = PAGE
        .split_once("```toml\n")
        .and_then(|(_, rest)| rest.split_once("```"));
    let (example, _) = example.unwrap_or_default();
    if let Err(problems) = Scenario::parse(example, "example.toml") {
        panic!("{problems}");
    }
}

#[test]
fn the_pages_errors_are_what_is_said() {
    let example = PAGE
        .split_once("```toml\n")
        .and_then(|(_, rest)| rest.split_once("```"));
    let (example, _) = example.unwrap_or_default();
    let text = example
        .replacen("vcpus", "vcpu", 1)
        .replacen("[0, 1]", "[0, 2]", 1);
    let problems = Scenario::parse(&text, "scenarios/two-vms.toml").expect_err("it is wrong");
    assert!(
        PAGE.contains(&format!("```\n{problems}\n```")),
        "the page lacks:\n{problems}"
    );
}
