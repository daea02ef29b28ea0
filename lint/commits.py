# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Subjects of commits since the one in lint/base: `room: What it does`, at most 72 columns."""

import re
import subprocess
import sys

import offenders

LIMIT = 72
SUBJECT = re.compile(r"^[a-z0-9][a-z0-9-]*: [A-Z`]")


def wrong(subject):
    """What is wrong with a subject, or None."""
    if len(subject) > LIMIT:
        return f"{len(subject)} columns, {LIMIT} is the most"
    if not SUBJECT.match(subject):
        return "is not of the form `room: What it does`"
    if subject.endswith("."):
        return "ends with a full stop"
    return None


def git(*words):
    command = ["git", "-C", str(offenders.ROOT), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    base = (offenders.ROOT / "lint/base").read_text().split()[0]
    if git("merge-base", "--is-ancestor", base, "HEAD").returncode != 0:
        print(f"lint: {base} is not in this clone: subjects of commits are not checked",
              file=sys.stderr)
        sys.exit(0)
    log = git("log", "--no-merges", "--format=%h %s", f"{base}..HEAD").stdout
    complaints = 0
    for line in log.splitlines():
        commit, subject = line.split(maxsplit=1)
        if why := wrong(subject):
            print(f"lint: commit {commit}: {subject!r} {why}", file=sys.stderr)
            complaints += 1
    sys.exit(1 if complaints else 0)
