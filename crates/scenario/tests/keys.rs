// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keys and tables: each test asks what a reader is told about one kind of slip.

mod common;

use common::check;

#[test]
fn unknown_key_names_the_nearest_right_one() {
    check(
        &[("vcpus = 2\nmemory_mib = 96", "vcpu = 2\nmemory_mib = 96")],
        r#"
error: unknown key `vcpu` in `[[vm]]`
  --> base.toml:13:1
   |
13 | vcpu = 2
   | ^^^^ did you mean `vcpus`?
   |
   = note: keys of `[[vm]]`: name, copies, vcpus, memory_mib, pin, cpu_weight, cgroup, cpu_quota_us, cpu_period_us, disk_mib, kernel, guest_cmdline, background, pv, workload

1 problem in base.toml
"#,
    );
}

#[test]
fn unknown_key_near_no_other_lists_the_right_ones() {
    check(
        &[("pcpus = 2", "pcpus = 2\ncolour = \"red\"")],
        r#"
error: unknown key `colour` in `[host]`
 --> base.toml:9:1
  |
9 | colour = "red"
  | ^^^^^^ not a key of `[host]`
  |
  = note: keys of `[host]`: pcpus, memory_mib, vmm, time_limit_s, workload

1 problem in base.toml
"#,
    );
}

#[test]
fn key_of_another_table_is_told_where_it_belongs() {
    check(
        &[("pcpus = 2", "pcpus = 2\ndisk_mib = 64")],
        r#"
error: unknown key `disk_mib` in `[host]`
 --> base.toml:9:1
  |
9 | disk_mib = 64
  | ^^^^^^^^ this is a key of `[[vm]]`
  |
  = note: keys of `[host]`: pcpus, memory_mib, vmm, time_limit_s, workload

1 problem in base.toml
"#,
    );
}

#[test]
fn key_after_a_subtable_is_told_where_it_belongs() {
    check(
        &[(
            "args = [\"--targets\", \"1\"]",
            "args = []\ncpu_weight = 50",
        )],
        r#"
error: unknown key `cpu_weight` in `[[vm.workload]]`
  --> base.toml:20:1
   |
20 | cpu_weight = 50
   | ^^^^^^^^^^ this is a key of `[[vm]]`
   |
   = note: keys of `[[vm.workload]]`: program, args, time_limit_s

1 problem in base.toml
"#,
    );
}

#[test]
fn unknown_pv_feature_names_the_nearest_right_one() {
    check(
        &[("ipi = false", "tlbflush = false")],
        r#"
error: unknown key `tlbflush` in `[variant.pv]`
  --> base.toml:35:1
   |
35 | tlbflush = false
   | ^^^^^^^^ did you mean `tlb_flush`?
   |
   = note: keys of `[variant.pv]`: tlb_flush, ipi, sched_yield, unhalt, eoi, steal_time, async_pf, poll_control, clocksource

1 problem in base.toml
"#,
    );
}

#[test]
fn missing_key_points_at_the_header_of_its_table() {
    check(
        &[("memory_mib = 64\n", "")],
        r#"
error: missing key `memory_mib` in `[[vm]]`
  --> base.toml:21:1
   |
21 | [[vm]]
   | ^^^^^^ add `memory_mib`: an integer from 16 to 1048576

1 problem in base.toml
"#,
    );
}

#[test]
fn missing_host_says_what_to_add() {
    check(
        &[("[host]\npcpus = 2\nmemory_mib = 512\n", "")],
        r#"
error: missing key `host` at the top level
 --> base.toml:1:1
  |
1 | # SPDX-License-Identifier: Apache-2.0 OR MIT
  | ^ add `host`: the table `[host]`

1 problem in base.toml
"#,
    );
}

#[test]
fn vm_without_workload_says_what_to_add() {
    check(
        &[(
            "[[vm.workload]]\nprogram = \"shootdown\"\nargs = [\"--targets\", \"1\"]\n",
            "",
        )],
        r#"
error: missing key `workload` in `[[vm]]`
  --> base.toml:11:1
   |
11 | [[vm]]
   | ^^^^^^ add `workload`: 1 to 64 tables `[[vm.workload]]`

1 problem in base.toml
"#,
    );
}

#[test]
fn table_where_an_array_of_tables_belongs_is_reported() {
    check(
        &[("[[variant]]", "[variant]")],
        r#"
error: `variant` is a table
  --> base.toml:30:1
   |
30 | [variant]
   | ^^^^^^^^^ expected 1 to 64 tables `[[variant]]`

1 problem in base.toml
"#,
    );
}

#[test]
fn array_where_a_table_belongs_is_reported() {
    check(
        &[("[host]", "[[host]]")],
        r#"
error: `host` is an array
 --> base.toml:7:1
  |
7 | [[host]]
  | ^^^^^^^^ expected the table `[host]`

1 problem in base.toml
"#,
    );
}

#[test]
fn inline_array_of_no_vms_is_reported() {
    check(
        &[
            (
                "[[vm]]\nname = \"victim\"\nvcpus = 2\nmemory_mib = 96\npin = [0, 1]\n\n[[vm.workload]]\nprogram = \"shootdown\"\nargs = [\"--targets\", \"1\"]\n\n[[vm]]\nname = \"hog\"\nvcpus = 2\nmemory_mib = 64\nbackground = true\n\n[[vm.workload]]\nprogram = \"spin\"\n",
                "",
            ),
            ("schema = 2", "schema = 2\nvm = []"),
        ],
        r#"
error: `vm` has 0 elements
 --> base.toml:3:6
  |
3 | vm = []
  |      ^^ expected 1 to 64 tables `[[vm]]`

1 problem in base.toml
"#,
    );
}

#[test]
fn array_element_that_is_no_table_is_reported() {
    check(
        &[
            ("[variant.pv]\nipi = false\n", ""),
            (
                "[[variant]]\nname = \"ipi\"\nshoot4u = { mode = \"eager\" }\n",
                "",
            ),
            ("schema = 2", "schema = 2\nvariant = [7]"),
        ],
        r#"
error: `variant[0]` is an integer
 --> base.toml:3:12
  |
3 | variant = [7]
  |            ^ expected 1 to 64 tables `[[variant]]`

1 problem in base.toml
"#,
    );
}
