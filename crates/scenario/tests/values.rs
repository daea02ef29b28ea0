// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Values: each test asks what a reader is told about one kind of wrong value.

mod common;

use common::check;

#[test]
fn string_for_an_integer_is_a_wrong_type() {
    check(
        &[("pcpus = 2", "pcpus = \"2\"")],
        r#"
error: `pcpus` is a string
 --> base.toml:8:9
  |
8 | pcpus = "2"
  |         ^^^ expected an integer from 1 to 64

1 problem in base.toml
"#,
    );
}

#[test]
fn float_for_an_integer_is_a_wrong_type() {
    check(
        &[("memory_mib = 96", "memory_mib = 96.5")],
        r#"
error: `memory_mib` is a float
  --> base.toml:14:14
   |
14 | memory_mib = 96.5
   |              ^^^^ expected an integer from 16 to 1048576

1 problem in base.toml
"#,
    );
}

#[test]
fn integer_for_a_string_is_a_wrong_type() {
    check(
        &[("title = \"A title\"", "title = 7")],
        r#"
error: `title` is an integer
 --> base.toml:4:9
  |
4 | title = 7
  |         ^ expected one line, at most 80 characters

1 problem in base.toml
"#,
    );
}

#[test]
fn string_for_a_boolean_is_a_wrong_type() {
    check(
        &[("background = true", "background = \"yes\"")],
        r#"
error: `background` is a string
  --> base.toml:25:14
   |
25 | background = "yes"
   |              ^^^^^ expected true or false

1 problem in base.toml
"#,
    );
}

#[test]
fn string_for_an_array_is_a_wrong_type() {
    check(
        &[("args = [\"--targets\", \"1\"]", "args = \"--targets 1\"")],
        r#"
error: `args` is a string
  --> base.toml:19:8
   |
19 | args = "--targets 1"
   |        ^^^^^^^^^^^^^ expected an array of strings

1 problem in base.toml
"#,
    );
}

#[test]
fn date_for_a_word_is_a_wrong_type() {
    check(
        &[("pcpus = 2", "pcpus = 2\nvmm = 2026-01-02")],
        r#"
error: `vmm` is a date or time
 --> base.toml:9:7
  |
9 | vmm = 2026-01-02
  |       ^^^^^^^^^^ expected one of "steady", "qemu"

1 problem in base.toml
"#,
    );
}

#[test]
fn integer_among_arguments_points_at_the_element() {
    check(
        &[("args = [\"--targets\", \"1\"]", "args = [\"--targets\", 1]")],
        r#"
error: `args[1]` is an integer
  --> base.toml:19:22
   |
19 | args = ["--targets", 1]
   |                      ^ expected a string without control characters, at most 4096 characters

1 problem in base.toml
"#,
    );
}

#[test]
fn zero_vcpus_are_out_of_range() {
    check(
        &[("vcpus = 2\nmemory_mib = 64", "vcpus = 0\nmemory_mib = 64")],
        r#"
error: `vcpus` is 0, which is out of range
  --> base.toml:23:9
   |
23 | vcpus = 0
   |         ^ expected an integer from 1 to 1024

1 problem in base.toml
"#,
    );
}

#[test]
fn negative_integer_is_out_of_range() {
    check(
        &[("title = \"A title\"", "title = \"A title\"\nseed = -1")],
        r#"
error: `seed` is -1, which is out of range
 --> base.toml:5:8
  |
5 | seed = -1
  |        ^^ expected an integer from 0 to 18446744073709551615

1 problem in base.toml
"#,
    );
}

#[test]
fn integer_beyond_64_bits_is_out_of_range() {
    check(
        &[(
            "title = \"A title\"",
            "title = \"A title\"\nseed = 0xfffff_ffff_ffff_ffff",
        )],
        r#"
error: `seed` is 0xfffffffffffffffff, which is out of range
 --> base.toml:5:8
  |
5 | seed = 0xfffff_ffff_ffff_ffff
  |        ^^^^^^^^^^^^^^^^^^^^^^ expected an integer from 0 to 18446744073709551615

1 problem in base.toml
"#,
    );
}

#[test]
fn unknown_program_names_the_nearest_right_one() {
    check(
        &[("\"shootdown\"", "\"shotdown\"")],
        r#"
error: unknown program `shotdown`
  --> base.toml:18:11
   |
18 | program = "shotdown"
   |           ^^^^^^^^^^ did you mean `shootdown`?
   |
   = note: known: shootdown, pagecache, indexer, pingpong, spin, staleness, ticks, hotplug, frames, dedup, hostload, stress-ng, jemalloc, hackbench, sysbench, mariadb, pbzip2, dbench, fio, vips

1 problem in base.toml
"#,
    );
}

#[test]
fn unknown_vmm_names_the_nearest_right_one() {
    check(
        &[("pcpus = 2", "pcpus = 2\nvmm = \"qmeu\"")],
        r#"
error: unknown vmm `qmeu`
 --> base.toml:9:7
  |
9 | vmm = "qmeu"
  |       ^^^^^^ did you mean `qemu`?
  |
  = note: known: steady, qemu

1 problem in base.toml
"#,
    );
}

#[test]
fn unknown_cgroup_layout_names_the_nearest_right_one() {
    check(
        &[("pin = [0, 1]", "cgroup = \"vcpus\"")],
        r#"
error: unknown cgroup `vcpus`
  --> base.toml:15:10
   |
15 | cgroup = "vcpus"
   |          ^^^^^^^ did you mean `vcpu`?
   |
   = note: known: vm, vcpu, none

1 problem in base.toml
"#,
    );
}

#[test]
fn unknown_mode_names_the_nearest_right_one() {
    check(
        &[("\"eager\"", "\"egaer\"")],
        r#"
error: unknown mode `egaer`
  --> base.toml:32:20
   |
32 | shoot4u = { mode = "egaer" }
   |                    ^^^^^^^ did you mean `eager`?
   |
   = note: known: deferred, eager

1 problem in base.toml
"#,
    );
}

#[test]
fn unknown_word_near_no_other_lists_the_right_ones() {
    check(
        &[(
            "ipi = false",
            "ipi = false\n[measure]\ncollect = [\"prayer\"]",
        )],
        r#"
error: unknown measure `prayer`
  --> base.toml:37:12
   |
37 | collect = ["prayer"]
   |            ^^^^^^^^ not a measure
   |
   = note: known: exits, cpu-time, kvm-stats, guest-time

1 problem in base.toml
"#,
    );
}

#[test]
fn unknown_measure_names_the_nearest_right_one() {
    check(
        &[(
            "[variant.pv]",
            "[measure]\ncollect = [\"kvm-stat\"]\n\n[variant.pv]",
        )],
        r#"
error: unknown measure `kvm-stat`
  --> base.toml:35:12
   |
35 | collect = ["kvm-stat"]
   |            ^^^^^^^^^^ did you mean `kvm-stats`?
   |
   = note: known: exits, cpu-time, kvm-stats, guest-time

1 problem in base.toml
"#,
    );
}

#[test]
fn name_with_capitals_and_blanks_is_refused() {
    check(
        &[("name = \"victim\"", "name = \"The Victim\"")],
        r#"
error: `name` may not be "The Victim"
  --> base.toml:12:8
   |
12 | name = "The Victim"
   |        ^^^^^^^^^^^^ expected lower-case letters, digits and hyphens, not beginning with a hyphen, at most 64 characters

1 problem in base.toml
"#,
    );
}

#[test]
fn empty_question_is_refused() {
    check(
        &[("\"A question?\"", "\"\"")],
        r#"
error: `question` is empty
 --> base.toml:5:12
  |
5 | question = ""
  |            ^^ expected one line, at most 1000 characters

1 problem in base.toml
"#,
    );
}

#[test]
fn title_too_long_for_a_table_is_refused() {
    check(
        &[(
            "\"A title\"",
            "\"very very very very very very very very very very very very very very very very long\"",
        )],
        r#"
error: `title` has 84 characters
 --> base.toml:4:9
  |
4 | title = "very very very very very very very very very very very very very very very very long"
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ expected one line, at most 80 characters

1 problem in base.toml
"#,
    );
}

#[test]
fn line_break_in_a_command_line_is_refused() {
    check(
        &[(
            "shoot4u = { mode = \"eager\" }",
            "guest_cmdline = \"nopvspin\\nrdinit=/bin/sh\"",
        )],
        r#"
error: `guest_cmdline` may not be "nopvspin\u{a}rdinit=/bin/sh"
  --> base.toml:32:17
   |
32 | guest_cmdline = "nopvspin\nrdinit=/bin/sh"
   |                 ^^^^^^^^^^^^^^^^^^^^^^^^^^ expected printable ASCII words, at most 512 characters

1 problem in base.toml
"#,
    );
}

#[test]
fn control_characters_of_the_file_are_not_sent_to_the_terminal() {
    check(
        &[(
            "name = \"victim\"",
            "\"\\u001b[31m\\u009b\" = 1\nname = \"victim\"",
        )],
        r#"
error: unknown key `\u{1b}[31m\u{9b}` in `[[vm]]`
  --> base.toml:12:1
   |
12 | "\u001b[31m\u009b" = 1
   | ^^^^^^^^^^^^^^^^^^ not a key of `[[vm]]`
   |
   = note: keys of `[[vm]]`: name, copies, vcpus, memory_mib, pin, cpu_weight, cgroup, cpu_quota_us, cpu_period_us, disk_mib, kernel, guest_cmdline, background, pv, workload

1 problem in base.toml
"#,
    );
}
