# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Each check of lint finds what it is for: an input that fails, beside one that passes."""

import pathlib
import shutil
import subprocess
import tempfile
import unittest

import assertions
import columns
import commits
import dead
import dialect
import functions
import links
import offenders
import sentences
import words
import wrap

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

    def test_offenders_may_move_to_other_files_but_not_become_more(self):
        text = "# why\n3 a.rs\n1 b.rs\n"
        self.assertEqual(offenders.moved(text, {"c.rs": 2, "b.rs": 2}), "# why\n2 b.rs\n2 c.rs\n")
        self.assertIsNone(offenders.moved(text, {"c.rs": 3, "b.rs": 2}))


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
        self.assertEqual(columns.long_lines("a.rs", "x" * 100 + "\n" + "é" * 100), 0)
        self.assertEqual(columns.long_lines("a.rs", "x" * 101), 1)

    def test_a_tab_counts_to_the_next_eighth(self):
        self.assertEqual(columns.long_lines("a.c", "\t" * 12 + "x" * 5), 1)

    def test_tables_and_targets_of_links_in_markdown_are_excepted(self):
        row, link = "| " + "x" * 120, "[x](" + "y" * 120 + ")"
        self.assertEqual(columns.long_lines("a.md", f"{row}\n{link}\n"), 0)
        self.assertEqual(columns.long_lines("a.md", f"x{row}\n{link}{'x' * 96}\n"), 2)


class Wrap(unittest.TestCase):
    def test_a_long_item_is_wrapped_under_its_text_and_keeps_its_words(self):
        item = "- " + "word " * 30 + "`a b` - end"
        wrapped = wrap.wrap(f"# T\n{item}\n- short\n")
        self.assertEqual(wrapped.split(), f"# T\n{item}\n- short\n".split())
        self.assertEqual(columns.long_lines("a.md", wrapped), 0)
        self.assertEqual([line[:3] for line in wrapped.splitlines()], ["# T", "- w", "  w", "- s"])

    def test_what_is_short_or_code_or_a_table_stays(self):
        page = "short\nlines\n\n```\n" + "x " * 60 + "\n```\n| " + "x " * 60 + "|\n"
        self.assertEqual(wrap.wrap(page), page)

    def test_no_line_begins_with_what_would_be_an_item(self):
        wrapped = wrap.wrap("x" * 98 + " - x " + "y " * 60 + "\n")
        self.assertNotIn("\n- ", wrapped)


class Sentences(unittest.TestCase):
    def lengths(self, text, name="a.md"):
        return [length for length, _, _ in sentences.long_sentences(name, text)]

    def test_25_words_pass_and_26_fail_across_lines(self):
        self.assertEqual(self.lengths("w\n" * 24 + "w."), [])
        self.assertEqual(self.lengths("w\n" * 25 + "w."), [26])

    def test_an_item_and_code_that_begins_a_sentence_end_the_one_before(self):
        self.assertEqual(self.lengths("w " * 20 + "\n- " + "w " * 20 + "w. `w` " + "w " * 20), [])

    def test_code_counts_as_a_word_and_tables_and_blocks_as_none(self):
        words = "w " * 30
        self.assertEqual(self.lengths(f"`{words}`\n\n| {words}|\n\n```\n{words}\n```\n"), [])
        self.assertEqual(self.lengths(f"x::\n\n  {words}\n\nx\n", "a.rst"), [])


class Words(unittest.TestCase):
    RULES = words.rules((HERE / "words.toml").read_text())

    def found(self, name, text):
        return [(line, word) for line, word, _ in words.places(name, text, self.RULES)]

    def test_each_rule_finds_what_it_is_for_and_passes_good_english(self):
        for _, table in self.RULES:
            name = "a." + table.get("in", "md")
            rule = [entry for entry in self.RULES if entry[1] is table]
            for text in table["flags"]:
                self.assertTrue(words.places(name, text, rule), text)
            for text in table["passes"]:
                self.assertFalse(words.places(name, text, rule), text)

    def test_prose_of_markdown_is_searched_and_code_is_not(self):
        page = "# Not there\nIt is\nno link, `told`.\n\n```\ntold\n```\n\nAnd told.\n"
        self.assertEqual(self.found("a.md", page),
                         [(1, "# Not there"), (2, "is no link"), (9, "told")])

    def test_comments_and_literals_of_code_are_searched_and_names_are_not(self):
        code = '/// It is\n/// no `told` thing.\n'
        code += 'let told = ("is told \\\n  anew", \'"\'); // mend\n'
        self.assertEqual(self.found("a.rs", code), [(3, "told"), (4, "anew"), (4, "mend")])
        self.assertEqual(self.found("a.c", "/* It is\n * no link.\n */\nint told;\n"),
                         [(1, "is no link")])

    def test_a_patch_is_searched_in_its_head_and_in_what_it_adds(self):
        diff = "Told.\n---\ndiff a b\n--- a\n+++ b\n@@ -1 @@\n /* told */\n+/* told */\n+told();\n"
        self.assertEqual(self.found("a.patch", diff), [(1, "Told"), (8, "told")])

    def test_scripts_and_toml_are_searched_as_a_whole(self):
        self.assertEqual(self.found("run", "#!/bin/sh\n# It is\n# no link.\necho told\n"),
                         [(2, "is no link"), (4, "told")])


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


class Assertions(unittest.TestCase):
    FILES = {
        "crates/a/src/lib.rs": "mod b;\n#[cfg(test)]\nmod c;\n\nfn f() {\n    assert!(true);\n}\n"
        "fn g() {\n    // assert!(no);\n    debug_assert_eq!(1, 1);\n}\n"
        "#[cfg(test)]\nmod tests {\n    fn t() {\n        assert!(true);\n    }\n}\n",
        "crates/a/src/b.rs": "/// fn no()\npub const fn h() {}\nconst _: () = assert!(true);\n",
        "crates/a/src/c.rs": "fn t() {\n    assert!(true);\n}\n",
    }

    def test_tests_and_remarks_count_nothing(self):
        self.assertEqual(assertions.count(self.FILES), (3, 3))

    def test_a_crate_below_its_floor_one_without_and_one_that_is_gone_fail(self):
        floors = {"a": 50, "b": 50, "gone": 1}
        found = list(assertions.judge({"a": 50, "b": 49, "new": 9}, floors))
        self.assertEqual([text.split()[0] for text in found], ["b", "new", "gone"])

    def test_a_floor_is_raised_in_steps_and_never_lowered(self):
        text = "# why\na = 50\nb = 50\ngone = 1\n"
        after = assertions.raised(text, {"a": 49, "b": 58, "new": 9})
        self.assertEqual(after, "# why\na = 50\nb = 55\nnew = 5\n")


class Commits(unittest.TestCase):
    def test_a_subject_of_the_form_passes(self):
        self.assertIsNone(commits.wrong("lint: Hold functions to 70 lines"))

    def test_a_subject_without_a_room_fails(self):
        self.assertIsNotNone(commits.wrong("Hold functions to 70 lines"))
        self.assertIsNotNone(commits.wrong("lint, docs: Hold functions to 70 lines"))

    def test_a_subject_that_is_too_long_fails(self):
        self.assertIsNone(commits.wrong("lint: H" + "x" * 65))
        self.assertIsNotNone(commits.wrong("lint: H" + "x" * 66))

    def test_a_small_letter_and_a_full_stop_fail(self):
        self.assertIsNotNone(commits.wrong("lint: hold it"))
        self.assertIsNotNone(commits.wrong("lint: Hold it."))


class Scripts(unittest.TestCase):
    """The checks that are shell scripts, in a small project of their own."""

    def call(self, check, files, new=False):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "lint/exceptions").mkdir(parents=True)
            spdx = "# SPDX-License-Identifier: MIT\n"
            (root / "lint/exceptions/shell").write_text(spdx)
            shutil.copy(HERE / check, root / "lint" / check)
            for name, (text, mode) in files.items():
                (root / name).write_text(text)
                (root / name).chmod(mode)
            subprocess.run(["git", "init", "-q", folder], check=True)
            if not new:
                subprocess.run(["git", "-C", folder, "add", *files], check=True)
            return subprocess.run([root / "lint" / check], capture_output=True, check=False)

    def test_shell_finds_what_shellcheck_finds(self):
        self.assertEqual(self.call("shell", {"a": ("#!/bin/sh\necho ok\n", 0o755)}).returncode, 0)
        bad = self.call("shell", {"a": ("#!/bin/sh\nrm $1\n", 0o755)})
        self.assertEqual(bad.returncode, 1)
        self.assertIn(b"SC2086", bad.stderr)

    def test_a_file_that_is_new_to_git_is_checked_too(self):
        bad = {"a": ("#!/bin/sh\nrm $1\n", 0o755), "a.rs": ("fn f() {}\n", 0o644)}
        for check in ["shell", "licences"]:
            self.assertEqual(self.call(check, bad, new=True).returncode, 1, check)

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
