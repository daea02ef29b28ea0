# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Lines of more than 100 columns, by file, in Rust, C, sh and Python. Tabs stop at every 8."""

import offenders

LIMIT = 100


def long_lines(text):
    """How many lines are too long."""
    return sum(len(line.expandtabs(8)) > LIMIT for line in text.splitlines())


def sources():
    """Source files of ours: by their ending, or by the first line of a script."""
    named = offenders.tracked("*.rs", "*.c", "*.h", "*.sh", "*.py", "*.S")
    scripts = [
        name
        for name in offenders.tracked()
        if "." not in name.rsplit("/", 1)[-1]
        and (offenders.text_of(name) or "").startswith("#!/bin/sh")
    ]
    return named + scripts


def all_files():
    counts = {name: long_lines(offenders.text_of(name)) for name in sources()}
    return {name: count for name, count in counts.items() if count}


if __name__ == "__main__":
    offenders.main("columns", f"a line has at most {LIMIT} columns", "long lines", all_files())
