# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the checks share: the files of the project, and lists of exceptions that can only shrink.

A list has a line for each offender that was there when its rule came: its size and its name. A new
offender fails, one that grew fails, and one that shrank or is gone fails until the list says so.
"""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def tracked(*patterns, new=()):
    """Tracked files that match, and are there; paths from the root, sorted."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", *new, "--", *patterns]
    names = subprocess.run(command, check=True, capture_output=True).stdout.decode().split("\0")
    return sorted(name for name in names if name and (ROOT / name).is_file())


def sources(*patterns):
    """The same with files that are new to git. Patterns name kinds of source: what else lies in a
    checkout, such as a trace, is of no concern."""
    return tracked(*patterns, new=["--cached", "--others", "--exclude-standard"])


def text_of(name):
    """A file's text, or None if it is not text."""
    data = (ROOT / name).read_bytes()
    if b"\0" in data[:8000]:
        return None
    return data.decode(errors="replace")


def documents():
    """Markdown and rst that people write: pages that a command writes are left out."""
    written = "<!-- Written by `steady"
    names = sources("*.md", "*.rst")
    return [name for name in names if written not in text_of(name)[:400]]


def scripts():
    """Tracked shell scripts without an ending, by their first line."""
    return [
        name
        for name in tracked()
        if "." not in name.rsplit("/", 1)[-1]
        and (text_of(name) or "").startswith("#!/bin/sh")
    ]


def read_list(text):
    """The entries of a list: `size name`, a line each; `#` begins a remark."""
    entries = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            size, name = line.split(maxsplit=1)
            entries[name] = int(size)
    return entries


def judge(found, listed, unit):
    """Complaints about what was found, a mapping of names to sizes, against a list."""
    complaints = []
    for name, size in sorted(found.items()):
        known = listed.get(name)
        if known is None:
            complaints.append(f"{name}: {size} {unit}")
        elif size > known:
            complaints.append(f"{name}: {size} {unit}, it was {known}")
        elif size < known:
            complaints.append(f"{name}: {size} {unit} now, write that into the list")
    for name in sorted(set(listed) - set(found)):
        complaints.append(f"{name}: no longer at fault, take it off the list")
    return complaints


def shortened(text, found):
    """A list without what is gone, and with what has shrunk; nothing is added, nothing grows."""
    kept = []
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            size, name = line.split(maxsplit=1)
            if name not in found:
                continue
            line = f"{min(int(size), found[name])} {name}"
        kept.append(line)
    return "\n".join(kept) + "\n"


def moved(text, found):
    """A list with every offender where it is now, or None if they are more than before."""
    if sum(found.values()) > sum(read_list(text).values()):
        return None
    remarks = [line for line in text.splitlines() if line.startswith("#")]
    entries = [f"{size} {name}" for name, size in sorted(found.items())]
    return "\n".join([*remarks, *entries]) + "\n"


def main(check, rule, unit, found):
    """Ends the program by the judgement. `--list` prints all offenders instead. `--shorten` writes
    into the list what has shrunk and what is gone. `--moved` writes all, for code that has moved to
    other files, and refuses if the sum has grown."""
    if sys.argv[1:] == ["--list"]:
        for name, size in sorted(found.items()):
            print(size, name)
        sys.exit(0)
    path = ROOT / "lint/exceptions" / check
    before = path.read_text() if path.is_file() else ""
    if sys.argv[1:] == ["--shorten"]:
        path.write_text(shortened(before, found))
    elif sys.argv[1:] == ["--moved"]:
        after = moved(before, found)
        if after is None:
            known = sum(read_list(before).values())
            print(
                f"lint: {check}: {sum(found.values())} {unit}, listed are {known}: fix what is new",
                file=sys.stderr,
            )
        else:
            path.write_text(after)
    listed = read_list(path.read_text()) if path.is_file() else {}
    complaints = judge(found, listed, unit)
    for complaint in complaints:
        print(f"lint: {complaint}", file=sys.stderr)
    if complaints:
        print(f"lint: {rule}; known ones are in lint/exceptions/{check}", file=sys.stderr)
    sys.exit(1 if complaints else 0)
