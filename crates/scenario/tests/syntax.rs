// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Text that is no TOML, and where problems are placed in odd but valid text.

mod common;

use common::check;

#[test]
fn unclosed_string_is_shown_where_it_ends() {
    check(
        &[("\"A title\"", "\"A title")],
        r#"
error: TOML syntax: invalid basic string
 --> base.toml:4:17
  |
4 | title = "A title
  |                 ^ expected `"`

1 problem in base.toml
"#,
    );
}

#[test]
fn duplicate_key_points_at_the_second() {
    check(
        &[("pcpus = 2", "pcpus = 2\npcpus = 4")],
        r#"
error: TOML syntax: duplicate key
 --> base.toml:9:1
  |
9 | pcpus = 4
  | ^^^^^ defined above already; keep one

1 problem in base.toml
"#,
    );
}

#[test]
fn every_line_with_a_syntax_error_is_reported_once() {
    check(
        &[
            ("pcpus = 2", "pcpus 2"),
            ("\"spin\"", "spin"),
            ("ipi = false", "ipi = flase ipi"),
        ],
        r#"
error: TOML syntax: key with no value
 --> base.toml:8:7
  |
8 | pcpus 2
  |       ^ expected `=`

error: TOML syntax: string values must be quoted
  --> base.toml:28:11
   |
28 | program = spin
   |           ^^^^ expected a number, true, false, or a string in quotes

error: TOML syntax: string values must be quoted
  --> base.toml:35:7
   |
35 | ipi = flase ipi
   |       ^^^^^^^^^ expected a number, true, false, or a string in quotes

3 problems in base.toml
"#,
    );
}

#[test]
fn header_in_error_does_not_blame_the_keys_below_it() {
    check(
        &[
            ("[[vm]]\nname = \"hog\"", "[[vm]\nname = \"hog\""),
            ("\"eager\"", "eager"),
        ],
        r#"
error: TOML syntax: unclosed array table
  --> base.toml:21:6
   |
21 | [[vm]
   |      ^ expected `]`

error: TOML syntax: string values must be quoted
  --> base.toml:32:20
   |
32 | shoot4u = { mode = eager }
   |                    ^^^^^ expected a number, true, false, or a string in quotes

2 problems in base.toml
"#,
    );
}

#[test]
fn array_never_closed_hides_what_it_swallows() {
    check(
        &[("\"1\"]", "\"1\"")],
        r#"
error: TOML syntax: missing comma between array elements
  --> base.toml:21:1
   |
21 | [[vm]]
   | ^ expected `,`
   |
   = note: a bracket that was opened before may not be closed

1 problem in base.toml
"#,
    );
}

#[test]
fn syntax_errors_hide_what_they_make_doubtful() {
    check(
        &[
            ("[[vm]]\nname = \"hog\"", "[[vm]\nname = \"hog\""),
            ("vcpus = 2\nmemory_mib = 96", "vcpu = 2\nmemory_mib = 96"),
        ],
        r#"
error: TOML syntax: unclosed array table
  --> base.toml:21:6
   |
21 | [[vm]
   |      ^ expected `]`

1 problem in base.toml
"#,
    );
}

#[test]
fn tab_counts_as_one_column() {
    check(
        &[("pcpus = 2", "\tpcpus = 0")],
        r#"
error: `pcpus` is 0, which is out of range
 --> base.toml:8:10
  |
8 |     pcpus = 0
  |             ^ expected an integer from 1 to 64

1 problem in base.toml
"#,
    );
}

#[test]
fn column_counts_characters_not_bytes() {
    check(
        &[("\"1\"]", "\"größe\", \"日本\", 1]")],
        r#"
error: `args[3]` is an integer
  --> base.toml:19:37
   |
19 | args = ["--targets", "größe", "日本", 1]
   |                                       ^ expected a string without control characters, at most 4096 characters

1 problem in base.toml
"#,
    );
}
