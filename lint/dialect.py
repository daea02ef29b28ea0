# SPDX-License-Identifier: Apache-2.0 OR MIT
"""One dialect of Rust, as CONTRIBUTING says it. Counts by file the places that depart from it:

- an empty line stands between a file's head (`//!`) and its first item;
- imports stand in groups: std, then other crates, then this one's, an empty line between groups;
- an import names one module: braces hold names, not paths;
- a module with modules of its own is `name/mod.rs`, not `name.rs` beside `name/`.
"""

import re
import sys

import offenders

USE = re.compile(r"^(?:pub(?:\([^)]*\))? )?use (?:::)?(\w+)")


def group(root):
    """The place of an import's group."""
    if root in ("std", "core", "alloc"):
        return 0
    return 2 if root in ("crate", "super", "self") else 1


def imports(lines):
    """The imports at the left edge: first and last line, root, text, and whether re-exported."""
    at = 0
    while at < len(lines):
        begin = USE.match(lines[at])
        if begin:
            end = at
            while not lines[end].rstrip().endswith(";"):
                end += 1
            yield at, end, begin[1], " ".join(lines[at : end + 1]), lines[at].startswith("pub")
            at = end
        at += 1


def departures(name, text, modules=frozenset()):
    """What departs from the dialect; `modules` are the local modules that `use` may name."""
    lines = text.splitlines()
    found = []
    head = [at for at, line in enumerate(lines) if line.startswith("//!")]
    if head and len(lines) > head[-1] + 1 and lines[head[-1] + 1].strip():
        found.append((head[-1] + 2, "no empty line after the head"))
    local = set(re.findall(r"^(?:pub(?:\([^)]*\))? )?mod (\w+)", text, re.M)) | modules
    before = None
    for at, end, root, words, public in imports(lines):
        inside = re.search(r"\{(.*)\}", words)
        if inside and "::" in inside[1]:
            found.append((at + 1, "a path within braces"))
        if public:
            before = None
            continue
        place = 2 if root in local else group(root)
        if before and before[1] + 1 == at and before[0] != place:
            found.append((at + 1, "no empty line between groups of imports"))
        if before and before[0] > place and all(
            not line.strip() or line.startswith("//") for line in lines[before[1] + 1 : at]
        ):
            found.append((at + 1, "groups of imports out of order"))
        before = (place, end)
    return found


def doubles(names):
    """Modules that are `name.rs` beside `name/`; integration tests know no other way."""
    folders = {name.rsplit("/", 1)[0] for name in names}
    return [name for name in names if "/src/" in name and name.removesuffix(".rs") in folders]


def all_files():
    names = offenders.sources("*.rs")
    found = {}
    for name in names:
        count = len(departures(name, offenders.text_of(name)))
        if count:
            found[name] = count
    for name in doubles(names):
        found[name] = found.get(name, 0) + 1
    return found


if __name__ == "__main__":
    rule = "the dialect is in CONTRIBUTING.md (lint/dialect.py FILE... shows the places)"
    if sys.argv[1:] and not sys.argv[1].startswith("--"):
        for name in sys.argv[1:]:
            for number, what in departures(name, offenders.text_of(name)):
                print(f"{name}:{number}: {what}")
        for name in set(doubles(offenders.sources("*.rs"))) & set(sys.argv[1:]):
            print(f"{name}: stands beside a folder of its name")
    else:
        offenders.main("dialect", rule, "departures", all_files())
