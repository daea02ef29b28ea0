// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rules that tie keys together: each test asks what a reader is told who broke one.

mod common;

use common::check;

#[test]
fn pin_beyond_the_pcpus_points_at_the_element() {
    check(
        &[("pin = [0, 1]", "pin = [0, 2]")],
        r#"
error: `pin[1]` is 2, which is out of range
  --> base.toml:15:11
   |
15 | pin = [0, 2]
   |           ^ expected an integer from 0 to 1

1 problem in base.toml
"#,
    );
}

#[test]
fn every_wrong_pin_is_reported() {
    check(
        &[("pin = [0, 1]", "pin = [2, -1]")],
        r#"
error: `pin[0]` is 2, which is out of range
  --> base.toml:15:8
   |
15 | pin = [2, -1]
   |        ^ expected an integer from 0 to 1

error: `pin[1]` is -1, which is out of range
  --> base.toml:15:11
   |
15 | pin = [2, -1]
   |           ^^ expected an integer from 0 to 1

2 problems in base.toml
"#,
    );
}

#[test]
fn pin_for_another_number_of_vcpus_is_refused() {
    check(
        &[("pin = [0, 1]", "pin = [0, 1, 0]")],
        r#"
error: `pin` names 3 pCPUs for 2 vCPUs
  --> base.toml:15:7
   |
15 | pin = [0, 1, 0]
   |       ^^^^^^^^^ expected one pCPU for each vCPU

1 problem in base.toml
"#,
    );
}

#[test]
fn second_vm_of_one_name_is_refused() {
    check(
        &[("name = \"hog\"", "name = \"victim\"")],
        r#"
error: a second VM is named `victim`
  --> base.toml:22:8
   |
22 | name = "victim"
   |        ^^^^^^^^ expected a name that no other has

1 problem in base.toml
"#,
    );
}

#[test]
fn second_variant_of_one_name_is_refused() {
    check(
        &[("[[variant]]", "[[variant]]\nname = \"ipi\"\n\n[[variant]]")],
        r#"
error: a second variant is named `ipi`
  --> base.toml:34:8
   |
34 | name = "ipi"
   |        ^^^^^ expected a name that no other has

1 problem in base.toml
"#,
    );
}

#[test]
fn vms_that_leave_the_host_no_memory_are_refused() {
    check(
        &[("memory_mib = 512", "memory_mib = 256")],
        r#"
error: `memory_mib` of the host is 256: too little
 --> base.toml:9:14
  |
9 | memory_mib = 256
  |              ^^^ expected at least 288: 160 for the VMs and 128 for the host itself

1 problem in base.toml
"#,
    );
}

#[test]
fn memory_rule_is_checked_beside_other_problems() {
    check(
        &[
            ("memory_mib = 512", "memory_mib = 256"),
            ("\"spin\"", "\"spim\""),
        ],
        r#"
error: `memory_mib` of the host is 256: too little
 --> base.toml:9:14
  |
9 | memory_mib = 256
  |              ^^^ expected at least 288: 160 for the VMs and 128 for the host itself

error: unknown program `spim`
  --> base.toml:28:11
   |
28 | program = "spim"
   |           ^^^^^^ did you mean `spin`?
   |
   = note: known: shootdown, pagecache, indexer, pingpong, spin, staleness, ticks, hotplug, frames, dedup, hostload, stress-ng, jemalloc, hackbench, sysbench, mariadb, pbzip2, dbench, fio, vips

2 problems in base.toml
"#,
    );
}

#[test]
fn scenario_without_a_measured_vm_is_refused() {
    check(
        &[
            ("pin = [0, 1]\n", "background = true\n"),
            ("program = \"shootdown\"", "program = \"stress-ng\""),
        ],
        r#"
error: every VM is a background VM
  --> base.toml:15:14
   |
15 | background = true
   |              ^^^^ expected at least one VM that is measured: `background = false`

1 problem in base.toml
"#,
    );
}

#[test]
fn background_vm_with_two_workloads_is_refused() {
    check(
        &[(
            "program = \"spin\"",
            "program = \"spin\"\n\n[[vm.workload]]\nprogram = \"spin\"",
        )],
        r#"
error: a background VM has one workload, which runs until the measured VMs are done
  --> base.toml:30:1
   |
30 | [[vm.workload]]
   | ^^^^^^^^^^^^^^^ remove the workloads after the first

1 problem in base.toml
"#,
    );
}

#[test]
fn background_program_that_ends_by_itself_is_refused() {
    check(
        &[("\"spin\"", "\"hackbench\"")],
        r#"
error: `hackbench` ends by itself
  --> base.toml:28:11
   |
28 | program = "hackbench"
   |           ^^^^^^^^^^^ expected a program that runs until it is stopped
   |
   = note: such programs: spin, hostload, stress-ng, sysbench, dbench, fio

1 problem in base.toml
"#,
    );
}

#[test]
fn time_limit_of_a_background_workload_is_refused() {
    check(
        &[("\"spin\"", "\"spin\"\ntime_limit_s = 9")],
        r#"
error: a background VM's workload takes no time limit
  --> base.toml:29:16
   |
29 | time_limit_s = 9
   |                ^ remove it: the measured VMs bound the run

1 problem in base.toml
"#,
    );
}

#[test]
fn program_on_disk_in_a_vm_without_disk_is_refused() {
    check(
        &[("\"shootdown\"", "\"fio\"")],
        r#"
error: `fio` works on a disk, the VM has none
  --> base.toml:18:11
   |
18 | program = "fio"
   |           ^^^^^ add `disk_mib` to the VM

1 problem in base.toml
"#,
    );
}

#[test]
fn cpu_weight_without_a_cgroup_is_refused() {
    check(
        &[("pin = [0, 1]", "cgroup = \"none\"\ncpu_weight = 50")],
        r#"
error: `cpu_weight` has no effect with `cgroup = "none"`
  --> base.toml:16:14
   |
16 | cpu_weight = 50
   |              ^^ remove it, or choose "vm" or "vcpu"

1 problem in base.toml
"#,
    );
}

#[test]
fn a_limit_of_cpu_time_without_a_cgroup_is_refused() {
    check(
        &[("pin = [0, 1]", "cgroup = \"none\"\ncpu_quota_us = 50000")],
        r#"
error: `cpu_quota_us` has no effect with `cgroup = "none"`
  --> base.toml:16:16
   |
16 | cpu_quota_us = 50000
   |                ^^^^^ remove it, or choose "vm" or "vcpu"

1 problem in base.toml
"#,
    );
}

#[test]
fn a_period_without_a_limit_is_refused() {
    check(
        &[("pin = [0, 1]", "cpu_period_us = 50000")],
        r#"
error: `cpu_period_us` has no effect without `cpu_quota_us`
  --> base.toml:15:17
   |
15 | cpu_period_us = 50000
   |                 ^^^^^ remove it, or add `cpu_quota_us`

1 problem in base.toml
"#,
    );
}

#[test]
fn a_program_of_the_host_that_ends_by_itself_is_refused() {
    check(
        &[(
            "pcpus = 2",
            "pcpus = 2\nworkload = [{ program = \"pingpong\" }]",
        )],
        r#"
error: `pingpong` ends by itself
 --> base.toml:9:25
  |
9 | workload = [{ program = "pingpong" }]
  |                         ^^^^^^^^^^ expected a program that runs until it is stopped
  |
  = note: such programs: spin, hostload, stress-ng, sysbench, dbench, fio

1 problem in base.toml
"#,
    );
}

#[test]
fn unknown_schema_is_the_only_problem_reported() {
    check(
        &[("schema = 2", "schema = 3"), ("vcpus = 2", "cpus = 2")],
        r#"
error: schema 3 is not known to this build
 --> base.toml:2:10
  |
2 | schema = 3
  |          ^ this build reads schema 2

1 problem in base.toml
"#,
    );
}

#[test]
fn tables_of_a_paper_are_one_error_that_names_their_new_place() {
    let paper = "\n[[paper]]\nsource = \"A paper, Table 1\"\nvalues = [166]\n";
    let said = common::problems(&(common::BASE.to_owned() + paper + paper));
    let error = r#"
error: unknown key `paper` at the top level
  --> base.toml:37:3
   |
37 | [[paper]]
   |   ^^^^^ remove `[[paper]]`: figures of papers are in evidence/papers, one file a paper
"#;
    assert!(said.starts_with(error.trim_start()), "{said}");
    assert!(said.ends_with("1 problem in base.toml"), "{said}");
}

#[test]
fn a_variant_keeps_a_measured_vm() {
    let variant = "name = \"ipi\"\n";
    let edit = format!("{variant}without = [\"victim\"]\n");
    let said = common::problems(&common::edited(&[(variant, &edit)]));
    assert!(said.contains("no measured VM is left"), "{said}");
}

#[test]
fn a_variant_without_an_unknown_vm_is_answered_with_the_nearest() {
    let variant = "name = \"ipi\"\n";
    let edit = format!("{variant}without = [\"victin\"]\n");
    let said = common::problems(&common::edited(&[(variant, &edit)]));
    assert!(said.contains("did you mean `victim`?"), "{said}");
}
