# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Each check of lint finds what it is for: an input that fails, beside one that passes."""

import pathlib
import shutil
import subprocess
import tempfile
import unittest

import columns
import commits
import dead
import dialect
import functions
import links
import offenders

HERE = pathlib.Path(__file__).resolve().parent


class Exceptions(unittest.TestCase):
    """A list of exceptions only shrinks."""

    def judge(self, found, listed):
        return offenders.judge(found, offenders.read_list(listed), "lines")

    def test_a_known_offender_of_known_size_passes(self):
        self.assertEqual(self.judge({"a.rs f": 80}, "# why\n80 a.rs f\n"), [])

    def test_a_new_offender_fails(self):
        self.assertEqual(self.judge({"a.rs f": 80}, ""), ["a.rs f: 80 lines"])

    def test_an_offender_that_grew_fails(self):
        self.assertEqual(len(self.judge({"a.rs f": 81}, "80 a.rs f")), 1)

    def test_an_offender_that_shrank_fails_until_the_list_says_so(self):
        self.assertEqual(len(self.judge({"a.rs f": 79}, "80 a.rs f")), 1)

    def test_an_offender_that_is_gone_fails_until_the_list_says_so(self):
        self.assertEqual(len(self.judge({}, "80 a.rs f")), 1)

    def test_shortening_adds_nothing_and_raises_nothing(self):
        text = "# why\n80 a.rs f\n90 a.rs g\n75 a.rs h\n"
        found = {"a.rs f": 71, "a.rs h": 99, "a.rs new": 80}
        self.assertEqual(offenders.shortened(text, found), "# why\n71 a.rs f\n75 a.rs h\n")


class Functions(unittest.TestCase):
    def c(self, lines):
        body = "\twork();\n" * (lines - 3)
        return f"int a;\n\nstatic int f(int x)\n{{\n{body}}}\n\nint g(void)\n{{\n}}\n"

    def test_70_lines_pass_and_71_fail(self):
        self.assertEqual(functions.long_functions("a.c", self.c(70)), {})
        self.assertEqual(functions.long_functions("a.c", self.c(71)), {"a.c f": 71})

    def test_a_function_without_an_end_is_an_error(self):
        with self.assertRaises(ValueError):
            list(functions.functions("int f(void)\n{\n"))


class Columns(unittest.TestCase):
    def test_a_line_of_101_columns_fails_and_of_100_passes(self):
        self.assertEqual(columns.long_lines("x" * 100 + "\n" + "é" * 100), 0)
        self.assertEqual(columns.long_lines("x" * 101), 1)

    def test_a_tab_counts_to_the_next_eighth(self):
        self.assertEqual(columns.long_lines("\t" * 12 + "x" * 5), 1)


class Links(unittest.TestCase):
    PAGES = {
        "docs/a.md": "# The `bochs` engine's limits\n## Two\n## Two\n",
        "docs/b.md": "",
    }

    def broken(self, text):
        pages = {**self.PAGES, "docs/b.md": text}
        return list(links.broken("docs/b.md", pages.get))

    def test_a_file_that_is_not_there_fails(self):
        self.assertEqual(len(self.broken("[x](a.md) [y](c.md)")), 1)

    def test_an_anchor_that_is_not_there_fails(self):
        self.assertEqual(self.broken("[x](a.md#the-bochs-engines-limits) [y](a.md#two-1)"), [])
        self.assertEqual(len(self.broken("[x](a.md#three)")), 1)

    def test_an_anchor_of_the_page_itself_is_looked_up(self):
        self.assertEqual(len(self.broken("# One\n[x](#one) [y](#none)")), 1)

    def test_code_holds_no_links(self):
        self.assertEqual(self.broken("`[x](none.md)`\n```\n[x](none.md)\n```\n"), [])


class Dead(unittest.TestCase):
    def test_a_file_that_only_itself_names_is_dead(self):
        files = {"README.md": "see run", "bench/run": "", "bench/old": "bench/old does it"}
        self.assertEqual(dead.dead({**files, "Makefile": "README.md"}, ["Makefile"]),
                         (["bench/old"], []))

    def test_a_module_that_no_other_declares_is_dead(self):
        files = {"crates/a/src/lib.rs": "mod used;", "crates/a/src/used.rs": "",
                 "crates/a/src/left.rs": ""}
        self.assertEqual(dead.dead(files, [])[0], ["crates/a/src/left.rs"])

    def test_a_list_of_exceptions_keeps_nothing_alive(self):
        files = {"lint/exceptions/columns": "3 bench/old", "bench/old": ""}
        self.assertEqual(dead.dead(files, ["lint/*"])[0], ["bench/old"])

    def test_a_snapshot_of_a_test_that_is_gone_is_dead(self):
        files = {"crates/a/tests/t.rs": "fn new() {}", "crates/a/tests/s/t__new.snap": "",
                 "crates/a/tests/s/t__old.snap": ""}
        self.assertEqual(dead.dead(files, [])[0], ["crates/a/tests/s/t__old.snap"])

    def test_a_pattern_that_no_file_needs_is_told(self):
        self.assertEqual(dead.dead({}, ["x/*"]), ([], ["x/*"]))

    def test_a_pattern_without_a_reason_is_refused(self):
        with self.assertRaises(SystemExit):
            dead.read_alive("x/*\n")


class Dialect(unittest.TestCase):
    GOOD = "//! Head.\n\nuse std::fs;\n\nuse serde::Serialize;\n\nuse crate::a::{b, C};\n"

    def count(self, text):
        return len(dialect.departures("x.rs", text))

    def test_the_dialect_passes(self):
        self.assertEqual(self.count(self.GOOD), 0)

    def test_a_head_without_an_empty_line_fails(self):
        self.assertEqual(self.count("//! Head.\nuse std::fs;\n"), 1)

    def test_groups_that_are_not_apart_fail(self):
        self.assertEqual(self.count("use std::fs;\nuse serde::Serialize;\n"), 1)

    def test_groups_out_of_order_fail(self):
        self.assertEqual(self.count("use crate::a;\n\nuse std::fs;\n"), 1)

    def test_a_path_within_braces_fails(self):
        self.assertEqual(self.count("use crate::{\n    a::b,\n    c,\n};\n"), 1)

    def test_a_module_file_beside_its_folder_fails(self):
        names = ["crates/a/src/m.rs", "crates/a/src/m/n.rs", "crates/a/src/o/mod.rs"]
        self.assertEqual(dialect.doubles(names), ["crates/a/src/m.rs"])


class Commits(unittest.TestCase):
    def test_a_subject_of_the_form_passes(self):
        self.assertIsNone(commits.wrong("lint: Hold functions to 70 lines"))

    def test_a_subject_without_a_room_fails(self):
        self.assertIsNotNone(commits.wrong("Hold functions to 70 lines"))

    def test_a_subject_that_is_too_long_fails(self):
        self.assertIsNone(commits.wrong("lint: H" + "x" * 65))
        self.assertIsNotNone(commits.wrong("lint: H" + "x" * 66))

    def test_a_small_letter_and_a_full_stop_fail(self):
        self.assertIsNotNone(commits.wrong("lint: hold it"))
        self.assertIsNotNone(commits.wrong("lint: Hold it."))


class Scripts(unittest.TestCase):
    """The checks that are shell scripts, in a small project of their own."""

    def call(self, check, files):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "lint/exceptions").mkdir(parents=True)
            (root / "lint/exceptions/shell").write_text("")
            shutil.copy(HERE / check, root / "lint" / check)
            for name, (text, mode) in files.items():
                (root / name).write_text(text)
                (root / name).chmod(mode)
            subprocess.run(["git", "init", "-q", folder], check=True)
            subprocess.run(["git", "-C", folder, "add", *files], check=True)
            return subprocess.run([root / "lint" / check], capture_output=True, check=False)

    def test_shell_finds_what_shellcheck_finds(self):
        self.assertEqual(self.call("shell", {"a": ("#!/bin/sh\necho ok\n", 0o755)}).returncode, 0)
        bad = self.call("shell", {"a": ("#!/bin/sh\nrm $1\n", 0o755)})
        self.assertEqual(bad.returncode, 1)
        self.assertIn(b"SC2086", bad.stderr)

    def test_shell_finds_a_script_that_cannot_be_executed(self):
        self.assertEqual(self.call("shell", {"a": ("#!/bin/sh\n:\n", 0o644)}).returncode, 1)

    def test_licences_finds_a_file_without_its_line(self):
        line = "// SPDX-License-Identifier: MIT\n"
        self.assertEqual(self.call("licences", {"a.rs": (line, 0o644)}).returncode, 0)
        self.assertEqual(self.call("licences", {"a.rs": ("fn f() {}\n", 0o644)}).returncode, 1)

    def test_licences_finds_a_file_that_is_too_long(self):
        line = "# SPDX-License-Identifier: MIT\n"
        self.assertEqual(self.call("licences", {"a.py": (line * 501, 0o644)}).returncode, 1)


if __name__ == "__main__":
    unittest.main()
