# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Assertions for each thousand functions of a crate, outside tests, against the floor of the crate
in lint/assertions.toml. `--list` prints what each crate has. `--raise` writes floors that are now
exceeded, adds crates that are new and drops those that are gone; no floor is lowered.

An assertion is `assert!`, `assert_eq!`, `assert_ne!`, or one of these with `debug_` before it.
"""

import re
import sys
import tomllib

import offenders

FLOORS = "lint/assertions.toml"
# Floors are multiples of this, so that a single new function does not fall below one.
STEP = 5
FUNCTION = re.compile(r"^[^/\"\n]*\bfn \w+", re.M)
ASSERTION = re.compile(r"^(?! *//).*?\b(?:debug_)?assert(?:_eq|_ne)?!\s*[(\[{]", re.M)
TESTS = re.compile(
    r"^( *)#\[cfg\(test\)\]\n(?:\1#\[[^\n]*\]\n)*\1(?:pub )?mod (\w+)( \{\n.*?^\1\}|;)",
    re.M | re.S,
)


def without_tests(text):
    """A file without its modules of tests, and the names of those that are files of their own."""
    outside = {found[2] for found in TESTS.finditer(text) if found[3] == ";"}
    return TESTS.sub("", text), outside


def count(files):
    """Functions and assertions outside tests in a crate's `src`, a mapping of names to texts."""
    bare = {}
    skipped = set()
    for name, text in files.items():
        bare[name], outside = without_tests(text)
        folder = re.sub(r"(?:/(?:lib|main|mod))?\.rs$", "", name)
        skipped.update(f"{folder}/{module}" for module in outside)
    functions = assertions = 0
    for name, text in bare.items():
        parents = re.sub(r"(?:/mod)?\.rs$", "", name).split("/")
        if any("/".join(parents[:at]) in skipped for at in range(1, len(parents) + 1)):
            continue
        functions += len(FUNCTION.findall(text))
        assertions += len(ASSERTION.findall(text))
    return functions, assertions


def all_crates():
    """Assertions for each thousand functions, by crate."""
    files = {}
    for name in offenders.sources("crates/*/src/*.rs"):
        files.setdefault(name.split("/")[1], {})[name] = offenders.text_of(name)
    found = {}
    for crate, texts in files.items():
        functions, assertions = count(texts)
        found[crate] = 1000 * assertions // max(functions, 1)
    return found


def judge(found, floors):
    """Complaints about crates that are below their floor or have none."""
    for crate, share in sorted(found.items()):
        if crate not in floors:
            yield f"{crate} has no floor: python3 lint/assertions.py --raise adds it"
        elif share < floors[crate]:
            yield (f"{crate} has {share} assertions for 1,000 functions, its floor is "
                   f"{floors[crate]}: assert what its functions rely on")
    for crate in sorted(set(floors) - set(found)):
        yield f"{crate} is not a crate: python3 lint/assertions.py --raise drops it"


def raised(text, found):
    """The floors with what is now exceeded, what is new and what is gone."""
    floors = tomllib.loads(text)
    remarks = [line for line in text.splitlines() if line.startswith("#")]
    kept = []
    for crate, share in sorted(found.items()):
        kept.append(f"{crate} = {max(floors.get(crate, 0), share // STEP * STEP)}")
    return "\n".join([*remarks, *kept]) + "\n"


if __name__ == "__main__":
    shares = all_crates()
    if sys.argv[1:] == ["--list"]:
        for crate, share in sorted(shares.items()):
            print(share, crate)
        sys.exit(0)
    path = offenders.ROOT / FLOORS
    if sys.argv[1:] == ["--raise"]:
        path.write_text(raised(path.read_text(), shares))
    complaints = list(judge(shares, tomllib.loads(path.read_text())))
    for complaint in complaints:
        print(f"lint: {complaint}", file=sys.stderr)
    sys.exit(1 if complaints else 0)
