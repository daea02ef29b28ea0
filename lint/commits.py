# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Subjects of commits since the one in lint/base: `room: What it does`, at most 72 columns.

A commit that others build upon can no longer be mended; it is in lint/exceptions/commits, with the
columns of its subject.
"""

import re
import subprocess
import sys

import offenders

LIMIT = 72
SUBJECT = re.compile(r"^[a-z0-9][a-z0-9-]*(, [a-z0-9-]+)*: [A-Z`]")


def wrong(subject):
    """What is wrong with a subject, or None."""
    if len(subject) > LIMIT:
        return f"{len(subject)} columns, {LIMIT} is the most"
    if not SUBJECT.match(subject):
        return "is not of the form `room: What it does`"
    if subject.endswith("."):
        return "ends with a full stop"
    return None


def complaints(subjects, listed):
    """What is wrong with subjects, a mapping by commit, but for those listed with their size; and
    what is listed and is not wrong, or not there."""
    found = []
    wrongs = {commit: why for commit, subject in subjects.items() if (why := wrong(subject))}
    for commit, why in wrongs.items():
        if listed.get(commit) != len(subjects[commit]):
            found.append(f"commit {commit[:9]}: {subjects[commit]!r} {why}")
    for commit in sorted(set(listed) - set(wrongs)):
        found.append(f"commit {commit}: no longer at fault, take it off the list")
    return found


def git(*words):
    command = ["git", "-C", str(offenders.ROOT), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    base = (offenders.ROOT / "lint/base").read_text().split()[0]
    if git("merge-base", "--is-ancestor", base, "HEAD").returncode != 0:
        print(f"lint: {base} is not in this clone: subjects of commits are not checked",
              file=sys.stderr)
        sys.exit(0)
    log = git("log", "--no-merges", "--format=%H %s", f"{base}..HEAD").stdout
    named = dict(line.split(maxsplit=1) for line in log.splitlines())
    known = offenders.read_list((offenders.ROOT / "lint/exceptions/commits").read_text())
    bad = complaints(named, known)
    for complaint in bad:
        print(f"lint: {complaint}", file=sys.stderr)
    sys.exit(1 if bad else 0)
