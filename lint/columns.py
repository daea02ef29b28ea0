# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Lines of more than 100 columns, by file, in Rust, C, sh, Python, Markdown and rst.

Pages that a command writes are left out. Tabs stop at every 8. Rows of tables in Markdown are as
long as they are, and the target of a link takes no columns.
"""

import re

import offenders

LIMIT = 100
TARGET = re.compile(r"(?<=\]\()[^)\s]+(?=\))|\bhttps?://\S+")


def long_lines(name, text):
    """How many lines are too long."""
    lines = text.splitlines()
    if name.endswith((".md", ".rst")):
        lines = [TARGET.sub("", line) for line in lines if not line.lstrip().startswith("|")]
    return sum(len(line.expandtabs(8)) > LIMIT for line in lines)


def sources():
    """Source files of ours: by their ending, or by the first line of a script."""
    named = offenders.sources("*.rs", "*.c", "*.h", "*.sh", "*.py", "*.S")
    return named + offenders.documents() + offenders.scripts()


def all_files():
    counts = {name: long_lines(name, offenders.text_of(name)) for name in sources()}
    return {name: count for name, count in counts.items() if count}


if __name__ == "__main__":
    offenders.main("columns", f"a line has at most {LIMIT} columns", "long lines", all_files())
