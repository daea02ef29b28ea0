# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tracked files that nothing names.

A file is alive if another tracked file has its name as a word: `name.ext`, or for a module of Rust
or Python `mod name;` or `import name`. Cargo, insta and git find some files by their place, and a
licence's text is named by its identifier; those are known here. Folders that are taken as a whole
are in lint/alive, a pattern and a reason a line.
"""

import fnmatch
import re
import sys

import offenders

WORD = re.compile(r"[\w.+-]+")
MODULE = re.compile(r"\b(?:mod|import) (\w+)\s*(?:[;{]|$)", re.M)
FUNCTION = re.compile(r"\bfn (\w+)")
# Tools find these by themselves.
BY_PLACE = re.compile(
    r"(^|/)(Cargo\.(toml|lock)|build\.rs|clippy\.toml|\.git(attributes|ignore)|\.shellcheckrc)$|"
    r"^crates/[^/]+/(src/(lib|main)\.rs|(tests|benches|examples)/[^/]+(/main)?\.rs)$"
)


def read_alive(text):
    """Patterns of files that are taken without being named."""
    patterns = []
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            pattern, *reason = line.split(maxsplit=1)
            if not reason:
                raise SystemExit(f"lint: lint/alive: {pattern} has no reason")
            patterns.append(pattern)
    return patterns


def names_in(text):
    """The words of a text that could be names of files."""
    words = set()
    for word in WORD.findall(text):
        words.add(word.strip("."))
    return words


def dead(files, alive):
    """Files of a mapping of names to texts (None for data) that no other names, and patterns that
    no file needs."""
    words = {}
    modules = set()
    functions = set()
    for name, text in files.items():
        # A list of exceptions names what is wrong, not what is used.
        if text is None or name.startswith("lint/exceptions/"):
            continue
        for word in names_in(text):
            words.setdefault(word, set()).add(name)
        if name.endswith((".rs", ".py")):
            modules.update(MODULE.findall(text))
            functions.update(FUNCTION.findall(text))
    needed = set()
    found = []
    for name in files:
        if BY_PLACE.search(name) or is_named(name, words, modules, functions):
            continue
        pattern = next((p for p in alive if fnmatch.fnmatchcase(name, p)), None)
        if pattern is None:
            found.append(name)
        needed.add(pattern)
    return found, [pattern for pattern in alive if pattern not in needed]


def is_named(name, words, modules, functions):
    *folders, base = name.split("/")
    if words.get(base, set()) - {name}:
        return True
    stem = base.removesuffix(".rs").removesuffix(".py")
    if stem != base:
        return (folders[-1] if stem == "mod" else stem) in modules
    if folders == ["LICENSES"]:
        return base.removesuffix(".txt") in words
    if base.endswith(".snap"):
        return base.removesuffix(".snap").split("__")[-1] in functions
    return False


if __name__ == "__main__":
    everything = {name: offenders.text_of(name) for name in offenders.tracked()}
    patterns = read_alive((offenders.ROOT / "lint/alive").read_text())
    unnamed, idle = dead(everything, patterns)
    for name in unnamed:
        print(f"lint: {name}: no file names it: use it, delete it, or say why in lint/alive",
              file=sys.stderr)
    for pattern in idle:
        print(f"lint: lint/alive: {pattern} is needed by no file", file=sys.stderr)
    sys.exit(1 if unnamed or idle else 0)
