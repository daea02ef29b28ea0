# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Functions of C of more than 70 lines, from the first line of the signature to the closing brace.

Both braces stand at the left edge, as the kernel's style has it. Clippy counts Rust
(`too_many_lines`).
"""

import re

import offenders

LIMIT = 70
NAME = re.compile(r"(\w+)\s*\(")


def ends_before(line):
    """Whether a line is not part of the signature that follows it."""
    return not line or line.startswith(("}", "#")) or line.endswith((";", "*/"))


def functions(text):
    """Name and length of each function of C in the kernel's style: braces at the left edge."""
    lines = text.splitlines()
    for at, line in enumerate(lines):
        if line != "{":
            continue
        begin = at
        while begin > 0 and not ends_before(lines[begin - 1].rstrip()):
            begin -= 1
        signature = " ".join(lines[begin:at])
        name = NAME.search(signature)
        end = next((n for n in range(at, len(lines)) if lines[n].startswith("}")), None)
        if end is None:
            raise ValueError(f"line {at + 1}: a brace has no end")
        if name:
            yield name[1], end - begin + 1


def long_functions(name, text):
    """Functions of a file that are too long, by `file function`."""
    found = {}
    for function, length in functions(text):
        if length > LIMIT:
            key = f"{name} {function}"
            found[key] = max(length, found.get(key, 0))
    return found


def all_files():
    found = {}
    for name in offenders.sources("*.c"):
        try:
            found |= long_functions(name, offenders.text_of(name))
        except ValueError as error:
            raise SystemExit(f"lint: {name}: {error}") from error
    return found


if __name__ == "__main__":
    offenders.main("functions", f"a function has at most {LIMIT} lines", "lines", all_files())
